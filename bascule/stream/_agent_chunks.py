"""The events that frame an agent's run: it starts, steps, fails, stops, ends."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Literal

from bascule.messages import JsonObject, Message, Part, ToolCallPart
from bascule.stream._chunk import Chunk, Wire, present
from bascule.stream._usage import NO_USAGE, Usage

__all__ = [
    "AbortChunk",
    "ErrorChunk",
    "FinishChunk",
    "RunFinishReason",
    "StartChunk",
    "StepFinishChunk",
    "StepStartChunk",
    "StoppedBy",
]

RunFinishReason = Literal[
    "stop",
    "length",
    "tool-calls",
    "content-filter",
    "error",
    "other",
    "unknown",
    "aborted",
    "suspended",
    "tripwire",
]

StoppedBy = Literal["max_steps", "stop_when", "callback", "bail", "repeated_calls"]


@dataclass(frozen=True, slots=True)
class StartChunk(Chunk):
    """The run begins; ``message_id`` is the id under which its answer will be stored."""

    agent_id: str
    message_id: str
    type: ClassVar[Literal["start"]] = "start"
    wire_keys: ClassVar[Mapping[str, str]] = {"agent_id": "id"}

    def _payload(self) -> Wire:
        return {"id": self.agent_id, "messageId": self.message_id}


@dataclass(frozen=True, slots=True)
class StepStartChunk(Chunk):
    """A model call begins; ``started_at`` is in milliseconds since the epoch."""

    message_id: str
    started_at: int
    type: ClassVar[Literal["step-start"]] = "step-start"

    def _payload(self) -> Wire:
        return {"messageId": self.message_id, "startedAt": self.started_at, "request": {}, "warnings": []}


@dataclass(frozen=True, slots=True, kw_only=True)
class StepFinishChunk(Chunk):
    """A model call and the tools it asked for are done.

    Attributes:
        reason: why the model stopped, or ``error``, ``aborted``, ``suspended``.
        is_continued: whether another model call follows.
        usage: tokens of this step.
        text: the step's text.
        timestamp: when the step ended, in ISO form.
        provider_metadata: the provider's own entries.
        parts: what the step added to the turn; on the wire as tool calls only.
    """

    message_id: str
    reason: RunFinishReason
    is_continued: bool
    usage: Usage = NO_USAGE
    text: str = ""
    provider: str = ""
    model_id: str = ""
    response_id: str | None = None
    timestamp: str = ""
    provider_metadata: JsonObject | None = None
    parts: tuple[Part, ...] = field(default=(), repr=False, compare=False)
    type: ClassVar[Literal["step-finish"]] = "step-finish"

    @property
    def metadata(self) -> Wire:
        """Where the answer came from, in wire spelling."""
        if not self.model_id:
            return present({"id": self.response_id, "providerMetadata": self.provider_metadata})
        return present(
            {
                "id": self.response_id,
                "timestamp": self.timestamp or None,
                "modelId": self.model_id,
                "modelMetadata": {"modelId": self.model_id, "modelProvider": self.provider},
                "providerMetadata": self.provider_metadata,
            }
        )

    def _payload(self) -> Wire:
        return {
            "messageId": self.message_id,
            "stepResult": {"reason": self.reason, "isContinued": self.is_continued, "warnings": []},
            "metadata": self.metadata,
            "output": {"text": self.text, "toolCalls": _tool_calls(self.parts), "usage": self.usage.to_wire()},
            "processorRetryCount": 0,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishChunk(Chunk):
    """The run is over: the last event of every run that was not suspended.

    Attributes:
        reason: why it is over.
        usage: tokens of the whole run.
        text: the text of the last step.
        stopped_by: what ended the loop before the model did.
        warnings: what the developer should know.
        steps: the steps of the run; not in our own wire form.
        remembered: the messages that memory contributed to the prompt; likewise.
        given: the caller's messages; likewise.
    """

    message_id: str
    reason: RunFinishReason
    usage: Usage = NO_USAGE
    text: str = ""
    stopped_by: StoppedBy | None = None
    warnings: tuple[str, ...] = ()
    steps: tuple[StepFinishChunk, ...] = field(default=(), repr=False, compare=False)
    remembered: tuple[Message, ...] = field(default=(), repr=False, compare=False)
    given: tuple[Message, ...] = field(default=(), repr=False, compare=False)
    type: ClassVar[Literal["finish"]] = "finish"

    def _payload(self) -> Wire:
        last = self.steps[-1] if self.steps else None
        return present(
            {
                "messageId": self.message_id,
                "stepResult": {"reason": self.reason, "isContinued": False, "warnings": self.warnings},
                "metadata": last.metadata if last is not None else {},
                "output": {
                    "text": self.text,
                    "toolCalls": _tool_calls(last.parts) if last is not None else [],
                    "usage": self.usage.to_wire(),
                },
                "stoppedBy": self.stopped_by,
                "processorRetryCount": 0,
            }
        )


def _tool_calls(parts: tuple[Part, ...]) -> list[Wire]:
    return [
        {"toolCallId": part.tool_call_id, "toolName": part.tool_name, "args": part.args}
        for part in parts
        if isinstance(part, ToolCallPart)
    ]


@dataclass(frozen=True, slots=True)
class ErrorChunk(Chunk):
    """The run failed; a finish with the reason ``error`` follows.

    Attributes:
        name: the error's class.
        message: what happened, without secrets.
        cause: the exception; never on the wire.
    """

    name: str
    message: str
    cause: Exception | None = field(default=None, repr=False, compare=False)
    type: ClassVar[Literal["error"]] = "error"

    def _payload(self) -> Wire:
        return {"type": "error", "error": {"name": self.name, "message": self.message}}


@dataclass(frozen=True, slots=True)
class AbortChunk(Chunk):
    """The run was told to stop; a finish with the reason ``aborted`` follows."""

    reason: str | None = None
    type: ClassVar[Literal["abort"]] = "abort"

    def _payload(self) -> Wire:
        return present({"reason": self.reason})
