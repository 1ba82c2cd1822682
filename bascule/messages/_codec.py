"""Stored and wire spelling of message parts (content format 2).

Unknown part types are skipped, malformed known ones are read as far as they go: a peer's new field or kind must not
make a conversation unreadable.
"""

from collections.abc import Mapping, Sequence
from typing import assert_never, cast, get_args

from bascule.messages._parts import (
    DataPart,
    ErrorPart,
    FilePart,
    JsonObject,
    JsonValue,
    Part,
    ReasoningPart,
    SourcePart,
    StepStartPart,
    TextPart,
    ToolCallPart,
    ToolCallState,
)

__all__ = ["content_from_wire", "content_to_wire", "part_from_wire", "part_to_wire"]

_STATES: tuple[str, ...] = get_args(ToolCallState)


def content_to_wire(parts: Sequence[Part]) -> dict[str, JsonValue]:
    """Return the stored form of a message's parts: ``{"format": 2, "parts": [...]}``."""
    return {"format": 2, "parts": [part_to_wire(part) for part in parts]}


def content_from_wire(content: JsonObject) -> tuple[Part, ...]:
    """Read the stored form; the inverse of ``content_to_wire``."""
    parts = content.get("parts")
    if not isinstance(parts, Sequence) or isinstance(parts, str):
        return ()
    return tuple(part for part in map(part_from_wire, parts) if part is not None)


def part_to_wire(part: Part) -> dict[str, JsonValue]:
    """Return one part with camelCase keys."""
    match part:
        case TextPart():
            return {"type": "text", "text": part.text}
        case ReasoningPart():
            return _present({"type": "reasoning", "text": part.text, "providerMetadata": part.provider_metadata})
        case FilePart():
            return _present(
                {
                    "type": "file",
                    "mediaType": part.media_type,
                    "data": part.data,
                    "url": part.url,
                    "filename": part.filename,
                }
            )
        case SourcePart():
            return _present({"type": "source-url", "sourceId": part.id, "url": part.url, "title": part.title})
        case ToolCallPart():
            return {"type": "tool-invocation", "toolInvocation": _tool_call_to_wire(part)}
        case StepStartPart():
            return {"type": "step-start"}
        case ErrorPart():
            return {"type": "error", "name": part.name, "message": part.message}
        case DataPart():
            return {"type": f"data-{part.name}", "data": part.data}
        case _:
            assert_never(part)


def _tool_call_to_wire(part: ToolCallPart) -> dict[str, JsonValue]:
    wire: dict[str, JsonValue] = {
        "toolCallId": part.tool_call_id,
        "toolName": part.tool_name,
        "args": part.args,
        "state": part.state,
    }
    if part.state == "result":
        wire["result"] = part.result
    if part.model_output is not None:
        wire["modelOutput"] = part.model_output
    if part.error is not None:
        wire["errorText"] = part.error
    return wire


def _present(values: dict[str, JsonValue]) -> dict[str, JsonValue]:
    return {key: value for key, value in values.items() if value is not None}


def part_from_wire(value: JsonValue) -> Part | None:
    """Read one part; ``None`` for a kind that is not known."""
    if isinstance(value, str):
        return TextPart(value)
    if not isinstance(value, Mapping):
        return None
    kind = _text(value.get("type"))
    if kind.startswith("data-"):
        return DataPart(kind.removeprefix("data-"), value.get("data"))
    reader = _READERS.get(kind)
    return reader(value) if reader is not None else None


def _text(value: JsonValue) -> str:
    return value if isinstance(value, str) else ""


def _optional_text(value: JsonValue) -> str | None:
    return value if isinstance(value, str) else None


def _read_text(value: JsonObject) -> Part:
    return TextPart(_text(value.get("text")))


def _read_reasoning(value: JsonObject) -> Part:
    metadata = value.get("providerMetadata")
    return ReasoningPart(
        _text(value.get("text", value.get("reasoning"))), metadata if isinstance(metadata, Mapping) else None
    )


def _read_file(value: JsonObject) -> Part:
    media_type = value.get("mediaType", value.get("mimeType"))
    data = _optional_text(value.get("data", value.get("image")))
    url = _optional_text(value.get("url"))
    if data is not None and data.startswith(("http://", "https://", "data:")):
        data, url = None, data
    return FilePart(
        media_type=_text(media_type) or ("image/*" if value.get("type") == "image" else "application/octet-stream"),
        data=data,
        url=url,
        filename=_optional_text(value.get("filename")),
    )


def _read_source(value: JsonObject) -> Part:
    return SourcePart(
        id=_text(value.get("sourceId", value.get("id"))),
        url=_text(value.get("url")),
        title=_optional_text(value.get("title")),
    )


def _read_tool_call(value: JsonObject) -> Part:
    call = value.get("toolInvocation", value)
    call = call if isinstance(call, Mapping) else value
    state = call.get("state")
    return ToolCallPart(
        tool_call_id=_text(call.get("toolCallId")),
        tool_name=_text(call.get("toolName")),
        args=call.get("args", call.get("input")),
        state=cast("ToolCallState", state) if state in _STATES else "call",
        result=call.get("result", call.get("output")),
        model_output=call.get("modelOutput"),
        error=_optional_text(call.get("errorText")),
    )


def _read_step_start(_: JsonObject) -> Part:
    return StepStartPart()


def _read_error(value: JsonObject) -> Part:
    return ErrorPart(_text(value.get("name")), _text(value.get("message")))


_READERS = {
    "text": _read_text,
    "reasoning": _read_reasoning,
    "file": _read_file,
    "image": _read_file,
    "source": _read_source,
    "source-url": _read_source,
    "tool-invocation": _read_tool_call,
    "tool-call": _read_tool_call,
    "step-start": _read_step_start,
    "error": _read_error,
}
