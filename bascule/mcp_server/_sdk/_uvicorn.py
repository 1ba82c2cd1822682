"""uvicorn, with an end that closes streams instead of waiting for them."""

from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any, Literal, cast

import uvicorn

from bascule.mcp_server._draining import Draining

__all__ = ["Uvicorn"]


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
                http=http,
                ws="none",
                lifespan="auto",
                log_config=None,
                access_log=False,
                server_header=False,
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
