"""From a model call to the body of a Responses request."""

from collections.abc import Mapping, Sequence
from typing import assert_never

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
from bascule.models._prompt import result_text
from bascule.models._protocol import ModelCall, ModelTool, ToolChoice
from bascule.models._request import AUDIO_FORMATS, arguments_text, decoded_text, named_schema, options_of

__all__ = ["responses_body", "responses_input"]

_OURS = ("model", "input", "stream", "background", "transport", "websocket", "use_responses_api")
_INSIDE = {
    "reasoning_effort": ("reasoning", "effort"),
    "reasoning_summary": ("reasoning", "summary"),
    "text_verbosity": ("text", "verbosity"),
}


def responses_body(call: ModelCall, model_id: str, *, provider: str) -> dict[str, JsonValue]:
    """Return the request body of a call.

    Penalties, ``seed``, ``top_k`` and stop sequences have no place in this interface and are left out.

    Args:
        call: the call.
        model_id: the model's name at the server.
        provider: whose entries of ``provider_options`` count, after those of ``openai``. ``reasoning_effort``,
            ``reasoning_summary`` and ``text_verbosity`` are short for entries of ``reasoning`` and ``text``; ``tools``
            is added to the call's own tools.
    """
    settings = call.settings
    instructions, items = responses_input(call.messages, provider=provider)
    optional: dict[str, JsonValue] = {
        "instructions": instructions or None,
        "temperature": settings.temperature,
        "max_output_tokens": settings.max_output_tokens,
        "top_p": settings.top_p,
    }
    body: dict[str, JsonValue] = {"model": model_id, "input": items, "stream": True}
    body.update({key: value for key, value in optional.items() if value is not None})
    tools: list[JsonValue] = [_tool(tool) for tool in call.tools]
    if call.response_format is not None:
        body["text"] = {"format": {"type": "json_schema", **named_schema(call.response_format)}}
    for name in dict.fromkeys(("openai", provider)):
        options = options_of(call.provider_options, name, without=_OURS)
        more = options.pop("tools", None)
        if isinstance(more, Sequence) and not isinstance(more, str):
            tools += more
        _add_options(body, options)
    if tools:
        body["tools"] = tools
        body.setdefault("tool_choice", _tool_choice(call.tool_choice))
    return body


def _add_options(body: dict[str, JsonValue], options: Mapping[str, JsonValue]) -> None:
    for key, value in options.items():
        outer, inner = _INSIDE.get(key, (key, ""))
        value = {inner: value} if inner else value
        held = body.get(outer)
        # Only these two are built from several sources; every other option is the user's as it stands.
        if outer in ("reasoning", "text") and isinstance(held, Mapping) and isinstance(value, Mapping):
            value = {**held, **value}
        body[outer] = value


def _tool(tool: ModelTool) -> JsonObject:
    # Without `strict` the server would change the schema to fit its strict mode.
    return {
        "type": "function",
        "name": tool.name,
        "description": tool.description,
        "parameters": tool.input_schema,
        "strict": False,
    }


def _tool_choice(choice: ToolChoice) -> JsonValue:
    if isinstance(choice, str):
        return choice
    name = choice.get("toolName")
    return {"type": "function", "name": name} if isinstance(name, str) else choice


def responses_input(messages: Sequence[Message], *, provider: str) -> tuple[str, list[JsonValue]]:
    """Return the instructions, which are the system messages at the beginning, and the items of a prompt."""
    begin = next((at for at, message in enumerate(messages) if message.role != "system"), len(messages))
    items: list[JsonValue] = []
    for message in messages[begin:]:
        match message.role:
            case "system":
                items.append({"role": "system", "content": message.text})
            case "user" | "signal":
                content = [item for item in map(_user_item, message.parts) if item is not None]
                items.append({"role": "user", "content": content})
            case "assistant":
                _assistant(message.parts, items, provider)
            case _:
                assert_never(message.role)
    return "\n\n".join(filter(None, (message.text for message in messages[:begin]))), items


def _user_item(part: Part) -> JsonObject | None:
    match part:
        case TextPart():
            return _text(part.text)
        case FilePart():
            return _file(part)
        case ReasoningPart() | SourcePart() | ToolCallPart() | StepStartPart() | ErrorPart() | DataPart():
            return None
        case _:
            assert_never(part)


def _text(text: str) -> JsonObject:
    return {"type": "input_text", "text": text}


def _file(part: FilePart) -> JsonObject:
    media_type, data, name = part.media_type, part.data, part.filename or "file"
    if media_type.startswith("image/"):
        media_type = "image/png" if media_type == "image/*" else media_type
        return {"type": "input_image", "image_url": part.url or f"data:{media_type};base64,{data or ''}"}
    if data is None:
        return {"type": "input_file", "file_url": part.url} if part.url else _text(f"[file {name} without content]")
    if media_type in AUDIO_FORMATS:
        return {"type": "input_audio", "input_audio": {"data": data, "format": AUDIO_FORMATS[media_type]}}
    if media_type.startswith("text/"):
        return _text(f"[attached file {name}]\n{decoded_text(data)}")
    return {"type": "input_file", "filename": name, "file_data": f"data:{media_type};base64,{data}"}


def _assistant(parts: Sequence[Part], items: list[JsonValue], provider: str) -> None:
    """Write an assistant turn; the calls of one step stand together, their results after them."""
    results: list[JsonValue] = []
    text = ""
    for part in parts:
        if text and not isinstance(part, TextPart):
            items.append({"role": "assistant", "content": text})
            text = ""
        if results and not isinstance(part, ToolCallPart):
            items.extend(results)
            results = []
        if isinstance(part, TextPart):
            text += part.text
        elif isinstance(part, ToolCallPart):
            arguments = arguments_text(part.args)
            items.append(
                {"type": "function_call", "call_id": part.tool_call_id, "name": part.tool_name, "arguments": arguments}
            )
            results.append({"type": "function_call_output", "call_id": part.tool_call_id, "output": _output(part)})
        elif isinstance(part, ReasoningPart):
            items.extend(_reasoning(part, provider))
    if text:
        items.append({"role": "assistant", "content": text})
    items.extend(results)


def _reasoning(part: ReasoningPart, provider: str) -> list[JsonValue]:
    """Return the item of a reasoning that the server can read back, which is one with its encrypted content."""
    held = (part.provider_metadata or {}).get(provider)
    if not isinstance(held, Mapping) or not held.get("encrypted_content"):
        return []
    summary: list[JsonValue] = [{"type": "summary_text", "text": part.text}] if part.text else []
    return [{"type": "reasoning", "summary": summary, "encrypted_content": held["encrypted_content"]}]


def _output(part: ToolCallPart) -> JsonValue:
    """Return what a tool returned, with its images where its result for the model holds some."""
    shown = part.model_output
    if part.state == "result" and isinstance(shown, Mapping) and shown.get("type") == "content":
        value = shown.get("value")
        if isinstance(value, Sequence) and not isinstance(value, str):
            written = [_output_item(item) for item in value]
            if any(item is not None and item["type"] != "input_text" for item in written):
                return [item for item in written if item is not None]
    return result_text(part)


def _output_item(item: JsonValue) -> JsonObject | None:
    if not isinstance(item, Mapping):
        return None
    text, data, media_type = item.get("text"), item.get("data"), item.get("mediaType")
    if isinstance(text, str):
        return _text(text)
    if isinstance(data, str) and isinstance(media_type, str):
        return _file(FilePart(media_type=media_type, data=data))
    return None
