"""Anthropic's Messages, and every server that speaks it, over httpx."""

import os
import re
from collections.abc import AsyncGenerator, Mapping, Sequence
from urllib.parse import urlsplit, urlunsplit

from bascule.errors import ModelError
from bascule.models._anthropic_request import beta_names, messages_body
from bascule.models._anthropic_stream import MessagesStream
from bascule.models._endpoint import Endpoint, bare_url
from bascule.models._exchange import Exchange, with_retries
from bascule.models._http import api_url, header_value, retry_delay, secrets_of
from bascule.models._prompt import json_text
from bascule.models._protocol import ModelCall, ModelCapabilities, ModelPart
from bascule.models._providers import PROVIDERS

__all__ = ["AnthropicMessages"]

_VERSION = "2023-06-01"
_WITHOUT_NATIVE_JSON = re.compile(r"claude-(?:[123]\b|instant|(?:opus|sonnet)-4(?:-0\b|-2025|$))")


class AnthropicMessages:
    """A model behind Anthropic's Messages interface.

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
        max_tokens: int = 8192,
        provider: str = "anthropic",
        capabilities: ModelCapabilities | None = None,
        environ: Mapping[str, str] = os.environ,
    ) -> None:
        """Describe the model; nothing is opened.

        Args:
            model_id: the model's name at the server.
            base_url: the server's address, with or without ``/v1`` at its end; by default ``ANTHROPIC_BASE_URL``, else
                Anthropic's own.
            api_key: the key; by default ``ANTHROPIC_API_KEY``, which is only used when ``base_url`` is not given, so
                that a key is never sent to a server that it is not for.
            headers: headers to add to every request.
            timeout: the longest silence of the server, in seconds.
            max_retries: how often a call that failed before its first part is repeated, if that can help.
            retry_backoff: seconds before the first repetition, doubled for each further one.
            max_tokens: the longest answer of a call that sets no limit; the interface has to be told one.
            provider: the provider's name, in errors and for ``provider_options``.
            capabilities: what the model can do.
            environ: where key and address are looked for.

        Raises:
            ConfigurationError: the base URL, the key or a header cannot be used.
        """
        known = PROVIDERS["anthropic"]
        redirected = base_url or environ.get("ANTHROPIC_BASE_URL", "").strip()
        address = redirected or known.base_url
        url = _messages_url(address)
        key_env = known.key_env if base_url is None else None
        self._key = header_value("api_key", api_key or (environ.get(key_env, "") if key_env else ""))
        self._headers = {name.lower(): header_value(name, value) for name, value in (headers or {}).items()}
        self._key_missing = not (redirected or self._key or {"x-api-key", "authorization"} & self._headers.keys())
        self._model_id = model_id
        self._max_retries = max_retries
        self._backoff = retry_backoff
        self._max_tokens = max_tokens
        self._capabilities = capabilities or ModelCapabilities(
            native_json=_WITHOUT_NATIVE_JSON.search(model_id) is None, images=True
        )
        self._endpoint = Endpoint(
            provider=provider,
            model_id=model_id,
            url=bare_url(address),
            key_env=key_env if api_key is None else None,
            url_form="",
            secrets=secrets_of(self._key, self._headers, address),
        )
        self._exchange = Exchange(self._endpoint, url, timeout=timeout)

    def __repr__(self) -> str:
        return f"AnthropicMessages({self._model_id!r}, provider={self.provider!r}, base_url={self._endpoint.url!r})"

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
        return retry_delay(attempt, error, max_retries=self._max_retries, backoff=self._backoff)

    def _attempt(self, call: ModelCall) -> AsyncGenerator[Sequence[ModelPart], None]:
        if self._key_missing:
            raise ModelError(f"There is no API key for {self.provider}. {self._endpoint.key_advice}", kind="auth")
        body = messages_body(call, self._model_id, provider=self.provider, max_tokens=self._max_tokens)
        stream = MessagesStream(self._endpoint, include_raw=call.include_raw)
        return self._exchange.answer(json_text(body), self._request_headers(call), stream)

    def _request_headers(self, call: ModelCall) -> dict[str, str]:
        headers = {
            "content-type": "application/json",
            "accept": "text/event-stream",
            "anthropic-version": _VERSION,
            **self._headers,
        }
        if self._key and "authorization" not in headers:
            headers.setdefault("x-api-key", self._key)
        betas = beta_names(call, self.provider)
        if betas:
            asked = [headers["anthropic-beta"]] if "anthropic-beta" in headers else []
            headers["anthropic-beta"] = header_value("anthropic-beta", ",".join([*asked, *betas]))
        for name, value in (call.settings.headers or {}).items():
            headers[name.lower()] = header_value(name, str(value))
        return headers


def _messages_url(base_url: str) -> str:
    """Return where messages are sent: a base URL may end before the version, after it, or after the interface."""
    parts = urlsplit(api_url(base_url, ""))
    path = parts.path
    if not path.endswith(("/v1", "/messages")):
        path += "/v1"
    return api_url(urlunsplit((parts.scheme, parts.netloc, path, parts.query, "")), "/messages")
