"""WebSockets to model servers; stands on asyncio, as the client of ``websockets`` does, and refuses trio by name.

A server answers one call at a time on a socket. So a model has at most one socket in each event loop, which is closed
after each answer or kept for the next one, and a call that comes while it answers another one is for the caller to send
elsewhere.
"""

import asyncio  # noqa: TID251  # see above
import logging
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Protocol
from urllib.parse import urlsplit

import anyio
from pydantic_core import from_json
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, WebSocketException
from websockets.protocol import State

from bascule.errors import EventLoopUnsupported, ModelError
from bascule.models._endpoint import Endpoint
from bascule.models._http import is_local, tls_context
from bascule.models._protocol import ModelPart
from bascule.models._sse import MAX_LINE_BYTES, Json

__all__ = ["MessageStream", "ModelSocket", "check_event_loop"]

_OPEN_SECONDS = 10.0
_CLOSE_SECONDS = 0.5
_LONGEST_USE = 50 * 60.0  # servers end a socket after an hour, in the middle of an answer if need be
_QUEUE = 256


class MessageStream(Protocol):
    """Turns the messages of one answer into parts; opens nothing and awaits nothing."""

    error: ModelError | None
    """What went wrong, to be raised after the parts that came before it."""

    @property
    def done(self) -> bool:
        """Whether nothing more comes."""
        ...

    @property
    def response_id(self) -> str | None:
        """The id of the answer, once it is known."""
        ...

    def feed_event(self, event: Json) -> list[ModelPart]:
        """Return the parts of one message."""
        ...

    def end(self) -> list[ModelPart]:
        """Return the last parts."""
        ...


def check_event_loop() -> None:
    """Check that the running event loop is asyncio's.

    Raises:
        EventLoopUnsupported: it is trio's.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        raise EventLoopUnsupported(
            "The WebSocket transport of a model runs on asyncio only, and this event loop is trio's. Choose the "
            "transport 'fetch'."
        ) from None


class ModelSocket:
    """The socket of one model in one event loop.

    Attributes:
        busy: whether it is opened, or answers a call.
        answered: ids of the answers that came over the open socket; the server may know them nowhere else.
    """

    def __init__(self, endpoint: Endpoint, *, timeout: float) -> None:
        """Describe the server; nothing is opened.

        Args:
            endpoint: makes the errors.
            timeout: the longest silence of the server, in seconds.
        """
        self.busy = False
        self.answered: set[str] = set()
        self._endpoint = endpoint
        self._timeout = timeout
        self._connection: ClientConnection | None = None
        self._opened_for: tuple[str, Mapping[str, str]] = ("", {})
        self._opened_at = 0.0

    async def open(self, url: str, headers: Mapping[str, str]) -> None:
        """Open the socket, unless it is open for the same address and headers.

        Raises:
            ModelError: it cannot be opened.
        """
        kept = self._connection
        if kept is not None:
            fresh = time.monotonic() - self._opened_at < _LONGEST_USE
            if kept.state is State.OPEN and fresh and self._opened_for == (url, headers):
                return
            await self.aclose()
        self._connection = await self._connect(url, headers)
        self._opened_for, self._opened_at = (url, headers), time.monotonic()

    async def aclose(self) -> None:
        """Close the socket; an answer that is under way is cut."""
        connection, self._connection = self._connection, None
        self.answered.clear()
        if connection is not None:
            with anyio.CancelScope(shield=True):  # bounded by the connection's own close timeout
                await connection.close()

    async def drop(self) -> None:
        """Close the socket without a goodbye, for which an event loop that ends has no time."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.transport.abort()
            await asyncio.sleep(0)  # the transport closes in the next turn of the loop

    async def _connect(self, url: str, headers: Mapping[str, str]) -> ClientConnection:
        try:
            return await _Connect(
                url,
                additional_headers=headers,
                ssl=await tls_context() if urlsplit(url).scheme == "wss" else None,
                proxy=None if is_local(url) else True,
                compression=None,
                open_timeout=min(_OPEN_SECONDS, self._timeout),
                close_timeout=_CLOSE_SECONDS,
                max_size=MAX_LINE_BYTES,
                max_queue=_QUEUE,
                logger=logging.getLogger("bascule.models.websocket"),
            )
        except (OSError, WebSocketException, ImportError, EOFError) as error:
            raise self._endpoint.unreachable(f"no WebSocket: {error or type(error).__name__}") from error

    async def answer(
        self, frame: str, stream: MessageStream, *, keep: bool
    ) -> AsyncGenerator[Sequence[ModelPart], None]:
        """Send one request over the open socket and read its answer, message by message.

        Args:
            frame: the request.
            stream: takes the messages.
            keep: whether the socket stays open for the next call.

        Raises:
            ModelError: the server failed, refused the request, or cut the answer.
        """
        connection = self._connection
        assert connection is not None, "opened by the caller"
        silence = _Silence(connection, self._timeout)
        whole = False
        try:
            async with silence:
                await self._send(connection, frame)
                while not stream.done:
                    batch = stream.feed_event(await self._receive(connection, silence))
                    if batch:
                        yield batch
                    if stream.error is not None:
                        raise stream.error
            whole = keep
            if stream.response_id is not None:
                self.answered.add(stream.response_id)
            yield stream.end()
        finally:
            if not whole:
                await self.aclose()
            self.busy = False

    async def _send(self, connection: ClientConnection, frame: str) -> None:
        try:
            await connection.send(frame)
        except ConnectionClosed as error:
            raise self._endpoint.cut(str(error)) from error

    async def _receive(self, connection: ClientConnection, silence: "_Silence") -> Json:
        silence.since = time.monotonic()
        try:
            message = await connection.recv(decode=False)
        except ConnectionClosed as error:
            if silence.too_long:
                raise self._endpoint.timed_out(f"sent nothing for {self._timeout:g} s") from error
            raise self._endpoint.cut(str(error)) from error
        silence.since = None
        try:
            value: Json = from_json(message)
        except ValueError as error:
            raise self._endpoint.malformed("a message that is not valid JSON") from error
        return value


class _Connect(connect):
    """Follows no redirect, which would carry the key to another server."""

    def process_redirect(self, exc: Exception) -> Exception:
        return exc


class _Silence:
    """Ends a connection whose server has said nothing for too long.

    Costs one look at the clock for each message, where a timeout around each read would cost more than the read.
    """

    def __init__(self, connection: ClientConnection, timeout: float) -> None:
        self.since: float | None = None
        self.too_long = False
        self._connection = connection
        self._timeout = timeout

    async def __aenter__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._timer = self._loop.call_later(self._timeout, self._check)

    async def __aexit__(self, *_: object) -> None:
        self._timer.cancel()

    def _check(self) -> None:
        waited = 0.0 if self.since is None else time.monotonic() - self.since
        if waited < self._timeout:
            self._timer = self._loop.call_later(self._timeout - waited, self._check)
        else:
            self.too_long = True
            self._connection.transport.abort()
