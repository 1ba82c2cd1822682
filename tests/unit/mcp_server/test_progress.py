"""Progress: reports that grow, and texts for what a run does."""

from collections.abc import Sequence
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot

from bascule.mcp_server._progress import Progress
from bascule.mcp_server._steps import LONGEST, StepTexts
from bascule.stream import (
    AcpNoticeChunk,
    Chunk,
    ErrorChunk,
    FinishChunk,
    StepStartChunk,
    TextDeltaChunk,
    TextEndChunk,
    TextStartChunk,
    ToolCallApprovalChunk,
    ToolCallChunk,
    ToolErrorChunk,
    ToolOutputChunk,
    ToolOutputDeniedChunk,
    ToolResultChunk,
    WorkflowStepOutputChunk,
    WorkflowStepResultChunk,
    WorkflowStepStartChunk,
)


def texts(chunks: Sequence[Chunk]) -> list[str | None]:
    steps = StepTexts()
    return [steps.of(chunk) for chunk in chunks]


def test_the_events_of_an_agent_are_told_in_words() -> None:
    run = "r"
    told = texts(
        [
            StepStartChunk(run, "m", 0),
            TextStartChunk(run, "t"),
            TextDeltaChunk(run, "t", "Let me "),
            TextDeltaChunk(run, "t", "see.\n"),
            TextEndChunk(run, "t"),
            TextEndChunk(run, "empty"),
            ToolCallChunk(run, "c", "add", {"a": 1, "b": "x"}),
            ToolCallChunk(run, "c", "add", "{broken"),
            ToolCallChunk(run, "c", "add", [1]),
            ToolResultChunk(run, "c", "add", {}, {"sum": 3}),
            ToolErrorChunk(run, "c", "add", {}, "raised", "no"),
            ToolOutputDeniedChunk(run, "c", "add", {}, "not now"),
            ToolOutputDeniedChunk(run, "c", "add", {}),
            ToolCallApprovalChunk(run, "c", "add", {}),
            ToolOutputChunk(run, "c", "agent-b", {}, StepStartChunk("inner", "m", 0)),
            ToolOutputChunk(run, "c", "agent-b", {"own": "data"}),
            StepStartChunk(run, "m", 0),
            AcpNoticeChunk(run, "stderr", "careful"),
            ErrorChunk(run, "E", "broken"),
            FinishChunk(run, message_id="m", reason="stop"),
        ]
    )
    assert [text for text in told if text is not None] == snapshot(
        [
            "Step 1",
            "Let me see.",
            "Calling add(a=1, b=x)",
            "Calling add({broken)",
            "Calling add([1])",
            'add returned {"sum":3}',
            "add failed: no",
            "add was declined: not now",
            "add was declined",
            "add waits for a decision",
            "agent-b: Step 1",
            "Step 2",
            "careful",
            "Failed: broken",
        ]
    )


def test_the_events_of_a_workflow_are_told_in_words() -> None:
    def result(status: str, error: str | None) -> Chunk:
        return WorkflowStepResultChunk(
            "r",
            step_id="s",
            call_id="c",
            input={},
            started_at=0,
            ended_at=1,
            status="success" if status == "success" else "failed",
            error=error,
        )

    inner = ToolCallChunk("i", "c", "add", {})
    told = texts(
        [
            WorkflowStepStartChunk("r", "s", "c", {}, 0),
            WorkflowStepOutputChunk("r", "s", {}, inner),
            result("success", None),
            result("failed", "no"),
            result("failed", None),
        ]
    )
    assert told == snapshot(["Step s started", "s: Calling add()", "Step s done", "Step s failed: no", "Step s failed"])


def test_a_text_is_short_and_on_one_line() -> None:
    told = texts(
        [TextDeltaChunk("r", "t", "long\n" * 500), TextDeltaChunk("r", "t", "x" * 500), TextEndChunk("r", "t")]
    )
    assert told[-1] is not None
    assert len(told[-1]) <= LONGEST
    assert "\n" not in told[-1]


@given(st.lists(st.one_of(st.floats(-1e6, 1e6), st.sampled_from(["step", "beat"]))))
def test_every_report_is_greater_than_the_one_before(events: list[float | str]) -> None:
    progress = Progress()
    done: list[float] = []
    for event in events:
        if isinstance(event, float):
            report = progress.report(event, 100, None)
        elif event == "step":
            report = progress.step("text")
        else:
            report = progress.heartbeat(30)
        done.append(report.done)
    assert all(later > earlier for earlier, later in pairwise(done))


def test_a_tools_own_numbers_are_kept() -> None:
    progress = Progress()
    assert [progress.report(n, 100, None).done for n in (0, 50, 100)] == [0, 50, 100]
    assert Progress().heartbeat(15).message == "Still working (15 s)"
