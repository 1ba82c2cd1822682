"""A coding agent as a tool."""

from typing import Protocol

from pydantic import BaseModel, ConfigDict, Field

from bascule.acp._run import AcpOutput
from bascule.context import CancelToken, RequestContext
from bascule.errors import ToolError
from bascule.messages import JsonObject, JsonValue, MessagesInput
from bascule.stream import PendingCall
from bascule.tools import Answer, MemoryOption, Tool, ToolContext, answer_of, safe_name

__all__ = ["task_tool"]


class TaskInput(BaseModel):
    """What the tool takes."""

    model_config = ConfigDict(extra="forbid")

    task: str = Field(min_length=1, description="The task, with everything it takes to do it.")


_OUTPUT: JsonObject = {
    "type": "object",
    "properties": {
        "output": {"type": "string", "description": "What the agent answered."},
        "files_changed": {"type": "array", "items": {"type": "string"}, "description": "The files that it changed."},
        "warnings": {"type": "array", "items": {"type": "string"}, "description": "What did not go as asked."},
    },
    "required": ["output", "files_changed"],
}


class CodingAgent(Protocol):
    """What the tool needs of an ``AcpAgent``."""

    @property
    def id(self) -> str:
        """Its id."""
        ...

    @property
    def name(self) -> str:
        """Its name for people."""
        ...

    @property
    def description(self) -> str:
        """What it is good for."""
        ...

    def stream(
        self,
        messages: MessagesInput,
        *,
        memory: MemoryOption | None = None,
        run_id: str | None = None,
        request_context: RequestContext | None = None,
        abort_signal: CancelToken | None = None,
    ) -> AcpOutput:
        """Start a turn."""
        ...

    def resume_stream(self, resume_data: JsonObject, *, run_id: str, tool_call_id: str | None = None) -> AcpOutput:
        """Go on after a question."""
        ...

    async def abort_run(self, run_id: str) -> None:
        """Stop a run."""
        ...


def task_tool(agent: CodingAgent, *, name: str | None = None, description: str | None = None) -> Tool[..., object]:
    """Return a tool ``{task}`` that gives a task to a coding agent.

    The agent's events reach the caller's stream. What the agent asks permission for is put to the person behind the
    caller; where nobody can be asked, it is declined.
    """

    async def run(arguments: TaskInput, context: ToolContext) -> object:
        return await _run(agent, arguments.task, context)

    return Tool(
        name or safe_name(agent.id.replace("-", "_")),
        description=description or f"{agent.description} Give it a task in plain words; it answers when it is done.",
        title=agent.name,
        input_schema=TaskInput,
        output=_OUTPUT,
        execute=run,
    )


async def _run(agent: CodingAgent, task: str, context: ToolContext) -> JsonObject:
    output = agent.stream(task, request_context=context.request_context)
    texts: list[str] = []
    warnings: list[str] = []
    try:
        while True:
            await _read(output, context)
            result = output.snapshot()
            texts.append(result.text)
            warnings += result.warnings
            if result.status != "suspended":
                break
            output = await _put_question(agent, output.run_id, result.pending[0], context, warnings)
    finally:
        await agent.abort_run(output.run_id)
    answer_of(result, agent.name)
    answer: dict[str, JsonValue] = {"output": "".join(texts), "files_changed": list(output.files_changed)}
    if warnings:
        answer["warnings"] = warnings
    return answer


async def _read(output: AcpOutput, context: ToolContext) -> None:
    """Hand on the events of an output; stopping the caller stops it."""
    forget = context.cancel.on_cancel(lambda: output.cancel(context.cancel.reason))
    try:
        async with output:
            async for chunk in output:
                await context.channel.emit(chunk)
    finally:
        forget()


async def _put_question(
    agent: CodingAgent, run_id: str, call: PendingCall, context: ToolContext, warnings: list[str]
) -> AcpOutput:
    """Ask about one call that waits; others come up again."""
    schema: JsonObject = {
        "type": "object",
        "properties": {
            "approve": {"type": "boolean", "description": "Whether the agent may do this."},
            "reason": {"type": "string", "description": "Why not."},
        },
        "required": ["approve"],
    }
    try:
        answer = await context.ask(f"{agent.name} asks for permission: {call.tool_name}", schema)
    except ToolError:
        answer = Answer("decline", {"reason": "nobody could be asked"})
        warnings.append(f"permission_denied: {call.tool_name}: nobody could be asked, which counts as no.")
    content = answer.content or {}
    approved = answer.action == "accept" and content.get("approve") is True
    data: JsonObject = {"approved": approved, "reason": content.get("reason")}
    return agent.resume_stream(data, run_id=run_id, tool_call_id=call.tool_call_id)
