from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bascule.messages import JsonValue, Message, ToolCallPart, ToolCallState, normalize
from bascule.models import (
    EchoModel,
    Finish,
    LanguageModel,
    ModelCall,
    ModelPart,
    ModelTool,
    RulesModel,
    TextDelta,
    ToolCall,
    ToolChoice,
)
from bascule.models._words import words_of


def tool(name: str, description: str, required: str = "", /, **properties: JsonValue) -> ModelTool:
    names: list[JsonValue] = [*required.split()]
    schema: Mapping[str, JsonValue] = {"type": "object", "properties": properties, "required": names}
    return ModelTool(name=name, description=description, input_schema=schema)


INT: JsonValue = {"type": "integer"}
STR: JsonValue = {"type": "string"}
ADD = tool("add", "Add two numbers.", "a b", a=INT, b=INT)
SUBTRACT = tool("subtract", "Subtract two numbers.", "a b", a={"type": "number"}, b={"type": "number"})
GREET = tool("greet", "Say hello to a person.", "name", name=STR, excited={"type": "boolean"})
UNITS: JsonValue = {"enum": ["celsius", "fahrenheit"]}
WEATHER = tool("get_weather", "Current weather of a city.", "city", city=STR, unit=UNITS)
SEARCH = tool("search_docs", "Search the documentation.", "query", query=STR, limit=INT)
WRITER = tool("agent-writer", "Writes poems and stories.", "prompt", prompt=STR, maxSteps=INT)
DOUBLE = tool(
    "workflow-double",
    "Doubles.",
    "inputData",
    inputData={"type": "object", "properties": {"n": INT}, "required": ["n"]},
)
RESET = tool("reset_database", "Delete all data.")
DELETE = tool("delete_file", "Delete a file.", "path", path=STR)
LIST = tool("list_threads", "Lists the conversations.")
MAIL = tool(
    "send_mail",
    "Send a mail.",
    "to day",
    to={"type": "string", "format": "email"},
    day={"type": "string", "format": "date"},
    tags={"type": "array", "items": STR},
)
TOTAL = tool(
    "total", "Sum of a list.", "numbers", numbers={"type": "array", "items": {"anyOf": [INT, {"type": "null"}]}}
)
TOOLS = (ADD, SUBTRACT, GREET, WEATHER, SEARCH, WRITER, DOUBLE, RESET, DELETE, LIST, MAIL, TOTAL)


async def collect(model: LanguageModel, call: ModelCall) -> list[ModelPart]:
    return [part async for part in model.stream(call)]


def text_in(parts: list[ModelPart]) -> str:
    return "".join(part.text for part in parts if isinstance(part, TextDelta))


async def rules(
    text: str, *tools: ModelTool, choice: ToolChoice = "auto", made: tuple[ToolCallPart, ...] = ()
) -> list[ModelPart]:
    messages = list(normalize(text))
    if made:
        messages.append(Message(role="assistant", parts=made))
    return await collect(RulesModel(), ModelCall(messages=messages, tools=tools, tool_choice=choice))


async def called(text: str, *tools: ModelTool, choice: ToolChoice = "auto") -> tuple[str, str] | None:
    parts = await rules(text, *(tools or TOOLS), choice=choice)
    calls = [part for part in parts if isinstance(part, ToolCall)]
    return (calls[0].name, calls[0].arguments) if calls else None


def returned(result: JsonValue, state: ToolCallState = "result", **more: str) -> ToolCallPart:
    return ToolCallPart(tool_call_id="1", tool_name="add", args={"a": 2, "b": 3}, state=state, result=result, **more)


async def test_echo_streams_the_text_word_by_word_and_finishes() -> None:
    parts = await collect(EchoModel(), ModelCall(messages=normalize("two  words\n")))

    assert parts[:-1] == [TextDelta("two"), TextDelta("  words\n")]
    assert isinstance(parts[-1], Finish)


@given(st.text())
def test_words_are_the_whole_text(text: str) -> None:
    assert "".join(words_of(text)) == text


@pytest.mark.parametrize("model", [EchoModel(), RulesModel()])
def test_the_models_say_that_they_are_none(model: EchoModel | RulesModel) -> None:
    assert model.provider == "scripted"
    assert "not" in (model.capabilities.label or "")
    assert "language model" in (model.capabilities.label or "")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("What is 2 + 3?", ("add", '{"a":2,"b":3}')),
        ("add 2 and 3", ("add", '{"a":2,"b":3}')),
        ("Please sum up -4 and five", ("add", '{"a":-4,"b":5}')),
        ("add b=1 a=2", ("add", '{"a":2,"b":1}')),
        ('add {"a": 7, "b": 8}', ("add", '{"a":7,"b":8}')),
        ("What's 12.5-5?", ("subtract", '{"a":12.5,"b":5}')),
        ("greet Ada", ("greet", '{"name":"Ada"}')),
        ("greet Ada Lovelace, excited", ("greet", '{"name":"Ada Lovelace","excited":true}')),
        ("greet 'the team' excited: no", ("greet", '{"name":"the team","excited":false}')),
        ("say hello to ada", ("greet", '{"name":"ada"}')),
        ("What is the weather in Paris in celsius?", ("get_weather", '{"city":"Paris","unit":"celsius"}')),
        ("search the docs for sqlite locking", ("search_docs", '{"query":"sqlite locking"}')),
        ('search "a b" limit=3', ("search_docs", '{"query":"a b","limit":3}')),
        ("write a poem about the sea", ("agent-writer", '{"prompt":"write a poem about the sea"}')),
        ("ask the writer: make it rhyme", ("agent-writer", '{"prompt":"make it rhyme"}')),
        ("double 21", ("workflow-double", '{"inputData":{"n":21}}')),
        ("show my threads", ("list_threads", "{}")),
        ("reset the database", ("reset_database", "{}")),
        ("remove the file 'a.txt'", ("delete_file", '{"path":"a.txt"}')),
        (
            "send a mail to ada@example.com on 2026-01-02 'x' 'y'",
            ("send_mail", '{"to":"ada@example.com","day":"2026-01-02","tags":["x","y"]}'),
        ),
        ("total of 1, 2 and 3", ("total", '{"numbers":[1,2,3]}')),
    ],
)
async def test_the_tool_that_fits_is_called_with_arguments_from_the_text(text: str, expected: tuple[str, str]) -> None:
    assert await called(text) == expected


@pytest.mark.parametrize("text", ["hi", "", "show all data", "what is in the file 'a.txt'", "is the database big?"])
async def test_nothing_is_called_by_mere_resemblance(text: str) -> None:
    parts = await rules(text, *TOOLS)

    assert not any(isinstance(part, ToolCall) for part in parts)
    assert "not by a language model" in text_in(parts)


async def test_an_argument_that_cannot_be_filled_is_named() -> None:
    answer = text_in(await rules("add 2", ADD))

    assert "add" in answer
    assert "no value for b" in answer


async def test_without_tools_the_answer_says_so() -> None:
    assert "no tool" in text_in(await rules("hello"))


async def test_a_long_list_of_tools_is_cut() -> None:
    many = [tool(f"thing{number}", "Nothing.") for number in range(12)]

    assert "thing9 and 2 more" in text_in(await rules("hello", *many))


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        ("none", None),
        ("required", ("add", '{"a":1,"b":2}')),
        ({"type": "tool", "toolName": "subtract"}, ("subtract", '{"a":1,"b":2}')),
        ({"type": "tool", "toolName": "unknown"}, None),
    ],
)
async def test_the_tool_choice_is_kept(choice: ToolChoice, expected: tuple[str, str] | None) -> None:
    assert await called("1 2", ADD, SUBTRACT, choice=choice) == expected


@pytest.mark.parametrize(
    ("part", "line"),
    [
        (returned(5), "add(a=2, b=3) = 5"),
        (returned("five"), "add(a=2, b=3) = five"),
        (returned(None), "add(a=2, b=3) is done."),
        (returned({"sum": 5, "of": [2, 3]}), "add(a=2, b=3):\nsum: 5\nof: [2,3]"),
        (returned([{"x": 1}, "y"]), "add(a=2, b=3):\n- x: 1\n- y"),
        (returned([]), "add(a=2, b=3) = nothing"),
        (returned(None, "output-error", error="too big"), "add(a=2, b=3) failed: too big"),
        (
            returned(None, "output-denied"),
            "add(a=2, b=3) was not run: The call was not approved, so the tool did not run.",
        ),
        (returned(None, "call"), "add(a=2, b=3) has no result yet."),
    ],
)
async def test_after_a_tool_call_it_answers_and_never_calls_again(part: ToolCallPart, line: str) -> None:
    parts = await rules("What is 2 + 3?", ADD, choice="required", made=(part,))

    assert text_in(parts) == f"{line}\n\nAnswered by built-in rules, not by a language model."
    assert parts[-1] == Finish("stop", parts[-1].usage) if isinstance(parts[-1], Finish) else False


async def test_what_a_tool_shows_to_models_is_shown() -> None:
    shown: Mapping[str, JsonValue] = {
        "type": "content",
        "value": [{"type": "text", "text": "a picture"}, {"mediaType": "image/png"}],
    }
    part = ToolCallPart(tool_call_id="1", tool_name="draw", args={}, state="result", result=1, model_output=shown)

    assert text_in(await rules("draw", made=(part,))).startswith("draw():\na picture\n[image/png]\n")


async def test_a_wanted_format_is_filled_from_the_text() -> None:
    schema: Mapping[str, JsonValue] = {
        "type": "object",
        "properties": {
            "count": INT,
            "unit": UNITS,
            "note": STR,
            "tags": {"type": "array", "items": STR},
            "ok": {"type": "boolean"},
        },
        "required": ["count", "unit", "tags", "ok"],
    }
    call = ModelCall(messages=normalize("7 degrees fahrenheit"), response_format=schema)

    assert text_in(await collect(RulesModel(), call)) == '{"count":7,"unit":"fahrenheit","tags":[],"ok":false}'


async def test_a_repeated_call_has_the_same_id_and_a_new_message_another_one() -> None:
    first, second = (ModelCall(messages=normalize("add 2 and 3"), tools=[ADD]) for _ in range(2))
    ids = [
        part.id
        for call in (first, first, second)
        for part in await collect(RulesModel(), call)
        if isinstance(part, ToolCall)
    ]

    assert ids[0] == ids[1] != ids[2]


@given(st.text(max_size=80))
async def test_any_text_gets_an_answer(text: str) -> None:
    parts = await rules(text, *TOOLS)

    assert isinstance(parts[-1], Finish)
    assert len(parts) > 1
