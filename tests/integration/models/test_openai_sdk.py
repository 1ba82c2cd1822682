"""OpenAI's own SDK reads what our loopback servers say, over HTTP and over a socket: a check of the servers."""

import importlib
from typing import Any

import anyio
import pytest

from tests.integration.models import loopback
from tests.integration.models.loopback import LoopbackServer, Reply, failure, running_server, sse
from tests.integration.models.responses_server import SocketServer, ended, running_sockets, said

pytest.importorskip("openai", reason="the openai SDK is not installed: pip install 'openai[realtime]'")
sdk: Any = importlib.import_module("openai")  # the types of an optional peer

CALL: dict[str, object] = {"type": "function_call", "id": "fc_1", "call_id": "t1", "name": "add", "status": "completed"}
MESSAGE: dict[str, object] = {
    "type": "message",
    "id": "msg_1",
    "role": "assistant",
    "status": "completed",
    "content": [{"type": "output_text", "text": "Good", "annotations": []}],
}
BEGUN: dict[str, object] = {"id": "resp_1", "object": "response", "model": "m-1", "status": "in_progress", "output": []}
EVENTS: tuple[dict[str, object], ...] = (
    {"type": "response.created", "response": BEGUN},
    {"type": "response.output_item.added", "output_index": 0, "item": {**MESSAGE, "content": []}},
    {
        "type": "response.content_part.added",
        "output_index": 0,
        "content_index": 0,
        "item_id": "msg_1",
        "part": {"type": "output_text", "text": "", "annotations": []},
    },
    {**said("Good"), "item_id": "msg_1", "content_index": 0, "logprobs": []},
    {"type": "response.output_item.done", "output_index": 0, "item": MESSAGE},
    {"type": "response.output_item.added", "output_index": 1, "item": {**CALL, "arguments": ""}},
    {"type": "response.function_call_arguments.delta", "output_index": 1, "item_id": "fc_1", "delta": '{"a":1}'},
    {"type": "response.output_item.done", "output_index": 1, "item": {**CALL, "arguments": '{"a":1}'}},
    ended(object="response", output=[MESSAGE, {**CALL, "arguments": '{"a":1}'}], usage={"input_tokens": 7}),
)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"  # the only one that the SDK is made for


def client(server: LoopbackServer | SocketServer, **more: Any) -> Any:
    return sdk.AsyncOpenAI(base_url=server.url, api_key="k", **more)


async def test_a_chat_completion_is_read() -> None:
    async with running_server() as server:
        call = {"index": 0, "id": "t1", "type": "function", "function": {"name": "add", "arguments": "{}"}}
        tool = {"id": "c1", "choices": [{"index": 0, "delta": {"tool_calls": [call]}, "finish_reason": "tool_calls"}]}
        server.replies.append(Reply(pieces=[sse(loopback.said("Good"), tool)]))
        async with client(server) as asked:
            with anyio.fail_after(10):
                stream = await asked.chat.completions.create(model="m-1", messages=[], stream=True)
                deltas = [chunk.choices[0].delta async for chunk in stream]

    assert [delta.content for delta in deltas] == ["Good", None]
    assert deltas[1].tool_calls[0].function.name == "add"


async def test_a_response_is_read() -> None:
    async with running_server() as server:
        numbered = [{**event, "sequence_number": number} for number, event in enumerate(EVENTS)]
        server.replies.append(Reply(pieces=[sse(*numbered, done=False)]))
        async with client(server) as asked:
            with anyio.fail_after(10):
                async with asked.responses.stream(model="m-1", input="hi") as stream:
                    texts = [event.delta async for event in stream if event.type == "response.output_text.delta"]
                    whole = await stream.get_final_response()

    assert texts == ["Good"]
    assert (whole.id, whole.output_text, whole.output[1].arguments) == ("resp_1", "Good", '{"a":1}')
    assert whole.usage.input_tokens == 7


async def test_a_response_over_a_socket_is_read() -> None:
    async with running_sockets() as server:
        server.answers.append(EVENTS)
        async with client(server) as asked:
            with anyio.fail_after(10):
                async with asked.responses.connect() as connection:
                    await connection.response.create(model="m-1", input="hi")
                    kinds: list[str] = []
                    async for event in connection:
                        kinds.append(event.type)
                        if event.type == "response.completed":
                            break

    assert kinds == [event["type"] for event in EVENTS]
    assert server.frames == [{"type": "response.create", "model": "m-1", "input": "hi"}]


async def test_a_failure_is_tried_again_and_then_named() -> None:
    async with running_server() as server:
        server.replies.extend([failure(429, "slow", retry_after="0.01"), failure(400, "bad")])
        async with client(server, max_retries=1) as asked:
            with anyio.fail_after(10), pytest.raises(sdk.BadRequestError, match="bad"):
                await asked.responses.create(model="m-1", input="hi")

    assert len(server.requests) == 2


async def test_vectors_are_read() -> None:
    async with running_server() as server:
        body = b'{"object": "list", "data": [{"object": "embedding", "index": 0, "embedding": [1.0, 0.5]}]}'
        server.replies.append(Reply(pieces=[body], content_type="application/json"))
        async with client(server) as asked:
            with anyio.fail_after(10):
                found = await asked.embeddings.create(model="e-1", input=["a"], encoding_format="float")

    assert found.data[0].embedding == [1.0, 0.5]
