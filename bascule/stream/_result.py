"""What a run came to."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from bascule.errors import AgentRunError, ModelError
from bascule.messages import JsonObject, JsonValue, Message, Part, ReasoningPart
from bascule.stream._agent_chunks import RunFinishReason, StoppedBy
from bascule.stream._content_chunks import FileChunk, SourceChunk
from bascule.stream._control_chunks import TripwireChunk
from bascule.stream._tool_chunks import PendingCall, ToolErrorKind
from bascule.stream._usage import NO_USAGE, Usage

__all__ = [
    "FullOutput",
    "ModelResponse",
    "RunStatus",
    "Step",
    "ToolCallItem",
    "ToolResultItem",
    "error_to_raise",
]

RunStatus: TypeAlias = Literal["running", "success", "failed", "canceled", "suspended", "tripwire"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCallItem:
    """One tool call of a run."""

    tool_call_id: str
    tool_name: str
    args: JsonValue


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolResultItem:
    """What came of one tool call: there is one for every call.

    Attributes:
        result: what the tool returned, or the text that the model was shown.
        is_error: whether the call failed.
        error: the error text.
        kind: why it failed.
        cancelled: whether the run was stopped while the tool ran.
        rejected: whether a person or a policy declined it.
    """

    tool_call_id: str
    tool_name: str
    args: JsonValue
    result: JsonValue = None
    is_error: bool = False
    error: str | None = None
    kind: ToolErrorKind | None = None
    cancelled: bool = False
    rejected: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelResponse:
    """Where an answer came from, and when; what the provider did not say is empty."""

    id: str | None = None
    timestamp: str = field(default="", compare=False)
    provider: str = ""
    model_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One model call with the tools that it asked for; ``number`` counts from 0.

    Attributes:
        content: what the step added to the turn, in order; empty when the run was read from a wire.
        reasoning: its blocks of reasoning.
        response: where the answer came from.
        provider_metadata: the provider's own entries.
    """

    number: int
    text: str = ""
    reasoning_text: str = ""
    content: tuple[Part, ...] = ()
    reasoning: tuple[ReasoningPart, ...] = ()
    response: ModelResponse = ModelResponse()
    provider_metadata: JsonObject | None = None
    tool_calls: tuple[ToolCallItem, ...] = ()
    tool_results: tuple[ToolResultItem, ...] = ()
    finish_reason: RunFinishReason = "unknown"
    usage: Usage = NO_USAGE


@dataclass(frozen=True, slots=True, kw_only=True)
class FullOutput:
    """The whole result of a run.

    Attributes:
        status: ``success``, ``failed``, ``canceled``, ``suspended`` or ``tripwire``.
        text: the text of the last step.
        all_text: the text of all steps, joined.
        tool_calls: every tool call, in order.
        tool_results: one entry for every call, in the order in which they ended.
        steps: the model calls one by one.
        usage: tokens of the whole run.
        finish_reason: why the run ended.
        stopped_by: what ended the loop before the model did.
        error: the exception, when status is ``failed``; for the developer, never for a caller.
        error_message: what a caller may be shown of it, without secrets.
        pending: the calls that wait for an answer, when status is ``suspended``.
        warnings: what the developer should know.
        object: the structured answer.
        tripwire: what a processor said when it stopped the run.
        messages: the conversation's messages that this run added, as they are stored.
        remembered_messages: the messages that memory contributed to the prompt.
    """

    run_id: str = ""
    message_id: str = ""
    status: RunStatus = "running"
    text: str = ""
    all_text: str = ""
    reasoning_text: str = ""
    sources: tuple[SourceChunk, ...] = ()
    files: tuple[FileChunk, ...] = ()
    tool_calls: tuple[ToolCallItem, ...] = ()
    tool_results: tuple[ToolResultItem, ...] = ()
    steps: tuple[Step, ...] = ()
    usage: Usage = NO_USAGE
    finish_reason: RunFinishReason = "unknown"
    stopped_by: StoppedBy | None = None
    error: Exception | None = field(default=None, compare=False)
    error_message: str | None = None
    pending: tuple[PendingCall, ...] = ()
    warnings: tuple[str, ...] = ()
    object: JsonValue = None
    tripwire: TripwireChunk | None = None
    messages: tuple[Message, ...] = ()
    remembered_messages: tuple[Message, ...] = ()

    @property
    def total_usage(self) -> Usage:
        """The same as ``usage``: the whole run."""
        return self.usage

    @property
    def usage_by_model(self) -> Mapping[str, Usage]:
        """Tokens of the run's steps by ``provider/model``."""
        by_model: dict[str, Usage] = {}
        for step in self.steps:
            name = f"{step.response.provider}/{step.response.model_id}".strip("/") or "unknown"
            by_model[name] = by_model.get(name, NO_USAGE) + step.usage
        return by_model

    @property
    def reasoning(self) -> tuple[ReasoningPart, ...]:
        """The blocks of reasoning of all steps."""
        return tuple(part for step in self.steps for part in step.reasoning)

    @property
    def content(self) -> tuple[Part, ...]:
        """What the last step added to the turn, in order."""
        return self.steps[-1].content if self.steps else ()

    @property
    def response(self) -> ModelResponse:
        """Where the last step's answer came from."""
        return self.steps[-1].response if self.steps else ModelResponse()

    @property
    def provider_metadata(self) -> JsonObject | None:
        """The provider's own entries of the last step."""
        return self.steps[-1].provider_metadata if self.steps else None

    @property
    def suspend_payload(self) -> JsonValue:
        """What the first waiting call says of what it waits for."""
        return self.pending[0].suspend_payload if self.pending else None


def error_to_raise(output: FullOutput) -> AgentRunError | None:
    """Return what ``await output`` raises: an ``AgentRunError`` for a failed run, else ``None``."""
    if output.status != "failed":
        return None
    cause = output.error
    if isinstance(cause, AgentRunError):
        cause.output = output
        return cause
    text = str(cause) if isinstance(cause, ModelError) else f"{type(cause).__name__}: {cause}"
    error = AgentRunError(f"The run {output.run_id} failed: {text}", output=output)
    error.__cause__ = cause
    return error
