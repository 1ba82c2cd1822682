"""From the parts of a message to the content blocks of the Messages interface."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias, assert_never

from pydantic_core import from_json

from bascule.messages import (
    DataPart,
    ErrorPart,
    FilePart,
    JsonValue,
    Part,
    ReasoningPart,
    SourcePart,
    StepStartPart,
    TextPart,
    ToolCallPart,
)
from bascule.models._prompt import result_text
from bascule.models._request import arguments_text, decoded_text

__all__ = ["Block", "assistant_blocks", "call_id", "result_blocks", "user_blocks"]

Block: TypeAlias = dict[str, JsonValue]

_NOT_IN_AN_ID = re.compile(r"[^a-zA-Z0-9_-]")
_IMAGES = ("image/jpeg", "image/png", "image/gif", "image/webp")
_PDF = "application/pdf"


def assistant_blocks(parts: Sequence[Part], reasoning_for: str | None) -> list[Block]:
    """Return what a model call wrote.

    Reasoning is only sent back to the provider that signed it.

    Args:
        parts: text, reasoning and tool calls in order.
        reasoning_for: the provider's name, ``None`` to leave reasoning out.
    """
    blocks: list[Block] = []
    for part in parts:
        if isinstance(part, TextPart) and part.text.strip():
            blocks.append({"type": "text", "text": part.text})
        elif isinstance(part, ReasoningPart) and reasoning_for is not None:
            blocks.extend(_reasoning(part, reasoning_for))
        elif isinstance(part, ToolCallPart):
            arguments = from_json(arguments_text(part.args))
            blocks.append(
                {"type": "tool_use", "id": call_id(part.tool_call_id), "name": part.tool_name, "input": arguments}
            )
    # Reasoning that nothing follows cannot be sent back alone.
    return blocks if any(block["type"] in ("text", "tool_use") for block in blocks) else []


def _reasoning(part: ReasoningPart, provider: str) -> Iterator[Block]:
    known = part.provider_metadata.get(provider) if part.provider_metadata is not None else None
    if isinstance(known, Mapping):
        if isinstance(known.get("redactedData"), str):
            yield {"type": "redacted_thinking", "data": known["redactedData"]}
        elif isinstance(known.get("signature"), str):
            yield {"type": "thinking", "thinking": part.text, "signature": known["signature"]}


def call_id(given: str) -> str:
    """Return the id of a tool call as the server takes it; another provider may have given it."""
    return _NOT_IN_AN_ID.sub("_", given) or "_"


def result_blocks(calls: Sequence[ToolCallPart]) -> list[Block]:
    """Return what came of tool calls, one block for each."""
    return [_result(call) for call in calls]


def _result(call: ToolCallPart) -> Block:
    block: Block = {"type": "tool_result", "tool_use_id": call_id(call.tool_call_id), "content": _result_content(call)}
    if call.state != "result":
        block["is_error"] = True
    return block


def _result_content(call: ToolCallPart) -> JsonValue:
    output = call.model_output if call.state == "result" else None
    if isinstance(output, Mapping) and output.get("type") == "content":
        items = output.get("value")
        if isinstance(items, Sequence) and not isinstance(items, str):
            blocks = [block for item in items if (block := _result_item(item)) is not None]
            if len(blocks) == len(items) > 0:
                return blocks
    return result_text(call)


def _result_item(item: JsonValue) -> Block | None:
    if not isinstance(item, Mapping):
        return None
    text, data = item.get("text"), item.get("data")
    if isinstance(text, str):
        return {"type": "text", "text": text} if text.strip() else None
    media_type = item.get("mediaType")
    if isinstance(data, str) and isinstance(media_type, str):
        return _file(FilePart(media_type=media_type, data=data))
    return None


def user_blocks(parts: Sequence[Part]) -> list[Block]:
    """Return what a person sent."""
    return [block for part in parts if (block := _user_block(part)) is not None]


def _user_block(part: Part) -> Block | None:
    match part:
        case TextPart():  # the server refuses blank text
            return {"type": "text", "text": part.text} if part.text.strip() else None
        case FilePart():
            return _file(part)
        case ReasoningPart() | SourcePart() | ToolCallPart() | StepStartPart() | ErrorPart() | DataPart():
            return None
        case _:
            assert_never(part)


def _file(part: FilePart) -> Block:
    media_type, name = part.media_type.partition(";")[0].strip().lower(), part.filename
    media_type = {"image/*": "image/png", "image/jpg": "image/jpeg"}.get(media_type, media_type)
    if media_type in _IMAGES:
        return {"type": "image", "source": _source(part, media_type)}
    titled: Block = {"title": name} if name else {}
    if media_type == _PDF:
        return {"type": "document", "source": _source(part, media_type), **titled}
    if part.data is not None and media_type.startswith("text/"):
        source: Block = {"type": "text", "media_type": "text/plain", "data": decoded_text(part.data)}
        return {"type": "document", "source": source, **titled}
    place = part.url or "of a kind that cannot be sent"
    return {"type": "text", "text": f"[attached file {name or 'file'} ({part.media_type}): {place}]"}


def _source(part: FilePart, media_type: str) -> Block:
    data, url = part.data, part.url or ""
    if data is None and not url.startswith("data:"):
        return {"type": "url", "url": url}
    return {"type": "base64", "media_type": media_type, "data": url.partition(",")[2] if data is None else data}
