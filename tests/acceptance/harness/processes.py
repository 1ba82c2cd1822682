"""Programs as child processes: each in a process group that is ended as a whole, with an end to every wait.

Output goes to files and not to pipes, because a grandchild that keeps a pipe open would keep its reader waiting.
"""

import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

POLL = 0.05
GRACE = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """What a program left behind when it ended."""

    arguments: Sequence[str]
    exit_code: int | None
    """None when the program was ended because its time was up."""
    stdout: str
    stderr: str

    def describe(self) -> str:
        """One readable block for a failure message."""
        ending = "was ended: its time was up" if self.exit_code is None else f"exited with {self.exit_code}"
        parts = [" ".join(self.arguments), ending, "--- stdout", self.stdout[-4000:], "--- stderr", self.stderr[-4000:]]
        return "\n".join(parts)


class Running:
    """A started program."""

    def __init__(self, arguments: Sequence[str], process: subprocess.Popen[bytes], output: tuple[Path, Path]) -> None:
        self._arguments = arguments
        self._process = process
        self._output = output

    @property
    def pid(self) -> int:
        """The program's process id, which is its process group's id too."""
        return self._process.pid

    @property
    def stdout(self) -> str:
        """What the program has written so far."""
        return self._output[0].read_text(encoding="utf-8", errors="replace")

    @property
    def stderr(self) -> str:
        """What the program has written to standard error so far."""
        return self._output[1].read_text(encoding="utf-8", errors="replace")

    def wait_until(self, condition: Callable[[], bool], *, what: str, timeout: float = 30) -> None:
        """Wait until the condition holds; fail when the program ends before, or when the time is up."""
        deadline = time.monotonic() + timeout
        while not condition():
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(POLL)
                if not condition():
                    raise AssertionError(f"the program ended before {what}\n{self._finished().describe()}")
            if time.monotonic() > deadline:
                raise AssertionError(f"{what} did not happen within {timeout} s\n{self._finished().describe()}")

    def wait(self, timeout: float) -> Finished:
        """Wait for the program to end by itself."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout)
        return self._finished()

    def terminate(self, timeout: float = GRACE) -> Finished:
        """Ask the program to end, as a service manager would, and wait."""
        with suppress(ProcessLookupError):
            self._process.terminate()
        return self.wait(timeout)

    def end_group(self) -> None:
        """End every process of the group, politely first."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, number)
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(GRACE)
        self._process.wait(GRACE)

    def _finished(self) -> Finished:
        return Finished(
            arguments=self._arguments, exit_code=self._process.poll(), stdout=self.stdout, stderr=self.stderr
        )


@contextmanager
def started(
    arguments: Sequence[str], *, env: Mapping[str, str], cwd: Path, keep_stdin_open: bool = False
) -> Generator[Running]:
    """Start a program; when the block ends, so do the program and all that it started."""
    with tempfile.TemporaryDirectory(prefix="bascule-") as folder:
        output = Path(folder) / "stdout", Path(folder) / "stderr"
        with output[0].open("wb") as stdout, output[1].open("wb") as stderr:
            process = _spawn(arguments, env=env, cwd=cwd, stdin=keep_stdin_open, streams=(stdout, stderr))
        running = Running(arguments, process, output)
        try:
            yield running
        finally:
            running.end_group()
            if process.stdin is not None:
                process.stdin.close()


def run_to_end(
    arguments: Sequence[str], *, env: Mapping[str, str], cwd: Path, timeout: float, keep_stdin_open: bool = False
) -> Finished:
    """Run a program until it ends or its time is up."""
    with started(arguments, env=env, cwd=cwd, keep_stdin_open=keep_stdin_open) as running:
        return running.wait(timeout)


def _spawn(
    arguments: Sequence[str], *, env: Mapping[str, str], cwd: Path, stdin: bool, streams: tuple[IO[bytes], IO[bytes]]
) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        arguments,
        env=env,
        cwd=cwd,
        stdin=subprocess.PIPE if stdin else subprocess.DEVNULL,
        stdout=streams[0],
        stderr=streams[1],
        start_new_session=True,
    )


def alive_with(marker: str) -> list[int]:
    """The ids of processes whose environment holds the marker: a program hands it down to all that it starts."""
    found: list[int] = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if marker.encode() in (folder / "environ").read_bytes():
                found.append(int(folder.name))
    return found
