"""The events of a workflow's run."""

from dataclasses import dataclass, field
from typing import ClassVar, Literal

from bascule.messages import JsonValue
from bascule.stream._chunk import Chunk, Sender, Wire, present
from bascule.stream._usage import NO_USAGE, Usage

__all__ = [
    "WorkflowFinishChunk",
    "WorkflowStartChunk",
    "WorkflowStepOutputChunk",
    "WorkflowStepResultChunk",
    "WorkflowStepStartChunk",
]


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
    type: ClassVar[Literal["workflow-step-start"]] = "workflow-step-start"
    sender: ClassVar[Sender] = "WORKFLOW"

    def _payload(self) -> Wire:
        return {
            "id": self.step_id,
            "stepName": self.step_id,
            "stepCallId": self.call_id,
            "payload": self.input,
            "startedAt": self.started_at,
            "status": "running",
        }


@dataclass(frozen=True, slots=True)
class WorkflowStepOutputChunk(Chunk):
    """Something a step tells while it runs; ``inner`` is the agent's event, when it is one."""

    step_id: str
    output: JsonValue
    inner: Chunk | None = field(default=None, repr=False, compare=False)
    type: ClassVar[Literal["workflow-step-output"]] = "workflow-step-output"
    sender: ClassVar[Sender] = "USER"

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
    type: ClassVar[Literal["workflow-step-result"]] = "workflow-step-result"
    sender: ClassVar[Sender] = "WORKFLOW"

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
        return wire


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowFinishChunk(Chunk):
    """The workflow's run is over."""

    status: Literal["success", "failed", "canceled"]
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
