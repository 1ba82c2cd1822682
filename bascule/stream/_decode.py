"""Reads events from their wire form: the inverse of ``Chunk.to_wire``.

A peer may be newer than this program, or not quite what it says it is, so nothing in here fails: an event that has no
class, lacks something, or holds a value of the wrong kind comes back as an ``UnknownChunk`` with all that was sent.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType, UnionType
from typing import Any, ClassVar, Final, Literal, Union, cast, get_args, get_origin

from pydantic_core import from_json

from bascule.messages import JsonObject, JsonValue
from bascule.stream import (
    _acp_chunks,
    _agent_chunks,
    _background_chunks,
    _content_chunks,
    _control_chunks,
    _tool_chunks,
    _workflow_chunks,
)
from bascule.stream._agent_chunks import ErrorChunk, FinishChunk, RunFinishReason, StepFinishChunk, StoppedBy
from bascule.stream._chunk import Chunk, Wire, wire_fields
from bascule.stream._content_chunks import DataChunk
from bascule.stream._control_chunks import NetworkChunk, WatchChunk
from bascule.stream._tool_chunks import (
    PendingCall,
    SuspendedChunk,
    ToolCallApprovalChunk,
    ToolCallSuspendedChunk,
    ToolErrorChunk,
    ToolErrorKind,
    ToolOutputDeniedChunk,
)
from bascule.stream._usage import Usage
from bascule.stream._workflow_chunks import WorkflowFinishChunk, WorkflowStepResultChunk

__all__ = ["UnknownChunk", "chunk_from_wire"]


@dataclass(frozen=True, slots=True)
class UnknownChunk(Chunk):
    """An event that has no class here; ``wire`` is all that was sent."""

    wire: JsonObject
    type: ClassVar[str] = "unknown"

    @property
    def kind(self) -> str:
        """The type that it has on the wire, as far as it has one."""
        kind = self.wire.get("type")
        return kind if isinstance(kind, str) else ""

    def to_wire(self) -> Wire:
        return dict(self.wire)


def chunk_from_wire(wire: JsonObject) -> Chunk:
    """Return the event of ``{type, runId, from, payload}``, or an ``UnknownChunk`` when it has no class here."""
    kind, payload = wire.get("type"), _object(wire, "payload")
    run_id = wire.get("runId", payload.get("runId"))
    run_id = run_id if isinstance(run_id, str) else ""
    try:
        if isinstance(kind, str):
            read = _SPECIAL.get(kind)
            if read is not None:
                return read(run_id, payload)
            if kind.startswith("data-"):
                return _data(run_id, kind, wire)
            known = _BY_TYPE.get(kind)
            if known is not None:
                return _plain(known, run_id, payload if "payload" in wire else wire)
            if kind in NETWORK_KINDS or kind.startswith(_NETWORK_EVENTS):
                return NetworkChunk(run_id, kind, payload)
    except _Misfit:
        pass
    return UnknownChunk(run_id, wire)


NETWORK_KINDS: Final = frozenset(
    {
        *(f"routing-agent-{what}" for what in ("start", "end", "abort", "text-start", "text-delta")),
        *(
            f"{who}-execution-{what}"
            for who in ("agent", "workflow", "tool")
            for what in ("start", "end", "abort", "approval", "suspended")
        ),
        *(f"network-{what}" for what in ("validation-start", "validation-end", "object", "object-result")),
        "network-execution-event-step-finish",
        "network-execution-event-finish",
    }
)
_NETWORK_EVENTS = ("agent-execution-event-", "workflow-execution-event-")


class _Misfit(Exception):
    """A value is missing or of the wrong kind."""


# --- events whose payload has one entry for each attribute ---


def _plain(kind: type[Chunk], run_id: str, payload: JsonObject) -> Chunk:
    values: dict[str, Any] = {"run_id": run_id}  # Any: checked against the annotations
    for field in wire_fields(kind):
        if field.key in payload:
            values[field.name] = _read(payload[field.key], field.kind)
        elif not field.optional:
            raise _Misfit
    return kind(**values)


def _read(value: JsonValue, kind: object) -> object:
    """Return a value as an attribute of the given annotation holds it."""
    origin, options = get_origin(kind), get_args(kind)
    if origin is Union or isinstance(kind, UnionType):
        return _read_any(value, options)
    if origin is tuple:
        if not isinstance(value, Sequence) or isinstance(value, str):
            raise _Misfit
        return tuple(_read(item, options[0]) for item in value)
    if origin is Literal:
        fits = value in options
    elif kind is int or kind is float:
        fits = isinstance(value, int if kind is int else (int, float)) and not isinstance(value, bool)
    else:
        fits = isinstance(value, cast("type", origin or kind))
    if not fits:
        raise _Misfit
    return value


def _read_any(value: JsonValue, options: tuple[object, ...]) -> object:
    for option in options:
        try:
            return _read(value, option)
        except _Misfit:
            continue
    raise _Misfit


def _classes(*modules: ModuleType) -> dict[str, type[Chunk]]:
    found = [getattr(module, name) for module in modules for name in module.__all__]
    return {kind.type: kind for kind in found if isinstance(kind, type) and issubclass(kind, Chunk)}


# --- events with nested payloads ---


def _object(wire: JsonObject, key: str) -> JsonObject:
    value = wire.get(key)
    return value if isinstance(value, Mapping) else {}


def _text(wire: JsonObject, key: str, default: str | None = None) -> str:
    value = wire.get(key, default)
    if not isinstance(value, str):
        raise _Misfit
    return value


def _maybe(wire: JsonObject, key: str) -> str | None:
    value = wire.get(key)
    return value if isinstance(value, str) else None


def _usage(wire: JsonObject) -> Usage:
    def count(key: str) -> int:
        value = _object(wire, "usage").get(key)
        return value if isinstance(value, int) else 0

    return Usage(
        input_tokens=count("inputTokens"),
        output_tokens=count("outputTokens"),
        reasoning_tokens=count("reasoningTokens"),
        cached_input_tokens=count("cachedInputTokens"),
    )


def _reason(step: JsonObject) -> RunFinishReason:
    """Return why a step or run ended; a reason that only a newer peer knows must not hide that it did."""
    reason = step.get("reason")
    return cast("RunFinishReason", reason) if reason in get_args(RunFinishReason) else "unknown"


def _step_finish(run_id: str, payload: JsonObject) -> Chunk:
    step, metadata, output = (_object(payload, key) for key in ("stepResult", "metadata", "output"))
    return StepFinishChunk(
        run_id,
        message_id=_text(payload, "messageId", ""),
        reason=_reason(step),
        is_continued=step.get("isContinued") is True,
        usage=_usage(output),
        text=_text(output, "text", ""),
        provider=_text(_object(metadata, "modelMetadata"), "modelProvider", ""),
        model_id=_text(metadata, "modelId", ""),
        response_id=_maybe(metadata, "id"),
        timestamp=_text(metadata, "timestamp", ""),
        provider_metadata=_object(metadata, "providerMetadata") or None,
    )


def _finish(run_id: str, payload: JsonObject) -> Chunk:
    step, output = _object(payload, "stepResult"), _object(payload, "output")
    stopped, warnings = payload.get("stoppedBy"), step.get("warnings")
    return FinishChunk(
        run_id,
        message_id=_text(payload, "messageId", ""),
        reason=_reason(step),
        usage=_usage(output),
        text=_text(output, "text", ""),
        stopped_by=cast("StoppedBy", stopped) if stopped in get_args(StoppedBy) else None,
        warnings=tuple(map(str, warnings)) if isinstance(warnings, Sequence) else (),
    )


def _error(run_id: str, payload: JsonObject) -> Chunk:
    error = _object(payload, "error")
    return ErrorChunk(run_id, _text(error, "name", "Error"), _text(error, "message"))


def _tool_error(run_id: str, payload: JsonObject) -> Chunk:
    error = _object(payload, "error")
    kind = error.get("id")
    if kind not in get_args(ToolErrorKind):
        kind = "not_found" if error.get("name") == "ToolNotFoundError" else "raised"
    return ToolErrorChunk(
        run_id,
        _text(payload, "toolCallId"),
        _text(payload, "toolName"),
        payload.get("args"),
        cast("ToolErrorKind", kind),
        _text(error, "message", _text(_object(error, "cause"), "message", "The tool failed.")),
    )


def _tool_denied(run_id: str, payload: JsonObject) -> Chunk:
    return ToolOutputDeniedChunk(
        run_id,
        _text(payload, "toolCallId"),
        _text(payload, "toolName"),
        payload.get("args"),
        _maybe(_object(payload, "approval"), "reason"),
    )


def _suspended(run_id: str, payload: JsonObject) -> Chunk:
    pending = payload.get("pending")
    if not isinstance(pending, Sequence):
        raise _Misfit
    return SuspendedChunk(
        run_id, tuple(_pending(item) for item in pending if isinstance(item, Mapping)), _usage(payload)
    )


def _pending(wire: JsonObject) -> PendingCall:
    schema = _object(_with_schema(wire), "resumeSchema")
    return PendingCall(
        tool_call_id=_text(wire, "toolCallId"),
        tool_name=_text(wire, "toolName"),
        args=wire.get("args"),
        kind="suspend" if wire.get("kind") == "suspend" else "approval",
        suspend_payload=wire.get("suspendPayload"),
        resume_schema=schema or None,
    )


def _with_schema(wire: JsonObject) -> JsonObject:
    """Return a payload whose schema is an object, where a foreign server writes it as JSON text."""
    schema = wire.get("resumeSchema")
    if not isinstance(schema, str):
        return wire
    try:
        return {**wire, "resumeSchema": from_json(schema)}
    except ValueError:
        raise _Misfit from None


def _approval(run_id: str, payload: JsonObject) -> Chunk:
    return _plain(ToolCallApprovalChunk, run_id, _with_schema(payload))


def _call_suspended(run_id: str, payload: JsonObject) -> Chunk:
    return _plain(ToolCallSuspendedChunk, run_id, _with_schema(payload))


def _data(run_id: str, kind: str, wire: JsonObject) -> Chunk:
    return DataChunk(
        run_id, kind.removeprefix("data-"), wire.get("data"), _maybe(wire, "id"), wire.get("transient") is True
    )


def _without_error(wire: JsonObject) -> dict[str, JsonValue]:
    """Return a payload with the error's message in the place of the error."""
    error = wire.get("error")
    return {**wire, "error": error.get("message")} if isinstance(error, Mapping) else dict(wire)


def _step_result(run_id: str, payload: JsonObject) -> Chunk:
    return _plain(WorkflowStepResultChunk, run_id, _without_error(payload))


def _workflow_finish(run_id: str, payload: JsonObject) -> Chunk:
    error = _without_error(payload).get("error")
    status = _read(payload.get("workflowStatus"), WorkflowFinishChunk.__dataclass_fields__["status"].type)
    return WorkflowFinishChunk(
        run_id,
        status=cast("Any", status),  # Any: one of the literals, as just checked
        result=payload.get("finalWorkflowResult"),
        error=error if isinstance(error, str) else None,
        usage=_usage(_object(payload, "output")),
    )


def _watch(run_id: str, payload: JsonObject) -> Chunk:
    return WatchChunk(run_id, payload)


_SPECIAL: dict[str, Callable[[str, JsonObject], Chunk]] = {
    StepFinishChunk.type: _step_finish,
    FinishChunk.type: _finish,
    ErrorChunk.type: _error,
    ToolErrorChunk.type: _tool_error,
    ToolOutputDeniedChunk.type: _tool_denied,
    ToolCallApprovalChunk.type: _approval,
    ToolCallSuspendedChunk.type: _call_suspended,
    SuspendedChunk.type: _suspended,
    WorkflowStepResultChunk.type: _step_result,
    WorkflowFinishChunk.type: _workflow_finish,
    WatchChunk.type: _watch,
}

_BY_TYPE = _classes(
    _acp_chunks,
    _agent_chunks,
    _background_chunks,
    _content_chunks,
    _control_chunks,
    _tool_chunks,
    _workflow_chunks,
)
