"""Decides what a run does next: a pure function of the graph, the run's input and what is recorded so far.

It opens nothing, waits for nothing and keeps nothing. The shell records that an entry has begun before it asks again,
and asks again after every result; an empty answer means that everything which can be done is being done.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias, assert_never

from bascule.messages import JsonValue
from bascule.workflows._graph import Entry, ParallelEntry, StepEntry, WorkflowEntry

__all__ = ["Action", "Begin", "Failed", "Finish", "Record", "Settle", "Succeeded", "advance"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """What is known of one step or nested workflow; ``started_at`` is in milliseconds since the epoch."""

    input: JsonValue
    started_at: int
    status: Literal["running", "success", "failed", "canceled"] = "running"
    output: JsonValue = None
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Succeeded:
    """Something came to its end with an output."""

    output: JsonValue


@dataclass(frozen=True, slots=True)
class Failed:
    """Something failed."""

    error: str


@dataclass(frozen=True, slots=True)
class Begin:
    """Begin this entry with this input."""

    entry: StepEntry | WorkflowEntry
    input: JsonValue


@dataclass(frozen=True, slots=True)
class Settle:
    """Record this outcome of a nested workflow whose entries are done."""

    entry: WorkflowEntry
    outcome: Succeeded | Failed


@dataclass(frozen=True, slots=True)
class Finish:
    """The run is over."""

    outcome: Succeeded | Failed


Action: TypeAlias = Begin | Settle | Finish


@dataclass(frozen=True, slots=True)
class _Waiting:
    actions: tuple[Action, ...] = ()


_Outcome: TypeAlias = Succeeded | Failed | _Waiting


def advance(entries: tuple[Entry, ...], value: JsonValue, records: Mapping[str, Record]) -> tuple[Action, ...]:
    """Return what is to be done now.

    Args:
        entries: the workflow's graph.
        value: the run's input.
        records: what has begun and ended so far, by path.
    """
    outcome = _sequence(entries, value, records)
    return outcome.actions if isinstance(outcome, _Waiting) else (Finish(outcome),)


def _sequence(entries: tuple[Entry, ...], value: JsonValue, records: Mapping[str, Record]) -> _Outcome:
    """Each entry's output is the next one's input; the first that is not done decides."""
    for entry in entries:
        outcome = _entry(entry, value, records)
        if not isinstance(outcome, Succeeded):
            return outcome
        value = outcome.output
    return Succeeded(value)


def _entry(entry: Entry, value: JsonValue, records: Mapping[str, Record]) -> _Outcome:
    match entry:
        case ParallelEntry():
            return _parallel(entry, value, records)
        case StepEntry() | WorkflowEntry():
            record = records.get(entry.path)
            if record is None:
                return _Waiting((Begin(entry, value),))
            if record.status == "running":
                return _running(entry, record, records)
            if record.status == "success":
                return Succeeded(record.output)
            return Failed(f"The step {entry.path!r} failed: {record.error}")
        case _:
            assert_never(entry)


def _running(entry: StepEntry | WorkflowEntry, record: Record, records: Mapping[str, Record]) -> _Outcome:
    if isinstance(entry, StepEntry):
        return _Waiting()
    outcome = _sequence(entry.entries, record.input, records)
    return outcome if isinstance(outcome, _Waiting) else _Waiting((Settle(entry, outcome),))


def _parallel(entry: ParallelEntry, value: JsonValue, records: Mapping[str, Record]) -> _Outcome:
    """All entries come to their end, also when one has failed; then the failures decide."""
    outcomes = [(inner.id, _entry(inner, value, records)) for inner in entry.entries]
    waiting = [outcome for _, outcome in outcomes if isinstance(outcome, _Waiting)]
    if waiting:
        return _Waiting(tuple(action for outcome in waiting for action in outcome.actions))
    errors = [outcome.error for _, outcome in outcomes if isinstance(outcome, Failed)]
    if errors:
        return Failed("\n".join(errors))
    return Succeeded({name: outcome.output for name, outcome in outcomes if isinstance(outcome, Succeeded)})
