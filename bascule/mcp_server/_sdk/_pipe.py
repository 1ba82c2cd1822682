"""Serves one client over a pair of pipes: lines of JSON in, lines of JSON out."""

from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import Any, cast

import anyio
import pydantic_core
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage
from mcp_types import (
    INVALID_REQUEST,
    PARSE_ERROR,
    ErrorData,
    JSONRPCError,
    JSONRPCRequest,
    JSONRPCResponse,
    RequestId,
    jsonrpc_message_adapter,
)
from pydantic import ValidationError

from bascule.mcp_server._lines import LineReader, LineWriter
from bascule.mcp_server._sdk._build import Built
from bascule.mcp_server._stdout import Wire

__all__ = ["serve_pipe"]

FLUSH = 1.0
"""Seconds for the last lines to reach the client."""


async def serve_pipe(built: Built, wire: Wire, *, grace: float, on_end: Callable[[], None]) -> None:
    """Serve until the client closes its end.

    Args:
        built: the server.
        wire: the pipes.
        grace: seconds that calls in flight may go on after the client closed its end.
        on_end: called as soon as the client closed its end, from another thread.
    """
    if wire.read is None or wire.write is None:
        on_end()
        return
    session = _PipeSession(built, LineWriter(wire.write), grace=grace)
    try:
        await session.run(wire.read, on_end)
    finally:
        await session.writer.aclose(FLUSH)


class _PipeSession:
    def __init__(self, built: Built, writer: LineWriter, *, grace: float) -> None:
        self._built = built
        self._grace = grace
        self.writer = writer
        self._open: set[RequestId] = set()
        self._answered = anyio.Event()

    async def run(self, descriptor: int, on_end: Callable[[], None]) -> None:
        lines, batches = anyio.create_memory_object_stream[list[bytes]](1)
        inbox, incoming = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        outgoing, outbox = anyio.create_memory_object_stream[SessionMessage](0)
        server = self._built.server
        async with AsyncExitStack() as stack:
            for stream in (batches, lines, inbox, incoming, outgoing, outbox):
                stack.push_async_callback(stream.aclose)
            LineReader(descriptor, lines, on_end=on_end).start()
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._write_all, outbox)
                tasks.start_soon(self._read_all, batches, inbox)
                await server.run(incoming, outgoing, server.create_initialization_options())
                tasks.cancel_scope.cancel()

    async def _read_all(
        self, batches: MemoryObjectReceiveStream[list[bytes]], inbox: MemoryObjectSendStream[SessionMessage | Exception]
    ) -> None:
        async with inbox:
            async for batch in batches:
                for line in batch:
                    if line.strip():
                        await self._take(line, inbox)
            self._built.listening.close()
            with anyio.move_on_after(self._grace):
                while self._open and not self.writer.broken:
                    self._answered = anyio.Event()
                    await self._answered.wait()

    async def _take(self, line: bytes, inbox: MemoryObjectSendStream[SessionMessage | Exception]) -> None:
        try:
            message = jsonrpc_message_adapter.validate_json(line, by_name=False)
        except ValidationError as problem:
            await self._send(_refusal(line, problem))
            return
        if isinstance(message, JSONRPCRequest):
            self._open.add(message.id)
        await inbox.send(SessionMessage(message))

    async def _write_all(self, outbox: MemoryObjectReceiveStream[SessionMessage]) -> None:
        async for item in outbox:
            message = item.message
            await self.writer.write(message.model_dump_json(by_alias=True, exclude_unset=True).encode())
            if isinstance(message, JSONRPCResponse | JSONRPCError) and message.id is not None:
                self._open.discard(message.id)
                self._answered.set()

    async def _send(self, error: JSONRPCError) -> None:
        await self.writer.write(error.model_dump_json(by_alias=True, exclude_unset=True).encode())


def _refusal(line: bytes, problem: ValidationError) -> JSONRPCError:
    """Answer a line that is no message: JSON-RPC 2.0 section 5.1."""
    try:
        given: Any = pydantic_core.from_json(line)  # Any: not checked yet
    except ValueError as error:
        return JSONRPCError(jsonrpc="2.0", id=None, error=ErrorData(code=PARSE_ERROR, message=f"Parse error: {error}"))
    found = cast("dict[str, object]", given).get("id") if isinstance(given, dict) else None
    request_id = found if isinstance(found, str | int) and not isinstance(found, bool) else None
    text = "A line must hold one JSON-RPC 2.0 message" + (
        "; batches are not part of this protocol." if isinstance(given, list) else "."
    )
    return JSONRPCError(jsonrpc="2.0", id=request_id, error=ErrorData(code=INVALID_REQUEST, message=text))
