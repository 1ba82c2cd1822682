"""The guard in front of an app: challenges, public paths, metadata, preflights, mounts, WebSockets, failures."""

import logging
from typing import Any

import anyio
import httpx
import pytest
from starlette._utils import get_route_path
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Mount, Route

from bascule.auth import (
    PRINCIPAL_KEY,
    Auth,
    Principal,
    TokenRequest,
    principal_of,
    refusal,
    require_scopes,
)
from bascule.errors import AuthError, AuthUnavailable, ScopeMissing, TokenInvalid
from tests.unit.auth.kit import (
    BASE,
    ISSUER,
    NOW,
    App,
    Clock,
    claims,
    client,
    guard,
    jwt_auth,
    parameters,
    reason,
    send,
    token,
)

METADATA = "/.well-known/oauth-protected-resource"


class Says:
    """A provider that answers what a test wants."""

    name = "says"

    def __init__(self, answer: Principal | Exception | None) -> None:
        self.answer = answer
        self.calls = 0

    def authorization_servers(self) -> tuple[str, ...]:
        return ()

    async def authenticate(self, token: str, request: TokenRequest) -> Principal | None:
        self.calls += 1
        await anyio.lowlevel.checkpoint()
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    def trusted_until(self, principal: Principal, now: float) -> float:
        return principal.expires_at or now


@pytest.mark.requirement("F34")
async def test_d01_without_a_token_the_challenge_says_what_to_bring_and_no_error() -> None:
    app = App()
    response = await send(guard().protect(app))
    assert response.status_code == 401
    assert parameters(response) == {"scope": "mcp:tools", "resource_metadata": f"{BASE}{METADATA}/mcp"}
    assert reason(response) == "no_token"
    assert response.headers["cache-control"] == "no-store"
    assert app.seen == []


@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "DELETE", "PUT", "OPTIONS", "TRACE", "PROPFIND"])
async def test_d01_every_method_needs_a_token(method: str) -> None:
    app = App()
    response = await send(guard().protect(app), method=method)
    assert (response.status_code, app.seen) == (401, [])
    assert (response.content == b"") == (method == "HEAD")


@pytest.mark.parametrize("value", [b"Basic YTpi", b"DPoP a.b.c", b"bearer", b"Digest x", b"token", b""])
async def test_another_scheme_counts_as_no_token(value: bytes) -> None:
    async with client(guard().protect(App())) as http:
        response = await http.get("/mcp", headers=[(b"authorization", value)])
    assert response.status_code == 401
    assert ("error" in parameters(response)) == (value == b"bearer")


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER", "Bearer  "])
async def test_the_scheme_is_case_insensitive(scheme: str) -> None:
    async with client(guard().protect(App())) as http:
        response = await http.get("/mcp", headers={"authorization": f"{scheme} {token()}"})
    assert response.status_code == 200


async def test_two_authorization_headers_are_refused() -> None:
    good = b"Bearer " + token().encode()
    async with client(guard().protect(App())) as http:
        response = await http.get("/mcp", headers=[(b"authorization", good), (b"authorization", good)])
    assert (response.status_code, reason(response)) == (401, "malformed")


@pytest.mark.requirement("F34")
async def test_a_wrong_token_is_answered_with_error_reason_and_metadata() -> None:
    response = await send(guard().protect(App()), token(claims(exp=NOW - 100)))
    challenge = parameters(response)
    assert challenge["error"] == "invalid_token"
    assert challenge["error_description"] == "expired: The token expired 100 s ago. Get a new one."
    assert challenge["resource_metadata"] == f"{BASE}{METADATA}/mcp"
    assert response.json()["request_id"] == response.headers["x-request-id"]


async def test_values_from_a_token_cannot_break_out_of_the_challenge() -> None:
    response = await send(guard().protect(App()), token(claims(iss='x" , scope="admin:*" \\ é')))
    challenge = response.headers["www-authenticate"]
    assert challenge.count('"') == 8
    assert challenge.isascii()
    assert 'scope="admin' not in challenge


async def test_d20_a_token_elsewhere_than_in_the_header_is_not_seen(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    app, bearer = App(), token()
    async with client(guard().protect(app)) as http:
        answers = [
            await http.get("/mcp", params={"access_token": bearer, "apiKey": bearer, "token": bearer}),
            await http.post("/mcp", data={"access_token": bearer}),
            await http.get("/mcp", headers={"cookie": f"access_token={bearer}; token={bearer}"}),
            await http.get("/mcp", headers={"x-api-key": bearer, "proxy-authorization": f"Bearer {bearer}"}),
        ]
    assert [answer.status_code for answer in answers] == [401] * 4
    assert all(reason(answer) == "no_token" for answer in answers)
    assert app.seen == []
    ours = [record.getMessage() for record in caplog.records if record.name.startswith("bascule")]
    assert len(ours) == 4
    assert not any(bearer in line for line in ours)


async def test_d25_a_missing_scope_is_answered_with_all_that_are_needed() -> None:
    app = App()
    protected = guard(required_scopes=["mcp:read", "mcp:tools"], resources={"/mcp": ["agents:run"]}).protect(app)
    response = await send(protected, token(claims(scope="mcp:read")))
    assert response.status_code == 403
    challenge = parameters(response)
    assert challenge["error"] == "insufficient_scope"
    assert challenge["scope"] == "mcp:read mcp:tools agents:run"
    assert challenge["resource_metadata"] == f"{BASE}{METADATA}/mcp"
    assert "mcp:tools agents:run" in challenge["error_description"]
    assert app.seen == []


async def test_d25_a_scope_that_only_the_app_knows_is_asked_for_in_one_challenge() -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        require_scopes("agents:run:tutor", "acp:run")(principal_of(scope))

    response = await send(guard().protect(app), token())
    assert response.status_code == 403
    assert parameters(response)["scope"] == "mcp:tools agents:run:tutor acp:run"


async def test_d25_an_app_can_answer_with_the_challenge_itself() -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await refusal(scope, ScopeMissing("no", scopes=["acp:run"]))(scope, receive, send)

    response = await send(guard().protect(app), token())
    assert parameters(response)["scope"] == "mcp:tools acp:run"
    assert parameters(response)["resource_metadata"] == f"{BASE}{METADATA}/mcp"
    bare = await send(app)
    assert (bare.status_code, parameters(bare)["scope"]) == (403, "acp:run")
    assert bare.json()["request_id"] == bare.headers["x-request-id"]


async def test_an_auth_error_after_the_response_began_is_raised() -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        raise ScopeMissing("too late", scopes=["x"])

    with pytest.raises(ScopeMissing, match="too late"):
        await send(guard().protect(app), token())


async def test_a_refused_resource_id_is_answered_with_403() -> None:
    auth = guard(on_resource_mismatch="refuse")

    async def app(scope: Any, receive: Any, send: Any) -> None:
        auth.resolve_resource_id(principal_of(scope), "somebody-else")

    response = await send(auth.protect(app), token())
    assert (response.status_code, response.json()["error"]) == (403, "access_denied")
    assert "www-authenticate" not in response.headers


@pytest.mark.parametrize("scope", ["mcp:*", "admin:*", "x mcp:tools"])
async def test_d28_a_broad_scope_includes_the_narrow_one(scope: str) -> None:
    assert (await send(guard().protect(App()), token(claims(scope=scope)))).status_code == 200


@pytest.mark.parametrize("scope", ["mcp", "mcp:", "mcp:tool", "mcp:tools:x", "MCP:TOOLS", "*", "mcp:tools,x", "admin"])
async def test_d28_other_scopes_do_not(scope: str) -> None:
    assert (await send(guard().protect(App()), token(claims(scope=scope)))).status_code == 403


@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
async def test_public_paths_pass_as_anonymous_whatever_token_they_carry(path: str) -> None:
    app = App()
    protected = guard().protect(app)
    for bearer in (None, "garbage", token()):
        assert (await send(protected, bearer, path=path, method="GET")).json()["kind"] == "anonymous"


@pytest.mark.parametrize(
    "path",
    ["/healthz/", "//healthz", "/HEALTHZ", "/healthz;v=1", "/healthz/../mcp", "/x/healthz", "/healthz%2F",
     "/healthz%00", "/api//x", "/API/x", "/public/../api/x", "/api/x;v=1", "/api%2Fx", "/", "/.well-known/other",
     "/.well-known/x/../y",
     "/mcp/.well-known/oauth-protected-resource"],
)  # fmt: skip
async def test_d29_everything_that_is_not_declared_public_is_closed(path: str) -> None:
    app = App()
    scope: dict[str, Any] = {"type": "http", "method": "GET", "path": path, "raw_path": path.encode(), "headers": []}
    sent: list[Any] = []

    async def collect(message: Any) -> None:
        sent.append(message)

    await guard().protect(app)(scope, receive, collect)
    assert (sent[0]["status"], app.seen) == (401, [])


async def receive() -> dict[str, Any]:
    return {"type": "http.request", "body": b"", "more_body": False}


@pytest.mark.parametrize(
    ("root", "path", "public"),
    [
        ("", "/healthz", True),
        ("/x", "/x/healthz", True),
        ("/x", "/healthz", True),
        ("/x/", "/x/healthz", False),
        ("/x", "/xhealthz", False),
        ("/x", "/x/x/healthz", False),
        ("/healthz", "/healthz", False),
        ("/", "/healthz", True),
    ],
)
async def test_d29_the_guard_sees_the_path_that_the_router_sees(root: str, path: str, *, public: bool) -> None:
    scope: dict[str, Any] = {"type": "http", "method": "GET", "path": path, "root_path": root, "headers": []}
    app = App()

    async def ignore(message: Any) -> None:
        return

    await guard().protect(app)(scope, receive, ignore)
    assert bool(app.seen) == public == (get_route_path(scope) == "/healthz")


async def test_a_public_method_opens_no_other_method() -> None:
    protected = guard(public=["GET /openapi.json"]).protect(App())
    answers = {
        method: (await send(protected, method=method, path="/openapi.json")).status_code
        for method in ("GET", "HEAD", "POST", "DELETE")
    }
    assert answers == {"GET": 200, "HEAD": 200, "POST": 401, "DELETE": 401}
    assert (await send(protected, path="/healthz")).status_code == 401


async def test_d30_no_header_or_parameter_opens_anything() -> None:
    tricks = {
        "x-playground-access": "true",
        "x-mastra-dev": "true",
        "x-forwarded-for": "127.0.0.1",
        "x-forwarded-user": "admin",
        "x-remote-user": "admin",
        "x-original-url": "/healthz",
        "x-rewrite-url": "/healthz",
        "host": "localhost",
    }
    app = App()
    async with client(guard().protect(app)) as http:
        response = await http.get("/mcp?apiKey=x&public=1", headers=tricks)
    assert (response.status_code, app.seen) == (401, [])


@pytest.mark.parametrize(
    "error", [RecursionError(), OverflowError("x"), ValueError("secret-token-text"), KeyError("x"), UnicodeError()]
)
async def test_a_verifier_that_fails_refuses(error: Exception, caplog: pytest.LogCaptureFixture) -> None:
    app = App()
    response = await send(guard(Says(error)).protect(app), "secret-token-text")
    assert (response.status_code, reason(response), app.seen) == (401, "verifier_error", [])
    assert type(error).__name__ in caplog.text
    assert "secret-token-text" not in caplog.text + response.text


async def test_a_verifier_that_cannot_tell_now_is_503_with_a_time_to_retry() -> None:
    app, says = App(), Says(AuthUnavailable("https://internal.example/jwks is down"))
    protected = guard(says).protect(app)
    response = await send(protected, "token")
    assert (response.status_code, app.seen) == (503, [])
    assert int(response.headers["retry-after"]) > 0
    assert "internal.example" not in response.text
    assert "www-authenticate" not in response.headers
    says.answer = Principal(id="x", scopes=frozenset({"mcp:tools"}), expires_at=NOW + 60)
    assert (await send(protected, "token")).status_code == 200


@pytest.mark.parametrize("answer", [None, Principal(id="x", kind="anonymous"), Principal(id="local", kind="local")])
async def test_an_identity_that_is_not_verified_is_refused(answer: Principal | None) -> None:
    response = await send(guard(Says(answer)).protect(App()), "token")
    assert (response.status_code, reason(response)) == (401, "not_accepted")


async def test_d21_refusals_are_not_remembered_and_successes_are() -> None:
    says = Says(TokenInvalid("no", reason="not_accepted"))
    protected = guard(says).protect(App())
    for _ in range(2):
        assert (await send(protected, "token")).status_code == 401
    says.answer = Principal(id="x", scopes=frozenset({"mcp:tools"}), expires_at=NOW + 60)
    for _ in range(3):
        assert (await send(protected, "token")).status_code == 200
    assert says.calls == 3


async def test_d21_a_cached_token_lives_for_the_ttl_at_most_and_can_be_forgotten() -> None:
    clock = Clock()
    says = Says(Principal(id="x", scopes=frozenset({"mcp:tools"}), expires_at=NOW + 9999))
    auth = guard(says, clock=clock)
    protected = auth.protect(App())
    for time, calls in ((0, 1), (299, 1), (300, 2), (100, 3)):  # the last one: the clock was set back
        clock.time = NOW + time
        await send(protected, "token")
        assert says.calls == calls
    auth.forget_tokens()
    await send(protected, "token")
    assert says.calls == 4


async def test_d16_a_token_that_is_cached_for_one_resource_is_verified_for_the_other() -> None:
    protected = guard(resources=["/a", "/b"]).protect(App())
    bearer = token(claims(aud=f"{BASE}/a"))
    assert [(await send(protected, bearer, path=path)).status_code for path in ("/a", "/b", "/a")] == [200, 401, 200]


async def test_d21_scopes_of_a_cached_token_are_checked_each_time() -> None:
    protected = guard(resources={"/mcp": [], "/api": ["agents:run"]}).protect(App())
    bearer = token(claims(aud=[f"{BASE}/mcp", f"{BASE}/api"]))
    for _ in range(2):
        assert [(await send(protected, bearer, path=path)).status_code for path in ("/mcp", "/api")] == [200, 403]


async def test_d41_concurrent_callers_do_not_see_each_other() -> None:
    entered, everyone = 0, anyio.Event()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        nonlocal entered
        entered += 1
        if entered == 8:
            everyone.set()
        await everyone.wait()
        await JSONResponse({"sub": principal_of(scope).subject})(scope, receive, send)

    protected, answers = guard().protect(app), dict[str, str]()

    async def call(name: str) -> None:
        response = await send(protected, token(claims(sub=name)))
        answers[name] = response.json()["sub"]

    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            for number in range(8):
                tasks.start_soon(call, f"user{number}")
    assert answers == {f"user{number}": f"user{number}" for number in range(8)}


async def test_d82_a_client_that_leaves_during_auth_leaves_the_server_serving() -> None:
    class Hangs(Says):
        async def authenticate(self, token: str, request: TokenRequest) -> Principal | None:
            if token == "slow":
                await anyio.sleep_forever()
            return await super().authenticate(token, request)

    provider = Hangs(Principal(id="x", scopes=frozenset({"mcp:tools"}), expires_at=NOW + 60))
    protected = guard(provider).protect(App())
    with anyio.move_on_after(0.01) as left:
        await send(protected, "slow")
    assert left.cancelled_caught
    assert (await send(protected, "fine")).status_code == 200


async def test_a_client_cannot_bring_its_own_principal() -> None:
    app = App()
    scope: dict[str, Any] = {"type": "http", "method": "GET", "path": "/healthz", "headers": []}
    scope[PRINCIPAL_KEY] = Principal(id="intruder")

    async def ignore(message: Any) -> None:
        return

    await guard().protect(app)(scope, receive, ignore)
    assert [principal.kind for principal in app.seen] == ["anonymous"]


def socket_scope(bearer: str | None, *, answers: bool) -> dict[str, Any]:
    return {
        "type": "websocket",
        "path": "/mcp",
        "headers": [] if bearer is None else [(b"authorization", f"Bearer {bearer}".encode())],
        "extensions": {"websocket.http.response": {}} if answers else {},
    }


@pytest.mark.parametrize("bearer", [None, "garbage"])
async def test_a_websocket_without_a_good_token_is_refused(bearer: str | None) -> None:
    app, sent = App(), list[Any]()

    async def collect(message: Any) -> None:
        sent.append(message)

    protected = guard().protect(app)
    await protected(socket_scope(bearer, answers=True), receive, collect)
    assert [message["type"] for message in sent] == ["websocket.http.response.start", "websocket.http.response.body"]
    assert sent[0]["status"] == 401
    sent.clear()
    await protected(socket_scope(bearer, answers=False), receive, collect)
    assert [(message["type"], message["code"]) for message in sent] == [("websocket.close", 1008)]
    assert app.seen == []


async def test_a_websocket_with_a_good_token_passes() -> None:
    app, sent = App(), list[Any]()

    async def collect(message: Any) -> None:
        sent.append(message)

    await guard().protect(app)(socket_scope(token(), answers=False), receive, collect)
    assert sent == [{"type": "websocket.accept"}]
    assert [principal.subject for principal in app.seen] == ["alice"]


async def test_lifespan_passes_and_unknown_scopes_do_not() -> None:
    sent: list[Any] = []

    async def collect(message: Any) -> None:
        sent.append(message)

    await guard().protect(App())({"type": "lifespan"}, receive, collect)
    assert sent == [{"type": "lifespan.startup.complete"}]
    with pytest.raises(ValueError, match="telepathy"):
        await guard().protect(App())({"type": "telepathy", "path": "/mcp"}, receive, collect)


async def get(app: Any, path: str, **headers: str) -> httpx.Response:
    async with client(app) as http:
        return await http.get(path, headers=headers)


async def test_d68_metadata_lies_behind_the_well_known_name_and_at_the_root() -> None:
    protected = guard(scopes_supported=["mcp:tools", "agents:run"], resource_name="Tools").protect(App())
    expected = {
        "resource": f"{BASE}/mcp",
        "authorization_servers": [ISSUER],
        "scopes_supported": ["mcp:tools", "agents:run"],
        "bearer_methods_supported": ["header"],
        "resource_name": "Tools",
    }
    for path in (METADATA, f"{METADATA}/", f"{METADATA}/mcp", f"{METADATA}/mcp/"):
        response = await get(protected, path)
        assert (response.status_code, response.json()) == (200, expected)
        assert response.headers["content-type"] == "application/json"
    assert (await get(protected, f"{METADATA}/api")).status_code == 404
    assert (await get(protected, f"{METADATA}x")).status_code == 401


async def test_d68_an_issuer_is_listed_as_configured() -> None:
    for issuer in ("https://a.example/", "https://a.example", "https://a.example/realms/x"):
        document = (await get(guard(jwt_auth(issuer=issuer)).protect(App()), METADATA)).json()
        assert document["authorization_servers"] == [issuer]


async def test_d68_each_resource_has_its_document() -> None:
    protected = guard(resources={"/mcp": ["mcp:tools"], "/api": ["agents:run"]}, required_scopes=[]).protect(App())
    documents = {path: (await get(protected, METADATA + path)).json() for path in ("/mcp", "/api", "")}
    assert {path: document["resource"] for path, document in documents.items()} == {
        "/mcp": f"{BASE}/mcp",
        "/api": f"{BASE}/api",
        "": BASE,
    }
    assert documents["/api"]["scopes_supported"] == ["agents:run"]
    response = await send(protected, path="/api/agents")
    assert parameters(response) == {"scope": "agents:run", "resource_metadata": f"{BASE}{METADATA}/api"}


async def test_metadata_is_read_only_and_answers_head() -> None:
    protected = guard().protect(App())
    assert (await send(protected, path=METADATA, method="POST")).status_code == 405
    head = await send(protected, path=METADATA, method="HEAD")
    assert (head.status_code, head.content) == (200, b"")
    assert int(head.headers["content-length"]) > 0


@pytest.mark.parametrize("path", ["/.well-known/oauth-authorization-server", "/.well-known/openid-configuration/mcp"])
async def test_a_resource_server_is_no_authorization_server(path: str) -> None:
    assert (await get(guard().protect(App()), path)).status_code == 404


async def test_d67_urls_come_from_the_configuration() -> None:
    evil = {
        "host": "evil.test",
        "x-forwarded-host": "evil.test",
        "x-forwarded-proto": "gopher",
        "forwarded": "host=evil.test",
        "x-forwarded-prefix": "/evil",
    }
    for auth in (guard(), guard(base_url=None)):
        protected = auth.protect(App())
        async with client(protected) as http:
            document = await http.get(f"{METADATA}/mcp", headers=evil)
            challenge = await http.get("/mcp", headers=evil)
        assert document.json()["resource"] == f"{BASE}/mcp"
        assert "evil" not in document.text + str(challenge.headers) + challenge.text


async def at(app: Any, server: tuple[str, int | None] | None, **changes: Any) -> str:
    """Return the resource that an app without base URL says to be."""
    scope: dict[str, Any] = {"type": "http", "method": "GET", "path": METADATA, "headers": [], "server": server}
    sent: list[Any] = []

    async def collect(message: Any) -> None:
        sent.append(message)

    await app({**scope, **changes}, receive, collect)
    return str(sent[1]["body"].decode().split('"')[3])


async def test_without_base_url_the_socket_says_where_the_app_is() -> None:
    app = guard(base_url=None).protect(App())
    assert await at(app, ("127.0.0.1", 8000)) == "http://127.0.0.1:8000/mcp"
    assert await at(app, ("::1", 8000)) == "http://[::1]:8000/mcp"
    assert await at(app, ("10.0.0.5", 443), scheme="https") == "https://10.0.0.5/mcp"
    assert await at(app, ("10.0.0.5", 80)) == "http://10.0.0.5/mcp"
    assert await at(app, ("/run/app.sock", None)) == "http://localhost/mcp"
    assert await at(app, None) == "http://localhost/mcp"
    assert await at(app, ("127.0.0.1", 8000), root_path="/x", path=f"/x{METADATA}") == "http://127.0.0.1:8000/x/mcp"


async def test_on_a_loopback_socket_localhost_is_as_good_as_the_address() -> None:
    app = guard(base_url=None).protect(App())
    named = [(b"host", b"localhost:8000")]
    assert await at(app, ("127.0.0.1", 8000), headers=named) == "http://localhost:8000/mcp"
    assert await at(app, ("127.0.0.1", 9000), headers=named) == "http://127.0.0.1:9000/mcp"
    assert await at(app, ("10.0.0.5", 8000), headers=named) == "http://10.0.0.5:8000/mcp"


async def test_a_prefix_that_a_client_chose_cannot_break_out_of_the_challenge() -> None:
    app, sent = guard(base_url=None).protect(App()), list[Any]()

    async def collect(message: Any) -> None:
        sent.append(message)

    root = '/x", error="none" é \r\n'
    await app(
        {"type": "http", "method": "GET", "path": f"{root}/mcp", "root_path": root, "headers": []}, receive, collect
    )
    [challenge] = [value for name, value in sent[0]["headers"] if name == b"www-authenticate"]
    assert (sent[0]["status"], challenge.count(b'"')) == (401, 4)


async def test_many_prefixes_do_not_fill_the_memory() -> None:
    app = guard(base_url=None).protect(App())
    for number in range(200):
        prefix = f"/tenant{number}"
        assert (await at(app, ("127.0.0.1", 80), root_path=prefix, path=prefix + METADATA)).endswith(f"{prefix}/mcp")


async def test_the_environment_gives_the_base_url_when_the_constructor_does_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("BASCULE_BASE_URL", "https://env.example/x/")
    assert (await get(guard(base_url=None).protect(App(), base_url="https://flag.example"), METADATA)).json()[
        "resource"
    ] == "https://env.example/x/mcp"
    assert (await get(guard().protect(App()), METADATA)).json()["resource"] == f"{BASE}/mcp"
    monkeypatch.delenv("BASCULE_BASE_URL")
    assert (await get(guard(base_url=None).protect(App(), base_url="https://flag.example"), METADATA)).json()[
        "resource"
    ] == "https://flag.example/mcp"


@pytest.mark.parametrize("path", ["/mcp", "/mcp/"])
async def test_mounted_in_another_app_the_challenge_leads_to_the_metadata(path: str) -> None:
    async def who(request: Request) -> JSONResponse:
        return JSONResponse({"sub": principal_of(request.scope).subject})

    inner = Starlette(routes=[Route("/mcp", who), Route("/mcp/", who)])
    auth = Auth(jwt_auth(), base_url=f"{BASE}/tools", now=Clock())
    outer = Starlette(routes=[Mount("/tools", auth.protect(inner))])
    refused = await get(outer, f"/tools{path}")
    link = parameters(refused)["resource_metadata"]
    assert link == f"{BASE}/tools{METADATA}/mcp"
    document = (await get(outer, link)).json()
    assert document["resource"] == f"{BASE}/tools/mcp"
    bearer = token(claims(aud=document["resource"]))
    assert (await get(outer, f"/tools{path}", authorization=f"Bearer {bearer}")).json() == {"sub": "alice"}
    assert (await get(outer, "/tools/healthz")).status_code == 404  # public, and the inner app has no such route


async def test_behind_a_proxy_that_takes_the_prefix_off_both_places_answer() -> None:
    protected = guard(base_url=f"{BASE}/prefix").protect(App())
    for path in (f"{METADATA}/mcp", f"{METADATA}/prefix/mcp", METADATA, f"{METADATA}/prefix"):
        assert (await get(protected, path)).json()["resource"] == f"{BASE}/prefix/mcp"
    assert (await send(protected, token(claims(aud=f"{BASE}/prefix/mcp")))).status_code == 200
    assert (await send(protected, token())).status_code == 401


async def preflight(app: Any, path: str, origin: str) -> httpx.Response:
    async with client(app) as http:
        return await http.options(
            path,
            headers={
                "origin": origin,
                "access-control-request-method": "POST",
                "access-control-request-headers": "authorization, mcp-protocol-version",
            },
        )


@pytest.mark.parametrize("path", ["/mcp", "/api/agents", "/healthz"])
async def test_d73_a_preflight_needs_no_token_and_tells_allowed_origins_only(path: str) -> None:
    app = App()
    protected = guard(cors_origins=["https://good.example"]).protect(app)
    good = await preflight(protected, path, "https://good.example")
    assert good.status_code == 204
    assert good.headers["access-control-allow-origin"] == "https://good.example"
    assert good.headers["access-control-allow-headers"] == "authorization, mcp-protocol-version"
    assert "POST" in good.headers["access-control-allow-methods"]
    assert "access-control-allow-credentials" not in good.headers
    for origin in ("https://evil.example", "https://good.example.evil.test", "null", "http://good.example"):
        bad = await preflight(protected, path, origin)
        assert bad.status_code == 204
        assert not [name for name in bad.headers if name.startswith("access-control-allow")]
    assert app.seen == []


async def test_d73_without_allowed_origins_no_page_may_read_anything() -> None:
    protected = guard().protect(App())
    assert not [name for name in (await preflight(protected, "/mcp", "https://x.example")).headers if "allow" in name]
    response = await get(protected, "/healthz", origin="https://x.example")
    assert "access-control-allow-origin" not in response.headers


async def test_d73_metadata_may_be_read_by_every_page() -> None:
    protected = guard().protect(App())
    assert (await preflight(protected, METADATA, "https://x.example")).headers["access-control-allow-origin"] == "*"
    response = await get(protected, METADATA, origin="https://x.example")
    assert response.headers["access-control-allow-origin"] == "*"


async def test_d73_a_page_of_an_allowed_origin_can_read_the_challenge() -> None:
    protected = guard(cors_origins=["https://good.example"]).protect(App())
    async with client(protected) as http:
        refused = await http.post("/mcp", headers={"origin": "https://good.example"})
        passed = await http.post(
            "/mcp", headers={"origin": "https://good.example", "authorization": f"Bearer {token()}"}
        )
    assert (refused.status_code, passed.status_code) == (401, 200)
    for response in (refused, passed):
        assert response.headers["access-control-allow-origin"] == "https://good.example"
        assert "WWW-Authenticate" in response.headers["access-control-expose-headers"]
        assert response.headers["vary"] == "Origin"


async def test_any_origin_can_be_allowed_without_credentials() -> None:
    response = await preflight(guard(cors_origins="*").protect(App()), "/mcp", "https://x.example")
    assert response.headers["access-control-allow-origin"] == "*"
    assert "access-control-allow-credentials" not in response.headers


async def test_d81_refusals_are_logged_with_reason_and_request_id_and_without_the_token(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    bearer = token(claims(aud="https://other.example/\r\nforged line"))
    response = await send(guard().protect(App()), bearer, path="/mcp/%0d%0aforged")
    [line] = [record.getMessage() for record in caplog.records if record.name == "bascule.auth"]
    assert "reason=wrong_audience" in line
    assert response.json()["request_id"] in line
    assert "\n" not in line
    assert not any(part in line for part in bearer.split("."))


async def test_no_token_is_no_warning(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "bascule.auth")
    await send(guard().protect(App()))
    await send(guard().protect(App()), "x")
    assert [record.levelname for record in caplog.records if record.name == "bascule.auth"] == ["INFO", "WARNING"]


async def test_a_plain_auth_error_of_the_app_is_403() -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        raise AuthError("not today")

    assert (await send(guard().protect(app), token())).status_code == 403


async def test_an_app_without_a_layer_sees_an_anonymous_caller() -> None:
    assert principal_of({"type": "http"}).kind == "anonymous"
