"""The live output of a run: read it while it happens, await it for the whole."""

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Generator
from dataclasses import replace
from types import TracebackType
from typing import Self, TypeVar

import anyio
from anyio import get_cancelled_exc_class

from bascule.context import CancelToken
from bascule.messages import Message, new_id
from bascule.runs._detached import start_detached
from bascule.runs._log import RunLog
from bascule.stream import (
    AbortChunk,
    Chunk,
    ErrorChunk,
    FileChunk,
    FinishChunk,
    FullOutput,
    PendingCall,
    RunFinishReason,
    RunStatus,
    SourceChunk,
    Step,
    StoppedBy,
    SuspendedChunk,
    TextDeltaChunk,
    ToolCallItem,
    ToolResultItem,
    Usage,
    error_to_raise,
)

__all__ = ["AgentOutput", "Driver", "RunExtras"]

logger = logging.getLogger("bascule.runs")

_T = TypeVar("_T")

CLOSE_TIMEOUT = 10.0
"""Seconds that leaving the output waits for a run that was told to stop."""

Driver = Callable[["AgentOutput"], Awaitable[None]]
"""Does the run: writes its events to ``output.log`` and heeds ``output.cancel_token``."""


class RunExtras:
    """What a result holds beside the fold of its events: the stored messages."""

    __slots__ = ("messages", "remembered")

    def __init__(self) -> None:
        self.messages: tuple[Message, ...] = ()
        self.remembered: tuple[Message, ...] = ()


class AgentOutput:
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
        cancel_token: CancelToken | None = None,
    ) -> None:
        self.run_id = run_id or new_id()
        self.message_id = message_id or new_id()
        self.trace_id = trace_id
        self.log = RunLog()
        self.cancel_token = cancel_token or CancelToken()
        self.extras = RunExtras()
        self._driver: Driver | None = driver

    # --- running ---

    def start(self) -> None:
        """Start the run in a task of its own, unless it has started."""
        if self._driver is not None:
            start_detached(self._take_driver())

    def _take_driver(self) -> Callable[[], Coroutine[object, object, None]]:
        driver, self._driver = self._driver, None
        assert driver is not None
        return lambda: _run(self, driver)

    def cancel(self, reason: str | None = None) -> None:
        """Ask the run to stop; it ends with an abort event."""
        self.cancel_token.cancel(reason)

    async def aclose(self) -> None:
        """Stop the run, if it is still going, and wait for its end."""
        if self._driver is not None:
            self._driver = None
            self.log.close()
            return
        if not self.log.closed:
            self.cancel_token.cancel("the output was closed")
            with anyio.move_on_after(CLOSE_TIMEOUT, shield=True):
                await self.log.wait_closed()

    async def __aenter__(self) -> Self:
        self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    # --- reading ---

    def __aiter__(self) -> AsyncIterator[Chunk]:
        return self.read()

    async def read(self, after: int = 0) -> AsyncIterator[Chunk]:
        """Yield the events from position ``after`` on."""
        self.start()
        async for chunk in self.log.read(after):
            yield chunk

    @property
    def full_stream(self) -> AsyncIterator[Chunk]:
        """All events; the same as iterating over the output."""
        return self.read()

    @property
    def text_stream(self) -> AsyncIterator[str]:
        """The pieces of text alone."""
        return self._texts()

    async def _texts(self) -> AsyncIterator[str]:
        async for chunk in self.read():
            if isinstance(chunk, TextDeltaChunk):
                yield chunk.text

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

    async def result(self) -> FullOutput:
        """Return the whole result; unlike ``await output`` it does not raise for a failed run."""
        if self._driver is not None:
            await self._take_driver()()
        else:
            try:
                await self.log.wait_closed()
            except get_cancelled_exc_class():
                self.cancel_token.cancel("the awaiting task was cancelled")
                raise
        return self.snapshot()

    def snapshot(self) -> FullOutput:
        """Return what the run has come to so far, without waiting."""
        return self._with_extras(self.log.output())

    def _with_extras(self, output: FullOutput) -> FullOutput:
        return replace(
            output,
            run_id=self.run_id,
            message_id=self.message_id,
            messages=self.extras.messages,
            remembered_messages=self.extras.remembered,
        )

    # --- single values; awaiting one drives the run, and none raises for a failed one ---

    @property
    def status(self) -> RunStatus:
        """How the run stands now, without waiting."""
        return self.log.output().status

    @property
    def error(self) -> Exception | None:
        """The exception of a failed run, as far as it is known now."""
        return self.log.output().error

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

    async def _value(self, pick: Callable[[FullOutput], _T]) -> _T:
        return pick(await self.result())


async def _run(output: AgentOutput, driver: Driver) -> None:
    """Drive a run to its end and see to it that its stream has exactly one."""
    log = output.log
    try:
        await driver(output)
    except get_cancelled_exc_class():
        if not _ended(log):
            log.append(AbortChunk(output.run_id, "the task was cancelled"))
            log.append(FinishChunk(output.run_id, message_id=output.message_id, reason="aborted"))
        raise
    except Exception as error:  # the boundary of a run: a fault in it is its result
        logger.exception("run %s failed", output.run_id)
        if not _ended(log):
            log.append(ErrorChunk(output.run_id, type(error).__name__, str(error), cause=error))
            log.append(FinishChunk(output.run_id, message_id=output.message_id, reason="error"))
    finally:
        log.close()


def _ended(log: RunLog) -> bool:
    return bool(log.chunks) and isinstance(log.chunks[-1], FinishChunk | SuspendedChunk)
