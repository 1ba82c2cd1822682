"""A coding agent as a tool."""

from typing import Protocol

from pydantic import BaseModel, ConfigDict, Field

from bascule.acp._run import AcpOutput
from bascule.context import CancelToken, RequestContext
from bascule.messages import JsonObject, JsonValue, MessagesInput
from bascule.tools import Decidable, MemoryOption, Tool, ToolContext, answer_of, conclude, safe_name

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


class CodingAgent(Decidable, Protocol):
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
    conclusion = await conclude(agent, output, context, name=agent.name)
    answer_of(conclusion.result, agent.name)
    answer: dict[str, JsonValue] = {
        "output": conclusion.before + conclusion.result.text,
        "files_changed": list(output.files_changed),
    }
    declined = [f"permission_denied: {tool}: nobody could be asked, which counts as no." for tool in conclusion.unasked]
    if conclusion.warnings or declined:
        answer["warnings"] = [*conclusion.warnings, *declined]
    return answer
