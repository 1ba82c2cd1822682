"""What a run came to: the fold of its stream."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, TypeAlias

from bascule.errors import AgentRunError, ModelError
from bascule.messages import JsonValue, Message
from bascule.stream._acp_chunks import AcpNoticeChunk
from bascule.stream._agent_chunks import (
    AbortChunk,
    ErrorChunk,
    FinishChunk,
    RunFinishReason,
    StartChunk,
    StepFinishChunk,
    StepStartChunk,
    StoppedBy,
)
from bascule.stream._chunk import Chunk
from bascule.stream._content_chunks import FileChunk, ReasoningDeltaChunk, SourceChunk, TextDeltaChunk
from bascule.stream._tool_chunks import (
    PendingCall,
    SuspendedChunk,
    ToolCallChunk,
    ToolErrorChunk,
    ToolErrorKind,
    ToolOutputDeniedChunk,
    ToolResultChunk,
)
from bascule.stream._usage import NO_USAGE, Usage

__all__ = ["FullOutput", "RunFold", "RunStatus", "Step", "ToolCallItem", "ToolResultItem", "error_to_raise", "fold"]

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
class Step:
    """One model call with the tools that it asked for; ``number`` counts from 0."""

    number: int
    text: str = ""
    reasoning_text: str = ""
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
        error: the exception, when status is ``failed``.
        pending: the calls that wait for an answer, when status is ``suspended``.
        warnings: what the developer should know.
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
    pending: tuple[PendingCall, ...] = ()
    warnings: tuple[str, ...] = ()
    messages: tuple[Message, ...] = ()
    remembered_messages: tuple[Message, ...] = ()

    @property
    def total_usage(self) -> Usage:
        """The same as ``usage``: the whole run."""
        return self.usage


def fold(chunks: Iterable[Chunk]) -> FullOutput:
    """Return what a run came to, from its events; may be called on an unfinished run."""
    state = RunFold()
    for chunk in chunks:
        state.apply(chunk)
    return state.output()


class RunFold:
    """Takes a run's events one by one and knows its result at any moment.

    Args:
        run_id: the run, as long as no event has named it.
        message_id: the id of its answer, likewise.
    """

    def __init__(self, *, run_id: str = "", message_id: str = "") -> None:
        self._run_id = run_id
        self._message_id = message_id
        self._status: RunStatus = "running"
        self._finish_reason: RunFinishReason = "unknown"
        self._stopped_by: StoppedBy | None = None
        self._error_seen: Exception | None = None
        self._pending: tuple[PendingCall, ...] = ()
        self._usage = NO_USAGE
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._all_text: list[str] = []
        self._all_reasoning: list[str] = []
        self._calls: list[ToolCallItem] = []
        self._results: list[ToolResultItem] = []
        self._steps: list[Step] = []
        self._step_from = (0, 0)
        self._sources: list[SourceChunk] = []
        self._files: list[FileChunk] = []
        self._warnings: list[str] = []

    def apply(self, chunk: Chunk) -> None:
        """Take the next event; kinds that carry no result are passed over."""
        handler = self._table.get(type(chunk))
        if handler is not None:
            handler(self, chunk)

    def output(
        self, *, messages: tuple[Message, ...] = (), remembered_messages: tuple[Message, ...] = ()
    ) -> FullOutput:
        """Return the result so far, with the conversation's messages, which no event carries."""
        last = "".join(self._text) if self._text or not self._steps else self._steps[-1].text
        return FullOutput(
            run_id=self._run_id,
            message_id=self._message_id,
            status=self._status,
            text=last,
            all_text="".join(self._all_text),
            reasoning_text="".join(self._all_reasoning),
            sources=tuple(self._sources),
            files=tuple(self._files),
            tool_calls=tuple(self._calls),
            tool_results=tuple(self._results),
            steps=tuple(self._steps),
            usage=self._usage,
            finish_reason=self._finish_reason,
            stopped_by=self._stopped_by,
            error=self._error_seen,
            pending=self._pending,
            warnings=tuple(self._warnings),
            messages=messages,
            remembered_messages=remembered_messages,
        )

    def _start(self, chunk: StartChunk) -> None:
        self._run_id, self._message_id = chunk.run_id, chunk.message_id

    def _step_start(self, _: StepStartChunk) -> None:
        self._text, self._reasoning = [], []
        self._step_from = (len(self._calls), len(self._results))

    def _text_delta(self, chunk: TextDeltaChunk) -> None:
        self._text.append(chunk.text)
        self._all_text.append(chunk.text)

    def _reasoning_delta(self, chunk: ReasoningDeltaChunk) -> None:
        self._reasoning.append(chunk.text)
        self._all_reasoning.append(chunk.text)

    def _source(self, chunk: SourceChunk) -> None:
        self._sources.append(chunk)

    def _file(self, chunk: FileChunk) -> None:
        self._files.append(chunk)

    def _notice(self, chunk: AcpNoticeChunk) -> None:
        self._warnings.append(f"{chunk.code}: {chunk.message}")

    def _tool_call(self, chunk: ToolCallChunk) -> None:
        self._calls.append(ToolCallItem(tool_call_id=chunk.tool_call_id, tool_name=chunk.tool_name, args=chunk.args))

    def _tool_result(self, chunk: ToolResultChunk) -> None:
        self._results.append(
            ToolResultItem(
                tool_call_id=chunk.tool_call_id, tool_name=chunk.tool_name, args=chunk.args, result=chunk.result
            )
        )

    def _tool_error(self, chunk: ToolErrorChunk) -> None:
        self._results.append(
            ToolResultItem(
                tool_call_id=chunk.tool_call_id,
                tool_name=chunk.tool_name,
                args=chunk.args,
                result=chunk.message,
                is_error=True,
                error=chunk.message,
                kind=chunk.kind,
                cancelled=chunk.kind == "cancelled",
            )
        )

    def _tool_denied(self, chunk: ToolOutputDeniedChunk) -> None:
        reason = chunk.reason or "The call was declined."
        self._results.append(
            ToolResultItem(
                tool_call_id=chunk.tool_call_id,
                tool_name=chunk.tool_name,
                args=chunk.args,
                result=reason,
                is_error=True,
                error=reason,
                kind="denied",
                rejected=True,
            )
        )

    def _step_finish(self, chunk: StepFinishChunk) -> None:
        calls, results = self._step_from
        self._steps.append(
            Step(
                number=len(self._steps),
                text="".join(self._text),
                reasoning_text="".join(self._reasoning),
                tool_calls=tuple(self._calls[calls:]),
                tool_results=tuple(self._results[results:]),
                finish_reason=chunk.reason,
                usage=chunk.usage,
            )
        )
        self._text, self._reasoning = [], []
        self._step_from = (len(self._calls), len(self._results))

    def _error(self, chunk: ErrorChunk) -> None:
        self._status = "failed"
        self._error_seen = chunk.cause or AgentRunError(chunk.message)

    def _abort(self, _: AbortChunk) -> None:
        if self._status == "running":
            self._status = "canceled"

    def _suspended(self, chunk: SuspendedChunk) -> None:
        self._status = self._finish_reason = "suspended"
        self._pending, self._usage = chunk.pending, chunk.usage

    def _finish(self, chunk: FinishChunk) -> None:
        if self._status == "running":
            self._status = _STATUS.get(chunk.reason, "success")
        self._finish_reason = chunk.reason
        self._usage = chunk.usage
        self._stopped_by = chunk.stopped_by
        self._warnings += chunk.warnings

    _table: ClassVar[dict[type[Chunk], Callable[["RunFold", Any], None]]] = {  # Any: each takes its own chunk
        StartChunk: _start,
        StepStartChunk: _step_start,
        TextDeltaChunk: _text_delta,
        ReasoningDeltaChunk: _reasoning_delta,
        SourceChunk: _source,
        FileChunk: _file,
        AcpNoticeChunk: _notice,
        ToolCallChunk: _tool_call,
        ToolResultChunk: _tool_result,
        ToolErrorChunk: _tool_error,
        ToolOutputDeniedChunk: _tool_denied,
        StepFinishChunk: _step_finish,
        ErrorChunk: _error,
        AbortChunk: _abort,
        SuspendedChunk: _suspended,
        FinishChunk: _finish,
    }


_STATUS: dict[str, RunStatus] = {"error": "failed", "aborted": "canceled", "tripwire": "tripwire"}


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
