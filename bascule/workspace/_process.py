"""A child process together with everything that it starts.

The child leads a session and a process group of its own. A thread reads its stderr into a bounded buffer, whatever the
event loop is doing, and sees the child's exit even while a grandchild keeps the child's pipes open. Closing ends the
whole group. A guard process, a shell that waits on a pipe, does the same when this process is killed: then the pipe
breaks, and the guard ends the group within about a second. What the guard does not reach are descendants that opened a
session of their own; closing in the ordinary way ends those too, on Linux.
"""

import os
import select
import signal
import subprocess
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from types import TracebackType
from typing import IO, Self
from uuid import uuid4

import anyio
from anyio import from_thread, to_thread
from anyio.lowlevel import EventLoopToken, current_token

from bascule.workspace._descendants import MARK, end_group, kill_group
from bascule.workspace._ring import TailBuffer

__all__ = ["ProcessGroup", "spawn"]

END_OF_INPUT_GRACE = 0.25
"""Seconds that a child has to end by itself after its input was closed."""

_GUARD = """\
read -r word && exit 0
kill -s TERM -- "-$1" 2>/dev/null || exit 0
n=0
while [ "$n" -lt 10 ]; do
    sleep 0.1
    kill -s 0 -- "-$1" 2>/dev/null || exit 0
    n=$((n + 1))
done
kill -s KILL -- "-$1" 2>/dev/null
"""


async def spawn(
    argv: Sequence[str],
    *,
    cwd: str | os.PathLike[str] | None = None,
    env: Mapping[str, str] | None = None,
    stderr_size: int = 64 * 1024,
) -> "ProcessGroup":
    """Start a process in a group of its own.

    Args:
        argv: the command and its arguments; no shell is involved.
        cwd: its working directory.
        env: its whole environment; ours when left out.
        stderr_size: how many bytes of stderr are kept.

    Raises:
        OSError: the command or the working directory does not exist, or cannot be used.
    """
    mark = uuid4().hex
    environment = {**(os.environ if env is None else env), MARK: mark}
    child, guard = await to_thread.run_sync(partial(_launch, list(argv), cwd, environment))
    return ProcessGroup(child, guard, mark=mark, stderr=TailBuffer(stderr_size), loop=current_token())


def _launch(
    argv: list[str], cwd: str | os.PathLike[str] | None, env: dict[str, str]
) -> tuple["subprocess.Popen[bytes]", "subprocess.Popen[bytes]"]:
    child = subprocess.Popen(
        argv,
        cwd=cwd,
        env=env,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        bufsize=0,
        start_new_session=True,
    )
    try:
        guard = subprocess.Popen(
            ["/bin/sh", "-c", _GUARD, "bascule-guard", str(child.pid)],
            cwd="/",
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            bufsize=0,
            start_new_session=True,
        )
    except BaseException:
        kill_group(child.pid, env[MARK])
        child.wait()
        raise
    return child, guard


class ProcessGroup:
    """A running child with its pipes; made by ``spawn``.

    One task reads, one task writes. As a context manager it is closed at the end of the block.

    Attributes:
        pid: the child's process id, which is also its group's.
        stderr: the last of what the child and its descendants wrote to stderr.
    """

    def __init__(
        self,
        child: "subprocess.Popen[bytes]",
        guard: "subprocess.Popen[bytes]",
        *,
        mark: str,
        stderr: TailBuffer,
        loop: EventLoopToken,
    ) -> None:
        assert child.stdin is not None
        assert child.stdout is not None
        assert child.stderr is not None
        self.pid: int = child.pid
        self.stderr = stderr
        self._child = child
        self._guard = guard
        self._mark = mark
        self._loop = loop
        self._stdin: IO[bytes] = child.stdin
        self._stdout: IO[bytes] = child.stdout
        self._stderr_pipe: IO[bytes] = child.stderr
        self._exit_code: int | None = None
        self._exited = anyio.Event()
        self._closing = False
        self._closed = anyio.Event()
        self._ended = False
        self._ending = threading.Lock()
        os.set_blocking(self._stdin.fileno(), False)
        os.set_blocking(self._stdout.fileno(), False)
        os.set_blocking(self._stderr_pipe.fileno(), False)
        self._wake_read, self._wake_write = os.pipe()
        self._watcher = threading.Thread(target=self._watch, name="bascule-process", daemon=True)
        self._watcher.start()

    def __repr__(self) -> str:
        state = "running" if self._exit_code is None else f"exited with {self._exit_code}"
        return f"<ProcessGroup {self.pid} {state}>"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    @property
    def exit_code(self) -> int | None:
        """The child's exit status, negative for a signal; ``None`` while it runs."""
        return self._exit_code

    async def wait(self) -> int | None:
        """Wait until the child itself has ended, whoever still holds its pipes."""
        await self._exited.wait()
        return self._exit_code

    # --- pipes ---

    async def read(self, size: int = 256 * 1024) -> bytes:
        """Return what the child has written to stdout, as soon as there is something; nothing at its end."""
        while not self._stdout.closed:
            try:
                return os.read(self._stdout.fileno(), size)
            except BlockingIOError:
                pass
            try:
                await anyio.wait_readable(self._stdout.fileno())
            except anyio.ClosedResourceError:
                break
        return b""

    def read_nowait(self, size: int = 256 * 1024) -> bytes:
        """Return what the child has written to stdout so far, or nothing."""
        if self._stdout.closed:
            return b""
        try:
            return os.read(self._stdout.fileno(), size)
        except BlockingIOError:
            return b""

    def write_nowait(self, data: bytes | memoryview) -> int:
        """Write as much to the child's stdin as it takes at once; returns how much that was.

        Raises:
            BrokenPipeError: the child does not read any more.
        """
        if self._stdin.closed:
            raise BrokenPipeError("The input of the process is closed.")
        try:
            return os.write(self._stdin.fileno(), data)
        except BlockingIOError:
            return 0

    async def write(self, data: bytes) -> None:
        """Write to the child's stdin, waiting as long as it does not read.

        Raises:
            BrokenPipeError: the child does not read any more.
        """
        left = memoryview(data)
        while left:
            left = left[self.write_nowait(left) :]
            if left:
                try:
                    await anyio.wait_writable(self._stdin.fileno())
                except anyio.ClosedResourceError:
                    raise BrokenPipeError("The input of the process is closed.") from None

    def close_stdin(self) -> None:
        """Close the child's input, which asks most programs to end."""
        if not self._stdin.closed:
            anyio.notify_closing(self._stdin.fileno())
            self._stdin.close()

    # --- the end ---

    async def aclose(self, grace: float = 2.0) -> None:
        """End the child and all its descendants, and return when none is left.

        The input is closed, then the group is asked to end (SIGTERM), and after ``grace`` seconds it is killed.
        """
        if self._closing:
            with anyio.CancelScope(shield=True):
                await self._closed.wait()
            return
        self._closing = True
        try:
            with anyio.CancelScope(shield=True):
                self.close_stdin()
                with anyio.move_on_after(END_OF_INPUT_GRACE):
                    await self._exited.wait()
                await to_thread.run_sync(self._end, grace)
        finally:
            if not self._ended:  # the event loop itself is being torn down
                self._end(0.0)
            anyio.notify_closing(self._stdout.fileno())
            self._stdout.close()
            self._exited.set()
            self._closed.set()

    def kill(self) -> None:
        """Kill the child and its group at once; ``aclose`` is still needed."""
        if not self._ended:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGKILL)

    def _end(self, grace: float) -> None:
        with self._ending:
            if not self._ended:
                self._end_once(grace)

    def _end_once(self, grace: float) -> None:
        end_group(self.pid, self._mark, grace=grace, reap=self._child.poll)
        with suppress(subprocess.TimeoutExpired):  # killed, but not gone: nothing more can be done
            self._child.wait(1.0)
        self._exit_code = self._child.returncode
        os.write(self._wake_write, b"x")
        self._watcher.join(1.0)
        for pipe in (self._wake_read, self._wake_write):
            os.close(pipe)
        self._stderr_pipe.close()
        self._dismiss_guard()
        self._ended = True

    def _dismiss_guard(self) -> None:
        assert self._guard.stdin is not None
        with suppress(OSError):
            self._guard.stdin.write(b"done\n")
        with suppress(OSError):
            self._guard.stdin.close()
        self._guard.wait()

    # --- the watching thread ---

    def _watch(self) -> None:
        """Keep stderr empty and notice the exit."""
        poll = select.poll()
        stderr = self._stderr_pipe.fileno()
        exit_watch = self._watch_exit(poll)
        for descriptor in (stderr, self._wake_read):
            poll.register(descriptor, select.POLLIN)
        try:
            while True:
                for descriptor, _ in poll.poll():
                    if descriptor == self._wake_read:
                        return
                    if descriptor == stderr:
                        if not self._take_stderr():
                            poll.unregister(stderr)
                    else:
                        poll.unregister(descriptor)
                        self._take_stderr()  # its last words come before the news of its end
                        self._note_exit()
        finally:
            if exit_watch is not None:
                os.close(exit_watch)

    def _take_stderr(self) -> bool:
        """Read what there is, up to a bound; returns whether more may come."""
        for _ in range(64):
            try:
                data = os.read(self._stderr_pipe.fileno(), 65536)
            except BlockingIOError:
                return True
            self.stderr.write(data)
            if not data:
                return False
        return True

    def _watch_exit(self, poll: "select.poll") -> int | None:
        if not hasattr(os, "pidfd_open"):
            threading.Thread(target=self._wait_for_exit, name="bascule-exit", daemon=True).start()
            return None
        try:
            descriptor = os.pidfd_open(self.pid)
        except ProcessLookupError:
            self._note_exit()
            return None
        poll.register(descriptor, select.POLLIN)
        return descriptor

    def _wait_for_exit(self) -> None:
        self._child.wait()
        self._take_stderr()
        self._note_exit()

    def _note_exit(self) -> None:
        """Tell the event loop. The child stays uncollected, so that its number cannot come to mean another process."""
        self._exit_code = self._status()
        with suppress(RuntimeError):  # the event loop is gone
            from_thread.run_sync(self._exited.set, token=self._loop)

    def _status(self) -> int | None:
        try:
            info = os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except (ChildProcessError, AttributeError):  # collected already; or a system without waitid
            return self._child.poll()
        if info is None:
            return None
        return info.si_status if info.si_code == os.CLD_EXITED else -info.si_status
