"""The MCP endpoint as one plain ASGI app that can be mounted anywhere and starts itself."""

import logging
from collections.abc import Awaitable, Callable
from contextvars import Context
from typing import TYPE_CHECKING, TypeAlias

import anyio
from anyio.lowlevel import EventLoopToken, current_token

from bascule.context import CancelToken
from bascule.mcp_server._answers import STOPPING, Message, Receive, Response, Scope, Send, answer, local_path
from bascule.mcp_server._catalogue import Catalogue
from bascule.runs import start_detached
from bascule.tools import failure_text, run_in_daemon_thread

if TYPE_CHECKING:
    from bascule.mcp_server._sdk._build import Built
    from bascule.mcp_server._sdk._sessions import HttpSessions

__all__ = ["HEALTH", "READY", "McpAsgi", "Ready"]

logger = logging.getLogger("bascule.mcp")

HEALTH, READY = "/healthz", "/readyz"

READY_WITHIN = 5.0
"""Seconds after which an app that does not say whether it can serve cannot."""

Ready: TypeAlias = Callable[[], bool | Awaitable[bool]]
"""Returns whether the app can serve."""


_NO_BATCH = {
    "jsonrpc": "2.0",
    "id": None,
    "error": {
        "code": -32600,
        "message": "The body must hold one JSON-RPC 2.0 message; batches are not part of this protocol.",
    },
}


def _beginning_with(first: Message, receive: Receive) -> Receive:
    """Return a ``receive`` that gives a message that was read already, and then the others."""
    waiting = [first]

    async def again() -> Message:
        return waiting.pop() if waiting else await receive()

    return again


class McpAsgi:
    """Serves MCP under one path, and the health checks.

    Sessions live in a task of their own: the lifespan's, when the server or framework gives one, else one that the
    first request starts. Another event loop gets sessions of its own.

    Args:
        build: makes the SDK's server.
        catalogue: what the server offers.
        path: where MCP is served, with and without a slash at the end.
        health: whether to serve ``/healthz`` and ``/readyz``.
        ready: asked by ``/readyz``.
    """

    def __init__(
        self, build: "Callable[[], Built]", catalogue: Catalogue, *, path: str, health: bool, ready: Ready | None
    ) -> None:
        self._build = build
        self._catalogue = catalogue
        self._path = "/" + path.strip("/") if path.strip("/") else ""
        self._health = health
        self._ready = ready
        self._live: _Live | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one ASGI scope."""
        match scope["type"]:
            case "lifespan":
                await self._lifespan(receive, send)
            case "http":
                await self._http(scope, receive, send)
            case "websocket":
                await send({"type": "websocket.close", "code": 1000})
            case kind:
                raise ValueError(f"The ASGI scope type {kind!r} is not known.")

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = local_path(scope)
        if self._is_endpoint(scope, path):
            await self._mcp(scope, receive, send)
        elif self._health and path in (HEALTH, READY):
            await self._answer_health(scope, path, send)
        else:
            await answer(send, 404, {"error": "not_found", "message": f"Nothing is served at {path[:200]!r}."})

    def _is_endpoint(self, scope: Scope, path: str) -> bool:
        if path.rstrip("/") == self._path:
            return True
        # Mounted at the very path that it serves: do not ask clients for /mcp/mcp.
        root: str = scope.get("root_path", "")
        return path in ("", "/") and self._path != "" and root.rstrip("/").endswith(self._path)

    async def _mcp(self, scope: Scope, receive: Receive, send: Send) -> None:
        stopping: CancelToken | None = scope.get(STOPPING)
        live = self._here()
        await live.ready.wait()
        if live.sessions is None:
            raise RuntimeError(
                "The MCP sessions of this event loop have ended; they begin again with the next request."
            )
        if stopping is not None:
            live.heed(stopping)
            if scope["method"] == "GET":
                receive = _until(stopping, receive)
        if scope["method"] == "POST":
            first = await receive()
            if bytes(first.get("body", b"")).lstrip()[:1] == b"[":
                await answer(send, 400, _NO_BATCH)
                return
            receive = _beginning_with(first, receive)
        response = Response(send)
        await live.sessions.serve(_stripped(scope), receive, response.send)
        await response.end()

    def _here(self) -> "_Live":
        """Return the sessions of this event loop; start them in a task of their own when there are none."""
        live = self._live
        if live is None or live.over or live.loop.native_token is not current_token().native_token:
            live = self._live = _Live()
            # Not in the context of this request: its identity is not the sessions'.
            Context().run(start_detached, lambda: live.run(self._sessions))
        return live

    def _sessions(self) -> "HttpSessions":
        """Make the sessions; away from the event loop, which the imports would block for most of a second."""
        from bascule.mcp_server._sdk._sessions import HttpSessions  # noqa: PLC0415  # the door of a heavy package

        return HttpSessions(self._build(), self._catalogue)

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        await receive()
        live = self._live = _Live()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(live.run, self._sessions)
            await live.ready.wait()
            if live.error is not None:
                await send({"type": "lifespan.startup.failed", "message": str(live.error)})
                return
            await send({"type": "lifespan.startup.complete"})
            await receive()
            live.close_streams()
            live.stop.set()
        await send({"type": "lifespan.shutdown.complete"})

    async def _answer_health(self, scope: Scope, path: str, send: Send) -> None:
        if scope["method"] not in ("GET", "HEAD"):
            await answer(send, 405, {"error": "method_not_allowed"}, (b"allow", b"GET, HEAD"))
            return
        ready = True
        if path == READY:
            stopping: CancelToken | None = scope.get(STOPPING)
            ready = not (stopping and stopping.cancelled) and await self._can_serve()
        await answer(send, 200 if ready else 503, {"status": "ok" if ready else "unavailable"})

    async def _can_serve(self) -> bool:
        if self._ready is None:
            return True
        try:
            with anyio.fail_after(READY_WITHIN):
                found = self._ready()
                return await found if isinstance(found, Awaitable) else found
        except Exception as error:  # noqa: BLE001  # whatever it is that is broken, the answer is no
            text = f"no answer within {READY_WITHIN:g} s" if isinstance(error, TimeoutError) else failure_text(error)
            logger.warning("the app is not ready: %s", " ".join(text[:200].split()))
            return False


class _Live:
    """The sessions of one event loop."""

    def __init__(self) -> None:
        self.loop: EventLoopToken = current_token()
        self.ready = anyio.Event()
        self.stop = anyio.Event()
        self.over = False
        self.sessions: HttpSessions | None = None
        self.error: Exception | None = None
        self._heeded: CancelToken | None = None

    async def run(self, make: "Callable[[], HttpSessions]") -> None:
        """Serve until ``stop``; what goes wrong is kept for the requests that need it."""
        try:
            sessions = await run_in_daemon_thread(make)
            async with sessions.running():
                self.sessions = sessions
                self.ready.set()
                await self.stop.wait()
        except Exception as error:
            logger.exception("the MCP sessions ended")
            self.error = error
        finally:
            self.over = True
            self.sessions = None
            self.ready.set()

    def heed(self, stopping: CancelToken) -> None:
        """Close the clients' streams when the server stops."""
        if stopping is not self._heeded:
            self._heeded = stopping
            stopping.on_cancel(self.close_streams)

    def close_streams(self) -> None:
        """End the streams that would otherwise stay open for ever."""
        if self.sessions is not None:
            self.sessions.built.close_streams()


def _until(stopping: CancelToken, receive: Receive) -> Receive:
    """Return a ``receive`` that says that the client has left as soon as the server stops."""

    async def received() -> Message:
        message: Message = {"type": "http.disconnect"}
        async with anyio.create_task_group() as tasks:

            async def take() -> None:
                nonlocal message
                message = await receive()
                tasks.cancel_scope.cancel()

            tasks.start_soon(take)
            await stopping.wait()
            tasks.cancel_scope.cancel()
        return message

    return received


def _stripped(scope: Scope) -> Scope:
    """Return the scope with header values as RFC 9110 section 5.5 defines them: without the white space around.

    Some servers leave it on, and then values that must equal the body's do not.
    """
    headers: list[tuple[bytes, bytes]] = scope["headers"]
    if not any(value[:1] in (b" ", b"\t") or value[-1:] in (b" ", b"\t") for _, value in headers):
        return scope
    return {**scope, "headers": [(name, value.strip(b" \t")) for name, value in headers]}
