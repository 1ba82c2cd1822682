"""Finds and ends what is left of a process group.

Processes that a child starts stay in its group unless they open a session of their own. On Linux those are found too,
by a mark in the environment that every descendant inherits. A signal is sent only to a process that is in the group
or carries the mark, and the mark is read again through a descriptor that cannot come to mean another process.
"""

import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

__all__ = ["MARK", "end_group", "kill_group"]

MARK = "BASCULE_PROCESS_GROUP"
"""The environment variable whose value tells the descendants of one group from all other processes."""

PAUSE = 0.01
AFTER_KILL = 1.0
_PROC = Path("/proc")


def kill_group(group: int, mark: str) -> None:
    """Kill every process of the group and every marked one, at once and without waiting."""
    _signal_group(group, signal.SIGKILL)
    _signal_marked(mark, signal.SIGKILL)


def end_group(group: int, mark: str, *, grace: float, reap: Callable[[], object]) -> None:
    """Ask all processes of a group to end, kill those that do not, and return when none is alive.

    Args:
        group: the process group.
        mark: the value of the environment variable ``MARK`` in its processes.
        grace: seconds between asking and killing.
        reap: collects the exit status of the group's leader, if it has ended.
    """
    for number, seconds in ((signal.SIGTERM, grace), (signal.SIGKILL, AFTER_KILL)):
        reap()
        if not _alive(group, mark):
            return
        _signal_group(group, number)
        _signal_marked(mark, number)
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            time.sleep(PAUSE)
            reap()
            if not _alive(group, mark):
                return


def _alive(group: int, mark: str) -> bool:
    return _group_alive(group) or bool(_marked(mark))


def _group_alive(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # a member under another user
        return True
    if not _PROC.joinpath("self", "stat").exists():
        return True
    return any(_group_and_state(pid) == (group, True) for pid in _pids())


def _pids() -> list[int]:
    return [int(name) for name in os.listdir(_PROC) if name.isdigit()]  # noqa: PTH208  # called often


def _group_and_state(pid: int) -> tuple[int, bool]:
    """Return a process's group and whether it runs.

    One that has ended and waits to be collected does not run; one whose first thread alone has ended does.
    """
    try:
        text = _PROC.joinpath(str(pid), "stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return 0, False
    fields = text.rpartition(")")[2].split()
    state, group, threads = fields[0], fields[2], fields[17]
    return int(group), state not in ("Z", "X") or int(threads) > 1


def _has_mark(pid: int, mark: str) -> bool:
    try:
        data = _PROC.joinpath(str(pid), "environ").read_bytes()
    except OSError:
        return False
    return f"{MARK}={mark}".encode() in data.split(b"\0")


def _marked(mark: str) -> list[int]:
    if not _PROC.joinpath("self", "environ").exists():
        return []
    return [pid for pid in _pids() if _has_mark(pid, mark)]


def _signal_group(group: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


def _signal_marked(mark: str, number: signal.Signals) -> None:
    for pid in _marked(mark):
        with suppress(OSError):
            descriptor = os.pidfd_open(pid)
            try:
                if _has_mark(pid, mark):
                    signal.pidfd_send_signal(descriptor, number)
            finally:
                os.close(descriptor)
