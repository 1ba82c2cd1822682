"""The rules for the claims of a verified token: a pure function of claims, configuration and a clock.

The signature has been checked before. What remains is RFC 7519 section 4.1, RFC 9068 sections 2.2 and 4, and RFC 8707
section 3: for whom, from whom, and when. A claim of another type than expected refuses the token; nothing is converted.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, cast

from bascule.auth._identity import principal_id
from bascule.auth._provider import TokenRequest
from bascule.auth._reasons import refuse
from bascule.context import Principal

__all__ = ["ClaimPolicy", "canonical_resource", "principal_from"]

LAST_SECOND = 253402300799  # the last second of the year 9999
TEXT_LIMIT = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimPolicy:
    """What a token must say.

    Attributes:
        provider: name that the principal carries.
        issuers: accepted values of ``iss``, compared byte for byte.
        audiences: accepted values of ``aud``, compared byte for byte; ``None`` is the resource that was asked for.
        roles_claim: the claim with the list of roles.
    """

    provider: str
    issuers: tuple[str, ...]
    audiences: tuple[str | None, ...] = (None,)
    roles_claim: str = "roles"


def principal_from(claims: Mapping[str, object], policy: ClaimPolicy, request: TokenRequest) -> Principal:
    """Return the identity that the claims describe.

    Raises:
        TokenInvalid: a claim is missing, malformed, or says that the token is not meant for here and now.
    """
    issuer = _issuer(claims, policy)
    _check_audience(claims, policy, request)
    expires_at = _check_times(claims, request)
    if "cnf" in claims:
        # RFC 9449 section 7.1: a bound token without its proof is not a bearer token.
        raise refuse("proof_of_possession_required", "The token is bound to a key (cnf), and is not a bearer token.")
    subject = _text(claims, "sub")
    client_id = _text(claims, "client_id" if "client_id" in claims else "azp", required=False)
    # RFC 9068 section 2.2: with client credentials, the subject is the client.
    kind: Literal["user", "client"] = "client" if client_id == subject else "user"
    return Principal(
        id=principal_id(kind, issuer, subject),
        kind=kind,
        provider=policy.provider,
        issuer=issuer,
        subject=subject,
        client_id=client_id,
        scopes=_scopes(claims),
        roles=frozenset(_names(claims, policy.roles_claim)),
        claims=dict(claims),
        expires_at=expires_at,
    )


def canonical_resource(uri: str) -> str:
    """Return a resource identifier with scheme and host in lower case and no slash at the end."""
    scheme, separator, rest = uri.partition("://")
    if not separator:
        return uri
    host, slash, path = rest.partition("/")
    return f"{scheme.lower()}://{host.lower()}{slash}{path}".removesuffix("/")


def _issuer(claims: Mapping[str, object], policy: ClaimPolicy) -> str:
    issuer = _text(claims, "iss")
    if issuer not in policy.issuers:
        raise refuse(
            "wrong_issuer", f"The token was issued by {issuer!r:.120}, and not by {' or '.join(policy.issuers)}."
        )
    return issuer


def _check_audience(claims: Mapping[str, object], policy: ClaimPolicy, request: TokenRequest) -> None:
    value = claims.get("aud")
    if value is None:
        raise refuse("missing_claim", "The token has no audience (aud). Ask for one with the resource parameter.")
    audiences = [value] if isinstance(value, str) else _list_of_text(value, "aud")
    good = any(audience in policy.audiences for audience in audiences)
    if not good and None in policy.audiences:
        own = canonical_resource(request.resource)
        good = any(canonical_resource(audience) == own for audience in audiences)
    if not good:
        expected = " or ".join(audience or request.resource for audience in policy.audiences)
        raise refuse("wrong_audience", f"The token is for {audiences!r:.120}, and not for {expected}.")


def _check_times(claims: Mapping[str, object], request: TokenRequest) -> float:
    expires_at = _time(claims, "exp")
    issued_at = _time(claims, "iat")
    not_before = _time(claims, "nbf") if "nbf" in claims else issued_at
    if expires_at <= request.now - request.leeway:
        raise refuse("expired", f"The token expired {_ago(request.now - expires_at)} ago. Get a new one.")
    if not_before > request.now + request.leeway:
        raise refuse("not_yet_valid", f"The token is valid only in {_ago(not_before - request.now)} (nbf).")
    if issued_at > request.now + request.leeway:
        raise refuse("issued_in_future", "The token was issued in the future (iat). Compare the clocks.")
    return expires_at


def _ago(seconds: float) -> str:
    return f"{math.ceil(seconds)} s"


def _time(claims: Mapping[str, object], name: str) -> float:
    value = claims.get(name)
    if value is None:
        raise refuse("missing_claim", f"The token has no claim {name}.")
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= LAST_SECOND:
        raise refuse("invalid_claim", f"The claim {name} is not a time in seconds.")
    return float(value)


def _text(claims: Mapping[str, object], name: str, *, required: bool = True) -> str:
    value = claims.get(name)
    if value is None:
        if required:
            raise refuse("missing_claim", f"The token has no claim {name}.")
        return ""
    if not isinstance(value, str) or not 0 < len(value) <= TEXT_LIMIT or not value.isprintable():
        raise refuse("invalid_claim", f"The claim {name} is not a text of 1 to {TEXT_LIMIT} printable characters.")
    return value


def _list_of_text(value: object, name: str) -> list[str]:
    items = cast("list[object]", value) if isinstance(value, list) else [None]
    texts = [item for item in items if isinstance(item, str)]
    if len(texts) != len(items):
        raise refuse("invalid_claim", f"The claim {name} is neither a text nor a list of texts.")
    return texts


def _names(claims: Mapping[str, object], name: str) -> list[str]:
    return [] if claims.get(name) is None else _list_of_text(claims[name], name)


def _scopes(claims: Mapping[str, object]) -> frozenset[str]:
    # RFC 9068 section 2.2.3 says `scope`, a text; `scp`, a text or a list, is what Entra and Okta send.
    name = "scope" if claims.get("scope") is not None else "scp"
    value = claims.get(name)
    if isinstance(value, str):
        return frozenset(value.split())
    return frozenset(_names(claims, name))
