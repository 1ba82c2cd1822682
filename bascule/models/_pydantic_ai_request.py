"""From a model call to a pydantic-ai request. Needs pydantic-ai, so it is imported by the first call only."""

import base64
import binascii
from collections.abc import Mapping, Sequence
from typing import TypeAlias, cast

from pydantic_ai.messages import (
    AudioUrl,
    BinaryContent,
    DocumentUrl,
    ImageUrl,
    ModelMessage,
    ModelRequest,
    ModelRequestPart,
    ModelResponse,
    ModelResponsePart,
    SystemPromptPart,
    ThinkingPart,
    ToolReturnPart,
    UserPromptPart,
    VideoUrl,
)
from pydantic_ai.messages import TextPart as TheirText
from pydantic_ai.messages import ToolCallPart as TheirCall
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.output import OutputObjectDefinition
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import ToolDefinition
from pydantic_core import to_jsonable_python

from bascule.messages import FilePart, JsonObject, JsonValue, Message, Part, ReasoningPart, TextPart, ToolCallPart
from bascule.models._prompt import result_text, split_turn
from bascule.models._protocol import ModelCall, ModelTool
from bascule.models._request import arguments_text, options_of

__all__ = ["METADATA_KEY", "request_messages", "request_parameters", "request_settings"]

METADATA_KEY = "pydanticAi"
"""Where a reasoning part keeps what pydantic-ai wants back."""

_Content: TypeAlias = str | ImageUrl | AudioUrl | VideoUrl | DocumentUrl | BinaryContent
_URLS: Mapping[str, type[ImageUrl | AudioUrl | VideoUrl]] = {"image": ImageUrl, "audio": AudioUrl, "video": VideoUrl}


def request_messages(messages: Sequence[Message]) -> list[ModelMessage]:
    """Return a prompt as pydantic-ai writes it: requests and responses take turns."""
    written: list[ModelMessage] = []
    asked: list[ModelRequestPart] = []
    for message in messages:
        if message.role == "system":
            asked.append(SystemPromptPart(message.text))
        elif message.role != "assistant":
            asked.append(UserPromptPart(_user_content(message.parts)))
        else:
            for said, calls in split_turn(message.parts):
                response = [part for part in map(_response_part, said) if part is not None]
                if response:
                    written += [ModelRequest(asked), ModelResponse(response)] if asked else [ModelResponse(response)]
                    asked = [_tool_return(call) for call in calls]
    return [*written, ModelRequest(asked)] if asked else written


def _user_content(parts: Sequence[Part]) -> str | list[_Content]:
    items: list[_Content] = []
    for part in parts:
        if isinstance(part, TextPart):
            items.append(part.text)
        elif isinstance(part, FilePart):
            items.append(_file(part))
    return items[0] if len(items) == 1 and isinstance(items[0], str) else items


def _file(part: FilePart) -> _Content:
    media_type, url = part.media_type, part.url or ""
    data = url.partition(",")[2] if part.data is None and url.startswith("data:") else part.data
    if data is None:
        kind = _URLS.get(media_type.partition("/")[0], DocumentUrl)
        return kind(url, media_type=None if media_type.endswith("/*") else media_type)
    try:
        return BinaryContent(base64.b64decode(data, validate=True), media_type=media_type.replace("/*", "/png"))
    except binascii.Error:
        return data  # text that was never encoded


def _response_part(part: Part) -> ModelResponsePart | None:
    if isinstance(part, TextPart):
        return TheirText(part.text) if part.text else None
    if isinstance(part, ToolCallPart):
        return TheirCall(part.tool_name, arguments_text(part.args), part.tool_call_id)
    if isinstance(part, ReasoningPart):
        return _thinking(part)
    return None


def _thinking(part: ReasoningPart) -> ThinkingPart | None:
    """Return reasoning that came over this bridge; that of others means nothing to the provider."""
    known = part.provider_metadata.get(METADATA_KEY) if part.provider_metadata is not None else None
    if not isinstance(known, Mapping):
        return None
    details = known.get("details")
    return ThinkingPart(
        part.text,
        id=_optional_text(known.get("id")),
        signature=_optional_text(known.get("signature")),
        provider_name=_optional_text(known.get("providerName")),
        provider_details=dict(details) if isinstance(details, Mapping) else None,
    )


def _optional_text(value: JsonValue) -> str | None:
    return value if isinstance(value, str) else None


def _tool_return(call: ToolCallPart) -> ToolReturnPart[object]:
    part: ToolReturnPart[object] = ToolReturnPart(call.tool_name, _returned(call), call.tool_call_id)
    if call.state != "result":
        part.outcome = "denied" if call.state == "output-denied" else "failed"
    return part


def _returned(call: ToolCallPart) -> str | list[str | _Content]:
    output = call.model_output if call.state == "result" else None
    if isinstance(output, Mapping) and output.get("type") == "content":
        items = output.get("value")
        listed = items if isinstance(items, Sequence) and not isinstance(items, str) else ()
        media = [item for item in listed if isinstance(item, Mapping) and isinstance(item.get("data"), str)]
        if media:
            files = [FilePart(media_type=str(item.get("mediaType")), data=str(item["data"])) for item in media]
            texts = [str(item["text"]) for item in listed if isinstance(item, Mapping) and "text" in item]
            return [*texts, *map(_file, files)]
    return result_text(call)


def request_parameters(call: ModelCall) -> ModelRequestParameters:
    """Return the tools and the form of the answer."""
    tools = [_tool(tool) for tool in call.tools]
    if call.response_format is None:
        return ModelRequestParameters(function_tools=tools)
    title = call.response_format.get("title")
    wanted = OutputObjectDefinition(_json(call.response_format), name=title if isinstance(title, str) else None)
    return ModelRequestParameters(function_tools=tools, output_mode="native", output_object=wanted)


def _tool(tool: ModelTool) -> ToolDefinition:
    return ToolDefinition(name=tool.name, parameters_json_schema=_json(tool.input_schema), description=tool.description)


def _json(value: JsonObject) -> dict[str, object]:
    plain: object = to_jsonable_python(value)
    return cast("dict[str, object]", plain)  # JSON by construction


def request_settings(call: ModelCall, provider: str) -> ModelSettings:
    """Return the settings of a call, with the options for a provider under the names that pydantic-ai gives them."""
    given = call.settings
    headers = {name: str(value) for name, value in (given.headers or {}).items()}
    choice = call.tool_choice
    if not isinstance(choice, str):
        name = choice.get("toolName")
        choice = "auto" if not isinstance(name, str) else choice
    settings: dict[str, object] = {
        "max_tokens": given.max_output_tokens,
        "temperature": given.temperature,
        "top_p": given.top_p,
        "top_k": given.top_k,
        "presence_penalty": given.presence_penalty,
        "frequency_penalty": given.frequency_penalty,
        "seed": given.seed,
        "stop_sequences": list(given.stop_sequences) or None,
        "extra_headers": headers or None,
        "tool_choice": (choice if isinstance(choice, str) else [choice["toolName"]]) if call.tools else None,
    }
    prefix = provider.replace("-", "_")
    for key, value in options_of(call.provider_options, provider).items():
        settings[key if key.startswith(f"{prefix}_") else f"{prefix}_{key}"] = value
    settings.update(options_of(call.provider_options, "pydantic_ai"))
    return cast("ModelSettings", {key: value for key, value in settings.items() if value is not None})
