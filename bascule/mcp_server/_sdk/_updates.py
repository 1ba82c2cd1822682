"""Tells clients that a resource changed, in the way that their revision of the protocol has for it."""

from collections import OrderedDict

from mcp.server.session import ServerSession
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ResourceUpdated
from mcp_types import SubscribeRequestParams, UnsubscribeRequestParams

from bascule.mcp_server._results import Wire
from bascule.mcp_server._sdk._requests import Context, caller_of

__all__ = ["Updates"]

REMEMBERED = 10_000
"""Subscriptions of sessions that are kept; a session does not say when it ends."""


class Updates:
    """The subscriptions of all clients.

    Attributes:
        listening: serves the streams of revisions without sessions.
    """

    def __init__(self) -> None:
        self._bus = InMemorySubscriptionBus()
        self.listening = ListenHandler(self._bus)
        self._sessions: OrderedDict[tuple[str, str], ServerSession] = OrderedDict()

    async def subscribe(self, context: Context, params: SubscribeRequestParams) -> Wire:
        """Tell this session of changes of a resource."""
        self._sessions[str(params.uri), caller_of(context).key] = context.session
        while len(self._sessions) > REMEMBERED:
            self._sessions.popitem(last=False)
        return {}

    async def unsubscribe(self, context: Context, params: UnsubscribeRequestParams) -> Wire:
        """Tell this session no more."""
        self._sessions.pop((str(params.uri), caller_of(context).key), None)
        return {}

    async def resource_updated(self, uri: str) -> None:
        """Tell every client that subscribed to the resource; those that have left are passed over."""
        await self._bus.publish(ResourceUpdated(uri=uri))
        for (subscribed, _), session in tuple(self._sessions.items()):
            if subscribed == uri:
                await session.send_resource_updated(uri)
