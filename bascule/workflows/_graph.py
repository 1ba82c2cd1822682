"""A workflow's graph as plain data: a tree of entries, each with a path that stays the same from run to run.

The path of a step is its id, with the ids of the workflows around it in front: ``outer.inner``. A parallel block has
no result of its own: it is made from those of its entries.
"""

from dataclasses import dataclass, replace
from typing import TypeAlias, assert_never

__all__ = ["Entry", "ParallelEntry", "StepEntry", "WorkflowEntry", "nested", "paths_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class StepEntry:
    """Something that is called: a function, a tool or an agent."""

    id: str
    path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowEntry:
    """A workflow inside the workflow; its entries run one after the other."""

    id: str
    path: str
    entries: tuple["Entry", ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ParallelEntry:
    """Entries that get the same input and run at the same time."""

    entries: tuple[StepEntry | WorkflowEntry, ...]


Entry: TypeAlias = StepEntry | WorkflowEntry | ParallelEntry


def nested(entries: tuple[Entry, ...], outer: str) -> tuple[Entry, ...]:
    """Return the entries with their paths below ``outer``."""
    return tuple(_moved(entry, outer) for entry in entries)


def _moved(entry: Entry, outer: str) -> Entry:
    match entry:
        case ParallelEntry():
            return ParallelEntry(entries=tuple(_moved_path(inner, outer) for inner in entry.entries))
        case StepEntry() | WorkflowEntry():
            return _moved_path(entry, outer)
        case _:
            assert_never(entry)


def _moved_path(entry: StepEntry | WorkflowEntry, outer: str) -> StepEntry | WorkflowEntry:
    path = f"{outer}.{entry.path}"
    if isinstance(entry, WorkflowEntry):
        return replace(entry, path=path, entries=nested(entry.entries, outer))
    return replace(entry, path=path)


def paths_of(entries: tuple[Entry, ...]) -> list[str]:
    """Return the path of everything in the graph that has a result, in the order of definition."""
    paths: list[str] = []
    for entry in entries:
        if not isinstance(entry, ParallelEntry):
            paths.append(entry.path)
        if not isinstance(entry, StepEntry):
            paths += paths_of(entry.entries)
    return paths
