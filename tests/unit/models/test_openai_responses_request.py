from typing import cast

import pytest
from inline_snapshot import snapshot

from bascule.errors import ConfigurationError
from bascule.messages import (
    FilePart,
    JsonObject,
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
from bascule.models._openai_responses_request import responses_body, responses_input
from bascule.models._openai_responses_transport import Wish, read_wish

ADD = ModelTool(name="add", description="Add.", input_schema={"type": "object"})
HI = normalize("hi")


def items(*messages: Message) -> list[JsonValue]:
    return responses_input(messages, provider="openai")[1]


def assistant(*parts: Part) -> list[JsonValue]:
    return items(Message(role="assistant", parts=parts))


def user(*parts: Part) -> JsonValue:
    [message] = items(Message(role="user", parts=parts))
    return cast("JsonObject", message)["content"]


def tool_call(
    name: str = "t1", state: ToolCallState = "result", result: JsonValue = 3, **more: JsonValue
) -> ToolCallPart:
    return ToolCallPart(
        tool_call_id=name,
        tool_name="add",
        args={"a": 1},
        state=state,
        result=result,
        model_output=more.get("model_output"),
    )


def body(provider: str = "openai", **call: object) -> dict[str, JsonValue]:
    return responses_body(ModelCall(messages=HI, **call), "m-1", provider=provider)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]  # fields of a call


def with_options(options: JsonObject, provider: str = "openai", **call: object) -> dict[str, JsonValue]:
    return body(provider, provider_options=options, **call)


def test_a_call_becomes_a_body() -> None:
    settings = ModelSettings(temperature=0.5, max_output_tokens=9, top_p=0.9, seed=1, stop_sequences=("x",), top_k=3)

    assert body(tools=[ADD], settings=settings) == snapshot(
        {
            "model": "m-1",
            "input": [{"role": "user", "content": [{"type": "input_text", "text": "hi"}]}],
            "stream": True,
            "temperature": 0.5,
            "max_output_tokens": 9,
            "top_p": 0.9,
            "tools": [
                {
                    "type": "function",
                    "name": "add",
                    "description": "Add.",
                    "parameters": {"type": "object"},
                    "strict": False,
                }
            ],
            "tool_choice": "auto",
        }
    )


@pytest.mark.parametrize(
    ("choice", "written"),
    [
        ("auto", "auto"),
        ("none", "none"),
        ("required", "required"),
        ({"type": "tool", "toolName": "add"}, {"type": "function", "name": "add"}),
        ({"type": "web_search"}, {"type": "web_search"}),
    ],
)
def test_every_form_of_tool_choice_is_written(choice: ToolChoice, written: JsonValue) -> None:
    assert body(tools=[ADD], tool_choice=choice)["tool_choice"] == written


def test_an_answer_of_a_schema_is_asked_for_strictly_where_the_schema_allows_it() -> None:
    closed: JsonObject = {
        "type": "object",
        "title": "My answer",
        "properties": {"a": {"type": "string"}},
        "required": ["a"],
        "additionalProperties": False,
    }

    assert body(response_format=closed)["text"] == {
        "format": {"type": "json_schema", "name": "My_answer", "schema": closed, "strict": True}
    }
    assert body(response_format={"type": "object"})["text"] == {
        "format": {"type": "json_schema", "name": "answer", "schema": {"type": "object"}, "strict": False}
    }


def test_options_are_sent_in_the_servers_spelling_and_our_own_are_kept_back() -> None:
    options: JsonObject = {
        "openai": {
            "previousResponseId": "resp_1",
            "store": False,
            "include": ["reasoning.encrypted_content"],
            "reasoningEffort": "low",
            "reasoning_summary": "auto",
            "textVerbosity": "low",
            "transport": "websocket",
            "websocket": {"url": "ws://x"},
            "stream": False,
            "model": "other",
        },
        "anthropic": {"x": 1},
    }

    written = with_options(options, response_format={"type": "object"})

    assert {key: value for key, value in written.items() if key not in ("input", "text")} == {
        "model": "m-1",
        "stream": True,
        "previous_response_id": "resp_1",
        "store": False,
        "include": ["reasoning.encrypted_content"],
        "reasoning": {"effort": "low", "summary": "auto"},
    }
    assert cast("JsonObject", written["text"])["verbosity"] == "low"
    assert "format" in cast("JsonObject", written["text"])


def test_the_providers_own_options_come_last() -> None:
    options: JsonObject = {"openai": {"store": True, "user": "u"}, "azure": {"store": False, "useResponsesAPI": True}}

    written = with_options(options, provider="azure")

    assert (written["store"], written["user"]) == (False, "u")
    assert "use_responses_api" not in written


def test_the_servers_own_tools_join_those_of_the_call() -> None:
    options: JsonObject = {"openai": {"tools": [{"type": "web_search"}], "tool_choice": "required"}}

    written = with_options(options, tools=[ADD])

    assert [cast("JsonObject", tool)["type"] for tool in cast("list[JsonValue]", written["tools"])] == [
        "function",
        "web_search",
    ]
    assert written["tool_choice"] == "required"


def test_system_messages_at_the_beginning_are_the_instructions() -> None:
    system = [Message(role="system", parts=(TextPart(text),)) for text in ("Be brief.", "", "Be kind.")]
    late = Message(role="system", parts=(TextPart("Hurry."),))

    instructions, written = responses_input([*system, *HI, late], provider="openai")

    assert instructions == "Be brief.\n\nBe kind."
    assert written == [
        {"role": "user", "content": [{"type": "input_text", "text": "hi"}]},
        {"role": "system", "content": "Hurry."},
    ]


@pytest.mark.parametrize(
    ("part", "written"),
    [
        (FilePart(media_type="image/png", data="aGk="), ("input_image", {"image_url": "data:image/png;base64,aGk="})),
        (FilePart(media_type="image/*", url="http://x/i"), ("input_image", {"image_url": "http://x/i"})),
        (
            FilePart(media_type="audio/wav", data="aGk="),
            ("input_audio", {"input_audio": {"data": "aGk=", "format": "wav"}}),
        ),
        (FilePart(media_type="application/pdf", url="http://x/f"), ("input_file", {"file_url": "http://x/f"})),
        (
            FilePart(media_type="application/pdf", data="aGk=", filename="a.pdf"),
            ("input_file", {"filename": "a.pdf", "file_data": "data:application/pdf;base64,aGk="}),
        ),
        (
            FilePart(media_type="text/csv", data="aGk=", filename="a.csv"),
            ("input_text", {"text": "[attached file a.csv]\nhi"}),
        ),
        (FilePart(media_type="application/pdf"), ("input_text", {"text": "[file file without content]"})),
    ],
)
def test_files_go_in(part: FilePart, written: tuple[str, JsonObject]) -> None:
    assert user(part, StepStartPart()) == [{"type": written[0], **written[1]}]


def test_an_assistant_turn_becomes_items_with_the_results_after_the_calls_of_a_step() -> None:
    written = assistant(
        TextPart("Let me "),
        TextPart("see."),
        tool_call("t1"),
        tool_call("t2", "output-error"),
        StepStartPart(),
        TextPart("Now."),
        tool_call("t3", "call"),
    )

    assert written == snapshot(
        [
            {"role": "assistant", "content": "Let me see."},
            {"type": "function_call", "call_id": "t1", "name": "add", "arguments": '{"a":1}'},
            {"type": "function_call", "call_id": "t2", "name": "add", "arguments": '{"a":1}'},
            {"type": "function_call_output", "call_id": "t1", "output": "3"},
            {"type": "function_call_output", "call_id": "t2", "output": "The tool failed."},
            {"role": "assistant", "content": "Now."},
            {"type": "function_call", "call_id": "t3", "name": "add", "arguments": '{"a":1}'},
            {"type": "function_call_output", "call_id": "t3", "output": "No result: the call was not finished."},
        ]
    )


def test_reasoning_goes_back_to_the_provider_that_encrypted_it() -> None:
    ours = ReasoningPart("Hm.", {"openai": {"item_id": "rs_1", "encrypted_content": "e1"}})
    silent = ReasoningPart("", {"openai": {"encrypted_content": "e2"}})
    other = ReasoningPart("Hm.", {"azure": {"encrypted_content": "e3"}})

    assert assistant(ours, silent, other, ReasoningPart("Plain."), TextPart("Hi.")) == [
        {"type": "reasoning", "summary": [{"type": "summary_text", "text": "Hm."}], "encrypted_content": "e1"},
        {"type": "reasoning", "summary": [], "encrypted_content": "e2"},
        {"role": "assistant", "content": "Hi."},
    ]


def test_images_in_a_tools_result_are_shown_as_images() -> None:
    image: JsonObject = {"type": "media", "data": "aGk=", "mediaType": "image/png"}
    text: JsonObject = {"type": "text", "text": "See:"}

    def output(*value: JsonValue) -> JsonValue:
        part = tool_call(model_output={"type": "content", "value": list(value)})
        return cast("JsonObject", assistant(part)[1])["output"]

    assert output(text, image, 3, {"type": "odd"}) == [
        {"type": "input_text", "text": "See:"},
        {"type": "input_image", "image_url": "data:image/png;base64,aGk="},
    ]
    assert output(text) == "See:"


def wish(options: JsonObject | None, provider: str = "openai") -> Wish:
    return read_wish(options, provider, default="fetch", http_url="https://api.test/v1/responses")


def test_a_socket_has_the_address_of_the_server_unless_one_is_given() -> None:
    assert wish(None) == Wish(transport="fetch", url="wss://api.test/v1/responses", close_on_finish=False)
    assert wish({"openai": {"transport": "websocket"}}).close_on_finish
    assert not wish({"openai": {"transport": "auto"}}).close_on_finish
    assert wish({"openai": {"transport": "auto", "websocket": {"url": "ws://x:1/r", "closeOnFinish": True}}}) == Wish(
        transport="auto", url="ws://x:1/r", close_on_finish=True
    )
    assert (
        wish({"openai": {"transport": "auto"}, "azure": {"transport": "websocket"}}, "azure").transport == "websocket"
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"transport": "pigeon"}, "transport 'pigeon' is not known"),
        ({"websocket": {"url": "ftp://x"}}, "does not begin with wss://"),
        ({"websocket": {"url": "ws://"}}, "does not begin with wss://"),
    ],
)
def test_a_transport_that_is_none_is_refused(options: JsonObject, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        wish({"openai": options})
