"""Protocol version 1: the agent's updates become stream events.

No I/O and no clock here. An update that is malformed is read as far as it goes; one of an unknown kind is handed on
untouched, because a turn must not fail over something the agent merely tells.

A tool call is announced as soon as its arguments are known. Agents often report a call first and its arguments right
after; such a call waits for the next update of its own, or for anything else that the agent says or does.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from bascule.messages import JsonObject, JsonValue
from bascule.stream import (
    AcpDiffChunk,
    AcpPlanChunk,
    AcpRawChunk,
    AcpUsageChunk,
    Chunk,
    FileChunk,
    ReasoningDeltaChunk,
    ReasoningEndChunk,
    ReasoningStartChunk,
    SourceChunk,
    TextDeltaChunk,
    TextEndChunk,
    TextStartChunk,
    ToolCallChunk,
    ToolErrorChunk,
    ToolErrorKind,
    ToolOutputDeniedChunk,
    ToolResultChunk,
)
from bascule.tools import redact

__all__ = ["TrackedCall", "TurnMapper", "Update"]

Update = dict[str, Any]  # Any: a peer's JSON, checked field by field
Emit = Callable[[Chunk], None]


@dataclass(slots=True)
class TrackedCall:
    """What is known about a tool call of the agent.

    Attributes:
        id: the agent's id of the call.
        name: its title, else its kind.
        kind: the protocol's word for what it does, such as ``edit`` or ``execute``.
        args: the raw input, empty as long as the agent has not told it.
        content: the protocol's content items, untouched.
        paths: the files it is about, as the agent names them.
        announced: whether its event was sent.
        ended: whether its result was sent.
        denied: whether it was declined.
    """

    id: str
    name: str = ""
    kind: str = ""
    args: JsonValue = None
    output: JsonValue = None
    content: list[JsonObject] = field(default_factory=list[JsonObject])
    paths: tuple[str, ...] = ()
    announced: bool = False
    ended: bool = False
    denied: bool = False

    def merge(self, update: Update) -> None:
        """Take what an update, or a permission request, says about the call."""
        for key in ("title", "kind"):
            value = update.get(key)
            if isinstance(value, str) and value:
                if key == "kind":
                    self.kind = value
                elif not self.announced or not self.name:
                    self.name = value
        if update.get("rawInput") is not None:
            self.args = update["rawInput"]
        if update.get("rawOutput") is not None:
            self.output = update["rawOutput"]
        content = update.get("content")
        if isinstance(content, list):
            self.content = [_object(item) for item in cast("list[object]", content)]
        locations = update.get("locations")
        if isinstance(locations, list):
            items = cast("list[object]", locations)
            found = [_object(item).get("path") for item in items]
            self.paths = tuple(path for path in found if isinstance(path, str))

    @property
    def tool_name(self) -> str:
        """The name to show: title, else kind."""
        return self.name or self.kind or "tool"

    @property
    def arguments(self) -> JsonValue:
        """The raw input, an empty object when there is none."""
        return {} if self.args is None else self.args

    def text(self) -> str:
        """Return the text in its content."""
        blocks = [item.get("content") for item in self.content if item.get("type") == "content"]
        texts = [block.get("text") for block in blocks if isinstance(block, Mapping)]
        return "\n".join(text for text in texts if isinstance(text, str))

    def diffs(self) -> list[tuple[str, str | None, str]]:
        """Return the changes in its content: path, old text, new text."""
        found: list[tuple[str, str | None, str]] = []
        for item in self.content:
            path, new, old = item.get("path"), item.get("newText"), item.get("oldText")
            if item.get("type") == "diff" and isinstance(path, str) and isinstance(new, str):
                found.append((path, old if isinstance(old, str) else None, new))
        return found


class TurnMapper:
    """Turns the updates of one prompt turn into events.

    Args:
        run_id: the run that the turn belongs to.
        emit: takes the events, in order.
    """

    def __init__(self, run_id: str, emit: Emit) -> None:
        self.calls: dict[str, TrackedCall] = {}
        self.changed_files: dict[str, None] = {}
        self.message_ids: set[str] = set()
        self._run_id = run_id
        self._emit = emit
        self._text: str | None = None
        self._reasoning: str | None = None
        self._message_id: object = None
        self._blocks = 0
        self._deferred: list[TrackedCall] = []

    # --- updates ---

    def apply(self, update: Update) -> None:
        """Take the next update of the turn."""
        kind = update.get("sessionUpdate")
        if kind == "agent_message_chunk":
            self._message(update)
        elif kind == "agent_thought_chunk":
            self._thought(update)
        elif kind in ("tool_call", "tool_call_update"):
            self._tool(update)
        elif kind == "plan":
            self._plan(update)
        elif kind == "usage_update":
            self._usage(update)
        else:
            self._raw(update)

    def _message(self, update: Update) -> None:
        content = _object(update.get("content"))
        text = content.get("text") if content.get("type") == "text" else None
        if not isinstance(text, str):
            self._message_block(update, content)
            return
        if not text:
            return
        if self._text is None or update.get("messageId") != self._message_id:
            self._open_text(update)
        self._emit(TextDeltaChunk(self._run_id, cast("str", self._text), text))

    def _open_text(self, update: Update) -> None:
        self._close_blocks()
        self._flush()
        self._note_message(update)
        self._text = self._next_block("text")
        self._emit(TextStartChunk(self._run_id, self._text))

    def _thought(self, update: Update) -> None:
        text = _object(update.get("content")).get("text")
        if not isinstance(text, str):
            self._raw(update)
            return
        if not text:
            return
        if self._reasoning is None or update.get("messageId") != self._message_id:
            self._close_blocks()
            self._flush()
            self._note_message(update)
            self._reasoning = self._next_block("reasoning")
            self._emit(ReasoningStartChunk(self._run_id, self._reasoning))
        self._emit(ReasoningDeltaChunk(self._run_id, self._reasoning, text))

    def _note_message(self, update: Update) -> None:
        self._message_id = update.get("messageId")
        if isinstance(self._message_id, str):
            self.message_ids.add(self._message_id)

    def _message_block(self, update: Update, block: Update) -> None:
        """A part of the answer that is no text."""
        data, media_type, uri = block.get("data"), block.get("mimeType"), block.get("uri")
        if block.get("type") in ("image", "audio") and isinstance(data, str) and isinstance(media_type, str):
            self.settle()
            self._emit(FileChunk(self._run_id, media_type, data))
        elif block.get("type") == "resource_link" and isinstance(uri, str):
            name = block.get("title") or block.get("name")
            self.settle()
            self._emit(SourceChunk(self._run_id, uri, uri, name if isinstance(name, str) else None))
        else:
            self._raw(update)

    def _plan(self, update: Update) -> None:
        entries = update.get("entries")
        if isinstance(entries, list):
            kept = tuple(_object(item) for item in cast("list[object]", entries))
            self._emit(AcpPlanChunk(self._run_id, kept))
        else:
            self._raw(update)

    def _usage(self, update: Update) -> None:
        used, size, cost = update.get("used"), update.get("size"), update.get("cost")
        if isinstance(used, int) and isinstance(size, int):
            self._emit(AcpUsageChunk(self._run_id, used, size, _object(cost) or None))
        else:
            self._raw(update)

    def _raw(self, update: Update) -> None:
        self._emit(AcpRawChunk(self._run_id, update))

    # --- tool calls ---

    def call(self, update: Update) -> TrackedCall | None:
        """Return the tracked call that an update or a permission request is about, with what it says merged in."""
        identifier = update.get("toolCallId")
        if not isinstance(identifier, str):
            return None
        tracked = self.calls.get(identifier)
        if tracked is None:
            tracked = self.calls[identifier] = TrackedCall(identifier)
        tracked.merge(update)
        return tracked

    def _tool(self, update: Update) -> None:
        known = update.get("toolCallId") in self.calls
        tracked = self.call(update)
        if tracked is None or tracked.ended:
            self._raw(update)
            return
        status = update.get("status")
        if not tracked.announced:
            self._announce_or_wait(tracked, certain=known or (status not in (None, "pending")) or bool(tracked.args))
        elif status not in ("completed", "failed"):
            self._raw(update)
        if status in ("completed", "failed"):
            self._end(tracked, failed=status == "failed")

    def _announce_or_wait(self, tracked: TrackedCall, *, certain: bool) -> None:
        self._close_blocks()
        if certain:
            self.announce(tracked)
        else:
            self._flush()
            self._deferred.append(tracked)

    def announce(self, tracked: TrackedCall) -> None:
        """Send the event of a call, unless that has happened."""
        if tracked.announced:
            return
        self._close_blocks()
        earlier = [call for call in self._deferred if call is not tracked]
        self._deferred.clear()
        for call in (*earlier, tracked):
            call.announced = True
            self._emit(ToolCallChunk(self._run_id, call.id, call.tool_name, call.arguments))

    def deny(self, tracked: TrackedCall, reason: str | None) -> None:
        """Send the event of a call that was declined."""
        self.announce(tracked)
        self._close_blocks()
        if not tracked.ended:
            tracked.ended = tracked.denied = True
            self._emit(
                ToolOutputDeniedChunk(self._run_id, tracked.id, tracked.tool_name, tracked.arguments, reason=reason)
            )

    def _end(self, tracked: TrackedCall, *, failed: bool) -> None:
        tracked.ended = True
        self._close_blocks()
        if failed:
            message = tracked.text() or _as_text(tracked.output) or "The agent reports that the call failed."
            self._error(tracked, message, cancelled=False)
            return
        for path, old, new in tracked.diffs():
            self.changed_files[path] = None
            self._emit(AcpDiffChunk(self._run_id, tracked.id, path, old, new))
        self._emit(
            ToolResultChunk(self._run_id, tracked.id, tracked.tool_name, tracked.arguments, result=_result(tracked))
        )

    def _error(self, tracked: TrackedCall, message: str, *, cancelled: bool) -> None:
        kind: ToolErrorKind = "cancelled" if cancelled else "raised"
        self._emit(
            ToolErrorChunk(
                self._run_id, tracked.id, tracked.tool_name, tracked.arguments, kind=kind, message=redact(message)
            )
        )

    # --- blocks and the end ---

    def _next_block(self, kind: str) -> str:
        self._blocks += 1
        return f"{kind}-{self._blocks}"

    def _close_blocks(self) -> None:
        if self._text is not None:
            self._emit(TextEndChunk(self._run_id, self._text))
            self._text = None
        if self._reasoning is not None:
            self._emit(ReasoningEndChunk(self._run_id, self._reasoning))
            self._reasoning = None

    def _flush(self) -> None:
        if self._deferred:
            self.announce(self._deferred[-1])

    def settle(self) -> None:
        """Close the open block and announce every call that was held back."""
        self._close_blocks()
        self._flush()

    def end(self, *, interrupted: bool) -> None:
        """Close everything; a call without a result gets one.

        Args:
            interrupted: whether the turn was stopped or failed.
        """
        self.settle()
        for tracked in self.calls.values():
            if tracked.ended or not tracked.announced:
                continue
            tracked.ended = True
            if interrupted:
                self._error(tracked, "The turn ended before the call did.", cancelled=True)
            else:
                self._end(tracked, failed=False)


def _object(value: object) -> Update:
    return cast("Update", value) if isinstance(value, dict) else {}


def _result(tracked: TrackedCall) -> JsonValue:
    if tracked.output is not None:
        return tracked.output
    return tracked.text() or None


def _as_text(value: JsonValue) -> str:
    return value if isinstance(value, str) else ""
