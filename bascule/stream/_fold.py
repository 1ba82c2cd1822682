"""The fold of a run's stream: takes its events one by one, and knows what the run has come to."""

from collections.abc import Callable, Iterable
from typing import Any, ClassVar

from bascule.errors import AgentRunError
from bascule.messages import JsonObject, JsonValue, Message, ReasoningPart
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
from bascule.stream._content_chunks import (
    FileChunk,
    ObjectResultChunk,
    ReasoningDeltaChunk,
    ReasoningEndChunk,
    ReasoningSignatureChunk,
    SourceChunk,
    TextDeltaChunk,
)
from bascule.stream._control_chunks import TripwireChunk
from bascule.stream._result import FullOutput, ModelResponse, RunStatus, Step, ToolCallItem, ToolResultItem
from bascule.stream._tool_chunks import (
    PendingCall,
    SuspendedChunk,
    ToolCallChunk,
    ToolErrorChunk,
    ToolOutputDeniedChunk,
    ToolResultChunk,
)
from bascule.stream._usage import NO_USAGE

__all__ = ["RunFold", "fold"]


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
        self._error_message: str | None = None
        self._pending: tuple[PendingCall, ...] = ()
        self._usage = NO_USAGE
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._all_text: list[str] = []
        self._all_reasoning: list[str] = []
        self._block: list[str] = []
        self._block_metadata: JsonObject | None = None
        self._blocks: list[ReasoningPart] = []
        self._calls: list[ToolCallItem] = []
        self._results: list[ToolResultItem] = []
        self._steps: list[Step] = []
        self._step_from = (0, 0)
        self._sources: list[SourceChunk] = []
        self._files: list[FileChunk] = []
        self._warnings: list[str] = []
        self._object: JsonValue = None
        self._tripwire: TripwireChunk | None = None

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
            error_message=self._error_message,
            pending=self._pending,
            warnings=tuple(self._warnings),
            object=self._object,
            tripwire=self._tripwire,
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
        self._block.append(chunk.text)

    def _reasoning_signature(self, chunk: ReasoningSignatureChunk) -> None:
        self._block_metadata = chunk.provider_metadata or {"signature": chunk.signature}

    def _reasoning_end(self, chunk: ReasoningEndChunk) -> None:
        self._end_block(chunk.provider_metadata)

    def _end_block(self, metadata: JsonObject | None = None) -> None:
        if self._block:
            self._blocks.append(ReasoningPart("".join(self._block), metadata or self._block_metadata))
        self._block, self._block_metadata = [], None

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
        self._end_block()
        self._steps.append(
            Step(
                number=len(self._steps),
                text="".join(self._text),
                reasoning_text="".join(self._reasoning),
                content=chunk.parts,
                reasoning=tuple(self._blocks),
                response=ModelResponse(
                    id=chunk.response_id, timestamp=chunk.timestamp, provider=chunk.provider, model_id=chunk.model_id
                ),
                provider_metadata=chunk.provider_metadata,
                tool_calls=tuple(self._calls[calls:]),
                tool_results=tuple(self._results[results:]),
                finish_reason=chunk.reason,
                usage=chunk.usage,
            )
        )
        self._text, self._reasoning, self._blocks = [], [], []
        self._step_from = (len(self._calls), len(self._results))

    def _object_result(self, chunk: ObjectResultChunk) -> None:
        self._object = chunk.object

    def _tripped(self, chunk: TripwireChunk) -> None:
        if not chunk.retry:
            self._tripwire = chunk

    def _error(self, chunk: ErrorChunk) -> None:
        self._status = "failed"
        self._error_seen = chunk.cause or AgentRunError(chunk.message)
        self._error_message = chunk.message

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
        ReasoningSignatureChunk: _reasoning_signature,
        ReasoningEndChunk: _reasoning_end,
        ObjectResultChunk: _object_result,
        TripwireChunk: _tripped,
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
