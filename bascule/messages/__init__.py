"""Messages: their parts, the forms callers may give them in, and how they are stored."""

from bascule.messages._codec import content_from_wire, content_to_wire, part_from_wire, part_to_wire
from bascule.messages._input import MessagesInput, normalize
from bascule.messages._parts import (
    DataPart,
    ErrorPart,
    FilePart,
    JsonObject,
    JsonValue,
    Message,
    Part,
    ReasoningPart,
    Role,
    SourcePart,
    StepStartPart,
    TextPart,
    ToolCallPart,
    ToolCallState,
    new_id,
    utc_now,
)

__all__ = [
    "DataPart",
    "ErrorPart",
    "FilePart",
    "JsonObject",
    "JsonValue",
    "Message",
    "MessagesInput",
    "Part",
    "ReasoningPart",
    "Role",
    "SourcePart",
    "StepStartPart",
    "TextPart",
    "ToolCallPart",
    "ToolCallState",
    "content_from_wire",
    "content_to_wire",
    "new_id",
    "normalize",
    "part_from_wire",
    "part_to_wire",
    "utc_now",
]
