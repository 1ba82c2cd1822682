import math
from typing import cast

import anyio
import pytest
from inline_snapshot import snapshot

from bascule.errors import ConfigurationError, ModelError
from bascule.messages import Message, TextPart, ToolCallPart, normalize
from bascule.models import (
    Finish,
    LanguageModel,
    ModelCall,
    ModelPart,
    ModelTool,
    ReasoningDelta,
    TextDelta,
    ToolCall,
    ToolCallDelta,
    Usage,
)
from bascule.testing import ScriptedModel

ADD = ModelTool(name="add", description="Add.", input_schema={"type": "object"})


def ask(text: str = "hello", *results: object, tools: tuple[ModelTool, ...] = ()) -> ModelCall:
    made = tuple(
        ToolCallPart(tool_call_id=str(n), tool_name="add", args={}, state="result", result=cast("str", result))
        for n, result in enumerate(results)
    )
    messages = list(normalize(text))
    if made:
        messages.append(Message(role="assistant", parts=made))
    return ModelCall(messages=messages, tools=tools)


async def collect(model: LanguageModel, call: ModelCall | None = None) -> list[ModelPart]:
    return [part async for part in model.stream(call or ask())]


async def read(model: LanguageModel, parts: list[ModelPart]) -> None:
    """Keep the parts that come before an error."""
    async for part in model.stream(ask()):
        parts.append(part)  # noqa: PERF401  # a comprehension would lose them


async def text_of(model: LanguageModel, call: ModelCall | None = None) -> str:
    return "".join(part.text for part in await collect(model, call) if isinstance(part, TextDelta))


async def test_a_turn_streams_reasoning_then_text_then_calls() -> None:
    model = ScriptedModel(
        [
            {
                "reasoning": "think",
                "text": "let me see",
                "chunk_size": 6,
                "tool_calls": [{"name": "add", "arguments": {"a": 1}}],
            }
        ]
    )

    assert await collect(model) == [
        ReasoningDelta("think"),
        TextDelta("let me"),
        TextDelta(" see"),
        ToolCallDelta("call_1_1", "add", '{"a":1'),
        ToolCallDelta("call_1_1", "add", "}"),
        ToolCall("call_1_1", "add", '{"a":1}'),
        Finish("tool-calls", Usage(input_tokens=1, output_tokens=3, reasoning_tokens=1), response_model="scripted"),
    ]


async def test_the_calls_that_were_seen_are_kept() -> None:
    model = ScriptedModel()
    call = ask()

    await collect(model, call)

    assert len(model.calls) == 1
    assert model.calls[0] is call


async def test_turns_answer_in_order_and_then_the_text_is_echoed() -> None:
    model = ScriptedModel([{"text": "one"}, "two"])

    assert [await text_of(model, ask("as ${last_user}")) for _ in range(3)] == ["one", "two", "as ${last_user}"]


async def test_a_script_without_echo_ends_with_an_error() -> None:
    with pytest.raises(ModelError, match="0 turns has none for call 1"):
        await collect(ScriptedModel([], default="error"))


async def test_a_function_of_the_call_makes_the_turn() -> None:
    model = ScriptedModel([lambda call: {"text": f"{len(call.tools)} tools"}, lambda _: "plain"])

    assert await text_of(model, ask(tools=(ADD,))) == "1 tools"
    assert await text_of(model) == "plain"


async def test_equal_chunks_are_counted() -> None:
    parts = await collect(ScriptedModel([{"chunks": 200, "chunk_text": "ab"}]))

    assert parts[:-1] == [TextDelta("ab")] * 200


@pytest.mark.parametrize(
    ("status", "kind"), [(400, "bad_request"), (401, "auth"), (404, "not_found"), (429, "rate_limit"), (529, "server")]
)
async def test_an_error_has_the_kind_of_its_status(status: int, kind: str) -> None:
    model = ScriptedModel([{"error": {"status": status, "message": "no", "retry_after": 3}}, "after"])

    with pytest.raises(ModelError, match="no") as caught:
        await collect(model)

    assert (caught.value.kind, caught.value.status, caught.value.retry_after) == (kind, status, 3)
    assert await text_of(model) == "after"


async def test_an_exception_is_raised_as_it_is() -> None:
    error = RuntimeError("broken")

    with pytest.raises(RuntimeError) as caught:
        await collect(ScriptedModel([{"error": error}]))

    assert caught.value is error


async def test_a_cut_comes_after_the_asked_number_of_deltas() -> None:
    parts: list[ModelPart] = []

    with pytest.raises(ModelError) as caught:
        await read(ScriptedModel([{"text": "abcdef", "chunk_size": 2, "drop_after": 2}]), parts)

    assert parts == [TextDelta("ab"), TextDelta("cd")]
    assert caught.value.kind == "connection"


async def test_a_hanging_turn_ends_with_its_task() -> None:
    parts: list[ModelPart] = []
    with anyio.CancelScope() as scope:
        async for part in ScriptedModel([{"text": "abc", "hang": True}]).stream(ask()):
            parts.append(part)
            scope.deadline = -math.inf

    assert scope.cancelled_caught
    assert parts == [TextDelta("abc")]


async def test_delays_are_moments_for_other_tasks() -> None:
    other_ran = anyio.Event()

    async def other() -> None:
        other_ran.set()

    async with anyio.create_task_group() as group:
        group.start_soon(other)
        turn = {"text": "ab", "chunk_size": 1, "delay": 0.001, "chunk_delay": 0.001}
        async for part in ScriptedModel([turn]).stream(ask()):
            assert other_ran.is_set(), part


async def test_finish_and_usage_are_as_written() -> None:
    usage = {"input": 10, "output": 5, "reasoning": 2, "cached": 1}
    model = ScriptedModel([{"text": "x", "finish": "content_filter", "usage": usage}, {"usage": Usage(input_tokens=9)}])

    [_, finish] = await collect(model)
    [second] = await collect(model)

    assert finish == Finish(
        "content-filter",
        Usage(input_tokens=10, output_tokens=5, reasoning_tokens=2, cached_input_tokens=1),
        response_model="scripted",
    )
    assert second == Finish("stop", Usage(input_tokens=9), response_model="scripted")


async def test_a_stream_can_end_without_a_finish() -> None:
    assert await collect(ScriptedModel([{"text": "x", "finish": None}])) == [TextDelta("x")]


async def test_times_repeats_a_turn() -> None:
    model = ScriptedModel([{"text": "twice", "times": 2}, {"text": "always", "times": 0}])

    assert [await text_of(model) for _ in range(4)] == ["twice", "twice", "always", "always"]


def follows_an_answer(call: ModelCall) -> bool:
    return len(call.messages) == 2


CONDITIONS: list[object] = [
    {"user": "^he.*o"},
    {"last_role": "tool"},
    {"tool": "add"},
    {"model": "scripted"},
    {"result": "42"},
    {"user": "hello", "result": "4"},
    follows_an_answer,
]


@pytest.mark.parametrize("when", CONDITIONS)
async def test_a_turn_waits_for_its_condition(when: object) -> None:
    model = ScriptedModel([{"text": "met", "when": when}, {"text": "else", "times": 0}], model_id="m")
    met = ScriptedModel([{"text": "met", "when": when}])

    assert await text_of(model, ModelCall(messages=normalize("other"))) == "else"
    assert await text_of(met, ask("hello", 42, tools=(ADD,))) == "met"


async def test_texts_and_arguments_quote_the_conversation() -> None:
    arguments = {"q": "${last_user}", "n": [1, "${last_result}"]}
    model = ScriptedModel([{"text": "got ${last_result}", "tool_calls": [{"name": "add", "arguments": arguments}]}])

    parts = await collect(model, ask("why", {"x": 1}))

    assert TextDelta('got {"x":1}') in parts
    assert ToolCall("call_1_1", "add", '{"q":"why","n":[1,"{\\"x\\":1}"]}') in parts


async def test_a_call_takes_the_first_declared_name_and_raw_arguments() -> None:
    calls = [{"name": ["sum", "add"], "arguments": "{not json", "id": "c9"}, "bare"]

    parts = await collect(ScriptedModel([{"tool_calls": calls}]), ask(tools=(ADD,)))

    assert [part for part in parts if isinstance(part, ToolCall)] == [
        ToolCall("c9", "add", "{not json"),
        ToolCall("call_1_2", "bare", "{}"),
    ]


WRONG_TURNS: list[dict[str, object]] = [
    {"texts": "x"},
    {"text": 1},
    {"chunks": -1},
    {"chunk_delay": "soon"},
    {"finish": "done"},
    {"usage": {"inputs": 1}},
    {"usage": 3},
    {"when": {"users": "x"}},
    {"tool_calls": "add"},
    {"tool_calls": [{"name": []}]},
    {"tool_calls": [{"name": "add", "arguments": 3}]},
    {"tool_calls": [{"name": "add", "args": {}}]},
    {"tool_calls": [{"name": "add", "id": 3}]},
    {"error": {"status": "bad"}},
    {"error": {"retry_after": "soon"}},
    {"error": {"code": 1}},
]


@pytest.mark.parametrize("turn", WRONG_TURNS)
def test_what_is_not_understood_is_refused(turn: dict[str, object]) -> None:
    with pytest.raises(ConfigurationError):
        ScriptedModel([turn])


def test_an_unknown_key_is_answered_with_the_known_ones() -> None:
    with pytest.raises(ConfigurationError) as caught:
        ScriptedModel([{"txt": "x"}])

    assert str(caught.value) == snapshot(
        "A scripted turn has the unknown key 'txt'; the keys are text, reasoning, tool_calls, chunks, chunk_text, \
chunk_size, chunk_delay, delay, error, drop_after, hang, finish, usage, when, times."
    )


def test_an_unknown_default_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="'echo' or 'error'"):
        ScriptedModel(default="repeat")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]  # the point


async def test_names_are_those_given() -> None:
    model = ScriptedModel(provider="acme", model_id="m-1")

    assert (model.provider, model.model_id, model.capabilities.tools) == ("acme", "m-1", True)
    assert repr(model) == "ScriptedModel(0 turns, 0 calls)"


async def test_the_last_result_before_a_text_is_not_the_last_role() -> None:
    call = ToolCallPart(tool_call_id="1", tool_name="add", args={}, state="result", result=1)
    messages = [*normalize("x"), Message(role="assistant", parts=(call, TextPart("done")))]
    model = ScriptedModel(
        [{"text": "tool", "when": {"last_role": "tool"}}, {"text": "assistant", "when": {"last_role": "assistant"}}]
    )

    assert await text_of(model, ModelCall(messages=messages)) == "assistant"
