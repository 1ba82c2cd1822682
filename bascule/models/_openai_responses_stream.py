"""From the events of the Responses interface to the parts of an answer.

Opens nothing and awaits nothing. The same events come as an event stream over HTTP and as messages over a WebSocket.
Several servers leave some of them out, so what an item's deltas did not say is taken from the whole item, and what no
event said of an item from the response at the end.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from bascule.errors import ModelError
from bascule.messages import JsonValue
from bascule.models._endpoint import Endpoint
from bascule.models._prompt import json_text
from bascule.models._protocol import (
    File,
    Finish,
    FinishReason,
    ModelPart,
    Raw,
    ReasoningDelta,
    Source,
    TextDelta,
    ToolCall,
    ToolCallDelta,
    Usage,
)
from bascule.models._sse import Json, SseReader

__all__ = ["ResponsesStream"]

_INCOMPLETE: dict[str, FinishReason] = {"max_output_tokens": "length", "content_filter": "content-filter"}
_IMAGES = {"png": "image/png", "jpeg": "image/jpeg", "webp": "image/webp"}


@dataclass(slots=True)
class _Item:
    """One item of the output while it is being written."""

    call_id: str = ""
    name: str = ""
    pieces: list[str] = field(default_factory=list[str])  # of a call's arguments
    told: bool = False  # whether some of its text was sent already
    done: bool = False


class ResponsesStream:
    """One answer of a Responses server.

    Attributes:
        error: what went wrong, to be raised after the parts that came before it.
    """

    __slots__ = (
        "_annotations",
        "_endpoint",
        "_include_raw",
        "_items",
        "_metadata",
        "_model",
        "_reader",
        "_reason",
        "_response_id",
        "_sources",
        "_summaries",
        "_usage",
        "error",
    )

    def __init__(self, endpoint: Endpoint, *, include_raw: bool = False) -> None:
        """Begin an answer.

        Args:
            endpoint: who answers; makes the errors.
            include_raw: whether every event is sent as a ``Raw`` part too.
        """
        self.error: ModelError | None = None
        self._endpoint = endpoint
        self._include_raw = include_raw
        self._reader = SseReader()
        self._items: dict[int, _Item] = {}
        self._reason: FinishReason | None = None
        self._usage = Usage()
        self._metadata: dict[str, JsonValue] = {}
        self._annotations: list[JsonValue] = []
        self._response_id: str | None = None
        self._model: str | None = None
        self._sources: dict[str, Source] = {}
        self._summaries = 0

    @property
    def done(self) -> bool:
        """Whether the server said that nothing more comes."""
        return self._reader.done or self._reason is not None

    @property
    def finished(self) -> bool:
        """Whether the answer itself is whole, even if the stream goes on."""
        return self._reason is not None

    def note(self, key: str, value: JsonValue) -> None:
        """Add an entry to the metadata that ``Finish`` carries."""
        self._metadata[key] = value

    @property
    def response_id(self) -> str | None:
        """The id of the response, once it is known."""
        return self._response_id

    def feed(self, data: bytes) -> list[ModelPart]:
        """Return the parts that a piece of the event stream completes."""
        parts: list[ModelPart] = []
        for event in self._reader.feed(data):
            self._event(event, parts)
        if self._reader.malformed is not None:
            self._check_reader()
        return parts

    def feed_event(self, event: Json) -> list[ModelPart]:
        """Return the parts of one event, or of a whole response that was not streamed."""
        parts: list[ModelPart] = []
        if isinstance(event, dict):
            self._event(event, parts)
        return parts

    def end(self) -> list[ModelPart]:
        """Return the last parts, ``Finish`` at the end unless the answer is not whole."""
        parts: list[ModelPart] = []
        for event in self._reader.close():
            self._event(event, parts)
        self._check_reader()
        if self.error is None and self._reason is None:
            self.error = self._endpoint.malformed("an answer that ends without a final event; it may be incomplete")
        if self.error is None:
            parts.append(self._finish())
        return parts

    def _check_reader(self) -> None:
        if self._reader.malformed is not None and self.error is None:
            self.error = self._endpoint.malformed(self._reader.malformed)

    def _finish(self) -> Finish:
        reason = self._reason or "unknown"
        if self._annotations:
            self._metadata["annotations"] = self._annotations
        metadata = {self._endpoint.provider: self._metadata} if self._metadata else None
        return Finish(reason, self._usage, metadata, self._response_id, self._model)

    def _event(self, event: dict[str, Json], parts: list[ModelPart]) -> None:
        if self.error is not None or self._reason is not None:
            return
        if self._include_raw:
            parts.append(Raw(event))
        kind = event.get("type")
        handler = self._HANDLERS.get(kind) if isinstance(kind, str) else None
        if handler is not None:
            handler(self, event, parts)
        elif event.get("error"):  # without a type: the error body of a server in between
            self._failed(event, parts)
        elif event.get("object") == "response":
            self._ended({"response": event}, parts)

    def _begun(self, event: dict[str, Json], _: list[ModelPart]) -> None:
        response = event.get("response")
        if isinstance(response, dict):
            self._response_id, self._model = _text(response.get("id")) or None, _text(response.get("model")) or None

    def _item(self, event: dict[str, Json]) -> _Item:
        index = event.get("output_index")
        key = index if isinstance(index, int) else len(self._items) - 1
        item = self._items.get(key)
        if item is None:
            item = self._items[max(key, 0)] = _Item()
        return item

    def _text_delta(self, event: dict[str, Json], parts: list[ModelPart]) -> None:
        delta = event.get("delta")
        if delta and isinstance(delta, str):
            self._item(event).told = True
            parts.append(TextDelta(delta))

    def _refusal_delta(self, event: dict[str, Json], parts: list[ModelPart]) -> None:
        self._metadata["refusal"] = True
        self._text_delta(event, parts)

    def _reasoning_delta(self, event: dict[str, Json], parts: list[ModelPart]) -> None:
        delta = _text(event.get("delta"))
        if delta:
            self._item(event).told = True
            parts.append(ReasoningDelta(delta))

    def _summary_part(self, event: dict[str, Json], parts: list[ModelPart]) -> None:
        if event.get("summary_index") and self._item(event).told:
            parts.append(ReasoningDelta("\n\n"))

    def _arguments_delta(self, event: dict[str, Json], parts: list[ModelPart]) -> None:
        item, delta = self._item(event), _text(event.get("delta"))
        if delta:
            item.pieces.append(delta)
            if item.name:
                parts.append(ToolCallDelta(item.call_id, item.name, delta))

    def _annotation_added(self, event: dict[str, Json], parts: list[ModelPart]) -> None:
        self._annotation(event.get("annotation"), parts)

    def _annotation(self, annotation: Json, parts: list[ModelPart]) -> None:
        if not isinstance(annotation, dict):
            return
        url = _text(annotation.get("url"))
        if url:
            self._source(url, _text(annotation.get("title")) or None, parts)
        elif annotation not in self._annotations:  # a file of the server has no address; the app may know its id
            self._annotations.append(annotation)

    def _source(self, url: str, title: str | None, parts: list[ModelPart]) -> None:
        if url not in self._sources:
            source = Source(f"source-{len(self._sources) + 1}", url, title)
            self._sources[url] = source
            parts.append(source)

    def _item_added(self, event: dict[str, Json], parts: list[ModelPart]) -> None:
        given = event.get("item")
        if isinstance(given, dict):
            index = event.get("output_index")
            item = self._items.setdefault(index if isinstance(index, int) else len(self._items), _Item())
            if given.get("type") in ("function_call", "custom_tool_call"):
                self._name_call(item, given, parts)

    def _name_call(self, item: _Item, given: dict[str, Json], parts: list[ModelPart]) -> None:
        if not item.name:
            item.call_id = _text(given.get("call_id")) or _text(given.get("id")) or f"call_{len(self._items)}"
            item.name = _text(given.get("name"))
            if item.name:
                parts.append(ToolCallDelta(item.call_id, item.name, "".join(item.pieces)))

    def _item_done(self, event: dict[str, Json], parts: list[ModelPart]) -> None:
        given, item = event.get("item"), self._item(event)
        if isinstance(given, dict) and not item.done:
            item.done = True
            self._whole_item(item, given, parts)

    def _whole_item(self, item: _Item, given: dict[str, Json], parts: list[ModelPart]) -> None:
        match given.get("type"):
            case "message":
                self._message(item, given, parts)
            case "reasoning":
                self._reasoning(item, given, parts)
            case "function_call":
                self._name_call(item, given, parts)
                arguments = given.get("arguments")
                whole = arguments if isinstance(arguments, str) else json_text(arguments) if arguments else ""
                parts.append(ToolCall(item.call_id, item.name, (whole or "".join(item.pieces)).strip() or "{}"))
            case "custom_tool_call":
                self._name_call(item, given, parts)
                written = _text(given.get("input")) or "".join(item.pieces)
                parts.append(ToolCall(item.call_id, item.name, json_text({"input": written})))
            case "image_generation_call":
                if _text(given.get("result")):
                    media_type = _IMAGES.get(_text(given.get("output_format")), "image/png")
                    parts.append(File(media_type, _text(given.get("result"))))
            case "web_search_call":
                action = given.get("action")
                for found in _objects(action.get("sources")) if isinstance(action, dict) else ():
                    if _text(found.get("url")):
                        self._source(_text(found.get("url")), _text(found.get("title")) or None, parts)
            case _:
                pass

    def _message(self, item: _Item, given: dict[str, Json], parts: list[ModelPart]) -> None:
        for content in _objects(given.get("content")):
            refusal = _text(content.get("refusal"))
            if refusal:
                self._metadata["refusal"] = True
            text = _text(content.get("text")) or refusal
            if text and not item.told:
                parts.append(TextDelta(text))
            for annotation in _objects(content.get("annotations")):
                self._annotation(annotation, parts)

    def _reasoning(self, item: _Item, given: dict[str, Json], parts: list[ModelPart]) -> None:
        pieces = [_text(piece.get("text")) for piece in _objects(given.get("summary"))]
        pieces = pieces or [_text(piece.get("text")) for piece in _objects(given.get("content"))]
        text = "" if item.told else "\n\n".join(pieces)
        encrypted = _text(given.get("encrypted_content"))
        if encrypted:
            held: dict[str, JsonValue] = {"item_id": _text(given.get("id")), "encrypted_content": encrypted}
            parts.append(ReasoningDelta(text, {self._endpoint.provider: held}))
        elif text:
            parts.append(ReasoningDelta(text))

    def _ended(self, event: dict[str, Json], parts: list[ModelPart]) -> None:
        response = event.get("response")
        response = response if isinstance(response, dict) else {}
        if self._response_id is None:
            self._begun(event, parts)
        status = _text(response.get("status")) or _text(event.get("type")).removeprefix("response.")
        usage = response.get("usage")
        if isinstance(usage, dict):
            self._usage = _read_usage(usage)
        tier = _text(response.get("service_tier"))
        if tier:
            self._metadata["service_tier"] = tier
        if status == "failed":
            self.error = self._endpoint.of_event(response.get("error") or "no reason given")
            return
        if not any(item.done for item in self._items.values()):
            for index, given in enumerate(_objects(response.get("output"))):
                self._item_done({"output_index": index, "item": given}, parts)
        self._reason = self._reason_of(status, response)

    def _reason_of(self, status: str, response: dict[str, Json]) -> FinishReason:
        if status == "incomplete":
            details = response.get("incomplete_details")
            why = _text(details.get("reason")) if isinstance(details, dict) else ""
            return _INCOMPLETE.get(why, "other")
        if status == "cancelled":
            return "other"
        return "tool-calls" if any(item.name for item in self._items.values()) else "stop"

    def _failed(self, event: dict[str, Json], _: list[ModelPart]) -> None:
        status, error = event.get("status"), event.get("error")
        if isinstance(status, int):  # a WebSocket answers a refused request with what HTTP would say
            given = event.get("headers")
            headers = {key.lower(): str(value) for key, value in given.items()} if isinstance(given, dict) else {}
            self.error = self._endpoint.of_response(status, headers, json_text({"error": error}).encode())
        else:
            self.error = self._endpoint.of_event(error or event)

    # Any: an instance of the class, which does not exist yet
    _HANDLERS: ClassVar[Mapping[str, Callable[[Any, dict[str, Json], list[ModelPart]], None]]] = {
        "response.output_text.delta": _text_delta,
        "response.function_call_arguments.delta": _arguments_delta,
        "response.custom_tool_call_input.delta": _arguments_delta,
        "response.reasoning_summary_text.delta": _reasoning_delta,
        "response.reasoning_text.delta": _reasoning_delta,
        "response.reasoning_summary_part.added": _summary_part,
        "response.refusal.delta": _refusal_delta,
        "response.output_text.annotation.added": _annotation_added,
        "response.output_item.added": _item_added,
        "response.output_item.done": _item_done,
        "response.created": _begun,
        "response.completed": _ended,
        "response.incomplete": _ended,
        "response.cancelled": _ended,
        "response.failed": _ended,
        "error": _failed,
    }


def _objects(value: Json) -> list[dict[str, Json]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _text(value: Json) -> str:
    return value if isinstance(value, str) else ""


def _count(value: Json) -> int:
    return value if isinstance(value, int) else 0


def _read_usage(usage: dict[str, Json]) -> Usage:
    written, read = usage.get("output_tokens_details"), usage.get("input_tokens_details")
    return Usage(
        input_tokens=_count(usage.get("input_tokens")),
        output_tokens=_count(usage.get("output_tokens")),
        reasoning_tokens=_count(written.get("reasoning_tokens")) if isinstance(written, dict) else 0,
        cached_input_tokens=_count(read.get("cached_tokens")) if isinstance(read, dict) else 0,
    )
