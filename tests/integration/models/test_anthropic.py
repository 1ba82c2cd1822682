import gzip
import json
import socket
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import cast

import anyio
import anyio.from_thread
import pytest

from bascule import Agent, tool
from bascule.errors import ConfigurationError, ModelError
from bascule.messages import JsonObject, Message, ReasoningPart, TextPart, ToolCallPart, normalize
from bascule.models import (
    AnthropicMessages,
    Finish,
    ModelCall,
    ModelCapabilities,
    ModelPart,
    ModelSettings,
    ModelTool,
    ReasoningDelta,
    TextDelta,
    ToolCall,
    Usage,
    resolve_model,
)
from bascule.stream import RawChunk
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

CALL = ModelCall(messages=normalize("hi"))
ADD = ModelTool(name="add", description="Add.", input_schema={"type": "object"})

DONE = Finish("stop", Usage(input_tokens=7, output_tokens=3), response_id="msg_1", response_model="m-1")


@pytest.fixture
async def server() -> AsyncIterator[LoopbackServer]:
    async with running_server() as running:
        yield running


@pytest.fixture
async def model(server: LoopbackServer) -> AsyncIterator[AnthropicMessages]:
    made = AnthropicMessages("m-1", base_url=server.url, api_key="sk-ant-secret-1", retry_backoff=0)
    yield made
    await made.aclose()


async def collect(model: AnthropicMessages, call: ModelCall = CALL) -> list[ModelPart]:
    with anyio.fail_after(5):
        return [part async for part in model.stream(call)]


async def read(model: AnthropicMessages, parts: list[ModelPart]) -> None:
    """Keep the parts that come before an error."""
    async for part in model.stream(CALL):
        parts.append(part)  # noqa: PERF401  # a comprehension would lose them


async def refused(model: AnthropicMessages) -> ModelError:
    with pytest.raises(ModelError) as caught:
        await collect(model)
    return caught.value


async def test_an_answer_is_streamed_with_usage_id_and_model(server: LoopbackServer, model: AnthropicMessages) -> None:
    head = sse(BEGIN, PING, block(0, type="text", text=""), said("Good"))
    server.replies.append(Reply(pieces=[head, sse(said("bye"), close(0), end(), STOP)]))

    assert await collect(model) == [TextDelta("Good"), TextDelta("bye"), DONE]


async def test_the_request_carries_key_version_headers_and_body(
    server: LoopbackServer, model: AnthropicMessages
) -> None:
    server.replies.append(answer())
    settings = ModelSettings(temperature=0.5, max_output_tokens=9, headers={"X-Trace": "t1"})
    options = {"anthropic": {"betas": ["one", "two"]}}

    await collect(model, ModelCall(messages=normalize("hi"), settings=settings, provider_options=options))

    [seen] = server.requests
    assert seen.path == "/v1/messages"
    names = ("x-api-key", "anthropic-version", "anthropic-beta", "x-trace", "content-type")
    assert [seen.headers[name] for name in names] == [
        "sk-ant-secret-1",
        "2023-06-01",
        "one,two",
        "t1",
        "application/json",
    ]
    assert "authorization" not in seen.headers
    assert seen.body == {
        "model": "m-1",
        "max_tokens": 9,
        "stream": True,
        "messages": [{"role": "user", "content": [{"type": "text", "text": "hi"}]}],
        "temperature": 0.5,
    }


async def test_an_answer_has_a_limit_when_the_call_sets_none(server: LoopbackServer) -> None:
    model = AnthropicMessages("m-1", base_url=server.url, max_tokens=77)
    server.replies.append(answer())

    await collect(model)
    await model.aclose()

    assert server.requests[0].body["max_tokens"] == 77


async def test_a_call_with_thinking_goes_on_after_its_tool(server: LoopbackServer, model: AnthropicMessages) -> None:
    tool_use = [
        block(1, type="tool_use", id="toolu_1", name="add", input={}),
        delta(1, "input_json_delta", partial_json='{"a":1}'),
        close(1),
    ]
    server.replies.extend(
        [Reply(pieces=[sse(BEGIN, *thought(0, "Sum.", "sig"), *tool_use, end("tool_use"), STOP)]), answer("1")]
    )

    first = await collect(model, ModelCall(messages=normalize("go"), tools=[ADD]))

    reasoning = [part for part in first if isinstance(part, ReasoningDelta)]
    [call] = [part for part in first if isinstance(part, ToolCall)]
    reasoned = ReasoningPart("".join(part.text for part in reasoning), reasoning[-1].provider_metadata)
    made = ToolCallPart(tool_call_id=call.id, tool_name=call.name, args={"a": 1}, state="result", result=1)
    turn = Message(role="assistant", parts=(reasoned, made))
    await collect(model, ModelCall(messages=[*normalize("go"), turn], tools=[ADD]))

    assert server.requests[1].body["messages"][1:] == [
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "Sum.", "signature": "sig"},
                {"type": "tool_use", "id": "toolu_1", "name": "add", "input": {"a": 1}},
            ],
        },
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "1"}]},
    ]


async def test_an_agent_sends_every_block_of_thinking_back_unchanged(
    server: LoopbackServer, model: AnthropicMessages
) -> None:
    hidden = [block(2, type="redacted_thinking", data="r1"), close(2)]
    made = [block(3, type="tool_use", id="toolu_1", name="add", input={"a": 1, "b": 2}), close(3)]
    events = [BEGIN, *thought(0, "One.", "s1"), *thought(1, "Two.", "s2"), *hidden, *made, end("tool_use"), STOP]
    server.replies.extend([Reply(pieces=[sse(*events)]), answer("3")])

    @tool
    def add(a: int, b: int) -> int:
        """Add."""
        return a + b

    with anyio.fail_after(5):
        result = await Agent("tutor", model=model, tools=[add]).generate("go")

    assert result.text == "3"
    assert server.requests[1].body["messages"][1]["content"] == [
        {"type": "thinking", "thinking": "One.", "signature": "s1"},
        {"type": "thinking", "thinking": "Two.", "signature": "s2"},
        {"type": "redacted_thinking", "data": "r1"},
        {"type": "tool_use", "id": "toolu_1", "name": "add", "input": {"a": 1, "b": 2}},
    ]


@pytest.mark.requirement("A35")
async def test_an_agents_provider_options_reach_the_server_they_name(
    server: LoopbackServer, model: AnthropicMessages
) -> None:
    thinking = {"type": "adaptive", "display": "summarized"}
    options: JsonObject = {"anthropic": {"thinking": thinking, "container": "c1"}, "openai": {"user": "u1"}}
    server.replies.append(answer())

    await Agent("tutor", model=model).generate("hi", provider_options=options)

    body = server.requests[0].body
    assert (body["thinking"], body["container"]) == (thinking, "c1")
    assert "user" not in body


@pytest.mark.requirement("A22")
async def test_an_agent_shows_the_events_of_the_server_on_request(
    server: LoopbackServer, model: AnthropicMessages
) -> None:
    server.replies.append(answer("ok"))

    chunks = [chunk async for chunk in Agent("tutor", model=model).stream("hi", include_raw_chunks=True)]

    raw = [chunk.value for chunk in chunks if isinstance(chunk, RawChunk)]
    assert raw == [BEGIN, PING, block(0, type="text", text=""), said("ok"), close(0), end(), STOP]


@pytest.mark.parametrize("status", [408, 409, 429, 500, 503, 529])
async def test_a_failure_that_may_pass_is_tried_again(
    server: LoopbackServer, model: AnthropicMessages, status: int
) -> None:
    server.replies.extend([failure(status, "busy", retry_after="0"), failure(status, "busy"), answer()])

    assert await collect(model) == [TextDelta("ok"), DONE]
    assert len(server.requests) == 3


@pytest.mark.parametrize(("status", "kind", "advice"), [(429, "rate_limit", "Try again"), (529, "server", "later")])
async def test_the_last_failure_is_raised_with_what_the_server_said(
    server: LoopbackServer, model: AnthropicMessages, status: int, kind: str, advice: str
) -> None:
    body = json.dumps({"type": "error", "error": {"type": "t", "message": "slow down"}, "request_id": "req_1"})
    reply = Reply(
        status=status, headers={"retry-after": "0.001"}, pieces=[body.encode()], content_type="application/json"
    )
    server.replies.extend([reply] * 3)

    error = await refused(model)

    assert (error.kind, error.status, error.retry_after) == (kind, status, 0.001)
    assert error.raw == json.loads(body)
    assert "slow down" in str(error)
    assert advice in str(error)
    assert len(server.requests) == 3


async def test_a_wait_longer_than_a_minute_is_left_to_the_caller(
    server: LoopbackServer, model: AnthropicMessages
) -> None:
    server.replies.append(failure(429, "tomorrow", retry_after="86400"))

    assert (await refused(model)).retry_after == 86400
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("status", "kind", "advice"),
    [
        (400, "bad_request", "refused the request"),
        (401, "auth", "Pass a valid api_key"),
        (403, "auth", "what the API key may do"),
        (404, "not_found", "the model's name and the base URL. "),
        (413, "bad_request", "refused the request"),
    ],
)
async def test_a_refusal_is_final_and_says_what_to_do(
    server: LoopbackServer, model: AnthropicMessages, status: int, kind: str, advice: str
) -> None:
    server.replies.append(failure(status, "no"))

    error = await refused(model)

    assert (error.kind, error.status, error.retryable) == (kind, status, False)
    assert advice in str(error)
    assert len(server.requests) == 1


async def test_address_and_key_come_from_the_environment(server: LoopbackServer) -> None:
    environ = {"ANTHROPIC_API_KEY": "sk-ant-wrong", "ANTHROPIC_BASE_URL": server.url.removesuffix("/v1")}
    model = cast("AnthropicMessages", resolve_model("anthropic/claude-x", environ=environ))
    server.replies.append(failure(401, "invalid x-api-key sk-ant-wrong"))

    error = await refused(model)
    await model.aclose()

    assert server.requests[0].path == "/v1/messages"
    assert server.requests[0].headers["x-api-key"] == "sk-ant-wrong"
    assert "ANTHROPIC_API_KEY" in str(error)
    assert "sk-ant-wrong" not in f"{error} {error.raw!r} {model!r}"


async def test_secrets_are_in_no_message(server: LoopbackServer) -> None:
    model = AnthropicMessages(
        "m-1",
        base_url=f"{server.url}?token=query-1",
        api_key="key-one",
        headers={"Proxy-Authorization": "Bearer key-two"},
        max_retries=0,
    )
    server.replies.append(failure(500, "key-one key-two query-1 broke"))

    error = await refused(model)
    await model.aclose()

    assert server.requests[0].path == "/v1/messages?token=query-1"
    for secret in ("key-one", "key-two", "query-1"):
        assert secret not in f"{error} {error.raw!r} {model!r} {vars(model)['_endpoint']!r}"


async def test_another_way_to_say_who_calls_replaces_the_key(server: LoopbackServer) -> None:
    model = AnthropicMessages("m-1", base_url=server.url, api_key="k-one", headers={"Authorization": "Bearer t"})
    server.replies.append(answer())

    await collect(model)
    await model.aclose()

    assert server.requests[0].headers["authorization"] == "Bearer t"
    assert "x-api-key" not in server.requests[0].headers


async def test_a_missing_key_is_named_without_a_request() -> None:
    error = await refused(AnthropicMessages("m-1", environ={}))

    assert error.kind == "auth"
    assert "ANTHROPIC_API_KEY" in str(error)


async def test_what_a_model_can_do_is_known_before_a_call() -> None:
    old, new = AnthropicMessages("claude-3-haiku-20240307"), AnthropicMessages("claude-sonnet-5", max_retries=5)
    told = AnthropicMessages("m", capabilities=ModelCapabilities(label="l"))

    assert (old.capabilities.native_json, new.capabilities.native_json) == (False, True)
    assert (new.capabilities.images, new.max_retries, told.capabilities.label) == (True, 5, "l")
    assert (
        repr(new) == "AnthropicMessages('claude-sonnet-5', provider='anthropic', base_url='https://api.anthropic.com')"
    )


@pytest.mark.parametrize("url", ["api.test/v1", "ftp://x/v1", "http://x:port/v1", "http://[x"])
async def test_an_address_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(ConfigurationError, match=r"no http\(s\) address"):
        AnthropicMessages("m", base_url=url)


@pytest.mark.parametrize("end_of_url", ["", "/", "/v1", "/v1/", "/v1/messages"])
async def test_a_base_url_may_end_in_several_ways(server: LoopbackServer, end_of_url: str) -> None:
    model = AnthropicMessages("m-1", base_url=server.url.removesuffix("/v1") + end_of_url)
    server.replies.append(answer())

    await collect(model)
    await model.aclose()

    assert server.requests[0].path == "/v1/messages"


async def test_a_cut_after_the_first_part_is_raised_and_not_repeated(
    server: LoopbackServer, model: AnthropicMessages
) -> None:
    server.replies.append(Reply(pieces=[sse(BEGIN, said("Good"))], cut=True))
    parts: list[ModelPart] = []

    with pytest.raises(ModelError) as caught:
        await read(model, parts)

    assert parts == [TextDelta("Good")]
    assert caught.value.kind == "connection"
    assert len(server.requests) == 1


async def test_a_cut_before_the_first_part_is_repeated(server: LoopbackServer, model: AnthropicMessages) -> None:
    server.replies.extend([Reply(pieces=[sse(BEGIN, PING)], cut=True), answer()])

    assert await collect(model) == [TextDelta("ok"), DONE]


async def test_a_cut_after_the_stop_reason_harms_nothing(server: LoopbackServer, model: AnthropicMessages) -> None:
    server.replies.append(Reply(pieces=[sse(BEGIN, said("Good"), end())], cut=True))

    assert await collect(model) == [TextDelta("Good"), DONE]


async def test_an_answer_that_just_stops_is_a_protocol_error(server: LoopbackServer, model: AnthropicMessages) -> None:
    server.replies.append(Reply(pieces=[sse(BEGIN, said("Good"))]))

    error = await refused(model)

    assert error.kind == "protocol"
    assert "incomplete" in str(error)


async def test_an_error_inside_the_stream_comes_after_the_text(
    server: LoopbackServer, model: AnthropicMessages
) -> None:
    server.replies.append(Reply(pieces=[sse(BEGIN, said("Good"), broke("overloaded_error"), said("never"))]))
    parts: list[ModelPart] = []

    with pytest.raises(ModelError, match="Overloaded") as caught:
        await read(model, parts)

    assert parts == [TextDelta("Good")]
    assert (caught.value.kind, caught.value.retryable) == ("server", True)


async def test_an_error_before_the_first_part_is_repeated(server: LoopbackServer, model: AnthropicMessages) -> None:
    server.replies.extend([Reply(pieces=[sse(BEGIN, broke("overloaded_error"))]), answer()])

    assert await collect(model) == [TextDelta("ok"), DONE]


async def test_a_malformed_line_is_a_protocol_error(server: LoopbackServer, model: AnthropicMessages) -> None:
    server.replies.append(Reply(pieces=[sse(BEGIN, said("Good")), b'event: x\ndata: {"type": "conte\n\n']))

    error = await refused(model)

    assert error.kind == "protocol"
    assert "not valid JSON" in str(error)


async def test_a_server_that_does_not_stream_is_understood(server: LoopbackServer, model: AnthropicMessages) -> None:
    content = [{"type": "text", "text": "Hm."}, {"type": "tool_use", "id": "t1", "name": "add", "input": {"a": 1}}]
    body = {"type": "message", "id": "msg_1", "content": content, "stop_reason": "tool_use"}
    server.replies.append(Reply(pieces=[json.dumps(body).encode()], content_type="application/json"))

    parts = await collect(model)

    assert parts[0] == TextDelta("Hm.")
    assert parts[-2:] == [ToolCall("t1", "add", '{"a":1}'), Finish("tool-calls", response_id="msg_1")]


async def test_a_compressed_stream_is_read(server: LoopbackServer, model: AnthropicMessages) -> None:
    body = gzip.compress(sse(BEGIN, said("ok"), end(), STOP))
    server.replies.append(Reply(pieces=[body[:20], body[20:]], headers={"content-encoding": "gzip"}))

    assert await collect(model) == [TextDelta("ok"), DONE]


async def test_a_server_that_is_not_there_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    model = AnthropicMessages("m-1", base_url=url, max_retries=1, retry_backoff=0)

    error = await refused(model)
    await model.aclose()

    assert error.kind == "connection"
    assert url in str(error)


async def test_a_server_that_falls_silent_is_given_up(server: LoopbackServer) -> None:
    model = AnthropicMessages("m-1", base_url=server.url, timeout=0.05, max_retries=0)
    server.replies.extend([Reply(pieces=[sse(BEGIN, said("Good")), anyio.Event()]), Reply(pieces=[anyio.Event()])])

    errors = [await refused(model), await refused(model)]
    await model.aclose()

    assert [error.kind for error in errors] == ["timeout", "timeout"]


async def test_one_connection_serves_one_call_after_another_until_it_is_closed(
    server: LoopbackServer, model: AnthropicMessages
) -> None:
    server.replies.extend([answer(), answer()])

    await collect(model)
    await collect(model)
    assert server.connections == 1
    await model.aclose()

    with anyio.fail_after(5):
        await server.closed.wait()


async def test_a_reader_that_leaves_early_frees_the_server(server: LoopbackServer, model: AnthropicMessages) -> None:
    server.replies.extend([Reply(pieces=[sse(BEGIN, said("Good")), anyio.Event()]), answer()])

    async with aclosing(model.stream(CALL)) as parts:
        async for _ in parts:
            break

    with anyio.fail_after(5):
        await server.left.wait()
    assert await collect(model) == [TextDelta("ok"), DONE]


async def test_a_cancelled_call_frees_the_server(server: LoopbackServer, model: AnthropicMessages) -> None:
    server.replies.append(Reply(pieces=[anyio.Event()]))

    async with anyio.create_task_group() as group:
        group.start_soon(collect, model)
        with anyio.fail_after(5):
            while not server.requests:  # the server has no event for a request
                await anyio.lowlevel.checkpoint()
        group.cancel_scope.cancel()

    with anyio.fail_after(5):
        await server.left.wait()


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_model_outlives_its_event_loop_and_leaves_nothing_open(backend: str) -> None:
    with (
        anyio.from_thread.start_blocking_portal() as portal,
        portal.wrap_async_context_manager(running_server()) as server,
    ):
        model = AnthropicMessages("m-1", base_url=server.url)
        server.replies.extend([answer("one"), answer("two")])

        assert anyio.run(collect, model, backend=backend)[0] == TextDelta("one")
        assert anyio.run(collect, model, backend=backend)[0] == TextDelta("two")


async def test_the_prompt_of_a_conversation_is_whole(server: LoopbackServer, model: AnthropicMessages) -> None:
    server.replies.append(answer())
    system = Message(role="system", parts=(TextPart("Be brief."),))

    await collect(model, ModelCall(messages=[system, *normalize("hi")], tools=[ADD], tool_choice="required"))

    body = server.requests[0].body
    assert body["system"] == [{"type": "text", "text": "Be brief."}]
    assert body["tool_choice"] == {"type": "any"}
