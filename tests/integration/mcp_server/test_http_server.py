"""Over real sockets, with the MCP SDK's client."""

import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import anyio
import httpx
import pytest
from mcp import Client
from mcp.client.session import ClientRequestContext
from mcp_types import CallToolResult, ElicitRequestParams, ElicitResult, TextContent

from bascule.errors import ConfigurationError, PortInUse, SettingInvalid
from bascule.mcp_server import HttpParser, McpServer, serve_http
from bascule.mcp_server._answers import answer
from bascule.mcp_server._sdk import _uvicorn
from bascule.tools import ToolContext, tool

pytestmark = pytest.mark.anyio
ERAS = pytest.mark.parametrize("era", ["legacy", "2026-07-28", "auto"])


@pytest.fixture
def anyio_backend() -> str:
    """uvicorn stands on asyncio."""
    return "asyncio"


@tool
async def report(context: ToolContext) -> str:
    """Report progress."""
    await context.progress(1, 2, "half way")
    return "reported"


@tool
async def confirm(context: ToolContext) -> str:
    """Ask the person."""
    answer = await context.ask("Really?", {"type": "object", "properties": {"approve": {"type": "boolean"}}})
    return answer.action


@asynccontextmanager
async def served(
    server: McpServer, http: HttpParser = "auto", grace: float = 5, host: str = "127.0.0.1"
) -> AsyncGenerator[str]:
    listening, ports = anyio.Event(), list[int]()

    def on_listening(host: str, port: int) -> None:
        ports.append(port)
        listening.set()

    async def serve() -> None:
        await serve_http(server.asgi(), host=host, port=0, http=http, grace=grace, on_listening=on_listening)

    with anyio.fail_after(15):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(serve)
            await listening.wait()
            yield f"http://127.0.0.1:{ports[0]}/mcp"
            tasks.cancel_scope.cancel()


def text_of(result: CallToolResult) -> str:
    (block,) = result.content
    assert isinstance(block, TextContent)
    return block.text


@ERAS
async def test_progress_reaches_the_client_over_http(era: str) -> None:
    told = list[str | None]()

    async def progress(progress: float, total: float | None, message: str | None) -> None:
        told.append(message)

    async with served(McpServer("s", tools=[report])) as url, Client(url, mode=era) as client:
        answer = await client.call_tool("report", {}, progress_callback=progress)
    assert text_of(answer) == "reported"
    assert told == ["half way"]


async def test_a_question_is_asked_over_http_in_a_session() -> None:
    async def answer(context: ClientRequestContext, params: ElicitRequestParams) -> ElicitResult:
        return ElicitResult(action="decline")

    async with served(McpServer("s", tools=[confirm])) as url:
        async with Client(url, mode="legacy", elicitation_callback=answer) as client:
            assert text_of(await client.call_tool("confirm", {})) == "decline"
        async with Client(url, mode="2026-07-28", elicitation_callback=answer) as client:
            result = await client.call_tool("confirm", {})
    assert result.is_error
    assert "cannot be asked" in text_of(result)


@ERAS
async def test_a_call_that_the_client_gives_up_ends_over_http(era: str) -> None:
    running, stopped = anyio.Event(), anyio.Event()

    @tool
    async def wait(context: ToolContext) -> None:
        """Wait."""
        context.cancel.on_cancel(stopped.set)
        running.set()
        await anyio.sleep_forever()

    async with served(McpServer("s", tools=[wait])) as url, Client(url, mode=era) as client:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(client.call_tool, "wait")
            await running.wait()
            tasks.cancel_scope.cancel()
        await stopped.wait()


@pytest.mark.parametrize("http", ["h11", "httptools"])
async def test_both_parsers_take_white_space_off_header_values(http: HttpParser) -> None:
    async with served(McpServer("s", tools=[report]), http=http) as url:
        port = httpx.URL(url).port or 0
        body = (
            b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"report","arguments":{},"_meta":'
            b'{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}'
        )
        head = (
            "POST /mcp HTTP/1.1\r\nhost: localhost\r\naccept: application/json, text/event-stream\r\n"
            "content-type: application/json\r\nmcp-protocol-version: 2026-07-28\r\nmcp-method: tools/call \r\n"
            f"mcp-name:  report \t\r\ncontent-length: {len(body)}\r\nconnection: close\r\n\r\n"
        )
        async with await anyio.connect_tcp("127.0.0.1", port) as stream:
            await stream.send(head.encode() + body)
            received = b"".join([part async for part in stream])
    assert received.startswith(b"HTTP/1.1 200")
    assert b"reported" in received


@pytest.mark.parametrize("http", ["h11", "httptools"])
@pytest.mark.parametrize("before", [b"", b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n"])
async def test_a_connection_on_which_headers_never_end_is_closed(
    http: HttpParser, before: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_uvicorn, "HEADERS_WITHIN", 0.05)
    async with (
        served(McpServer("s"), http=http) as url,
        await anyio.connect_tcp("127.0.0.1", httpx.URL(url).port or 0) as stream,
    ):
        await stream.send(before)
        if before:
            assert (await stream.receive()).startswith(b"HTTP/1.1 200")
        await stream.send(b"POST /mcp HTTP/1.1\r\nhost: local")
        assert [part async for part in stream] == []


@pytest.mark.parametrize("http", ["h11", "httptools"])
async def test_a_call_may_take_longer_than_its_headers(http: HttpParser, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_uvicorn, "HEADERS_WITHIN", 0.05)

    @tool
    async def outlast() -> str:
        """Go on until another connection was closed for its slowness."""
        async with await anyio.connect_tcp("127.0.0.1", httpx.URL(url).port or 0) as stream:
            with pytest.raises(anyio.EndOfStream):
                await stream.receive()
        return "done"

    async with served(McpServer("s", tools=[outlast]), http=http) as url, Client(url, mode="2026-07-28") as client:
        assert text_of(await client.call_tool("outlast", {})) == "done"


async def test_strangers_are_kept_out_on_an_interface_for_both_protocols() -> None:
    async with served(McpServer("s", tools=[report]), host="::") as url, httpx.AsyncClient(trust_env=False) as client:
        answers = [
            await client.get(url, headers={"host": host})
            for host in ("evil.example", f"localhost:{httpx.URL(url).port}")
        ]
    assert [answer.status_code == 421 for answer in answers] == [True, False]


async def test_headers_of_a_proxy_are_not_believed() -> None:
    seen: list[Any] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            seen.append((scope["scheme"], scope["client"][0]))
            await answer(send, 204)

    listening, ports = anyio.Event(), list[int]()

    def on_listening(host: str, port: int) -> None:
        ports.append(port)
        listening.set()

    with anyio.fail_after(15):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(partial(serve_http, app, port=0, on_listening=on_listening))
            await listening.wait()
            async with httpx.AsyncClient(trust_env=False) as client:
                headers = {"x-forwarded-proto": "https", "x-forwarded-for": "192.0.2.1"}
                await client.get(f"http://127.0.0.1:{ports[0]}/", headers=headers)
            tasks.cancel_scope.cancel()
    assert seen == [("http", "127.0.0.1")]


async def test_an_open_session_does_not_hold_up_the_end() -> None:
    async with served(McpServer("s", tools=[report])) as url, Client(url, mode="legacy") as client:
        await client.list_tools()


async def test_a_port_in_use_is_named_with_what_to_do() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(PortInUse, match=rf"port {port} .*--port"):
            await serve_http(McpServer("s").asgi(), port=port)


@pytest.mark.parametrize(("host", "port"), [("203.0.113.1", 0), ("127.0.0.1", 99999)])
async def test_an_address_that_cannot_be_used_is_refused(host: str, port: int) -> None:
    with pytest.raises(SettingInvalid):
        await serve_http(McpServer("s").asgi(), host=host, port=port)


def test_another_event_loop_than_asyncio_is_refused() -> None:
    async def serve() -> None:
        await serve_http(McpServer("s").asgi(), port=0)

    with pytest.raises(ConfigurationError, match="asyncio"):
        anyio.run(serve, backend="trio")
