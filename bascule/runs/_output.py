"""The live output of a run: read it while it happens, await it for the whole."""

from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Mapping, Sequence
from os import urandom
from typing import TypeVar

from bascule.context import CancelToken
from bascule.messages import JsonObject, JsonValue, Message, Part, ReasoningPart, new_id
from bascule.runs._live import LiveRun, shown_text
from bascule.stream import (
    AbortChunk,
    Chunk,
    ErrorChunk,
    FileChunk,
    FinishChunk,
    FullOutput,
    ModelResponse,
    ObjectChunk,
    ObjectResultChunk,
    PendingCall,
    RunFinishReason,
    RunFold,
    RunStatus,
    SourceChunk,
    Step,
    StoppedBy,
    StreamResponse,
    SuspendedChunk,
    TextDeltaChunk,
    ToolCallItem,
    ToolResultItem,
    TripwireChunk,
    Usage,
    Wire,
    ai_sdk_response,
    ai_sdk_stream,
    error_to_raise,
)

__all__ = ["AgentOutput", "Driver", "RunExtras"]

_T = TypeVar("_T")

Driver = Callable[["AgentOutput"], Awaitable[None]]
"""Does the run: writes its events to ``output.log`` and heeds ``output.cancel_token``."""


class RunExtras:
    """What a result holds beside the fold of its events: the stored messages."""

    __slots__ = ("messages", "remembered")

    def __init__(self) -> None:
        self.messages: tuple[Message, ...] = ()
        self.remembered: tuple[Message, ...] = ()


class AgentOutput(LiveRun[FullOutput]):
    """The output of one run of an agent.

    ``async for chunk in output`` gives its events from the first on, for any number of readers, also after the end.
    ``await output`` gives the whole result. The run starts when it is first read, awaited or entered; as a context
    manager it is stopped when the block is left before its end.

    Attributes:
        run_id: the run.
        message_id: the id under which the answer is stored.
        trace_id: 32 hex digits.
        log: the run's events so far.
        cancel_token: stops the run.
    """

    def __init__(
        self,
        driver: Driver,
        *,
        run_id: str | None = None,
        message_id: str | None = None,
        trace_id: str = "",
        span_id: str | None = None,
        cancel_token: CancelToken | None = None,
    ) -> None:
        super().__init__(driver, run_id=run_id, cancel_token=cancel_token)
        self.message_id: str = message_id or new_id()
        self.trace_id = trace_id
        self._span_id = span_id
        self.extras: RunExtras = RunExtras()
        self._whole: FullOutput | None = None

    def _end(self, error: BaseException | None) -> None:
        log = self.log
        if log.chunks and isinstance(log.chunks[-1], FinishChunk | SuspendedChunk):
            return
        if error is None:
            log.append(AbortChunk(self.run_id, "the task was cancelled"))
        else:
            cause = error if isinstance(error, Exception) else None
            log.append(ErrorChunk(self.run_id, type(error).__name__, shown_text(error, self.run_id), cause=cause))
        reason: RunFinishReason = "aborted" if error is None else "error"
        log.append(FinishChunk(self.run_id, message_id=self.message_id, reason=reason))

    @property
    def span_id(self) -> str:
        """16 hex digits: the run's span in its trace; made up when it is first asked for and the run is not traced."""
        if self._span_id is None:
            self._span_id = urandom(8).hex()
        return self._span_id

    # --- reading ---

    @property
    def full_stream(self) -> AsyncIterator[Chunk]:
        """All events; the same as iterating over the output."""
        return self.read()

    @property
    def text_stream(self) -> AsyncIterator[str]:
        """The pieces of text alone."""
        return _Texts(self.read())

    @property
    def object_stream(self) -> AsyncIterator[JsonValue]:
        """The structured answer, as far as it is known, each time that more of it is known."""
        return _Objects(self.read())

    @property
    def element_stream(self) -> AsyncIterator[JsonValue]:
        """The elements of a structured answer that is a list, each as soon as it is complete."""
        return _Elements(self.read())

    def ai_sdk_stream(self) -> AsyncIterator[Wire]:
        """Return the run as parts of the AI SDK's UI message stream (version 5 and later)."""
        return ai_sdk_stream(self.read())

    def ai_sdk_response(self) -> StreamResponse:
        """Return the run as a response for a web route that ``useChat`` reads."""
        return ai_sdk_response(self.read())

    async def consume_stream(self) -> None:
        """Let the run go to its end without looking; never raises for a failed run."""
        await self.result()

    def __await__(self) -> Generator[object, None, FullOutput]:
        return self._full().__await__()

    async def _full(self) -> FullOutput:
        output = await self.result()
        error = error_to_raise(output)
        if error is not None:
            raise error
        return output

    def snapshot(self) -> FullOutput:
        """Return what the run has come to so far, without waiting."""
        if self._whole is not None:
            return self._whole
        closed = self.log.closed
        state = RunFold(run_id=self.run_id, message_id=self.message_id)
        for chunk in self.log.chunks:
            state.apply(chunk)
        output = state.output(messages=self.extras.messages, remembered_messages=self.extras.remembered)
        if closed:
            self._whole = output
        return output

    # --- single values; awaiting one drives the run, and none raises for a failed one ---

    @property
    def status(self) -> RunStatus:
        """How the run stands now, without waiting."""
        return self.snapshot().status

    @property
    def error(self) -> Exception | None:
        """The exception of a failed run, as far as it is known now."""
        return self.snapshot().error

    @property
    def tripwire(self) -> TripwireChunk | None:
        """What a processor said when it stopped the run, as far as it is known now."""
        return self.snapshot().tripwire

    @property
    def text(self) -> Awaitable[str]:
        """Await for the text of the last step."""
        return self._value(lambda output: output.text)

    @property
    def reasoning_text(self) -> Awaitable[str]:
        """Await for the reasoning of all steps."""
        return self._value(lambda output: output.reasoning_text)

    @property
    def sources(self) -> Awaitable[tuple[SourceChunk, ...]]:
        """Await for the sources."""
        return self._value(lambda output: output.sources)

    @property
    def files(self) -> Awaitable[tuple[FileChunk, ...]]:
        """Await for the files that were made."""
        return self._value(lambda output: output.files)

    @property
    def tool_calls(self) -> Awaitable[tuple[ToolCallItem, ...]]:
        """Await for every tool call."""
        return self._value(lambda output: output.tool_calls)

    @property
    def tool_results(self) -> Awaitable[tuple[ToolResultItem, ...]]:
        """Await for one entry for every tool call."""
        return self._value(lambda output: output.tool_results)

    @property
    def steps(self) -> Awaitable[tuple[Step, ...]]:
        """Await for the model calls one by one."""
        return self._value(lambda output: output.steps)

    @property
    def usage(self) -> Awaitable[Usage]:
        """Await for tokens of the whole run."""
        return self._value(lambda output: output.usage)

    @property
    def total_usage(self) -> Awaitable[Usage]:
        """Await for the same as ``usage``."""
        return self._value(lambda output: output.total_usage)

    @property
    def finish_reason(self) -> Awaitable[RunFinishReason]:
        """Await for why the run ended."""
        return self._value(lambda output: output.finish_reason)

    @property
    def stopped_by(self) -> Awaitable[StoppedBy | None]:
        """Await for what ended the loop before the model did."""
        return self._value(lambda output: output.stopped_by)

    @property
    def pending(self) -> Awaitable[tuple[PendingCall, ...]]:
        """Await for the calls that wait for an answer."""
        return self._value(lambda output: output.pending)

    @property
    def warnings(self) -> Awaitable[tuple[str, ...]]:
        """Await for what the developer should know."""
        return self._value(lambda output: output.warnings)

    @property
    def reasoning(self) -> Awaitable[tuple[ReasoningPart, ...]]:
        """Await for the blocks of reasoning of all steps."""
        return self._value(lambda output: output.reasoning)

    @property
    def content(self) -> Awaitable[tuple[Part, ...]]:
        """Await for what the last step added to the turn, in order."""
        return self._value(lambda output: output.content)

    @property
    def object(self) -> Awaitable[JsonValue]:
        """Await for the structured answer."""
        return self._value(lambda output: output.object)

    @property
    def response(self) -> Awaitable[ModelResponse]:
        """Await for where the last step's answer came from."""
        return self._value(lambda output: output.response)

    @property
    def provider_metadata(self) -> Awaitable[JsonObject | None]:
        """Await for the provider's own entries of the last step."""
        return self._value(lambda output: output.provider_metadata)

    @property
    def usage_by_model(self) -> Awaitable[Mapping[str, Usage]]:
        """Await for tokens of the run's steps by ``provider/model``."""
        return self._value(lambda output: output.usage_by_model)

    @property
    def suspend_payload(self) -> Awaitable[JsonValue]:
        """Await for what the first waiting call says of what it waits for."""
        return self._value(lambda output: output.suspend_payload)

    async def _value(self, pick: Callable[[FullOutput], _T]) -> _T:
        return pick(await self.result())


class _Texts:
    """The text of text events alone; like the reader below it, it may be left at any point."""

    __slots__ = ("_chunks",)

    def __init__(self, chunks: AsyncIterator[Chunk]) -> None:
        self._chunks = chunks

    def __aiter__(self) -> "_Texts":
        return self

    async def __anext__(self) -> str:
        while True:
            chunk = await anext(self._chunks)
            if isinstance(chunk, TextDeltaChunk):
                return chunk.text


class _Objects:
    """The partial objects alone."""

    __slots__ = ("_chunks",)

    def __init__(self, chunks: AsyncIterator[Chunk]) -> None:
        self._chunks = chunks

    def __aiter__(self) -> "_Objects":
        return self

    async def __anext__(self) -> JsonValue:
        while True:
            chunk = await anext(self._chunks)
            if isinstance(chunk, ObjectChunk):
                return chunk.object


class _Elements:
    """The elements of a list; one is complete when the next one begins, or when the list is."""

    __slots__ = ("_chunks", "_count", "_ready")

    def __init__(self, chunks: AsyncIterator[Chunk]) -> None:
        self._chunks = chunks
        self._count = 0
        self._ready: list[JsonValue] = []

    def __aiter__(self) -> "_Elements":
        return self

    async def __anext__(self) -> JsonValue:
        while not self._ready:
            chunk = await anext(self._chunks)
            if isinstance(chunk, ObjectChunk | ObjectResultChunk):
                self._take(chunk.object, whole=isinstance(chunk, ObjectResultChunk))
        return self._ready.pop(0)

    def _take(self, value: JsonValue, *, whole: bool) -> None:
        if isinstance(value, Sequence) and not isinstance(value, str):
            complete = len(value) if whole else len(value) - 1
            self._ready += value[self._count : complete]
            self._count = max(self._count, complete)
