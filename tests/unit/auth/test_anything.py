"""Whatever is sent: an identity, or a refusal with a reason. Never another error."""

import json
from functools import cache

import anyio
from hypothesis import given
from hypothesis import strategies as st

from bascule.auth import REASONS, JWTAuth, Principal
from bascule.errors import TokenInvalid
from tests.unit.auth.kit import ISSUER, SECRET, App, claims, encoded, guard, request_for, send, token

NUMBERS = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
ODD = st.recursive(
    st.none() | st.booleans() | NUMBERS | st.text() | st.sampled_from([ISSUER, "at+jwt", "HS256"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=8,
)
CLAIMS = st.sampled_from(
    ["iss", "sub", "aud", "exp", "nbf", "iat", "jti", "scope", "scp", "roles", "client_id", "azp", "x"]
)
FIELDS = st.sampled_from(["alg", "typ", "kid", "crit", "b64", "jwk", "jku", "x5c", "zip", "cty", "x"])


@cache
def provider() -> JWTAuth:
    return JWTAuth(secret=SECRET, issuer=ISSUER, algorithms=["HS256"])


def verdict(bearer: str) -> Principal | str:
    """Return the identity, or the reason of the refusal."""

    async def ask() -> Principal:
        return await provider().authenticate(bearer, request_for())

    try:
        return anyio.run(ask)
    except TokenInvalid as error:
        refused = error
    assert refused.reason in REASONS
    assert bearer not in str(refused) or len(bearer) < 12
    return refused.reason


@given(st.dictionaries(CLAIMS, ODD, max_size=4))
def test_signed_claims_of_any_kind(changes: dict[str, object]) -> None:
    payload = json.dumps({**claims(), **changes}).encode()
    found = verdict(token(payload, pair=SECRET, alg="HS256"))
    if isinstance(found, Principal):
        assert found.verified
        assert found.issuer == ISSUER


@given(st.dictionaries(FIELDS, ODD, max_size=4))
def test_headers_of_any_kind(changes: dict[str, object]) -> None:
    raw = json.dumps({"alg": "HS256", "typ": "at+jwt", **changes}).encode()
    found = verdict(token(pair=SECRET, alg="HS256", raw_header=raw))
    assert isinstance(found, Principal) == (
        changes.get("alg", "HS256") == "HS256"
        and str(changes.get("typ", "at+jwt")).lower() in ("at+jwt", "application/at+jwt")
        and "crit" not in changes
        and "b64" not in changes
        and isinstance(changes.get("kid", ""), str)
    )


@given(st.binary(), st.binary(), st.binary())
def test_three_parts_of_any_bytes(head: bytes, body: bytes, signature: bytes) -> None:
    assert isinstance(verdict(b".".join(map(encoded, (head, body, signature))).decode()), str)


@given(st.binary(max_size=200))
def test_any_bytes_as_a_token(data: bytes) -> None:
    async def ask() -> int:
        return (await send(guard().protect(App()), data)).status_code

    assert anyio.run(ask) == 401
