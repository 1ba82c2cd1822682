"""From the events of a pydantic-ai stream to the parts of an answer. Needs pydantic-ai; imported by the first call."""

import base64
from collections.abc import Iterable
from typing import cast

from pydantic_ai.messages import (
    FilePart,
    ModelResponse,
    ModelResponsePart,
    ModelResponseStreamEvent,
    PartDeltaEvent,
    PartEndEvent,
    PartStartEvent,
    TextPart,
    TextPartDelta,
    ThinkingPart,
    ThinkingPartDelta,
    ToolCallPart,
    ToolCallPartDelta,
)
from pydantic_core import from_json, to_jsonable_python

from bascule.messages import JsonObject, JsonValue
from bascule.models._prompt import json_text
from bascule.models._protocol import (
    File,
    Finish,
    FinishReason,
    ModelPart,
    Raw,
    ReasoningDelta,
    TextDelta,
    ToolCall,
    ToolCallDelta,
    Usage,
)
from bascule.models._pydantic_ai_request import METADATA_KEY

__all__ = ["BridgeStream"]

_FINISH: dict[str, FinishReason] = {
    "stop": "stop",
    "length": "length",
    "content_filter": "content-filter",
    "tool_call": "tool-calls",
    "error": "error",
}


class BridgeStream:
    """One answer of a pydantic-ai model."""

    __slots__ = ("_calls", "_include_raw", "_provider", "_sent")

    def __init__(self, provider: str, *, include_raw: bool = False) -> None:
        """Begin an answer.

        Args:
            provider: whose metadata the answer carries.
            include_raw: whether every event is sent as a ``Raw`` part too.
        """
        self._provider = provider
        self._include_raw = include_raw
        self._calls: dict[int, ToolCallPart] = {}
        self._sent: set[str] = set()

    def event(self, event: ModelResponseStreamEvent) -> list[ModelPart]:
        """Return the parts of one event."""
        parts: list[ModelPart] = []
        if self._include_raw:
            parts.append(Raw(_json(event)))
        if isinstance(event, PartDeltaEvent):
            self._delta(event, parts)
        elif isinstance(event, PartStartEvent):
            self._start(event, parts)
        elif isinstance(event, PartEndEvent):
            self._end(event, parts)
        return parts

    def end(self, response: ModelResponse) -> list[ModelPart]:
        """Return the last parts of an answer that was streamed."""
        calls = self._rest(response.parts)
        return [*calls, self._finish(response)]

    def whole(self, response: ModelResponse) -> list[ModelPart]:
        """Return the parts of an answer that was not streamed."""
        parts: list[ModelPart] = []
        for index, part in enumerate(response.parts):
            self._start(PartStartEvent(index=index, part=part), parts)
            self._end(PartEndEvent(index=index, part=part), parts)
        return [*parts, *self.end(response)]

    def _start(self, event: PartStartEvent, parts: list[ModelPart]) -> None:
        part = event.part
        if isinstance(part, TextPart) and part.content:
            parts.append(TextDelta(part.content))
        elif isinstance(part, ThinkingPart) and part.content:
            parts.append(ReasoningDelta(part.content))
        elif isinstance(part, ToolCallPart):
            self._calls[event.index] = part
            parts.append(ToolCallDelta(part.tool_call_id, part.tool_name, _arguments(part)))
        elif isinstance(part, FilePart):
            parts.append(File(part.content.media_type, base64.b64encode(part.content.data).decode()))

    def _delta(self, event: PartDeltaEvent, parts: list[ModelPart]) -> None:
        delta = event.delta
        if isinstance(delta, TextPartDelta) and delta.content_delta:
            parts.append(TextDelta(delta.content_delta))
        elif isinstance(delta, ThinkingPartDelta) and delta.content_delta:
            parts.append(ReasoningDelta(delta.content_delta))
        elif isinstance(delta, ToolCallPartDelta) and isinstance(delta.args_delta, str):
            call = self._calls.get(event.index)
            if call is not None and delta.args_delta:
                parts.append(ToolCallDelta(call.tool_call_id, call.tool_name, delta.args_delta))

    def _end(self, event: PartEndEvent, parts: list[ModelPart]) -> None:
        part = event.part
        if isinstance(part, ThinkingPart):
            kept = _kept(part)
            if kept:
                parts.append(ReasoningDelta("", {METADATA_KEY: kept}))
        elif isinstance(part, ToolCallPart) and _is_whole(part):
            # An end may be told before the last piece when calls are written side by side, so only a call that can
            # take no more is whole; the others wait for the end of the answer.
            parts += self._rest([part])

    def _rest(self, parts: Iterable[ModelResponsePart]) -> list[ModelPart]:
        found: list[ModelPart] = []
        for part in parts:
            if isinstance(part, ToolCallPart) and part.tool_call_id not in self._sent:
                self._sent.add(part.tool_call_id)
                found.append(ToolCall(part.tool_call_id, part.tool_name, _arguments(part).strip() or "{}"))
        return found

    def _finish(self, response: ModelResponse) -> Finish:
        reason = _FINISH.get(response.finish_reason or "stop", "other")
        used = response.usage
        usage = Usage(
            input_tokens=used.input_tokens,
            output_tokens=used.output_tokens,
            reasoning_tokens=used.output_reasoning_tokens or used.details.get("reasoning_tokens", 0),
            cached_input_tokens=used.cache_read_tokens,
        )
        return Finish(
            "tool-calls" if self._sent and reason == "stop" else reason,
            usage,
            {self._provider: _json(response.provider_details)} if response.provider_details else None,
            response.provider_response_id,
            response.model_name,
        )


def _arguments(part: ToolCallPart) -> str:
    if part.args is None or isinstance(part.args, str):
        return part.args or ""
    return json_text(_json(part.args))


def _is_whole(part: ToolCallPart) -> bool:
    try:
        return isinstance(from_json(_arguments(part)), dict)
    except ValueError:
        return False


def _kept(part: ThinkingPart) -> JsonObject:
    """Return what the provider wants back with its reasoning."""
    kept: dict[str, JsonValue] = {
        "id": part.id,
        "signature": part.signature,
        "providerName": part.provider_name,
        "details": _json(part.provider_details) if part.provider_details else None,
    }
    return {key: value for key, value in kept.items() if value}


def _json(value: object) -> JsonValue:
    plain: object = to_jsonable_python(value, fallback=str)
    return cast("JsonValue", plain)  # that is what the function makes
