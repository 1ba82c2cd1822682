"""The events of a workflow's run."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Literal

from bascule.messages import JsonObject, JsonValue
from bascule.stream._chunk import Chunk, Sender, Wire, present
from bascule.stream._usage import NO_USAGE, Usage

__all__ = [
    "WorkflowCanceledChunk",
    "WorkflowFinishChunk",
    "WorkflowPausedChunk",
    "WorkflowStartChunk",
    "WorkflowStepFinishChunk",
    "WorkflowStepOutputChunk",
    "WorkflowStepProgressChunk",
    "WorkflowStepResultChunk",
    "WorkflowStepStartChunk",
    "WorkflowStepSuspendedChunk",
    "WorkflowStepWaitingChunk",
]

_STEP_KEYS = {"step_id": "id", "call_id": "stepCallId", "input": "payload"}


@dataclass(frozen=True, slots=True)
class WorkflowStartChunk(Chunk):
    """The workflow begins."""

    workflow_id: str
    type: ClassVar[Literal["workflow-start"]] = "workflow-start"
    sender: ClassVar[Sender] = "WORKFLOW"

    def _payload(self) -> Wire:
        return {"workflowId": self.workflow_id}


@dataclass(frozen=True, slots=True)
class WorkflowStepStartChunk(Chunk):
    """A step begins; ``started_at`` is in milliseconds since the epoch."""

    step_id: str
    call_id: str
    input: JsonValue
    started_at: int
    resume_payload: JsonValue = None
    resumed_at: int | None = None
    type: ClassVar[Literal["workflow-step-start"]] = "workflow-step-start"
    sender: ClassVar[Sender] = "WORKFLOW"
    wire_keys: ClassVar[Mapping[str, str]] = _STEP_KEYS

    def _payload(self) -> Wire:
        wire: Wire = {
            "id": self.step_id,
            "stepName": self.step_id,
            "stepCallId": self.call_id,
            "payload": self.input,
            "startedAt": self.started_at,
            "status": "running",
        }
        if self.resumed_at is not None:
            wire["resumePayload"], wire["resumedAt"] = self.resume_payload, self.resumed_at
        return wire


@dataclass(frozen=True, slots=True)
class WorkflowStepOutputChunk(Chunk):
    """Something a step tells while it runs; ``inner`` is the agent's event, when it is one."""

    step_id: str
    output: JsonValue
    inner: Chunk | None = field(default=None, repr=False, compare=False)
    type: ClassVar[Literal["workflow-step-output"]] = "workflow-step-output"
    sender: ClassVar[Sender] = "USER"
    wire_keys: ClassVar[Mapping[str, str]] = _STEP_KEYS

    def _payload(self) -> Wire:
        return {"id": self.step_id, "stepName": self.step_id, "output": self.output}


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowStepResultChunk(Chunk):
    """A step is done; times are in milliseconds since the epoch."""

    step_id: str
    call_id: str
    input: JsonValue
    started_at: int
    ended_at: int
    status: Literal["success", "failed", "canceled"]
    output: JsonValue = None
    error: str | None = None
    resume_payload: JsonValue = None
    resumed_at: int | None = None
    type: ClassVar[Literal["workflow-step-result"]] = "workflow-step-result"
    sender: ClassVar[Sender] = "WORKFLOW"
    wire_keys: ClassVar[Mapping[str, str]] = _STEP_KEYS

    def _payload(self) -> Wire:
        wire: Wire = {
            "id": self.step_id,
            "stepName": self.step_id,
            "stepCallId": self.call_id,
            "payload": self.input,
            "startedAt": self.started_at,
            "endedAt": self.ended_at,
            "status": self.status,
        }
        if self.error is None:
            wire["output"] = self.output
        else:
            wire["error"] = {"message": self.error}
        if self.resumed_at is not None:
            wire["resumePayload"], wire["resumedAt"] = self.resume_payload, self.resumed_at
        return wire


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowStepSuspendedChunk(Chunk):
    """A step waits for something from outside; times are in milliseconds since the epoch."""

    step_id: str
    call_id: str
    input: JsonValue
    started_at: int
    suspended_at: int
    suspend_payload: JsonValue = None
    type: ClassVar[Literal["workflow-step-suspended"]] = "workflow-step-suspended"
    sender: ClassVar[Sender] = "WORKFLOW"
    wire_keys: ClassVar[Mapping[str, str]] = _STEP_KEYS

    def _payload(self) -> Wire:
        return {
            "id": self.step_id,
            "stepName": self.step_id,
            "stepCallId": self.call_id,
            "payload": self.input,
            "startedAt": self.started_at,
            "status": "suspended",
            "suspendPayload": self.suspend_payload,
            "suspendedAt": self.suspended_at,
        }


@dataclass(frozen=True, slots=True)
class WorkflowStepWaitingChunk(Chunk):
    """A step sleeps, or waits for an event; ``started_at`` is in milliseconds since the epoch."""

    step_id: str
    input: JsonValue
    started_at: int
    type: ClassVar[Literal["workflow-step-waiting"]] = "workflow-step-waiting"
    sender: ClassVar[Sender] = "WORKFLOW"
    wire_keys: ClassVar[Mapping[str, str]] = _STEP_KEYS

    def _payload(self) -> Wire:
        return {"id": self.step_id, "payload": self.input, "startedAt": self.started_at, "status": "waiting"}


@dataclass(frozen=True, slots=True)
class WorkflowStepProgressChunk(Chunk):
    """How far a step is that goes over many items."""

    step_id: str
    completed: int
    total: int | None = None
    type: ClassVar[Literal["workflow-step-progress"]] = "workflow-step-progress"
    sender: ClassVar[Sender] = "WORKFLOW"
    wire_keys: ClassVar[Mapping[str, str]] = _STEP_KEYS


@dataclass(frozen=True, slots=True)
class WorkflowStepFinishChunk(Chunk):
    """A step will say no more."""

    step_id: str
    metadata: JsonObject
    type: ClassVar[Literal["workflow-step-finish"]] = "workflow-step-finish"
    sender: ClassVar[Sender] = "WORKFLOW"
    wire_keys: ClassVar[Mapping[str, str]] = _STEP_KEYS


@dataclass(frozen=True, slots=True)
class WorkflowPausedChunk(Chunk):
    """The workflow's run is paused."""

    type: ClassVar[Literal["workflow-paused"]] = "workflow-paused"
    sender: ClassVar[Sender] = "WORKFLOW"


@dataclass(frozen=True, slots=True)
class WorkflowCanceledChunk(Chunk):
    """The workflow's run was told to stop; its finish follows."""

    type: ClassVar[Literal["workflow-canceled"]] = "workflow-canceled"
    sender: ClassVar[Sender] = "WORKFLOW"


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowFinishChunk(Chunk):
    """The workflow's run is over."""

    status: Literal["success", "failed", "canceled", "suspended", "paused", "tripwire"]
    result: JsonValue = None
    error: str | None = None
    usage: Usage = NO_USAGE
    type: ClassVar[Literal["workflow-finish"]] = "workflow-finish"
    sender: ClassVar[Sender] = "WORKFLOW"

    def _payload(self) -> Wire:
        return present(
            {
                "workflowStatus": self.status,
                "output": {"usage": self.usage.to_wire()},
                "metadata": {},
                "finalWorkflowResult": self.result,
                "error": None if self.error is None else {"message": self.error},
            }
        )
