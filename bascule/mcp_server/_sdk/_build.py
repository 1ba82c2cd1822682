"""Makes the SDK's low-level server from a catalogue."""

from dataclasses import dataclass
from typing import Any

import mcp_types as types
from mcp.server.lowlevel import Server
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler
from pydantic import BaseModel

from bascule.mcp_server._catalogue import Catalogue
from bascule.mcp_server._clients import Clients
from bascule.mcp_server._results import Wire
from bascule.mcp_server._sdk._reading import ReadingRequests
from bascule.mcp_server._sdk._requests import Context, caller_of
from bascule.mcp_server._sdk._tools import ToolRequests

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
    """The SDK's server, and what ends its streams.

    Attributes:
        server: answers requests.
        listening: its open ``subscriptions/listen`` streams.
    """

    server: Server[Any]  # Any: there is no lifespan state
    listening: ListenHandler


def build(catalogue: Catalogue, clients: Clients, identity: Identity, *, heartbeat: float) -> Built:
    """Return a server that offers what the catalogue holds at the time of each request."""
    tools = ToolRequests(catalogue, clients, heartbeat=heartbeat)
    listening = ListenHandler(InMemorySubscriptionBus())
    server: Server[Any] = Server(
        identity.name,
        version=identity.version,
        title=identity.title,
        instructions=identity.instructions,
        get_tool_input_schema=tools.input_schema,
        on_subscriptions_listen=listening,
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
        add("resources/subscribe", types.SubscribeRequestParams, _accept)
        add("resources/unsubscribe", types.UnsubscribeRequestParams, _accept)
    if catalogue.completes:
        add("completion/complete", types.CompleteRequestParams, reading.complete)

    async def set_level(context: Context, params: types.SetLevelRequestParams) -> Wire:
        clients.set_level(caller_of(context), params.level)
        return {}

    add("logging/setLevel", types.SetLevelRequestParams, set_level)
    return Built(server, listening)


async def _accept(context: Context, params: BaseModel) -> Wire:
    return {}
