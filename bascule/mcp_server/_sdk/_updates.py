"""Tells clients that a resource changed, in the way that their revision of the protocol has for it.

Nobody who publishes waits for a reader. Each session with subscriptions has the URIs that it is yet to hear of, each of
them once however often it changed, and while there are any a task of its own that sends them. A session that takes
nothing for a while, or falls too far behind, is told no more; one that ended is forgotten with its connection.

A conversation's updates belong to its owner: subscriptions are kept with the owner for whom they were made, and an
update with an owner reaches only those.
"""

import logging
from collections.abc import Awaitable, Callable
from contextvars import Context as Variables

import anyio
from anyio.lowlevel import checkpoint
from mcp.server.connection import Connection
from mcp.server.subscriptions import ListenHandler, ResourceUpdated, ServerEvent
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    SubscribeRequestParams,
    SubscriptionsListenRequestParams,
    SubscriptionsListenResult,
    UnsubscribeRequestParams,
)

from bascule.context import RequestContext, current_context, use_context
from bascule.errors import InputError
from bascule.mcp_server._catalogue import Catalogue
from bascule.mcp_server._failures import failure_of
from bascule.mcp_server._memory import Conversations, is_thread_uri
from bascule.mcp_server._results import Wire
from bascule.mcp_server._sdk._requests import Context, caller_of, request_context_of
from bascule.runs import start_detached

__all__ = ["Updates"]

logger = logging.getLogger("bascule.mcp")

MOST_SUBSCRIPTIONS = 1000
"""Subscriptions of one session that are kept; the oldest are forgotten first."""

MOST_WAITING = 100
"""URIs that a session may be behind."""

PATIENCE = 10.0
"""Seconds that a session may take to accept one message."""


class Updates:
    """The subscriptions of all clients.

    Args:
        catalogue: says which resources belong to an owner.

    Attributes:
        listening: serves the streams of revisions without sessions.
        patience: seconds that a session may take to accept one message.
    """

    def __init__(self, catalogue: Catalogue) -> None:
        self.patience = PATIENCE
        self._catalogue = catalogue
        self._bus = _OwnersBus()
        self.listening: ListenHandler = _Listening(self._bus, self._check)
        self._sessions: dict[Connection, _Session] = {}

    @property
    def sessions(self) -> int:
        """How many sessions that have subscribed are still told of changes."""
        return len(self._sessions)

    async def subscribe(self, context: Context, params: SubscribeRequestParams) -> Wire:
        """Tell this session of changes of a resource.

        Raises:
            MCPError: the caller has no such conversation.
        """
        request, uri = _request_of(context), str(params.uri)
        await self._check(request, uri)
        connection = _connection_of(context)
        session = self._sessions.get(connection)
        if session is None:
            session = self._sessions[connection] = _Session(connection, lambda: self._forget(connection), self.patience)
            connection.exit_stack.callback(self._forget, connection)
        session.subscribe(request.owner, uri)
        return {}

    async def unsubscribe(self, context: Context, params: UnsubscribeRequestParams) -> Wire:
        """Tell this session no more."""
        session = self._sessions.get(_connection_of(context))
        if session is not None:
            session.subscribed.pop((_request_of(context).owner, str(params.uri)), None)
        return {}

    async def resource_updated(self, uri: str, owner: str | None = None) -> None:
        """Tell every client that subscribed to the resource; returns before they have heard of it.

        Args:
            uri: the resource.
            owner: whose it is; everybody's when ``None``.
        """
        self._bus.tell(ResourceUpdated(uri=uri), owner)
        for session in tuple(self._sessions.values()):
            session.tell(uri, owner)
        await checkpoint()  # a burst from one task lets the streams send in between

    def _forget(self, connection: Connection) -> None:
        session = self._sessions.pop(connection, None)
        if session is not None:
            session.end()

    async def _check(self, request: RequestContext, uri: str) -> None:
        if not is_thread_uri(uri):
            return
        found = self._catalogue.find_resource(uri)
        if found is not None and isinstance(found[0], Conversations):
            try:
                await found[0].check(found[1], request)
            except InputError as error:
                raise _unknown(uri) from error
            except Exception as error:
                raise MCPError(INTERNAL_ERROR, failure_of(error, f"resource {uri!r}")) from error
        elif found is None:
            raise _unknown(uri)


class _Session:
    """The subscriptions of one session, and what it is yet to be told.

    Args:
        connection: its connection.
        forget: called when it does not keep up.
        patience: seconds that it may take to accept one message.
    """

    def __init__(self, connection: Connection, forget: Callable[[], None], patience: float) -> None:
        self.subscribed: dict[tuple[str, str], None] = {}
        self._patience = patience
        self._connection = connection
        self._forget = forget
        self._waiting: dict[str, None] = {}
        self._sending: anyio.CancelScope | None = None

    def subscribe(self, owner: str, uri: str) -> None:
        self.subscribed.pop((owner, uri), None)
        self.subscribed[owner, uri] = None
        if len(self.subscribed) > MOST_SUBSCRIPTIONS:
            del self.subscribed[next(iter(self.subscribed))]

    def tell(self, uri: str, owner: str | None) -> None:
        """Have the session told, when it subscribed."""
        if owner is None:
            wanted = any(subscribed == uri for _, subscribed in self.subscribed)
        else:
            wanted = (owner, uri) in self.subscribed
        if not wanted:
            return
        self._waiting[uri] = None
        if len(self._waiting) > MOST_WAITING:
            self._forget()
        elif self._sending is None:
            self._sending = anyio.CancelScope()
            # Not in the context of whoever changed the resource.
            Variables().run(start_detached, self._send)

    def end(self) -> None:
        """Send no more."""
        self.subscribed.clear()
        self._waiting.clear()
        if self._sending is not None:
            self._sending.cancel()

    async def _send(self) -> None:
        assert self._sending is not None
        try:
            with self._sending:
                while self._waiting:
                    uri = next(iter(self._waiting))
                    del self._waiting[uri]
                    with anyio.move_on_after(self._patience) as limit:
                        await self._connection.notify("notifications/resources/updated", {"uri": uri})
                    if limit.cancelled_caught:
                        self._forget()
        except Exception:
            logger.exception("a session could not be told of a change")
            self._forget()
        finally:
            self._sending = None


class _OwnersBus:
    """The SDK's seam to its streams, which keeps for each stream for whom it was opened."""

    def __init__(self) -> None:
        self._listeners: dict[object, tuple[str | None, Callable[[ServerEvent], None]]] = {}

    async def publish(self, event: ServerEvent) -> None:
        """Deliver an event to every stream."""
        self.tell(event, None)
        await checkpoint()

    def subscribe(self, listener: Callable[[ServerEvent], None]) -> Callable[[], None]:
        """Add a stream, which belongs to the owner of the current request."""
        token, request = object(), current_context()
        self._listeners[token] = (None if request is None else request.owner, listener)

        def unsubscribe() -> None:
            self._listeners.pop(token, None)

        return unsubscribe

    def tell(self, event: ServerEvent, owner: str | None) -> None:
        """Deliver an event to the streams of an owner; to all when there is none."""
        for whose, listener in tuple(self._listeners.values()):
            if owner is None or whose == owner:
                listener(event)


class _Listening(ListenHandler):
    """Serves streams of events, each for the owner of the request that opens it."""

    def __init__(self, bus: _OwnersBus, check: Callable[[RequestContext, str], Awaitable[None]]) -> None:
        super().__init__(bus)
        self._check = check

    async def __call__(self, ctx: Context, params: SubscriptionsListenRequestParams) -> SubscriptionsListenResult:
        """Serve one stream.

        Raises:
            MCPError: the caller has no such conversation.
        """
        request = _request_of(ctx)
        for uri in params.notifications.resource_subscriptions or ():
            await self._check(request, str(uri))
        with use_context(request):
            return await super().__call__(ctx, params)


def _request_of(context: Context) -> RequestContext:
    return request_context_of(context, caller_of(context).principal)


def _connection_of(context: Context) -> Connection:
    """Return what lasts as long as the session; the SDK makes its session object anew for each request."""
    return context.session._connection  # pyright: ignore[reportPrivateUsage]  # there is no public way


def _unknown(uri: str) -> MCPError:
    return MCPError(INVALID_PARAMS, f"Unknown resource: {uri}", {"uri": uri})
