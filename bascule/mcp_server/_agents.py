"""Agents as tools: ``ask_<id>`` takes a message and answers with the agent's text."""

from collections.abc import Awaitable, Callable
from dataclasses import replace

from bascule.context import RequestContext
from bascule.mcp_server._catalogue import AnyTool
from bascule.messages import JsonObject, JsonValue
from bascule.tools import MemoryOption, Runnable, Tool, ToolContext, answer_text, conclude, safe_name

__all__ = ["agent_tools", "ask_name"]

MESSAGE: JsonObject = {
    "type": "string",
    "minLength": 1,
    "description": "What to ask or to have done, with everything it takes to do it.",
}
THREAD: JsonObject = {
    "type": "string",
    "minLength": 1,
    "maxLength": 256,
    "description": "Continues the conversation with this id, or begins it. Leave out for a single question.",
}
OWNER: JsonObject = {
    "type": "string",
    "minLength": 1,
    "maxLength": 256,
    "description": "Whom the conversation belongs to. Leave out unless you serve several people.",
}


Answered = Callable[[str, str], Awaitable[None]]
"""Called with the id of a thread, and whose it is, when an answer became part of it."""


def ask_name(agent_id: str) -> str:
    """Return the name of an agent's tool."""
    return safe_name(f"ask_{agent_id.replace('-', '_')}")


def agent_tools(agent: Runnable, *, answered: Answered | None = None) -> tuple[AnyTool, AnyTool]:
    """Return an agent's tool for callers without a verified identity, and the one for verified callers.

    Only the first lets the caller say whom a conversation belongs to.

    Args:
        agent: the agent, or external coding agent.
        answered: called when an answer became part of a thread.
    """

    async def ask(arguments: JsonObject, context: ToolContext) -> object:
        request, given = _request_of(arguments, context), arguments.get("thread_id")
        thread = given if isinstance(given, str) else None
        answer = await _ask(agent, str(arguments["message"]), thread, request, context)
        if answered is not None and thread is not None:
            await answered(thread, request.owner)
        return answer

    def made(properties: JsonObject) -> AnyTool:
        return Tool(
            ask_name(agent.id),
            description=agent.description or f"Asks {agent.name} and returns the answer.",
            title=f"Ask {agent.name}",
            input_schema={
                "type": "object",
                "properties": properties,
                "required": ["message"],
                "additionalProperties": False,
            },
            execute=ask,
        )

    properties: dict[str, JsonValue] = {"message": MESSAGE, "thread_id": THREAD}
    return made({**properties, "resource_id": OWNER}), made(properties)


def _request_of(arguments: JsonObject, context: ToolContext) -> RequestContext:
    """Return the context of the run: only a caller without a verified identity may say whom it is for."""
    request = context.request_context
    owner, thread = arguments.get("resource_id"), arguments.get("thread_id")
    if isinstance(owner, str) and not request.principal.verified:
        request = replace(request, resource_id=owner)
    return replace(request, thread_id=thread) if isinstance(thread, str) else request


async def _ask(agent: Runnable, message: str, thread: str | None, request: RequestContext, context: ToolContext) -> str:
    memory: MemoryOption | None = None if thread is None else {"thread": thread, "resource": request.owner}
    output = agent.stream(message, memory=memory, request_context=request, abort_signal=context.cancel)
    return answer_text(await conclude(agent, output, context, name=agent.name), agent.name)
