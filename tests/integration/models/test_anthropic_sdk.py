"""Anthropic's own SDK reads what our loopback server says, and knows what our adapter asks: a check of both."""

import importlib
import json
import typing
from collections.abc import AsyncIterator
from typing import Any, cast

import anyio
import pytest

from bascule.messages import FilePart, Message, ReasoningPart, TextPart, ToolCallPart, normalize
from bascule.models import ModelCall, ModelSettings, ModelTool
from bascule.models._anthropic_request import messages_body
from tests.integration.models.anthropic_wire import (
    BEGIN,
    PING,
    STOP,
    answer,
    block,
    broke,
    close,
    delta,
    end,
    said,
    sse,
    thought,
)
from tests.integration.models.loopback import LoopbackServer, Reply, failure, running_server

pytest.importorskip("anthropic", reason="the anthropic SDK is not installed: pip install anthropic")
sdk: Any = importlib.import_module("anthropic")  # the types of an optional peer

ASK: dict[str, Any] = {"model": "m-1", "max_tokens": 100, "messages": [{"role": "user", "content": "hi"}]}


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"  # the only one that the SDK is made for


@pytest.fixture
async def server() -> AsyncIterator[LoopbackServer]:
    async with running_server() as running:
        yield running


async def ask(server: LoopbackServer, *replies: Reply) -> Any:
    """Return the message that the SDK makes of the server's answer."""
    server.replies.extend(replies)
    url = server.url.removesuffix("/v1")
    async with sdk.AsyncAnthropic(base_url=url, api_key="k", max_retries=len(replies) - 1) as client:
        with anyio.fail_after(10):
            async with client.messages.stream(**ASK) as stream:
                return await stream.get_final_message()


async def test_a_rich_answer_is_read(server: LoopbackServer) -> None:
    hidden = [block(1, type="redacted_thinking", data="r1"), close(1)]
    text = [block(2, type="text", text=""), delta(2, "text_delta", text="Hm."), close(2)]
    tool = [
        block(3, type="tool_use", id="toolu_1", name="add", input={}),
        delta(3, "input_json_delta", partial_json='{"a"'),
        delta(3, "input_json_delta", partial_json=":1}"),
        close(3),
    ]
    events = [BEGIN, PING, *thought(0, "Sum.", "sig"), *hidden, *text, *tool, end("tool_use"), STOP]

    message = await ask(server, Reply(pieces=[sse(*events)]))

    thinking, redacted, said_text, call = message.content
    assert (thinking.thinking, thinking.signature) == ("Sum.", "sig")
    assert redacted.data == "r1"
    assert said_text.text == "Hm."
    assert (call.id, call.name, call.input) == ("toolu_1", "add", {"a": 1})
    assert message.stop_reason == "tool_use"
    assert (message.id, message.usage.input_tokens, message.usage.output_tokens) == ("msg_1", 7, 3)


async def test_an_overloaded_server_is_asked_again(server: LoopbackServer) -> None:
    message = await ask(server, failure(529, "Overloaded", retry_after="0"), answer("ok"))

    assert message.content[0].text == "ok"


async def test_an_error_inside_the_stream_is_an_error(server: LoopbackServer) -> None:
    events = sse(BEGIN, block(0, type="text", text=""), said("Good"), broke("overloaded_error"))

    with pytest.raises(sdk.APIStatusError, match="Overloaded"):
        await ask(server, Reply(pieces=[events]))


def rich_call() -> ModelCall:
    """Return a call with something of everything."""
    turn = Message(
        role="assistant",
        parts=(
            ReasoningPart("hm", {"anthropic": {"signature": "s"}}),
            ReasoningPart("", {"anthropic": {"redactedData": "r"}}),
            TextPart("Let me."),
            ToolCallPart(tool_call_id="t1", tool_name="add", args={"a": 1}, state="result", result=1),
            ToolCallPart(tool_call_id="t2", tool_name="add", args={"a": 1}, state="output-error", error="bad"),
        ),
    )
    files = (
        FilePart(media_type="image/png", data="aGk="),
        FilePart(media_type="image/png", url="https://x/a.png"),
        FilePart(media_type="application/pdf", data="aGk=", filename="a.pdf"),
        FilePart(media_type="application/pdf", url="https://x/a.pdf"),
        FilePart(media_type="text/plain", data="aGk="),
    )
    return ModelCall(
        messages=[
            Message(role="system", parts=(TextPart("Be brief."),)),
            *normalize("hi"),
            turn,
            Message(role="user", parts=(TextPart("see"), *files)),
        ],
        tools=[ModelTool(name="add", description="Add.", input_schema={"type": "object"})],
        tool_choice={"type": "tool", "toolName": "add"},
        settings=ModelSettings(temperature=1, top_p=0.5, top_k=3, stop_sequences=("END",)),
        response_format={"type": "object", "properties": {}},
        provider_options={
            "anthropic": {
                "cacheControl": {"type": "ephemeral"},
                "thinking": {"type": "enabled", "budgetTokens": 2000},
                "disableParallelToolUse": True,
                "effort": "low",
                "metadata": {"userId": "u1"},
            }
        },
    )


async def test_what_our_adapter_asks_is_what_the_sdk_would_ask() -> None:
    pydantic: Any = importlib.import_module("pydantic")
    params: Any = importlib.import_module("anthropic.types.message_create_params")
    body = messages_body(rich_call(), "m-1", provider="anthropic", max_tokens=100)

    def through(kind: Any, value: object) -> object:
        """Return what is left of a value after a way through the SDK's types, which lose what they do not know."""
        form = pydantic.TypeAdapter(kind)
        return json.loads(form.dump_json(form.validate_python(value)))

    form = params.MessageCreateParamsStreaming
    pydantic.TypeAdapter(form).validate_python(body)
    sampling = {"temperature", "top_p", "top_k"}  # only older models take these
    assert body.keys() - sampling <= typing.get_type_hints(form).keys()
    for message in cast("list[dict[str, list[object]]]", body["messages"]):
        assert [through(sdk.types.ContentBlockParam, content) for content in message["content"]] == message["content"]
    for name in ("system", "tools", "tool_choice", "thinking", "output_config", "metadata"):
        assert name in body
    assert through(list[sdk.types.ToolUnionParam], body["tools"]) == body["tools"]
    assert through(list[sdk.types.TextBlockParam], body["system"]) == body["system"]
    assert through(sdk.types.ToolChoiceParam, body["tool_choice"]) == body["tool_choice"]
    assert through(sdk.types.ThinkingConfigParam, body["thinking"]) == body["thinking"]
    assert through(sdk.types.OutputConfigParam, body["output_config"]) == body["output_config"]
