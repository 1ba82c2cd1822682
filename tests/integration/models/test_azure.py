import anyio
import pytest

from bascule.errors import ConfigurationError, ModelError
from bascule.messages import JsonObject, normalize
from bascule.models import AzureOpenAI, Finish, ModelCall, ModelPart, ModelSettings, TextDelta, resolve_model
from tests.integration.models import loopback, responses_server
from tests.integration.models.loopback import LoopbackServer, failure, running_server
from tests.integration.models.responses_server import ended, running_sockets, said

CALL = ModelCall(messages=normalize("hi"), settings=ModelSettings(max_output_tokens=9))


async def collect(model: AzureOpenAI, call: ModelCall = CALL) -> list[ModelPart]:
    with anyio.fail_after(5):
        return [part async for part in model.stream(call)]


def call(**options: object) -> ModelCall:
    given: JsonObject = {"azure": options}  # type: ignore[dict-item]  # pyright: ignore[reportAssignmentType]  # JSON
    return ModelCall(messages=normalize("hi"), provider_options=given)


def resource(server: LoopbackServer) -> str:
    return server.url.removesuffix("/v1")


@pytest.mark.requirement("A43")
@pytest.mark.parametrize(
    ("version", "chat", "responses"),
    [
        (None, "/openai/v1/chat/completions", "/openai/v1/responses"),
        ("preview", "/openai/v1/chat/completions?api-version=preview", "/openai/v1/responses?api-version=preview"),
        (
            "2024-10-21",
            "/openai/deployments/my%20gpt/chat/completions?api-version=2024-10-21",
            "/openai/responses?api-version=2024-10-21",
        ),
    ],
)
async def test_both_interfaces_are_asked_with_key_and_version(version: str | None, chat: str, responses: str) -> None:
    async with running_server() as server:
        endpoint = f"{resource(server)}/openai/v1/"  # copied with the path of an interface, as people do
        model = AzureOpenAI("my gpt", endpoint=endpoint, api_version=version, api_key="key-one", environ={})
        server.replies.extend([loopback.answer(), responses_server.answer()])

        assert (await collect(model))[0] == TextDelta("ok")
        assert (await collect(model, call(useResponsesAPI=True, transport="fetch", store=False)))[0] == TextDelta("ok")
        await model.aclose()

    assert [seen.path for seen in server.requests] == [chat, responses]
    assert [seen.headers["api-key"] for seen in server.requests] == ["key-one", "key-one"]
    assert all("authorization" not in seen.headers for seen in server.requests)
    first, second = (seen.body for seen in server.requests)
    assert (first["model"], first["max_completion_tokens"]) == ("my gpt", 9)
    assert (second["model"], second["store"]) == ("my gpt", False)


@pytest.mark.requirement("A43")
async def test_a_base_url_is_used_as_it_stands() -> None:
    async with running_server() as server:
        model = AzureOpenAI("gpt", base_url=f"{server.url}?tenant=t", api_version="v1", api_key="key-one")
        server.replies.append(loopback.answer())

        await collect(model)
        await model.aclose()

    assert server.requests[0].path == "/v1/chat/completions?tenant=t&api-version=v1"
    assert repr(model) == f"AzureOpenAI('gpt', endpoint={server.url!r})"


@pytest.mark.requirement("A43")
async def test_the_environment_has_azures_names() -> None:
    async with running_server() as server:
        environ = {
            "AZURE_OPENAI_ENDPOINT": resource(server),
            "AZURE_OPENAI_API_KEY": "key-one",
            "OPENAI_API_VERSION": "2024-10-21",
        }
        model = resolve_model("azure/gpt", environ=environ)
        assert isinstance(model, AzureOpenAI)
        server.replies.extend([loopback.answer(), failure(401, "key-one is wrong")])

        assert (await collect(model))[0] == TextDelta("ok")
        with pytest.raises(ModelError) as caught:
            await collect(model)
        await model.aclose()

    assert server.requests[0].path == "/openai/deployments/gpt/chat/completions?api-version=2024-10-21"
    assert (model.provider, model.model_id, model.max_retries) == ("azure", "gpt", 2)
    assert model.capabilities.native_json
    assert "AZURE_OPENAI_API_KEY" in str(caught.value)
    assert "key-one" not in f"{caught.value} {caught.value.raw!r} {model!r}"


async def test_a_resource_may_be_known_by_name() -> None:
    model = resolve_model("azure:gpt", environ={"AZURE_RESOURCE_NAME": "acme"})

    assert repr(model) == "AzureOpenAI('gpt', endpoint='https://acme.openai.azure.com')"


def test_no_address_is_a_mistake_that_says_what_to_set() -> None:
    with pytest.raises(ConfigurationError, match="AZURE_OPENAI_ENDPOINT"):
        AzureOpenAI("gpt", environ={})
    with pytest.raises(ConfigurationError, match=r"no http\(s\) address"):
        AzureOpenAI("gpt", endpoint="acme.openai.azure.com")


async def test_a_missing_key_is_named_without_a_request() -> None:
    for model in (
        AzureOpenAI("gpt", environ={"AZURE_OPENAI_ENDPOINT": "http://x.test"}),
        AzureOpenAI("gpt", endpoint="http://x.test", environ={"AZURE_OPENAI_API_KEY": "for another server"}),
    ):
        with pytest.raises(ModelError, match="no API key for azure") as caught:
            await collect(model)
        assert caught.value.kind == "auth"


@pytest.mark.parametrize("kind", ["sync", "async", "environment"])
async def test_a_token_is_fetched_for_each_request_and_never_shown(kind: str) -> None:
    tokens = iter(["token-one", "token-two", "token-three"])

    async def fetch() -> str:
        return next(tokens)

    async with running_server() as server:
        environ = {"AZURE_OPENAI_ENDPOINT": resource(server), "AZURE_OPENAI_AD_TOKEN": "token-one"}
        token = {"sync": lambda: next(tokens), "async": fetch, "environment": None}[kind]
        model = AzureOpenAI("gpt", token=token, max_retries=0, environ=environ)
        server.replies.extend([loopback.answer(), failure(500, "token-one and token-two broke")])

        await collect(model)
        with pytest.raises(ModelError) as caught:
            await collect(model)
        await model.aclose()

    second = "token-one" if kind == "environment" else "token-two"
    assert [seen.headers["authorization"] for seen in server.requests] == ["Bearer token-one", f"Bearer {second}"]
    assert all("api-key" not in seen.headers for seen in server.requests)
    assert second not in f"{caught.value} {caught.value.raw!r}"


async def test_a_token_that_cannot_be_had_is_an_error_of_the_model() -> None:
    async def fail() -> str:
        raise RuntimeError("no login")

    model = AzureOpenAI("gpt", endpoint="http://x.test", token=fail, environ={})

    with pytest.raises(ModelError, match="RuntimeError") as caught:
        await collect(model)

    assert caught.value.kind == "auth"
    assert isinstance(caught.value.__cause__, RuntimeError)


async def test_chat_completions_over_a_socket_travel_over_http(caplog: pytest.LogCaptureFixture) -> None:
    async with running_server() as server:
        model = AzureOpenAI("gpt", endpoint=resource(server), api_key="key-one", environ={})
        server.replies.append(loopback.answer())

        assert (await collect(model, call(transport="websocket")))[0] == TextDelta("ok")
        await model.aclose()

    assert "no WebSocket transport" in caplog.text


@pytest.mark.requirement("A43")
def test_responses_come_over_a_socket_with_key_and_version() -> None:
    async def main() -> None:
        async with running_sockets() as sockets:
            model = AzureOpenAI(
                "gpt",
                endpoint=sockets.url.removesuffix("/v1"),
                api_version="2025-04-01-preview",
                api_key="key-one",
                use_responses_api=True,
                environ={},
            )
            sockets.answers.append([said("ok"), ended()])
            parts = await collect(model, call(transport="websocket", websocket={"closeOnFinish": False}, store=False))
            await model.transport.close()
            await model.aclose()
        note = {"azure": {"transport": "websocket"}}
        assert parts == [
            TextDelta("ok"),
            Finish("stop", provider_metadata=note, response_id="resp_1", response_model="m-1"),
        ]
        assert sockets.paths == ["/openai/responses?api-version=2025-04-01-preview"]
        assert sockets.headers[0]["api-key"] == "key-one"
        assert sockets.frames[0]["store"] is False

    anyio.run(main)  # the socket runs on asyncio only
