"""The interpreter alone: whatever order steps end in, a run comes to the same result."""

import random
from collections.abc import Mapping
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from bascule.workflows._graph import Entry, ParallelEntry, StepEntry, WorkflowEntry, nested, paths_of
from bascule.workflows._interpreter import Begin, Failed, Finish, Record, Settle, Succeeded, advance


def _entries(draw: st.DrawFn, depth: int, ids: list[int]) -> tuple[Entry, ...]:
    return tuple(_entry(draw, depth, ids) for _ in range(draw(st.integers(1, 3))))


def _single(draw: st.DrawFn, depth: int, ids: list[int]) -> StepEntry | WorkflowEntry:
    ids[0] += 1
    name = f"s{ids[0]}"
    if depth and draw(st.booleans()):
        return WorkflowEntry(id=name, path=name, entries=nested(_entries(draw, depth - 1, ids), name))
    return StepEntry(id=name, path=name)


def _entry(draw: st.DrawFn, depth: int, ids: list[int]) -> Entry:
    if draw(st.booleans()):
        return ParallelEntry(entries=tuple(_single(draw, depth, ids) for _ in range(draw(st.integers(1, 3)))))
    return _single(draw, depth, ids)


@st.composite
def graphs(draw: st.DrawFn) -> tuple[Entry, ...]:
    return _entries(draw, 2, [0])


def play(
    entries: tuple[Entry, ...], failing: frozenset[str], order: random.Random
) -> tuple[Succeeded | Failed, Mapping[str, Record]]:
    """Run a graph whose steps add themselves to a text, ending them in a random order."""
    records: dict[str, Record] = {}
    running: list[str] = []
    while True:
        actions = advance(entries, "", records)
        for action in actions:
            match action:
                case Begin():
                    assert action.entry.path not in records, "nothing begins twice"
                    records[action.entry.path] = Record(input=action.input, started_at=0)
                    if isinstance(action.entry, StepEntry):
                        running.append(action.entry.path)
                case Settle():
                    records[action.entry.path] = ended(records[action.entry.path], action.outcome)
                case Finish(outcome):
                    assert actions == (action,)
                    assert not running, "a run ends when nothing runs any more"
                    return outcome, records
        if actions:
            continue
        path = running.pop(order.randrange(len(running)))
        record = records[path]
        records[path] = ended(record, Failed("broken") if path in failing else Succeeded([path, record.input]))


def ended(record: Record, outcome: Succeeded | Failed) -> Record:
    if isinstance(outcome, Succeeded):
        return replace(record, status="success", output=outcome.output)
    return replace(record, status="failed", error=outcome.error)


@given(graphs(), st.data(), st.integers(), st.integers())
def test_the_result_does_not_depend_on_the_order_in_which_steps_end(
    entries: tuple[Entry, ...], data: st.DataObject, one: int, other: int
) -> None:
    paths = paths_of(entries)
    assert len(set(paths)) == len(paths)
    failing = frozenset(data.draw(st.lists(st.sampled_from(paths), max_size=2)))
    first, records = play(entries, failing, random.Random(one))
    second, again = play(entries, failing, random.Random(other))
    assert (first, dict(records)) == (second, dict(again))
    assert all(record.status != "running" for record in records.values())
    if not failing:
        assert isinstance(first, Succeeded)
        assert set(records) == set(paths)


@given(graphs(), st.integers())
def test_what_is_recorded_is_not_done_again(entries: tuple[Entry, ...], seed: int) -> None:
    outcome, records = play(entries, frozenset(), random.Random(seed))
    assert advance(entries, "", records) == (Finish(outcome),)
