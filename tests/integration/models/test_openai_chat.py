import gzip
import json
import socket
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import cast

import anyio
import anyio.from_thread
import pytest
from inline_snapshot import snapshot

from bascule.errors import ModelError
from bascule.messages import normalize
from bascule.models import (
    Finish,
    ModelCall,
    ModelPart,
    ModelSettings,
    ModelTool,
    OpenAIChat,
    TextDelta,
    ToolCall,
    Usage,
    resolve_model,
)
from tests.integration.models.loopback import LoopbackServer, Reply, answer, failure, running_server, said, sse

CALL = ModelCall(messages=normalize("hi"))


@pytest.fixture
async def server() -> AsyncIterator[LoopbackServer]:
    async with running_server() as running:
        yield running


@pytest.fixture
async def model(server: LoopbackServer) -> AsyncIterator[OpenAIChat]:
    chat = OpenAIChat("m-1", base_url=server.url, api_key="sk-secret-1", retry_backoff=0)
    yield chat
    await chat.aclose()


async def collect(model: OpenAIChat, call: ModelCall = CALL) -> list[ModelPart]:
    with anyio.fail_after(5):
        return [part async for part in model.stream(call)]


async def read(model: OpenAIChat, parts: list[ModelPart]) -> None:
    """Keep the parts that come before an error."""
    async for part in model.stream(CALL):
        parts.append(part)  # noqa: PERF401  # a comprehension would lose them


async def refused(model: OpenAIChat) -> ModelError:
    with pytest.raises(ModelError) as caught:
        await collect(model)
    return caught.value


@pytest.mark.requirement("F19")
async def test_an_answer_is_streamed_with_usage_id_and_model(server: LoopbackServer, model: OpenAIChat) -> None:
    usage = {
        "prompt_tokens": 7,
        "completion_tokens": 3,
        "prompt_tokens_details": {"cached_tokens": 2},
        "completion_tokens_details": {"reasoning_tokens": 1},
    }
    end: dict[str, object] = {"id": "c1", "choices": [], "usage": usage}
    server.replies.append(Reply(pieces=[sse(said("Good"), done=False), sse(said("bye"), said("", "stop"), end)]))

    assert await collect(model) == [
        TextDelta("Good"),
        TextDelta("bye"),
        Finish(
            "stop",
            Usage(input_tokens=7, output_tokens=3, reasoning_tokens=1, cached_input_tokens=2),
            response_id="c1",
            response_model="m-1",
        ),
    ]


async def test_the_request_carries_key_headers_and_body(server: LoopbackServer, model: OpenAIChat) -> None:
    server.replies.append(answer())
    tool = ModelTool(name="add", description="Add.", input_schema={"type": "object"})
    settings = ModelSettings(temperature=0.5, max_output_tokens=9, headers={"X-Trace": "t1"})

    await collect(model, ModelCall(messages=normalize("hi"), tools=[tool], settings=settings))

    [seen] = server.requests
    assert seen.path == "/v1/chat/completions"
    assert (seen.headers["authorization"], seen.headers["x-trace"]) == ("Bearer sk-secret-1", "t1")
    assert seen.body == snapshot(
        {
            "model": "m-1",
            "messages": [{"role": "user", "content": "hi"}],
            "stream": True,
            "stream_options": {"include_usage": True},
            "temperature": 0.5,
            "max_tokens": 9,
            "tools": [
                {
                    "type": "function",
                    "function": {"name": "add", "description": "Add.", "parameters": {"type": "object"}},
                }
            ],
            "tool_choice": "auto",
        }
    )


@pytest.mark.parametrize("status", [408, 409, 429, 500, 503])
async def test_a_failure_that_may_pass_is_tried_again(server: LoopbackServer, model: OpenAIChat, status: int) -> None:
    server.replies.extend([failure(status, "busy", retry_after="0"), failure(status, "busy"), answer()])

    assert await collect(model) == [
        TextDelta("ok"),
        Finish("stop", response_id="c1", response_model="m-1"),
    ]
    assert len(server.requests) == 3


async def test_the_last_failure_is_raised_with_what_the_server_said(server: LoopbackServer, model: OpenAIChat) -> None:
    server.replies.extend([failure(429, "slow down", retry_after="0.001")] * 3)

    error = await refused(model)

    assert (error.kind, error.status, error.retry_after) == ("rate_limit", 429, 0.001)
    assert error.raw == {"error": {"message": "slow down", "type": "t"}}
    assert "slow down" in str(error)
    assert len(server.requests) == 3


async def test_a_wait_longer_than_a_minute_is_left_to_the_caller(server: LoopbackServer, model: OpenAIChat) -> None:
    server.replies.append(failure(429, "tomorrow", retry_after="86400"))

    assert (await refused(model)).retry_after == 86400
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("status", "kind", "advice"),
    [
        (400, "bad_request", "refused the request"),
        (401, "auth", "Pass a valid api_key"),
        (403, "auth", "what the API key may do"),
        (404, "not_found", "base URL"),
        (422, "bad_request", "refused the request"),
    ],
)
async def test_a_refusal_is_final_and_says_what_to_do(
    server: LoopbackServer, model: OpenAIChat, status: int, kind: str, advice: str
) -> None:
    server.replies.append(failure(status, "no"))

    error = await refused(model)

    assert (error.kind, error.status, error.retryable) == (kind, status, False)
    assert advice in str(error)
    assert len(server.requests) == 1


async def test_a_refused_key_from_the_environment_is_named(server: LoopbackServer) -> None:
    environ = {"OPENAI_API_KEY": "sk-wrong", "OPENAI_BASE_URL": server.url}
    model = cast("OpenAIChat", resolve_model("openai/m-1", environ=environ))
    server.replies.append(failure(401, "Incorrect API key provided: sk-wrong"))

    error = await refused(model)
    await model.aclose()

    assert "OPENAI_API_KEY" in str(error)
    assert server.requests[0].headers["authorization"] == "Bearer sk-wrong"
    assert "sk-wrong" not in f"{error} {error.raw!r} {model!r}"


async def test_secrets_are_in_no_message(server: LoopbackServer) -> None:
    model = OpenAIChat(
        "m-1",
        base_url=f"{server.url}?token=query-1",
        api_key="key-one",
        headers={"x-api-key": "key-two"},
        max_retries=0,
    )
    server.replies.append(failure(500, "key-one key-two query-1 broke"))

    error = await refused(model)
    await model.aclose()

    assert server.requests[0].path == "/v1/chat/completions?token=query-1"
    for secret in ("key-one", "key-two", "query-1"):
        assert secret not in f"{error} {error.raw!r} {model!r} {model.__dict__['_endpoint']!r}"


async def test_what_a_model_can_do_is_known_before_a_call() -> None:
    model = OpenAIChat("m-1", max_retries=5)

    assert (model.capabilities.native_json, model.capabilities.images, model.max_retries) == (True, True, 5)


async def test_a_missing_key_is_named_without_a_request() -> None:
    error = await refused(OpenAIChat("m-1", environ={}))

    assert error.kind == "auth"
    assert "OPENAI_API_KEY" in str(error)


async def test_a_cut_after_the_first_part_is_raised_and_not_repeated(server: LoopbackServer, model: OpenAIChat) -> None:
    server.replies.append(Reply(pieces=[sse(said("Good"), done=False)], cut=True))
    parts: list[ModelPart] = []

    with pytest.raises(ModelError) as caught:
        await read(model, parts)

    assert parts == [TextDelta("Good")]
    assert caught.value.kind == "connection"
    assert len(server.requests) == 1


async def test_a_cut_before_the_first_part_is_repeated(server: LoopbackServer, model: OpenAIChat) -> None:
    server.replies.extend([Reply(cut=True), answer()])

    assert (await collect(model))[0] == TextDelta("ok")


async def test_a_cut_after_the_finish_reason_harms_nothing(server: LoopbackServer, model: OpenAIChat) -> None:
    server.replies.append(Reply(pieces=[sse(said("Good"), said("bye", "length"), done=False)], cut=True))

    parts = await collect(model)

    assert parts[:2] == [TextDelta("Good"), TextDelta("bye")]
    assert cast("Finish", parts[2]).reason == "length"


async def test_an_answer_that_just_stops_is_a_protocol_error(server: LoopbackServer, model: OpenAIChat) -> None:
    server.replies.append(Reply(pieces=[sse(said("Good"), done=False)]))

    error = await refused(model)

    assert error.kind == "protocol"
    assert "incomplete" in str(error)


async def test_an_error_inside_the_stream_comes_after_the_text(server: LoopbackServer, model: OpenAIChat) -> None:
    overloaded = {"error": {"message": "overloaded", "code": 503}}
    server.replies.append(Reply(pieces=[sse(said("Good"), overloaded, said("never"), done=False)]))
    parts: list[ModelPart] = []

    with pytest.raises(ModelError, match="overloaded") as caught:
        await read(model, parts)

    assert parts == [TextDelta("Good")]
    assert (caught.value.kind, caught.value.status) == ("server", 503)


async def test_an_error_as_the_first_event_is_repeated(server: LoopbackServer, model: OpenAIChat) -> None:
    server.replies.extend([Reply(pieces=[sse({"error": "overloaded"})]), answer()])

    assert (await collect(model))[0] == TextDelta("ok")


async def test_a_server_without_stream_options_is_asked_again_without_them(
    server: LoopbackServer, model: OpenAIChat
) -> None:
    server.replies.extend([failure(400, "Unknown field: stream_options"), answer(), answer()])

    await collect(model)
    await collect(model)

    assert ["stream_options" in seen.body for seen in server.requests] == [True, False, False]


async def test_a_server_that_does_not_stream_is_understood(server: LoopbackServer, model: OpenAIChat) -> None:
    call = {"id": "t1", "type": "function", "function": {"name": "add", "arguments": '{"a":1}'}}
    choice = {"index": 0, "message": {"content": "Hm.", "tool_calls": [call]}, "finish_reason": "tool_calls"}
    body = json.dumps({"id": "c1", "choices": [choice], "usage": {"prompt_tokens": 1, "completion_tokens": 2}})
    server.replies.append(Reply(pieces=[body.encode()], content_type="application/json"))

    parts = await collect(model)

    assert parts[0] == TextDelta("Hm.")
    assert ToolCall("t1", "add", '{"a":1}') in parts
    assert parts[-1] == Finish("tool-calls", Usage(input_tokens=1, output_tokens=2), response_id="c1")


async def test_a_whole_answer_that_is_not_json_is_a_protocol_error(server: LoopbackServer, model: OpenAIChat) -> None:
    server.replies.append(Reply(pieces=[b"{"], content_type="application/json"))

    assert (await refused(model)).kind == "protocol"


async def test_a_compressed_stream_is_read(server: LoopbackServer, model: OpenAIChat) -> None:
    body = gzip.compress(sse(said("ok", "stop")))
    server.replies.append(Reply(pieces=[body[:20], body[20:]], headers={"content-encoding": "gzip"}))

    assert (await collect(model))[0] == TextDelta("ok")


async def test_a_web_page_points_at_the_base_url(server: LoopbackServer, model: OpenAIChat) -> None:
    server.replies.append(Reply(pieces=[b"<html>"], content_type="text/html; charset=utf-8"))

    error = await refused(model)

    assert error.kind == "protocol"
    assert "base URL" in str(error)


async def test_a_redirect_is_not_followed(server: LoopbackServer, model: OpenAIChat) -> None:
    server.replies.append(Reply(status=307, headers={"location": "https://user:pw@elsewhere.test/v1?k=1"}))

    message = str(await refused(model))

    assert "'https://elsewhere.test/v1'" in message


async def test_a_server_that_is_not_there_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
    model = OpenAIChat("m-1", base_url=url, max_retries=1, retry_backoff=0)

    error = await refused(model)
    await model.aclose()

    assert error.kind == "connection"
    assert url in str(error)


async def test_a_server_that_falls_silent_is_given_up(server: LoopbackServer) -> None:
    model = OpenAIChat("m-1", base_url=server.url, timeout=0.05, max_retries=0)
    server.replies.extend([Reply(pieces=[sse(said("Good"), done=False), anyio.Event()]), Reply(pieces=[anyio.Event()])])

    errors = [await refused(model), await refused(model)]
    await model.aclose()

    assert [error.kind for error in errors] == ["timeout", "timeout"]
    assert all("0.05 s" in str(error) for error in errors)


async def test_one_connection_serves_one_call_after_another_until_it_is_closed(
    server: LoopbackServer, model: OpenAIChat
) -> None:
    server.replies.extend([answer(), answer()])

    await collect(model)
    await collect(model)
    assert server.connections == 1
    await model.aclose()

    with anyio.fail_after(5):
        await server.closed.wait()


async def test_a_reader_that_leaves_early_frees_the_server(server: LoopbackServer, model: OpenAIChat) -> None:
    server.replies.extend([Reply(pieces=[sse(said("Good"), done=False), anyio.Event()]), answer()])

    async with aclosing(model.stream(CALL)) as parts:
        async for _ in parts:
            break

    with anyio.fail_after(5):
        await server.left.wait()
    assert (await collect(model))[0] == TextDelta("ok")


async def test_a_cancelled_call_frees_the_server(server: LoopbackServer, model: OpenAIChat) -> None:
    server.replies.append(Reply(pieces=[anyio.Event()]))

    async with anyio.create_task_group() as group:
        group.start_soon(collect, model)
        with anyio.fail_after(5):
            while not server.requests:  # the server has no event for a request
                await anyio.lowlevel.checkpoint()
        group.cancel_scope.cancel()

    with anyio.fail_after(5):
        await server.left.wait()


async def test_calls_run_side_by_side(server: LoopbackServer, model: OpenAIChat) -> None:
    first, second = anyio.Event(), anyio.Event()
    whole = sse(said("ok", "stop"))
    server.replies.extend([Reply(pieces=[first, whole]), Reply(pieces=[second, whole])])

    async with anyio.create_task_group() as group:
        group.start_soon(collect, model)
        group.start_soon(collect, model)
        with anyio.fail_after(5):
            while len(server.requests) < 2:  # the server has no event for a request
                await anyio.lowlevel.checkpoint()
        second.set()
        first.set()

    assert server.connections == 2


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_model_outlives_its_event_loop_and_leaves_nothing_open(backend: str) -> None:
    with (
        anyio.from_thread.start_blocking_portal() as portal,
        portal.wrap_async_context_manager(running_server()) as server,
    ):
        model = OpenAIChat("m-1", base_url=server.url)
        server.replies.extend([answer("one"), answer("two")])

        assert anyio.run(collect, model, backend=backend)[0] == TextDelta("one")
        assert anyio.run(collect, model, backend=backend)[0] == TextDelta("two")
        assert server.connections == 2
