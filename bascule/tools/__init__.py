"""Tools: functions that agents, workflows and MCP clients call."""

from bascule.tools._content import Audio, Content, EmbeddedResource, Image, ResourceLink
from bascule.tools._context import Answer, LogLevel, SilentChannel, ToolChannel, ToolContext
from bascule.tools._names import MAX_NAME, check_name, safe_name
from bascule.tools._questions import Conclusion, Decidable, conclude
from bascule.tools._redact import failure_text, redact
from bascule.tools._runnable import MemoryOption, Runnable, answer_of, answer_text, runnable_tool
from bascule.tools._schema import InputModel, input_model_of
from bascule.tools._threads import run_in_daemon_thread
from bascule.tools._tool import Execute, Tool, as_tool, tool
from bascule.tools._values import content_of, json_value, model_text

__all__ = [
    "MAX_NAME",
    "Answer",
    "Audio",
    "Conclusion",
    "Content",
    "Decidable",
    "EmbeddedResource",
    "Execute",
    "Image",
    "InputModel",
    "LogLevel",
    "MemoryOption",
    "ResourceLink",
    "Runnable",
    "SilentChannel",
    "Tool",
    "ToolChannel",
    "ToolContext",
    "answer_of",
    "as_tool",
    "answer_text",
    "check_name",
    "conclude",
    "content_of",
    "failure_text",
    "input_model_of",
    "json_value",
    "model_text",
    "redact",
    "run_in_daemon_thread",
    "runnable_tool",
    "safe_name",
    "tool",
]
