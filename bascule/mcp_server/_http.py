"""Serves an ASGI app over HTTP; stands on asyncio, because uvicorn does."""

import asyncio  # noqa: TID251  # see above
import errno
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING, Literal, TypeAlias

import anyio

from bascule.errors import ConfigurationError, PortInUse, SettingInvalid
from bascule.mcp_server._answers import ASGIApp
from bascule.mcp_server._draining import Draining
from bascule.mcp_server._process import SLACK, current_process, on_signals

if TYPE_CHECKING:
    from bascule.mcp_server._sdk._uvicorn import Uvicorn

__all__ = ["HttpParser", "serve_http"]

HttpParser: TypeAlias = Literal["auto", "h11", "httptools"]


async def serve_http(
    app: ASGIApp,
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    grace: float = 10.0,
    http: HttpParser = "auto",
    root_path: str = "",
    on_listening: Callable[[str, int], None] | None = None,
) -> None:
    """Serve until SIGTERM, SIGINT or SIGHUP, or until cancelled.

    At the end the open streams of clients are closed, requests in flight get ``grace`` seconds, and whatever is left is
    cut off.

    Args:
        app: an ASGI app.
        host: the address to listen on.
        port: the port to listen on; 0 takes a free one.
        grace: seconds that requests in flight get at the end.
        http: the HTTP parser.
        root_path: the prefix that a proxy strips.
        on_listening: called with host and port as soon as connections are accepted.

    Raises:
        PortInUse: another process listens there.
        ConfigurationError: the address cannot be used, or the event loop is not asyncio's.
    """
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        raise ConfigurationError(
            "HTTP is served by uvicorn, which runs on asyncio. Use anyio's asyncio backend."
        ) from None
    from bascule.mcp_server._sdk._uvicorn import Uvicorn  # noqa: PLC0415  # the door of a heavy package

    draining = Draining(app)
    listener = listen(host, port)
    try:
        server = Uvicorn(draining, grace=grace, http=http, root_path=root_path)
        if on_listening is not None:
            server.on_listening = lambda: on_listening(host, listener.getsockname()[1])

        def stop() -> None:
            process = current_process()
            if process is not None:
                process.end_within(grace + SLACK)
            loop.call_soon_threadsafe(server.stop)

        with on_signals(stop):
            await _serve(server, listener)
    finally:
        listener.close()


async def _serve(server: "Uvicorn", listener: socket.socket) -> None:
    async with anyio.create_task_group() as tasks:

        async def hurry_when_cancelled() -> None:
            try:
                await anyio.sleep_forever()
            finally:
                server.stop()
                server.stop()

        tasks.start_soon(hurry_when_cancelled)
        with anyio.CancelScope(shield=True):
            await server.serve(sockets=[listener])
        tasks.cancel_scope.cancel()


def listen(host: str, port: int) -> socket.socket:
    """Return a listening socket.

    Raises:
        PortInUse: another process listens there.
        SettingInvalid: the host is not an address of this machine, or the port may not be used.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host.strip("[]"), port))
        listener.listen(2048)
    except OSError as error:
        listener.close()
        if error.errno == errno.EADDRINUSE:
            raise PortInUse(
                f"Another process listens on port {port} of {host}. Stop it, or choose another port, for example with "
                f"--port {port + 1}; --port 0 takes a free one."
            ) from error
        if error.errno == errno.EACCES:
            raise SettingInvalid(f"This user may not listen on port {port}. Use a port above 1023.") from error
        raise SettingInvalid(
            f"Cannot listen on {host!r}, port {port}: {error}. Use an address of this machine."
        ) from error
    except OverflowError as error:
        listener.close()
        raise SettingInvalid(f"The port {port} is not between 0 and 65535.") from error
    listener.setblocking(False)
    return listener
