"""The SDK's HTTP side: requests with a session, without one, and of the revisions that know no sessions."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, cast

import pydantic_core
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import DEFAULT_MAX_REQUEST_BODY_SIZE, RequestBodyLimitMiddleware
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS

from bascule.auth import principal_of
from bascule.mcp_server._answers import Message, Receive, Scope, Send, header
from bascule.mcp_server._sdk._build import Built
from bascule.mcp_server._sdk._requests import SESSION_HEADER, sdk_user

__all__ = ["HttpSessions"]


class HttpSessions:
    """Serves HTTP requests while its context is open.

    Args:
        built: the server.
    """

    def __init__(self, built: Built) -> None:
        self.built = built
        self._with_session = StreamableHTTPSessionManager(app=built.server)
        self._without = StreamableHTTPSessionManager(app=built.server, stateless=True)
        self._limited = RequestBodyLimitMiddleware(self._route, DEFAULT_MAX_REQUEST_BODY_SIZE)

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        """Serve until the block is left; sessions end with it."""
        async with self._with_session.run(), self._without.run():
            yield

    async def serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one HTTP request."""
        principal = principal_of(scope)
        if principal.verified:
            scope = {**scope, "user": sdk_user(principal)}
        await self._limited(scope, receive, send)

    async def _route(self, scope: Scope, receive: Receive, send: Send) -> None:
        manager = self._with_session
        if scope["method"] == "POST" and self._may_lack_session(scope):
            first = await receive()
            receive = _again(first, receive)
            if not _opens_session(first):
                manager = self._without
        await manager.handle_request(scope, receive, send)

    def _may_lack_session(self, scope: Scope) -> bool:
        version = header(scope, b"mcp-protocol-version")
        handshake = version is None or version in HANDSHAKE_PROTOCOL_VERSIONS
        return handshake and header(scope, SESSION_HEADER.encode()) is None


def _opens_session(message: Message) -> bool:
    """Whether a body is an ``initialize`` request, or no message at all and best answered by the SDK."""
    body: bytes = message.get("body", b"")
    if b'"initialize"' not in body and body.lstrip()[:1] == b"{":
        return False
    try:
        found: Any = pydantic_core.from_json(body)  # Any: not checked yet
    except ValueError:
        return True
    return not isinstance(found, dict) or cast("dict[str, object]", found).get("method") == "initialize"


def _again(first: Message, receive: Receive) -> Receive:
    """Return a ``receive`` that gives ``first`` once more."""
    pending = [first]

    async def replay() -> Message:
        return pending.pop() if pending else await receive()

    return replay
