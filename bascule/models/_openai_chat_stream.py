"""From the events of a Chat Completions stream to the parts of an answer.

Opens nothing and awaits nothing: the shell feeds bytes, in pieces of any size, and yields what comes out.
"""

from dataclasses import dataclass, field

from bascule.errors import ModelError
from bascule.messages import JsonValue, new_id
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

__all__ = ["ChatStream"]

_FINISH: dict[str, FinishReason] = {
    "stop": "stop",
    "eos": "stop",
    "end_turn": "stop",
    "stop_sequence": "stop",
    "length": "length",
    "max_tokens": "length",
    "tool_calls": "tool-calls",
    "tool_use": "tool-calls",
    "function_call": "tool-calls",
    "content_filter": "content-filter",
    "error": "error",
    "insufficient_system_resource": "error",
}


@dataclass(slots=True)
class _Call:
    """A tool call that is being written; its pieces are told apart by the server's index."""

    id: str
    name: str = ""
    pieces: list[str] = field(default_factory=list[str])
    sent: bool = False


class ChatStream:
    """One answer of a Chat Completions server.

    Attributes:
        error: what went wrong, to be raised after the parts that came before it.
    """

    __slots__ = (
        "_calls",
        "_current",
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
        self._calls: list[_Call] = []
        self._current: dict[int, _Call] = {}
        self._reason: FinishReason | None = None
        self._usage = Usage()
        self._metadata: dict[str, JsonValue] = {}
        self._response_id: str | None = None
        self._model: str | None = None
        self._sources = 0

    @property
    def done(self) -> bool:
        """Whether the server said that nothing more comes."""
        return self._reader.done

    @property
    def finished(self) -> bool:
        """Whether the answer itself is whole, even if the stream goes on."""
        return self._reason is not None or self._reader.done

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
            self.error = self._endpoint.malformed("an answer that ends without a finish reason; it may be incomplete")
        if self.error is None:
            self._complete_calls(parts)
            parts.append(self._finish())
        return parts

    def _check_reader(self) -> None:
        if self._reader.malformed is not None and self.error is None:
            self.error = self._endpoint.malformed(self._reader.malformed)

    def _finish(self) -> Finish:
        reason = self._reason or "unknown"
        if self._calls and reason in ("stop", "unknown"):  # several servers say "stop" after tool calls
            reason = "tool-calls"
        metadata = {self._endpoint.provider: self._metadata} if self._metadata else None
        return Finish(reason, self._usage, metadata, self._response_id, self._model)

    def _event(self, event: dict[str, Json], parts: list[ModelPart]) -> None:
        if self.error is not None:
            return
        if self._include_raw:
            parts.append(Raw(event))
        error = event.get("error")
        if error:
            self.error = self._endpoint.of_event(error)
            return
        if self._response_id is None:
            self._read_head(event)
        usage = event.get("usage")
        if usage is None:
            extension = event.get("x_groq")
            usage = extension.get("usage") if isinstance(extension, dict) else None
        if isinstance(usage, dict):
            self._usage = _read_usage(usage)
        choices = event.get("choices")
        if isinstance(choices, list) and choices:
            choice = choices[0]
            if isinstance(choice, dict) and not choice.get("index"):
                self._choice(choice, parts)

    def _read_head(self, event: dict[str, Json]) -> None:
        self._response_id, self._model = _text(event.get("id")) or None, _text(event.get("model")) or None
        for key in ("system_fingerprint", "service_tier"):
            value = _text(event.get(key))
            if value:
                self._metadata[key] = value

    def _choice(self, choice: dict[str, Json], parts: list[ModelPart]) -> None:
        delta = choice.get("delta") or choice.get("message")
        if isinstance(delta, dict):
            reasoning = delta.get("reasoning_content") or delta.get("reasoning")
            if reasoning and isinstance(reasoning, str):
                parts.append(ReasoningDelta(reasoning))
            content = delta.get("content")
            if content:
                self._content(content, parts)
            calls = delta.get("tool_calls")
            if isinstance(calls, list):
                for call in calls:
                    self._tool_call(call, parts)
            if "refusal" in delta or "annotations" in delta:
                self._extras(delta, parts)
        reason = choice.get("finish_reason")
        if isinstance(reason, str) and reason:
            self._reason = _FINISH.get(reason, "other")
            self._complete_calls(parts)

    def _content(self, content: Json, parts: list[ModelPart]) -> None:
        if isinstance(content, str):
            parts.append(TextDelta(content))
        elif isinstance(content, list):  # some servers send typed pieces, thinking among them
            for item in content:
                if isinstance(item, dict):
                    thinking = _joined(item.get("thinking"))
                    if thinking:
                        parts.append(ReasoningDelta(thinking))
                    text = _text(item.get("text"))
                    if text:
                        parts.append(TextDelta(text))

    def _extras(self, delta: dict[str, Json], parts: list[ModelPart]) -> None:
        refusal = _text(delta.get("refusal"))
        if refusal:
            self._metadata["refusal"] = True
            parts.append(TextDelta(refusal))
        annotations = delta.get("annotations")
        for annotation in annotations if isinstance(annotations, list) else ():
            citation = annotation.get("url_citation") if isinstance(annotation, dict) else None
            if isinstance(citation, dict) and _text(citation.get("url")):
                self._sources += 1
                title = _text(citation.get("title")) or None
                parts.append(Source(f"source-{self._sources}", _text(citation.get("url")), title))

    def _tool_call(self, delta: Json, parts: list[ModelPart]) -> None:
        if not isinstance(delta, dict):
            return
        function = delta.get("function")
        function = function if isinstance(function, dict) else {}
        name, arguments = _text(function.get("name")), function.get("arguments")
        call = self._call_of(delta.get("index"), _text(delta.get("id")), name)
        text = arguments if isinstance(arguments, str) else "" if arguments is None else json_text(arguments)
        first = bool(name) and not call.name
        if first:
            call.name = name
        if text:
            call.pieces.append(text)
        if call.name and (text or first):
            parts.append(ToolCallDelta(call.id, call.name, "".join(call.pieces) if first else text))

    def _call_of(self, index: Json, call_id: str, name: str) -> _Call:
        """Return the call that a piece belongs to; a new one when index or id say so."""
        key = index if isinstance(index, int) else None
        if key is None:
            known = next((call for call in self._calls if call.id == call_id), None) if call_id else None
            if known is not None:
                return known
            key = len(self._calls) if call_id or name or not self._calls else len(self._calls) - 1
        call = self._current.get(key)
        # Some servers number whole calls alike: another id together with a name begins another call.
        if call is None or (call_id and name and call.name and call.id != call_id):
            call = _Call(call_id or f"call_{new_id().replace('-', '')}")
            self._calls.append(call)
            self._current[key] = call
        return call

    def _complete_calls(self, parts: list[ModelPart]) -> None:
        for call in self._calls:
            if not call.sent:
                call.sent = True
                parts.append(ToolCall(call.id, call.name, "".join(call.pieces).strip() or "{}"))
        self._current = {}


def _text(value: Json) -> str:
    return value if isinstance(value, str) else ""


def _joined(value: Json) -> str:
    """Return the text of a text, or of a list of typed pieces."""
    if isinstance(value, list):
        return "".join(_text(item.get("text")) for item in value if isinstance(item, dict))
    return _text(value)


def _count(value: Json) -> int:
    return value if isinstance(value, int) else 0


def _read_usage(usage: dict[str, Json]) -> Usage:
    written, read = usage.get("completion_tokens_details"), usage.get("prompt_tokens_details")
    cached = read.get("cached_tokens") if isinstance(read, dict) else usage.get("prompt_cache_hit_tokens")
    return Usage(
        input_tokens=_count(usage.get("prompt_tokens")),
        output_tokens=_count(usage.get("completion_tokens")),
        reasoning_tokens=_count(written.get("reasoning_tokens")) if isinstance(written, dict) else 0,
        cached_input_tokens=_count(cached),
    )
