"""From the events of a Messages stream to the parts of an answer.

Opens nothing and awaits nothing: the shell feeds bytes, in pieces of any size, and yields what comes out.

An answer is a list of content blocks. Each is begun, written in deltas and closed; what kind it is, its beginning says.
Events and blocks of an unknown kind are skipped, as the interface asks.
"""

from dataclasses import dataclass, field

from bascule.errors import ModelError
from bascule.messages import JsonValue
from bascule.models._endpoint import Endpoint
from bascule.models._prompt import json_text
from bascule.models._protocol import (
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

__all__ = ["MessagesStream"]

_FINISH: dict[str, FinishReason] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "tool_use": "tool-calls",
    "refusal": "content-filter",
}


@dataclass(slots=True)
class _Block:
    """A content block that is being written."""

    kind: str
    id: str = ""
    name: str = ""
    given: str = ""
    """Arguments that came with the beginning; those in deltas replace them."""
    pieces: list[str] = field(default_factory=list[str])


class MessagesStream:
    """One answer of a server of the Messages interface.

    Attributes:
        error: what went wrong, to be raised after the parts that came before it.
    """

    __slots__ = (
        "_blocks",
        "_calls",
        "_done",
        "_endpoint",
        "_include_raw",
        "_metadata",
        "_model",
        "_reader",
        "_reason",
        "_response_id",
        "_sources",
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
        self._blocks: dict[Json, _Block] = {}
        self._calls = 0
        self._sources: dict[str, str] = {}
        self._reason: FinishReason | None = None
        self._usage: dict[str, Json] = {}
        self._metadata: dict[str, JsonValue] = {}
        self._response_id: str | None = None
        self._model: str | None = None
        self._done = False

    @property
    def done(self) -> bool:
        """Whether the server said that nothing more comes."""
        return self._done or self._reader.done

    @property
    def finished(self) -> bool:
        """Whether the answer itself is whole, even if the stream goes on."""
        return self._reason is not None or self.done

    def feed(self, data: bytes) -> list[ModelPart]:
        """Return the parts that a piece of the event stream completes."""
        parts: list[ModelPart] = []
        for event in self._reader.feed(data):
            self._event(event, parts)
        if self._reader.malformed is not None:
            self._check_reader()
        return parts

    def feed_event(self, event: Json) -> list[ModelPart]:
        """Return the parts of one event, or of a whole answer that was not streamed."""
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
        if self.error is None and not self.finished:
            self.error = self._endpoint.malformed("an answer that ends without a stop reason; it may be incomplete")
        if self.error is None:
            for index in list(self._blocks):
                self._close(index, parts)
            parts.append(self._finish())
        return parts

    def _check_reader(self) -> None:
        if self._reader.malformed is not None and self.error is None:
            self.error = self._endpoint.malformed(self._reader.malformed)

    def _finish(self) -> Finish:
        reason = self._reason or "unknown"
        if self._calls and reason in ("stop", "unknown"):
            reason = "tool-calls"
        created = _count(self._usage.get("cache_creation_input_tokens"))
        if created:
            self._metadata["cacheCreationInputTokens"] = created
        metadata = {self._endpoint.provider: self._metadata} if self._metadata else None
        return Finish(reason, _read_usage(self._usage), metadata, self._response_id, self._model)

    def _event(self, event: dict[str, Json], parts: list[ModelPart]) -> None:
        if self.error is not None or self._done:
            return
        if self._include_raw:
            parts.append(Raw(event))
        kind = event.get("type")
        if kind == "content_block_delta":
            self._delta(event, parts)
        elif kind == "content_block_start":
            self._open(event.get("index"), event.get("content_block"), parts)
        elif kind == "content_block_stop":
            self._close(event.get("index"), parts)
        else:
            self._message_event(event, parts)

    # --- the message ---

    def _message_event(self, event: dict[str, Json], parts: list[ModelPart]) -> None:
        match event.get("type"):
            case "message_start":
                self._read_head(event.get("message"))
            case "message_delta":
                self._read_tail(event.get("delta"), event.get("usage"))
            case "message_stop":
                self._done = True
            case "message":
                self._whole(event, parts)
            case _:
                if event.get("error"):
                    self.error = self._endpoint.of_event(event["error"])

    def _read_head(self, message: Json) -> None:
        if isinstance(message, dict):
            self._response_id, self._model = _text(message.get("id")) or None, _text(message.get("model")) or None
            self._read_usage(message.get("usage"))

    def _read_tail(self, delta: Json, usage: Json) -> None:
        self._read_usage(usage)
        if not isinstance(delta, dict):
            return
        reason = _text(delta.get("stop_reason"))
        if reason:
            self._reason = _FINISH.get(reason, "other")
        if _text(delta.get("stop_sequence")):
            self._metadata["stopSequence"] = _text(delta.get("stop_sequence"))
        if delta.get("stop_details"):
            self._metadata["stopDetails"] = delta["stop_details"]

    def _read_usage(self, usage: Json) -> None:
        """Take over counts; they are totals, and later ones leave out what has not changed."""
        if isinstance(usage, dict):
            self._usage.update({key: value for key, value in usage.items() if value is not None})

    def _whole(self, message: dict[str, Json], parts: list[ModelPart]) -> None:
        self._read_head(message)
        content = message.get("content")
        for index, block in enumerate(content if isinstance(content, list) else ()):
            self._open(index, block, parts)
            self._close(index, parts)
        self._read_tail(message, None)
        self._done = True

    # --- content blocks ---

    def _open(self, index: Json, block: Json, parts: list[ModelPart]) -> None:
        if not isinstance(block, dict):
            return
        kind = _text(block.get("type"))
        self._blocks[index] = opened = _Block(kind, _text(block.get("id")), _text(block.get("name")))
        match kind:
            case "text":
                _add(parts, TextDelta(_text(block.get("text"))))
                citations = block.get("citations")
                for citation in citations if isinstance(citations, list) else ():
                    self._source(citation, parts)
            case "thinking":
                _add(parts, ReasoningDelta(_text(block.get("thinking"))))
                opened.pieces.append(_text(block.get("signature")))
            case "redacted_thinking":
                metadata = {self._endpoint.provider: {"redactedData": _text(block.get("data"))}}
                parts.append(ReasoningDelta("", metadata))
            case "tool_use":
                self._calls += 1
                opened.given = json_text(block["input"]) if block.get("input") else ""
                parts.append(ToolCallDelta(opened.id, opened.name, ""))
            case "web_search_tool_result":
                results = block.get("content")
                for result in results if isinstance(results, list) else ():
                    self._source(result, parts)
            case _:
                pass

    def _delta(self, event: dict[str, Json], parts: list[ModelPart]) -> None:
        delta = event.get("delta")
        if not isinstance(delta, dict):
            return
        match delta.get("type"):
            case "text_delta":
                _add(parts, TextDelta(_text(delta.get("text"))))
            case "thinking_delta":
                _add(parts, ReasoningDelta(_text(delta.get("thinking"))))
            case "input_json_delta":
                self._arguments(event.get("index"), _text(delta.get("partial_json")), parts)
            case "signature_delta":
                block = self._blocks.get(event.get("index"))
                if block is not None:
                    block.pieces.append(_text(delta.get("signature")))
            case "citations_delta":
                self._source(delta.get("citation"), parts)
            case _:
                pass

    def _arguments(self, index: Json, text: str, parts: list[ModelPart]) -> None:
        block = self._blocks.get(index)
        if block is not None and block.kind == "tool_use" and text:
            block.pieces.append(text)
            parts.append(ToolCallDelta(block.id, block.name, text))

    def _close(self, index: Json, parts: list[ModelPart]) -> None:
        block = self._blocks.pop(index, None)
        if block is None:
            return
        written = "".join(block.pieces)
        if block.kind == "tool_use":
            if not written and block.given:
                parts.append(ToolCallDelta(block.id, block.name, block.given))
            parts.append(ToolCall(block.id, block.name, written.strip() or block.given or "{}"))
        elif block.kind == "thinking" and written:
            parts.append(ReasoningDelta("", {self._endpoint.provider: {"signature": written}}))

    def _source(self, found: Json, parts: list[ModelPart]) -> None:
        """Tell of a web page; each one once."""
        if isinstance(found, dict):
            url = _text(found.get("url"))
            if url and url not in self._sources:
                self._sources[url] = f"source-{len(self._sources) + 1}"
                parts.append(Source(self._sources[url], url, _text(found.get("title")) or None))


def _add(parts: list[ModelPart], part: TextDelta | ReasoningDelta) -> None:
    if part.text:
        parts.append(part)


def _text(value: Json) -> str:
    return value if isinstance(value, str) else ""


def _count(value: Json) -> int:
    return value if isinstance(value, int) else 0


def _read_usage(usage: dict[str, Json]) -> Usage:
    """Return counts whose input holds all that was read, as it does with other providers."""
    details = usage.get("output_tokens_details")
    cached = _count(usage.get("cache_read_input_tokens"))
    created = _count(usage.get("cache_creation_input_tokens"))
    return Usage(
        input_tokens=_count(usage.get("input_tokens")) + created + cached,
        output_tokens=_count(usage.get("output_tokens")),
        reasoning_tokens=_count(details.get("thinking_tokens")) if isinstance(details, dict) else 0,
        cached_input_tokens=cached,
    )
