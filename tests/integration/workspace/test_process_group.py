"""Processes that leave nothing behind."""

import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest

from bascule.workspace import ProcessGroup, spawn


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state not in ("Z", "X")


async def read_line(process: ProcessGroup) -> str:
    data = b""
    with anyio.fail_after(10):
        while not data.endswith(b"\n"):
            piece = await process.read()
            assert piece, "end of output"
            data += piece
    return data.decode()


async def until(condition: Callable[[], bool]) -> None:
    with anyio.fail_after(10):
        while not condition():  # noqa: ASYNC110  # another process tells no event
            await anyio.sleep(0.02)


async def test_what_is_written_comes_back_and_the_end_of_input_ends_the_child() -> None:
    async with await spawn(["cat"]) as process:
        await process.write(b"hello\n")
        assert await read_line(process) == "hello\n"
        process.close_stdin()
        with anyio.fail_after(5):
            assert await process.wait() == 0
    assert process.exit_code == 0


async def test_more_than_a_pipe_holds_goes_through_in_both_directions() -> None:
    size = 3_000_000
    received = 0
    async with await spawn(["cat"]) as process, anyio.create_task_group() as tasks:
        tasks.start_soon(process.write, b"x" * size)
        with anyio.fail_after(10):
            while received < size:
                received += len(await process.read())
    assert received == size


async def test_a_flood_on_stderr_does_not_stop_the_child_and_its_end_is_kept() -> None:
    script = "head -c 300000 /dev/zero | tr '\\0' e >&2; echo last words >&2; echo done"
    async with await spawn(["sh", "-c", script], stderr_size=4096) as process:
        assert await read_line(process) == "done\n"
        with anyio.fail_after(5):
            await process.wait()
        assert process.stderr.text().endswith("last words")
        assert process.stderr.total > 300000
        assert len(process.stderr.text()) <= 4096


async def test_the_last_words_are_there_when_the_exit_is_seen() -> None:
    for number in range(20):
        async with await spawn(["sh", "-c", f"echo words {number} >&2; exit 3"]) as process:
            with anyio.fail_after(5):
                assert await process.wait() == 3
            assert process.stderr.text() == f"words {number}"


async def test_the_exit_is_seen_while_a_grandchild_holds_the_pipes() -> None:
    async with await spawn(["sh", "-c", "sleep 300 & echo $!; exit 3"]) as process:
        grandchild = int(await read_line(process))
        with anyio.fail_after(5):
            assert await process.wait() == 3
        assert alive(grandchild)
    assert not alive(grandchild)


async def test_a_signal_is_a_negative_exit_code() -> None:
    async with await spawn(["sh", "-c", "kill -9 $$"]) as process:
        with anyio.fail_after(5):
            assert await process.wait() == -signal.SIGKILL


@pytest.mark.requirement("F39")
@pytest.mark.parametrize(
    "script",
    [
        "sleep 300 & echo $!; wait",
        "trap '' TERM; sh -c 'trap \"\" TERM; sleep 300 & echo $!; while :; do sleep 1; done'",
        "setsid sleep 300 & sleep 0.2; pgrep -n -f 'sleep 300'; wait",
    ],
    ids=["an obedient one", "one that ignores the request to end", "one in a session of its own"],
)
async def test_no_descendant_is_alive_after_close(script: str) -> None:
    if "setsid" in script and sys.platform != "linux":
        pytest.skip("found by /proc, which is Linux only")
    process = await spawn(["sh", "-c", script])
    descendant = int(await read_line(process))
    assert alive(descendant)
    await process.aclose(grace=0.3)
    assert not alive(descendant)
    assert not alive(process.pid)


async def test_the_group_ends_when_the_block_is_cancelled() -> None:
    descendant = 0
    with anyio.move_on_after(10) as scope:
        async with await spawn(["sh", "-c", "sleep 300 & echo $!; wait"]) as process:
            descendant = int(await read_line(process))
            scope.cancel()
            await anyio.sleep_forever()
    assert not alive(descendant)


async def test_closing_twice_at_once_is_one_close() -> None:
    process = await spawn(["sh", "-c", "echo ready; sleep 300"])
    await read_line(process)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(process.aclose)
        tasks.start_soon(process.aclose)
    await process.aclose()
    assert not alive(process.pid)
    with pytest.raises(BrokenPipeError):
        await process.write(b"x")
    assert await process.read() == b""


async def test_a_reader_is_released_by_close() -> None:
    read: list[bytes] = []
    async with anyio.create_task_group() as tasks:
        process = await spawn(["sleep", "300"])

        async def reader() -> None:
            read.append(await process.read())

        tasks.start_soon(reader)
        await anyio.wait_all_tasks_blocked()
        with anyio.fail_after(10):
            await process.aclose()
    assert read == [b""]


async def test_a_missing_command_or_folder_is_an_os_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        await spawn(["no-such-command-here"])
    with pytest.raises(FileNotFoundError):
        await spawn(["true"], cwd=tmp_path / "missing")


PARENT = """
    import os, sys, anyio
    from bascule.workspace import spawn

    async def main():
        process = await spawn(["sh", "-c", "trap '' TERM HUP; sleep 300 & echo $!; while :; do sleep 1; done"])
        print(process.pid, (await process.read()).decode().strip(), flush=True)
        {end}

    anyio.run(main)
"""


@pytest.mark.parametrize(
    "end",
    ["await anyio.sleep_forever()", "os._exit(0)", "raise KeyboardInterrupt"],
    ids=["killed", "left without cleaning up", "interrupted"],
)
async def test_no_descendant_outlives_our_own_process(end: str) -> None:
    code = textwrap.dedent(PARENT.format(end=end))
    parent = await anyio.to_thread.run_sync(
        lambda: subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    )
    assert parent.stdout is not None
    child, grandchild = map(int, (await anyio.to_thread.run_sync(parent.stdout.readline)).split())
    if "forever" in end:
        os.kill(parent.pid, signal.SIGKILL)
    await anyio.to_thread.run_sync(parent.wait)
    parent.stdout.close()
    await until(lambda: not alive(child) and not alive(grandchild))
