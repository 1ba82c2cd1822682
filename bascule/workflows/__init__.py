"""Workflows: steps in an order, each with a checked input and a recorded result."""

from bascule.workflows._context import StepContext
from bascule.workflows._result import RunResult, StepResult, StepResults
from bascule.workflows._run import WorkflowOutput, WorkflowRun
from bascule.workflows._shape import ShapeSource
from bascule.workflows._step import Step, step
from bascule.workflows._workflow import EntrySource, Workflow

__all__ = [
    "EntrySource",
    "RunResult",
    "ShapeSource",
    "Step",
    "StepContext",
    "StepResult",
    "StepResults",
    "Workflow",
    "WorkflowOutput",
    "WorkflowRun",
    "step",
]
