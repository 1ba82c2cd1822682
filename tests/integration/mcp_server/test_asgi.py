"""The ASGI app: paths, mounting, guard, health, sessions, identities."""

import json
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import httpx
import pytest
from fastapi import FastAPI
from mcp import Client
from mcp_types import TextContent
from starlette.applications import Starlette
from starlette.routing import Mount
from starlette.testclient import TestClient

from bascule.auth import PRINCIPAL_KEY, Auth, JWTAuth
from bascule.context import Principal
from bascule.mcp_server import ClientSeen, McpServer, _asgi, prompt, resource
from bascule.mcp_server._answers import ASGIApp, Receive, Scope, Send
from bascule.memory import Memory
from bascule.tools import ToolContext, tool

ACCEPT = {"accept": "application/json, text/event-stream", "content-type": "application/json"}
MODERN = {**ACCEPT, "mcp-protocol-version": "2026-07-28"}


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tool
def whoami(context: ToolContext) -> str:
    """Say who calls, and who owns what is stored."""
    return f"{context.principal.id} {context.request_context.owner}"


@tool
def half() -> str:
    """Return the name of a file that is not UTF-8."""
    return "caf\udce9.txt"


@tool
def half_structured() -> dict[str, str]:
    """Return it in an object."""
    return {"name": "caf\udce9.txt"}


@tool
def half_failed() -> None:
    """Fail with it."""
    raise OSError("caf\udce9.txt")


@tool
async def half_progress(context: ToolContext) -> str:
    """Tell it on the way."""
    await context.progress(1, 2, "caf\udce9.txt")
    await context.log("error", {"file": "caf\udce9.txt"})
    return "told"


@prompt
def half_prompt() -> str:
    """Ask about it."""
    return "caf\udce9.txt"


@resource("a://b", description="caf\udce9.txt")
def half_resource() -> str:
    """Return it."""
    return "caf\udce9.txt"


def server() -> McpServer:
    return McpServer("s", tools=[add, whoami])


def request(method: str, **params: object) -> dict[str, object]:
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}


def modern(method: str, **params: object) -> dict[str, object]:
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
    }
    return request(method, _meta=meta, **params)


def initialize(version: str = "2025-11-25") -> dict[str, object]:
    info = {"name": "test", "version": "1"}
    return request("initialize", protocolVersion=version, capabilities={}, clientInfo=info)


def headers_of(message: dict[str, Any]) -> dict[str, str]:
    named = {"mcp-name": message["params"]["name"]} if "name" in message["params"] else {}
    return {**MODERN, "mcp-method": message["method"], **named}


def modern_tools(client: TestClient, path: str = "/mcp") -> list[str]:
    message = modern("tools/list")
    answer = client.post(path, json=message, headers=headers_of(message), follow_redirects=False)
    assert answer.status_code == 200, answer.text
    return [found["name"] for found in answer.json()["result"]["tools"]]


def loopback(app: ASGIApp, **options: Any) -> TestClient:
    return TestClient(app, base_url="http://127.0.0.1:8000", **options)


@pytest.mark.requirement("F12")
@pytest.mark.parametrize("path", ["/mcp", "/mcp/"])
def test_both_spellings_of_the_path_answer_without_a_redirect(path: str) -> None:
    assert modern_tools(loopback(server().asgi()), path) == ["add", "whoami"]


@pytest.mark.parametrize("given", ["tools", "/tools", "/tools/", "/a/b"])
def test_the_path_can_be_chosen(given: str) -> None:
    path = "/" + given.strip("/")
    client = loopback(server().asgi(path=given))
    assert modern_tools(client, path) == ["add", "whoami"]
    assert client.post("/mcp").status_code == 404


def test_the_root_can_be_the_path() -> None:
    assert modern_tools(loopback(server().asgi(path="/")), "/") == ["add", "whoami"]


@pytest.mark.requirement("F13")
@pytest.mark.parametrize("framework", [FastAPI, Starlette])
@pytest.mark.parametrize("prefix", ["/api", "/a/b"])
def test_it_can_be_mounted_anywhere_without_a_lifespan(framework: Callable[[], Any], prefix: str) -> None:
    app = framework()
    app.mount(prefix, server().asgi())
    for path in ("/mcp", "/mcp/"):
        assert modern_tools(loopback(app), prefix + path) == ["add", "whoami"]
    with loopback(app) as client:
        assert modern_tools(client, f"{prefix}/mcp") == ["add", "whoami"]


def test_a_mount_at_the_path_itself_does_not_ask_for_it_twice() -> None:
    app = Starlette(routes=[Mount("/mcp", app=server().asgi())])
    assert modern_tools(loopback(app), "/mcp/") == ["add", "whoami"]


def test_one_app_serves_several_event_loops_one_after_another() -> None:
    app = server().asgi()
    for _ in range(2):
        with loopback(app) as client:
            assert modern_tools(client) == ["add", "whoami"]
    for _ in range(2):
        assert modern_tools(loopback(app)) == ["add", "whoami"]


def test_a_session_lives_as_long_as_its_event_loop() -> None:
    with loopback(server().asgi()) as client:
        opened = client.post("/mcp", json=initialize(), headers=ACCEPT)
        session = {**ACCEPT, "mcp-session-id": opened.headers["mcp-session-id"]}
        assert client.post("/mcp", json=request("tools/list"), headers=session).status_code == 200
        assert client.delete("/mcp", headers=session).status_code == 200
        assert client.post("/mcp", json=request("tools/list"), headers=session).status_code == 404


def test_a_request_without_session_is_served_as_it_is() -> None:
    answer = loopback(server().asgi()).post(
        "/mcp", json=request("tools/call", name="add", arguments={"a": 2, "b": 3}), headers=ACCEPT
    )
    assert answer.status_code == 200
    assert '"text":"5"' in answer.text
    assert "mcp-session-id" not in answer.headers


@pytest.mark.requirement("F60")
@pytest.mark.parametrize("body", ["{broken", "[]", '"initialize"', ""])
def test_a_body_that_is_no_message_is_refused_and_the_server_goes_on(body: str) -> None:
    with loopback(server().asgi()) as client:
        assert client.post("/mcp", content=body, headers=ACCEPT).status_code == 400
        assert client.post("/mcp", content=body, headers=MODERN).status_code == 400
        assert modern_tools(client) == ["add", "whoami"]


def test_a_body_that_is_too_large_is_refused() -> None:
    answer = loopback(server().asgi()).post("/mcp", content=b" " * (5 * 2**20), headers=ACCEPT)
    assert answer.status_code == 413


@pytest.mark.requirement("F59")
def test_an_unknown_protocol_version_is_answered_with_those_that_are_known() -> None:
    message = modern("tools/list")
    message["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"] = "2099-01-01"  # type: ignore[index]
    headers = {**headers_of(message), "mcp-protocol-version": "2099-01-01"}
    answer = loopback(server().asgi()).post("/mcp", json=message, headers=headers)
    assert answer.status_code == 400
    assert answer.json()["error"]["code"] == -32022
    assert "2026-07-28" in answer.json()["error"]["data"]["supported"]


def test_headers_must_say_what_the_body_says() -> None:
    message = modern("tools/call", name="add", arguments={"a": 1, "b": 1})
    answer = loopback(server().asgi()).post("/mcp", json=message, headers={**headers_of(message), "mcp-name": "whoami"})
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, -32020)


async def test_white_space_around_a_header_value_is_no_part_of_it() -> None:
    message = modern("tools/call", name="add", arguments={"a": 1, "b": 1})
    headers = [(name.encode(), b" " + value.encode() + b"\t ") for name, value in headers_of(message).items()]
    transport = httpx.ASGITransport(server().asgi())
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        answer = await client.post("/mcp", json=message, headers=headers)
    assert answer.json()["result"]["content"][0]["text"] == "2"


def test_strangers_and_their_pages_are_kept_out() -> None:
    client = loopback(server().asgi())
    assert client.get("/mcp", headers={"host": "evil.example"}).status_code == 421
    assert client.get("/mcp", headers={"origin": "https://evil.example"}).status_code == 403
    assert client.get("/healthz", headers={"host": "10.1.2.3:8000"}).status_code == 200


def test_a_request_with_two_hosts_or_a_broken_origin_is_refused() -> None:
    client = loopback(server().asgi())
    two = client.get("/mcp", headers=[("host", "127.0.0.1:8000"), ("host", "evil.example")])
    assert two.status_code == 400
    assert client.get("/mcp", headers={"origin": "http://["}).status_code == 403


def test_a_batch_is_refused_in_a_sentence() -> None:
    with loopback(server().asgi()) as client:
        answer = client.post("/mcp", content=b' [{"jsonrpc": "2.0", "id": 1, "method": "ping"}]', headers=ACCEPT)
        assert answer.status_code == 400
        assert "batches are not part of this protocol" in answer.json()["error"]["message"]
        assert client.post("/mcp", json=request("tools/list"), headers=ACCEPT).status_code == 200


@pytest.mark.parametrize("session", [True, False])
def test_half_a_character_in_a_text_is_replaced(session: bool) -> None:
    with loopback(McpServer("s", tools=[half, half_structured, half_failed]).asgi()) as client:
        headers = ACCEPT
        if session:
            opened = client.post("/mcp", json=initialize(), headers=ACCEPT)
            headers = {**ACCEPT, "mcp-session-id": opened.headers["mcp-session-id"]}
        for name in ("half", "half_structured", "half_failed"):
            answer = client.post("/mcp", json=request("tools/call", name=name, arguments={}), headers=headers)
            assert "caf\ufffd.txt" in answer.content.decode()


def test_half_a_character_told_on_the_way_is_replaced() -> None:
    with loopback(McpServer("s", tools=[half_progress]).asgi()) as client:
        opened = client.post("/mcp", json=initialize(), headers=ACCEPT)
        headers = {**ACCEPT, "mcp-session-id": opened.headers["mcp-session-id"]}
        call = request("tools/call", name="half_progress", arguments={}, _meta={"progressToken": "p"})
        answer = client.post("/mcp", json=call, headers=headers).content.decode()
    assert answer.count("caf\ufffd.txt") == 2
    assert "told" in answer


def test_half_a_character_in_what_is_read_is_replaced() -> None:
    served = McpServer("s", prompts=[half_prompt], resources=[half_resource])
    with loopback(served.asgi()) as client:
        for message, name in (
            (modern("prompts/get", name="half_prompt"), "half_prompt"),
            (modern("resources/read", uri="a://b"), "a://b"),
            (modern("resources/list"), ""),
        ):
            headers = {**headers_of(message), **({"mcp-name": name} if name else {})}
            assert "caf\ufffd.txt" in str(client.post("/mcp", json=message, headers=headers).json())


def test_hosts_and_origins_can_be_named() -> None:
    app = server().asgi(allowed_hosts=["api.example"], allowed_origins=["https://app.example"])
    client = TestClient(app, base_url="http://api.example", headers={"origin": "https://app.example"})
    assert modern_tools(client) == ["add", "whoami"]
    assert loopback(app).get("/mcp").status_code == 421


def test_health_is_told() -> None:
    ready = False

    async def asked() -> bool:
        return ready

    client = loopback(server().asgi(ready=asked))
    assert client.get("/healthz").json() == {"status": "ok"}
    assert (client.get("/readyz").status_code, client.get("/readyz").json()) == (503, {"status": "unavailable"})
    ready = True
    assert client.get("/readyz").status_code == 200
    assert client.post("/readyz").status_code == 405
    assert loopback(server().asgi()).get("/readyz").status_code == 200
    assert loopback(server().asgi(ready=lambda: False)).get("/readyz").status_code == 503
    assert loopback(server().asgi(health=False)).get("/healthz").status_code == 404


@pytest.mark.parametrize("path", ["/mcp/healthz", "/x/readyz", "/mcp/x/healthz"])
def test_a_path_that_ends_like_a_health_check_is_guarded(path: str) -> None:
    assert loopback(server().asgi()).get(path, headers={"host": "evil.example"}).status_code == 421


def test_health_is_told_to_everyone_below_a_prefix_too() -> None:
    app = Starlette(routes=[Mount("/api", app=server().asgi())])
    assert loopback(app).get("/api/healthz", headers={"host": "10.1.2.3"}).status_code == 200


async def broken() -> bool:
    raise OSError("the disk is gone\nand more")


def broken_at_once() -> bool:
    raise ValueError("no store")


@pytest.mark.parametrize(
    ("ready", "logged"),
    [
        (broken, "OSError: the disk is gone and more"),
        (broken_at_once, "ValueError: no store"),
        (anyio.sleep_forever, "no answer within 0.01 s"),
    ],
)
def test_an_app_that_cannot_say_whether_it_can_serve_is_not_ready(
    ready: Any, logged: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(_asgi, "READY_WITHIN", 0.01)
    answer = loopback(server().asgi(ready=ready)).get("/readyz")
    assert (answer.status_code, answer.json()) == (503, {"status": "unavailable"})
    [record] = [record for record in caplog.records if record.name == "bascule.mcp"]
    assert (record.getMessage(), record.exc_info) == (f"the app is not ready: {logged}", None)


def test_what_is_not_served_is_not_found() -> None:
    answer = loopback(server().asgi()).get("/elsewhere")
    assert (answer.status_code, answer.json()["error"]) == (404, "not_found")


async def test_a_websocket_is_closed_and_an_unknown_kind_refused() -> None:
    sent: list[dict[str, Any]] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> Any:
        raise AssertionError

    app = server().asgi()
    await app({"type": "websocket", "path": "/mcp"}, receive, send)
    assert sent == [{"type": "websocket.close", "code": 1000}]
    with pytest.raises(ValueError, match="gopher"):
        await app({"type": "gopher", "path": "/mcp"}, receive, send)


# --- identities ---


class Headers:
    """Takes the name in a header for a verified identity."""

    def __init__(self, *scopes: str) -> None:
        self.scopes = frozenset(scopes)

    def protect(self, app: ASGIApp, *, base_url: str | None = None, path: str = "/mcp") -> ASGIApp:
        async def protected(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["type"] == "http":
                name = dict(scope["headers"]).get(b"x-user", b"nobody").decode()
                scope = {**scope, PRINCIPAL_KEY: Principal(id=name, issuer="test", subject=name, scopes=self.scopes)}
            await app(scope, receive, send)

        return protected


def test_without_auth_the_caller_is_anonymous() -> None:
    message = modern("tools/call", name="whoami", arguments={})
    answer = loopback(server().asgi()).post("/mcp", json=message, headers=headers_of(message))
    assert answer.json()["result"]["content"][0]["text"] == "anonymous anonymous"


@pytest.mark.requirement("F35")
def test_a_verified_identity_reaches_tools_and_owns_what_they_store() -> None:
    message = modern("tools/call", name="whoami", arguments={})
    client = loopback(server().asgi(auth=Headers()))
    answer = client.post("/mcp", json=message, headers={**headers_of(message), "x-user": "alice"})
    assert answer.json()["result"]["content"][0]["text"] == "alice alice"


def test_a_session_belongs_to_the_identity_that_opened_it() -> None:
    with loopback(server().asgi(auth=Headers())) as client:
        opened = client.post("/mcp", json=initialize(), headers={**ACCEPT, "x-user": "alice"})
        session = {**ACCEPT, "mcp-session-id": opened.headers["mcp-session-id"]}
        for user, status in (("bob", 404), ("alice", 200)):
            headers = {**session, "x-user": user}
            assert client.post("/mcp", json=request("tools/list"), headers=headers).status_code == status


async def test_a_verified_caller_cannot_read_anothers_conversation() -> None:
    async with Memory(storage="sqlite://") as memory:
        await memory.create_thread(thread_id="t", resource_id="alice")
        app = McpServer("s", memory=memory).asgi(auth=Headers())
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            uri = "bascule://threads/t"
            message = modern("resources/read", uri=uri)
            headers = {**headers_of(message), "mcp-name": uri}
            answers = [
                (await client.post("/mcp", json=message, headers={**headers, "x-user": user})).json()
                for user in ("alice", "bob")
            ]
    assert answers[0]["result"]["contents"][0]["text"] == ""
    assert answers[1]["error"]["data"] == {"uri": uri}


def test_a_tool_may_need_a_scope() -> None:
    @tool(scopes=["files:write"])
    def write() -> str:
        """Write."""
        return "written"

    message, without_session = (make("tools/call", name="write", arguments={}) for make in (modern, request))
    client = loopback(McpServer("s", tools=[write]).asgi(auth=Headers()))
    for answer in (
        client.post("/mcp", json=message, headers=headers_of(message)),
        client.post("/mcp", json=without_session, headers=ACCEPT),
    ):
        assert (answer.status_code, answer.json()["error"]) == (403, "insufficient_scope")
        challenge = answer.headers["www-authenticate"]
        assert challenge.startswith('Bearer error="insufficient_scope"')
        assert 'scope="files:write"' in challenge
    assert modern_tools(client) == []
    for scope in ("files:write", "files:*", "admin:*"):
        allowed = loopback(McpServer("s", tools=[write]).asgi(auth=Headers(scope)))
        assert modern_tools(allowed) == ["write"]
        answer = allowed.post("/mcp", json=message, headers=headers_of(message))
        assert answer.json()["result"]["content"][0]["text"] == "written"


@pytest.mark.parametrize(
    "body", ['["tools/call"]', '{"method": "tools/call"}', '{"params": "tools/call"', '"tools/call"']
)
def test_what_is_no_call_of_a_tool_needs_no_scope(body: str) -> None:
    @tool(scopes=["files:write"])
    def write() -> None:
        """Write."""

    client = loopback(McpServer("s", tools=[write]).asgi(auth=Headers()))
    assert client.post("/mcp", content=body, headers=ACCEPT).status_code == 400


@pytest.mark.parametrize("from_environment", [True, False])
def test_the_host_that_auth_knows_is_answered_to(monkeypatch: pytest.MonkeyPatch, from_environment: bool) -> None:
    monkeypatch.delenv("BASCULE_BASE_URL", raising=False)
    url = "https://tools.example.org/prefix"
    if from_environment:
        monkeypatch.setenv("BASCULE_BASE_URL", url)
    provider = JWTAuth(secret="s" * 40, issuer="https://issuer.example", algorithms=["HS256"])
    auth = Auth(provider, base_url=None if from_environment else url)
    client = loopback(server().asgi(auth=auth))
    statuses = {host: client.get("/mcp", headers={"host": host}).status_code for host in HOSTS}
    assert statuses == {"tools.example.org": 401, "localhost:8000": 401, "evil.example": 421}


HOSTS = ("tools.example.org", "localhost:8000", "evil.example")


def test_a_base_url_may_have_an_address_in_place_of_a_name() -> None:
    client = loopback(server().asgi(base_url="http://[2001:db8::1]:8000"))
    assert client.get("/mcp", headers={"host": "[2001:db8::1]:8000"}).status_code != 421
    assert client.get("/mcp", headers={"host": "[2001:db8::2]:8000"}).status_code == 421


def test_every_client_is_told_once() -> None:
    seen = list[ClientSeen]()
    served = server()
    served.on_client(seen.append)
    with loopback(served.asgi()) as client:
        for _ in range(2):
            modern_tools(client)
        for _ in range(2):
            opened = client.post("/mcp", json=initialize(), headers=ACCEPT)
            session = {**ACCEPT, "mcp-session-id": opened.headers["mcp-session-id"]}
            client.post("/mcp", json=request("tools/list"), headers=session)
    assert [str(client_seen) for client_seen in seen] == [
        "test 1 connected (2026-07-28) and listed 2 tools: add, whoami",
        *["test 1 connected (2025-11-25) and listed 2 tools: add, whoami"] * 2,
    ]


def test_what_a_client_calls_itself_cannot_forge_a_log_line() -> None:
    seen = list[ClientSeen]()
    served = server()
    served.on_client(seen.append)
    opening: Any = initialize()
    opening["params"]["clientInfo"] = {"name": "\x1b]0;x\x07a\nERROR b" + "c" * 1000, "version": "1\n" * 1000}
    with loopback(served.asgi()) as client:
        opened = client.post("/mcp", json=opening, headers=ACCEPT)
        session = {**ACCEPT, "mcp-session-id": opened.headers["mcp-session-id"]}
        client.post("/mcp", json=request("tools/list"), headers=session)
    [found] = seen
    assert str(found).isprintable()
    assert (found.name[:15], len(found.name), found.version) == ("]0;xaERROR bccc", 100, "1" * 100)


async def test_a_transport_that_does_not_say_who_calls_has_anonymous_callers() -> None:
    built = await anyio.to_thread.run_sync(server().build)
    async with Client(built.server) as client:
        result = await client.call_tool("whoami", {})
    (block,) = result.content
    assert isinstance(block, TextContent)
    assert block.text == "anonymous anonymous"


# --- a client that leaves ---


async def _serve(app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
    await app(scope, receive, send)


@asynccontextmanager
async def _calling(app: ASGIApp, message: dict[str, Any]) -> AsyncGenerator[anyio.Event]:
    """A call whose client leaves when the event is set."""
    leave = anyio.Event()
    body = [{"type": "http.request", "body": json.dumps(message).encode(), "more_body": False}]

    async def receive() -> Any:
        if body:
            return body.pop()
        await leave.wait()
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None: ...

    headers = [(name.encode(), value.encode()) for name, value in headers_of(message).items()]
    scope = {"type": "http", "method": "POST", "path": "/mcp", "headers": headers, "query_string": b"", "server": None}
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_serve, app, scope, receive, send)
        yield leave


@pytest.mark.requirement("F63")
async def test_a_call_ends_when_its_client_leaves() -> None:
    running, stopped = anyio.Event(), anyio.Event()

    @tool
    async def wait(context: ToolContext) -> None:
        """Wait."""
        context.cancel.on_cancel(stopped.set)
        running.set()
        await anyio.sleep_forever()

    app = McpServer("s", tools=[wait]).asgi()
    with anyio.fail_after(10):
        async with _calling(app, modern("tools/call", name="wait", arguments={})) as leave:
            await running.wait()
            leave.set()
            await stopped.wait()
