"""Where agents, workflows and external coding agents meet."""

from collections.abc import Mapping
from typing import Protocol, TypedDict

from pydantic import BaseModel, ConfigDict, Field

from bascule.context import CancelToken, RequestContext
from bascule.errors import ToolError
from bascule.messages import JsonValue, MessagesInput
from bascule.runs import AgentOutput
from bascule.stream import FullOutput
from bascule.tools._context import ToolContext
from bascule.tools._names import safe_name
from bascule.tools._questions import Conclusion, conclude
from bascule.tools._tool import Tool

__all__ = ["MemoryOption", "Runnable", "answer_of", "answer_text", "runnable_tool"]


class MemoryOption(TypedDict, total=False):
    """Which conversation a run belongs to.

    Attributes:
        thread: the thread's id, or a mapping with ``id``, ``title`` and ``metadata``.
        resource: the owner of the thread.
    """

    thread: str | Mapping[str, JsonValue]
    resource: str


class Runnable(Protocol):
    """Anything that answers messages with a stream: an agent, or an external coding agent."""

    @property
    def id(self) -> str:
        """Its id in the app."""
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
        request_context: RequestContext | None = None,
        abort_signal: CancelToken | None = None,
    ) -> AgentOutput:
        """Start a run and return its live output."""
        ...


class _Prompt(BaseModel):
    model_config = ConfigDict(extra="forbid")

    prompt: str = Field(description="The task, with everything it takes to do it.")


def runnable_tool(runnable: Runnable, *, name: str | None = None, description: str | None = None) -> Tool[..., object]:
    """Return a tool with the input ``{prompt}`` that runs ``runnable`` and answers with its text.

    The run's events reach the caller's stream while it goes on; stopping the caller stops it. What the run asks is put
    to the person behind the caller; where nobody can be asked, it is declined, and the answer says so.

    Args:
        runnable: what the tool runs.
        name: the tool's name; ``agent-<id>`` when left out.
        description: what models read; the runnable's description when left out.
    """

    async def run(arguments: _Prompt, context: ToolContext) -> object:
        output = runnable.stream(arguments.prompt, request_context=context.request_context, abort_signal=context.cancel)
        return answer_text(await conclude(runnable, output, context, name=runnable.name), runnable.name)

    return Tool(
        name or safe_name(f"agent-{runnable.id}"),
        description=description or runnable.description or f"Delegates a task to the agent {runnable.name}.",
        input_schema=_Prompt,
        execute=run,
    )


def answer_of(output: FullOutput, name: str) -> str:
    """Return the text of a finished run.

    Raises:
        ToolError: the run failed, was stopped, or waits for a decision.
    """
    if output.status == "failed":
        shown = output.error_message or "The log has the details."
        raise ToolError(f"{name} failed: {shown}")
    if output.status == "canceled":
        raise ToolError(f"{name} was stopped before it had an answer.")
    if output.status == "suspended":
        waiting = ", ".join(call.tool_name for call in output.pending)
        raise ToolError(f"{name} waits for a decision on {waiting} (run {output.run_id}).")
    return output.text or output.all_text


def answer_text(conclusion: Conclusion, name: str) -> str:
    """Return the text of a run that was followed to its end, with a word on what was declined unasked.

    Raises:
        ToolError: the run failed, was stopped, or waits for a decision that cannot be made here.
    """
    note = ""
    if conclusion.unasked:
        names = ", ".join(dict.fromkeys(conclusion.unasked))
        note = f"[Declined: {names}. The client that called cannot be asked for permission.]"
    try:
        text = conclusion.before + answer_of(conclusion.result, name)
    except ToolError as error:
        if not note:
            raise
        raise ToolError(f"{error} {note}") from error
    return "\n\n".join(filter(None, [text, note]))
