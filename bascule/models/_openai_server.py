"""Where a server that speaks one of OpenAI's interfaces is reached, and with which key."""

import inspect
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

import anyio.to_thread

from bascule.errors import ModelError
from bascule.messages import JsonObject
from bascule.models._endpoint import Endpoint, bare_url
from bascule.models._http import api_url, header_value, secrets_of
from bascule.models._providers import PROVIDERS

__all__ = ["OpenAIServer", "TokenProvider", "find_server"]

TokenProvider: TypeAlias = Callable[[], "str | Awaitable[str]"]
"""Returns a token that is valid now, sync or async; called before every request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenAIServer:
    """A server, as all its interfaces share it.

    Attributes:
        endpoint: makes the errors.
        address: the base URL; a query is kept.
        headers: sent with every request.
        key_missing: whether a key is needed and there is none.
        token: gives the token of each request, for a server that takes no key.
        hidden: what ``endpoint`` removes from messages; the last two entries are the tokens used last.
    """

    endpoint: Endpoint
    address: str = field(repr=False)
    headers: Mapping[str, str] = field(repr=False)
    key_missing: bool = False
    token: TokenProvider | None = None
    hidden: list[str] = field(default_factory=lambda: ["", ""], repr=False)

    def url(self, path: str) -> str:
        """Return the address of an interface, whose path begins with a slash.

        Raises:
            ConfigurationError: the base URL is no http address.
        """
        return api_url(self.address, path)

    async def request_headers(self, more: JsonObject | None = None) -> dict[str, str]:
        """Return the headers of one request, with those of a call.

        Raises:
            ModelError: there is no key, or the token provider failed.
            ConfigurationError: a header or the token cannot be sent.
        """
        if self.key_missing:
            raise ModelError(
                f"There is no API key for {self.endpoint.provider}. {self.endpoint.key_advice}", kind="auth"
            )
        headers = {"content-type": "application/json", "accept": "text/event-stream", **self.headers}
        if self.token is not None:
            headers["authorization"] = f"Bearer {await self._fetch_token(self.token)}"
        for name, value in (more or {}).items():
            headers[name.lower()] = header_value(name, str(value))
        return headers

    async def _fetch_token(self, provider: TokenProvider) -> str:
        try:
            if inspect.iscoroutinefunction(provider):
                given: str | Awaitable[str] = provider()
            else:
                given = await anyio.to_thread.run_sync(provider)  # it may ask a server
            token = header_value("token", given if isinstance(given, str) else await given)
        except Exception as error:
            raise ModelError(
                f"The token provider for {self.endpoint.provider} failed: {type(error).__name__}.", kind="auth"
            ) from error
        if token not in self.hidden[-2:]:
            self.hidden[-2:] = [self.hidden[-1], token]
        return token


def find_server(
    model_id: str,
    *,
    provider: str,
    base_url: str | None,
    api_key: str | None,
    headers: Mapping[str, str] | None,
    environ: Mapping[str, str],
) -> OpenAIServer:
    """Return the server for a model of a known provider, or at an address of the caller.

    Raises:
        ConfigurationError: the key or a header cannot be used.
    """
    known = PROVIDERS.get(provider)
    redirected = base_url or environ.get(f"{provider.upper()}_BASE_URL", "").strip()
    address = redirected or (known.base_url if known is not None else "")
    key_env = known.key_env if known is not None and base_url is None else None
    key = header_value("api_key", api_key or (environ.get(key_env, "") if key_env else ""))
    sent = {name.lower(): header_value(name, value) for name, value in (headers or {}).items()}
    if key:
        sent.setdefault("authorization", f"Bearer {key}")
    endpoint = Endpoint(
        provider=provider,
        model_id=model_id,
        url=bare_url(address),
        key_env=key_env if api_key is None else None,
        hint=known.hint if known is not None and base_url is None else "",
        secrets=secrets_of(key, sent, address),
    )
    return OpenAIServer(
        endpoint=endpoint, address=address, headers=sent, key_missing=bool(key_env) and not redirected and not key
    )
