"""uvicorn, with an end that closes streams instead of waiting for them, and with a limit for slow headers."""

import asyncio  # noqa: TID251  # uvicorn stands on it
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal, cast

import uvicorn
from uvicorn.importer import import_from_string

from bascule.mcp_server._draining import Draining

__all__ = ["Uvicorn"]

HEADERS_WITHIN = 30.0
"""Seconds that a client may take to send the head of a request."""

PROTOCOLS = {
    "auto": "uvicorn.protocols.http.auto:AutoHTTPProtocol",
    "h11": "uvicorn.protocols.http.h11_impl:H11Protocol",
    "httptools": "uvicorn.protocols.http.httptools_impl:HttpToolsProtocol",
}

if TYPE_CHECKING:
    from uvicorn.protocols.http.h11_impl import H11Protocol as _Protocol
else:
    _Protocol = object


class _Punctual(_Protocol):
    """Closes a connection whose client begins a request and does not get through its head; mixed into a protocol."""

    _limit: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:  # Any: narrower than in asyncio
        super().connection_made(transport)
        self._watch()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        cycle: Any = self.cycle  # Any: None before the first request, unlike its annotation
        if cycle is not None and not cycle.response_complete:
            self._rest()
        elif self._limit is None:
            self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._rest()

    def _watch(self) -> None:
        self._limit = self.loop.call_later(HEADERS_WITHIN, self.transport.close)

    def _rest(self) -> None:
        if self._limit is not None:
            self._limit.cancel()
            self._limit = None


def _protocol(name: Literal["auto", "h11", "httptools"]) -> type[asyncio.Protocol]:
    base: Any = import_from_string(PROTOCOLS[name])  # Any: what uvicorn finds is not known before it runs
    return type(f"Punctual{base.__name__}", (_Punctual, base), {})


class Uvicorn(uvicorn.Server):
    """Serves an app on sockets that are already open; signals are somebody else's.

    Args:
        app: the app, which knows its requests in flight.
        grace: seconds that requests in flight get at the end.
        http: the HTTP parser.
        root_path: the prefix that a proxy strips.

    Attributes:
        on_listening: called as soon as connections are accepted.
    """

    def __init__(
        self, app: Draining, *, grace: float, http: Literal["auto", "h11", "httptools"], root_path: str
    ) -> None:
        super().__init__(
            uvicorn.Config(
                cast("Any", app),  # Any: uvicorn's types of ASGI events are its own
                http=_protocol(http),
                ws="none",
                lifespan="auto",
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=False,  # who may write them is not known here; the scheme is in base_url
                root_path=root_path,
                timeout_graceful_shutdown=1,
            )
        )
        self.on_listening: Callable[[], None] | None = None
        self._draining = app
        self._grace = grace

    def stop(self) -> None:
        """Begin to end; the second call ends without grace."""
        if self.should_exit:
            self._draining.hurry()
        self.should_exit = True

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        """Leave signals alone."""
        yield

    async def startup(self, sockets: Any = None) -> None:  # Any: as the method that it overrides
        """Start the app and accept connections."""
        await super().startup(sockets)
        if self.started and self.on_listening is not None:
            self.on_listening()

    async def shutdown(self, sockets: Any = None) -> None:  # Any: as the method that it overrides
        """Accept no more connections, end the requests in flight, then the app."""
        for server in self.servers:
            server.close()
        await self._draining.drain(self._grace)
        await super().shutdown(sockets)
