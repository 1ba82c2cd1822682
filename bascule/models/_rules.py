"""A stand-in for a language model that follows fixed rules.

It picks the tool whose name and description fit the user's words best, takes the arguments out of the text by the
tool's schema, calls it once and shows what it returned. As soon as the prompt holds a tool call after the user's last
message it answers, so a run with it always ends.
"""

from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from hashlib import blake2s

import anyio.lowlevel

from bascule.messages import JsonObject, JsonValue, ToolCallPart
from bascule.models._arguments import fill_arguments, neutral_value
from bascule.models._prompt import calls_since_user, json_text, last_user_text, prompt_size, result_text
from bascule.models._protocol import (
    Finish,
    ModelCall,
    ModelCapabilities,
    ModelPart,
    ModelTool,
    TextDelta,
    ToolCall,
    ToolCallDelta,
    Usage,
)
from bascule.models._words import RankedTool, rank_tools, words_of

__all__ = ["RulesModel"]

_LABEL = "Answered by built-in rules, not by a language model."
_HOW_TO = "Set OPENAI_API_KEY or BASCULE_MODEL to use one."
_SHOWN_TOOLS = 10


class RulesModel:
    """Calls the tool that fits the user's words and shows its result; needs no key.

    It is no language model and says so in its answers.
    """

    def __repr__(self) -> str:
        return "RulesModel()"

    @property
    def provider(self) -> str:
        """The provider's name."""
        return "scripted"

    @property
    def model_id(self) -> str:
        """The model's name."""
        return "rules"

    @property
    def capabilities(self) -> ModelCapabilities:
        """What the model can do."""
        return ModelCapabilities(native_json=True, label=_LABEL)

    async def stream(self, call: ModelCall) -> AsyncGenerator[ModelPart, None]:
        """Call the tool that fits, or answer."""
        await anyio.lowlevel.checkpoint()
        usage = Usage(input_tokens=prompt_size(call.messages) // 4)
        for part in _parts(call):
            yield part
            if isinstance(part, ToolCall):
                yield Finish("tool-calls", usage)
                return
        yield Finish("stop", usage)


def _parts(call: ModelCall) -> Iterator[ModelPart]:
    text, made = last_user_text(call.messages), calls_since_user(call.messages)
    chosen = None if made else _choose(call, text)
    if isinstance(chosen, ToolCall):
        yield ToolCallDelta(chosen.id, chosen.name, chosen.arguments)
        yield chosen
        return
    if call.response_format is not None:
        answer = _json_answer(call.response_format, text, made)
    elif made:
        answer = "\n".join([*map(_describe, made), "", _LABEL])
    else:
        answer = "\n".join([chosen or _nothing_fits(call.tools), f"{_LABEL} {_HOW_TO}"])
    for word in words_of(answer):
        yield TextDelta(word)


def _choose(call: ModelCall, text: str) -> ToolCall | str | None:
    """Return the call to make, why the tool that fits cannot be called, or ``None`` when no tool fits."""
    problem: str | None = None
    for ranked in _candidates(call, text):
        filled = fill_arguments(ranked.tool.input_schema, text, topic=ranked.shared)
        if not filled.missing:
            return ToolCall(_call_id(call, ranked.tool.name), ranked.tool.name, json_text(filled.arguments))
        problem = problem or _cannot_fill(ranked.tool, filled.missing)
    return problem


def _call_id(call: ModelCall, tool_name: str) -> str:
    """Return an id that is the same whenever the call is repeated, and another one for each user message."""
    asked = next((message.id for message in reversed(call.messages) if message.role == "user"), "")
    return f"call_{blake2s(f'{asked}/{tool_name}'.encode(), digest_size=8).hexdigest()}"


def _candidates(call: ModelCall, text: str) -> Sequence[RankedTool]:
    if call.tool_choice == "none":
        return ()
    if isinstance(call.tool_choice, Mapping):
        name = call.tool_choice.get("toolName")
        return [RankedTool(tool, 1.0, frozenset(), True) for tool in call.tools if tool.name == name]
    ranked = rank_tools(text, call.tools)
    if call.tool_choice == "required" and not ranked:
        return [RankedTool(tool, 0.0, frozenset(), True) for tool in call.tools]
    return ranked


def _cannot_fill(tool: ModelTool, missing: Sequence[str]) -> str:
    example = " ".join(f"{name}=..." for name in missing)
    return (
        f"The tool {tool.name} fits, but your text gives no value for {', '.join(missing)}. Try: {tool.name} {example}"
    )


def _nothing_fits(tools: Sequence[ModelTool]) -> str:
    if not tools:
        return "There is no tool here that could answer this."
    names = ", ".join(tool.name for tool in tools[:_SHOWN_TOOLS])
    more = f" and {len(tools) - _SHOWN_TOOLS} more" if len(tools) > _SHOWN_TOOLS else ""
    return f"None of the tools fits this. The tools are: {names}{more}."


def _describe(part: ToolCallPart) -> str:
    arguments: JsonObject = part.args if isinstance(part.args, Mapping) else {}
    shown = ", ".join(f"{name}={json_text(value)}" for name, value in arguments.items())
    called = f"{part.tool_name}({shown})"
    if part.state == "output-error":
        return f"{called} failed: {result_text(part)}"
    if part.state == "output-denied":
        return f"{called} was not run: {result_text(part)}"
    if part.state != "result":
        return f"{called} has no result yet."
    if part.model_output is not None:
        return _after(called, result_text(part))
    return _after(called, _readable(part.result))


def _after(called: str, text: str) -> str:
    if not text:
        return f"{called} is done."
    return f"{called}:\n{text}" if "\n" in text else f"{called} = {text}"


def _readable(value: JsonValue) -> str:
    """Write a value as people would: lines for lists and mappings, bare text for the rest."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, Mapping):
        return "\n".join(f"{key}: {_inline(item)}" for key, item in value.items()) or "nothing"
    if isinstance(value, Sequence):
        return "\n".join(f"- {_inline(item)}" for item in value) or "nothing"
    return json_text(value)


def _inline(value: JsonValue) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, Mapping):
        return ", ".join(f"{key}: {_inline(item)}" for key, item in value.items())
    return json_text(value)


def _json_answer(schema: JsonObject, text: str, made: Sequence[ToolCallPart]) -> str:
    said = "\n".join([*map(result_text, made), text])
    filled = fill_arguments(schema, said).arguments
    plain = neutral_value(schema, schema)
    return json_text({**plain, **filled} if isinstance(plain, Mapping) else plain)
