"""What every worker measures, and how. Only the standard library: a worker runs in the environment of its framework.

A worker hands over a ``Candidate`` and prints one JSON object: CPU microseconds by the name of the figure, and KiB for
the memory of an agent. All candidates do the same with a model inside the process:

- run and stream: ``hi`` -> the model calls ``add(1, 2)`` -> the tool, an async function -> the model answers ``3``;
- chunks: the model answers at once, in many small pieces of text, and the reader counts them.
"""

import asyncio
import gc
import json
import time
import tracemalloc
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

__all__ = ["CHUNKS", "PIECE", "Candidate", "measure"]

CHUNKS = 2000
PIECE = "tok "
ROUNDS = 5
AGENTS = 300
ENOUGH = 0.04
"""CPU seconds that one round of a measure takes, about: far above the clock's resolution."""

A = TypeVar("A")


@dataclass(frozen=True, kw_only=True)
class Candidate(Generic[A]):
    """One framework.

    Attributes:
        create: makes an agent with a system text, one tool and the model.
        run: runs it and returns the final text.
        stream: runs it and returns the number of events that were read.
        chunks: runs it with an answer of that many pieces and returns how many were read.
        also: further figures by name: a workload, and how many units it works on.
    """

    create: Callable[[], A]
    run: Callable[[A], Awaitable[object]]
    stream: Callable[[A], Awaitable[int]]
    chunks: Callable[[A, int], Awaitable[int]]
    also: Mapping[str, tuple[Callable[[], Awaitable[object]], int]] | None = None


def measure(candidate: Candidate[A]) -> None:
    """Measure and print."""
    print(json.dumps(asyncio.run(_figures(candidate))))


async def _figures(candidate: Candidate[A]) -> dict[str, float]:
    agent = candidate.create()
    answer = await candidate.run(agent)
    assert "3" in str(answer), f"the final text is {answer!r}"

    async def run() -> object:
        return await candidate.run(agent)

    async def stream() -> object:
        return await candidate.stream(agent)

    async def chunks() -> object:
        found = await candidate.chunks(candidate.create(), CHUNKS)
        assert found >= CHUNKS, f"{found} of {CHUNKS} pieces were read"
        return found

    figures = {
        "create": _create(candidate.create),
        "memory": _memory(candidate.create),
        "run": await _cpu(run),
        "stream": await _cpu(stream),
        "chunk": await _cpu(chunks, units=CHUNKS),
    }
    for name, (work, units) in (candidate.also or {}).items():
        figures[name] = await _cpu(work, units=units)
    return figures


def _create(create: Callable[[], object]) -> float:
    best = float("inf")
    for _ in range(ROUNDS):
        gc.collect()
        started = time.process_time()
        for _ in range(AGENTS):
            create()
        best = min(best, time.process_time() - started)
    return best / AGENTS * 1e6


def _memory(create: Callable[[], object]) -> float:
    gc.collect()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    kept = [create() for _ in range(AGENTS)]
    used = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    return used / len(kept) / 1024


async def _cpu(work: Callable[[], Awaitable[object]], *, units: int = 1) -> float:
    """Return the CPU microseconds for each unit of work, in the best of several rounds, after warming up."""
    await work()
    started = time.process_time()
    await work()
    count = max(1, min(500, round(ENOUGH / max(time.process_time() - started, 1e-6))))
    best = float("inf")
    for _ in range(ROUNDS):
        gc.collect()
        started = time.process_time()
        for _ in range(count):
            await work()
        best = min(best, time.process_time() - started)
    return best / count / units * 1e6
