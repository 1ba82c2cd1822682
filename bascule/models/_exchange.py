"""Sends requests to a model server over httpx and reads its answers; what they mean is left to an ``AnswerStream``."""

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing, suppress
from functools import partial
from typing import TYPE_CHECKING, Protocol

import anyio
from pydantic_core import from_json

from bascule.errors import ModelError
from bascule.models._endpoint import Endpoint
from bascule.models._http import client_maker
from bascule.models._per_loop import PerLoop
from bascule.models._protocol import ModelPart
from bascule.models._sse import MAX_LINE_BYTES, Json

if TYPE_CHECKING:  # for the checkers only: httpx is heavy and loaded by the first call
    import httpx

__all__ = ["AnswerStream", "Exchange", "with_retries"]

_CONNECT_SECONDS = 10.0
_DRAIN_SECONDS = 0.2
_ERROR_BYTES = 256 * 1024


class AnswerStream(Protocol):
    """Turns the events of one answer into parts; opens nothing and awaits nothing."""

    error: ModelError | None
    """What went wrong, to be raised after the parts that came before it."""

    @property
    def done(self) -> bool:
        """Whether the server said that nothing more comes."""
        ...

    @property
    def finished(self) -> bool:
        """Whether the answer itself is whole, even if the stream goes on."""
        ...

    def feed(self, data: bytes) -> list[ModelPart]:
        """Return the parts that a piece of the event stream completes."""
        ...

    def feed_event(self, event: Json) -> list[ModelPart]:
        """Return the parts of a whole answer that was not streamed."""
        ...

    def end(self) -> list[ModelPart]:
        """Return the last parts, ``Finish`` at the end unless the answer is not whole."""
        ...


async def with_retries(
    attempt: Callable[[], AsyncGenerator[Sequence[ModelPart], None]],
    wait_before: Callable[[int, ModelError], float | None],
) -> AsyncGenerator[ModelPart, None]:
    """Answer a call, and begin again when an attempt fails before its first part.

    Args:
        attempt: makes one attempt; its parts come in batches.
        wait_before: takes how many repetitions there were and why the last attempt failed; returns the seconds before
            another one, ``None`` for none.

    Raises:
        ModelError: the last attempt failed, or one failed in the middle.
    """
    count = 0
    while True:
        started = False
        try:
            async with aclosing(attempt()) as batches:
                async for batch in batches:
                    started = True
                    for part in batch:
                        yield part
            return
        except ModelError as error:
            wait = None if started else wait_before(count, error)
            if wait is None:
                raise
        count += 1
        await anyio.sleep(wait)


class Exchange:
    """The connections to one server; one HTTP client for each event loop.

    A client is closed by ``aclose``, else when its loop ends.
    """

    def __init__(self, endpoint: Endpoint, url: str, *, timeout: float) -> None:
        """Describe the server; nothing is opened.

        Args:
            endpoint: makes the errors.
            url: where requests are sent.
            timeout: the longest silence of the server, in seconds.
        """
        self._endpoint = endpoint
        self._url = url
        self._timeout = timeout
        self._clients = PerLoop(partial(_new_client, url))

    async def aclose(self) -> None:
        """Close the connections of the running event loop; a later request opens new ones."""
        await self._clients.aclose()

    async def answer(
        self, body: str, headers: Mapping[str, str], stream: AnswerStream
    ) -> AsyncGenerator[Sequence[ModelPart], None]:
        """Send one request and read its answer; what one read of the network brought comes in one batch.

        Raises:
            ModelError: the server failed, refused the request, or cut the answer.
        """
        response = await self._send(body, headers)
        try:
            if response.status_code != 200:
                raise self._endpoint.of_response(response.status_code, response.headers, await _body(response))
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

    async def fetch_json(self, body: str, headers: Mapping[str, str]) -> Json:
        """Send one request and return its answer, which comes in one piece.

        Raises:
            ModelError: the server failed, refused the request, or its answer is no JSON.
        """
        response = await self._send(body, headers)
        import httpx  # heavy; loaded by the first call

        try:
            if response.status_code != 200:
                raise self._endpoint.of_response(response.status_code, response.headers, await _body(response))
            return self._parsed(await response.aread())
        except httpx.TimeoutException as error:
            raise self._endpoint.timed_out(f"sent nothing for {self._timeout:g} s") from error
        except httpx.HTTPError as error:
            raise self._endpoint.cut(_reason(error)) from error
        finally:
            await response.aclose()

    def _parsed(self, body: bytes) -> Json:
        try:
            value: Json = from_json(body)
        except ValueError as error:
            raise self._endpoint.malformed("an answer that is not valid JSON") from error
        return value

    async def _whole(
        self, response: "httpx.Response", stream: AnswerStream
    ) -> AsyncGenerator[Sequence[ModelPart], None]:
        """Read the answer of a server that does not stream."""
        yield stream.feed_event(self._parsed(await _body(response, limit=MAX_LINE_BYTES)))
        yield stream.end()

    async def _events(
        self, response: "httpx.Response", stream: AnswerStream
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

    async def _send(self, body: str, headers: Mapping[str, str]) -> "httpx.Response":
        client = await self._clients.get()
        import httpx  # heavy; loaded by the first call

        request = client.build_request("POST", self._url, content=body, headers=headers, timeout=self._limits())
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


async def _new_client(url: str) -> "httpx.AsyncClient":
    return (await client_maker())(url)


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
