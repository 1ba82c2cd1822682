import json
import socket
from collections.abc import AsyncIterator
from contextlib import aclosing

import anyio
import pytest
from inline_snapshot import snapshot

from bascule.errors import EventLoopUnsupported, ModelError
from bascule.messages import JsonObject, normalize
from bascule.models import (
    Finish,
    ModelCall,
    ModelPart,
    ModelSettings,
    ModelTool,
    OpenAIResponses,
    TextDelta,
    ToolCall,
    Usage,
    resolve_model,
)
from tests.integration.models.loopback import LoopbackServer, Reply, failure, running_server, sse
from tests.integration.models.responses_server import answer, ended, said

CALL = ModelCall(messages=normalize("hi"))
OK = [TextDelta("ok"), Finish("stop", response_id="resp_1", response_model="m-1")]


@pytest.fixture
async def server() -> AsyncIterator[LoopbackServer]:
    async with running_server() as running:
        yield running


@pytest.fixture
async def model(server: LoopbackServer) -> AsyncIterator[OpenAIResponses]:
    responses = OpenAIResponses("m-1", base_url=server.url, api_key="sk-secret-1", transport="fetch", retry_backoff=0)
    yield responses
    await responses.aclose()


async def collect(model: OpenAIResponses, call: ModelCall = CALL) -> list[ModelPart]:
    with anyio.fail_after(5):
        return [part async for part in model.stream(call)]


async def read(model: OpenAIResponses, parts: list[ModelPart]) -> None:
    """Keep the parts that come before an error."""
    async for part in model.stream(CALL):
        parts.append(part)  # noqa: PERF401  # a comprehension would lose them


async def refused(model: OpenAIResponses) -> ModelError:
    with pytest.raises(ModelError) as caught:
        await collect(model)
    return caught.value


async def test_an_answer_is_streamed_with_usage_id_and_model(server: LoopbackServer, model: OpenAIResponses) -> None:
    usage = {"input_tokens": 7, "output_tokens": 3, "input_tokens_details": {"cached_tokens": 2}}
    server.replies.append(Reply(pieces=[sse(said("Good"), done=False), sse(said("bye"), ended(usage=usage))]))

    assert await collect(model) == [
        TextDelta("Good"),
        TextDelta("bye"),
        Finish(
            "stop",
            Usage(input_tokens=7, output_tokens=3, cached_input_tokens=2),
            response_id="resp_1",
            response_model="m-1",
        ),
    ]


async def test_the_request_carries_key_headers_and_body(server: LoopbackServer, model: OpenAIResponses) -> None:
    server.replies.append(answer())
    tool = ModelTool(name="add", description="Add.", input_schema={"type": "object"})
    settings = ModelSettings(max_output_tokens=9, headers={"X-Trace": "t1"})
    options: JsonObject = {"openai": {"previous_response_id": "resp_0", "store": True}}

    await collect(model, ModelCall(messages=normalize("hi"), tools=[tool], settings=settings, provider_options=options))

    [seen] = server.requests
    assert seen.path == "/v1/responses"
    assert (seen.headers["authorization"], seen.headers["x-trace"]) == ("Bearer sk-secret-1", "t1")
    assert seen.body == snapshot(
        {
            "model": "m-1",
            "input": [{"role": "user", "content": [{"type": "input_text", "text": "hi"}]}],
            "stream": True,
            "max_output_tokens": 9,
            "previous_response_id": "resp_0",
            "store": True,
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


@pytest.mark.parametrize("status", [408, 429, 503])
async def test_a_failure_that_may_pass_is_tried_again(
    server: LoopbackServer, model: OpenAIResponses, status: int
) -> None:
    server.replies.extend([failure(status, "busy", retry_after="0"), failure(status, "busy"), answer()])

    assert await collect(model) == OK
    assert len(server.requests) == 3


async def test_a_failed_response_as_the_first_event_is_repeated(server: LoopbackServer, model: OpenAIResponses) -> None:
    down = ended(status="failed", error={"code": "server_error", "message": "down"})
    server.replies.extend([Reply(pieces=[sse(down, done=False)]), answer()])

    assert await collect(model) == OK


async def test_an_error_after_the_first_part_is_raised_and_not_repeated(
    server: LoopbackServer, model: OpenAIResponses
) -> None:
    slow = {"type": "error", "code": "rate_limit_exceeded", "message": "slow", "param": None}
    server.replies.append(Reply(pieces=[sse(said("Good"), slow, said("never"), done=False)]))
    parts: list[ModelPart] = []

    with pytest.raises(ModelError, match="slow") as caught:
        await read(model, parts)

    assert parts == [TextDelta("Good")]
    assert caught.value.kind == "rate_limit"
    assert len(server.requests) == 1


async def test_a_cut_is_an_error_until_the_last_event_has_come(server: LoopbackServer, model: OpenAIResponses) -> None:
    server.replies.append(Reply(pieces=[sse(said("Good"), done=False)], cut=True))
    parts: list[ModelPart] = []

    with pytest.raises(ModelError) as caught:
        await read(model, parts)
    assert (parts, caught.value.kind) == ([TextDelta("Good")], "connection")

    server.replies.append(Reply(pieces=[sse(said("ok"), ended(), done=False)], cut=True))
    assert await collect(model) == OK


async def test_a_stream_that_just_stops_is_a_protocol_error(server: LoopbackServer, model: OpenAIResponses) -> None:
    server.replies.append(Reply(pieces=[sse(said("Good"), done=False)]))

    assert (await refused(model)).kind == "protocol"


async def test_a_line_that_is_not_json_is_a_protocol_error(server: LoopbackServer, model: OpenAIResponses) -> None:
    server.replies.append(Reply(pieces=[b'data: {"type": "response.outp\n\n']))

    assert "not valid JSON" in str(await refused(model))


async def test_a_server_that_does_not_stream_is_understood(server: LoopbackServer, model: OpenAIResponses) -> None:
    call = {"type": "function_call", "call_id": "t1", "name": "add", "arguments": '{"a":1}'}
    body = {"id": "resp_1", "object": "response", "model": "m-1", "status": "completed", "output": [call]}
    server.replies.append(Reply(pieces=[json.dumps(body).encode()], content_type="application/json"))

    parts = await collect(model)

    assert ToolCall("t1", "add", '{"a":1}') in parts
    assert parts[-1] == Finish("tool-calls", response_id="resp_1", response_model="m-1")


async def test_a_reader_that_leaves_early_frees_the_server(server: LoopbackServer, model: OpenAIResponses) -> None:
    server.replies.extend([Reply(pieces=[sse(said("Good"), done=False), anyio.Event()]), answer()])

    async with aclosing(model.stream(CALL)) as parts:
        async for _ in parts:
            break

    with anyio.fail_after(5):
        await server.left.wait()
    assert await collect(model) == OK


async def test_one_connection_serves_one_call_after_another_until_it_is_closed(
    server: LoopbackServer, model: OpenAIResponses
) -> None:
    server.replies.extend([answer(), answer()])

    await collect(model)
    await collect(model)
    assert server.connections == 1
    await model.aclose()

    with anyio.fail_after(5):
        await server.closed.wait()


async def test_a_server_that_is_not_there_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
    model = OpenAIResponses("m-1", base_url=url, transport="fetch", max_retries=0)

    error = await refused(model)
    await model.aclose()

    assert error.kind == "connection"
    assert url in str(error)


async def test_a_missing_key_is_named_without_a_request() -> None:
    model = OpenAIResponses("m-1", environ={}, max_retries=5)

    error = await refused(model)

    assert error.kind == "auth"
    assert "OPENAI_API_KEY" in str(error)
    assert (model.capabilities.native_json, model.max_retries) == (True, 5)


async def test_a_text_may_name_the_interface(server: LoopbackServer) -> None:
    environ = {"OPENAI_API_KEY": "sk-x", "OPENAI_BASE_URL": server.url}
    model = resolve_model("openai-responses/m-1", environ=environ)
    assert isinstance(model, OpenAIResponses)
    server.replies.append(answer())

    call = ModelCall(messages=normalize("hi"), provider_options={"openai": {"transport": "fetch"}})

    assert await collect(model, call) == OK
    assert (model.provider, model.model_id) == ("openai", "m-1")
    assert repr(model) == f"OpenAIResponses('m-1', provider='openai', base_url={server.url!r})"
    await model.aclose()


@pytest.mark.requirement("A42")
def test_trio_is_refused_by_name_where_a_socket_is_demanded_and_served_over_http_otherwise() -> None:
    async def main() -> list[ModelPart]:
        async with running_server() as server:
            model = OpenAIResponses("m-1", base_url=server.url)
            server.replies.append(answer())
            options: JsonObject = {"openai": {"transport": "websocket"}}
            with pytest.raises(EventLoopUnsupported, match="trio"):
                await collect(model, ModelCall(messages=normalize("hi"), provider_options=options))
            parts = await collect(model)
            await model.aclose()
            return parts

    assert anyio.run(main, backend="trio") == OK
