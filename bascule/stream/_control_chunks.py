"""The events that tell how a run is steered: tripwires, retries, judgements, networks of agents."""

from dataclasses import dataclass
from typing import ClassVar, Literal

from bascule.messages import JsonObject, JsonValue
from bascule.stream._chunk import Chunk, Sender, Wire

__all__ = [
    "GoalChunk",
    "IsTaskCompleteChunk",
    "ModelFallbackChunk",
    "NetworkChunk",
    "ResumeChunk",
    "RetryChunk",
    "StepOutputChunk",
    "TripwireChunk",
    "WatchChunk",
]


@dataclass(frozen=True, slots=True)
class TripwireChunk(Chunk):
    """A processor stopped the run, or sent the answer back.

    Attributes:
        reason: what it says.
        processor_id: which processor.
        metadata: its own entries.
        retry: whether the model is asked again, with the reason.
    """

    reason: str
    processor_id: str | None = None
    metadata: JsonValue = None
    retry: bool | None = None
    type: ClassVar[Literal["tripwire"]] = "tripwire"


@dataclass(frozen=True, slots=True)
class RetryChunk(Chunk):
    """A model call failed and is made again after ``delay`` seconds; ``attempt`` counts from 1."""

    attempt: int
    delay: float
    reason: str
    type: ClassVar[Literal["retry"]] = "retry"


@dataclass(frozen=True, slots=True)
class ModelFallbackChunk(Chunk):
    """A model gave up, and the next one of the agent's list is asked."""

    from_model: str
    to_model: str
    reason: str
    type: ClassVar[Literal["model-fallback"]] = "model-fallback"


@dataclass(frozen=True, slots=True)
class ResumeChunk(Chunk):
    """A suspended run goes on; ``tool_call_ids`` are the calls that were answered."""

    tool_call_ids: tuple[str, ...] = ()
    type: ClassVar[Literal["resume"]] = "resume"


@dataclass(frozen=True, slots=True)
class WatchChunk(Chunk):
    """A state of a workflow, as its watchers are told it."""

    data: JsonObject
    type: ClassVar[Literal["watch"]] = "watch"
    sender: ClassVar[Sender] = "WORKFLOW"

    def _payload(self) -> Wire:
        return dict(self.data)


@dataclass(frozen=True, slots=True)
class StepOutputChunk(Chunk):
    """Something that a step of a workflow said, inside an agent's stream."""

    output: JsonValue
    type: ClassVar[Literal["step-output"]] = "step-output"
    sender: ClassVar[Sender] = "USER"


@dataclass(frozen=True, slots=True, kw_only=True)
class IsTaskCompleteChunk(Chunk):
    """The scorers said whether the task is done.

    Attributes:
        iteration: how often the agent has answered.
        passed: whether the task is done.
        results: what each scorer said.
        duration: milliseconds that it took.
        reason: the deciding scorer's words.
    """

    iteration: int
    passed: bool
    results: tuple[JsonObject, ...] = ()
    duration: float = 0.0
    timed_out: bool = False
    reason: str | None = None
    max_iteration_reached: bool = False
    suppress_feedback: bool = False
    type: ClassVar[Literal["is-task-complete"]] = "is-task-complete"


@dataclass(frozen=True, slots=True, kw_only=True)
class GoalChunk(Chunk):
    """A judge looked at the thread's goal, or begins to, when ``pending``.

    Attributes:
        objective: the goal.
        iteration: how often it has been judged.
        max_runs: how often it may be.
        passed: whether it is reached.
        status: how it stands after this judgement.
        results: what each scorer said.
        reason: the judge's words.
        paused_reason: why it is paused.
        waiting_for_user: whether the judge wants an answer from a person first.
        judge_failed: whether the judge itself failed.
        duration: milliseconds that it took.
        activity: what the judge does meanwhile.
    """

    objective: str
    iteration: int
    max_runs: int
    passed: bool
    status: Literal["active", "paused", "done"]
    results: tuple[JsonObject, ...] = ()
    reason: str | None = None
    paused_reason: str | None = None
    waiting_for_user: bool | None = None
    judge_failed: bool | None = None
    duration: float = 0.0
    timed_out: bool = False
    max_runs_reached: bool = False
    suppress_feedback: bool = False
    pending: bool | None = None
    activity: tuple[JsonObject, ...] | None = None
    type: ClassVar[Literal["goal"]] = "goal"


@dataclass(frozen=True, slots=True)
class NetworkChunk(Chunk):
    """An event of an agent network; ``kind`` is its type on the wire, and ``data`` its payload as it stands there."""

    kind: str
    data: JsonObject
    type: ClassVar[str] = "network"
    sender: ClassVar[Sender] = "NETWORK"

    def to_wire(self) -> Wire:
        return {"type": self.kind, "runId": self.run_id, "from": self.sender, "payload": self.data}
