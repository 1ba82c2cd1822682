"""Access tokens in the form of signed JSON Web Tokens (RFC 9068), checked without asking anyone.

What may be accepted is fixed before a token is seen: algorithms, keys, issuers, audience, type. The header of a token
only chooses among these. Its ``jwk``, ``jku``, ``x5u`` and ``x5c`` are never looked at.
"""

import re
from base64 import urlsafe_b64decode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from bascule.auth._claims import ClaimPolicy, principal_from
from bascule.auth._fetch import check_url, fetch_document
from bascule.auth._json import strict_object
from bascule.auth._jwks import Fetch, RemoteKeys
from bascule.auth._keys import KeySet, VerifyKey, check_algorithms, public_keys, secret_keys
from bascule.auth._provider import TokenRequest
from bascule.auth._reasons import refuse
from bascule.context import Principal
from bascule.errors import ConfigurationError

if TYPE_CHECKING:
    from jwt import PyJWS

__all__ = ["ACCESS_TOKEN_TYPE", "JWTAuth"]

ACCESS_TOKEN_TYPE = "at+jwt"  # the type of a token, RFC 9068 section 2.1
KID_LIMIT = 256

_COMPACT = re.compile(r"[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]*", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Header:
    algorithm: str
    kid: str | None
    type: str


class JWTAuth:
    """Accepts the access tokens of issuers whose keys are known.

    Args:
        secret: a secret shared with the issuer, for HS256, HS384, HS512; as long as the hash at least (32, 48, 64
            bytes).
        key: the issuer's public key: PEM, a JWK, or a JWK set.
        jwks_url: where the issuer publishes its JWK set. https, or http on this machine; redirects are not followed.
        issuer: accepted ``iss``, one or several that share the keys; compared byte for byte.
        audience: accepted ``aud``, one or several; ``None``, alone or among them, stands for the resource that was
            asked for, such as ``https://example.org/mcp``.
        algorithms: accepted signatures. The header of a token never widens them.
        typ: accepted ``typ`` of the token header, without ``application/`` and whatever the case. Many identity
            providers mark their access tokens ``JWT``: add it for them. ``""`` stands for a token without ``typ``.
        roles_claim: the claim that lists roles.
        name: the provider's name in ``Principal.provider`` and in logs.
        jwks_ttl: seconds for which fetched keys are trusted.
        jwks_cooldown: least seconds between two fetches caused by unknown key ids.
        private_network: whether ``jwks_url`` may lead into a private network.
        fetch_jwks: reads the JWK set in place of the built-in client, for instance through a proxy. It returns the
            body, or raises ``AuthUnavailable``.

    Raises:
        ConfigurationError: not exactly one source of keys, or settings under which anyone could sign.
    """

    def __init__(
        self,
        *,
        secret: str | bytes | None = None,
        key: str | bytes | Mapping[str, object] | None = None,
        jwks_url: str | None = None,
        issuer: str | Sequence[str],
        audience: str | Sequence[str | None] | None = None,
        algorithms: Sequence[str],
        typ: Sequence[str] = (ACCESS_TOKEN_TYPE,),
        roles_claim: str = "roles",
        name: str = "jwt",
        jwks_ttl: float = 300.0,
        jwks_cooldown: float = 30.0,
        private_network: bool = False,
        fetch_jwks: Fetch | None = None,
    ) -> None:
        if sum(source is not None for source in (secret, key, jwks_url)) != 1:
            raise ConfigurationError("JWTAuth needs exactly one of secret=, key= and jwks_url=.")
        self._algorithms = check_algorithms(algorithms, symmetric=secret is not None)
        self._name = name
        self._types = frozenset(_media_type(item) for item in _texts(typ, "typ"))
        self._policy = ClaimPolicy(
            provider=name,
            issuers=_texts(issuer, "issuer"),
            audiences=_audiences(audience),
            roles_claim=roles_claim,
        )
        self._jws: PyJWS | None = None
        self._keys: KeySet | RemoteKeys
        if jwks_url is not None:
            url = check_url(jwks_url, private_network=private_network)
            fetch = fetch_jwks or partial(fetch_document, private_network=private_network)
            self._keys = RemoteKeys(url, algorithms=self._algorithms, fetch=fetch, ttl=jwks_ttl, cooldown=jwks_cooldown)
        elif key is not None:
            self._keys = public_keys(key, self._algorithms)
        elif secret is not None:
            self._keys = secret_keys(secret, self._algorithms)

    @property
    def name(self) -> str:
        """The provider's name."""
        return self._name

    def authorization_servers(self) -> Sequence[str]:
        """Return the issuers that are URLs, as RFC 9728 section 2 lists them."""
        return [issuer for issuer in self._policy.issuers if issuer.startswith(("https://", "http://"))]

    def trusted_until(self, principal: Principal, now: float) -> float:
        """Return when the token expires, or when the keys have to be read again if that is earlier."""
        expires_at = now if principal.expires_at is None else principal.expires_at
        return min(expires_at, self._keys.trusted_until) if isinstance(self._keys, RemoteKeys) else expires_at

    async def authenticate(self, token: str, request: TokenRequest) -> Principal:
        """Return the identity in the token.

        Raises:
            TokenInvalid: the token is not accepted, with the reason.
            AuthUnavailable: the issuer's keys are not known and cannot be fetched now.
        """
        header = _header(token)
        self._check_header(header)
        found: VerifyKey | None
        if isinstance(self._keys, RemoteKeys):
            found = await self._keys.find(header.kid, header.algorithm, request.now)
        else:
            found = self._keys.find(header.kid, header.algorithm)
        if found is None:
            raise refuse("key_not_found", f"The issuer has no key {header.kid!r:.80} for {header.algorithm}.")
        return principal_from(self._claims(token, found), self._policy, request)

    def _check_header(self, header: _Header) -> None:
        if header.algorithm not in self._algorithms:
            raise refuse(
                "algorithm_not_allowed",
                f"The token is signed with {header.algorithm!r:.40}; accepted: {', '.join(self._algorithms)}.",
            )
        if _media_type(header.type) not in self._types:
            accepted = ", ".join(sorted(self._types))
            raise refuse("wrong_type", f"The token has typ {header.type!r:.40}; accepted: {accepted} (JWTAuth typ=).")

    def _claims(self, token: str, key: VerifyKey) -> dict[str, object]:
        from jwt import InvalidSignatureError, PyJWS, PyJWTError  # heavy, and needed only where a token is verified

        if self._jws is None:
            self._jws = PyJWS(algorithms=list(self._algorithms), options={"enforce_minimum_key_length": True})
        try:
            payload = self._jws.decode_complete(token, key.key, algorithms=[key.algorithm])["payload"]
        except InvalidSignatureError:
            raise refuse("bad_signature", "The signature does not fit the issuer's key.") from None
        except (PyJWTError, ValueError):
            raise refuse("malformed", "The token is not a signed JWT.") from None
        try:
            return strict_object(payload)
        except ValueError as error:
            raise refuse("malformed", f"The claims of the token cannot be read: {error}.") from None


def _texts(value: str | Sequence[str], where: str) -> tuple[str, ...]:
    texts = (value,) if isinstance(value, str) else tuple(value)
    empty_allowed = where == "typ"
    if not texts or not (empty_allowed or all(texts)):
        raise ConfigurationError(f"JWTAuth {where}= is empty. Without it, tokens meant for others would be accepted.")
    return texts


def _audiences(value: str | Sequence[str | None] | None) -> tuple[str | None, ...]:
    if value is None or isinstance(value, str):
        return (None,) if value is None else _texts(value, "audience")
    named = [item for item in value if item is not None]
    return tuple(value) if len(value) > len(named) and all(named) else _texts(named, "audience")


def _media_type(value: str) -> str:
    return value.lower().removeprefix("application/")  # RFC 7515 section 4.1.9


def _header(token: str) -> _Header:
    """Read the header of a token whose signature is not verified yet."""
    if not _COMPACT.fullmatch(token):
        raise refuse("malformed", "The token is not a signed JWT: three parts, joined by dots, are expected.")
    encoded = token.partition(".")[0]
    try:
        header = strict_object(urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4)))
    except ValueError as error:
        raise refuse("malformed", f"The header of the token cannot be read: {error}.") from None
    algorithm, kid, kind = header.get("alg"), header.get("kid"), header.get("typ", "")
    if "crit" in header or "b64" in header:
        raise refuse("critical_header", "The token header has extensions (crit) that are not supported.")
    if not isinstance(algorithm, str) or not isinstance(kind, str):
        raise refuse("malformed", "The token header needs alg and typ as texts.")
    if "kid" in header and not (isinstance(kid, str) and len(kid) <= KID_LIMIT):
        raise refuse("malformed", f"The key id (kid) of the token is not a text of at most {KID_LIMIT} characters.")
    return _Header(algorithm=algorithm, kid=kid if isinstance(kid, str) else None, type=kind)
