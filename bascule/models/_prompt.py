"""Reads a prompt: what the user said last, and what its tools returned since."""

from collections.abc import Iterator, Mapping, Sequence

from pydantic_core import to_json

from bascule.messages import JsonValue, Message, Part, ReasoningPart, StepStartPart, TextPart, ToolCallPart

__all__ = ["calls_since_user", "json_text", "last_role", "last_user_text", "prompt_size", "result_text", "split_turn"]

_SETTLED = ("result", "output-error", "output-denied")


def last_user_text(messages: Sequence[Message]) -> str:
    """Return the text of the last user message, or an empty text."""
    for message in reversed(messages):
        if message.role == "user":
            return message.text
    return ""


def calls_since_user(messages: Sequence[Message]) -> list[ToolCallPart]:
    """Return the tool calls that were made after the last user message, in order."""
    found: list[ToolCallPart] = []
    for message in reversed(messages):
        if message.role == "user":
            break
        found[:0] = [part for part in message.parts if isinstance(part, ToolCallPart)]
    return found


def last_role(messages: Sequence[Message]) -> str:
    """Return the role of the last message; ``tool`` when it ends with the result of a tool call."""
    if not messages:
        return ""
    for part in reversed(messages[-1].parts):
        if isinstance(part, ToolCallPart) and part.state in _SETTLED:
            return "tool"
        if isinstance(part, TextPart):
            break
    return messages[-1].role


def json_text(value: JsonValue) -> str:
    """Return a value as JSON text; a value that is not JSON is written as its ``str``."""
    return to_json(value, fallback=str).decode()


def result_text(part: ToolCallPart) -> str:
    """Return what a model is shown of a tool call's outcome."""
    if part.state == "output-error":
        return part.error or "The tool failed."
    if part.state == "output-denied":
        return part.error or "The call was not approved, so the tool did not run."
    if part.state != "result":
        return "No result: the call was not finished."
    if part.model_output is not None:
        return _output_text(part.model_output)
    return _value_text(part.result)


def _value_text(value: JsonValue) -> str:
    return value if isinstance(value, str) else json_text(value)


def _output_text(output: JsonValue) -> str:
    if not isinstance(output, Mapping) or "value" not in output:
        return _value_text(output)
    value = output["value"]
    if output.get("type") != "content" or not isinstance(value, Sequence) or isinstance(value, str):
        return _value_text(value)
    return "\n".join(map(_item_text, value))


def _item_text(item: JsonValue) -> str:
    if not isinstance(item, Mapping):
        return _value_text(item)
    text = item.get("text")
    if isinstance(text, str):
        return text
    media = item.get("mediaType", item.get("type", "data"))
    return f"[{_value_text(media)}]"


def split_turn(parts: Sequence[Part]) -> Iterator[tuple[list[Part], list[ToolCallPart]]]:
    """Split an assistant turn into what each model call in it wrote, and the tool calls among that."""
    said, calls = list[Part](), list[ToolCallPart]()
    for part in parts:
        # Words after a tool call were written by the next model call, even where no border says so.
        if isinstance(part, StepStartPart) or (calls and isinstance(part, TextPart | ReasoningPart)):
            yield said, calls
            said, calls = [], []
        said.append(part)
        if isinstance(part, ToolCallPart):
            calls.append(part)
    yield said, calls


def prompt_size(messages: Sequence[Message]) -> int:
    """Return the number of characters of text in a prompt, for estimates."""
    return sum(len(part.text) for message in messages for part in message.parts if isinstance(part, TextPart))
