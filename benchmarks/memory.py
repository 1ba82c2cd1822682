"""What a memory on SQLite costs: saving a turn and recalling ten messages, in microseconds of CPU time of the process.

A turn is a user's and an assistant's message and the thread's update, in one transaction. The best of many short rounds
counts: other programs on the machine make a round slower, never faster. The event loop is uvloop, as in the servers.

The rows of sqlite3 alone run the same statements on the calling thread, without messages, threads or an event loop: no
library can be below them. The default, sync=full, pays for a flush to the disk in each transaction; turns that are
saved at the same time share one.
"""

import json
import sqlite3
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from uuid import uuid4

import anyio

from bascule.memory import Memory
from bascule.messages import Message, TextPart

ROUNDS = 60
CALLS = 64
CALLS_AT_ONCE = 256
THREADS = 20
AT_ONCE = 32
UVLOOP = {"use_uvloop": True}
QUESTION = "What does the contract say about the notice period, and does it differ between the two parties? " * 2
ANSWER = "The notice period is three months to the end of a quarter; it is the same for both parties. " * 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    name: str
    value: float
    unit: str
    budget: float | None
    ok: bool


def turn() -> tuple[Message, Message]:
    return (
        Message(role="user", parts=(TextPart(QUESTION),)),
        Message(role="assistant", parts=(TextPart(ANSWER),), metadata={"modelId": "scripted", "provider": "script"}),
    )


async def cpu(call: Callable[[int], Awaitable[object]]) -> float:
    """Return the CPU time of one call, user and system, in microseconds."""
    best = float("inf")
    for _ in range(ROUNDS):
        started = time.process_time()
        for number in range(CALLS):
            await call(number)
        best = min(best, time.process_time() - started)
    return best / CALLS * 1e6


async def cpu_at_once(memory: Memory) -> float:
    """Return the CPU time of one of many turns that are saved at the same time, in microseconds."""

    async def save(thread: str) -> None:
        for _ in range(CALLS_AT_ONCE // AT_ONCE):
            await memory.save_turn(turn(), thread=thread, resource_id="user")

    best = float("inf")
    for _ in range(ROUNDS):
        started = time.process_time()
        async with anyio.create_task_group() as group:
            for number in range(AT_ONCE):
                group.start_soon(save, f"thread-{number}")
        best = min(best, time.process_time() - started)
    return best / (CALLS_AT_ONCE // AT_ONCE * AT_ONCE) * 1e6


async def measure(folder: Path, synchronous: str) -> dict[str, float]:
    async with Memory(storage=f"sqlite:///{folder / synchronous}.db?sync={synchronous}") as memory:

        async def append(number: int) -> None:
            await memory.save_turn(turn(), thread=f"thread-{number % THREADS}", resource_id="user")

        async def recall(number: int) -> None:
            messages = await memory.load(f"thread-{number % THREADS}", resource_id="user")
            assert len(messages) == 10

        return {
            "append": await cpu(append),
            "append at once": await cpu_at_once(memory),
            "recall": await cpu(recall),
        }


def alone(path: Path) -> dict[str, float]:
    """Run the statements of a turn and of a recall with the standard library, in the tables that a memory has made."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA synchronous = normal")
    connection.execute("PRAGMA foreign_keys = on")
    find = "SELECT key FROM threads WHERE owner = 'user' AND id = ?"
    append = (
        "INSERT INTO messages SELECT ?, (SELECT max(seq) + 1 FROM messages WHERE thread = ?), ?, 'user', ?, NULL, 0 "
        "WHERE true ON CONFLICT (thread, id) DO UPDATE SET content = excluded.content"
    )
    columns = "id, role, content, metadata, created_at"
    recall = f"SELECT {columns} FROM messages WHERE thread = ({find}) ORDER BY seq DESC LIMIT 10"

    def save(number: int) -> None:
        connection.execute("BEGIN IMMEDIATE")
        (key,) = connection.execute(find, (f"thread-{number % THREADS}",)).fetchone()
        connection.execute("UPDATE threads SET updated_at = updated_at + 1 WHERE key = ?", (key,))
        connection.executemany(append, [(key, key, str(uuid4()), QUESTION), (key, key, str(uuid4()), ANSWER)])
        connection.execute("COMMIT")

    def load(number: int) -> None:
        assert len(connection.execute(recall, (f"thread-{number % THREADS}",)).fetchall()) == 10

    found: dict[str, float] = {}
    for name, call in (("append", save), ("recall", load)):
        best = float("inf")
        for _ in range(ROUNDS):
            started = time.process_time()
            for number in range(CALLS):
                call(number)
            best = min(best, time.process_time() - started)
        found[name] = best / CALLS * 1e6
    connection.close()
    return found


def row(name: str, value: float, budget: float | None = None) -> Row:
    return Row(name=name, value=round(value, 1), unit="us CPU", budget=budget, ok=budget is None or value <= budget)


def rows() -> list[Row]:
    with tempfile.TemporaryDirectory() as name:
        normal = anyio.run(measure, Path(name), "normal", backend_options=UVLOOP)
        full = anyio.run(measure, Path(name), "full", backend_options=UVLOOP)
        peer = alone(Path(name) / "normal.db")
    return [
        row("turn append (sync=normal)", normal["append"], 120),
        row("turn append (sync=full, the default)", full["append"], 120),
        row(f"turn append, {AT_ONCE} at once (the default)", full["append at once"], 120),
        row("turn append, sqlite3 alone (sync=normal)", peer["append"]),
        row("recall of 10", min(normal["recall"], full["recall"]), 100),
        row("recall of 10, sqlite3 alone", peer["recall"]),
    ]


def main() -> None:
    found = rows()
    if "--json" in sys.argv[1:]:
        print(json.dumps({"rows": [asdict(row) for row in found]}))
        return
    for entry in found:
        budget = "" if entry.budget is None else f"budget {entry.budget:.0f}, {'met' if entry.ok else 'MISSED'}"
        print(f"{entry.name:42} {entry.value:8.1f} {entry.unit}   {budget}")


if __name__ == "__main__":
    main()
