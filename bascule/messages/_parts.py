"""Messages and their parts, as they are stored, sent to models and shown to people."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from os import urandom
from typing import ClassVar, Literal, TypeAlias

__all__ = [
    "DataPart",
    "ErrorPart",
    "FilePart",
    "JsonObject",
    "JsonValue",
    "Message",
    "Part",
    "ReasoningPart",
    "Role",
    "SourcePart",
    "StepStartPart",
    "TextPart",
    "ToolCallPart",
    "ToolCallState",
    "new_id",
    "utc_now",
]

JsonValue: TypeAlias = Mapping[str, "JsonValue"] | Sequence["JsonValue"] | str | int | float | bool | None
JsonObject: TypeAlias = Mapping[str, JsonValue]

Role = Literal["system", "user", "assistant", "signal"]

ToolCallState = Literal["call", "result", "approval-requested", "approval-responded", "output-error", "output-denied"]


def new_id() -> str:
    """Return a fresh random identifier in the form of a UUID (RFC 9562, version 4)."""
    digits = urandom(16).hex()
    variant = "89ab"[int(digits[16], 16) & 3]
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-{variant}{digits[17:20]}-{digits[20:]}"


def utc_now() -> datetime:
    """Return the present moment in UTC."""
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class TextPart:
    """Plain text."""

    text: str
    type: ClassVar[Literal["text"]] = "text"


@dataclass(frozen=True, slots=True)
class ReasoningPart:
    """What a model thought aloud."""

    text: str
    provider_metadata: JsonObject | None = None
    type: ClassVar[Literal["reasoning"]] = "reasoning"


@dataclass(frozen=True, slots=True, kw_only=True)
class FilePart:
    """A file or an image.

    Attributes:
        media_type: its MIME type.
        data: base64 text, or ``None`` when ``url`` says where it lies.
        url: where the content lies, or ``None`` when ``data`` holds it.
        filename: a name to show.
    """

    media_type: str
    data: str | None = None
    url: str | None = None
    filename: str | None = None
    type: ClassVar[Literal["file"]] = "file"


@dataclass(frozen=True, slots=True, kw_only=True)
class SourcePart:
    """Something that an answer rests on."""

    id: str
    url: str
    title: str | None = None
    type: ClassVar[Literal["source-url"]] = "source-url"


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCallPart:
    """A tool call and, as soon as it is known, what came of it.

    Attributes:
        tool_call_id: the id that the model gave the call.
        tool_name: the tool.
        args: the arguments; the raw text when they were not JSON.
        state: how far the call is.
        result: what the tool returned, for state ``result``.
        model_output: what the model is shown instead of ``result``, when the tool says so.
        error: the error text, for the states ``output-error`` and ``output-denied``.
    """

    tool_call_id: str
    tool_name: str
    args: JsonValue
    state: ToolCallState = "call"
    result: JsonValue = None
    model_output: JsonValue = None
    error: str | None = None
    type: ClassVar[Literal["tool-invocation"]] = "tool-invocation"


@dataclass(frozen=True, slots=True)
class StepStartPart:
    """The border between two model calls of one turn."""

    type: ClassVar[Literal["step-start"]] = "step-start"


@dataclass(frozen=True, slots=True)
class ErrorPart:
    """A step of the turn failed."""

    name: str
    message: str
    type: ClassVar[Literal["error"]] = "error"


@dataclass(frozen=True, slots=True)
class DataPart:
    """An app's own data in a message; ``name`` is the part after ``data-``."""

    name: str
    data: JsonValue
    type: ClassVar[Literal["data"]] = "data"


Part: TypeAlias = TextPart | ReasoningPart | FilePart | SourcePart | ToolCallPart | StepStartPart | ErrorPart | DataPart


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One message of a conversation; a whole assistant turn with its tool calls is one message.

    Attributes:
        role: who speaks.
        parts: the content in order; ``StepStartPart`` separates the model calls of one turn.
        id: unique; a message saved twice under one id is stored once.
        created_at: moment of creation in UTC.
        thread_id: the conversation it is stored in.
        resource_id: the owner of that conversation.
        metadata: the app's own entries, kept untouched.
    """

    role: Role
    parts: tuple[Part, ...]
    id: str = field(default_factory=new_id)
    created_at: datetime = field(default_factory=utc_now)
    thread_id: str | None = None
    resource_id: str | None = None
    metadata: JsonObject | None = None

    @property
    def text(self) -> str:
        """All text parts, joined."""
        return "".join(part.text for part in self.parts if isinstance(part, TextPart))

    def owned_by(self, *, thread_id: str, resource_id: str) -> "Message":
        """Return a copy that belongs to a thread."""
        return replace(self, thread_id=thread_id, resource_id=resource_id)
