import base64
from collections.abc import Mapping, Sequence
from typing import cast

import pytest
from inline_snapshot import snapshot

from bascule.messages import (
    ErrorPart,
    FilePart,
    JsonValue,
    Message,
    Part,
    ReasoningPart,
    StepStartPart,
    TextPart,
    ToolCallPart,
    ToolCallState,
    normalize,
)
from bascule.models import ModelCall, ModelSettings, ModelTool, ToolChoice
from bascule.models._anthropic_request import beta_names, messages_body
from bascule.models._anthropic_schema import answer_schema

ADD = ModelTool(name="add", description="Add.", input_schema={"properties": {}})
HI = normalize("hi")
SIGNED = ReasoningPart("hm", {"anthropic": {"signature": "s1"}})
EPHEMERAL: JsonValue = {"type": "ephemeral"}


def body(messages: Sequence[Message] = HI, **more: object) -> dict[str, JsonValue]:
    call = ModelCall(messages=messages, **more)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]  # each test gives what the field takes
    return messages_body(call, "m-1", provider="anthropic", max_tokens=100)


def sent(*messages: Message) -> list[tuple[str, list[Mapping[str, JsonValue]]]]:
    written = cast("list[Mapping[str, JsonValue]]", body(messages)["messages"])
    return [(str(item["role"]), cast("list[Mapping[str, JsonValue]]", item["content"])) for item in written]


def says(role: str, *parts: Part) -> Message:
    return Message(role=role, parts=parts)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]  # a role


def user(*parts: Part) -> list[Mapping[str, JsonValue]]:
    [(_, blocks)] = sent(says("user", *parts))
    return blocks


def tool_call(
    args: JsonValue = None,
    state: ToolCallState = "result",
    result: JsonValue = 3,
    call_id: str = "t1",
    **more: JsonValue,
) -> ToolCallPart:
    return ToolCallPart(tool_call_id=call_id, tool_name="add", args=args, state=state, result=result, **more)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]  # fields of the part


def result_of(part: ToolCallPart) -> Mapping[str, JsonValue]:
    return sent(says("assistant", part))[1][1][0]


def test_a_request_has_everything_the_call_says() -> None:
    settings = ModelSettings(
        temperature=0,
        max_output_tokens=5,
        top_p=0.1,
        top_k=3,
        presence_penalty=0.2,
        frequency_penalty=0.3,
        stop_sequences=("END",),
        seed=7,
    )
    messages = [says("system", TextPart("Be brief.")), *HI, says("system", TextPart("Be kind.")), says("system")]

    assert body(messages, settings=settings, tools=[ADD]) == snapshot(
        {
            "model": "m-1",
            "max_tokens": 5,
            "stream": True,
            "system": [{"type": "text", "text": "Be brief."}, {"type": "text", "text": "Be kind."}],
            "messages": [{"role": "user", "content": [{"type": "text", "text": "hi"}]}],
            "temperature": 0,
            "top_p": 0.1,
            "top_k": 3,
            "stop_sequences": ["END"],
            "tools": [{"name": "add", "description": "Add.", "input_schema": {"type": "object", "properties": {}}}],
            "tool_choice": {"type": "auto"},
        }
    )


def test_a_turn_is_sent_with_its_thinking_and_its_results() -> None:
    turn = says(
        "assistant",
        StepStartPart(),
        SIGNED,
        ReasoningPart("", {"anthropic": {"redactedData": "r1"}}),
        TextPart("Let me."),
        tool_call({"a": 1}),
        tool_call({"a": 2}, "output-error", error="too big", call_id="t2"),
        StepStartPart(),
        ErrorPart("E", "lost"),
        TextPart("3"),
    )

    assert sent(*HI, turn, says("signal", TextPart("and?"))) == snapshot(
        [
            ("user", [{"type": "text", "text": "hi"}]),
            (
                "assistant",
                [
                    {"type": "thinking", "thinking": "hm", "signature": "s1"},
                    {"type": "redacted_thinking", "data": "r1"},
                    {"type": "text", "text": "Let me."},
                    {"type": "tool_use", "id": "t1", "name": "add", "input": {"a": 1}},
                    {"type": "tool_use", "id": "t2", "name": "add", "input": {"a": 2}},
                ],
            ),
            (
                "user",
                [
                    {"type": "tool_result", "tool_use_id": "t1", "content": "3"},
                    {"type": "tool_result", "tool_use_id": "t2", "content": "too big", "is_error": True},
                ],
            ),
            ("assistant", [{"type": "text", "text": "3"}]),
            ("user", [{"type": "text", "text": "and?"}]),
        ]
    )


@pytest.mark.parametrize("words", [TextPart("x"), SIGNED])
def test_words_after_a_call_belong_to_the_next_answer(words: Part) -> None:
    roles = [role for role, _ in sent(says("assistant", tool_call(), words, TextPart("y")))]

    assert roles == ["assistant", "user", "assistant"]


def test_roles_take_turns_and_results_come_before_what_is_said_next() -> None:
    written = sent(says("user", TextPart("a")), says("user", TextPart("b")), says("assistant", tool_call()), *HI)

    assert [(role, [block["type"] for block in blocks]) for role, blocks in written] == [
        ("user", ["text", "text"]),
        ("assistant", ["tool_use"]),
        ("user", ["tool_result", "text"]),
    ]


def test_blank_text_and_empty_messages_are_left_out() -> None:
    assert sent(says("user", TextPart(" \n"), TextPart("x")), says("assistant", TextPart("")), says("user")) == [
        ("user", [{"type": "text", "text": "x"}])
    ]


@pytest.mark.parametrize(
    "part",
    [
        ReasoningPart("hm"),
        ReasoningPart("hm", {"openai": {"signature": "s"}}),
        ReasoningPart("hm", {"anthropic": {}}),
        ReasoningPart("hm", {"anthropic": "s"}),
    ],
)
def test_reasoning_without_a_signature_of_the_provider_is_left_out(part: ReasoningPart) -> None:
    assert sent(says("assistant", part, TextPart("x"))) == [("assistant", [{"type": "text", "text": "x"}])]


def test_reasoning_alone_is_no_message() -> None:
    assert sent(*HI, says("assistant", SIGNED)) == [("user", [{"type": "text", "text": "hi"}])]


def test_reasoning_is_kept_back_on_request() -> None:
    call = says("assistant", SIGNED, TextPart("x"))

    written = body([call], provider_options={"anthropic": {"sendReasoning": False}})

    assert written["messages"] == [{"role": "assistant", "content": [{"type": "text", "text": "x"}]}]
    assert "send_reasoning" not in written


def test_an_answer_to_go_on_with_has_no_space_at_its_end() -> None:
    assert sent(*HI, says("assistant", TextPart("It is \n")))[1] == ("assistant", [{"type": "text", "text": "It is"}])


@pytest.mark.parametrize(
    ("args", "value"),
    [
        ({"a": 1}, {"a": 1}),
        (None, {}),
        ('{"a": 1}', {"a": 1}),
        ("{broken", {"invalid_arguments": "{broken"}),
        ([1], {"invalid_arguments": [1]}),
    ],
)
def test_arguments_are_always_an_object(args: JsonValue, value: JsonValue) -> None:
    assert sent(says("assistant", tool_call(args)))[0][1][0]["input"] == value


def test_ids_of_another_provider_are_made_fit() -> None:
    written = sent(says("assistant", tool_call(call_id="call:1/x")))

    assert written[0][1][0]["id"] == written[1][1][0]["tool_use_id"] == "call_1_x"


@pytest.mark.parametrize(
    ("part", "content", "failed"),
    [
        (tool_call(result="text"), "text", False),
        (tool_call(result={"a": [1]}), '{"a":[1]}', False),
        (tool_call(state="output-denied"), "The call was not approved, so the tool did not run.", True),
        (tool_call(state="call"), "No result: the call was not finished.", True),
        (tool_call(model_output={"type": "text", "value": "short"}), "short", False),
        (tool_call(model_output={"type": "content", "value": [{"type": "odd"}]}), "[odd]", False),
        (tool_call(model_output={"type": "content", "value": []}), "", False),
        (tool_call(model_output={"type": "content", "value": "all"}), "all", False),
        (tool_call(model_output={"type": "content", "value": ["odd", {"text": " "}]}), "odd\n ", False),
    ],
)
def test_every_call_has_an_answer(part: ToolCallPart, content: str, failed: bool) -> None:
    block = result_of(part)

    assert (block["content"], block.get("is_error", False)) == (content, failed)


def test_a_tool_may_answer_with_pictures() -> None:
    items: JsonValue = [
        {"type": "text", "text": "see"},
        {"type": "media", "mediaType": "image/png", "data": "aGk="},
    ]

    assert result_of(tool_call(model_output={"type": "content", "value": items}))["content"] == [
        {"type": "text", "text": "see"},
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}},
    ]


@pytest.mark.parametrize(
    ("part", "block"),
    [
        (
            FilePart(media_type="image/jpeg", data="aGk="),
            {"type": "image", "source": {"type": "base64", "media_type": "image/jpeg", "data": "aGk="}},
        ),
        (
            FilePart(media_type="image/*", url="data:image/png;base64,aGk="),
            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}},
        ),
        (
            FilePart(media_type="image/webp", url="https://x/a.webp"),
            {"type": "image", "source": {"type": "url", "url": "https://x/a.webp"}},
        ),
        (
            FilePart(media_type="application/pdf", data="aGk=", filename="a.pdf"),
            {
                "type": "document",
                "source": {"type": "base64", "media_type": "application/pdf", "data": "aGk="},
                "title": "a.pdf",
            },
        ),
        (
            FilePart(media_type="application/pdf", url="https://x/a.pdf"),
            {"type": "document", "source": {"type": "url", "url": "https://x/a.pdf"}},
        ),
        (
            FilePart(media_type="text/csv; charset=utf-8", data=base64.b64encode(b"a,b").decode()),
            {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "a,b"}},
        ),
        (
            FilePart(media_type="audio/wav", data="aGk=", filename="a.wav"),
            {"type": "text", "text": "[attached file a.wav (audio/wav): of a kind that cannot be sent]"},
        ),
        (
            FilePart(media_type="text/plain", url="https://x/a.txt"),
            {"type": "text", "text": "[attached file file (text/plain): https://x/a.txt]"},
        ),
    ],
)
def test_files_are_sent_in_the_form_for_their_kind(part: FilePart, block: JsonValue) -> None:
    assert user(TextPart("see"), part, ReasoningPart("no")) == [{"type": "text", "text": "see"}, block]


@pytest.mark.parametrize(
    ("choice", "written"),
    [
        ("auto", {"type": "auto"}),
        ("none", {"type": "none"}),
        ("required", {"type": "any"}),
        ({"type": "tool", "toolName": "add"}, {"type": "tool", "name": "add"}),
        ({"type": "any", "disable_parallel_tool_use": True}, {"type": "any", "disable_parallel_tool_use": True}),
    ],
)
def test_tool_choices_are_translated(choice: ToolChoice, written: JsonValue) -> None:
    assert body(tools=[ADD], tool_choice=choice)["tool_choice"] == written


def test_one_call_at_a_time_may_be_asked_for() -> None:
    one = {"anthropic": {"disableParallelToolUse": True}}

    assert body(tools=[ADD], provider_options=one)["tool_choice"] == {"type": "auto", "disable_parallel_tool_use": True}
    assert body(tools=[ADD], tool_choice="none", provider_options=one)["tool_choice"] == {"type": "none"}


def test_without_tools_there_is_no_tool_choice() -> None:
    assert {"tools", "tool_choice"}.isdisjoint(body(tool_choice="required"))


def test_tools_that_a_conversation_speaks_of_are_named_even_when_there_are_none() -> None:
    written = body([*HI, says("assistant", tool_call(), tool_call(call_id="t2"))], tool_choice="required")

    assert written["tools"] == [{"name": "add", "input_schema": {"type": "object"}}]
    assert written["tool_choice"] == {"type": "none"}


def test_options_reach_the_body_in_its_spelling() -> None:
    options = {
        "anthropic": {
            "thinking": {"type": "enabled", "budgetTokens": 2000},
            "serviceTier": "auto",
            "metadata": {"userId": "u1"},
            "effort": "low",
            "tools": [{"type": "web_search_20250305", "name": "web_search"}],
            "betas": ["files-api-2025-04-14"],
            "stream": False,
            "model": "other",
        },
        "openai": {"reasoningEffort": "low"},
    }

    written = body(provider_options=options)

    assert written == snapshot(
        {
            "model": "m-1",
            "max_tokens": 2100,
            "stream": True,
            "messages": [{"role": "user", "content": [{"type": "text", "text": "hi"}]}],
            "output_config": {"effort": "low"},
            "tools": [{"type": "web_search_20250305", "name": "web_search"}],
            "tool_choice": {"type": "auto"},
            "thinking": {"type": "enabled", "budget_tokens": 2000},
            "service_tier": "auto",
            "metadata": {"user_id": "u1"},
        }
    )


def test_beta_features_are_named_in_a_header() -> None:
    assert beta_names(ModelCall(messages=HI, provider_options={"anthropic": {"betas": ["a", "b"]}}), "anthropic") == (
        "a",
        "b",
    )
    assert beta_names(ModelCall(messages=HI), "anthropic") == ()


def test_a_cache_mark_stands_at_the_end_of_what_stays_the_same() -> None:
    messages = [says("system", TextPart("a")), says("system", TextPart("b")), *HI]

    written = body(messages, tools=[ADD, ADD], provider_options={"anthropic": {"cacheControl": EPHEMERAL}})

    system, tools = (cast("list[Mapping[str, JsonValue]]", written[key]) for key in ("system", "tools"))
    assert [block.get("cache_control") for block in (*system, *tools)] == [None, EPHEMERAL, None, EPHEMERAL]
    assert written["messages"] == [
        {"role": "user", "content": [{"type": "text", "text": "hi", "cache_control": EPHEMERAL}]}
    ]
    assert "cache_control" not in written


def test_a_message_may_have_a_cache_mark_of_its_own() -> None:
    metadata: Mapping[str, JsonValue] = {"providerOptions": {"anthropic": {"cacheControl": EPHEMERAL}}}
    long = Message(role="user", parts=(TextPart("long"),), metadata=metadata)
    system = Message(role="system", parts=(TextPart("s"),), metadata=metadata)

    written = body([system, long, *HI])

    assert written["system"] == [{"type": "text", "text": "s", "cache_control": EPHEMERAL}]
    assert written["messages"] == [
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "long", "cache_control": EPHEMERAL},
                {"type": "text", "text": "hi"},
            ],
        }
    ]


def test_an_answer_can_be_held_to_a_schema() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "integer", "minimum": 1}}, "required": ["a"]}

    config = body(response_format=schema, provider_options={"anthropic": {"outputConfig": {"effort": "high"}}})

    assert config["output_config"] == snapshot(
        {
            "format": {
                "type": "json_schema",
                "schema": {
                    "type": "object",
                    "properties": {"a": {"type": "integer", "description": '{"minimum":1}'}},
                    "required": ["a"],
                    "additionalProperties": False,
                },
            },
            "effort": "high",
        }
    )


def test_a_schema_is_closed_at_every_depth_and_its_limits_are_told() -> None:
    inner: Mapping[str, JsonValue] = {"type": "object", "properties": {"minimum": {"enum": [{"maximum": 1}]}}}

    assert answer_schema(
        {
            "$defs": {"P": inner},
            "anyOf": [{"$ref": "#/$defs/P"}, {"type": "array", "items": inner, "maxItems": 3, "description": "Some."}],
        }
    ) == {
        "$defs": {"P": {**inner, "additionalProperties": False}},
        "anyOf": [
            {"$ref": "#/$defs/P"},
            {"type": "array", "items": {**inner, "additionalProperties": False}, "description": 'Some. {"maxItems":3}'},
        ],
    }
