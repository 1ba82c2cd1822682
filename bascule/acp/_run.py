"""One run of a coding agent: from the message to the one event that ends its stream."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

import anyio
from anyio import get_cancelled_exc_class

from bascule.acp._permissions import PermissionOption
from bascule.acp._process import AgentProcess
from bascule.acp._session import Session
from bascule.acp._turn import Turn
from bascule.acp._v1 import TurnResult, prompt_blocks
from bascule.context import RequestContext
from bascule.errors import AcpError, AcpSessionBusy, AcpTimeout, BasculeError
from bascule.messages import Message
from bascule.runs import AgentOutput
from bascule.stream import (
    AbortChunk,
    ErrorChunk,
    FinishChunk,
    FullOutput,
    RunFinishReason,
    StartChunk,
    StepFinishChunk,
    StepStartChunk,
    SuspendedChunk,
    TextDeltaChunk,
    Usage,
    error_to_raise,
)

__all__ = ["AcpOutput", "AcpRun", "Answer", "Slot"]


class AcpOutput(AgentOutput):
    """The output of a coding agent's run; ``await`` raises the ``AcpError`` itself when it failed with one.

    Attributes:
        run: the run behind it.
    """

    run: "AcpRun"

    @property
    def files_changed(self) -> tuple[str, ...]:
        """The files that the run has changed so far, as far as the agent tells or wrote them through us."""
        return self.run.files_changed

    async def _full(self) -> FullOutput:
        output = await self.result()
        error = output.error
        if output.status == "failed" and isinstance(error, AcpError):
            error.output = output
            raise error
        failure = error_to_raise(output)
        if failure is not None:
            raise failure
        return output


class Slot:
    """The place of one conversation: its session, and the run that uses it.

    Args:
        released: whether the conversation had a session before, which was closed to make room.

    Attributes:
        claims: how many runs use it, or wait for that.
    """

    __slots__ = ("claims", "process", "released", "run", "session")

    def __init__(self, *, released: bool = False) -> None:
        self.released: bool = released
        self.claims: int = 0
        self.process: AgentProcess | None = None
        self.session: Session | None = None
        self.run: AcpRun | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A person's decision about a tool call."""

    approved: bool
    reason: str | None = None
    option: PermissionOption | None = None

    def same_as(self, other: "Answer") -> bool:
        """Tell whether two decisions come to the same."""
        mine, its = (self.option.id if self.option else None), (other.option.id if other.option else None)
        return self.approved == other.approved and mine == its


class Starter(Protocol):
    """Gives the process that is running, or a fresh one."""

    async def __call__(self) -> AgentProcess:
        """Return a process that is ready.

        Raises:
            AcpError: it cannot be started.
        """
        ...


@dataclass(slots=True, kw_only=True, weakref_slot=True)
class AcpRun:
    """A run, which may have several outputs: one up to each question to a person, and one after it.

    Attributes:
        id: the run.
        agent_id: the agent.
        messages: what is said.
        context: the request that it serves.
        enter: called once when the run begins; gives the conversation's place.
        slot: that place.
        lasting: whether the conversation goes on after the run.
        interactive: whether somebody can be asked.
        start: gives the process.
        suspended: whether it waits for a person.
        decisions: what was decided, by tool call, and the output that the decision opened.
        output: the newest output.
    """

    id: str
    agent_id: str
    messages: Sequence[Message]
    context: RequestContext
    enter: Callable[["AcpRun"], Slot]
    lasting: bool
    interactive: bool
    start: Starter
    slot: Slot = field(default_factory=Slot)
    suspended: bool = False
    decisions: dict[str, tuple[Answer, AcpOutput]] = field(default_factory=dict[str, tuple[Answer, AcpOutput]])
    output: AcpOutput | None = None
    turn: Turn | None = None
    _process: AgentProcess | None = None
    _session: Session | None = None
    _claimed: bool = False
    _answered: anyio.Event | None = None
    _active_since: float = 0.0
    _active_before: float = 0.0

    @property
    def files_changed(self) -> tuple[str, ...]:
        """The files that were changed so far."""
        return tuple(self.turn.mapper.changed_files) if self.turn is not None else ()

    @property
    def over(self) -> bool:
        """Whether nobody will hear of it again: it is not going on and not waiting."""
        return not self.suspended and (self.output is None or self.output.log.closed)

    @property
    def lost(self) -> bool:
        """Whether it waits for a person although the agent does not wait for the answer any more."""
        return self.suspended and self.turn is not None and self.turn.ended.is_set()

    # --- drivers ---

    async def begin(self, output: AgentOutput) -> None:
        """Drive a run from its start."""
        self.slot = self.enter(self)
        self.slot.claims += 1
        self._claimed = True
        output.log.append(StartChunk(self.id, self.agent_id, output.message_id))
        try:
            with anyio.CancelScope() as scope:
                forget = output.cancel_token.on_cancel(scope.cancel)
                try:
                    await self._open()
                finally:
                    forget()
            if self._session is None:
                self.release()
                self._abort(output)
                return
            turn = self._begin_turn(output)
        except BasculeError as error:
            self.release()
            self._fail(output, error, None)
            return
        except BaseException:
            self.release()
            raise
        await self._follow(output, turn)

    def resume(self, answers: dict[str, Answer], *, expired: str | None = None) -> AcpOutput:
        """Go on from the answers of a person, whether or not anyone reads the output.

        Args:
            answers: the decisions by tool call.
            expired: why there are none although the agent waits.
        """
        previous = self.output
        assert previous is not None
        self.end_suspension()
        output = AcpOutput(
            partial(self.go_on, answers=answers, expired=expired),
            run_id=self.id,
            message_id=previous.message_id,
            trace_id=previous.trace_id,
        )
        self.output, output.run = output, self
        self.decisions.update({key: (item, output) for key, item in answers.items()})
        output.start()
        return output

    def end_suspension(self) -> None:
        """Wait for no person any more."""
        self.suspended = False
        if self._answered is not None:
            self._answered.set()

    async def go_on(self, output: AgentOutput, answers: dict[str, Answer], expired: str | None) -> None:
        """Drive a run on from the answers of a person."""
        turn = self.turn
        assert turn is not None
        turn.attach(output.log)
        turn.progress_at = self._active_since = anyio.current_time()
        if expired is not None:
            turn.expire(expired)
            output.cancel_token.cancel(expired)
            answers = {}
        for identifier, answer in answers.items():
            turn.answer(identifier, option=answer.option, approved=answer.approved, reason=answer.reason)
        await self._follow(output, turn)

    async def _open(self) -> None:
        """Take the conversation's place and see to it that there is a session.

        Raises:
            AcpSessionBusy: a run is going on there.
            AcpError: the agent cannot be started, or refuses a session.
        """
        slot = self.slot
        while slot.run is not None:
            other = slot.run.turn
            if other is None or (other.shown and not other.stopping):
                state = "waits for a decision" if slot.run.suspended else "is going on"
                raise AcpSessionBusy(
                    f"The run {slot.run.id!r} of the agent {self.agent_id!r} {state} in this session. "
                    "Wait for its end, stop it, or use another thread."
                )
            await other.ended.wait()
        slot.run = self
        try:
            process = await self.start()
            if slot.session is None or slot.process is not process:
                lost, released = slot.session is not None, slot.released
                slot.session = await process.new_session()
                slot.process, slot.released = process, False
                if lost or released:
                    cause = "process had ended" if lost else "session was closed to make room for others"
                    text = f"The agent's {cause}, so the conversation begins anew."
                    slot.session.notices.append(("session_not_resumed", text))
        except BaseException:
            self.release()
            raise
        self._process, self._session = process, slot.session

    def _begin_turn(self, output: AgentOutput) -> Turn:
        assert self._process is not None
        assert self._session is not None
        process, session = self._process, self._session
        blocks = prompt_blocks(self.messages, process.info.prompt_kinds)
        output.log.append(StepStartChunk(self.id, output.message_id, int(time.time() * 1000)))
        turn = self.turn = Turn(
            self.id,
            cwd=process.cwd,
            root=process.config.root or process.cwd,
            policy=process.config.policy,
            interactive=self.interactive,
            context=self.context,
            respond=process.respond,
            on_end=self.release,
        )
        turn.attach(output.log)
        for code, text in session.notices:
            turn.notice(code, text)
        session.notices.clear()
        self._active_since = anyio.current_time()
        session.begin(turn, blocks)
        return turn

    def release(self) -> None:
        """Let the next run use the conversation."""
        if self._claimed:
            self._claimed = False
            self.slot.claims -= 1
        if self.slot.run is self:
            self.slot.run = None
            if not self.lasting and self.slot.session is not None and self.slot.process is not None:
                self.slot.process.forget(self.slot.session)

    def stop(self, *, shown: bool) -> None:
        """Tell the agent to stop."""
        if self._process is not None and self._session is not None and self.turn is not None:
            self._process.stop_turn(self._session, self.turn, shown=shown)

    # --- following a turn ---

    async def _follow(self, output: AgentOutput, turn: Turn) -> None:
        token = output.cancel_token
        forget: Callable[[], None] = token.on_cancel(turn.wake)
        try:
            while not turn.ended.is_set() and turn.error is None:
                if token.cancelled:
                    self.stop(shown=True)
                elif turn.pending:
                    self._suspend(output, turn)
                    return
                with anyio.move_on_after(self._time_left(turn)):
                    await turn.changed()
                    continue
                turn.error = self._overdue(turn)
                if turn.error is not None:
                    self.stop(shown=False)
        except get_cancelled_exc_class():
            self.stop(shown=False)
            turn.mapper.end(interrupted=True)
            turn.detach()
            raise
        finally:
            forget()
        self._finish(output, turn)

    def _time_left(self, turn: Turn) -> float | None:
        if turn.stopping:
            return None
        assert self._process is not None
        config, now = self._process.config, anyio.current_time()
        limits: list[float] = []
        if config.idle_timeout is not None:
            limits.append(turn.progress_at + config.idle_timeout - now)
        if config.turn_timeout is not None:
            limits.append(self._active_since + config.turn_timeout - self._active_before - now)
        return max(0.0, min(limits)) if limits else None

    def _overdue(self, turn: Turn) -> AcpTimeout | None:
        """Return the error for a limit that has passed; the agent may have made progress meanwhile."""
        assert self._process is not None
        config, now = self._process.config, anyio.current_time()
        if config.turn_timeout is not None and now >= self._active_since + config.turn_timeout - self._active_before:
            return AcpTimeout(
                f"The agent {self.agent_id!r} did not finish its turn within {config.turn_timeout:g} seconds; "
                "it was told to stop. Raise turn_timeout for longer tasks.",
                what="turn",
            )
        if config.idle_timeout is not None and now >= turn.progress_at + config.idle_timeout:
            return AcpTimeout(
                f"The agent {self.agent_id!r} showed no progress for {config.idle_timeout:g} seconds; it was told to "
                "stop. Raise idle_timeout if it may be silent for longer.",
                what="progress",
            )
        return None

    # --- the end ---

    def _suspend(self, output: AgentOutput, turn: Turn) -> None:
        turn.mapper.settle()
        turn.detach()
        self.suspended = True
        self._active_before += anyio.current_time() - self._active_since
        output.log.append(SuspendedChunk(self.id, turn.pending_calls()))
        assert self._process is not None
        self._answered = anyio.Event()
        limit = self._process.config.answer_timeout
        if limit is not None:
            self._process.start_soon(partial(self._expire, limit, self._answered))

    async def _expire(self, limit: float, answered: anyio.Event) -> None:
        """End the wait for a person who does not answer."""
        with anyio.move_on_after(limit):
            await answered.wait()
        if answered.is_set() or self.turn is None:
            return
        if self.turn.pending:
            reason = f"nobody answered within {limit:g} seconds"
            answers = {key: Answer(approved=False, reason=reason) for key in self.turn.pending}
            self.resume(answers, expired=reason)
        else:
            self.resume({})

    def _finish(self, output: AgentOutput, turn: Turn) -> None:
        error = turn.error
        stopped = turn.stopping and output.cancel_token.cancelled
        turn.mapper.end(interrupted=stopped or error is not None)
        turn.shown = False
        turn.detach()
        if stopped:
            self._abort(output, warnings=(str(error),) if error is not None else ())
        elif error is not None:
            assert self._process is not None
            self._fail(output, self._process.translated(error), turn)
        elif turn.result is not None and turn.result.reason == "aborted":
            self._abort(output, reason="the agent stopped the turn")
        else:
            assert turn.result is not None
            self._succeed(output, turn.result)

    def _succeed(self, output: AgentOutput, result: TurnResult) -> None:
        self._end_step(output, result.reason, result.usage)
        output.log.append(
            FinishChunk(
                self.id,
                message_id=output.message_id,
                reason=result.reason,
                usage=result.usage,
                text=_text(output),
                stopped_by=result.stopped_by,
                warnings=result.warnings,
            )
        )

    def _abort(self, output: AgentOutput, *, reason: str | None = None, warnings: tuple[str, ...] = ()) -> None:
        output.log.append(AbortChunk(self.id, reason or output.cancel_token.reason))
        if self.turn is not None:
            self._end_step(output, "aborted", Usage())
        output.log.append(
            FinishChunk(self.id, message_id=output.message_id, reason="aborted", text=_text(output), warnings=warnings)
        )

    def _fail(self, output: AgentOutput, error: BasculeError, turn: Turn | None) -> None:
        output.log.append(ErrorChunk(self.id, type(error).__name__, str(error), cause=error))
        if turn is not None:
            self._end_step(output, "error", Usage())
        output.log.append(FinishChunk(self.id, message_id=output.message_id, reason="error", text=_text(output)))

    def _end_step(self, output: AgentOutput, reason: RunFinishReason, usage: Usage) -> None:
        output.log.append(
            StepFinishChunk(
                self.id,
                message_id=output.message_id,
                reason=reason,
                is_continued=False,
                usage=usage,
                text=_text(output),
                provider="acp",
                model_id=self.agent_id,
            )
        )


def _text(output: AgentOutput) -> str:
    return "".join(chunk.text for chunk in output.log.chunks if isinstance(chunk, TextDeltaChunk))
