"""OpenAI's Chat Completions, and every server that speaks it, over httpx."""

import os
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing, suppress
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary

import anyio
from anyio.lowlevel import RunVar
from pydantic_core import from_json

from bascule.errors import ModelError
from bascule.models._http import client_maker, completions_url, header_value, retry_delay, secrets_of
from bascule.models._openai_chat_errors import Endpoint, bare_url
from bascule.models._openai_chat_request import chat_body
from bascule.models._openai_chat_stream import ChatStream
from bascule.models._prompt import json_text
from bascule.models._protocol import ModelCall, ModelCapabilities, ModelPart
from bascule.models._providers import PROVIDERS
from bascule.models._sse import MAX_LINE_BYTES, Json

if TYPE_CHECKING:  # for the checkers only: httpx is heavy and loaded by the first call
    import httpx

__all__ = ["OpenAIChat"]

_CONNECT_SECONDS = 10.0
_DRAIN_SECONDS = 0.2
_ERROR_BYTES = 256 * 1024


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
        self._url = completions_url(address)
        self._official = urlsplit(self._url).hostname == "api.openai.com"
        self._key = header_value("api_key", api_key or (environ.get(key_env, "") if key_env else ""))
        self._key_missing = bool(key_env) and not redirected and not self._key
        self._headers = {name.lower(): header_value(name, value) for name, value in (headers or {}).items()}
        self._model_id = model_id
        self._timeout = timeout
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
        opened = _open_clients().pop(self, None)
        if opened is not None:
            await opened.holder.aclose()

    async def stream(self, call: ModelCall) -> AsyncGenerator[ModelPart, None]:
        """Answer a call, part by part.

        Raises:
            ModelError: the server failed, refused the call, or cut the answer.
        """
        attempt = 0
        while True:
            started = False
            try:
                async with aclosing(self._answer(call)) as batches:
                    async for batch in batches:
                        started = True
                        for part in batch:
                            yield part
                return
            except ModelError as error:
                wait = None if started else self._wait_before(attempt, error)
                if wait is None:
                    raise
            attempt += 1
            await anyio.sleep(wait)

    def _wait_before(self, attempt: int, error: ModelError) -> float | None:
        """Return the seconds before another attempt, ``None`` for none."""
        if self._include_usage and error.kind == "bad_request" and "stream_options" in str(error):
            self._include_usage = False  # an old server: the usage stays unknown
            return 0.0
        return retry_delay(attempt, error, max_retries=self._max_retries, backoff=self._backoff)

    async def _answer(self, call: ModelCall) -> AsyncGenerator[Sequence[ModelPart], None]:
        """Make one attempt; what one read of the network brought comes in one batch."""
        response = await self._send(call)
        try:
            if response.status_code != 200:
                raise self._endpoint.of_response(response.status_code, response.headers, await _body(response))
            stream = ChatStream(self._endpoint, include_raw=call.include_raw)
            kind = response.headers.get("content-type", "")
            if kind.startswith("text/html"):
                raise self._endpoint.malformed("a web page instead of an answer; check the base URL")
            batches = (
                self._whole(response, stream) if kind.startswith("application/json") else self._events(response, stream)
            )
            async with aclosing(batches):
                async for batch in batches:
                    if batch:
                        yield batch
                    if stream.error is not None:
                        raise stream.error
        finally:
            await response.aclose()

    async def _whole(self, response: "httpx.Response", stream: ChatStream) -> AsyncGenerator[Sequence[ModelPart], None]:
        """Read the answer of a server that does not stream."""
        body = await _body(response, limit=MAX_LINE_BYTES)
        try:
            event: Json = from_json(body)
        except ValueError as error:
            raise self._endpoint.malformed("an answer that is not valid JSON") from error
        yield stream.feed_event(event)
        yield stream.end()

    async def _events(
        self, response: "httpx.Response", stream: ChatStream
    ) -> AsyncGenerator[Sequence[ModelPart], None]:
        import httpx  # heavy; loaded by the first call

        chunks = response.aiter_bytes() if "content-encoding" in response.headers else response.aiter_raw()
        drain = 0.0
        try:
            try:
                async for data in chunks:
                    yield stream.feed(data)
                    if stream.done:
                        drain = _DRAIN_SECONDS
                        break
            except httpx.TimeoutException as error:
                if not stream.finished:
                    raise self._endpoint.timed_out(f"sent nothing for {self._timeout:g} s") from error
            except httpx.HTTPError as error:
                if not stream.finished:
                    raise self._endpoint.cut(_reason(error)) from error
            yield stream.end()
        finally:
            # Reading on until the end lets the connection serve the next call; when there is no time for that, the
            # cancelled read ends the chain of generators below, which the event loop would complain about otherwise.
            with anyio.move_on_after(drain), suppress(httpx.HTTPError):
                async for _ in chunks:
                    pass

    async def _send(self, call: ModelCall) -> "httpx.Response":
        if self._key_missing:
            raise ModelError(f"There is no API key for {self.provider}. {self._endpoint.key_advice}", kind="auth")
        client = await self._client()
        import httpx  # heavy; loaded by the first call

        body = chat_body(
            call,
            self._model_id,
            provider=self.provider,
            max_tokens_key="max_completion_tokens" if self._official else "max_tokens",
            include_usage=self._include_usage,
        )
        request = client.build_request(
            "POST", self._url, content=json_text(body), headers=self._request_headers(call), timeout=self._limits()
        )
        try:
            return await client.send(request, stream=True)
        except httpx.ConnectTimeout as error:
            raise self._endpoint.unreachable(f"no connection within {_CONNECT_SECONDS:g} s") from error
        except httpx.TimeoutException as error:
            raise self._endpoint.timed_out(f"did not answer within {self._timeout:g} s") from error
        except httpx.ConnectError as error:
            raise self._endpoint.unreachable(_reason(error)) from error
        except httpx.HTTPError as error:
            raise self._endpoint.cut(_reason(error)) from error

    def _limits(self) -> "httpx.Timeout":
        import httpx  # heavy; loaded by the first call

        return httpx.Timeout(self._timeout, connect=min(_CONNECT_SECONDS, self._timeout))

    def _request_headers(self, call: ModelCall) -> dict[str, str]:
        headers = {"content-type": "application/json", "accept": "text/event-stream", **self._headers}
        if self._key:
            headers.setdefault("authorization", f"Bearer {self._key}")
        for name, value in (call.settings.headers or {}).items():
            headers[name.lower()] = header_value(name, str(value))
        return headers

    async def _client(self) -> "httpx.AsyncClient":
        clients = _open_clients()
        if self not in clients:
            make = await client_maker()
            if self not in clients:  # another call may have been faster
                holder = _hold(make(self._url))
                clients[self] = _Opened(await anext(holder), holder)
        return clients[self].client


class _Opened(NamedTuple):
    client: "httpx.AsyncClient"
    holder: AsyncGenerator["httpx.AsyncClient", None]


async def _hold(client: "httpx.AsyncClient") -> AsyncGenerator["httpx.AsyncClient", None]:
    """Keep a client until ``aclose``; an event loop closes the async generators that are left when it ends."""
    try:
        yield client
    finally:
        await client.aclose()


_clients: RunVar["WeakKeyDictionary[OpenAIChat, _Opened]"] = RunVar("bascule_openai_chat_clients")


def _open_clients() -> "WeakKeyDictionary[OpenAIChat, _Opened]":
    """Return the clients of the running event loop."""
    try:
        return _clients.get()
    except LookupError:
        opened: WeakKeyDictionary[OpenAIChat, _Opened] = WeakKeyDictionary()
        _clients.set(opened)
        return opened


async def _body(response: "httpx.Response", limit: int = _ERROR_BYTES) -> bytes:
    """Return the body of an answer, cut at ``limit``; what there is of it when the connection breaks."""
    import httpx  # heavy; loaded by the first call

    pieces: list[bytes] = []
    size = 0
    with suppress(httpx.HTTPError):
        async for data in response.aiter_bytes():
            if size < limit:
                pieces.append(data)
            size += len(data)
    return b"".join(pieces)


def _reason(error: Exception) -> str:
    return str(error) or type(error).__name__
