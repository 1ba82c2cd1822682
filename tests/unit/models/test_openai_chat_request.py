from collections.abc import Mapping
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
from bascule.models._openai_chat_request import chat_body, chat_messages

ADD = ModelTool(name="add", description="Add.", input_schema={"type": "object"})
HI = normalize("hi")


def assistant(*parts: Part) -> list[JsonValue]:
    return chat_messages([Message(role="assistant", parts=parts)])


def tool_call(
    args: JsonValue = None, state: ToolCallState = "result", result: JsonValue = 3, **more: str
) -> ToolCallPart:
    return ToolCallPart(tool_call_id="t1", tool_name="add", args=args, state=state, result=result, **more)


def user(*parts: Part) -> JsonValue:
    [message] = chat_messages([Message(role="user", parts=parts)])
    return cast("Mapping[str, JsonValue]", message)["content"]


def body(**more: object) -> dict[str, JsonValue]:
    call = ModelCall(messages=HI, **more)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]  # each test gives what the field takes
    return chat_body(call, "m-1", provider="acme")


def test_a_turn_becomes_one_message_for_each_model_call() -> None:
    turn = assistant(
        StepStartPart(),
        ReasoningPart("hm"),
        TextPart("Let "),
        TextPart("me."),
        tool_call({"a": 1}),
        StepStartPart(),
        ErrorPart("E", "lost"),
        TextPart("3"),
    )

    assert turn == snapshot(
        [
            {
                "role": "assistant",
                "content": "Let me.",
                "tool_calls": [{"id": "t1", "type": "function", "function": {"name": "add", "arguments": '{"a":1}'}}],
            },
            {"role": "tool", "tool_call_id": "t1", "content": "3"},
            {"role": "assistant", "content": "3"},
        ]
    )


def test_text_after_a_call_is_a_message_of_its_own_and_nothing_is_none() -> None:
    assert [cast("Mapping[str, JsonValue]", item)["role"] for item in assistant(tool_call(), TextPart("x"))] == [
        "assistant",
        "tool",
        "assistant",
    ]
    assert assistant(StepStartPart(), ReasoningPart("hm"), TextPart("")) == []


@pytest.mark.parametrize(
    ("part", "content"),
    [
        (tool_call(result="text"), "text"),
        (tool_call(result=None), "null"),
        (tool_call(result={"a": [1]}), '{"a":[1]}'),
        (tool_call(state="output-error", error="too big"), "too big"),
        (tool_call(state="output-denied"), "The call was not approved, so the tool did not run."),
        (tool_call(state="call"), "No result: the call was not finished."),
    ],
)
def test_every_call_has_an_answer(part: ToolCallPart, content: str) -> None:
    assert assistant(part)[1] == {"role": "tool", "tool_call_id": "t1", "content": content}


@pytest.mark.parametrize(
    ("args", "text"),
    [
        ({"a": 1}, '{"a":1}'),
        (None, "{}"),
        ('{"a": 1}', '{"a": 1}'),
        ("{broken", '{"invalid_arguments":"{broken"}'),
        ("[1]", '{"invalid_arguments":"[1]"}'),
        ([1], '{"invalid_arguments":[1]}'),
    ],
)
def test_arguments_are_always_a_json_object(args: JsonValue, text: str) -> None:
    message = cast("Mapping[str, list[Mapping[str, Mapping[str, str]]]]", assistant(tool_call(args))[0])

    assert message["tool_calls"][0]["function"]["arguments"] == text


def test_system_and_signal_messages_are_sent() -> None:
    messages = [
        Message(role="system", parts=(TextPart("be brief"),)),
        Message(role="signal", parts=(TextPart("ping"),)),
    ]

    assert chat_messages(messages) == [
        {"role": "system", "content": "be brief"},
        {"role": "user", "content": "ping"},
    ]


def test_user_content_is_plain_text_where_it_can_be() -> None:
    assert user(TextPart("hi")) == "hi"
    assert user() == ""
    assert user(TextPart("a"), TextPart("b")) == [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]


@pytest.mark.parametrize(
    ("part", "item"),
    [
        (
            FilePart(media_type="image/jpeg", data="QQ=="),
            {"type": "image_url", "image_url": {"url": "data:image/jpeg;base64,QQ=="}},
        ),
        (
            FilePart(media_type="image/*", url="http://x/a.png"),
            {"type": "image_url", "image_url": {"url": "http://x/a.png"}},
        ),
        (
            FilePart(media_type="audio/wav", data="QQ=="),
            {"type": "input_audio", "input_audio": {"data": "QQ==", "format": "wav"}},
        ),
        (
            FilePart(media_type="application/pdf", data="QQ==", filename="a.pdf"),
            {"type": "file", "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,QQ=="}},
        ),
        (
            FilePart(media_type="text/plain", data="aGk=", filename="a.txt"),
            {"type": "text", "text": "[attached file a.txt]\nhi"},
        ),
        (
            FilePart(media_type="text/plain", data="not base64"),
            {"type": "text", "text": "[attached file file]\nnot base64"},
        ),
        (
            FilePart(media_type="application/pdf", url="http://x/a.pdf", filename="a.pdf"),
            {"type": "text", "text": "[attached file a.pdf (application/pdf): http://x/a.pdf]"},
        ),
    ],
)
def test_files_are_sent_in_the_form_for_their_kind(part: FilePart, item: JsonValue) -> None:
    assert user(TextPart("see"), part) == [{"type": "text", "text": "see"}, item]


def test_settings_have_their_names() -> None:
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

    assert body(settings=settings) == snapshot(
        {
            "model": "m-1",
            "messages": [{"role": "user", "content": "hi"}],
            "stream": True,
            "stream_options": {"include_usage": True},
            "temperature": 0,
            "max_tokens": 5,
            "top_p": 0.1,
            "top_k": 3,
            "presence_penalty": 0.2,
            "frequency_penalty": 0.3,
            "stop": ["END"],
            "seed": 7,
        }
    )


@pytest.mark.parametrize(
    ("choice", "sent"),
    [
        ("auto", "auto"),
        ("none", "none"),
        ("required", "required"),
        ({"type": "tool", "toolName": "add"}, {"type": "function", "function": {"name": "add"}}),
        ({"type": "allowed_tools"}, {"type": "allowed_tools"}),
    ],
)
def test_tool_choices_are_translated(choice: ToolChoice, sent: JsonValue) -> None:
    assert body(tools=[ADD], tool_choice=choice)["tool_choice"] == sent


def test_without_tools_there_is_no_tool_choice() -> None:
    assert "tool_choice" not in body(tool_choice="required")


STRING: JsonValue = {"type": "string"}


def closed(required: list[JsonValue], **properties: JsonValue) -> dict[str, JsonValue]:
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


@pytest.mark.parametrize(
    ("schema", "name", "strict"),
    [
        ({**closed(["a"], a=STRING), "title": "My Answer!"}, "My_Answer", True),
        (closed([], a=STRING), "answer", False),
        (closed(["a"], a={"type": "object"}), "answer", False),
        ({"anyOf": [{"type": "object"}, {"type": "null"}]}, "answer", False),
        ({"type": "array", "items": STRING}, "answer", True),
    ],
)
def test_a_schema_is_strict_when_it_can_be(schema: Mapping[str, JsonValue], name: str, strict: bool) -> None:
    assert body(response_format=schema)["response_format"] == {
        "type": "json_schema",
        "json_schema": {"name": name, "schema": schema, "strict": strict},
    }


def test_provider_options_reach_the_body_in_its_spelling() -> None:
    options = {
        "openai": {"reasoningEffort": "low", "temperature": 1, "stream": False, "transport": "websocket"},
        "acme": {"temperature": 2},
        "other": {"temperature": 3},
    }

    sent = body(provider_options=options)

    assert (sent["reasoning_effort"], sent["temperature"], sent["stream"]) == ("low", 2, True)
    assert "transport" not in sent


def test_names_that_differ_between_servers_are_given() -> None:
    call = ModelCall(messages=HI, settings=ModelSettings(max_output_tokens=5))

    sent = chat_body(call, "m", provider="openai", max_tokens_key="max_completion_tokens", include_usage=False)

    assert sent["max_completion_tokens"] == 5
    assert "stream_options" not in sent
