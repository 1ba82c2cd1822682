"""OpenAI's Chat Completions, and every server that speaks it, over httpx."""

import os
from collections.abc import AsyncGenerator, Mapping, Sequence
from urllib.parse import urlsplit

from bascule.errors import ModelError
from bascule.models._endpoint import Endpoint, bare_url
from bascule.models._exchange import Exchange, with_retries
from bascule.models._http import api_url, header_value, retry_delay, secrets_of
from bascule.models._openai_chat_request import chat_body
from bascule.models._openai_chat_stream import ChatStream
from bascule.models._prompt import json_text
from bascule.models._protocol import ModelCall, ModelCapabilities, ModelPart
from bascule.models._providers import PROVIDERS

__all__ = ["OpenAIChat"]


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
        known = PROVIDERS.get(provider)
        redirected = base_url or environ.get(f"{provider.upper()}_BASE_URL", "").strip()
        address = redirected or (known.base_url if known is not None else "")
        key_env = known.key_env if known is not None and base_url is None else None
        self._url = api_url(address, "/chat/completions")
        self._official = urlsplit(self._url).hostname == "api.openai.com"
        self._key = header_value("api_key", api_key or (environ.get(key_env, "") if key_env else ""))
        self._key_missing = bool(key_env) and not redirected and not self._key
        self._headers = {name.lower(): header_value(name, value) for name, value in (headers or {}).items()}
        self._model_id = model_id
        self._max_retries = max_retries
        self._backoff = retry_backoff
        self._capabilities = capabilities or ModelCapabilities(native_json=True, images=True)
        self._include_usage = True
        self._endpoint = Endpoint(
            provider=provider,
            model_id=model_id,
            url=bare_url(address),
            key_env=key_env if api_key is None else None,
            hint=known.hint if known is not None and base_url is None else "",
            secrets=secrets_of(self._key, self._headers, address),
        )
        self._exchange = Exchange(self._endpoint, self._url, timeout=timeout)

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
        await self._exchange.aclose()

    def stream(self, call: ModelCall) -> AsyncGenerator[ModelPart, None]:
        """Answer a call, part by part.

        Raises:
            ModelError: the server failed, refused the call, or cut the answer.
        """
        return with_retries(lambda: self._attempt(call), self._wait_before)

    def _wait_before(self, attempt: int, error: ModelError) -> float | None:
        """Return the seconds before another attempt, ``None`` for none."""
        if self._include_usage and error.kind == "bad_request" and "stream_options" in str(error):
            self._include_usage = False  # an old server: the usage stays unknown
            return 0.0
        return retry_delay(attempt, error, max_retries=self._max_retries, backoff=self._backoff)

    def _attempt(self, call: ModelCall) -> AsyncGenerator[Sequence[ModelPart], None]:
        if self._key_missing:
            raise ModelError(f"There is no API key for {self.provider}. {self._endpoint.key_advice}", kind="auth")
        body = chat_body(
            call,
            self._model_id,
            provider=self.provider,
            max_tokens_key="max_completion_tokens" if self._official else "max_tokens",
            include_usage=self._include_usage,
        )
        stream = ChatStream(self._endpoint, include_raw=call.include_raw)
        return self._exchange.answer(json_text(body), self._request_headers(call), stream)

    def _request_headers(self, call: ModelCall) -> dict[str, str]:
        headers = {"content-type": "application/json", "accept": "text/event-stream", **self._headers}
        if self._key:
            headers.setdefault("authorization", f"Bearer {self._key}")
        for name, value in (call.settings.headers or {}).items():
            headers[name.lower()] = header_value(name, str(value))
        return headers
