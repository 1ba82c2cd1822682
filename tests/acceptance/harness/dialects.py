"""What a model reads and says, in the two dialects that agents speak: Anthropic Messages and OpenAI Chat."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, Field

Json = dict[str, Any]  # an answer on its way to the wire


@dataclass(frozen=True, slots=True)
class ToolUse:
    """A call that the model asks for."""

    tool: str
    arguments: Mapping[str, object]


class Function(BaseModel):
    """The inner name of a tool, in Chat."""

    name: str


class Offer(BaseModel):
    """A tool that the request offers."""

    name: str = ""
    function: Function | None = None


class Block(BaseModel):
    """A part of a message."""

    type: str = ""
    text: str = ""
    content: "str | list[Block] | None" = None


class Message(BaseModel):
    """A message of either dialect."""

    role: str
    content: str | list[Block] | None = None


class Request(BaseModel):
    """The part of a model request that the script looks at."""

    stream: bool = False
    tools: list[Offer] = Field(default_factory=list[Offer])
    messages: list[Message] = Field(default_factory=list[Message])

    @property
    def offered(self) -> set[str]:
        """The names of the offered tools."""
        return {tool.function.name if tool.function else tool.name for tool in self.tools}

    @property
    def results(self) -> list[str]:
        """The tool results of the conversation so far, in order."""
        found: list[str] = []
        for message in self.messages:
            if message.role == "tool":
                found.append(_text(message.content))
            elif isinstance(message.content, list):
                found += [_text(block.content) for block in message.content if block.type == "tool_result"]
        return found


def _text(content: str | list[Block] | None) -> str:
    return "\n".join(block.text for block in content) if isinstance(content, list) else content or ""


def anthropic_message(answer: ToolUse | str, position: int) -> Json:
    """A whole answer of the Messages API."""
    block: Json = (
        {"type": "text", "text": answer}
        if isinstance(answer, str)
        else {"type": "tool_use", "id": f"toolu_{position}", "name": answer.tool, "input": dict(answer.arguments)}
    )
    return {
        "id": f"msg_{position}",
        "type": "message",
        "role": "assistant",
        "model": "loopback",
        "content": [block],
        "stop_reason": "end_turn" if isinstance(answer, str) else "tool_use",
        "stop_sequence": None,
        "usage": {"input_tokens": 1, "output_tokens": 1},
    }


def anthropic_stream(answer: ToolUse | str, position: int) -> Iterator[str]:
    """The same answer as the Messages API streams it."""
    message = anthropic_message(answer, position)
    block: Json = message["content"][0]
    if isinstance(answer, str):
        started: Json = {**block, "text": ""}
        delta: Json = {"type": "text_delta", "text": answer}
    else:
        started = {**block, "input": {}}
        delta = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
    ending: Json = {"stop_reason": message["stop_reason"], "stop_sequence": None}
    events: list[Json] = [
        {"type": "message_start", "message": {**message, "content": [], "stop_reason": None}},
        {"type": "content_block_start", "index": 0, "content_block": started},
        {"type": "content_block_delta", "index": 0, "delta": delta},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": ending, "usage": message["usage"]},
        {"type": "message_stop"},
    ]
    return (f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events)


def chat_message(answer: ToolUse | str, position: int) -> Json:
    """A whole answer of Chat Completions."""
    return _chat("chat.completion", {"message": _chat_content(answer, position)}, finish=_chat_finish(answer))


def chat_stream(answer: ToolUse | str, position: int) -> Iterator[str]:
    """The same answer as Chat Completions streams it."""
    kind = "chat.completion.chunk"
    yield f"data: {json.dumps(_chat(kind, {'delta': _chat_content(answer, position)}, finish=None))}\n\n"
    yield f"data: {json.dumps(_chat(kind, {'delta': {}}, finish=_chat_finish(answer)))}\n\n"
    yield "data: [DONE]\n\n"


def _chat_finish(answer: ToolUse | str) -> str:
    return "stop" if isinstance(answer, str) else "tool_calls"


def _chat_content(answer: ToolUse | str, position: int) -> Json:
    if isinstance(answer, str):
        return {"role": "assistant", "content": answer}
    function = {"name": answer.tool, "arguments": json.dumps(dict(answer.arguments))}
    call = {"index": 0, "id": f"call_{position}", "type": "function", "function": function}
    return {"role": "assistant", "content": None, "tool_calls": [call]}


def _chat(kind: str, choice: Json, *, finish: str | None) -> Json:
    return {
        "id": "chatcmpl-1",
        "object": kind,
        "created": 0,
        "model": "loopback",
        "choices": [{"index": 0, "finish_reason": finish, **choice}],
        "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
    }
