import base64
import json
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from typing import Any

import anyio
import pytest

from bascule.errors import ConfigurationError, ModelError
from bascule.messages import (
    FilePart,
    JsonObject,
    JsonValue,
    Message,
    Part,
    ReasoningPart,
    TextPart,
    ToolCallPart,
    normalize,
)
from bascule.models import (
    File,
    Finish,
    LanguageModel,
    ModelCall,
    ModelPart,
    ModelSettings,
    ModelTool,
    PydanticAIModel,
    Raw,
    ReasoningDelta,
    TextDelta,
    ToolCall,
    ToolCallDelta,
    resolve_model,
)

pytest.importorskip("pydantic_ai", reason="the extra pydantic-ai is not installed")

from pydantic_ai import exceptions, messages
from pydantic_ai.models import Model, ModelRequestParameters
from pydantic_ai.models.function import AgentInfo, DeltaThinkingPart, DeltaToolCall, FunctionModel
from pydantic_ai.models.test import TestModel
from pydantic_ai.settings import ModelSettings as TheirSettings
from pydantic_ai.usage import RequestUsage

Item = str | dict[int, DeltaToolCall] | dict[int, DeltaThinkingPart]
ADD = ModelTool(
    name="add", description="Add.", input_schema={"type": "object", "properties": {"a": {"type": "integer"}}}
)


class Asked:
    """A stream function that says what it is told and keeps what it was asked."""

    def __init__(self, *items: Item | Exception) -> None:
        self.items = items
        self.messages: list[messages.ModelMessage] = []
        self.info: AgentInfo | None = None

    async def __call__(self, given: list[messages.ModelMessage], info: AgentInfo) -> AsyncIterator[Any]:
        self.messages, self.info = given, info
        for item in self.items:
            if isinstance(item, Exception):
                raise item
            yield item


def bridged(asked: Asked) -> PydanticAIModel:
    return PydanticAIModel(FunctionModel(stream_function=asked, model_name="f-1"))


async def collect(model: LanguageModel, call: ModelCall | None = None) -> list[ModelPart]:
    with anyio.fail_after(10):
        return [part async for part in model.stream(call or ModelCall(messages=normalize("hi")))]


async def sent(*prompt: Message, **more: Any) -> list[messages.ModelMessage]:
    """Return the messages that the model is asked."""
    asked = Asked("x")
    await collect(bridged(asked), ModelCall(messages=prompt, **more))
    return asked.messages


def says(role: Any, *parts: Part) -> Message:
    return Message(role=role, parts=parts)


def parts_of(message: messages.ModelMessage) -> Sequence[Any]:
    return message.parts


async def failed(asked: Asked) -> ModelError:
    with pytest.raises(ModelError) as caught:
        await collect(bridged(asked))
    return caught.value


# --- what comes back ---


async def test_text_is_streamed_as_it_comes() -> None:
    *deltas, finish = await collect(bridged(Asked("Good", "bye")))

    assert deltas == [TextDelta("Good"), TextDelta("bye")]
    assert isinstance(finish, Finish)
    assert (finish.reason, finish.response_model) == ("stop", "f-1")
    assert finish.usage.output_tokens > 0


async def test_thinking_keeps_what_its_provider_wants_back() -> None:
    parts = await collect(
        bridged(Asked({0: DeltaThinkingPart(content="h")}, {0: DeltaThinkingPart(content="m", signature="s1")}))
    )

    assert parts[:2] == [ReasoningDelta("h"), ReasoningDelta("m")]
    kept = parts[2]
    assert isinstance(kept, ReasoningDelta)
    assert kept == ReasoningDelta("", {"pydanticAi": {"signature": "s1", "providerName": "function"}})
    [_, response, _] = await sent(
        *normalize("a"), says("assistant", ReasoningPart("hm", kept.provider_metadata), TextPart("x")), *normalize("b")
    )
    assert parts_of(response)[0] == messages.ThinkingPart("hm", signature="s1", provider_name="function")


async def test_a_tool_call_is_told_in_pieces_and_whole() -> None:
    parts = await collect(
        bridged(
            Asked(
                {0: DeltaToolCall(name="add", json_args='{"a"', tool_call_id="t1")},
                {0: DeltaToolCall(json_args=":1}")},
            )
        ),
        ModelCall(messages=normalize("go"), tools=[ADD]),
    )

    assert parts[:3] == [
        ToolCallDelta("t1", "add", '{"a"'),
        ToolCallDelta("t1", "add", ":1}"),
        ToolCall("t1", "add", '{"a":1}'),
    ]
    assert isinstance(parts[3], Finish)
    assert parts[3].reason == "tool-calls"


async def test_calls_that_are_written_side_by_side_are_whole_each() -> None:
    parts = await collect(
        bridged(
            Asked(
                {0: DeltaToolCall(name="add", json_args='{"a"', tool_call_id="t1")},
                {1: DeltaToolCall(name="add", json_args='{"a":2}', tool_call_id="t2")},
                {0: DeltaToolCall(json_args=":1}")},
            )
        )
    )

    assert {part for part in parts if isinstance(part, ToolCall)} == {
        ToolCall("t1", "add", '{"a":1}'),
        ToolCall("t2", "add", '{"a":2}'),
    }


async def test_arguments_that_are_no_json_are_told_as_they_are() -> None:
    parts = await collect(bridged(Asked({0: DeltaToolCall(name="add", json_args="{bro", tool_call_id="t1")})))

    assert ToolCall("t1", "add", "{bro") in parts


@pytest.mark.requirement("A22")
async def test_raw_events_are_sent_when_they_are_wanted() -> None:
    parts = await collect(bridged(Asked("x")), ModelCall(messages=normalize("hi"), include_raw=True))

    raw = parts[0]
    assert isinstance(raw, Raw)
    assert json.loads(json.dumps(raw.value))["event_kind"] == "part_start"


# --- what is asked ---


async def test_a_conversation_is_asked_in_their_form() -> None:
    call = ToolCallPart(tool_call_id="t1", tool_name="add", args={"a": 1}, state="result", result={"sum": 1})
    denied = ToolCallPart(tool_call_id="t2", tool_name="add", args=None, state="output-denied")
    broken = ToolCallPart(tool_call_id="t3", tool_name="add", args="{x", state="output-error", error="bad")

    first, response, second, last, end = await sent(
        says("system", TextPart("Be brief.")),
        *normalize("go"),
        says("assistant", ReasoningPart("dropped"), TextPart("Well."), call, denied, broken, TextPart("Done.")),
        says("signal", TextPart("and?")),
    )

    assert [type(part).__name__ for part in parts_of(first)] == ["SystemPromptPart", "UserPromptPart"]
    assert parts_of(first)[1].content == "go"
    assert parts_of(response)[0] == messages.TextPart("Well.")
    assert [(part.tool_name, part.args, part.tool_call_id) for part in parts_of(response)[1:]] == [
        ("add", '{"a":1}', "t1"),
        ("add", "{}", "t2"),
        ("add", '{"invalid_arguments":"{x"}', "t3"),
    ]
    assert [(part.content, part.outcome) for part in parts_of(second)] == [
        ('{"sum":1}', "success"),
        ("The call was not approved, so the tool did not run.", "denied"),
        ("bad", "failed"),
    ]
    assert parts_of(last) == [messages.TextPart("Done.")]
    assert parts_of(end)[0].content == "and?"


@pytest.mark.parametrize(
    ("part", "item"),
    [
        (
            FilePart(media_type="image/*", data=base64.b64encode(b"hi").decode()),
            messages.BinaryContent(b"hi", media_type="image/png"),
        ),
        (
            FilePart(media_type="application/pdf", url="data:application/pdf;base64,aGk="),
            messages.BinaryContent(b"hi", media_type="application/pdf"),
        ),
        (FilePart(media_type="image/png", url="http://x/a"), messages.ImageUrl("http://x/a", media_type="image/png")),
        (FilePart(media_type="audio/mpeg", url="http://x/a"), messages.AudioUrl("http://x/a", media_type="audio/mpeg")),
        (FilePart(media_type="video/mp4", url="http://x/a"), messages.VideoUrl("http://x/a", media_type="video/mp4")),
        (
            FilePart(media_type="application/pdf", url="http://x/a"),
            messages.DocumentUrl("http://x/a", media_type="application/pdf"),
        ),
        (FilePart(media_type="text/plain", data="not base64!"), "not base64!"),
    ],
)
async def test_files_are_asked_in_the_form_for_their_kind(part: FilePart, item: object) -> None:
    [request] = await sent(says("user", TextPart("see"), part))

    assert parts_of(request)[0].content == ["see", item]


async def test_a_tool_may_answer_with_pictures() -> None:
    output: JsonValue = {
        "type": "content",
        "value": [{"type": "text", "text": "see"}, {"type": "media", "mediaType": "image/png", "data": "aGk="}],
    }
    call = ToolCallPart(tool_call_id="t1", tool_name="add", args={}, state="result", result=1, model_output=output)

    _, _, request = await sent(*normalize("go"), says("assistant", call))

    assert parts_of(request)[0].content == ["see", messages.BinaryContent(b"hi", media_type="image/png")]


async def test_tools_settings_and_options_reach_the_model() -> None:
    asked = Asked("x")
    call = ModelCall(
        messages=normalize("hi"),
        tools=[ADD],
        tool_choice={"type": "tool", "toolName": "add"},
        settings=ModelSettings(temperature=0, max_output_tokens=5, stop_sequences=("END",), headers={"X-A": "1"}),
        provider_options={"function": {"someOption": 1}, "pydantic_ai": {"parallel_tool_calls": False}},
    )

    await collect(bridged(asked), call)

    assert asked.info is not None
    [tool] = asked.info.function_tools
    assert (tool.name, tool.description, tool.parameters_json_schema) == ("add", "Add.", dict(ADD.input_schema))
    assert asked.info.model_settings == {
        "temperature": 0,
        "max_tokens": 5,
        "stop_sequences": ["END"],
        "extra_headers": {"X-A": "1"},
        "tool_choice": ["add"],
        "function_some_option": 1,
        "parallel_tool_calls": False,
    }


async def test_an_answer_can_be_held_to_a_schema() -> None:
    asked = Asked("{}")
    schema: JsonObject = {"type": "object", "title": "Answer"}

    await collect(bridged(asked), ModelCall(messages=normalize("hi"), response_format=schema))

    assert asked.info is not None
    parameters = asked.info.model_request_parameters
    assert parameters.output_mode == "native"
    assert parameters.output_object is not None
    assert (parameters.output_object.json_schema, parameters.output_object.name) == (schema, "Answer")


# --- errors ---


@pytest.mark.parametrize(
    ("error", "kind", "status", "retryable"),
    [
        (exceptions.ModelHTTPError(503, "f-1", {"e": 1}), "server", 503, True),
        (exceptions.ModelHTTPError(400, "f-1"), "bad_request", 400, False),
        (
            exceptions.ModelHTTPError.for_category(
                exceptions.ModelRateLimitError, status_code=429, model_name="f-1", retry_after=2.0
            ),
            "rate_limit",
            429,
            True,
        ),
        (
            exceptions.ModelHTTPError.for_category(
                exceptions.ModelAuthenticationError, status_code=401, model_name="f-1"
            ),
            "auth",
            401,
            False,
        ),
        (exceptions.UnexpectedModelBehavior("odd"), "protocol", None, False),
        (TimeoutError(), "timeout", None, True),
        (RuntimeError("broke"), "other", None, False),
    ],
)
async def test_what_goes_wrong_is_a_model_error(
    error: Exception, kind: str, status: int | None, retryable: bool
) -> None:
    told = await failed(Asked("Good", error))

    assert (told.kind, told.status, told.retryable) == (kind, status, retryable)
    assert "function (f-1)" in str(told)
    assert told.__cause__ is error
    if isinstance(error, exceptions.ModelRateLimitError):
        assert told.retry_after == 2.0


async def test_a_mistake_in_the_middle_is_not_asked_again() -> None:
    told = await failed(Asked("Good", NotImplementedError("later")))

    assert "later" in str(told)


# --- their other models ---


class Whole(Model):
    """A model that cannot stream."""

    def __init__(self, *parts: messages.ModelResponsePart) -> None:
        super().__init__()
        self.parts = parts

    @property
    def model_name(self) -> str:
        return "whole-1"

    @property
    def system(self) -> str:
        return "acme"

    async def request(
        self,
        messages: list[messages.ModelMessage],
        model_settings: TheirSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> Any:
        return _response(self.parts)


def _response(parts: Sequence[messages.ModelResponsePart]) -> messages.ModelResponse:
    return messages.ModelResponse(
        parts,
        usage=RequestUsage(input_tokens=10, cache_read_tokens=4, output_tokens=3, output_reasoning_tokens=1),
        finish_reason="length",
        provider_response_id="r1",
        provider_details={"tier": "t"},
    )


async def test_a_model_that_cannot_stream_answers_at_once() -> None:
    picture = messages.FilePart(messages.BinaryContent(b"hi", media_type="image/png"))
    model = PydanticAIModel(Whole(messages.TextPart("Hm."), messages.ToolCallPart("add", {"a": 1}, "t1"), picture))

    parts = await collect(model)

    assert parts[:-1] == [
        TextDelta("Hm."),
        ToolCallDelta("t1", "add", '{"a":1}'),
        ToolCall("t1", "add", '{"a":1}'),
        File("image/png", "aGk="),
    ]
    finish = parts[-1]
    assert isinstance(finish, Finish)
    assert (finish.reason, finish.provider_metadata, finish.response_id) == ("length", {"acme": {"tier": "t"}}, "r1")
    usage = finish.usage
    assert (usage.input_tokens, usage.cached_input_tokens, usage.output_tokens, usage.reasoning_tokens) == (10, 4, 3, 1)


async def test_their_test_model_calls_the_tool_and_then_answers() -> None:
    model = resolve_model(TestModel())
    call = ModelCall(messages=normalize("go"), tools=[ADD])

    [made] = [part for part in await collect(model, call) if isinstance(part, ToolCall)]
    turn = ToolCallPart(tool_call_id=made.id, tool_name="add", args=made.arguments, state="result", result=3)
    parts = await collect(model, ModelCall(messages=[*normalize("go"), says("assistant", turn)], tools=[ADD]))

    assert made.name == "add"
    assert "".join(part.text for part in parts if isinstance(part, TextDelta)) == '{"add":"3"}'
    assert isinstance(model, PydanticAIModel)
    assert (model.provider, model.model_id) == ("test", "test")


# --- names ---


def test_what_a_model_can_do_is_theirs_to_say() -> None:
    model = bridged(Asked())

    assert (model.capabilities.native_json, model.capabilities.tools) == (True, True)
    assert repr(model) == "PydanticAIModel('f-1', provider='function')"


@pytest.mark.parametrize(
    ("spec", "provider", "model_id"),
    [
        ("google/gemini-2.5-flash", "google", "gemini-2.5-flash"),
        ("gemini:gemini-2.5-flash", "google", "gemini-2.5-flash"),
        ("bedrock/us.meta.llama:0", "bedrock", "us.meta.llama:0"),
        ("cerebras/llama", "cerebras", "llama"),
    ],
)
def test_a_provider_that_only_they_know_is_theirs(spec: str, provider: str, model_id: str) -> None:
    model = resolve_model(spec)

    assert isinstance(model, PydanticAIModel)
    assert (model.provider, model.model_id) == (provider, model_id)


async def test_a_model_that_cannot_be_made_says_why_at_the_first_call() -> None:
    with pytest.raises(ModelError, match="cannot make the model 'nonsense:m'"):
        await collect(PydanticAIModel("nonsense:m"))


@pytest.mark.parametrize("given", ["gpt-4o", ":m", "google:"])
def test_a_name_without_a_provider_is_refused(given: str) -> None:
    with pytest.raises(ConfigurationError, match="names no provider"):
        PydanticAIModel(given)


def test_another_object_is_refused_with_what_is_accepted() -> None:
    with pytest.raises(ConfigurationError, match=r"int is no model of pydantic-ai.*pydantic_ai\.models\.Model"):
        PydanticAIModel(3)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]  # that is the mistake


# --- without the package ---


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout


def test_naming_a_model_loads_nothing_of_theirs() -> None:
    code = (
        "import sys; from bascule.models import resolve_model; resolve_model('google/g')\n"
        "print('pydantic_ai' in sys.modules)"
    )

    assert run(code) == "False\n"


@pytest.mark.parametrize("spec", ["google/gemini-2.5-flash", "acme/m"])
def test_without_the_package_the_extra_is_named(spec: str) -> None:
    code = (
        "import sys; sys.modules['pydantic_ai'] = None\n"
        "from bascule.models import PydanticAIModel, resolve_model\n"
        f"for make in (resolve_model, PydanticAIModel):\n"
        f"    try: make({spec!r})\n"
        "    except Exception as error: print(type(error).__name__, error)\n"
    )

    lines = run(code).splitlines()

    assert len(lines) == 2
    assert all(line.startswith("ConfigurationError") for line in lines)
    assert all("pip install bascule[pydantic-ai]" in line for line in lines)
