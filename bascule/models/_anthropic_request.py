"""From a model call to the body of a Messages request."""

from collections.abc import Iterator, Mapping, Sequence

from bascule.messages import JsonObject, JsonValue, Message
from bascule.models._anthropic_content import Block, assistant_blocks, result_blocks, user_blocks
from bascule.models._anthropic_schema import answer_schema
from bascule.models._prompt import split_turn
from bascule.models._protocol import ModelCall, ModelTool, ToolChoice
from bascule.models._request import options_of

__all__ = ["beta_names", "messages_body"]

_OURS = ("model", "messages", "system", "stream", "betas", "send_reasoning", "effort", "disable_parallel_tool_use")
_NESTED = ("thinking", "metadata", "output_config", "context_management")


def messages_body(call: ModelCall, model_id: str, *, provider: str, max_tokens: int) -> dict[str, JsonValue]:
    """Return the request body of a call.

    Args:
        call: the call.
        model_id: the model's name at the server.
        provider: whose entries of ``provider_options`` count, after those of ``anthropic``.
        max_tokens: the longest answer when the call sets no limit; what the model may think comes on top.
    """
    settings, options = call.settings, _options(call, provider)
    cache = options.pop("cache_control", None)
    reasoning_for = None if _option(call, provider, "send_reasoning") is False else provider
    body: dict[str, JsonValue] = {
        "model": model_id,
        "max_tokens": (settings.max_output_tokens or max_tokens) + _thinking_budget(options),
        "stream": True,
    }
    system = _system(call.messages, provider)
    messages = _messages(call.messages, provider, reasoning_for)
    if system:
        body["system"] = _marked(system, cache)
    body["messages"] = _mark_last(messages, cache)
    optional: dict[str, JsonValue] = {
        "temperature": settings.temperature,
        "top_p": settings.top_p,
        "top_k": settings.top_k,
        "stop_sequences": list(settings.stop_sequences) or None,
        "output_config": _output_config(call, provider, options.pop("output_config", None)),
    }
    body.update({key: value for key, value in optional.items() if value is not None})
    tools = [*map(_tool, call.tools), *_listed(options.pop("tools", None))]
    choice = _tool_choice(call.tool_choice)
    if not tools:  # the server wants to know the tools that the conversation speaks of
        tools, choice = [_bare_tool(name) for name in _tool_names(messages)], _tool_choice("none")
    if tools:
        if _option(call, provider, "disable_parallel_tool_use") is True and choice["type"] != "none":
            choice["disable_parallel_tool_use"] = True
        body["tools"], body["tool_choice"] = _marked(tools, cache), choice
    body.update(options)
    return body


def beta_names(call: ModelCall, provider: str) -> tuple[str, ...]:
    """Return the names for the ``anthropic-beta`` header that the options of a call ask for."""
    return tuple(map(str, _listed(_option(call, provider, "betas"))))


def _option(call: ModelCall, provider: str, name: str) -> JsonValue:
    return next(
        (found[name] for key in (provider, "anthropic") if name in (found := options_of(call.provider_options, key))),
        None,
    )


def _options(call: ModelCall, provider: str) -> dict[str, JsonValue]:
    """Return the options that stand in the body under the server's names."""
    found: dict[str, JsonValue] = {}
    for name in dict.fromkeys(("anthropic", provider)):
        found.update(options_of(call.provider_options, name, without=_OURS))
    for name in _NESTED:
        if name in found:
            value = found[name]
            found[name] = options_of({"it": value}, "it") if isinstance(value, Mapping) else value
    return found


def _thinking_budget(options: Mapping[str, JsonValue]) -> int:
    thinking = options.get("thinking")
    budget = thinking.get("budget_tokens") if isinstance(thinking, Mapping) else None
    return budget if isinstance(budget, int) else 0


def _output_config(call: ModelCall, provider: str, given: JsonValue) -> JsonValue:
    config: dict[str, JsonValue] = {}
    if call.response_format is not None:
        config["format"] = {"type": "json_schema", "schema": answer_schema(call.response_format)}
    effort = _option(call, provider, "effort")
    if effort is not None:
        config["effort"] = effort
    if isinstance(given, Mapping):
        config.update(given)
    return config or None


def _tool(tool: ModelTool) -> dict[str, JsonValue]:
    schema: JsonObject = {"type": "object", **tool.input_schema}
    return {"name": tool.name, "description": tool.description, "input_schema": schema}


def _bare_tool(name: str) -> dict[str, JsonValue]:
    return {"name": name, "input_schema": {"type": "object"}}


def _tool_choice(choice: ToolChoice) -> dict[str, JsonValue]:
    if isinstance(choice, str):
        return {"type": "any" if choice == "required" else choice}
    name = choice.get("toolName")
    return {"type": "tool", "name": name} if isinstance(name, str) else {"type": "auto", **choice}


def _listed(value: JsonValue) -> Sequence[JsonValue]:
    return value if isinstance(value, Sequence) and not isinstance(value, str) else ()


# --- messages ---


def _system(messages: Sequence[Message], provider: str) -> list[Block]:
    """Return the system texts, which the server takes beside the conversation."""
    return [
        block
        for message in messages
        if message.role == "system" and message.text.strip()
        for block in _marked([{"type": "text", "text": message.text}], _own_mark(message, provider))
    ]


def _messages(messages: Sequence[Message], provider: str, reasoning_for: str | None) -> list[tuple[str, list[Block]]]:
    """Return the conversation with roles that take turns."""
    written: list[tuple[str, list[Block]]] = []
    for message in messages:
        turns = [turn for turn in _turns(message, reasoning_for) if turn[1]]
        if turns:
            role, blocks = turns[-1]
            turns[-1] = (role, _marked(blocks, _own_mark(message, provider)))
        written += turns
    return _joined(written)


def _turns(message: Message, reasoning_for: str | None) -> Iterator[tuple[str, list[Block]]]:
    if message.role in ("user", "signal"):
        yield "user", user_blocks(message.parts)
    elif message.role == "assistant":
        for said, calls in split_turn(message.parts):
            yield "assistant", assistant_blocks(said, reasoning_for)
            yield "user", result_blocks(calls)


def _joined(turns: Sequence[tuple[str, list[Block]]]) -> list[tuple[str, list[Block]]]:
    joined: list[tuple[str, list[Block]]] = []
    for role, blocks in turns:
        if joined and joined[-1][0] == role:
            joined[-1][1].extend(blocks)
        else:
            joined.append((role, list(blocks)))
    if joined and joined[-1][0] == "assistant":
        _trim(joined[-1][1])
    return joined


def _trim(blocks: list[Block]) -> None:
    """Cut the space at the end of an answer that the model is to go on with: the server refuses it."""
    text = blocks[-1].get("text")
    if isinstance(text, str):
        blocks[-1]["text"] = text.rstrip()


def _mark_last(messages: Sequence[tuple[str, list[Block]]], cache: JsonValue) -> list[JsonValue]:
    last = len(messages) - 1
    return [
        {"role": role, "content": _marked(blocks, cache) if position == last else blocks}
        for position, (role, blocks) in enumerate(messages)
    ]


def _own_mark(message: Message, provider: str) -> JsonValue:
    """Return the cache mark in a message's own options."""
    given = message.metadata.get("providerOptions") if message.metadata is not None else None
    return options_of(given, provider).get("cache_control") if isinstance(given, Mapping) else None


def _marked(blocks: Sequence[JsonValue], cache: JsonValue) -> list[dict[str, JsonValue]]:
    """Return blocks with a cache mark at the last one that may have one."""
    marked = [dict(block) for block in blocks if isinstance(block, Mapping)]
    if cache is not None:
        place = next((block for block in reversed(marked) if "thinking" not in str(block.get("type"))), None)
        if place is not None:
            place["cache_control"] = cache
    return marked


def _tool_names(messages: Sequence[tuple[str, list[Block]]]) -> list[str]:
    return list(
        dict.fromkeys(str(block["name"]) for _, blocks in messages for block in blocks if block["type"] == "tool_use")
    )
