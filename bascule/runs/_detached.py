"""Starts a task that outlives the call that starts it; stands on asyncio or trio: anyio has no such call.

Only a run whose output nobody entered as a context manager needs this: its reader may come and go, the run goes on.
The output object owns the task, ends it when it is closed, and the task ends by itself with the run.
"""

import asyncio  # noqa: TID251  # see above
import importlib
from collections.abc import Callable, Coroutine

__all__ = ["start_detached"]

_tasks: set["asyncio.Task[None]"] = set()
"""asyncio keeps only weak references to tasks."""


def start_detached(function: Callable[[], Coroutine[object, object, None]]) -> None:
    """Run ``function`` in a task of its own, with the caller's context variables.

    Args:
        function: called without arguments in the new task; it must handle its own exceptions.

    Raises:
        RuntimeError: no event loop is running.
    """
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        importlib.import_module("trio").lowlevel.spawn_system_task(function)
        return
    task = loop.create_task(function())
    _tasks.add(task)
    task.add_done_callback(_tasks.discard)
