"""OpenAI's Responses, and every server that speaks it, over httpx or a WebSocket."""

import importlib
import logging
import os
import sys
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from functools import partial
from typing import TYPE_CHECKING

import anyio.to_thread

from bascule.errors import ConfigurationError, ModelError
from bascule.messages import JsonValue
from bascule.models._exchange import Exchange, with_retries
from bascule.models._http import retry_delay
from bascule.models._openai_responses_request import responses_body
from bascule.models._openai_responses_stream import ResponsesStream
from bascule.models._openai_responses_transport import TransportName, Wish, check_transport, read_wish
from bascule.models._openai_server import OpenAIServer, find_server
from bascule.models._per_loop import PerLoop
from bascule.models._prompt import json_text
from bascule.models._protocol import ModelCall, ModelCapabilities, ModelPart

if TYPE_CHECKING:  # for the checkers only: it stands on an optional dependency
    from bascule.models._endpoint import Endpoint
    from bascule.models._websocket import ModelSocket

__all__ = ["OpenAIResponses", "ResponsesTransport", "ResponsesWire"]

logger = logging.getLogger("bascule.models")


class ResponsesTransport:
    """The connections of a model, as the caller may close them early."""

    def __init__(self, sockets: "PerLoop[ModelSocket]") -> None:
        """Keep the sockets; nothing is opened."""
        self._sockets = sockets

    async def close(self) -> None:
        """Close the WebSocket that was kept open in this event loop; a later call opens another one."""
        await self._sockets.aclose()


class OpenAIResponses:
    """A model behind OpenAI's Responses interface.

    One HTTP client and at most one WebSocket serve all calls in an event loop; they are closed by ``aclose``, else when
    the loop ends. In ``provider_options`` under ``openai``, next to the server's own options:

    - ``transport``: replaces the model's transport for one call.
    - ``websocket``: ``url``, by default made from the base URL, and ``close_on_finish``, whether the socket is closed
      after the answer: it is, unless the transport is ``auto``.
    """

    def __init__(
        self,
        model_id: str,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        transport: TransportName = "auto",
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
            transport: ``websocket`` and ``auto`` use a WebSocket, and HTTP when it cannot be opened. ``auto`` takes
                HTTP without a word where sockets are not available (trio, or the extra ``websocket`` not installed),
                and for good once a server refused one.
            headers: headers to add to every request.
            timeout: the longest silence of the server, in seconds.
            max_retries: how often a call that failed before its first part is repeated, if that can help.
            retry_backoff: seconds before the first repetition, doubled for each further one.
            provider: the provider's name, which also chooses the defaults.
            capabilities: what the model can do.
            environ: where key and address are looked for.

        Raises:
            ConfigurationError: the base URL, the key, a header or the transport cannot be used.
        """
        server = find_server(
            model_id, provider=provider, base_url=base_url, api_key=api_key, headers=headers, environ=environ
        )
        self._model_id = model_id
        self._endpoint = server.endpoint
        self._max_retries = max_retries
        self._capabilities = capabilities or ModelCapabilities(native_json=True, images=True)
        self._wire = ResponsesWire(
            server,
            model_id,
            transport=transport,
            timeout=timeout,
            max_retries=max_retries,
            retry_backoff=retry_backoff,
        )

    def __repr__(self) -> str:
        return f"OpenAIResponses({self._model_id!r}, provider={self.provider!r}, base_url={self._endpoint.url!r})"

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

    @property
    def transport(self) -> ResponsesTransport:
        """The model's connections."""
        return self._wire.transport

    async def aclose(self) -> None:
        """Close the connections of the running event loop; a later call opens new ones."""
        await self._wire.aclose()

    def stream(self, call: ModelCall) -> AsyncGenerator[ModelPart, None]:
        """Answer a call, part by part.

        Raises:
            ModelError: the server failed, refused the call, or cut the answer; or the call continues a response while
                the model's WebSocket answers another call.
            ConfigurationError: the options for the transport cannot be used.
        """
        return self._wire.stream(call)


class ResponsesWire:
    """Makes the calls of one model over Responses.

    Attributes:
        transport: what the caller may close.
    """

    def __init__(
        self,
        server: OpenAIServer,
        model_id: str,
        *,
        path: str = "/responses",
        transport: TransportName,
        timeout: float,
        max_retries: int,
        retry_backoff: float,
    ) -> None:
        """Describe the calls; nothing is opened.

        Raises:
            ConfigurationError: the server has no usable address, or there is no such transport.
        """
        self._url = server.url(path)
        self._server = server
        self._model_id = model_id
        self._max_retries = max_retries
        self._backoff = retry_backoff
        self._default: TransportName = check_transport(transport)
        self._no_sockets = False
        self._exchange = Exchange(server.endpoint, self._url, timeout=timeout)
        self._sockets = PerLoop(partial(_new_socket, server.endpoint, timeout), at_end=_drop)
        self.transport = ResponsesTransport(self._sockets)

    async def aclose(self) -> None:
        """Close the connections of the running event loop."""
        await self._sockets.aclose()
        await self._exchange.aclose()

    def stream(self, call: ModelCall) -> AsyncGenerator[ModelPart, None]:
        """Answer a call, part by part."""
        return with_retries(lambda: self._attempt(call), self._wait_before)

    def _wait_before(self, attempt: int, error: ModelError) -> float | None:
        return retry_delay(attempt, error, max_retries=self._max_retries, backoff=self._backoff)

    async def _attempt(self, call: ModelCall) -> AsyncGenerator[Sequence[ModelPart], None]:
        endpoint = self._server.endpoint
        headers = await self._server.request_headers(call.settings.headers)
        body = responses_body(call, self._model_id, provider=endpoint.provider)
        wish = read_wish(call.provider_options, endpoint.provider, default=self._default, http_url=self._url)
        stream = ResponsesStream(endpoint, include_raw=call.include_raw)
        socket = await self._open_socket(wish, headers, body) if wish.transport != "fetch" else None
        if socket is not None:
            stream.note("transport", "websocket")
            batches = socket.answer(_frame(body), stream, keep=not wish.close_on_finish)
        else:
            batches = self._exchange.answer(json_text(body), headers, stream)
        async with aclosing(batches):
            async for batch in batches:
                yield batch

    async def _open_socket(
        self, wish: Wish, headers: Mapping[str, str], body: Mapping[str, JsonValue]
    ) -> "ModelSocket | None":
        """Return the open socket, held for this call; ``None`` when the call has to travel over HTTP.

        Raises:
            ModelError: it is busy, and the call continues a response.
            ConfigurationError: the call insists on a socket, and none can be had here.
        """
        if wish.transport == "auto" and self._no_sockets:
            return None
        try:
            socket = await self._sockets.get()
        except ConfigurationError:
            if wish.transport == "auto":
                return None
            raise
        if socket.busy:
            previous = body.get("previous_response_id")
            if previous and (wish.transport == "websocket" or previous in socket.answered):
                raise ModelError(
                    f"The WebSocket to {self._server.endpoint.provider} answers another call, and a WebSocket answers "
                    f"one at a time; the call continues the response {previous!r}. Read the running stream to its end "
                    "first, or choose the transport 'fetch'.",
                    kind="bad_request",
                )
            return None
        socket.busy = True
        opened = False
        try:
            handshake = {name: value for name, value in headers.items() if name not in ("content-type", "accept")}
            await socket.open(wish.url, handshake)
            opened = True
        except ModelError as error:
            self._no_sockets = True
            logger.warning("%s The call travels over HTTP instead.", error)
            return None
        finally:
            socket.busy = opened
        return socket


def _frame(body: Mapping[str, JsonValue]) -> str:
    """Return the request as a message; an answer over a socket is always streamed."""
    return json_text({"type": "response.create", **{key: value for key, value in body.items() if key != "stream"}})


async def _new_socket(endpoint: "Endpoint", timeout: float) -> "ModelSocket":
    """Make a socket, not open yet.

    Raises:
        ConfigurationError: sockets are not available here.
    """
    if "bascule.models._websocket" not in sys.modules:
        await anyio.to_thread.run_sync(_load)
    from bascule.models._websocket import ModelSocket, check_event_loop  # noqa: PLC0415  # optional

    check_event_loop()
    return ModelSocket(endpoint, timeout=timeout)


async def _drop(socket: "ModelSocket") -> None:
    await socket.drop()


def _load() -> None:
    try:
        importlib.import_module("bascule.models._websocket")
    except ModuleNotFoundError as error:
        raise ConfigurationError(
            "The WebSocket transport of a model needs the package websockets. Install bascule[websocket], or choose "
            "the transport 'fetch'."
        ) from error
