"""OpenAI's Chat Completions, and every server that speaks it, over httpx."""

import logging
import os
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from urllib.parse import urlsplit

from bascule.errors import ModelError
from bascule.models._exchange import Exchange, with_retries
from bascule.models._http import retry_delay
from bascule.models._openai_chat_request import chat_body
from bascule.models._openai_chat_stream import ChatStream
from bascule.models._openai_server import OpenAIServer, find_server
from bascule.models._prompt import json_text
from bascule.models._protocol import ModelCall, ModelCapabilities, ModelPart
from bascule.models._request import options_of

__all__ = ["ChatWire", "OpenAIChat"]

logger = logging.getLogger("bascule.models")


class OpenAIChat:
    """A model behind OpenAI's Chat Completions interface.

    One HTTP client serves all calls in an event loop; it is closed by ``aclose``, else when the loop ends.
    """

    def __init__(
        self,
        model_id: str,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        headers: Mapping[str, str] | None = None,
        timeout: float = 300.0,
        max_retries: int = 2,
        retry_backoff: float = 0.5,
        provider: str = "openai",
        capabilities: ModelCapabilities | None = None,
        environ: Mapping[str, str] = os.environ,
    ) -> None:
        """Describe the model; nothing is opened.

        Args:
            model_id: the model's name at the server.
            base_url: the server's address, which mostly ends in ``/v1``; by default the provider's, from
                ``<PROVIDER>_BASE_URL`` or the built-in table.
            api_key: the key; by default the provider's environment variable, which is only used when ``base_url`` is
                not given, so that a key is never sent to a server that it is not for.
            headers: headers to add to every request.
            timeout: the longest silence of the server, in seconds.
            max_retries: how often a call that failed before its first part is repeated, if that can help.
            retry_backoff: seconds before the first repetition, doubled for each further one.
            provider: the provider's name, which also chooses the defaults.
            capabilities: what the model can do.
            environ: where key and address are looked for.

        Raises:
            ConfigurationError: the base URL, the key or a header cannot be used.
        """
        server = find_server(
            model_id, provider=provider, base_url=base_url, api_key=api_key, headers=headers, environ=environ
        )
        self._model_id = model_id
        self._endpoint = server.endpoint
        self._max_retries = max_retries
        self._capabilities = capabilities or ModelCapabilities(native_json=True, images=True)
        self._wire = ChatWire(server, model_id, timeout=timeout, max_retries=max_retries, retry_backoff=retry_backoff)

    def __repr__(self) -> str:
        return f"OpenAIChat({self._model_id!r}, provider={self.provider!r}, base_url={self._endpoint.url!r})"

    @property
    def provider(self) -> str:
        """The provider's name."""
        return self._endpoint.provider

    @property
    def model_id(self) -> str:
        """The model's name at the server."""
        return self._model_id

    @property
    def capabilities(self) -> ModelCapabilities:
        """What the model can do."""
        return self._capabilities

    @property
    def max_retries(self) -> int:
        """How often a call is repeated inside ``stream``."""
        return self._max_retries

    async def aclose(self) -> None:
        """Close the connections of the running event loop; a later call opens new ones."""
        await self._wire.aclose()

    def stream(self, call: ModelCall) -> AsyncGenerator[ModelPart, None]:
        """Answer a call, part by part.

        Raises:
            ModelError: the server failed, refused the call, or cut the answer.
        """
        return self._wire.stream(call)


class ChatWire:
    """Makes the calls of one model over Chat Completions."""

    def __init__(
        self,
        server: OpenAIServer,
        model_id: str,
        *,
        path: str = "/chat/completions",
        timeout: float,
        max_retries: int,
        retry_backoff: float,
    ) -> None:
        """Describe the calls; nothing is opened.

        Raises:
            ConfigurationError: the server has no usable address.
        """
        url = server.url(path)
        self._server = server
        self._model_id = model_id
        self._max_retries = max_retries
        self._backoff = retry_backoff
        # Only OpenAI's own servers know the new name; every other one knows the old one.
        current = server.endpoint.provider == "azure" or urlsplit(url).hostname == "api.openai.com"
        self._max_tokens_key = "max_completion_tokens" if current else "max_tokens"
        self._include_usage = True
        self._exchange = Exchange(server.endpoint, url, timeout=timeout)

    async def aclose(self) -> None:
        """Close the connections of the running event loop."""
        await self._exchange.aclose()

    def stream(self, call: ModelCall) -> AsyncGenerator[ModelPart, None]:
        """Answer a call, part by part."""
        self._warn_of_sockets(call)
        return with_retries(lambda: self._attempt(call), self._wait_before)

    def _warn_of_sockets(self, call: ModelCall) -> None:
        given = (options_of(call.provider_options, name) for name in ("openai", self._server.endpoint.provider))
        if call.provider_options and any(options.get("transport") == "websocket" for options in given):
            logger.warning("Chat Completions has no WebSocket transport, so the call travels over HTTP; use Responses.")

    def _wait_before(self, attempt: int, error: ModelError) -> float | None:
        """Return the seconds before another attempt, ``None`` for none."""
        if self._include_usage and error.kind == "bad_request" and "stream_options" in str(error):
            self._include_usage = False  # an old server: the usage stays unknown
            return 0.0
        return retry_delay(attempt, error, max_retries=self._max_retries, backoff=self._backoff)

    async def _attempt(self, call: ModelCall) -> AsyncGenerator[Sequence[ModelPart], None]:
        endpoint = self._server.endpoint
        headers = await self._server.request_headers(call.settings.headers)
        body = chat_body(
            call,
            self._model_id,
            provider=endpoint.provider,
            max_tokens_key=self._max_tokens_key,
            include_usage=self._include_usage,
        )
        stream = ChatStream(endpoint, include_raw=call.include_raw)
        async with aclosing(self._exchange.answer(json_text(body), headers, stream)) as batches:
            async for batch in batches:
                yield batch
