"""The events that only an external coding agent sends."""

from dataclasses import dataclass
from typing import ClassVar, Literal

from bascule.messages import JsonObject, JsonValue
from bascule.stream._chunk import Chunk, Wire, present

__all__ = ["AcpDiffChunk", "AcpNoticeChunk", "AcpPlanChunk", "AcpRawChunk", "AcpUsageChunk"]


@dataclass(frozen=True, slots=True)
class AcpDiffChunk(Chunk):
    """The agent changed a file; ``old_text`` is ``None`` for a new one."""

    tool_call_id: str
    path: str
    old_text: str | None
    new_text: str
    type: ClassVar[Literal["acp-diff"]] = "acp-diff"

    def _payload(self) -> Wire:
        return {
            "toolCallId": self.tool_call_id,
            "path": self.path,
            "oldText": self.old_text,
            "newText": self.new_text,
        }


@dataclass(frozen=True, slots=True)
class AcpPlanChunk(Chunk):
    """The agent's plan, whole each time."""

    entries: tuple[JsonObject, ...]
    type: ClassVar[Literal["acp-plan"]] = "acp-plan"

    def _payload(self) -> Wire:
        return {"entries": self.entries}


@dataclass(frozen=True, slots=True)
class AcpUsageChunk(Chunk):
    """How full the agent's context is, in tokens, and what the session has cost."""

    used: int
    size: int
    cost: JsonObject | None = None
    type: ClassVar[Literal["acp-usage"]] = "acp-usage"

    def _payload(self) -> Wire:
        return present({"used": self.used, "size": self.size, "cost": self.cost})


@dataclass(frozen=True, slots=True)
class AcpNoticeChunk(Chunk):
    """Something the caller should know; ``code`` is stable, ``message`` is for people."""

    code: str
    message: str
    data: JsonValue = None
    type: ClassVar[Literal["acp-notice"]] = "acp-notice"

    def _payload(self) -> Wire:
        return present({"code": self.code, "message": self.message, "data": self.data})


@dataclass(frozen=True, slots=True)
class AcpRawChunk(Chunk):
    """An update of the agent that has no chunk of its own, untouched."""

    update: JsonObject
    type: ClassVar[Literal["acp-raw"]] = "acp-raw"

    def _payload(self) -> Wire:
        return {"update": self.update}
