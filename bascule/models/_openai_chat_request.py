"""From a model call to the body of a Chat Completions request."""

from collections.abc import Iterator, Sequence
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

__all__ = ["chat_body", "chat_messages"]

_OURS = ("model", "messages", "stream", "n", "transport", "websocket")


def chat_body(
    call: ModelCall, model_id: str, *, provider: str, max_tokens_key: str = "max_tokens", include_usage: bool = True
) -> dict[str, JsonValue]:
    """Return the request body of a call.

    Args:
        call: the call.
        model_id: the model's name at the server.
        provider: whose entries of ``provider_options`` count, after those of ``openai``.
        max_tokens_key: how the server calls the limit of the answer's length.
        include_usage: whether to ask for the usage at the end of the stream.
    """
    settings = call.settings
    body: dict[str, JsonValue] = {"model": model_id, "messages": chat_messages(call.messages), "stream": True}
    if include_usage:
        body["stream_options"] = {"include_usage": True}
    optional: dict[str, JsonValue] = {
        "temperature": settings.temperature,
        max_tokens_key: settings.max_output_tokens,
        "top_p": settings.top_p,
        "top_k": settings.top_k,
        "presence_penalty": settings.presence_penalty,
        "frequency_penalty": settings.frequency_penalty,
        "stop": list(settings.stop_sequences) or None,
        "seed": settings.seed,
    }
    body.update({key: value for key, value in optional.items() if value is not None})
    if call.tools:
        body["tools"] = [_tool(tool) for tool in call.tools]
        body["tool_choice"] = _tool_choice(call.tool_choice)
    if call.response_format is not None:
        body["response_format"] = {"type": "json_schema", "json_schema": named_schema(call.response_format)}
    for name in dict.fromkeys(("openai", provider)):
        body.update(options_of(call.provider_options, name, without=_OURS))
    return body


def _tool(tool: ModelTool) -> JsonObject:
    function: JsonObject = {"name": tool.name, "description": tool.description, "parameters": tool.input_schema}
    return {"type": "function", "function": function}


def _tool_choice(choice: ToolChoice) -> JsonValue:
    if isinstance(choice, str):
        return choice
    name = choice.get("toolName")
    return {"type": "function", "function": {"name": name}} if isinstance(name, str) else choice


def chat_messages(messages: Sequence[Message]) -> list[JsonValue]:
    """Return a prompt in the server's spelling; an assistant turn becomes one message for each model call in it."""
    written: list[JsonValue] = []
    for message in messages:
        match message.role:
            case "system":
                written.append({"role": "system", "content": message.text})
            case "user" | "signal":
                written.append({"role": "user", "content": _user_content(message.parts)})
            case "assistant":
                _assistant(message.parts, written)
            case _:
                assert_never(message.role)
    return written


def _user_content(parts: Sequence[Part]) -> JsonValue:
    items = [item for item in map(_user_item, parts) if item is not None]
    texts = [item["text"] for item in items if item["type"] == "text"]
    if len(texts) == len(items) <= 1:
        return texts[0] if texts else ""
    return items


def _user_item(part: Part) -> JsonObject | None:
    match part:
        case TextPart():
            return {"type": "text", "text": part.text}
        case FilePart():
            return _file(part)
        case ReasoningPart() | SourcePart() | ToolCallPart() | StepStartPart() | ErrorPart() | DataPart():
            return None
        case _:
            assert_never(part)


def _file(part: FilePart) -> JsonObject:
    media_type, data, name = part.media_type, part.data, part.filename or "file"
    if media_type.startswith("image/"):
        media_type = "image/png" if media_type == "image/*" else media_type
        return {"type": "image_url", "image_url": {"url": part.url or f"data:{media_type};base64,{data or ''}"}}
    if data is None:  # the interface takes no other files by address, so the model is told where the file lies
        return {"type": "text", "text": f"[attached file {name} ({media_type}): {part.url or 'without content'}]"}
    if media_type in AUDIO_FORMATS:
        return {"type": "input_audio", "input_audio": {"data": data, "format": AUDIO_FORMATS[media_type]}}
    if media_type.startswith("text/"):
        return {"type": "text", "text": f"[attached file {name}]\n{decoded_text(data)}"}
    return {"type": "file", "file": {"filename": name, "file_data": f"data:{media_type};base64,{data}"}}


def _assistant(parts: Sequence[Part], written: list[JsonValue]) -> None:
    for text, calls in _model_calls(parts):
        message: dict[str, JsonValue] = {"role": "assistant", "content": text or None}
        if calls:
            message["tool_calls"] = [_tool_call(call) for call in calls]
        written.append(message)
        written.extend(
            {"role": "tool", "tool_call_id": call.tool_call_id, "content": result_text(call)} for call in calls
        )


def _model_calls(parts: Sequence[Part]) -> Iterator[tuple[str, list[ToolCallPart]]]:
    """Split an assistant turn into what each model call in it wrote, empty ones left out."""
    text, calls = "", list[ToolCallPart]()
    for part in parts:
        # Text after a tool call was written by the next model call, even where no border says so.
        if isinstance(part, StepStartPart) or (isinstance(part, TextPart) and calls):
            if text or calls:
                yield text, calls
            text, calls = "", []
        if isinstance(part, TextPart):
            text += part.text
        elif isinstance(part, ToolCallPart):
            calls.append(part)
    if text or calls:
        yield text, calls


def _tool_call(part: ToolCallPart) -> JsonObject:
    function = {"name": part.tool_name, "arguments": arguments_text(part.args)}
    return {"id": part.tool_call_id, "type": "function", "function": function}
