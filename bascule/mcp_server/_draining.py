"""Ends an ASGI app's requests in order: first those that only wait, then those that work, at last by force."""

import anyio

from bascule.context import CancelToken
from bascule.mcp_server._answers import STOPPING, ASGIApp, Receive, Response, Scope, Send, answer

__all__ = ["Draining"]


class Draining:
    """An ASGI app that knows its requests in flight and can end them.

    Apps inside find a ``CancelToken`` in the scope that is set when the end begins: they close what would otherwise
    stay open for ever. A response that was begun is always completed, so that no client sees a torn stream.

    Args:
        app: the app.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._stopping = CancelToken()
        self._requests: set[anyio.CancelScope] = set()
        self._changed = anyio.Event()
        self._hurry = anyio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one ASGI scope."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        if self._stopping.cancelled:
            headers = ((b"connection", b"close"), (b"retry-after", b"1"))
            await answer(send, 503, {"error": "stopping", "message": "The server is stopping."}, *headers)
            return
        response = Response(send)
        with anyio.CancelScope() as request:
            self._requests.add(request)
            try:
                await self._app({**scope, STOPPING: self._stopping}, receive, response.send)
            finally:
                self._requests.discard(request)
                self._changed.set()
        if request.cancelled_caught:
            await response.cut()

    async def drain(self, grace: float) -> None:
        """End all requests.

        Args:
            grace: seconds that requests in flight may take.
        """
        self._stopping.cancel("the server stops")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._wait, grace)
            await self._hurry.wait()
            tasks.cancel_scope.cancel()
        for request in tuple(self._requests):
            request.cancel()

    def hurry(self) -> None:
        """Let the requests in flight take no more time."""
        self._hurry.set()

    async def _wait(self, grace: float) -> None:
        with anyio.move_on_after(grace):
            while self._requests:
                self._changed = anyio.Event()
                await self._changed.wait()
        self._hurry.set()
