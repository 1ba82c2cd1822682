"""Writes events as foreign clients know them: the wire of a Mastra server.

Our events and that wire share payloads and their spelling. Where they differ, this module is the only place that knows:
``DIFFERENCES`` lists every one of them, and each row has a test. ``encode`` looks at one event alone and keeps nothing.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from bascule.messages import JsonObject, JsonValue, StepStartPart
from bascule.stream._acp_chunks import AcpDiffChunk, AcpNoticeChunk, AcpPlanChunk, AcpRawChunk, AcpUsageChunk
from bascule.stream._agent_chunks import AbortChunk, FinishChunk, StepFinishChunk
from bascule.stream._background_chunks import (
    BackgroundTaskCancelledChunk,
    BackgroundTaskCompletedChunk,
    BackgroundTaskFailedChunk,
    BackgroundTaskOutputChunk,
    BackgroundTaskResumedChunk,
    BackgroundTaskRunningChunk,
    BackgroundTaskSuspendedChunk,
)
from bascule.stream._chunk import Chunk, Wire
from bascule.stream._content_chunks import DataChunk
from bascule.stream._control_chunks import ModelFallbackChunk, ResumeChunk, RetryChunk
from bascule.stream._sse import SSE_DONE, json_record, sse_frame
from bascule.stream._tool_chunks import (
    SuspendedChunk,
    ToolCallApprovalChunk,
    ToolCallSuspendedChunk,
    ToolErrorChunk,
    ToolOutputChunk,
    ToolOutputDeniedChunk,
    ToolResultChunk,
)
from bascule.stream._transcript import (
    APPROVAL_SCHEMA,
    model_messages,
    model_output,
    schema_text,
    step_content,
    turn_messages,
    ui_message,
)
from bascule.stream._workflow_chunks import WorkflowStepOutputChunk

__all__ = ["DIFFERENCES", "Difference", "encode", "frames", "records"]


def encode(chunk: Chunk) -> Wire | None:
    """Return an event as foreign clients read it, or ``None`` when they must not see it."""
    encoder = _ENCODERS.get(type(chunk))
    return chunk.to_wire() if encoder is None else encoder(chunk)


def frames(chunks: Iterable[Chunk]) -> Iterable[bytes]:
    """Yield the server-sent events of a whole stream of an agent, ``[DONE]`` included."""
    for chunk in chunks:
        wire = encode(chunk)
        if wire is not None:
            yield sse_frame(wire)
    yield SSE_DONE


def records(chunks: Iterable[Chunk]) -> Iterable[bytes]:
    """Yield the separated JSON records of a whole stream of a workflow."""
    for chunk in chunks:
        wire = encode(chunk)
        if wire is not None:
            yield json_record(wire)


# --- what is written differently ---


def _withheld(_: Chunk) -> None:
    return None


def _bare_abort(chunk: AbortChunk) -> Wire:
    return {"type": chunk.type, "runId": chunk.run_id}


def _data(chunk: DataChunk) -> Wire:
    wire = chunk.to_wire()
    del wire["from"]
    if not chunk.transient:
        del wire["runId"]
    return wire


def _task(chunk: Chunk) -> Wire:
    wire = chunk.to_wire()
    return {"type": wire["type"], "payload": wire["payload"]}


def _acp(chunk: Chunk) -> Wire:
    return {"type": f"data-{chunk.type}", "data": chunk.to_wire()["payload"]}


def _with_payload(chunk: Chunk, change: Callable[[Wire], Wire]) -> Wire:
    wire = chunk.to_wire()
    payload = wire["payload"]
    assert isinstance(payload, dict)
    wire["payload"] = change(payload)
    return wire


def _nested(chunk: ToolOutputChunk | WorkflowStepOutputChunk) -> Wire | None:
    if chunk.inner is None:
        return chunk.to_wire()
    inner = encode(chunk.inner)
    return None if inner is None else _with_payload(chunk, lambda payload: {**payload, "output": inner})


def _tool_result(chunk: ToolResultChunk) -> Wire:
    def change(payload: Wire) -> Wire:
        shown = payload.pop("modelOutput", None)
        if shown is not None:
            payload["providerMetadata"] = {"mastra": {"modelOutput": model_output(shown)}}
        return payload

    return _with_payload(chunk, change)


def _tool_error(chunk: ToolErrorChunk) -> Wire:
    if chunk.kind == "invalid_input":
        wire = chunk.to_wire()
        return {
            **wire,
            "type": "tool-result",
            "payload": {
                "args": chunk.args,
                "toolCallId": chunk.tool_call_id,
                "toolName": chunk.tool_name,
                "result": {"error": True, "message": chunk.message},
            },
        }
    return _with_payload(chunk, lambda payload: {**payload, "error": _error_of_tool(chunk)})


def _error_of_tool(chunk: ToolErrorChunk) -> Wire:
    if chunk.kind == "not_found":
        return {"name": "ToolNotFoundError", "message": chunk.message}
    return {
        "name": "Error",
        "message": chunk.message,
        "cause": {"name": "Error", "message": chunk.message},
        "id": "TOOL_EXECUTION_FAILED",
        "domain": "TOOL",
        "category": "USER",
        "details": {"errorMessage": chunk.message, "kind": chunk.kind},
    }


def _schema_text(chunk: ToolCallApprovalChunk | ToolCallSuspendedChunk) -> Wire:
    default: JsonObject = APPROVAL_SCHEMA if isinstance(chunk, ToolCallApprovalChunk) else {}
    return _with_payload(
        chunk,
        lambda payload: {**_waits_for(chunk), **payload, "resumeSchema": schema_text(chunk.resume_schema, default)},
    )


def _waits_for(chunk: Chunk) -> Wire:
    return {"suspendPayload": None} if isinstance(chunk, ToolCallSuspendedChunk) else {}


def _denied(chunk: ToolOutputDeniedChunk) -> Wire:
    def change(payload: Wire) -> Wire:
        reason = chunk.reason or "Tool call was not approved"
        return {**payload, "approval": {"id": chunk.tool_call_id, "approved": False, "reason": reason}}

    return _with_payload(chunk, change)


def _step_finish(chunk: StepFinishChunk) -> Wire:
    return _with_payload(chunk, lambda payload: _with_steps(payload, (chunk,)))


def _finish(chunk: FinishChunk) -> Wire:
    def change(payload: Wire) -> Wire:
        payload = _with_steps(payload, chunk.steps)
        if not chunk.given:
            return payload
        turn = [message for step in chunk.steps for message in turn_messages(step.parts)]
        user = model_messages(chunk.given)
        payload["messages"] = {
            "all": [*model_messages(chunk.remembered), *user, *turn],
            "user": user,
            "nonUser": turn,
        }
        payload["response"] = {**_metadata(payload), "messages": turn, "uiMessages": [_ui_message(chunk)]}
        return payload

    return _with_payload(chunk, change)


def _metadata(payload: Wire) -> JsonObject:
    metadata = payload.get("metadata")
    return metadata if isinstance(metadata, Mapping) else {}


def _ui_message(chunk: FinishChunk) -> Wire:
    last = chunk.steps[-1] if chunk.steps else None
    about: Wire = {"modelId": last.model_id, "provider": last.provider} if last is not None else {}
    parts = [part for step in chunk.steps for part in (StepStartPart(), *step.parts)]
    return ui_message(chunk.message_id, parts[1:], about)


def _with_steps(payload: Wire, steps: tuple[StepFinishChunk, ...]) -> Wire:
    output = payload["output"]
    assert isinstance(output, Mapping)
    payload["output"] = {**output, "steps": [_step(step) for step in steps]}
    return payload


def _step(step: StepFinishChunk) -> JsonValue:
    return {
        "content": step_content(step.parts),
        "finishReason": step.reason,
        "usage": step.usage.to_wire(),
        "warnings": [],
        "response": {**step.metadata, "messages": turn_messages(step.parts)},
    }


_ENCODERS: dict[type[Chunk], Callable[[Any], Wire | None]] = {  # Any: each takes its own event
    SuspendedChunk: _withheld,
    ResumeChunk: _withheld,
    RetryChunk: _withheld,
    ModelFallbackChunk: _withheld,
    AbortChunk: _bare_abort,
    DataChunk: _data,
    **dict.fromkeys(
        (
            BackgroundTaskRunningChunk,
            BackgroundTaskOutputChunk,
            BackgroundTaskCompletedChunk,
            BackgroundTaskFailedChunk,
            BackgroundTaskCancelledChunk,
            BackgroundTaskSuspendedChunk,
            BackgroundTaskResumedChunk,
        ),
        _task,
    ),
    **dict.fromkeys((AcpDiffChunk, AcpNoticeChunk, AcpPlanChunk, AcpRawChunk, AcpUsageChunk), _acp),
    ToolOutputChunk: _nested,
    WorkflowStepOutputChunk: _nested,
    ToolResultChunk: _tool_result,
    ToolErrorChunk: _tool_error,
    ToolCallApprovalChunk: _schema_text,
    ToolCallSuspendedChunk: _schema_text,
    ToolOutputDeniedChunk: _denied,
    StepFinishChunk: _step_finish,
    FinishChunk: _finish,
}


# --- the list ---


@dataclass(frozen=True, slots=True)
class Difference:
    """One place where our events and the foreign wire are not the same.

    Attributes:
        id: names the row, and its test.
        kind: ``mapped`` when ``encode`` makes the foreign form of ours; ``stays`` when foreign clients see our form,
            because they read it as well.
        ours: how it is with us.
        theirs: how it is there.
    """

    id: str
    kind: Literal["mapped", "stays"]
    ours: str
    theirs: str


DIFFERENCES: tuple[Difference, ...] = (
    Difference("suspended-withheld", "mapped", "a suspended run ends with `suspended`", "with the call's event"),
    Difference("steering-withheld", "mapped", "`resume`, `retry` and `model-fallback` are events", "not told"),
    Difference("done", "mapped", "the last event ends the stream", "a frame `[DONE]` follows it"),
    Difference("abort-bare", "mapped", "`abort` has a sender and may have a reason", "it has type and runId alone"),
    Difference("data-bare", "mapped", "`data-*` have runId and sender", "runId when transient, no sender"),
    Difference("task-bare", "mapped", "`background-task-*` have runId and sender", "only the started event has them"),
    Difference("acp-as-data", "mapped", "events of external agents are `acp-*`", "unknown; sent as `data-acp-*`"),
    Difference("nested", "mapped", "a wrapped event is in our form", "it is in the foreign form, or withheld"),
    Difference("model-output", "mapped", "`modelOutput` of a tool result is plain", "in its provider metadata, typed"),
    Difference("invalid-input", "mapped", "arguments that do not fit are a `tool-error`", "a result with an error"),
    Difference("tool-error", "mapped", "a tool's error is name, message and kind", "a nested error with a cause"),
    Difference("schema-text", "mapped", "a resume schema is an object and may be missing", "it is JSON text, always"),
    Difference("denied-reason", "mapped", "a declined call may have no reason", "it has one"),
    Difference("finish-whole", "mapped", "`finish` tells text, calls and usage", "it repeats steps and messages"),
    Difference("steps-once", "stays", "`step-finish` tells its own step, without messages", "it repeats all before it"),
    Difference("stack", "stays", "an error has a name and a message", "it also has a stack"),
    Difference("blocks-end", "stays", "an open text ends before an error or abort", "it stays open"),
    Difference("abort-finish", "stays", "`finish` follows an `abort`, with the reason `aborted`", "nothing follows it"),
    Difference("usage-raw", "stays", "usage has reasoning and cached counts, always", "raw counts of the provider"),
    Difference("stopped-by", "stays", "`finish` says what stopped the run, and warns", "it does not"),
    Difference("invalid-json", "stays", "arguments that are not JSON are a `tool-error` with the text", "not recorded"),
    Difference("workflow-error", "stays", "a failed step or workflow has a message", "a step's error has a name"),
    Difference("model-version", "stays", "a model has an id and a provider", "its version too, and in more places"),
    Difference("created-at", "stays", "parts of messages have no time of their own", "each has `createdAt`"),
)
"""Every difference between our events and the foreign wire."""
