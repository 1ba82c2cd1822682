"""The AI SDK's stream while it happens: as parts, and as a response for a web route."""

from collections.abc import AsyncIterator

from bascule.stream._chunk import Chunk, Wire
from bascule.stream._sse import SSE_DONE, StreamResponse, sse_frame
from bascule.stream.ai_sdk import HEADERS, AiSdkEncoder

__all__ = ["ai_sdk_response", "ai_sdk_stream"]


def ai_sdk_stream(chunks: AsyncIterator[Chunk]) -> AsyncIterator[Wire]:
    """Return the parts of a stream while it happens; like the stream itself, it may be left at any point."""
    return _Parts(chunks)


def ai_sdk_response(chunks: AsyncIterator[Chunk]) -> StreamResponse:
    """Return a response for a web route that ``useChat`` reads."""
    return StreamResponse(status=200, headers=HEADERS, body=_Frames(_Parts(chunks)))


class _Parts:
    """The parts, one by one. Not a generator: nothing has to be cleaned up when it is left."""

    __slots__ = ("_chunks", "_encoder", "_ready")

    def __init__(self, chunks: AsyncIterator[Chunk]) -> None:
        self._chunks = chunks
        self._encoder = AiSdkEncoder()
        self._ready: list[Wire] = []

    def __aiter__(self) -> "_Parts":
        return self

    async def __anext__(self) -> Wire:
        while not self._ready:
            try:
                self._ready = self._encoder.feed(await anext(self._chunks))[::-1]
            except StopAsyncIteration:
                self._ready = self._encoder.end()[::-1]
                if not self._ready:
                    raise
        return self._ready.pop()


class _Frames:
    """The parts as bytes, and the frame that ends them."""

    __slots__ = ("_done", "_parts")

    def __init__(self, parts: AsyncIterator[Wire]) -> None:
        self._parts = parts
        self._done = False

    def __aiter__(self) -> "_Frames":
        return self

    async def __anext__(self) -> bytes:
        if self._done:
            raise StopAsyncIteration
        try:
            return sse_frame(await anext(self._parts))
        except StopAsyncIteration:
            self._done = True
            return SSE_DONE
