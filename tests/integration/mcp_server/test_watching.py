"""Who hears of a change, and what a client that does not read does to the others: nothing."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint
from mcp import Client
from mcp.client._memory import InMemoryTransport
from mcp.shared.exceptions import MCPError
from mcp.shared.subscriptions import ResourceUpdated
from mcp_types import (
    EmptyResult,
    ResourceUpdatedNotification,
    SubscribeRequest,
    SubscribeRequestParams,
)

from bascule.agents import Agent
from bascule.context import ANONYMOUS
from bascule.mcp_server import McpServer, resource
from bascule.mcp_server._sdk._build import Built
from bascule.memory import Memory
from bascule.tools import run_in_daemon_thread

LEGACY, MODERN = "legacy", "2026-07-28"


async def server(**parts: Any) -> McpServer:
    """Away from the event loop, which the imports would block."""
    return await run_in_daemon_thread(lambda: McpServer("s", **parts))


@resource("notes://{id}")
def note(id: int) -> str:
    """A note."""
    return f"note {id}"


@asynccontextmanager
async def reading_until(built: Built, stop: anyio.Event) -> AsyncGenerator[Any]:
    """A transport whose client reads nothing more from ``stop`` on."""

    async with InMemoryTransport(built.server) as (read, write), anyio.create_task_group() as tasks:
        forward, kept = anyio.create_memory_object_stream[Any](0)

        async def pump() -> None:
            async with forward:
                async for message in read:
                    await forward.send(message)
                    if stop.is_set():
                        await anyio.sleep_forever()

        tasks.start_soon(pump)
        async with kept:
            yield kept, write
            tasks.cancel_scope.cancel()


@asynccontextmanager
async def connected(served: McpServer, era: str, **options: Any) -> AsyncGenerator[Client]:
    built = await run_in_daemon_thread(served.build)
    async with Client(InMemoryTransport(built.server), mode=era, **options) as client:
        yield client


async def subscribe(client: Client, uri: str) -> None:
    await client.session.send_request(SubscribeRequest(params=SubscribeRequestParams(uri=uri)), EmptyResult)


class Heard:
    """Keeps what a client is told."""

    def __init__(self, last: str) -> None:
        self.uris: list[str] = []
        self.last = anyio.Event()
        self._last = last

    async def __call__(self, message: object) -> None:
        if isinstance(message, ResourceUpdatedNotification):
            self.uris.append(str(message.params.uri))
            if self.uris[-1] == self._last:
                self.last.set()


async def test_a_client_that_does_not_read_keeps_nobody_from_an_answer() -> None:
    stop = anyio.Event()
    question = {"message": "hi", "thread_id": "t"}
    with anyio.fail_after(10):
        async with Memory(storage="sqlite://") as memory:
            served = await server(agents=[Agent("a", model="scripted/echo", memory=memory)], memory=memory)
            built = await run_in_daemon_thread(served.build)
            async with connected(served, LEGACY) as asker:
                await asker.call_tool("ask_a", question)
                async with Client(reading_until(built, stop), mode=LEGACY) as stalled:
                    await subscribe(stalled, "bascule://threads/t")
                    stop.set()
                    for _ in range(6):
                        assert not (await asker.call_tool("ask_a", question)).is_error
                    assert built.updates.sessions == 1


async def test_a_session_that_falls_too_far_behind_is_told_no_more() -> None:
    stop = anyio.Event()
    with anyio.fail_after(10):
        served = await server(resources=[note])
        built = await run_in_daemon_thread(served.build)
        async with Client(reading_until(built, stop), mode=LEGACY) as stalled:
            uris = [f"notes://{number}" for number in range(110)]
            for uri in uris:
                await subscribe(stalled, uri)
            stop.set()
            for uri in uris:
                await served.resource_updated(uri)
            assert built.updates.sessions == 0


async def test_a_session_that_takes_nothing_is_told_no_more() -> None:
    stop = anyio.Event()
    with anyio.fail_after(10):
        served = await server(resources=[note])
        built = await run_in_daemon_thread(served.build)
        built.updates.patience = 0.01
        async with Client(reading_until(built, stop), mode=LEGACY) as stalled:
            await subscribe(stalled, "notes://1")
            stop.set()
            while built.updates.sessions:
                await served.resource_updated("notes://1")


async def test_a_session_that_ended_is_forgotten() -> None:
    with anyio.fail_after(10):
        served = await server(resources=[note])
        built = await run_in_daemon_thread(served.build)
        async with Client(InMemoryTransport(built.server), mode=LEGACY) as client:
            await subscribe(client, "notes://1")
            assert built.updates.sessions == 1
        while built.updates.sessions:
            await checkpoint()


@pytest.fixture
async def shared() -> AsyncGenerator[McpServer]:
    """Two owners, each with a conversation of the same id."""
    async with Memory(storage="sqlite://") as memory:
        for owner in (ANONYMOUS.id, "alice"):
            await memory.create_thread(thread_id="t", resource_id=owner)
        await memory.create_thread(thread_id="secret", resource_id="alice")
        yield await server(agents=[Agent("a", model="scripted/echo", memory=memory)], resources=[note], memory=memory)


async def test_a_session_hears_only_of_its_owners_conversations(shared: McpServer) -> None:
    heard = Heard(last="notes://1")
    with anyio.fail_after(10):
        async with connected(shared, LEGACY, message_handler=heard) as client:
            for uri in ("bascule://threads/t", "notes://1"):
                await subscribe(client, uri)
            await client.call_tool("ask_a", {"message": "hi", "thread_id": "t", "resource_id": "alice"})
            await shared.resource_updated("notes://1")
            await heard.last.wait()
            assert heard.uris == ["notes://1"]
            await client.call_tool("ask_a", {"message": "hi", "thread_id": "t"})
            await shared.resource_updated("notes://1")
            while len(heard.uris) < 3:
                await checkpoint()
    assert heard.uris == ["notes://1", "bascule://threads/t", "notes://1"]


async def test_a_stream_of_events_holds_only_its_owners_conversations(shared: McpServer) -> None:
    uris = ["bascule://threads/t", "notes://1"]
    told: list[str] = []
    with anyio.fail_after(10):
        async with connected(shared, MODERN) as client, client.listen(resource_subscriptions=uris) as events:
            await client.call_tool("ask_a", {"message": "hi", "thread_id": "t", "resource_id": "alice"})
            await shared.resource_updated("notes://1")
            await client.call_tool("ask_a", {"message": "hi", "thread_id": "t"})
            async for event in events:
                assert isinstance(event, ResourceUpdated)
                told.append(str(event.uri))
                if told[-1] == "bascule://threads/t":
                    break
    assert told == ["notes://1", "bascule://threads/t"]


@pytest.mark.parametrize("thread", ["secret", "unknown"])
async def test_anothers_conversation_cannot_be_watched_and_is_like_none(shared: McpServer, thread: str) -> None:
    uri = f"bascule://threads/{thread}"
    with anyio.fail_after(10):
        async with connected(shared, LEGACY) as client:
            with pytest.raises(MCPError) as read:
                await client.read_resource(uri)
            with pytest.raises(MCPError) as watched:
                await subscribe(client, uri)
        async with connected(shared, MODERN) as client:
            with pytest.raises(MCPError) as listened:
                async with client.listen(resource_subscriptions=[uri]):
                    pass
    assert read.value.error == watched.value.error == listened.value.error
    assert watched.value.error.data == {"uri": uri}
