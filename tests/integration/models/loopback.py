"""A model server on the loopback interface that does exactly what a test says, down to a cut connection."""

import json
from collections import deque
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import anyio
import anyio.abc

HEAD_END = b"\r\n\r\n"


@dataclass(kw_only=True)
class Reply:
    """One answer: pieces of the body, an event being a moment that the server waits for."""

    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    pieces: Sequence[bytes | anyio.Event] = ()
    cut: bool = False
    content_type: str = "text/event-stream"


@dataclass(kw_only=True)
class Seen:
    """One request."""

    path: str
    headers: Mapping[str, str]
    body: Any  # a test reads whatever JSON it expects


@dataclass
class LoopbackServer:
    """Answers each request with the next reply; `left` is set when a client goes before its answer is whole."""

    port: int = 0
    replies: deque[Reply] = field(default_factory=deque[Reply])
    requests: list[Seen] = field(default_factory=list[Seen])
    connections: int = 0
    left: anyio.Event = field(default_factory=anyio.Event)
    closed: anyio.Event = field(default_factory=anyio.Event)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    async def serve(self, stream: anyio.abc.ByteStream) -> None:
        self.connections += 1
        async with stream:
            try:
                while await self._one(stream):
                    pass
            except (anyio.BrokenResourceError, anyio.EndOfStream, anyio.ClosedResourceError):
                self.left.set()
        self.closed.set()

    async def _one(self, stream: anyio.abc.ByteStream) -> bool:
        request = await _read_request(stream)
        if request is None:
            return False
        self.requests.append(request)
        reply = self.replies.popleft()
        headers = {"content-type": reply.content_type, "transfer-encoding": "chunked", **reply.headers}
        head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        await stream.send(f"HTTP/1.1 {reply.status} Said\r\n{head}\r\n".encode())
        for piece in reply.pieces:
            if isinstance(piece, bytes):
                await stream.send(b"%x\r\n%s\r\n" % (len(piece), piece))
            else:
                await _wait_or_lose(piece, stream)
        if not reply.cut:
            await stream.send(b"0\r\n\r\n")
        return not reply.cut


async def _wait_or_lose(event: anyio.Event, stream: anyio.abc.ByteStream) -> None:
    """Wait for an event; raise when the client goes first."""
    lost: list[Exception] = []
    async with anyio.create_task_group() as group:

        async def watch() -> None:
            try:
                await stream.receive()
            except (anyio.EndOfStream, anyio.BrokenResourceError) as error:
                lost.append(error)
                group.cancel_scope.cancel()

        group.start_soon(watch)
        await event.wait()
        group.cancel_scope.cancel()
    if lost:
        raise lost[0]


async def _read_request(stream: anyio.abc.ByteStream) -> Seen | None:
    data = b""
    while HEAD_END not in data:
        try:
            data += await stream.receive()
        except (anyio.EndOfStream, anyio.BrokenResourceError):
            return None
    head, _, body = data.partition(HEAD_END)
    first, *lines = head.decode().split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    while len(body) < int(headers.get("content-length", "0")):
        body += await stream.receive()
    return Seen(path=first.split()[1], headers=headers, body=json.loads(body) if body else None)


@asynccontextmanager
async def running_server() -> AsyncGenerator[LoopbackServer]:
    """Serve until the block ends."""
    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    server = LoopbackServer(port=listener.extra(anyio.abc.SocketAttribute.local_port))
    async with listener, anyio.create_task_group() as group:
        group.start_soon(listener.serve, server.serve)
        yield server
        group.cancel_scope.cancel()


def sse(*events: object, done: bool = True) -> bytes:
    """Return events as they are streamed."""
    lines = [f"data: {json.dumps(event)}\n\n" for event in events]
    return "".join([*lines, "data: [DONE]\n\n"] if done else lines).encode()


def said(text: str, finish: str | None = None) -> dict[str, object]:
    """Return an event with a piece of text."""
    return {"id": "c1", "model": "m-1", "choices": [{"index": 0, "delta": {"content": text}, "finish_reason": finish}]}


def answer(text: str = "ok") -> Reply:
    """Return a whole short answer."""
    return Reply(pieces=[sse(said(text), said("", "stop"))])


def failure(status: int, message: str, **headers: str) -> Reply:
    """Return an error as servers write it."""
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    body = json.dumps({"error": {"message": message, "type": "t"}}).encode()
    return Reply(status=status, headers=names, pieces=[body], content_type="application/json")
