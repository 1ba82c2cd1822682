"""The HTTP transport of model servers: httpcore's connections, whose answers pass a ``ChunkJoiner``."""

import ssl
from collections.abc import AsyncGenerator, Generator, Iterable
from contextlib import contextmanager
from typing import Any, cast

import httpcore
import httpx

from bascule.models._chunks import ChunkJoiner

__all__ = ["JoiningTransport"]


class JoiningTransport(httpx.AsyncBaseTransport):
    """Sends requests over HTTP/1.1, and joins the chunks of an answer that come together."""

    def __init__(self, tls: ssl.SSLContext, *, max_keepalive: int) -> None:
        """Describe the connections; nothing is opened.

        Args:
            tls: the TLS settings.
            max_keepalive: how many idle connections are kept.
        """
        self._pool = httpcore.AsyncConnectionPool(
            ssl_context=tls,
            max_connections=None,
            max_keepalive_connections=max_keepalive,
            keepalive_expiry=5.0,
            network_backend=_Backend(),
        )

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send one request."""
        url = httpcore.URL(
            scheme=request.url.raw_scheme,
            host=request.url.raw_host,
            port=request.url.port,
            target=request.url.raw_path,
        )
        sent = httpcore.Request(
            request.method, url, headers=request.headers.raw, content=request.stream, extensions=request.extensions
        )
        with _errors_of_httpx(request):
            answer = await self._pool.handle_async_request(sent)
        return httpx.Response(answer.status, headers=answer.headers, stream=_Body(answer, request))

    async def aclose(self) -> None:
        """Close all connections."""
        await self._pool.aclose()


class _Body(httpx.AsyncByteStream):
    def __init__(self, answer: httpcore.Response, request: httpx.Request) -> None:
        self._answer = answer
        self._request = request

    async def __aiter__(self) -> AsyncGenerator[bytes, None]:
        with _errors_of_httpx(self._request):
            async for part in self._answer.aiter_stream():
                yield part

    async def aclose(self) -> None:
        with _errors_of_httpx(self._request):
            await self._answer.aclose()


@contextmanager
def _errors_of_httpx(request: httpx.Request) -> Generator[None]:
    """Raise what httpcore raises as the class of httpx that has the same name."""
    try:
        yield
    except (
        httpcore.TimeoutException,
        httpcore.NetworkError,
        httpcore.ProtocolError,
        httpcore.UnsupportedProtocol,
    ) as error:
        kind: type[httpx.TransportError] = getattr(httpx, type(error).__name__, httpx.TransportError)
        raise kind(str(error), request=request) from error


class _Backend(httpcore.AsyncNetworkBackend):
    """Opens connections by anyio, on either of its event loops."""

    def __init__(self) -> None:
        # cast: the checkers see what stands in for it where anyio is not installed
        self._opener = cast("httpcore.AsyncNetworkBackend", httpcore.AnyIOBackend())

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,  # Any: the library's own type is private
    ) -> httpcore.AsyncNetworkStream:
        return _Joined(await self._opener.connect_tcp(host, port, timeout, local_address, socket_options))

    async def sleep(self, seconds: float) -> None:
        await self._opener.sleep(seconds)


class _Joined(httpcore.AsyncNetworkStream):
    """A connection whose reads pass a ``ChunkJoiner``."""

    def __init__(self, stream: httpcore.AsyncNetworkStream) -> None:
        self._stream = stream
        self._joiner = ChunkJoiner()

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        while True:
            data = await self._stream.read(max_bytes, timeout)
            if not data:
                return self._joiner.close()
            joined = self._joiner.feed(data)
            if joined:
                return joined

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        await self._stream.write(buffer, timeout)

    async def aclose(self) -> None:
        await self._stream.aclose()

    async def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.AsyncNetworkStream:
        return _Joined(await self._stream.start_tls(ssl_context, server_hostname, timeout))

    def get_extra_info(self, info: str) -> Any:  # Any: as the interface says
        return self._stream.get_extra_info(info)
