"""The SDK's HTTP side: requests with a session, without one, and of the revisions that know no sessions."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, cast

import pydantic_core
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import DEFAULT_MAX_REQUEST_BODY_SIZE, RequestBodyLimitMiddleware
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS

from bascule.auth import principal_of, refusal
from bascule.errors import ScopeMissing
from bascule.mcp_server._answers import Message, Receive, Scope, Send, header
from bascule.mcp_server._catalogue import Catalogue
from bascule.mcp_server._sdk._build import Built
from bascule.mcp_server._sdk._requests import SESSION_HEADER, sdk_user

__all__ = ["HttpSessions"]


class HttpSessions:
    """Serves HTTP requests while its context is open.

    Args:
        built: the server.
        catalogue: says which tools a caller may use.
    """

    def __init__(self, built: Built, catalogue: Catalogue) -> None:
        self.built = built
        self._catalogue = catalogue
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
        if scope["method"] == "POST":
            first = await receive()  # the whole body: the check of its size has collected it
            receive = _again(first, receive)
            missing = self._scope_missing(scope, first)
            if missing is not None:
                await refusal(scope, missing)(scope, receive, send)
                return
            if self._may_lack_session(scope) and not _opens_session(first):
                manager = self._without
        await manager.handle_request(scope, receive, send)

    def _scope_missing(self, scope: Scope, message: Message) -> ScopeMissing | None:
        """Return why a tool may not be called, while the status can still say it (RFC 6750 section 3.1)."""
        principal, body = principal_of(scope), message.get("body", b"")
        if not principal.verified or b'"tools/call"' not in body or not self._catalogue.has_scopes:
            return None
        try:
            entry = self._catalogue.tools.get(pydantic_core.from_json(body)["params"]["name"])
        except (ValueError, LookupError, TypeError):
            return None  # no call of a tool; the SDK says what is wrong with it
        return None if entry is None else entry.refusal(principal)

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
