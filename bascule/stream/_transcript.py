"""Parts of a conversation in the forms of the AI SDK: model messages, step contents, UI messages, schemas as text."""

from collections.abc import Iterable, Sequence

from pydantic_core import to_json

from bascule.messages import (
    DataPart,
    ErrorPart,
    FilePart,
    JsonObject,
    JsonValue,
    Message,
    Part,
    ReasoningPart,
    SourcePart,
    StepStartPart,
    TextPart,
    ToolCallPart,
)
from bascule.stream._chunk import Wire, present

__all__ = [
    "APPROVAL_SCHEMA",
    "model_messages",
    "model_output",
    "schema_text",
    "step_content",
    "turn_messages",
    "ui_message",
]

APPROVAL_SCHEMA: JsonObject = {
    "type": "object",
    "properties": {"approved": {"type": "boolean"}, "reason": {"type": "string"}},
    "required": ["approved"],
    "additionalProperties": False,
}
"""What an approval is answered with, where the event does not say."""


def schema_text(schema: JsonObject | None, default: JsonObject) -> str:
    """Return a schema as JSON text."""
    return to_json(default if schema is None else schema).decode()


def model_messages(messages: Iterable[Message]) -> list[Wire]:
    """Return messages as a model is shown them; system messages are not part of a conversation."""
    wires: list[Wire] = []
    for message in messages:
        if message.role == "assistant":
            wires += turn_messages(message.parts)
        elif message.role != "system":
            content = [wire for part in message.parts if (wire := _content(part)) is not None]
            wires.append({"role": "user", "content": content})
    return wires


def turn_messages(parts: Sequence[Part]) -> list[Wire]:
    """Return an assistant's turn: for each of its steps what it said, and then what the tools answered."""
    wires: list[Wire] = []
    step: list[Part] = []
    for part in (*parts, StepStartPart()):
        if not isinstance(part, StepStartPart):
            step.append(part)
            continue
        content = [wire for item in step if (wire := _content(item)) is not None]
        results = _results(step)
        if content:
            wires.append({"role": "assistant", "content": content})
        if results:
            wires.append({"role": "tool", "content": results})
        step.clear()
    return wires


def step_content(parts: Sequence[Part]) -> list[Wire]:
    """Return what a step holds: what the model said, and what the tools answered."""
    content = [_made_file(part) if isinstance(part, FilePart) else _content(part) for part in parts]
    return [*(wire for wire in content if wire is not None), *_results(parts)]


def _made_file(part: FilePart) -> Wire:
    return {"type": "file", "file": {"type": "file", "mediaType": part.media_type, "base64Data": part.data}}


def _content(part: Part) -> Wire | None:
    match part:
        case TextPart():
            return {"type": "text", "text": part.text}
        case ReasoningPart():
            return present({"type": "reasoning", "text": part.text, "providerOptions": part.provider_metadata})
        case FilePart():
            data = part.url if part.data is None else f"data:{part.media_type};base64,{part.data}"
            return present({"type": "file", "mediaType": part.media_type, "data": data, "filename": part.filename})
        case ToolCallPart():
            return {
                "type": "tool-call",
                "toolCallId": part.tool_call_id,
                "toolName": part.tool_name,
                "input": part.args,
            }
        case SourcePart() | StepStartPart() | ErrorPart() | DataPart():
            return None


def _results(parts: Iterable[Part]) -> list[Wire]:
    return [
        {
            "type": "tool-result",
            "toolCallId": part.tool_call_id,
            "toolName": part.tool_name,
            "input": part.args,
            "output": _output(part),
        }
        for part in parts
        if isinstance(part, ToolCallPart) and part.state in ("result", "output-error", "output-denied")
    ]


def _output(part: ToolCallPart) -> Wire:
    if part.state == "result":
        return model_output(part.result if part.model_output is None else part.model_output)
    return {"type": "error-text" if part.state == "output-error" else "text", "value": part.error or ""}


def model_output(value: JsonValue) -> Wire:
    """Return a tool's output as a model is shown it: text as text, everything else as JSON."""
    return {"type": "text" if isinstance(value, str) else "json", "value": value}


def ui_message(message_id: str, parts: Iterable[Part], metadata: Wire) -> Wire:
    """Return an assistant's turn as a screen shows it."""
    shown = [wire for part in parts if (wire := _ui_part(part)) is not None]
    return {"id": message_id, "role": "assistant", "metadata": metadata, "parts": shown}


def _ui_part(part: Part) -> Wire | None:
    match part:
        case TextPart():
            return {"type": "text", "text": part.text}
        case ReasoningPart():
            return {"type": "reasoning", "text": part.text}
        case FilePart():
            url = part.url if part.data is None else f"data:{part.media_type};base64,{part.data}"
            return {"type": "file", "mediaType": part.media_type, "url": url}
        case SourcePart():
            return present({"type": "source-url", "sourceId": part.id, "url": part.url, "title": part.title})
        case StepStartPart():
            return {"type": "step-start"}
        case DataPart():
            return {"type": f"data-{part.name}", "data": part.data}
        case ToolCallPart():
            return {"type": f"tool-{part.tool_name}", "toolCallId": part.tool_call_id, **_ui_state(part)}
        case ErrorPart():
            return None


def _ui_state(part: ToolCallPart) -> Wire:
    match part.state:
        case "result":
            return {"state": "output-available", "input": part.args, "output": part.result}
        case "output-error" | "output-denied":
            return {"state": "output-error", "input": part.args, "errorText": part.error or ""}
        case "call" | "approval-requested" | "approval-responded":
            return {"state": "input-available", "input": part.args}
