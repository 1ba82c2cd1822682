"""Serves one client over a pair of pipes: lines of JSON in, lines of JSON out."""

import logging
from contextlib import AsyncExitStack, suppress
from typing import Any, Protocol, cast

import anyio
import pydantic_core
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import ServerMessageMetadata, SessionMessage
from mcp_types import (
    INTERNAL_ERROR,
    INVALID_REQUEST,
    PARSE_ERROR,
    ErrorData,
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCRequest,
    JSONRPCResponse,
    RequestId,
    jsonrpc_message_adapter,
)
from pydantic import ValidationError

from bascule.context import LOCAL
from bascule.mcp_server._lines import LineReader, LineWriter
from bascule.mcp_server._process import SLACK, current_process, on_signals
from bascule.mcp_server._results import sendable
from bascule.mcp_server._sdk._build import Built
from bascule.mcp_server._stdout import Wire

__all__ = ["ServePipe", "line_of", "serve_pipe"]

logger = logging.getLogger("bascule.mcp")


class ServePipe(Protocol):
    """The form of ``serve_pipe``."""

    async def __call__(self, built: Built, wire: Wire, *, grace: float) -> None:
        """Serve until the client closes its end."""
        ...


FLUSH = 1.0
"""Seconds for the last lines to reach the client."""


async def serve_pipe(built: Built, wire: Wire, *, grace: float) -> None:
    """Serve until the client closes its end; in a process that exists to serve, also until it is to end.

    Args:
        built: the server.
        wire: the pipes.
        grace: seconds that calls in flight may go on after the end has come.
    """
    if wire.read is None or wire.write is None:
        return
    session = _PipeSession(built, LineWriter(wire.write), grace=grace)
    try:
        await session.run(wire.read)
    finally:
        await session.writer.aclose(FLUSH)


class _PipeSession:
    def __init__(self, built: Built, writer: LineWriter, *, grace: float) -> None:
        self._built = built
        self._grace = grace
        self.writer = writer
        self._open: set[RequestId] = set()
        self._answered = anyio.Event()

    async def run(self, descriptor: int) -> None:
        lines, batches = anyio.create_memory_object_stream[list[bytes]](1)
        inbox, incoming = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        outgoing, outbox = anyio.create_memory_object_stream[SessionMessage](0)
        server = self._built.server
        async with AsyncExitStack() as stack:
            for stream in (batches, lines, inbox, incoming, outgoing, outbox):
                stack.push_async_callback(stream.aclose)
            reader = self._reader(descriptor, lines)
            stack.callback(reader.close)
            if current_process() is not None:
                stack.enter_context(on_signals(reader.stop))
            reader.start()
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._write_all, outbox)
                tasks.start_soon(self._read_all, batches, inbox)
                await server.run(incoming, outgoing, server.create_initialization_options())
                tasks.cancel_scope.cancel()

    def _reader(self, descriptor: int, lines: MemoryObjectSendStream[list[bytes]]) -> LineReader:
        process = current_process()
        if process is None:
            return LineReader(descriptor, lines, orphaned=lambda: False, on_end=lambda: None)
        limit = self._grace + SLACK
        return LineReader(descriptor, lines, orphaned=process.is_orphaned, on_end=lambda: process.end_within(limit))

    async def _read_all(
        self, batches: MemoryObjectReceiveStream[list[bytes]], inbox: MemoryObjectSendStream[SessionMessage | Exception]
    ) -> None:
        async with inbox:
            async for batch in batches:
                for line in batch:
                    if line.strip():
                        await self._take(line, inbox)
            self._built.close_streams()
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
        # The other end of the pipe is the person at this machine.
        await inbox.send(SessionMessage(message, ServerMessageMetadata(request_context=LOCAL)))

    async def _write_all(self, outbox: MemoryObjectReceiveStream[SessionMessage]) -> None:
        async for item in outbox:
            message = item.message
            line = line_of(message)
            if line is not None:
                await self.writer.write(line)
            if isinstance(message, JSONRPCResponse | JSONRPCError) and message.id is not None:
                self._open.discard(message.id)
                self._answered.set()

    async def _send(self, error: JSONRPCError) -> None:
        await self.writer.write(error.model_dump_json(by_alias=True, exclude_unset=True).encode())


def line_of(message: JSONRPCMessage) -> bytes | None:
    """Return a message as JSON; for one that JSON cannot say an error in its place, when the client waits for it."""
    try:
        return message.model_dump_json(by_alias=True, exclude_unset=True).encode()
    except ValueError:  # most likely a lone surrogate
        with suppress(ValueError):
            return pydantic_core.to_json(sendable(message.model_dump(by_alias=True, exclude_unset=True)))
    logger.warning("a message to the client cannot be written as JSON")
    if isinstance(message, JSONRPCResponse | JSONRPCError):
        error = ErrorData(code=INTERNAL_ERROR, message="The answer cannot be written as JSON.")
        return line_of(JSONRPCError(jsonrpc="2.0", id=message.id, error=error))
    return None


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
