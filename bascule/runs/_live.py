"""What every live run has in common: it starts when it is read, writes to a log, can be stopped, and ends once."""

import logging
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from types import TracebackType
from typing import Generic, Self, TypeVar

import anyio
from anyio import get_cancelled_exc_class

from bascule.context import CancelToken
from bascule.errors import BasculeError
from bascule.messages import new_id
from bascule.runs._detached import start_detached
from bascule.runs._log import RunLog
from bascule.stream import Chunk

__all__ = ["CLOSE_TIMEOUT", "LiveRun", "shown_text"]

logger = logging.getLogger("bascule.runs")

CLOSE_TIMEOUT = 10.0
"""Seconds that leaving the output waits for a run that was told to stop."""

ResultT = TypeVar("ResultT")


def shown_text(error: BaseException, run_id: str) -> str:
    """Return what a stream says of an error: the text of our own ones, only the place to look for all others."""
    if isinstance(error, BasculeError):
        return str(error)
    return f"Internal error ({type(error).__name__}). The log has the details under run {run_id}."


class LiveRun(ABC, Generic[ResultT]):
    """A run that can be read while it happens, and awaited for its result.

    ``async for chunk in run`` gives its events from the first on, for any number of readers, also after the end. The
    run starts when it is first read, awaited or entered; as a context manager it is stopped when the block is left
    before its end.

    Args:
        driver: does the run: writes its events to ``log`` and heeds ``cancel_token``.
        run_id: the run's id; a fresh one when left out.
        cancel_token: stops the run; a token of its own when left out.
        log: where the driver writes; a fresh one when left out.

    Attributes:
        run_id: the run.
        log: the run's events so far.
        cancel_token: stops the run.
    """

    def __init__(
        self,
        driver: Callable[[Self], Awaitable[None]],
        *,
        run_id: str | None = None,
        cancel_token: CancelToken | None = None,
        log: RunLog | None = None,
    ) -> None:
        self.run_id: str = run_id or new_id()
        self.log: RunLog = log or RunLog()
        self.cancel_token: CancelToken = cancel_token or CancelToken()
        self._driver: Callable[[Self], Awaitable[None]] | None = driver

    @abstractmethod
    def snapshot(self) -> ResultT:
        """Return what the run has come to so far, without waiting."""

    @abstractmethod
    def _end(self, error: BaseException | None) -> None:
        """Write the last events of a run whose driver ended without them, if it did.

        Args:
            error: what the driver raised; ``None`` when its task was cancelled.
        """

    def start(self) -> None:
        """Start the run in a task of its own, unless it has started."""
        if self._driver is not None:
            start_detached(self._take_driver())

    def _take_driver(self) -> Callable[[], Coroutine[object, object, None]]:
        driver, self._driver = self._driver, None
        assert driver is not None
        return lambda: self._run(driver)

    async def _run(self, driver: Callable[..., Awaitable[None]]) -> None:
        """Drive the run to its end and see to it that its stream has exactly one."""
        try:
            await driver(self)
        except get_cancelled_exc_class():
            self._end(None)
            raise
        except Exception as error:  # the boundary of a run: a fault in it is its result
            if isinstance(error, BasculeError):
                logger.warning("run %s failed: %s", self.run_id, error)
            else:
                logger.exception("run %s failed", self.run_id)
            self._end(error)
        except BaseException as error:
            self._end(error)
            raise
        finally:
            self.log.close()

    def cancel(self, reason: str | None = None) -> None:
        """Ask the run to stop; its stream ends with an event that says so."""
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

    def __aiter__(self) -> AsyncIterator[Chunk]:
        return self.read()

    def read(self, after: int = 0) -> AsyncIterator[Chunk]:
        """Return an iterator over the events from position ``after`` on; its first use starts the run."""
        return self.log.read(after, first=self.start)

    async def result(self) -> ResultT:
        """Return the whole result; it does not raise for a failed run."""
        if self._driver is not None:
            await self._take_driver()()
        else:
            try:
                await self.log.wait_closed()
            except get_cancelled_exc_class():
                self.cancel_token.cancel("the awaiting task was cancelled")
                raise
        return self.snapshot()
