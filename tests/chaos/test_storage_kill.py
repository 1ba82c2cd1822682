"""kill -9 while turns are saved: what was acknowledged is there, and no turn is there in half."""

import os
import random
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import anyio
import pytest

from bascule.memory import Memory

SECONDS = float(os.environ.get("BASCULE_CHAOS_SECONDS", "5"))
APPENDER = Path(__file__).with_name("storage_appender.py")


def run_and_kill(url: str, run: str, lines: int) -> list[str]:
    """Let the appender acknowledge some turns, kill it, and return every line that it managed to write."""
    with subprocess.Popen([sys.executable, APPENDER, url, run], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        found = [line for _, line in zip(range(lines), process.stdout, strict=False)]
        process.kill()
        found += process.stdout.readlines()
    assert process.returncode == -9, "the appender ended by itself"
    return [line for line in found if line != "open\n"]


async def ids_of(memory: Memory, thread: str) -> list[str]:
    if await memory.get_thread(thread, resource_id="r") is None:
        return []
    return [message.id for message in (await memory.recall(thread, resource_id="r")).messages]


async def check(url: str, acknowledged: Counter[tuple[str, str]]) -> None:
    async with Memory(storage=url) as memory:
        for task in range(4):
            thread = f"thread-{task}"
            ids = await ids_of(memory, thread)
            assert len(ids) == len(set(ids))
            # A turn is there as a whole, and the turns of a run stand in the order in which they were saved.
            turns = [tuple(one.rsplit("-", 1)[0] for one in ids[at : at + 2]) for at in range(0, len(ids), 2)]
            assert all(len(turn) == 2 and turn[0] == turn[1] for turn in turns)
            saved = Counter(one.rsplit("-", 2)[0] for one in ids[::2])
            assert [one for one, _ in turns] == [f"{run}-{n}" for run, count in saved.items() for n in range(count)]
            for (name, run), count in acknowledged.items():
                if name == thread:
                    # At most the one turn in flight is there without having been acknowledged.
                    assert count <= saved[run] <= count + 1


@pytest.mark.timeout(0)
@pytest.mark.parametrize("synchronous", ["full", "normal"])
def test_what_was_acknowledged_survives_kill_9(synchronous: str, tmp_path: Path) -> None:
    path = tmp_path / "app.db"
    url = f"sqlite:///{path}?sync={synchronous}"
    acknowledged: Counter[tuple[str, str]] = Counter()
    dice = random.Random()
    deadline = time.monotonic() + SECONDS / 2
    rounds = 0
    while rounds < 3 or time.monotonic() < deadline:
        run = f"run{rounds}"
        for line in run_and_kill(url, run, dice.choice([0, 1, 2, dice.randrange(400), dice.randrange(3000)])):
            thread, number = line.split()
            acknowledged[thread, run] = int(number) + 1
        if path.exists():
            anyio.run(check, url, acknowledged)
            connection = sqlite3.connect(path)
            assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
            assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
            connection.close()
        rounds += 1
