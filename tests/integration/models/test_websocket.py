"""The WebSocket transport; on asyncio only, as the transport itself."""

import logging
import socket
from collections.abc import AsyncIterator
from contextlib import aclosing

import anyio
import anyio.from_thread
import pytest

from bascule.errors import ConfigurationError, ModelError
from bascule.messages import JsonObject, JsonValue, normalize
from bascule.models import Finish, ModelCall, ModelPart, ModelSettings, OpenAIResponses, TextDelta
from tests.integration.models.loopback import failure, running_server
from tests.integration.models.responses_server import (
    CUT,
    SocketServer,
    answer,
    ended,
    running_sockets,
    said,
)

NOTE: JsonObject = {"openai": {"transport": "websocket"}}
OK = [TextDelta("ok"), Finish("stop", provider_metadata=NOTE, response_id="resp_1", response_model="m-1")]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
async def server() -> AsyncIterator[SocketServer]:
    async with running_sockets() as running:
        yield running


@pytest.fixture
async def model(server: SocketServer) -> AsyncIterator[OpenAIResponses]:
    responses = OpenAIResponses(
        "m-1", base_url=server.url, api_key="sk-secret-1", transport="websocket", retry_backoff=0
    )
    yield responses
    await responses.aclose()


def call(previous: str | None = None, **options: JsonValue) -> ModelCall:
    given = {**options, "previous_response_id": previous} if previous else options
    return ModelCall(messages=normalize("hi"), provider_options={"openai": given})


KEEP: JsonObject = {"closeOnFinish": False}


async def collect(model: OpenAIResponses, asked: ModelCall | None = None) -> list[ModelPart]:
    with anyio.fail_after(5):
        return [part async for part in model.stream(asked or call())]


async def read(model: OpenAIResponses, parts: list[ModelPart]) -> None:
    """Keep the parts that come before an error."""
    async for part in model.stream(call(websocket=KEEP)):
        parts.append(part)  # noqa: PERF401  # a comprehension would lose them


async def refused(model: OpenAIResponses, asked: ModelCall | None = None) -> ModelError:
    with pytest.raises(ModelError) as caught:
        await collect(model, asked)
    return caught.value


async def wait_for(event: anyio.Event) -> None:
    with anyio.fail_after(5):
        await event.wait()


@pytest.mark.requirement("A42")
async def test_an_answer_comes_over_a_socket_that_is_closed_after_it(
    server: SocketServer, model: OpenAIResponses
) -> None:
    server.answers.append([{"type": "response.created", "response": {"id": "resp_1"}}, said("ok"), ended()])

    assert await collect(model, call(store=False)) == [
        TextDelta("ok"),
        Finish("stop", provider_metadata=NOTE, response_id="resp_1", response_model=None),
    ]

    await wait_for(server.ended[0])
    assert server.paths == ["/v1/responses"]
    assert server.frames == [
        {
            "type": "response.create",
            "model": "m-1",
            "input": [{"role": "user", "content": [{"type": "input_text", "text": "hi"}]}],
            "store": False,
        }
    ]
    assert server.headers[0]["authorization"] == "Bearer sk-secret-1"
    assert "content-type" not in server.headers[0]


@pytest.mark.requirement("A42")
async def test_a_kept_socket_serves_the_next_call_until_the_transport_is_closed(
    server: SocketServer, model: OpenAIResponses
) -> None:
    server.answers.extend([[said("ok"), ended()]] * 3)

    await collect(model, call(websocket=KEEP))
    await collect(model, call("resp_1", websocket=KEEP))
    assert len(server.paths) == 1
    assert not server.ended[0].is_set()

    await model.transport.close()
    await wait_for(server.ended[0])
    assert await collect(model) == OK
    assert len(server.paths) == 2


@pytest.mark.requirement("A42")
async def test_a_kept_socket_is_closed_with_the_model(server: SocketServer, model: OpenAIResponses) -> None:
    server.answers.append([said("ok"), ended()])

    await collect(model, call(websocket=KEEP))
    await model.aclose()

    await wait_for(server.ended[0])


@pytest.mark.requirement("A42")
async def test_another_address_or_other_headers_open_another_socket(
    server: SocketServer, model: OpenAIResponses
) -> None:
    server.answers.extend([[said("ok"), ended()]] * 2)
    elsewhere: JsonObject = {**KEEP, "url": f"ws://127.0.0.1:{server.port}/elsewhere"}

    await collect(model, call(websocket=KEEP))
    await collect(
        model,
        ModelCall(
            messages=normalize("hi"),
            provider_options={"openai": {"websocket": elsewhere}},
            settings=ModelSettings(headers={"x-a": "b"}),
        ),
    )

    assert server.paths == ["/v1/responses", "/elsewhere"]
    await wait_for(server.ended[0])


@pytest.mark.requirement("A42")
@pytest.mark.parametrize("options", [{}, {"transport": "auto"}])
async def test_a_continuation_is_refused_while_the_socket_answers(
    server: SocketServer, model: OpenAIResponses, options: JsonObject
) -> None:
    server.answers.extend([[said("ok"), ended()], [said("slow"), anyio.Event()]])
    await collect(model, call(websocket=KEEP))

    async with aclosing(model.stream(call(websocket=KEEP))) as running:
        assert await anext(running) == TextDelta("slow")
        error = await refused(model, call("resp_1", **options))

    assert error.kind == "bad_request"
    assert "one at a time" in str(error)
    assert "'resp_1'" in str(error)


@pytest.mark.requirement("A42")
async def test_another_call_travels_over_http_while_the_socket_answers() -> None:
    async with running_sockets() as sockets, running_server() as plain:
        url: JsonObject = {"url": f"ws://127.0.0.1:{sockets.port}/v1/responses"}
        model = OpenAIResponses("m-1", base_url=plain.url)
        sockets.answers.append([said("slow"), anyio.Event()])
        plain.replies.extend([answer(), answer()])

        async with aclosing(model.stream(call(websocket=url))) as running:
            await anext(running)
            fresh = await collect(model, call(transport="websocket", websocket=url))
            stored = await collect(model, call("resp_elsewhere", websocket=url))
        await model.aclose()

    assert fresh == stored == [TextDelta("ok"), Finish("stop", response_id="resp_1", response_model="m-1")]


@pytest.mark.requirement("A42")
@pytest.mark.parametrize("transport", ["auto", "websocket"])
async def test_a_server_without_sockets_is_asked_over_http_with_a_warning(
    transport: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with running_server() as plain:
        model = OpenAIResponses("m-1", base_url=plain.url, api_key="sk-secret-1")
        plain.replies.extend([failure(404, "no sockets"), answer()])
        with caplog.at_level(logging.WARNING, "bascule.models"):
            parts = await collect(model, call(transport=transport))
        plain.replies.append(answer())
        again = await collect(model, call(transport="auto"))
        await model.aclose()

    assert parts == again == [TextDelta("ok"), Finish("stop", response_id="resp_1", response_model="m-1")]
    [record] = caplog.records
    assert "over HTTP instead" in record.getMessage()
    assert "sk-secret" not in record.getMessage()
    assert [seen.body is None for seen in plain.requests] == [True, False, False]  # a socket is not tried twice


async def test_a_redirect_does_not_take_the_key_elsewhere(server: SocketServer) -> None:
    async with running_server() as plain:
        model = OpenAIResponses("m-1", base_url=plain.url, api_key="sk-secret-1", transport="websocket")
        elsewhere = f"ws://127.0.0.1:{server.port}/v1/responses"
        plain.replies.extend([failure(307, "moved", location=elsewhere), answer()])

        await collect(model)
        await model.aclose()

    assert server.paths == []


async def test_a_server_that_is_not_there_is_tried_over_http_and_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
    model = OpenAIResponses("m-1", base_url=url, max_retries=0)

    assert (await refused(model)).kind == "connection"
    await model.aclose()


@pytest.mark.parametrize(
    ("steps", "kind", "said_too"),
    [
        ([said("Good"), CUT], "connection", "cut"),
        ([said("Good"), "{"], "protocol", "not valid JSON"),
        ([said("Good"), {"type": "error", "status": 400, "error": {"message": "bad"}}], "bad_request", "bad"),
        ([said("Good"), ended(status="failed", error={"message": "down"})], "server", "down"),
    ],
)
async def test_a_failure_in_the_middle_comes_after_the_text_and_closes_the_socket(
    server: SocketServer, model: OpenAIResponses, steps: list[dict[str, object] | str], kind: str, said_too: str
) -> None:
    server.answers.extend([steps, [said("ok"), ended()]])
    parts: list[ModelPart] = []

    with pytest.raises(ModelError) as caught:
        await read(model, parts)

    assert parts == [TextDelta("Good")]
    assert caught.value.kind == kind
    assert said_too in str(caught.value)
    await wait_for(server.ended[0])
    assert await collect(model) == OK


async def test_a_failure_before_the_first_part_is_repeated(server: SocketServer, model: OpenAIResponses) -> None:
    busy: dict[str, object] = {
        "type": "error",
        "status": 429,
        "error": {"message": "busy"},
        "headers": {"retry-after": "0"},
    }
    server.answers.extend([[busy], [CUT], [said("ok"), ended()]])

    assert await collect(model) == OK
    assert len(server.paths) == 3


async def test_a_socket_that_the_server_closed_is_opened_again(server: SocketServer, model: OpenAIResponses) -> None:
    server.answers.extend([[said("ok"), ended(), CUT], [said("ok"), ended()]])

    await collect(model, call(websocket=KEEP))
    await wait_for(server.ended[0])

    assert await collect(model, call(websocket=KEEP)) == OK


async def test_a_server_that_falls_silent_is_given_up(server: SocketServer) -> None:
    model = OpenAIResponses("m-1", base_url=server.url, transport="websocket", timeout=0.2, max_retries=0)
    server.answers.append([said("Good"), anyio.Event()])

    error = await refused(model)
    await model.aclose()

    assert error.kind == "timeout"
    assert "0.2 s" in str(error)


async def test_a_reader_that_is_slow_is_not_taken_for_a_silent_server(server: SocketServer) -> None:
    model = OpenAIResponses("m-1", base_url=server.url, transport="websocket", timeout=0.05, max_retries=0)
    server.answers.append([said("ok"), ended()])
    parts: list[ModelPart] = []

    with anyio.fail_after(5):
        async for part in model.stream(call()):
            parts.append(part)
            # Longer than the server may be silent; nothing else would pass that time.
            with anyio.move_on_after(0.15):
                await anyio.Event().wait()
    await model.aclose()

    assert parts == OK


async def test_a_reader_that_leaves_early_frees_the_socket(server: SocketServer, model: OpenAIResponses) -> None:
    server.answers.extend([[said("Good"), anyio.Event()], [said("ok"), ended()]])

    async with aclosing(model.stream(call(websocket=KEEP))) as parts:
        await anext(parts)

    assert await collect(model) == OK
    assert len(server.paths) == 2


async def test_a_cancelled_call_frees_the_socket(server: SocketServer, model: OpenAIResponses) -> None:
    server.answers.extend([[anyio.Event()], [said("ok"), ended()]])

    async with anyio.create_task_group() as group:
        group.start_soon(collect, model)
        with anyio.fail_after(5):
            while not server.frames:  # the server has no event for a request
                await anyio.lowlevel.checkpoint()
        group.cancel_scope.cancel()

    assert await collect(model) == OK


async def test_a_socket_that_cannot_be_asked_for_is_a_mistake(model: OpenAIResponses) -> None:
    with pytest.raises(ConfigurationError, match="'pigeon'"):
        await collect(model, call(transport="pigeon"))


def test_a_kept_socket_ends_with_its_event_loop() -> None:
    async def twice(model: OpenAIResponses) -> None:
        assert await collect(model) == OK
        assert await collect(model) == OK

    with (
        anyio.from_thread.start_blocking_portal() as portal,
        portal.wrap_async_context_manager(running_sockets()) as server,
    ):
        model = OpenAIResponses("m-1", base_url=server.url)
        server.answers.extend([[said("ok"), ended()]] * 4)

        anyio.run(twice, model)
        anyio.run(twice, model)

        assert len(server.paths) == 2
        for gone in server.ended:
            portal.call(wait_for, gone)
