import json
import socket
from collections.abc import AsyncIterator, Sequence

import anyio
import pytest

from bascule.errors import InputError, ModelError
from bascule.models import EmbeddingModel, OpenAIEmbeddings
from tests.integration.models.loopback import LoopbackServer, Reply, failure, running_server


@pytest.fixture
async def server() -> AsyncIterator[LoopbackServer]:
    async with running_server() as running:
        yield running


@pytest.fixture
async def model(server: LoopbackServer) -> AsyncIterator[OpenAIEmbeddings]:
    embeddings = OpenAIEmbeddings("e-1", base_url=server.url, api_key="sk-secret-1", batch_size=2, retry_backoff=0)
    yield embeddings
    await embeddings.aclose()


def vectors(*numbered: tuple[int, Sequence[object]]) -> Reply:
    data = [{"object": "embedding", "index": index, "embedding": vector} for index, vector in numbered]
    return Reply(pieces=[json.dumps({"data": data}).encode()], content_type="application/json")


async def embed(model: EmbeddingModel, *texts: str) -> list[list[float]]:
    with anyio.fail_after(5):
        return await model.embed(texts)


async def refused(model: EmbeddingModel, *texts: str) -> ModelError:
    with pytest.raises(ModelError) as caught:
        await embed(model, *(texts or ("a",)))
    return caught.value


async def test_texts_are_sent_in_batches_and_answered_in_order(server: LoopbackServer, model: OpenAIEmbeddings) -> None:
    server.replies.extend([vectors((1, [0, 1]), (0, [1, 0.5])), vectors((0, [2, 2]))])

    assert await embed(model, "a", "b", "c") == [[1.0, 0.5], [0.0, 1.0], [2.0, 2.0]]

    assert [seen.path for seen in server.requests] == ["/v1/embeddings"] * 2
    assert [seen.body for seen in server.requests] == [
        {"model": "e-1", "input": ["a", "b"], "encoding_format": "float"},
        {"model": "e-1", "input": ["c"], "encoding_format": "float"},
    ]
    assert server.requests[0].headers["authorization"] == "Bearer sk-secret-1"
    assert server.connections == 1
    assert (model.provider, model.model_id, model.dimensions) == ("openai", "e-1", 2)
    assert repr(model) == f"OpenAIEmbeddings('e-1', provider='openai', base_url={server.url!r})"


async def test_long_texts_travel_alone(server: LoopbackServer, model: OpenAIEmbeddings) -> None:
    server.replies.extend([vectors((0, [1])), vectors((0, [2]))])

    assert await embed(model, "a" * 400_000, "b" * 400_000) == [[1.0], [2.0]]


async def test_the_length_of_vectors_is_known_after_the_first_answer(
    server: LoopbackServer, model: OpenAIEmbeddings
) -> None:
    before = model.dimensions
    server.replies.append(vectors((0, [1, 0, 1])))
    await embed(model, "a")

    assert (before, model.dimensions) == (None, 3)


async def test_nothing_is_asked_for_no_texts_and_an_empty_text_is_named(
    server: LoopbackServer, model: OpenAIEmbeddings
) -> None:
    assert await embed(model) == []
    with pytest.raises(InputError, match="position 1"):
        await embed(model, "a", "")

    assert server.requests == []


async def test_shorter_vectors_are_asked_for(server: LoopbackServer) -> None:
    model = OpenAIEmbeddings("e-1", base_url=server.url, dimensions=1)
    server.replies.append(vectors((0, [1])))

    await embed(model, "a")
    await model.aclose()

    assert server.requests[0].body["dimensions"] == model.dimensions == 1


async def test_a_failure_that_may_pass_is_tried_again(server: LoopbackServer, model: OpenAIEmbeddings) -> None:
    whole = vectors((0, [1]))
    cut = Reply(pieces=[b"{"], content_type="application/json", cut=True)
    server.replies.extend([failure(429, "slow", retry_after="0"), cut, whole])

    assert await embed(model, "a") == [[1.0]]


async def test_a_refusal_is_final_and_says_what_to_do(server: LoopbackServer, model: OpenAIEmbeddings) -> None:
    server.replies.append(failure(401, "sk-secret-1 is wrong"))

    error = await refused(model)

    assert error.kind == "auth"
    assert "sk-secret-1" not in f"{error} {error.raw!r}"
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    "reply",
    [
        vectors(),
        vectors((1, [1])),
        vectors((0, [1]), (1, [1])),
        vectors((0, [])),
        vectors((0, ["x"])),
        vectors((0, [float("nan")])),
        Reply(pieces=[b"[]"], content_type="application/json"),
        Reply(pieces=[b"{"], content_type="application/json"),
    ],
)
async def test_an_answer_that_does_not_fit_is_a_protocol_error(
    server: LoopbackServer, model: OpenAIEmbeddings, reply: Reply
) -> None:
    server.replies.append(reply)

    assert (await refused(model)).kind == "protocol"


async def test_vectors_of_several_lengths_are_a_protocol_error(server: LoopbackServer, model: OpenAIEmbeddings) -> None:
    server.replies.append(vectors((0, [1]), (1, [1, 2])))

    assert (await refused(model, "a", "b")).kind == "protocol"


async def test_a_server_that_falls_silent_is_given_up(server: LoopbackServer) -> None:
    model = OpenAIEmbeddings("e-1", base_url=server.url, timeout=0.05, max_retries=0)
    server.replies.append(Reply(pieces=[b"{", anyio.Event()], content_type="application/json"))

    error = await refused(model)
    await model.aclose()

    assert error.kind == "timeout"


async def test_a_server_that_is_not_there_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
    model = OpenAIEmbeddings("e-1", base_url=url, max_retries=0)

    assert (await refused(model)).kind == "connection"
    await model.aclose()
