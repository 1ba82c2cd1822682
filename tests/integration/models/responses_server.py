"""What a Responses server says, and one that says it over a WebSocket (on asyncio, as its library demands)."""

import json
from collections import deque
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import anyio
from websockets.asyncio.server import ServerConnection, serve

from tests.integration.models.loopback import Reply, sse

CUT = "cut"
Step = dict[str, object] | str | anyio.Event


def said(text: str) -> dict[str, object]:
    """Return an event with a piece of text."""
    return {"type": "response.output_text.delta", "output_index": 0, "delta": text}


def ended(response_id: str = "resp_1", status: str = "completed", **more: object) -> dict[str, object]:
    """Return the last event."""
    response = {"id": response_id, "model": "m-1", "status": status, **more}
    return {"type": f"response.{status}", "response": response}


def answer(text: str = "ok") -> Reply:
    """Return a whole short answer over HTTP."""
    return Reply(pieces=[sse(said(text), ended(), done=False)])


@dataclass
class SocketServer:
    """Answers each request on a socket with the next list of steps: events, broken text, a wait, or a cut."""

    port: int = 0
    answers: deque[Sequence[Step]] = field(default_factory=deque[Sequence[Step]])
    frames: list[Any] = field(default_factory=list[Any])
    headers: list[dict[str, str]] = field(default_factory=list[dict[str, str]])
    paths: list[str] = field(default_factory=list[str])
    ended: list[anyio.Event] = field(default_factory=list[anyio.Event])

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    async def handle(self, connection: ServerConnection) -> None:
        ended = anyio.Event()
        self.ended.append(ended)
        request = connection.request
        assert request is not None
        self.headers.append({name.lower(): value for name, value in request.headers.raw_items()})
        self.paths.append(request.path)
        try:
            async for message in connection:
                self.frames.append(json.loads(message))
                for step in self.answers.popleft():
                    if isinstance(step, anyio.Event):
                        await _wait_or_close(step, connection)
                    elif step == CUT:
                        connection.transport.abort()
                        return
                    else:
                        await connection.send(step if isinstance(step, str) else json.dumps(step))
        finally:
            ended.set()


async def _wait_or_close(event: anyio.Event, connection: ServerConnection) -> None:
    """Wait for an event, but no longer than the connection lasts."""
    async with anyio.create_task_group() as group:

        async def watch() -> None:
            await connection.wait_closed()
            group.cancel_scope.cancel()

        group.start_soon(watch)
        await event.wait()
        group.cancel_scope.cancel()


@asynccontextmanager
async def running_sockets() -> AsyncGenerator[SocketServer]:
    """Serve until the block ends."""
    server = SocketServer()
    async with serve(server.handle, "127.0.0.1", 0, close_timeout=0.1) as listening:
        server.port = next(iter(listening.sockets)).getsockname()[1]
        yield server
