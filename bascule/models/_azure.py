"""OpenAI's models on Azure: other addresses and keys, the same interfaces."""

import os
from collections.abc import AsyncGenerator, Mapping
from urllib.parse import quote, urlsplit, urlunsplit

from bascule.errors import ConfigurationError
from bascule.models._endpoint import Endpoint, bare_url
from bascule.models._http import api_url, header_value, secrets_of
from bascule.models._openai_chat import ChatWire
from bascule.models._openai_responses import ResponsesTransport, ResponsesWire
from bascule.models._openai_responses_transport import TransportName
from bascule.models._openai_server import OpenAIServer, TokenProvider
from bascule.models._protocol import ModelCall, ModelCapabilities, ModelPart
from bascule.models._request import options_of

__all__ = ["AzureOpenAI"]

_ENDPOINT_ENV = ("AZURE_OPENAI_ENDPOINT", "AZURE_OPENAI_BASE_URL", "AZURE_BASE_URL")
_KEY_ENV = ("AZURE_OPENAI_API_KEY", "AZURE_API_KEY")
_TOKEN_ENV = "AZURE_OPENAI_AD_TOKEN"  # the name of a variable, not a token
_VERSION_ENV = ("OPENAI_API_VERSION", "AZURE_OPENAI_API_VERSION", "AZURE_API_VERSION")
_UNDATED = ("", "v1", "latest", "preview")


class AzureOpenAI:
    """A model that is deployed on Azure OpenAI, over Chat Completions or Responses.

    ``provider_options`` are read from ``openai`` and ``azure``. Under ``azure``, ``use_responses_api`` replaces the
    choice for one call, and ``transport`` and ``websocket`` are those of ``OpenAIResponses``.
    """

    def __init__(
        self,
        model_id: str,
        *,
        endpoint: str | None = None,
        base_url: str | None = None,
        api_version: str | None = None,
        api_key: str | None = None,
        token: TokenProvider | None = None,
        use_responses_api: bool = False,
        transport: TransportName = "auto",
        headers: Mapping[str, str] | None = None,
        timeout: float = 300.0,
        max_retries: int = 2,
        retry_backoff: float = 0.5,
        capabilities: ModelCapabilities | None = None,
        environ: Mapping[str, str] = os.environ,
    ) -> None:
        """Describe the model; nothing is opened.

        Args:
            model_id: the name of the deployment.
            endpoint: the resource's address, such as ``https://NAME.openai.azure.com``; by default from
                ``AZURE_OPENAI_ENDPOINT``, or from ``AZURE_RESOURCE_NAME``.
            base_url: the whole address in front of ``/chat/completions`` and ``/responses``, instead of ``endpoint``.
            api_version: by default from ``OPENAI_API_VERSION``. A dated version uses the deployment's own addresses,
                every other one, and none, the resource's ``/openai/v1``.
            api_key: the key; by default from ``AZURE_OPENAI_API_KEY``, which is only used when no address is given, so
                that a key is never sent to a server that it is not for.
            token: gives a Microsoft Entra token before each request, instead of the key; sync or async. By default the
                token in ``AZURE_OPENAI_AD_TOKEN``, under the same condition.
            use_responses_api: whether calls use Responses instead of Chat Completions.
            transport: how calls over Responses travel; see ``OpenAIResponses``.
            headers: headers to add to every request.
            timeout: the longest silence of the server, in seconds.
            max_retries: how often a call that failed before its first part is repeated, if that can help.
            retry_backoff: seconds before the first repetition, doubled for each further one.
            capabilities: what the model can do.
            environ: where key, address and version are looked for.

        Raises:
            ConfigurationError: there is no address, or the address, the key or a header cannot be used.
        """
        version = _first(environ, _VERSION_ENV) if api_version is None else api_version.strip()
        own = endpoint is not None or base_url is not None
        server = _server(
            model_id,
            address=base_url or _resource(endpoint or _address(environ)),
            version=version,
            api_key=api_key or ("" if own or token is not None else _first(environ, _KEY_ENV)),
            token=token or (None if own or api_key else _static(environ.get(_TOKEN_ENV, "").strip())),
            headers=headers or {},
            named=not own and api_key is None and token is None,
        )
        chat, responses = _paths(model_id, version) if base_url is None else ("", "")
        self._chat = ChatWire(
            server,
            model_id,
            path=f"{chat}/chat/completions",
            timeout=timeout,
            max_retries=max_retries,
            retry_backoff=retry_backoff,
        )
        self._responses = ResponsesWire(
            server,
            model_id,
            path=f"{responses}/responses",
            transport=transport,
            timeout=timeout,
            max_retries=max_retries,
            retry_backoff=retry_backoff,
        )
        self._model_id = model_id
        self._endpoint = server.endpoint
        self._use_responses = use_responses_api
        self._max_retries = max_retries
        self._capabilities = capabilities or ModelCapabilities(native_json=True, images=True)

    def __repr__(self) -> str:
        return f"AzureOpenAI({self._model_id!r}, endpoint={self._endpoint.url!r})"

    @property
    def provider(self) -> str:
        """The provider's name."""
        return "azure"

    @property
    def model_id(self) -> str:
        """The name of the deployment."""
        return self._model_id

    @property
    def capabilities(self) -> ModelCapabilities:
        """What the model can do."""
        return self._capabilities

    @property
    def max_retries(self) -> int:
        """How often a call is repeated inside ``stream``."""
        return self._max_retries

    @property
    def transport(self) -> ResponsesTransport:
        """The model's connections for Responses."""
        return self._responses.transport

    async def aclose(self) -> None:
        """Close the connections of the running event loop; a later call opens new ones."""
        await self._chat.aclose()
        await self._responses.aclose()

    def stream(self, call: ModelCall) -> AsyncGenerator[ModelPart, None]:
        """Answer a call, part by part.

        Raises:
            ModelError: the server failed, refused the call, or cut the answer; see ``OpenAIResponses.stream``.
        """
        chosen = options_of(call.provider_options, "azure").get("use_responses_api")
        responses = chosen if isinstance(chosen, bool) else self._use_responses
        return self._responses.stream(call) if responses else self._chat.stream(call)


def _first(environ: Mapping[str, str], names: tuple[str, ...]) -> str:
    return next((environ[name].strip() for name in names if environ.get(name, "").strip()), "")


def _address(environ: Mapping[str, str]) -> str:
    found = _first(environ, _ENDPOINT_ENV)
    name = environ.get("AZURE_RESOURCE_NAME", "").strip()
    if not found and not name:
        raise ConfigurationError(
            "There is no address for Azure OpenAI. Set AZURE_OPENAI_ENDPOINT to the resource's address, such as "
            "https://NAME.openai.azure.com, or pass endpoint=..."
        )
    return found or f"https://{name}.openai.azure.com"


def _resource(endpoint: str) -> str:
    """Return a resource's address without the path of an interface, which people often copy along."""
    parts = urlsplit(endpoint.strip())
    path = parts.path.rstrip("/").removesuffix("/v1").removesuffix("/openai")
    return urlunsplit((parts.scheme, parts.netloc, path, parts.query, ""))


def _paths(model_id: str, version: str) -> tuple[str, str]:
    """Return where a resource keeps Chat Completions and Responses."""
    if version in _UNDATED:
        return "/openai/v1", "/openai/v1"
    return f"/openai/deployments/{quote(model_id, safe='')}", "/openai"


def _static(token: str) -> TokenProvider | None:
    async def give() -> str:
        return token

    return give if token else None


def _server(
    model_id: str,
    *,
    address: str,
    version: str,
    api_key: str,
    token: TokenProvider | None,
    headers: Mapping[str, str],
    named: bool,
) -> OpenAIServer:
    api_url(address, "")  # refuses what is no address before it is taken apart
    if version:
        address += f"{'&' if urlsplit(address).query else '?'}api-version={version}"
    key = header_value("api_key", api_key)
    sent = {name.lower(): header_value(name, value) for name, value in headers.items()}
    if key:
        sent.setdefault("api-key", key)
    hidden = [*secrets_of(key, sent, address), "", ""]
    endpoint = Endpoint(
        provider="azure",
        model_id=model_id,
        url=bare_url(address),
        key_env=_KEY_ENV[0] if named else None,
        secrets=hidden,
    )
    missing = not key and token is None and "authorization" not in sent
    return OpenAIServer(
        endpoint=endpoint, address=address, headers=sent, key_missing=missing, token=token, hidden=hidden
    )
