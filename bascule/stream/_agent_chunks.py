"""The events of an agent's run."""

from dataclasses import dataclass, field
from typing import ClassVar, Literal

from bascule.messages import JsonObject, JsonValue
from bascule.stream._chunk import Chunk, Sender, Wire, present
from bascule.stream._usage import NO_USAGE, Usage

__all__ = [
    "AbortChunk",
    "DataChunk",
    "ErrorChunk",
    "FileChunk",
    "FinishChunk",
    "RawChunk",
    "ReasoningDeltaChunk",
    "ReasoningEndChunk",
    "ReasoningStartChunk",
    "RunFinishReason",
    "SourceChunk",
    "StartChunk",
    "StepFinishChunk",
    "StepStartChunk",
    "StoppedBy",
    "TextDeltaChunk",
    "TextEndChunk",
    "TextStartChunk",
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


@dataclass(frozen=True, slots=True)
class TextStartChunk(Chunk):
    """A block of text begins."""

    id: str
    type: ClassVar[Literal["text-start"]] = "text-start"

    def _payload(self) -> Wire:
        return {"id": self.id}


@dataclass(frozen=True, slots=True)
class TextDeltaChunk(Chunk):
    """A piece of text."""

    id: str
    text: str
    type: ClassVar[Literal["text-delta"]] = "text-delta"

    def _payload(self) -> Wire:
        return {"id": self.id, "text": self.text}


@dataclass(frozen=True, slots=True)
class TextEndChunk(Chunk):
    """A block of text is complete."""

    id: str
    type: ClassVar[Literal["text-end"]] = "text-end"

    def _payload(self) -> Wire:
        return {"id": self.id, "type": "text-end"}


@dataclass(frozen=True, slots=True)
class ReasoningStartChunk(Chunk):
    """A block of reasoning begins."""

    id: str
    type: ClassVar[Literal["reasoning-start"]] = "reasoning-start"

    def _payload(self) -> Wire:
        return {"id": self.id}


@dataclass(frozen=True, slots=True)
class ReasoningDeltaChunk(Chunk):
    """A piece of reasoning."""

    id: str
    text: str
    type: ClassVar[Literal["reasoning-delta"]] = "reasoning-delta"

    def _payload(self) -> Wire:
        return {"id": self.id, "text": self.text}


@dataclass(frozen=True, slots=True)
class ReasoningEndChunk(Chunk):
    """A block of reasoning is complete."""

    id: str
    type: ClassVar[Literal["reasoning-end"]] = "reasoning-end"

    def _payload(self) -> Wire:
        return {"id": self.id}


@dataclass(frozen=True, slots=True)
class SourceChunk(Chunk):
    """Something the answer rests on."""

    id: str
    url: str
    title: str | None = None
    type: ClassVar[Literal["source"]] = "source"

    def _payload(self) -> Wire:
        return present({"id": self.id, "sourceType": "url", "url": self.url, "title": self.title})


@dataclass(frozen=True, slots=True)
class FileChunk(Chunk):
    """A file that the model made; ``data`` is base64 text."""

    media_type: str
    data: str
    type: ClassVar[Literal["file"]] = "file"

    def _payload(self) -> Wire:
        return {"data": self.data, "base64": self.data, "mimeType": self.media_type}


@dataclass(frozen=True, slots=True)
class RawChunk(Chunk):
    """A provider's event, untouched."""

    value: JsonValue
    type: ClassVar[Literal["raw"]] = "raw"

    def _payload(self) -> Wire:
        return {"rawValue": self.value}


@dataclass(frozen=True, slots=True)
class DataChunk(Chunk):
    """An app's own data; on the wire its type is ``data-<name>`` and it carries ``data`` at the top."""

    name: str
    data: JsonValue
    type: ClassVar[str] = "data"
    sender: ClassVar[Sender] = "USER"

    def to_wire(self) -> Wire:
        return {"type": f"data-{self.name}", "runId": self.run_id, "from": self.sender, "data": self.data}


@dataclass(frozen=True, slots=True, kw_only=True)
class StepFinishChunk(Chunk):
    """A model call and the tools it asked for are done.

    Attributes:
        reason: why the model stopped, or ``error``, ``aborted``, ``suspended``.
        is_continued: whether another model call follows.
        usage: tokens of this step.
        text: the step's text.
        provider_metadata: the provider's own entries.
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
    type: ClassVar[Literal["step-finish"]] = "step-finish"

    def _payload(self) -> Wire:
        return {
            "messageId": self.message_id,
            "stepResult": {"reason": self.reason, "isContinued": self.is_continued, "warnings": []},
            "metadata": present(
                {
                    "id": self.response_id,
                    "timestamp": self.timestamp,
                    "modelId": self.model_id,
                    "modelMetadata": {"modelId": self.model_id, "modelProvider": self.provider},
                    "providerMetadata": self.provider_metadata,
                }
            ),
            "output": {"text": self.text, "toolCalls": [], "usage": self.usage.to_wire()},
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
    """

    message_id: str
    reason: RunFinishReason
    usage: Usage = NO_USAGE
    text: str = ""
    stopped_by: StoppedBy | None = None
    warnings: tuple[str, ...] = ()
    type: ClassVar[Literal["finish"]] = "finish"

    def _payload(self) -> Wire:
        return present(
            {
                "messageId": self.message_id,
                "stepResult": {"reason": self.reason, "isContinued": False, "warnings": self.warnings},
                "output": {"text": self.text, "usage": self.usage.to_wire()},
                "stoppedBy": self.stopped_by,
            }
        )


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
