"""Keeps the standard streams for the protocol: whatever else writes to stdout ends up on stderr.

Moving the file descriptors, and not only ``sys.stdout``, catches C code and child processes too. stdin moves as well,
so that no child process and no ``input()`` eats a message.
"""

import contextlib
import os
import sys
from collections.abc import Generator
from dataclasses import dataclass

if sys.platform != "win32":
    import fcntl

__all__ = ["Wire", "protect_stdout", "protocol_streams"]


@dataclass(frozen=True, slots=True)
class Wire:
    """Private file descriptors of the protocol's streams; ``None`` for one that was closed from the start."""

    read: int | None
    write: int | None


class _Protection:
    wire: Wire | None = None


def protect_stdout() -> None:
    """Reserve stdin and stdout for the protocol; call it before the app's own code is imported.

    From here on ``print``, C code and child processes write to stderr, and read the end of file from stdin. Calling it
    again does nothing.
    """
    if _Protection.wire is None:
        _Protection.wire = _divert()
        sys.stdout = sys.stderr


@contextlib.contextmanager
def protocol_streams() -> Generator[Wire]:
    """Give the protocol's streams, protected for the time of the block when they were not before."""
    if _Protection.wire is not None:
        yield _Protection.wire
        return
    wire, stdout = _divert(), sys.stdout
    sys.stdout = sys.stderr
    try:
        yield wire
    finally:
        sys.stdout = stdout
        _restore(wire)


def _divert() -> Wire:
    with contextlib.suppress(OSError, ValueError):
        sys.stdout.flush()
    read, write = _dup(0), _dup(1)
    nowhere = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nowhere, 0)
    os.close(nowhere)
    try:
        os.dup2(2, 1)
    except OSError:  # stderr is closed
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 1)
        os.close(nowhere)
    return Wire(read, write)


def _restore(wire: Wire) -> None:
    with contextlib.suppress(OSError, ValueError):
        sys.stdout.flush()
    for target, private in ((0, wire.read), (1, wire.write)):
        if private is not None:
            os.dup2(private, target)
    # The private descriptors stay open: a thread may still be blocked on one, and a number that is reused under it
    # would hand it another file.


def _dup(descriptor: int) -> int | None:
    """Return a private copy that child processes do not get, outside the standard range."""
    try:
        if sys.platform == "win32":
            return os.dup(descriptor)
        return fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 3)
    except OSError:
        return None
