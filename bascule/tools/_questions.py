"""Follows a run to its end, and puts what it asks on the way to the person behind the caller."""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import anyio

from bascule.errors import ToolError
from bascule.messages import JsonObject
from bascule.runs import AgentOutput
from bascule.stream import FullOutput, PendingCall
from bascule.tools._context import ToolContext

__all__ = ["Conclusion", "Decidable", "conclude"]

ABORT = 10.0
"""Seconds for a run to end that its caller left."""

NOBODY = "nobody could be asked"

QUESTION: JsonObject = {
    "type": "object",
    "properties": {
        "approve": {"type": "boolean", "description": "Whether the agent may do this."},
        "reason": {"type": "string", "description": "Why not."},
    },
    "required": ["approve"],
}


@runtime_checkable
class Decidable(Protocol):
    """What runs may be suspended until a person has decided on a tool call."""

    def approve_tool_call(self, *, run_id: str, tool_call_id: str | None = None) -> AgentOutput:
        """Allow a call and return the output of the rest of the run."""
        ...

    def decline_tool_call(
        self, *, run_id: str, tool_call_id: str | None = None, reason: str | None = None
    ) -> AgentOutput:
        """Refuse a call and return the output of the rest of the run."""
        ...

    async def abort_run(self, run_id: str) -> None:
        """Stop a run, also one that waits for a decision; ended ones are passed over."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Conclusion:
    """How a run ended.

    Attributes:
        result: the part after the last question; suspended only when nothing can decide for the run.
        before: the text up to the last question.
        warnings: what the developer should know, of all parts.
        unasked: names of the tools that were declined because nobody could be asked.
    """

    result: FullOutput
    before: str = ""
    warnings: tuple[str, ...] = ()
    unasked: tuple[str, ...] = ()


async def conclude(runnable: object, output: AgentOutput, context: ToolContext, *, name: str) -> Conclusion:
    """Follow a run to its end.

    Its events reach the caller's channel; stopping the caller stops it. Each call that waits for a decision is put to
    the person behind the caller; where nobody can be asked it is declined. No run is left waiting, whatever happens.

    Args:
        runnable: what runs; asked to go on when it is a ``Decidable``.
        output: the run's output.
        context: the caller.
        name: who asks, for people.
    """
    if not isinstance(runnable, Decidable):
        await _read(output, context)
        result = output.snapshot()
        return Conclusion(result=result, warnings=tuple(result.warnings))
    texts: list[str] = []
    warnings: list[str] = []
    unasked: list[str] = []
    try:
        while True:
            await _read(output, context)
            result = output.snapshot()
            warnings += result.warnings
            if result.status != "suspended":
                break
            texts.append(result.text)
            output = await _put_question(runnable, output.run_id, result.pending[0], context, name, unasked)
    finally:
        with anyio.move_on_after(ABORT, shield=True):
            await runnable.abort_run(output.run_id)
    return Conclusion(result=result, before="".join(texts), warnings=tuple(warnings), unasked=tuple(unasked))


async def _read(output: AgentOutput, context: ToolContext) -> None:
    forget = context.cancel.on_cancel(lambda: output.cancel(context.cancel.reason))
    try:
        async with output:
            async for chunk in output:
                await context.channel.emit(chunk)
    finally:
        forget()


async def _put_question(
    runnable: Decidable, run_id: str, call: PendingCall, context: ToolContext, name: str, unasked: list[str]
) -> AgentOutput:
    """Ask about one call that waits; others come up again."""
    try:
        answer = await context.ask(f"{name} asks for permission: {call.tool_name}", QUESTION)
    except ToolError:
        unasked.append(call.tool_name)
        return runnable.decline_tool_call(run_id=run_id, tool_call_id=call.tool_call_id, reason=NOBODY)
    content = answer.content or {}
    if answer.action == "accept" and content.get("approve") is True:
        return runnable.approve_tool_call(run_id=run_id, tool_call_id=call.tool_call_id)
    reason = content.get("reason")
    return runnable.decline_tool_call(
        run_id=run_id, tool_call_id=call.tool_call_id, reason=reason if isinstance(reason, str) else None
    )
