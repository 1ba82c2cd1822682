"""A run's events as short texts that a person can read while the run goes on."""

from bascule.messages import JsonValue
from bascule.stream import (
    AcpNoticeChunk,
    Chunk,
    ErrorChunk,
    StepStartChunk,
    TextDeltaChunk,
    TextEndChunk,
    ToolCallApprovalChunk,
    ToolCallChunk,
    ToolErrorChunk,
    ToolOutputChunk,
    ToolOutputDeniedChunk,
    ToolResultChunk,
    WorkflowStepOutputChunk,
    WorkflowStepResultChunk,
    WorkflowStepStartChunk,
)
from bascule.tools import model_text

__all__ = ["LONGEST", "StepTexts"]

LONGEST = 200
"""Clients show about as many characters of a progress message."""

VALUE = 80


class StepTexts:
    """Takes the events of one run, or of several one inside the other, and says what is worth telling."""

    def __init__(self) -> None:
        self._steps: dict[str, int] = {}
        self._texts: dict[tuple[str, str], str] = {}

    def of(self, chunk: Chunk) -> str | None:
        """Return the text for an event; ``None`` when there is nothing new for a person."""
        text = self._of(chunk)
        return None if text is None else shorten(text, LONGEST)

    def _of(self, chunk: Chunk) -> str | None:
        match chunk:
            case StepStartChunk():
                number = self._steps[chunk.run_id] = self._steps.get(chunk.run_id, 0) + 1
                return f"Step {number}"
            case TextDeltaChunk():
                key = (chunk.run_id, chunk.id)
                self._texts[key] = (self._texts.get(key, "") + chunk.text)[: LONGEST + 1]
                return None
            case TextEndChunk():
                return self._texts.pop((chunk.run_id, chunk.id), "").strip() or None
            case ToolOutputChunk():
                return self._inner(chunk.tool_name, chunk.inner)
            case WorkflowStepOutputChunk():
                return self._inner(chunk.step_id, chunk.inner)
            case _:
                return tool_text(chunk) or workflow_text(chunk)

    def _inner(self, name: str, chunk: Chunk | None) -> str | None:
        text = None if chunk is None else self._of(chunk)
        return None if text is None else f"{name}: {text}"


def tool_text(chunk: Chunk) -> str | None:
    """Return the text for an event of a tool call, or of a run's trouble."""
    match chunk:
        case ToolCallChunk():
            return f"Calling {chunk.tool_name}({_arguments(chunk.args)})"
        case ToolResultChunk():
            return f"{chunk.tool_name} returned {shorten(model_text(chunk.result), VALUE)}"
        case ToolErrorChunk():
            return f"{chunk.tool_name} failed: {chunk.message}"
        case ToolOutputDeniedChunk():
            return f"{chunk.tool_name} was declined" + (f": {chunk.reason}" if chunk.reason else "")
        case ToolCallApprovalChunk():
            return f"{chunk.tool_name} waits for a decision"
        case ErrorChunk():
            return f"Failed: {chunk.message}"
        case AcpNoticeChunk():
            return chunk.message
        case _:
            return None


def workflow_text(chunk: Chunk) -> str | None:
    """Return the text for an event of a workflow."""
    match chunk:
        case WorkflowStepStartChunk():
            return f"Step {chunk.step_id} started"
        case WorkflowStepResultChunk(status="success"):
            return f"Step {chunk.step_id} done"
        case WorkflowStepResultChunk():
            return f"Step {chunk.step_id} {chunk.status}" + (f": {chunk.error}" if chunk.error else "")
        case _:
            return None


def _arguments(arguments: JsonValue) -> str:
    if isinstance(arguments, str):
        return shorten(arguments, VALUE)
    if isinstance(arguments, dict):
        return shorten(", ".join(f"{name}={model_text(value)}" for name, value in arguments.items()), VALUE)
    return shorten(model_text(arguments), VALUE)


def shorten(text: str, limit: int) -> str:
    """Return the text on one line and within ``limit`` characters."""
    line = " ".join(text.split())
    return line if len(line) <= limit else f"{line[: limit - 3].rstrip()}..."
