"""Keys that verify signatures, each bound to one algorithm before any token is seen (RFC 8725 section 3.1)."""

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from bascule.errors import ConfigurationError

if TYPE_CHECKING:
    from jwt.algorithms import AllowedPublicKeys

__all__ = ["KeySet", "VerifyKey", "check_algorithms", "keys_of_set", "public_keys", "secret_keys"]

logger = logging.getLogger(__name__)

# Algorithm to the type of its key and the curves that fit (RFC 7518 section 3.1, RFC 8037, RFC 8812).
ASYMMETRIC: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "RS256": ("RSA", ()),
    "RS384": ("RSA", ()),
    "RS512": ("RSA", ()),
    "PS256": ("RSA", ()),
    "PS384": ("RSA", ()),
    "PS512": ("RSA", ()),
    "ES256": ("EC", ("P-256",)),
    "ES384": ("EC", ("P-384",)),
    "ES512": ("EC", ("P-521",)),
    "ES256K": ("EC", ("secp256k1",)),
    "EdDSA": ("OKP", ("Ed25519", "Ed448")),
}
SECRET_BYTES: Mapping[str, int] = {"HS256": 32, "HS384": 48, "HS512": 64}
KEY_LIMIT = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyKey:
    """A key and the one algorithm that it is used with."""

    kid: str | None
    algorithm: str
    key: "AllowedPublicKeys | bytes"


@dataclass(frozen=True, slots=True)
class KeySet:
    """The keys that are trusted now."""

    keys: tuple[VerifyKey, ...]
    named: bool = True

    def find(self, kid: str | None, algorithm: str) -> VerifyKey | None:
        """Return the key for a token header.

        A token without ``kid`` is given a key only when there is no choice. A set with one key that was configured by
        hand (``named`` is false) ignores ``kid``.
        """
        fitting = [key for key in self.keys if key.algorithm == algorithm]
        if self.named and kid is not None:
            fitting = [key for key in fitting if key.kid == kid]
            return fitting[0] if fitting else None
        return fitting[0] if len(fitting) == 1 else None


def check_algorithms(algorithms: Sequence[str], *, symmetric: bool) -> tuple[str, ...]:
    """Return the algorithms that a verifier may use.

    Raises:
        ConfigurationError: none is named, one is unknown or ``none``, or one does not fit the kind of key: a public
            key used as an HMAC secret lets anyone sign (RFC 8725 section 2.1).
    """
    if isinstance(algorithms, str):
        raise ConfigurationError(f"algorithms is the text {algorithms!r}. Give a list: algorithms=[{algorithms!r}].")
    names = tuple(dict.fromkeys(algorithms))
    if not names:
        raise ConfigurationError("algorithms is empty. Name the ones that your issuer signs with, such as ['RS256'].")
    known = SECRET_BYTES if symmetric else ASYMMETRIC
    for name in names:
        if name not in known:
            kind = "a secret" if symmetric else "a public key or JWKS"
            raise ConfigurationError(f"Algorithm {name!r} cannot be used with {kind}. Choose from {', '.join(known)}.")
    return names


def secret_keys(secret: str | bytes, algorithms: Sequence[str]) -> KeySet:
    """Return the key set of a shared secret.

    Raises:
        ConfigurationError: the secret is shorter than the hash (RFC 7518 section 3.2), or it is a public key,
            certificate or JWK.
    """
    from jwt import InvalidKeyError  # heavy, and needed only where a token is verified
    from jwt.algorithms import HMACAlgorithm

    data = secret.encode("utf-8") if isinstance(secret, str) else bytes(secret)
    needed = max(SECRET_BYTES[name] for name in algorithms)
    if len(data) < needed:
        raise ConfigurationError(f"The secret has {len(data)} bytes and needs {needed}: `openssl rand -hex {needed}`.")
    try:
        HMACAlgorithm(HMACAlgorithm.SHA256).prepare_key(data)
    except InvalidKeyError:
        raise ConfigurationError("The secret is a key, a certificate or a JWK. Pass it as key=, not secret=.") from None
    return KeySet(tuple(VerifyKey(kid=None, algorithm=name, key=data) for name in algorithms), named=False)


def public_keys(key: str | bytes | Mapping[str, object], algorithms: Sequence[str]) -> KeySet:
    """Return the key set of one public key (PEM or JWK), or of a JWK set given as a mapping.

    Raises:
        ConfigurationError: the key cannot be read, is private, too short, or does not fit the algorithms.
    """
    if isinstance(key, Mapping):
        if "keys" in key:
            found = keys_of_set(key, algorithms)
            if not found.keys:
                raise ConfigurationError(f"The JWK set has no public key for {', '.join(algorithms)}.")
            return found
        if unfit := _unfit(key, algorithms):
            raise ConfigurationError(f"The JWK cannot be used: {unfit}.")
        return KeySet(tuple(_verify_key(key, name) for name in algorithms if not _unfit(key, [name])), named=False)
    return KeySet(tuple(_pem_key(key, name) for name in algorithms), named=False)


def keys_of_set(document: Mapping[str, object], algorithms: Sequence[str]) -> KeySet:
    """Return the usable keys of a JWK set (RFC 7517 section 5); a key that cannot be used does not spoil the others.

    Raises:
        ValueError: not a JWK set, or one with more than 100 keys.
    """
    listed = document.get("keys")
    if not isinstance(listed, list):
        raise ValueError("it has no list of keys")
    members = cast("list[object]", listed)
    if len(members) > KEY_LIMIT:
        raise ValueError(f"it has {len(members)} keys, more than {KEY_LIMIT}")
    return KeySet(tuple(_usable(members, algorithms)))


def _usable(members: Iterable[object], algorithms: Sequence[str]) -> Iterable[VerifyKey]:
    for position, member in enumerate(members):
        jwk: Mapping[str, object] = cast("dict[str, object]", member) if isinstance(member, dict) else {}
        unfit = _unfit(jwk, algorithms)
        if unfit is None:
            try:
                yield from [_verify_key(jwk, name) for name in algorithms if _unfit(jwk, [name]) is None]
            except ConfigurationError as error:
                unfit = str(error)
        if unfit is not None:
            logger.debug("key %d of the JWK set is not used: %s", position, unfit)


def _unfit(jwk: Mapping[str, object], algorithms: Sequence[str]) -> str | None:
    """Return why a JWK verifies with none of the algorithms, ``None`` when it does with one (RFC 7517 section 4)."""
    operations = jwk.get("key_ops")
    kid = jwk.get("kid")
    if "d" in jwk or jwk.get("kty") == "oct":
        return "it is not a public key"
    if jwk.get("use") not in (None, "sig"):
        return f"its use is {jwk['use']!r:.40}"
    if operations is not None and not (isinstance(operations, list) and "verify" in operations):
        return "its key_ops do not contain verify"
    if kid is not None and not isinstance(kid, str):
        return "its kid is not a text"
    for name in algorithms:
        kty, curves = ASYMMETRIC[name]
        bound = jwk.get("alg") in (None, name)
        if jwk.get("kty") == kty and bound and (not curves or jwk.get("crv") in curves):
            return None
    return f"it does not fit {', '.join(algorithms)}"


def _verify_key(jwk: Mapping[str, object], algorithm: str) -> VerifyKey:
    from jwt import PyJWK, PyJWTError  # heavy, and needed only where a token is verified

    try:
        made = PyJWK(dict(jwk), algorithm)
    except (PyJWTError, ValueError, TypeError, KeyError, AttributeError, OverflowError) as error:
        raise ConfigurationError(f"The JWK cannot be used: {type(error).__name__}.") from None
    key = cast("AllowedPublicKeys", made.key)
    _check_length(made.Algorithm.check_key_length(key))
    return VerifyKey(kid=cast("str | None", jwk.get("kid")), algorithm=algorithm, key=key)


def _pem_key(pem: str | bytes, algorithm: str) -> VerifyKey:
    from jwt import PyJWTError  # heavy, and needed only where a token is verified
    from jwt.algorithms import get_default_algorithms

    made = get_default_algorithms()[algorithm]
    try:
        key = made.prepare_key(pem)
    except (PyJWTError, ValueError, TypeError):
        raise ConfigurationError(f"The key is not a public key in PEM for {algorithm}.") from None
    if hasattr(key, "private_bytes"):
        raise ConfigurationError("The key is a private key. A server that verifies tokens needs the public one only.")
    _check_length(made.check_key_length(key))
    return VerifyKey(kid=None, algorithm=algorithm, key=key)


def _check_length(complaint: str | None) -> None:
    if complaint is not None:
        raise ConfigurationError(f"The key is too short: {complaint}")
