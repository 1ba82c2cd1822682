"""What a workflow's run came to: the fold of its stream."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias

from bascule.messages import JsonValue
from bascule.stream import (
    Chunk,
    Usage,
    WorkflowFinishChunk,
    WorkflowStartChunk,
    WorkflowStepResultChunk,
    WorkflowStepStartChunk,
)

__all__ = ["RunResult", "Status", "StepResult", "StepResults", "fold"]

Status: TypeAlias = Literal["running", "success", "failed", "canceled"]

RunStatus: TypeAlias = Status | Literal["suspended", "paused", "tripwire"]
"""A workflow that a server of another kind ran may also end like this."""


class StepResults(dict[str, "StepResult"]):
    """The steps that have begun, by id; ``results["outer.inner"]`` is a step of a nested workflow."""

    def __missing__(self, key: str) -> "StepResult":
        outer, _, inner = key.partition(".")
        if inner and outer in self and inner.partition(".")[0] in self[outer].steps:
            return self[outer].steps[inner]
        raise KeyError(key)


@dataclass(frozen=True, slots=True, kw_only=True)
class StepResult:
    """What one step came to; times are in milliseconds since the epoch.

    Attributes:
        status: how it stands.
        input: what it was given.
        output: what it returned, as JSON values.
        error: why it failed.
        started_at: when it began.
        ended_at: when it ended.
        steps: the steps of a nested workflow.
    """

    status: Status
    input: JsonValue = None
    output: JsonValue = None
    error: str | None = None
    started_at: int = 0
    ended_at: int | None = None
    steps: StepResults = field(default_factory=StepResults)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    """What a run came to.

    Attributes:
        run_id: the run.
        workflow_id: the workflow.
        status: ``success``, ``failed``, ``canceled``; ``running`` while it goes on.
        result: the output of the last entry, as JSON values.
        error: which step failed, and why.
        steps: every step that has begun, by id.
        execution_path: the steps in the order in which they began; ``outer.inner`` for a step of a nested workflow.
        usage: tokens that the run's agents used.
    """

    run_id: str
    workflow_id: str = ""
    status: RunStatus = "running"
    result: JsonValue = None
    error: str | None = None
    steps: StepResults = field(default_factory=StepResults)
    execution_path: tuple[str, ...] = ()
    usage: Usage = field(default_factory=Usage)


def fold(chunks: Iterable[Chunk], *, run_id: str) -> RunResult:
    """Return what a run has come to after these events."""
    result = RunResult(run_id=run_id)
    path: list[str] = []
    for chunk in chunks:
        match chunk:
            case WorkflowStartChunk():
                result = replace(result, workflow_id=chunk.workflow_id)
            case WorkflowStepStartChunk():
                path.append(chunk.step_id)
                siblings, step_id = _place(result.steps, chunk.step_id)
                siblings[step_id] = StepResult(status="running", input=chunk.input, started_at=chunk.started_at)
            case WorkflowStepResultChunk():
                siblings, step_id = _place(result.steps, chunk.step_id)
                siblings[step_id] = replace(
                    siblings[step_id],
                    status=chunk.status,
                    output=chunk.output,
                    error=chunk.error,
                    ended_at=chunk.ended_at,
                )
            case WorkflowFinishChunk():
                result = replace(result, status=chunk.status, result=chunk.result, error=chunk.error, usage=chunk.usage)
            case _:  # what steps tell on their way is no part of the result
                pass
    return replace(result, execution_path=tuple(path))


def _place(steps: StepResults, path: str) -> tuple[StepResults, str]:
    """Return the results that a step's own belongs to, and its id among them."""
    outer, _, step_id = path.rpartition(".")
    return (steps[outer].steps if outer else steps), step_id
