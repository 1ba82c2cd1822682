"""Attacks on the verification of a token; each goes through the whole layer, as a request."""

import json
from base64 import b64encode

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from tests.unit.auth.kit import (
    ISSUER,
    NOW,
    RESOURCE,
    SECRET,
    App,
    Clock,
    claims,
    encoded,
    guard,
    jwk,
    jwk_set,
    jwt_auth,
    key,
    reason,
    send,
    token,
)


async def refused(bearer: str | bytes, **settings: object) -> str:
    """Send a token to a protected app, and return the reason for which it is refused."""
    app = App()
    response = await send(guard(jwt_auth(**settings)).protect(app), bearer)
    assert (response.status_code, app.seen) == (401, [])
    assert 'error="invalid_token"' in response.headers["www-authenticate"]
    sent = bearer.decode("latin-1") if isinstance(bearer, bytes) else bearer
    assert len(sent) < 12 or sent not in response.text + response.headers["www-authenticate"]
    return reason(response)


async def accepted(bearer: str, **settings: object) -> App:
    app = App()
    response = await send(guard(jwt_auth(**settings)).protect(app), bearer)
    assert response.status_code == 200, response.text
    return app


async def test_a_good_token_gives_a_principal() -> None:
    [principal] = (await accepted(token(claims(roles=["editor"])))).seen
    assert (principal.kind, principal.provider, principal.issuer, principal.subject, principal.client_id) == (
        "user",
        "jwt",
        ISSUER,
        "alice",
        "app",
    )
    assert principal.scopes == {"mcp:read", "mcp:tools"}
    assert principal.roles == {"editor"}
    assert principal.expires_at == NOW + 600
    assert principal.claims["aud"] == RESOURCE


@pytest.mark.parametrize(
    "bearer",
    [b"", b" ", b"random", b".", b"..", b"...", b"a.b", b"a.b.c", b"a.b.c.d.e", "tök.en.ü".encode(), b"\xff\xfe.a.b",
     b"two words", b'"quoted"', b"Bearer x.y.z", b"e30.e30.", b"bnVsbA.bnVsbA.AA", b"W10.e30.AA"],
)  # fmt: skip
async def test_d02_what_is_not_a_token_is_malformed(bearer: bytes) -> None:
    assert await refused(bearer) == "malformed"


@pytest.mark.parametrize("bearer", ["${BASCULE_TOKEN}", "$TOKEN", "{{token}}", "<your-token>", "%TOKEN%", "{token}"])
async def test_an_unexpanded_placeholder_is_named_as_such(bearer: str) -> None:
    assert await refused(bearer) == "unexpanded_placeholder"


@pytest.mark.parametrize("alg", ["none", "None", "nOnE", "NONE", ""])
@pytest.mark.parametrize("signature", [b"", b"AAAA"])
async def test_d03_an_unsigned_token_is_refused(alg: str, signature: bytes) -> None:
    header = json.dumps({"alg": alg, "typ": "at+jwt", "kid": "rsa"}).encode()
    bearer = b".".join((encoded(header), encoded(json.dumps(claims()).encode()), signature))
    assert await refused(bearer) == "algorithm_not_allowed"


async def test_d03_a_token_without_signature_is_refused() -> None:
    assert await refused(token().rpartition(".")[0] + ".") == "bad_signature"


@pytest.mark.parametrize("form", ["pem", "pem without newline", "der", "jwk"])
async def test_d04_a_public_key_is_not_a_secret(form: str) -> None:
    public = key().public_key
    pem = public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    secret = {
        "pem": pem,
        "pem without newline": pem.strip(),
        "der": public.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo),
        "jwk": json.dumps(jwk(key())).encode(),
    }[form]
    forged = token(pair=secret, alg="HS256", header={"kid": "rsa"})
    assert await refused(forged) == "algorithm_not_allowed"
    assert await refused(forged, key=pem) == "algorithm_not_allowed"


async def test_d05_another_key_under_the_same_id_is_refused() -> None:
    assert await refused(token(pair=key("thief"), header={"kid": "rsa"})) == "bad_signature"


async def test_d05_a_changed_payload_is_refused() -> None:
    head, _, signature = token().split(".")
    changed = encoded(json.dumps(claims(sub="mallory")).encode()).decode()
    assert await refused(f"{head}.{changed}.{signature}") == "bad_signature"


async def test_d06_a_key_in_the_header_is_not_used() -> None:
    thief = key("thief")
    assert await refused(token(pair=thief, header={"jwk": jwk(thief), "kid": "rsa"})) == "bad_signature"
    assert await refused(token(pair=thief, header={"jwk": jwk(thief), "kid": "thief"})) == "key_not_found"


@pytest.mark.parametrize("crit", [["exp"], ["b64"], [], "b64", None, ["unknown"]])
async def test_d10_critical_extensions_are_refused(crit: object) -> None:
    header = {"alg": "RS256", "typ": "at+jwt", "kid": "rsa", "crit": crit, "unknown": 1}
    assert await refused(token(raw_header=json.dumps(header).encode())) == "critical_header"
    assert await refused(token(header={"b64": False})) == "critical_header"


async def test_d11_an_id_token_is_not_an_access_token() -> None:
    id_token = claims(aud="client-of-the-issuer")
    assert await refused(token(id_token, header={"typ": "JWT"})) == "wrong_type"
    assert await refused(token(id_token, header={"typ": "JWT"}), typ=["at+jwt", "JWT"]) == "wrong_audience"


@pytest.mark.parametrize("typ", [None, "", "JWT", "jwt", "dpop+jwt", "oauth-id-jag+jwt", "at+jwt ", "logout+jwt"])
async def test_d11_the_type_has_to_be_an_access_token(typ: str | None) -> None:
    assert await refused(token(header={"typ": typ})) == "wrong_type"


@pytest.mark.parametrize("typ", ["at+jwt", "AT+JWT", "application/at+jwt"])
async def test_the_type_is_a_media_type(typ: str) -> None:
    await accepted(token(header={"typ": typ}))


async def test_other_types_can_be_allowed_by_configuration() -> None:
    await accepted(token(header={"typ": "JWT"}), typ=["at+jwt", "JWT"])
    await accepted(token(header={"typ": None}), typ=[""])


@pytest.mark.parametrize("header", [{"typ": 1}, {"typ": ["at+jwt"]}, {"alg": ["RS256"]}, {"kid": 7}, {"kid": ["rsa"]},
                                    {"kid": None}, {"kid": "k" * 300}])  # fmt: skip
async def test_header_fields_of_the_wrong_type_are_malformed(header: dict[str, object]) -> None:
    raw = json.dumps({"alg": "RS256", "typ": "at+jwt", "kid": "rsa", **header}).encode()
    assert await refused(token(raw_header=raw)) == "malformed"


@pytest.mark.requirement("F66")
@pytest.mark.parametrize(
    ("exp", "expected"),
    [
        (NOW - 31, "expired"),
        (0, "expired"),
        (None, "missing_claim"),
        (str(NOW + 600), "invalid_claim"),
        (True, "invalid_claim"),
        (-1, "invalid_claim"),
        (1e308, "invalid_claim"),
        ([NOW + 600], "invalid_claim"),
        ({}, "invalid_claim"),
    ],
)
async def test_d12_the_expiry_is_a_time_in_the_future(exp: object, expected: str) -> None:
    assert await refused(token(claims(exp=exp))) == expected


@pytest.mark.parametrize(
    ("literal", "expected"),
    [(b"NaN", "malformed"), (b"Infinity", "malformed"), (b"-Infinity", "malformed"), (b"1e400", "invalid_claim"),
     (b"9" * 5000, "malformed"), (b"null", "missing_claim"), (b"1e999999999", "invalid_claim")],
)  # fmt: skip
async def test_d12_odd_numbers_are_refused(literal: bytes, expected: str) -> None:
    payload = json.dumps(claims(exp="?")).encode().replace(b'"?"', literal)
    assert await refused(token(payload)) == expected


async def test_the_expiry_has_a_leeway() -> None:
    await accepted(token(claims(exp=NOW - 29, iat=NOW - 600)))


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"nbf": NOW + 31}, "not_yet_valid"),
        ({"iat": NOW + 31, "nbf": NOW}, "issued_in_future"),
        ({"iat": NOW + 31}, "not_yet_valid"),
        ({"iat": None}, "missing_claim"),
        ({"iat": "now"}, "invalid_claim"),
        ({"iat": True}, "invalid_claim"),
        ({"nbf": "soon"}, "invalid_claim"),
        ({"nbf": 1e300}, "invalid_claim"),
    ],
)
async def test_d13_a_token_of_the_future_is_refused(changes: dict[str, object], expected: str) -> None:
    assert await refused(token(claims(**changes))) == expected


async def test_d13_clocks_may_differ_by_the_leeway() -> None:
    await accepted(token(claims(nbf=NOW + 29, iat=NOW + 29)))


@pytest.mark.requirement("F32", "F67")
@pytest.mark.parametrize(
    ("issuer", "expected"),
    [
        ("https://other.example", "wrong_issuer"),
        (f"{ISSUER}/", "wrong_issuer"),
        (ISSUER.upper(), "wrong_issuer"),
        (f"{ISSUER}:443", "wrong_issuer"),
        (f"{ISSUER} ", "wrong_issuer"),
        (None, "missing_claim"),
        ("", "invalid_claim"),
        ([ISSUER], "invalid_claim"),
        ({"iss": ISSUER}, "invalid_claim"),
        (1, "invalid_claim"),
    ],
)
async def test_d14_the_issuer_is_compared_byte_for_byte(issuer: object, expected: str) -> None:
    assert await refused(token(claims(iss=issuer))) == expected


async def test_d14_an_issuer_with_a_slash_is_kept_as_configured() -> None:
    [principal] = (await accepted(token(claims(iss=f"{ISSUER}/")), issuer=f"{ISSUER}/")).seen
    assert principal.issuer == f"{ISSUER}/"
    assert await refused(token(), issuer=f"{ISSUER}/") == "wrong_issuer"


@pytest.mark.requirement("F32", "F67")
@pytest.mark.parametrize(
    ("audience", "expected"),
    [
        ("https://other.example/mcp", "wrong_audience"),
        (f"{RESOURCE}.evil.test", "wrong_audience"),
        ("https://tools.example.org.evil.test/mcp", "wrong_audience"),
        ("https://tools.example.org", "wrong_audience"),
        (f"{RESOURCE}/deeper", "wrong_audience"),
        (f"{RESOURCE}?x", "wrong_audience"),
        ("http://tools.example.org/mcp", "wrong_audience"),
        ("https://tools.example.org/MCP", "wrong_audience"),
        ("https://tools.exam\nple.org/mcp", "wrong_audience"),
        ("", "wrong_audience"),
        ([], "wrong_audience"),
        (["https://other.example"], "wrong_audience"),
        (None, "missing_claim"),
        ({RESOURCE: True}, "invalid_claim"),
        ([RESOURCE, 1], "invalid_claim"),
        ([[RESOURCE]], "invalid_claim"),
        (7, "invalid_claim"),
        (False, "invalid_claim"),
    ],
)
async def test_d15_the_audience_is_this_resource(audience: object, expected: str) -> None:
    assert await refused(token(claims(aud=audience))) == expected


@pytest.mark.parametrize(
    "audience",
    [RESOURCE, [RESOURCE], ["https://other.example", RESOURCE], "HTTPS://Tools.Example.ORG/mcp", f"{RESOURCE}/"],
)
async def test_several_audiences_and_spellings_of_the_resource_are_accepted(audience: object) -> None:
    await accepted(token(claims(aud=audience)))


async def test_a_configured_audience_is_compared_byte_for_byte() -> None:
    await accepted(token(claims(aud="api://tools")), audience="api://tools")
    await accepted(token(claims(aud="api://tools")), audience=["x", "api://tools"])
    assert await refused(token(claims(aud="api://Tools")), audience="api://tools") == "wrong_audience"
    assert await refused(token(claims(aud="api://tools/")), audience="api://tools") == "wrong_audience"
    assert await refused(token(), audience="api://tools") == "wrong_audience"


async def test_d16_a_token_for_a_sibling_resource_is_refused() -> None:
    app = App()
    protected = guard(jwt_auth(), resources=["/mcp-a", "/mcp-b", "/api"]).protect(app)
    bearer = token(claims(aud="https://tools.example.org/mcp-a"))
    statuses = {
        path: (await send(protected, bearer, path=path)).status_code
        for path in ("/mcp-a", "/mcp-a/", "/mcp-a/x", "/mcp-b", "/mcp-ax", "/api/agents", "/chat/tutor", "/")
    }
    assert statuses == {
        "/mcp-a": 200,
        "/mcp-a/": 200,
        "/mcp-a/x": 200,
        "/mcp-b": 401,
        "/mcp-ax": 401,
        "/api/agents": 401,
        "/chat/tutor": 401,
        "/": 401,
    }


async def test_d16_one_resource_covers_the_whole_app() -> None:
    protected = guard().protect(App())
    assert [(await send(protected, token(), path=path)).status_code for path in ("/mcp", "/api/agents", "/chat/x")] == [
        200,
        200,
        200,
    ]


@pytest.mark.parametrize(
    ("changes", "scopes"),
    [
        ({"scope": "mcp:tools  a"}, {"mcp:tools", "a"}),
        ({"scope": ["mcp:tools", "a"]}, {"mcp:tools", "a"}),
        ({"scope": None, "scp": "mcp:tools a"}, {"mcp:tools", "a"}),
        ({"scope": None, "scp": ["mcp:tools", "a"]}, {"mcp:tools", "a"}),
    ],
)
async def test_d17_scopes_are_a_text_or_a_list(changes: dict[str, object], scopes: set[str]) -> None:
    [principal] = (await accepted(token(claims(**changes)))).seen
    assert principal.scopes == scopes


@pytest.mark.parametrize("name", ["scope", "scp"])
@pytest.mark.parametrize("value", [{"mcp:tools": True}, 7, True, ["mcp:tools", 7], [["mcp:tools"]]])
async def test_d17_scopes_of_another_type_are_refused(name: str, value: object) -> None:
    assert await refused(token(claims(**{"scope": None, name: value}))) == "invalid_claim"


@pytest.mark.parametrize("roles", ["admin", {"admin": 1}, ["admin", 1], 1])
async def test_roles_of_another_type_are_refused(roles: object) -> None:
    assert await refused(token(claims(roles=roles))) == "invalid_claim"


async def test_roles_come_from_the_configured_claim() -> None:
    [principal] = (await accepted(token(claims(groups=["a", "b"], roles=["no"])), roles_claim="groups")).seen
    assert principal.roles == {"a", "b"}


@pytest.mark.parametrize("opening", [b"[", b'{"a":'])
async def test_d18_deep_nesting_is_refused_before_and_after_the_signature(opening: bytes) -> None:
    deep = opening * 5000
    unsigned = b".".join((encoded(b'{"alg":"RS256","typ":' + deep), b"e30", b"AA"))
    assert await refused(unsigned[:16000]) == "malformed"
    closing = b"]" if opening == b"[" else b"1" + b"}"
    nested = opening * 1500 + closing * 1500 if opening == b"[" else opening * 1500 + b"1" + b"}" * 1500
    header = b'{"alg":"RS256","typ":"at+jwt","kid":"rsa","x":' + nested + b"}"
    assert await refused(token(raw_header=header)) == "malformed"
    assert await refused(token(b'{"x":' + nested + b"}")) == "malformed"


@pytest.mark.parametrize("size", [16 * 1024 + 1, 64 * 1024, 1024 * 1024])
async def test_d19_a_long_token_is_refused_unread(size: int) -> None:
    assert await refused("a" * size) == "token_too_large"


async def test_d19_the_limit_is_configurable() -> None:
    response = await send(guard(max_token_bytes=100).protect(App()), token())
    assert reason(response) == "token_too_large"


@pytest.mark.parametrize("bound", [{"jkt": "thumbprint"}, {"x5t#S256": "thumbprint"}, {}, "x"])
async def test_d24_a_bound_token_is_not_a_bearer_token(bound: object) -> None:
    assert await refused(token(claims(cnf=bound))) == "proof_of_possession_required"


@pytest.mark.parametrize(
    ("sub", "expected"),
    [(None, "missing_claim"), ("", "invalid_claim"), (7, "invalid_claim"), (["alice"], "invalid_claim"),
     ("a\x00b", "invalid_claim"), ("line\nbreak", "invalid_claim"), ("x" * 1025, "invalid_claim")],
)  # fmt: skip
async def test_the_subject_is_a_printable_text(sub: object, expected: str) -> None:
    assert await refused(token(claims(sub=sub))) == expected


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"null",
        b"[]",
        b'"text"',
        b"{",
        b"\xff\xfe{}",
        json.dumps(claims()).encode("utf-16"),
        json.dumps(claims())[:-1].encode() + b', "sub": "mallory"}',
        json.dumps(claims(nested="?")).encode().replace(b'"?"', b'{"a": 1, "a": 2}'),
        json.dumps(claims(name="?")).encode().replace(b"?", b"\\ud800"),
    ],
)
async def test_claims_have_one_reading_or_are_malformed(payload: bytes) -> None:
    expected = "bad_signature" if payload == b"" else "malformed"
    assert await refused(token(payload)) in (expected, "malformed")


async def test_repeated_header_fields_are_malformed() -> None:
    raw = b'{"alg":"RS256","alg":"none","typ":"at+jwt","kid":"rsa"}'
    assert await refused(token(raw_header=raw)) == "malformed"


async def test_padding_and_other_alphabets_are_malformed() -> None:
    good = token()
    assert await refused(good + "=") == "malformed"
    assert await refused(good.replace(".", "+.", 1)) == "malformed"
    assert await refused(b64encode(good.encode())) == "malformed"


async def test_a_token_without_kid_needs_a_set_without_choice() -> None:
    without = token(header={"kid": None})
    await accepted(without)
    assert await refused(without, key=jwk_set(key(), key("second"))) == "key_not_found"


async def test_the_algorithm_is_bound_to_the_key() -> None:
    only_ps = {"keys": [jwk(key(), alg="PS256")]}
    assert await refused(token(), key=only_ps, algorithms=["RS256", "PS256"]) == "key_not_found"
    await accepted(token(alg="PS256"), key=only_ps, algorithms=["RS256", "PS256"])


@pytest.mark.parametrize(
    ("kind", "size", "alg"),
    [("RSA", 2048, "RS512"), ("RSA", 2048, "PS384"), ("EC", "P-256", "ES256"), ("EC", "P-384", "ES384"),
     ("EC", "P-521", "ES512"), ("EC", "secp256k1", "ES256K"), ("OKP", 2048, "EdDSA")],
)  # fmt: skip
async def test_every_kind_of_key_verifies(kind: str, size: int | str, alg: str) -> None:
    pair = key(f"{kind}{size}", kind, size)
    await accepted(token(pair=pair, alg=alg), key=jwk_set(pair), algorithms=[alg])
    await accepted(token(pair=pair, alg=alg), key=jwk(pair), algorithms=[alg])
    pem = pair.public_key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    await accepted(token(pair=pair, alg=alg, header={"kid": "whatever"}), key=pem, algorithms=[alg])
    await accepted(token(pair=pair, alg=alg), key=pem.decode(), algorithms=[alg])


@pytest.mark.parametrize("alg", ["HS256", "HS384", "HS512"])
async def test_a_shared_secret_verifies(alg: str) -> None:
    await accepted(token(pair=SECRET * 2, alg=alg), key=None, secret=SECRET * 2, algorithms=[alg])
    other = "x" * 64
    assert await refused(token(pair=other, alg=alg), key=None, secret=SECRET * 2, algorithms=[alg]) == "bad_signature"


async def test_d21_a_cached_token_ends_when_it_expires() -> None:
    clock, app = Clock(), App()
    protected = guard(clock=clock, leeway=0).protect(app)
    bearer = token(claims(exp=NOW + 100))
    assert (await send(protected, bearer)).status_code == 200
    clock.time = NOW + 99
    assert (await send(protected, bearer)).status_code == 200
    clock.time = NOW + 100
    response = await send(protected, bearer)
    assert (response.status_code, reason(response)) == (401, "expired")


async def test_d23_two_issuers_with_the_same_subject_are_two_owners() -> None:
    both = jwt_auth(issuer=[ISSUER, "https://second.example"])
    app = App()
    protected = guard(both).protect(app)
    for issuer in (ISSUER, "https://second.example"):
        assert (await send(protected, token(claims(iss=issuer)))).status_code == 200
    first, second = app.seen
    assert first.subject == second.subject
    assert first.id != second.id


async def test_a_token_without_client_id_may_name_the_client_otherwise_or_not_at_all() -> None:
    assert (await accepted(token(claims(client_id=None)))).seen[0].client_id == ""
    assert (await accepted(token(claims(client_id=None, azp="web")))).seen[0].client_id == "web"
    assert await refused(token(claims(client_id=7))) == "invalid_claim"


async def test_d40_a_client_acts_as_itself_only() -> None:
    machine, user = (
        (await accepted(token(claims(sub="app", act={"sub": "alice"}, username="alice")))).seen[0],
        (await accepted(token())).seen[0],
    )
    assert (machine.kind, machine.subject) == ("client", "app")
    assert machine.id.startswith("client_")
    assert machine.id != user.id
