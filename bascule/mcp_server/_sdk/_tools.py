"""tools/list and tools/call."""

from anyio import get_cancelled_exc_class
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS, CallToolRequestParams, PaginatedRequestParams

from bascule.context import use_context
from bascule.mcp_server._catalogue import AnyTool, Catalogue
from bascule.mcp_server._clients import Clients
from bascule.mcp_server._failures import failure_of
from bascule.mcp_server._results import Wire, call_result, error_result, present
from bascule.mcp_server._sdk._channel import ClientChannel
from bascule.mcp_server._sdk._requests import Context, caller_of, request_context_of
from bascule.messages import JsonObject
from bascule.tools import ToolContext

__all__ = ["LISTED", "ToolRequests", "tool_wire"]

LISTED: Wire = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}


def tool_wire(tool: AnyTool) -> Wire:
    """Return a tool as clients are shown it."""
    return present(
        {
            "name": tool.id,
            "title": tool.title,
            "description": tool.description or None,
            "inputSchema": tool.input_schema,
            "outputSchema": tool.output_schema,
            "annotations": tool.annotations,
            "_meta": tool.meta,
        }
    )


class ToolRequests:
    """Answers the requests about tools."""

    def __init__(self, catalogue: Catalogue, clients: Clients, *, heartbeat: float) -> None:
        self._catalogue = catalogue
        self._clients = clients
        self._heartbeat = heartbeat

    async def list_tools(self, context: Context, params: PaginatedRequestParams) -> Wire:
        """Return the tools that the caller may use."""
        caller = caller_of(context)
        tools = list(self._catalogue.visible_tools(caller.principal))
        self._clients.saw(caller, [tool.id for tool in tools])
        return {"tools": [tool_wire(tool) for tool in tools], **LISTED}

    def input_schema(self, name: str) -> JsonObject | None:
        """Return the input schema of a tool, for the check of headers that mirror arguments."""
        entry = self._catalogue.tools.get(name)
        return None if entry is None else entry.tool.input_schema

    async def call_tool(self, context: Context, params: CallToolRequestParams) -> Wire:
        """Call a tool.

        Raises:
            MCPError: there is no such tool.
        """
        caller = caller_of(context)
        self._clients.saw(caller)
        entry = self._catalogue.tools.get(params.name)
        if entry is None:
            raise MCPError(INVALID_PARAMS, f"Unknown tool: {params.name}", {"name": params.name})
        refusal = entry.refusal(caller.principal)
        if refusal is not None:
            return {**error_result(str(refusal)), "resultType": "complete"}
        channel = ClientChannel(context, level=self._clients.level_of(caller))
        ours = ToolContext(request_context=request_context_of(context, caller.principal), channel=channel)
        with use_context(ours.request_context):
            result = await self._run(entry.of(caller.principal), params.arguments or {}, ours, channel)
        return {**result, "resultType": "complete"}

    async def _run(self, tool: AnyTool, arguments: JsonObject, context: ToolContext, channel: ClientChannel) -> Wire:
        if not channel.wants_progress:
            return await _result(tool, arguments, context)
        async with channel.beating(self._heartbeat):
            return await _result(tool, arguments, context)


async def _result(tool: AnyTool, arguments: JsonObject, context: ToolContext) -> Wire:
    try:
        value = await tool.execute(arguments, context)
        structured = tool.output_schema is not None
        if tool.to_model_output is not None and not structured:
            value = tool.to_model_output(value)
        return call_result(value, structured=structured)
    except get_cancelled_exc_class():
        context.cancel.cancel("the client gave the call up")
        raise
    except Exception as error:  # noqa: BLE001  # the boundary of user code: the model reads what went wrong
        return error_result(failure_of(error, f"tool {tool.id!r}"))
