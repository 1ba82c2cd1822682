"""Leaving an app: everything is closed, whatever else happens; and a log that nobody reads stops nobody."""

import json
import subprocess
import sys
import threading
from pathlib import Path
from typing import IO

import anyio
import pytest

from bascule import Agent, Bascule
from bascule.models import ScriptedModel


def storage_threads() -> list[str]:
    return [
        thread.name
        for thread in threading.enumerate()
        if thread.name.startswith("bascule-") and "tool" not in thread.name
    ]


async def test_an_app_that_is_left_while_cancelled_leaves_nothing_open(tmp_path: Path) -> None:
    app = Bascule(agents=[Agent("a", model=ScriptedModel([]))], storage=f"sqlite:///{tmp_path}/app.db")
    before = storage_threads()
    with anyio.move_on_after(5) as scope:
        async with app:
            await app.memory.create_thread(resource_id="me")
            assert storage_threads() != before
            scope.cancel()
            await anyio.sleep_forever()
    with anyio.fail_after(5):
        while storage_threads() != before:
            await anyio.lowlevel.checkpoint()


class Stubborn(Agent):
    """An agent that cannot be closed."""

    async def aclose(self) -> None:
        raise OSError("it will not close")


async def test_one_part_that_cannot_be_closed_does_not_keep_the_others_open(tmp_path: Path) -> None:
    app = Bascule(agents=[Stubborn("a", model=ScriptedModel([]))], storage=f"sqlite:///{tmp_path}/app.db")
    before = storage_threads()
    with pytest.raises(OSError, match="it will not close"):
        async with app:
            await app.memory.create_thread(resource_id="me")
    with anyio.fail_after(5):
        while storage_threads() != before:
            await anyio.lowlevel.checkpoint()


def write(pipe: IO[str], text: str) -> None:
    pipe.write(text)
    pipe.flush()


def test_a_server_goes_on_when_nobody_reads_its_log(tmp_path: Path) -> None:
    app = tmp_path / "app.py"
    app.write_text(
        "import logging\nfrom bascule import tool\n@tool\ndef talk() -> str:\n    'Talk.'\n"
        "    logging.getLogger('app').warning('x' * 1000)\n    return 'said'\n"
    )
    calls: list[dict[str, object]] = [
        {
            "jsonrpc": "2.0",
            "id": number,
            "method": "tools/call",
            "params": {"name": "talk", "arguments": dict[str, int]()},
        }
        for number in range(300)
    ]
    hello: dict[str, object] = {
        "jsonrpc": "2.0",
        "id": "hello",
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-11-25",
            "capabilities": dict[str, int](),
            "clientInfo": {"name": "t", "version": "1"},
        },
    }
    ready: dict[str, object] = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    lines = "".join(json.dumps(line) + "\n" for line in [hello, ready, *calls])
    with subprocess.Popen(
        [sys.executable, "-m", "bascule", "run", str(app)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,  # and nobody reads it
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        threading.Thread(target=write, args=(process.stdin, lines), daemon=True).start()
        answered = [json.loads(process.stdout.readline())["id"] for _ in range(301)]
        process.stdin.close()
        assert process.stderr is not None
        process.stderr.close()
    assert set(answered) == {"hello", *range(300)}
