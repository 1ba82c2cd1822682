"""Drives a workflow's run: the I/O around the interpreter.

A worker is a task that performs one step after the other; where several steps are ready it starts further workers.
After each result the interpreter is asked what is next, and whoever asked goes on with it.
"""

import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Literal, TypeAlias, assert_never, cast

import anyio
from anyio import get_cancelled_exc_class
from anyio.abc import TaskGroup

from bascule.context import CancelToken, RequestContext, use_context
from bascule.errors import BasculeError
from bascule.messages import JsonObject, JsonValue
from bascule.runs import RunLog
from bascule.stream import (
    Chunk,
    FinishChunk,
    Usage,
    WorkflowFinishChunk,
    WorkflowStartChunk,
    WorkflowStepOutputChunk,
    WorkflowStepResultChunk,
    WorkflowStepStartChunk,
)
from bascule.tools import Answer, LogLevel, SilentChannel, failure_text, redact
from bascule.workflows._context import StepContext
from bascule.workflows._definition import Definition
from bascule.workflows._graph import Entry, StepEntry, WorkflowEntry
from bascule.workflows._interpreter import Begin, Failed, Finish, Record, Settle, Succeeded, advance
from bascule.workflows._shape import Shape, plain

__all__ = ["Execution", "Plan"]

logger = logging.getLogger("bascule.workflows")

EndStatus: TypeAlias = Literal["success", "failed", "canceled"]

STOPPED = "The run was stopped before the step had ended."


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A workflow as it is run: its graph, and what is behind each path of it."""

    workflow_id: str
    entries: tuple[Entry, ...]
    definitions: Mapping[str, Definition]
    input: Shape | None
    output: Shape | None


@dataclass(slots=True, kw_only=True)
class Execution:
    """One run of a plan; ``drive`` is the run.

    Attributes:
        value: the run's input, checked, as JSON values.
        now: the clock.
    """

    plan: Plan
    value: JsonValue
    run_id: str
    log: RunLog
    cancel: CancelToken
    context: RequestContext
    now: Callable[[], datetime]
    records: dict[str, Record] = field(default_factory=dict[str, Record])
    usage: Usage = field(default_factory=Usage)
    finished: bool = False

    async def drive(self) -> None:
        """Run to the end and write every event to ``log``.

        Raises:
            Exception: a fault of the runtime itself; what goes wrong in a step is an event. ``close`` ends the stream.
        """
        self.log.append(WorkflowStartChunk(self.run_id, self.plan.workflow_id))
        with use_context(self.context), anyio.CancelScope() as scope:
            forget = self.cancel.on_cancel(scope.cancel)
            try:
                async with anyio.create_task_group() as group:
                    await self._work(group, self._next(group))
            finally:
                forget()
        self.close()

    async def _work(self, group: TaskGroup, begin: Begin | None) -> None:
        while begin is not None:
            await self._perform(begin)
            begin = self._next(group)

    def _next(self, group: TaskGroup) -> Begin | None:
        """Do what the interpreter says, start workers for all ready steps but one, and return that one."""
        ready: list[Begin] = []
        asking = True
        while asking and not self.cancel.cancelled:
            asking = False
            for action in advance(self.plan.entries, self.value, self.records):
                match action:
                    case Begin():
                        self._begin(action)
                        if isinstance(action.entry, StepEntry):
                            ready.append(action)
                        else:
                            asking = True
                    case Settle():
                        self._settle(action.entry, action.outcome, self.plan.definitions[action.entry.path].output)
                        asking = True
                    case Finish():
                        self._finish(action.outcome)
                    case _:
                        assert_never(action)
        for begin in ready[1:]:
            group.start_soon(self._work, group, begin)
        return ready[0] if ready else None

    def _begin(self, action: Begin) -> None:
        path, value = action.entry.path, action.input
        started = self._milliseconds()
        self.records[path] = Record(input=value, started_at=started)
        self.log.append(WorkflowStepStartChunk(self.run_id, path, f"{self.run_id}/{path}", value, started))
        shape = self.plan.definitions[path].input
        if isinstance(action.entry, WorkflowEntry) and shape is not None:
            try:
                value = shape.dump(value, "The input")
            except BasculeError as error:
                self._record(path, "failed", error=str(error))
            else:
                self.records[path] = replace(self.records[path], input=value)

    async def _perform(self, begin: Begin) -> None:
        path = begin.entry.path
        try:
            outcome = await self._outcome(path, begin.input)
        except get_cancelled_exc_class():
            self._record(path, "canceled", error=STOPPED)
            raise
        self._settle(begin.entry, outcome, None)

    async def _outcome(self, path: str, value: JsonValue) -> Succeeded | Failed:
        """Call a step between the checks of its input and its output."""
        definition = self.plan.definitions[path]
        assert definition.call is not None, "nested workflows are not called"
        try:
            given: object = plain(value, "The input")  # a copy: a step may change what it was given
            if definition.input is not None:
                given = definition.input.check(given, "The input")
            output = await definition.call(self._context(path, given))
            if definition.output is not None:
                return Succeeded(definition.output.dump(output, "The output"))
            return Succeeded(plain(output, "The output"))
        except BasculeError as error:
            return Failed(redact(str(error)))
        except Exception as error:
            logger.exception("step %s of run %s failed", path, self.run_id)
            return Failed(failure_text(_only(error)))

    def _context(self, path: str, value: object) -> StepContext[object]:
        outer = path.rpartition(".")[0]
        return StepContext(
            input=value,
            init_data=self.records[outer].input if outer else self.value,
            results=_Results(self.records, outer),
            run_id=self.run_id,
            workflow_id=self.plan.workflow_id,
            step_id=path,
            request_context=self.context,
            cancel=self.cancel,
            channel=_StepChannel(self, path),
        )

    def _settle(self, entry: StepEntry | WorkflowEntry, outcome: Succeeded | Failed, output: Shape | None) -> None:
        outcome = _checked(outcome, output, "The output")
        if isinstance(outcome, Succeeded):
            self._record(entry.path, "success", output=outcome.output)
        else:
            self._record(entry.path, "failed", error=outcome.error)

    def _record(self, path: str, status: EndStatus, *, output: JsonValue = None, error: str | None = None) -> None:
        record = replace(self.records[path], status=status, output=output, error=error)
        self.records[path] = record
        self.log.append(
            WorkflowStepResultChunk(
                self.run_id,
                step_id=path,
                call_id=f"{self.run_id}/{path}",
                input=record.input,
                started_at=record.started_at,
                ended_at=self._milliseconds(),
                status=status,
                output=output,
                error=error,
            )
        )

    def _finish(self, outcome: Succeeded | Failed) -> None:
        outcome = _checked(outcome, self.plan.output, f"The output of the workflow {self.plan.workflow_id!r}")
        if isinstance(outcome, Succeeded):
            self._end("success", result=outcome.output)
        else:
            self._end("failed", error=outcome.error)

    def close(self, status: Literal["failed", "canceled"] = "canceled", error: str | None = None) -> None:
        """End a run that did not come to its own end, and all that it had begun."""
        if self.finished:
            return
        for path, record in reversed(list(self.records.items())):
            if record.status == "running":
                self._record(path, "canceled", error=STOPPED)
        self._end(status, error=error)

    def _end(self, status: EndStatus, *, result: JsonValue = None, error: str | None = None) -> None:
        self.finished = True
        self.log.append(WorkflowFinishChunk(self.run_id, status=status, result=result, error=error, usage=self.usage))

    def tell(self, path: str, output: JsonValue, inner: Chunk | None = None) -> None:
        """Write what a step tells on its way."""
        if isinstance(inner, FinishChunk):
            self.usage += inner.usage
        self.log.append(WorkflowStepOutputChunk(self.run_id, path, output, inner))

    def _milliseconds(self) -> int:
        return int(self.now().timestamp() * 1000)


def _checked(outcome: Succeeded | Failed, shape: Shape | None, what: str) -> Succeeded | Failed:
    if shape is None or isinstance(outcome, Failed):
        return outcome
    try:
        return Succeeded(shape.dump(outcome.output, what))
    except BasculeError as error:
        return Failed(str(error))


def _only(error: Exception) -> Exception:
    """Return the exception that a group of one holds."""
    if isinstance(error, ExceptionGroup):
        group = cast("ExceptionGroup[Exception]", error)
        return _only(group.exceptions[0]) if len(group.exceptions) == 1 else group
    return error


class _Results(Mapping[str, JsonValue]):
    """The outputs of a workflow's steps, as they come in."""

    def __init__(self, records: Mapping[str, Record], outer: str) -> None:
        self._records = records
        self._prefix = f"{outer}." if outer else ""

    def __getitem__(self, step_id: str) -> JsonValue:
        record = self._records[f"{self._prefix}{step_id}"]
        if record.status != "success":
            raise KeyError(step_id)
        return record.output

    def __iter__(self) -> Iterator[str]:
        for path, record in self._records.items():
            step_id = path.removeprefix(self._prefix)
            if record.status == "success" and path.startswith(self._prefix) and "." not in step_id:
                yield step_id

    def __len__(self) -> int:
        return sum(1 for _ in self)


class _StepChannel:
    """Carries what a step, its tool or its agent tells to the run's stream."""

    __slots__ = ("_execution", "_path")

    def __init__(self, execution: Execution, path: str) -> None:
        self._execution = execution
        self._path = path

    async def progress(self, done: float, total: float | None, message: str | None) -> None:
        """Write how far the step is."""
        self._execution.tell(self._path, {"progress": done, "total": total, "message": message})

    async def log(self, level: LogLevel, data: JsonValue, logger: str | None) -> None:
        """Write a log entry."""
        self._execution.tell(self._path, {"level": level, "data": data, "logger": logger})

    async def emit(self, chunk: Chunk) -> None:
        """Write another run's event, wrapped."""
        self._execution.tell(self._path, chunk.to_wire(), chunk)

    async def write(self, data: JsonValue) -> None:
        """Write the step's own data."""
        self._execution.tell(self._path, data)

    async def ask(self, message: str, schema: JsonObject) -> Answer:
        """Refuse: a workflow's steps cannot ask."""
        return await SilentChannel().ask(message, schema)
