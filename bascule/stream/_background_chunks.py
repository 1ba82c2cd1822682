"""The events of tools that go on in the background."""

from dataclasses import dataclass
from typing import ClassVar, Literal

from bascule.messages import JsonObject, JsonValue
from bascule.stream._chunk import Chunk, Wire

__all__ = [
    "BackgroundTaskCancelledChunk",
    "BackgroundTaskCompletedChunk",
    "BackgroundTaskFailedChunk",
    "BackgroundTaskOutputChunk",
    "BackgroundTaskProgressChunk",
    "BackgroundTaskResumedChunk",
    "BackgroundTaskRunningChunk",
    "BackgroundTaskStartedChunk",
    "BackgroundTaskSuspendedChunk",
]


@dataclass(frozen=True, slots=True)
class BackgroundTaskStartedChunk(Chunk):
    """A tool call goes on in the background; the model is told the task's id and answers meanwhile."""

    task_id: str
    tool_name: str
    tool_call_id: str
    type: ClassVar[Literal["background-task-started"]] = "background-task-started"


@dataclass(frozen=True, slots=True)
class BackgroundTaskProgressChunk(Chunk):
    """The run waits for background tasks."""

    task_ids: tuple[str, ...]
    running_count: int
    elapsed_ms: int
    type: ClassVar[Literal["background-task-progress"]] = "background-task-progress"


@dataclass(frozen=True, slots=True, kw_only=True)
class _TaskChunk(Chunk):
    """What all events of one background task say of it; times are in ISO form."""

    task_id: str
    tool_name: str
    tool_call_id: str
    agent_id: str

    def _payload(self) -> Wire:
        wire = Chunk._payload(self)  # a slotted dataclass is a second class, which super() does not find
        wire["runId"] = self.run_id
        return wire


@dataclass(frozen=True, slots=True, kw_only=True)
class BackgroundTaskRunningChunk(_TaskChunk):
    """A worker began with the task."""

    args: JsonValue
    started_at: str
    type: ClassVar[Literal["background-task-running"]] = "background-task-running"


@dataclass(frozen=True, slots=True, kw_only=True)
class BackgroundTaskOutputChunk(_TaskChunk):
    """The task's tool said something; ``payload`` is the event that it would be in the foreground."""

    payload: JsonObject
    type: ClassVar[Literal["background-task-output"]] = "background-task-output"


@dataclass(frozen=True, slots=True, kw_only=True)
class BackgroundTaskCompletedChunk(_TaskChunk):
    """The task is done."""

    result: JsonValue
    completed_at: str
    is_error: bool | None = None
    type: ClassVar[Literal["background-task-completed"]] = "background-task-completed"


@dataclass(frozen=True, slots=True, kw_only=True)
class BackgroundTaskFailedChunk(_TaskChunk):
    """The task failed; ``error`` is an object with a ``message``."""

    error: JsonObject
    completed_at: str
    type: ClassVar[Literal["background-task-failed"]] = "background-task-failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class BackgroundTaskCancelledChunk(_TaskChunk):
    """The task was told to stop."""

    completed_at: str
    type: ClassVar[Literal["background-task-cancelled"]] = "background-task-cancelled"


@dataclass(frozen=True, slots=True, kw_only=True)
class BackgroundTaskSuspendedChunk(_TaskChunk):
    """The task waits for an answer from outside."""

    args: JsonValue
    suspend_payload: JsonValue = None
    suspended_at: str | None = None
    type: ClassVar[Literal["background-task-suspended"]] = "background-task-suspended"


@dataclass(frozen=True, slots=True, kw_only=True)
class BackgroundTaskResumedChunk(_TaskChunk):
    """A suspended task goes on."""

    args: JsonValue
    started_at: str
    type: ClassVar[Literal["background-task-resumed"]] = "background-task-resumed"
