"""Tells a cancellation from outside apart from one that a tool raised by itself; stands on asyncio's own count.

anyio cannot tell: to it, and to everything above, every ``CancelledError`` looks like the caller's wish.
"""

import asyncio  # noqa: TID251  # see above

__all__ = ["cancelled_from_outside"]


def cancelled_from_outside() -> bool:
    """Return whether somebody asked the running task to stop; on trio always true, where nobody can forge it."""
    try:
        task = asyncio.current_task()
    except RuntimeError:
        return True
    return task is None or task.cancelling() > 0
