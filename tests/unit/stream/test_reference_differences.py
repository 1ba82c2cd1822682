"""Each row of the table of differences, shown; and that nothing else is written differently."""

import json
from collections.abc import Callable

import pytest

from bascule.messages import ErrorPart, FilePart, JsonObject, Message, StepStartPart, TextPart, ToolCallPart
from bascule.stream import (
    AbortChunk,
    AcpPlanChunk,
    BackgroundTaskCancelledChunk,
    BackgroundTaskStartedChunk,
    Chunk,
    DataChunk,
    ErrorChunk,
    FinishChunk,
    ModelFallbackChunk,
    ResumeChunk,
    RetryChunk,
    StepFinishChunk,
    SuspendedChunk,
    TextDeltaChunk,
    TextEndChunk,
    ToolCallApprovalChunk,
    ToolCallSuspendedChunk,
    ToolErrorChunk,
    ToolOutputChunk,
    ToolOutputDeniedChunk,
    ToolResultChunk,
    Usage,
    Wire,
    WorkflowFinishChunk,
    WorkflowStartChunk,
    WorkflowStepResultChunk,
    json_record,
    reference_wire,
    sse_frame,
)
from bascule.stream.reference_wire import DIFFERENCES, encode
from tests.unit.stream.recordings import at


def payload(chunk: Chunk) -> Wire:
    wire = encode(chunk)
    assert wire is not None
    assert isinstance(wire["payload"], dict)
    return wire["payload"]


def suspended_withheld() -> None:
    assert encode(SuspendedChunk("r", ())) is None


def steering_withheld() -> None:
    assert encode(ResumeChunk("r")) is None
    assert encode(RetryChunk("r", 1, 0.5, "busy")) is None
    assert encode(ModelFallbackChunk("r", "a", "b", "down")) is None


def done() -> None:
    assert list(reference_wire.frames([AbortChunk("r"), SuspendedChunk("r", ())])) == [
        b'data: {"type":"abort","runId":"r"}\n\n',
        b"data: [DONE]\n\n",
    ]


def abort_bare() -> None:
    assert encode(AbortChunk("r", "why")) == {"type": "abort", "runId": "r"}


def data_bare() -> None:
    assert encode(DataChunk("r", "note", {"v": 1})) == {"type": "data-note", "data": {"v": 1}}
    assert encode(DataChunk("r", "signal", 1, id="s", transient=True)) == {
        "type": "data-signal",
        "runId": "r",
        "data": 1,
        "id": "s",
        "transient": True,
    }


def task_bare() -> None:
    task = BackgroundTaskCancelledChunk(
        "r", task_id="t", tool_name="n", tool_call_id="c", agent_id="a", completed_at="now"
    )
    assert encode(task) == {
        "type": "background-task-cancelled",
        "payload": {
            "taskId": "t",
            "toolName": "n",
            "toolCallId": "c",
            "agentId": "a",
            "completedAt": "now",
            "runId": "r",
        },
    }
    started = BackgroundTaskStartedChunk("r", "t", "n", "c")
    assert encode(started) == started.to_wire()


def acp_as_data() -> None:
    assert encode(AcpPlanChunk("r", ({"a": 1},))) == {"type": "data-acp-plan", "data": {"entries": ({"a": 1},)}}


def nested() -> None:
    inner = AbortChunk("inner", "why")
    assert payload(ToolOutputChunk("r", "c", "agent-x", inner.to_wire(), inner))["output"] == encode(inner)
    hidden = SuspendedChunk("inner", ())
    assert encode(ToolOutputChunk("r", "c", "agent-x", hidden.to_wire(), hidden)) is None
    own = ToolOutputChunk("r", "c", "x", {"progress": 1})
    assert encode(own) == own.to_wire()


def tool_model_output() -> None:
    plain = ToolResultChunk("r", "c", "t", {}, 1)
    assert encode(plain) == plain.to_wire()
    assert payload(ToolResultChunk("r", "c", "t", {}, 1, model_output="one")) == {
        "toolCallId": "c",
        "toolName": "t",
        "args": {},
        "result": 1,
        "providerMetadata": {"mastra": {"modelOutput": {"type": "text", "value": "one"}}},
    }


def invalid_input() -> None:
    assert encode(ToolErrorChunk("r", "c", "t", {"a": "x"}, "invalid_input", "a: no number")) == {
        "type": "tool-result",
        "runId": "r",
        "from": "AGENT",
        "payload": {
            "args": {"a": "x"},
            "toolCallId": "c",
            "toolName": "t",
            "result": {"error": True, "message": "a: no number"},
        },
    }


def tool_error() -> None:
    assert payload(ToolErrorChunk("r", "c", "t", {}, "raised", "it broke"))["error"] == {
        "name": "Error",
        "message": "it broke",
        "cause": {"name": "Error", "message": "it broke"},
        "id": "TOOL_EXECUTION_FAILED",
        "domain": "TOOL",
        "category": "USER",
        "details": {"errorMessage": "it broke", "kind": "raised"},
    }
    assert payload(ToolErrorChunk("r", "c", "t", {}, "not_found", "no t"))["error"] == {
        "name": "ToolNotFoundError",
        "message": "no t",
    }


def schema_text() -> None:
    schema: JsonObject = {"type": "object"}
    assert payload(ToolCallApprovalChunk("r", "c", "t", {}, schema))["resumeSchema"] == '{"type":"object"}'
    default = payload(ToolCallApprovalChunk("r", "c", "t", {}))["resumeSchema"]
    assert isinstance(default, str)
    assert json.loads(default)["required"] == ["approved"]
    assert payload(ToolCallSuspendedChunk("r", "c", "t", {})) == {
        "suspendPayload": None,
        "toolCallId": "c",
        "toolName": "t",
        "args": {},
        "resumeSchema": "{}",
    }


def denied_reason() -> None:
    approval = payload(ToolOutputDeniedChunk("r", "c", "t", {}))["approval"]
    assert approval == {"id": "c", "approved": False, "reason": "Tool call was not approved"}
    approval = payload(ToolOutputDeniedChunk("r", "c", "t", {}, "no"))["approval"]
    assert approval == {"id": "c", "approved": False, "reason": "no"}


STEPS = (
    StepFinishChunk(
        "r",
        message_id="m",
        reason="tool-calls",
        is_continued=True,
        parts=(
            ToolCallPart(tool_call_id="c", tool_name="t", args={}, state="result", result=1),
            ToolCallPart(tool_call_id="d", tool_name="t", args={}, state="output-error", error="no"),
            ToolCallPart(tool_call_id="e", tool_name="t", args={}, state="output-denied"),
            ToolCallPart(tool_call_id="f", tool_name="t", args={}),
        ),
    ),
    StepFinishChunk(
        "r", message_id="m", reason="error", is_continued=False, parts=(TextPart("x"), ErrorPart("Error", "no"))
    ),
)
FINISH = FinishChunk(
    "r",
    message_id="m",
    reason="error",
    steps=STEPS,
    given=(
        Message(role="system", parts=(TextPart("be short"),)),
        Message(role="user", parts=(TextPart("hi"), FilePart(media_type="image/png", url="https://example.com/a.png"))),
    ),
)


def finish_whole() -> None:
    ours, told = at(FINISH.to_wire(), "payload"), payload(FINISH)
    assert set(ours) == {"messageId", "stepResult", "metadata", "output", "processorRetryCount"}
    assert [item["role"] for item in at(told, "messages", "all")] == ["user", "assistant", "tool", "assistant"]
    assert [item["output"] for item in at(told, "messages", "nonUser", 1, "content")] == [
        {"type": "json", "value": 1},
        {"type": "error-text", "value": "no"},
        {"type": "text", "value": ""},
    ]
    assert at(told, "messages", "user", 0, "content", 1) == {
        "type": "file",
        "mediaType": "image/png",
        "data": "https://example.com/a.png",
    }
    parts = at(told, "response", "uiMessages", 0, "parts")
    assert [part.get("state", part["type"]) for part in parts] == [
        "output-available",
        "output-error",
        "output-error",
        "input-available",
        "step-start",
        "text",
    ]
    assert [step["finishReason"] for step in at(told, "output", "steps")] == ["tool-calls", "error"]
    assert "messages" not in payload(FinishChunk("r", message_id="m", reason="stop"))


def steps_once() -> None:
    told = payload(STEPS[1])
    assert "messages" not in told
    assert [step["content"] for step in at(told, "output", "steps")] == [[{"type": "text", "text": "x"}]]


def stack() -> None:
    assert payload(ErrorChunk("r", "ModelError", "no", ValueError("secret"))) == {
        "type": "error",
        "error": {"name": "ModelError", "message": "no"},
    }


def blocks_end() -> None:
    chunks = [TextEndChunk("r", "t"), ErrorChunk("r", "ModelError", "gone")]
    assert [json.loads(frame[6:])["type"] for frame in list(reference_wire.frames(chunks))[:-1]] == [
        "text-end",
        "error",
    ]


def abort_finish() -> None:
    step_result = payload(FinishChunk("r", message_id="m", reason="aborted"))["stepResult"]
    assert step_result == {"reason": "aborted", "isContinued": False, "warnings": ()}


def usage_raw() -> None:
    told = payload(FinishChunk("r", message_id="m", reason="stop", usage=Usage(input_tokens=1)))
    counts = {"inputTokens", "outputTokens", "totalTokens", "reasoningTokens", "cachedInputTokens"}
    assert set(at(told, "output", "usage")) == counts


def stopped_by() -> None:
    told = payload(FinishChunk("r", message_id="m", reason="stop", stopped_by="max_steps", warnings=("w",)))
    assert told["stoppedBy"] == "max_steps"
    assert told["stepResult"] == {"reason": "stop", "isContinued": False, "warnings": ("w",)}


def invalid_json() -> None:
    told = encode(ToolErrorChunk("r", "c", "t", "{not json", "invalid_json", "no JSON"))
    assert told is not None
    assert told["type"] == "tool-error"
    assert payload(ToolErrorChunk("r", "c", "t", "{not json", "invalid_json", "no JSON"))["args"] == "{not json"


def workflow_error() -> None:
    step = WorkflowStepResultChunk(
        "r", step_id="s", call_id="c", input=1, started_at=1, ended_at=2, status="failed", error="no"
    )
    assert payload(step)["error"] == {"message": "no"}
    assert payload(WorkflowFinishChunk("r", status="failed", error="no"))["error"] == {"message": "no"}


def model_version() -> None:
    step = StepFinishChunk("r", message_id="m", reason="stop", is_continued=False, provider="p", model_id="x")
    assert payload(step)["metadata"] == {"modelId": "x", "modelMetadata": {"modelId": "x", "modelProvider": "p"}}


def created_at() -> None:
    assert "createdAt" not in json.dumps(encode(FINISH))


ROWS: dict[str, Callable[[], None]] = {
    "suspended-withheld": suspended_withheld,
    "steering-withheld": steering_withheld,
    "done": done,
    "abort-bare": abort_bare,
    "data-bare": data_bare,
    "task-bare": task_bare,
    "acp-as-data": acp_as_data,
    "nested": nested,
    "model-output": tool_model_output,
    "invalid-input": invalid_input,
    "tool-error": tool_error,
    "schema-text": schema_text,
    "denied-reason": denied_reason,
    "finish-whole": finish_whole,
    "steps-once": steps_once,
    "stack": stack,
    "blocks-end": blocks_end,
    "abort-finish": abort_finish,
    "usage-raw": usage_raw,
    "stopped-by": stopped_by,
    "invalid-json": invalid_json,
    "workflow-error": workflow_error,
    "model-version": model_version,
    "created-at": created_at,
}


def test_every_difference_has_a_test_and_every_test_a_difference() -> None:
    assert [row.id for row in DIFFERENCES] == list(ROWS)


@pytest.mark.parametrize("row", DIFFERENCES, ids=lambda row: row.id)
def test_a_difference_is_as_the_table_says(row: reference_wire.Difference) -> None:
    ROWS[row.id]()


def test_what_is_not_in_the_table_is_written_as_it_is() -> None:
    chunk = TextDeltaChunk("r", "t", "x")
    assert encode(chunk) == chunk.to_wire()


def test_a_workflow_is_told_in_records() -> None:
    chunks = [WorkflowStartChunk("r", "w"), SuspendedChunk("r", ())]
    assert list(reference_wire.records(chunks)) == [
        b'{"type":"workflow-start","runId":"r","from":"WORKFLOW","payload":{"workflowId":"w"}}\x1e'
    ]


def test_text_that_cannot_be_utf_8_is_still_framed() -> None:
    half = "a\ud83d"
    record = json_record({half: [half, 1, None, True, (2.5,)]})
    assert json.loads(record[:-1]) == {"a\ufffd": ["a\ufffd", 1, None, True, [2.5]]}
    assert sse_frame({"text": "a\n\nb\r\u2028"}).count(b"\n") == 2
    assert json.loads(sse_frame({"text": "\ud83d\ude00"})[6:]) == {"text": "\N{GRINNING FACE}"}


def test_step_borders_are_not_part_of_a_step() -> None:
    parts = (StepStartPart(), TextPart("x"))
    step = StepFinishChunk("r", message_id="m", reason="stop", is_continued=False, parts=parts)
    assert at(payload(step), "output", "steps", 0, "content") == [{"type": "text", "text": "x"}]
