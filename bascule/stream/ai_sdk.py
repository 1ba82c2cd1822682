"""Writes events as parts of the AI SDK's UI message stream (version 5 and later).

The encoder is a state machine over the parts. Whatever events come, what goes out is well formed: ``start`` first,
steps and blocks opened before they are used and closed before the end, a tool call announced before its outcome, and
one part that ends it all (``finish`` or ``abort``), after which nothing follows.

    start -> (start-step -> blocks and tools -> finish-step)* -> finish | abort
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, ClassVar, Final, Literal

from bascule.messages import JsonObject, JsonValue
from bascule.stream._acp_chunks import AcpDiffChunk, AcpNoticeChunk, AcpPlanChunk, AcpRawChunk, AcpUsageChunk
from bascule.stream._agent_chunks import (
    AbortChunk,
    ErrorChunk,
    FinishChunk,
    RunFinishReason,
    StartChunk,
    StepFinishChunk,
    StepStartChunk,
)
from bascule.stream._chunk import Chunk, Wire, present
from bascule.stream._content_chunks import (
    DataChunk,
    FileChunk,
    ObjectChunk,
    ObjectResultChunk,
    ReasoningDeltaChunk,
    ReasoningEndChunk,
    ReasoningFileChunk,
    ReasoningStartChunk,
    SourceChunk,
    TextDeltaChunk,
    TextEndChunk,
    TextStartChunk,
)
from bascule.stream._control_chunks import TripwireChunk
from bascule.stream._sse import SSE_HEADERS
from bascule.stream._tool_chunks import (
    SuspendedChunk,
    ToolCallApprovalChunk,
    ToolCallChunk,
    ToolCallDeltaChunk,
    ToolCallInputStartChunk,
    ToolCallSuspendedChunk,
    ToolErrorChunk,
    ToolOutputChunk,
    ToolOutputDeniedChunk,
    ToolResultChunk,
)
from bascule.stream._transcript import APPROVAL_SCHEMA, schema_text

__all__ = ["HEADERS", "AiSdkEncoder", "ai_sdk_parts"]

HEADERS: Mapping[str, str] = {**SSE_HEADERS, "x-vercel-ai-ui-message-stream": "v1"}
"""The headers by which the AI SDK knows such a stream."""

_Block = Literal["text", "reasoning"]

_REASONS: Final[dict[RunFinishReason, str]] = {
    "stop": "stop",
    "length": "length",
    "content-filter": "content-filter",
    "tool-calls": "tool-calls",
    "suspended": "tool-calls",
    "error": "error",
    "other": "other",
    "unknown": "other",
    "aborted": "other",
    "tripwire": "other",
}


class AiSdkEncoder:
    """Takes the events of one run, and gives the parts of one UI message.

    Attributes:
        ended: whether the part that ends it all has been given; events that come later give nothing.
    """

    __slots__ = ("_announced", "_blocks", "_in_step", "_out", "_settled", "_started", "ended")

    def __init__(self) -> None:
        self.ended: bool = False
        self._started = False
        self._in_step = False
        self._blocks: dict[tuple[_Block, str], None] = {}
        self._announced: dict[str, bool] = {}
        self._settled: set[str] = set()
        self._out: list[Wire] = []

    def feed(self, chunk: Chunk) -> list[Wire]:
        """Return the parts of the next event; often one, sometimes none."""
        if self.ended:
            return []
        handler = self._table.get(type(chunk))
        if handler is not None:
            handler(self, chunk)
        return self._take()

    def end(self) -> list[Wire]:
        """Return what is missing when the events are over; nothing after a run that came to its end."""
        if not self.ended:
            self._close("other")
        return self._take()

    def _take(self) -> list[Wire]:
        out, self._out = self._out, []
        return out

    # --- frame ---

    def _start(self, chunk: StartChunk) -> None:
        self._begin(chunk.message_id)

    def _begin(self, message_id: str | None = None) -> None:
        if not self._started:
            self._started = True
            self._out.append(present({"type": "start", "messageId": message_id}))

    def _step_start(self, _: StepStartChunk) -> None:
        self._end_step()
        self._step()

    def _step(self) -> None:
        self._begin()
        if not self._in_step:
            self._in_step = True
            self._out.append({"type": "start-step"})

    def _step_finish(self, _: StepFinishChunk) -> None:
        self._end_step()

    def _end_step(self) -> None:
        self._end_blocks()
        if self._in_step:
            self._in_step = False
            self._out.append({"type": "finish-step"})

    def _end_blocks(self) -> None:
        for kind, id in self._blocks:
            self._out.append({"type": f"{kind}-end", "id": id})
        self._blocks.clear()

    def _finish(self, chunk: FinishChunk) -> None:
        self._close(_REASONS[chunk.reason])

    def _suspended(self, _: SuspendedChunk) -> None:
        self._close("tool-calls")

    def _close(self, reason: str) -> None:
        self._begin()
        self._end_step()
        self._out.append({"type": "finish", "finishReason": reason})
        self.ended = True

    def _abort(self, chunk: AbortChunk) -> None:
        self._begin()
        self._end_step()
        self._out.append(present({"type": "abort", "reason": chunk.reason}))
        self.ended = True

    def _error(self, chunk: ErrorChunk) -> None:
        self._begin()
        self._end_blocks()
        self._out.append({"type": "error", "errorText": chunk.message})

    # --- text and reasoning ---

    def _open(self, kind: _Block, id: str) -> None:
        self._step()
        if (kind, id) not in self._blocks:
            self._blocks[kind, id] = None
            self._out.append({"type": f"{kind}-start", "id": id})

    def _text_start(self, chunk: TextStartChunk) -> None:
        self._open("text", chunk.id)

    def _text_delta(self, chunk: TextDeltaChunk) -> None:
        if ("text", chunk.id) not in self._blocks:
            self._open("text", chunk.id)
        self._out.append({"type": "text-delta", "id": chunk.id, "delta": chunk.text})

    def _text_end(self, chunk: TextEndChunk) -> None:
        if ("text", chunk.id) in self._blocks:
            del self._blocks["text", chunk.id]
            self._out.append({"type": "text-end", "id": chunk.id})

    def _reasoning_start(self, chunk: ReasoningStartChunk) -> None:
        self._open("reasoning", chunk.id)

    def _reasoning_delta(self, chunk: ReasoningDeltaChunk) -> None:
        self._open("reasoning", chunk.id)
        self._out.append({"type": "reasoning-delta", "id": chunk.id, "delta": chunk.text})

    def _reasoning_end(self, chunk: ReasoningEndChunk) -> None:
        if ("reasoning", chunk.id) in self._blocks:
            del self._blocks["reasoning", chunk.id]
            self._out.append(
                present({"type": "reasoning-end", "id": chunk.id, "providerMetadata": chunk.provider_metadata})
            )

    # --- tools ---

    def _announce(self, call_id: str, name: str) -> None:
        self._step()
        if call_id not in self._announced:
            self._announced[call_id] = False
            self._out.append({"type": "tool-input-start", "toolCallId": call_id, "toolName": name, "dynamic": False})

    def _input_start(self, chunk: ToolCallInputStartChunk) -> None:
        self._announce(chunk.tool_call_id, chunk.tool_name)

    def _input_delta(self, chunk: ToolCallDeltaChunk) -> None:
        self._announce(chunk.tool_call_id, chunk.tool_name)
        if not self._announced[chunk.tool_call_id]:
            self._out.append(
                {"type": "tool-input-delta", "toolCallId": chunk.tool_call_id, "inputTextDelta": chunk.args_text}
            )

    def _call(
        self,
        chunk: ToolCallChunk
        | ToolResultChunk
        | ToolErrorChunk
        | ToolOutputDeniedChunk
        | ToolCallApprovalChunk
        | ToolCallSuspendedChunk,
    ) -> None:
        """Say what a tool is called with, unless that was said: a resumed run begins with the outcome of a call."""
        self._step()
        if not self._announced.get(chunk.tool_call_id):
            self._announced[chunk.tool_call_id] = True
            self._out.append(
                {
                    "type": "tool-input-available",
                    "toolCallId": chunk.tool_call_id,
                    "toolName": chunk.tool_name,
                    "input": chunk.args,
                }
            )

    def _settle(self, chunk: ToolResultChunk | ToolErrorChunk | ToolOutputDeniedChunk, outcome: Wire) -> None:
        self._call(chunk)
        if chunk.tool_call_id not in self._settled:
            self._settled.add(chunk.tool_call_id)
            self._out.append({"type": "tool-output-error", "toolCallId": chunk.tool_call_id, **outcome})

    def _result(self, chunk: ToolResultChunk) -> None:
        self._settle(chunk, {"type": "tool-output-available", "output": chunk.result})

    def _tool_error(self, chunk: ToolErrorChunk) -> None:
        self._settle(chunk, {"errorText": chunk.message})

    def _denied(self, chunk: ToolOutputDeniedChunk) -> None:
        self._settle(chunk, {"errorText": chunk.reason or "The tool call was not approved."})

    def _waiting(self, chunk: ToolCallApprovalChunk | ToolCallSuspendedChunk) -> None:
        self._call(chunk)
        state = f"data-{chunk.type}"
        default: JsonObject = {} if isinstance(chunk, ToolCallSuspendedChunk) else APPROVAL_SCHEMA
        data: Wire = {
            "state": state,
            "runId": chunk.run_id,
            "toolCallId": chunk.tool_call_id,
            "toolName": chunk.tool_name,
            "args": chunk.args,
            "resumeSchema": schema_text(chunk.resume_schema, default),
        }
        if isinstance(chunk, ToolCallSuspendedChunk):
            data["suspendPayload"] = chunk.suspend_payload
        self._data(state, data, id=chunk.tool_call_id)

    def _tool_output(self, chunk: ToolOutputChunk) -> None:
        if isinstance(chunk.inner, DataChunk):
            self._app_data(chunk.inner)
            return
        data: Wire = {"toolCallId": chunk.tool_call_id, "toolName": chunk.tool_name, "output": chunk.output}
        self._data("data-tool-output", data, transient=True)

    # --- the rest ---

    def _source(self, chunk: SourceChunk) -> None:
        self._step()
        self._out.append(present({"type": "source-url", "sourceId": chunk.id, "url": chunk.url, "title": chunk.title}))

    def _file(self, chunk: FileChunk | ReasoningFileChunk) -> None:
        self._step()
        url = f"data:{chunk.media_type};base64,{chunk.data}"
        self._out.append({"type": "file", "url": url, "mediaType": chunk.media_type})

    def _data(self, type_: str, data: JsonValue, *, id: str | None = None, transient: bool = False) -> None:
        self._begin()
        part: Wire = {"type": type_, "data": data}
        if id is not None:
            part["id"] = id
        if transient:
            part["transient"] = True
        self._out.append(part)

    def _app_data(self, chunk: DataChunk) -> None:
        self._data(f"data-{chunk.name}", chunk.data, id=chunk.id, transient=chunk.transient)

    def _object(self, chunk: ObjectChunk | ObjectResultChunk) -> None:
        self._data("data-object", chunk.object, id="object")

    def _told(self, chunk: Chunk) -> None:
        self._data(f"data-{chunk.type}", chunk.to_wire()["payload"])

    _table: ClassVar[dict[type[Chunk], Callable[["AiSdkEncoder", Any], None]]] = {  # Any: each takes its own event
        StartChunk: _start,
        StepStartChunk: _step_start,
        StepFinishChunk: _step_finish,
        FinishChunk: _finish,
        SuspendedChunk: _suspended,
        AbortChunk: _abort,
        ErrorChunk: _error,
        TextStartChunk: _text_start,
        TextDeltaChunk: _text_delta,
        TextEndChunk: _text_end,
        ReasoningStartChunk: _reasoning_start,
        ReasoningDeltaChunk: _reasoning_delta,
        ReasoningEndChunk: _reasoning_end,
        ToolCallInputStartChunk: _input_start,
        ToolCallDeltaChunk: _input_delta,
        ToolCallChunk: _call,
        ToolResultChunk: _result,
        ToolErrorChunk: _tool_error,
        ToolOutputDeniedChunk: _denied,
        ToolCallApprovalChunk: _waiting,
        ToolCallSuspendedChunk: _waiting,
        ToolOutputChunk: _tool_output,
        SourceChunk: _source,
        FileChunk: _file,
        ReasoningFileChunk: _file,
        DataChunk: _app_data,
        ObjectChunk: _object,
        ObjectResultChunk: _object,
        TripwireChunk: _told,
        AcpDiffChunk: _told,
        AcpNoticeChunk: _told,
        AcpPlanChunk: _told,
        AcpRawChunk: _told,
        AcpUsageChunk: _told,
    }


def ai_sdk_parts(chunks: Iterable[Chunk]) -> Iterator[Wire]:
    """Yield the parts of a whole stream."""
    encoder = AiSdkEncoder()
    for chunk in chunks:
        yield from encoder.feed(chunk)
    yield from encoder.end()
