"""Makes the SDK's low-level server from a catalogue."""

from dataclasses import dataclass
from functools import partial
from typing import Any

import mcp_types as types
from mcp.server.lowlevel import Server
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from bascule.mcp_server._catalogue import Catalogue
from bascule.mcp_server._clients import Clients
from bascule.mcp_server._results import Wire
from bascule.mcp_server._sdk._reading import ReadingRequests
from bascule.mcp_server._sdk._requests import Context, caller_of
from bascule.mcp_server._sdk._tools import ToolRequests
from bascule.mcp_server._sdk._updates import Updates

__all__ = ["Built", "Identity", "build"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """How a server introduces itself."""

    name: str
    version: str
    title: str | None
    instructions: str | None


@dataclass(frozen=True, slots=True)
class Built:
    """The SDK's server, and the subscriptions of its clients.

    Attributes:
        server: answers requests.
        updates: tells clients what changed.
    """

    server: Server[Any]  # Any: there is no lifespan state
    updates: Updates

    def close_streams(self) -> None:
        """End the streams that clients hold open."""
        self.updates.listening.close()


def build(catalogue: Catalogue, clients: Clients, identity: Identity, *, heartbeat: float) -> Built:
    """Return a server that offers what the catalogue holds at the time of each request."""
    tools = ToolRequests(catalogue, clients, heartbeat=heartbeat)
    updates = Updates(catalogue)
    server: Server[Any] = Server(
        identity.name,
        version=identity.version,
        title=identity.title,
        instructions=identity.instructions,
        get_tool_input_schema=tools.input_schema,
        on_subscriptions_listen=updates.listening,
    )
    server.middleware.clear()  # the SDK's tracing costs a tenth of each call, exporter or not
    add = server.add_request_handler
    add("tools/list", types.PaginatedRequestParams, tools.list_tools)
    add("tools/call", types.CallToolRequestParams, tools.call_tool)
    reading = ReadingRequests(catalogue, clients)
    if catalogue.prompts:
        add("prompts/list", types.PaginatedRequestParams, reading.list_prompts)
        add("prompts/get", types.GetPromptRequestParams, reading.get_prompt)
    if catalogue.has_resources:
        add("resources/list", types.PaginatedRequestParams, reading.list_resources)
        add("resources/templates/list", types.PaginatedRequestParams, reading.list_templates)
        add("resources/read", types.ReadResourceRequestParams, reading.read_resource)
        add("resources/subscribe", types.SubscribeRequestParams, updates.subscribe)
        add("resources/unsubscribe", types.UnsubscribeRequestParams, updates.unsubscribe)
    if catalogue.completes:
        add("completion/complete", types.CompleteRequestParams, reading.complete)

    async def set_level(context: Context, params: types.SetLevelRequestParams) -> Wire:
        clients.set_level(caller_of(context), params.level)
        return {}

    add("logging/setLevel", types.SetLevelRequestParams, set_level)
    add("server/discover", types.RequestParams, partial(_discover, server))
    return Built(server, updates)


async def _discover(server: Server[Any], context: Context, params: types.RequestParams) -> types.DiscoverResult:
    """Introduce the server; unlike the SDK's own answer, this one does not promise lists that change."""
    capabilities = server.get_capabilities(protocol_version=context.protocol_version)
    for listed in (capabilities.tools, capabilities.prompts, capabilities.resources):
        if listed is not None:
            listed.list_changed = False
    return types.DiscoverResult(
        supported_versions=list(MODERN_PROTOCOL_VERSIONS),
        capabilities=capabilities,
        instructions=server.instructions,
    )
