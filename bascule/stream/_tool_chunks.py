"""The events of tool calls."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Literal

from bascule.messages import JsonObject, JsonValue
from bascule.stream._chunk import Chunk, Sender, Wire, present
from bascule.stream._usage import NO_USAGE, Usage

__all__ = [
    "PendingCall",
    "SuspendedChunk",
    "ToolCallApprovalChunk",
    "ToolCallChunk",
    "ToolCallDeltaChunk",
    "ToolCallInputEndChunk",
    "ToolCallInputStartChunk",
    "ToolCallSuspendedChunk",
    "ToolErrorChunk",
    "ToolErrorKind",
    "ToolOutputChunk",
    "ToolOutputDeniedChunk",
    "ToolResultChunk",
]

ToolErrorKind = Literal["invalid_input", "invalid_json", "not_found", "raised", "denied", "cancelled"]


@dataclass(frozen=True, slots=True)
class ToolCallInputStartChunk(Chunk):
    """The model begins to write a call's arguments; ``observability`` ties a client's tool to the trace."""

    tool_call_id: str
    tool_name: str
    observability: JsonObject | None = None
    type: ClassVar[Literal["tool-call-input-streaming-start"]] = "tool-call-input-streaming-start"


@dataclass(frozen=True, slots=True)
class ToolCallDeltaChunk(Chunk):
    """A piece of a call's arguments, as JSON text."""

    tool_call_id: str
    tool_name: str
    args_text: str
    type: ClassVar[Literal["tool-call-delta"]] = "tool-call-delta"
    wire_keys: ClassVar[Mapping[str, str]] = {"args_text": "argsTextDelta"}

    def _payload(self) -> Wire:
        return {"argsTextDelta": self.args_text, "toolCallId": self.tool_call_id, "toolName": self.tool_name}


@dataclass(frozen=True, slots=True)
class ToolCallInputEndChunk(Chunk):
    """A call's arguments are complete."""

    tool_call_id: str
    type: ClassVar[Literal["tool-call-input-streaming-end"]] = "tool-call-input-streaming-end"

    def _payload(self) -> Wire:
        return {"toolCallId": self.tool_call_id}


@dataclass(frozen=True, slots=True)
class ToolCallChunk(Chunk):
    """The model calls a tool.

    Attributes:
        args: the arguments; the raw text when it was not JSON.
        observability: ties a client's tool to the trace.
    """

    tool_call_id: str
    tool_name: str
    args: JsonValue
    observability: JsonObject | None = None
    type: ClassVar[Literal["tool-call"]] = "tool-call"


@dataclass(frozen=True, slots=True)
class ToolResultChunk(Chunk):
    """A tool returned.

    Attributes:
        result: what it returned, as JSON values.
        value: the returned object itself; never on the wire.
        model_output: what the model is shown instead, when the tool says so.
    """

    tool_call_id: str
    tool_name: str
    args: JsonValue
    result: JsonValue
    value: object = field(default=None, repr=False, compare=False)
    model_output: JsonValue = None
    type: ClassVar[Literal["tool-result"]] = "tool-result"


@dataclass(frozen=True, slots=True)
class ToolErrorChunk(Chunk):
    """A tool call failed; the model is shown ``message`` and the run goes on."""

    tool_call_id: str
    tool_name: str
    args: JsonValue
    kind: ToolErrorKind
    message: str
    type: ClassVar[Literal["tool-error"]] = "tool-error"

    def _payload(self) -> Wire:
        return {
            "args": self.args,
            "toolCallId": self.tool_call_id,
            "toolName": self.tool_name,
            "error": {"name": _NAMES[self.kind], "message": self.message, "id": self.kind},
        }


_NAMES: dict[ToolErrorKind, str] = {
    "invalid_input": "ToolInputInvalid",
    "invalid_json": "ToolInputInvalid",
    "not_found": "ToolNotFoundError",
    "raised": "ToolExecutionError",
    "denied": "ToolDenied",
    "cancelled": "ToolCancelled",
}


@dataclass(frozen=True, slots=True)
class ToolOutputChunk(Chunk):
    """Something a tool tells while it runs: its own data, or an event of the subagent that it runs.

    Attributes:
        output: the data in wire form.
        inner: the subagent's or workflow's event, when it is one; never on the wire.
    """

    tool_call_id: str
    tool_name: str
    output: JsonValue
    inner: Chunk | None = field(default=None, repr=False, compare=False)
    type: ClassVar[Literal["tool-output"]] = "tool-output"
    sender: ClassVar[Sender] = "USER"

    def _payload(self) -> Wire:
        return {"output": self.output, "toolCallId": self.tool_call_id, "toolName": self.tool_name}


@dataclass(frozen=True, slots=True)
class ToolCallApprovalChunk(Chunk):
    """A tool waits for a person's decision.

    Attributes:
        resume_schema: JSON schema of the answer.
        options: what an external agent lets the person choose from, untouched.
    """

    tool_call_id: str
    tool_name: str
    args: JsonValue
    resume_schema: JsonObject | None = None
    options: tuple[JsonObject, ...] | None = None
    type: ClassVar[Literal["tool-call-approval"]] = "tool-call-approval"


@dataclass(frozen=True, slots=True)
class ToolCallSuspendedChunk(Chunk):
    """A tool waits for something from outside; ``suspended`` follows when nothing else can go on.

    Attributes:
        suspend_payload: what the tool says of what it waits for.
        resume_schema: JSON schema of the answer.
    """

    tool_call_id: str
    tool_name: str
    args: JsonValue
    suspend_payload: JsonValue = None
    resume_schema: JsonObject | None = None
    type: ClassVar[Literal["tool-call-suspended"]] = "tool-call-suspended"


@dataclass(frozen=True, slots=True)
class ToolOutputDeniedChunk(Chunk):
    """A person, or a policy, declined the call; the tool did not run."""

    tool_call_id: str
    tool_name: str
    args: JsonValue
    reason: str | None = None
    type: ClassVar[Literal["tool-output-denied"]] = "tool-output-denied"

    def _payload(self) -> Wire:
        return {
            "toolCallId": self.tool_call_id,
            "toolName": self.tool_name,
            "args": self.args,
            "approval": present({"id": self.tool_call_id, "approved": False, "reason": self.reason}),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingCall:
    """A tool call that waits for an answer from outside."""

    tool_call_id: str
    tool_name: str
    args: JsonValue
    kind: Literal["approval", "suspend"] = "approval"
    suspend_payload: JsonValue = None
    resume_schema: JsonObject | None = None

    def to_wire(self) -> Wire:
        """Return the call with camelCase keys."""
        return present(
            {
                "toolCallId": self.tool_call_id,
                "toolName": self.tool_name,
                "args": self.args,
                "kind": self.kind,
                "suspendPayload": self.suspend_payload,
                "resumeSchema": self.resume_schema,
            }
        )


@dataclass(frozen=True, slots=True)
class SuspendedChunk(Chunk):
    """The run waits for answers to ``pending``: the last event of this stream."""

    pending: tuple[PendingCall, ...]
    usage: Usage = NO_USAGE
    type: ClassVar[Literal["suspended"]] = "suspended"

    def _payload(self) -> Wire:
        return {
            "runId": self.run_id,
            "pending": [call.to_wire() for call in self.pending],
            "usage": self.usage.to_wire(),
        }
