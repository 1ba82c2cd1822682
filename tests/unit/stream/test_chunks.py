"""Every event is JSON on the wire and comes back from it as it was."""

import json
from dataclasses import MISSING, fields
from typing import Literal, Union, cast, get_args, get_origin

import pytest
from hypothesis import given
from hypothesis import strategies as st

import bascule.stream
from bascule.messages import JsonValue
from bascule.stream import (
    AbortChunk,
    BackgroundTaskRunningChunk,
    Chunk,
    DataChunk,
    FinishChunk,
    NetworkChunk,
    PendingCall,
    StepFinishChunk,
    SuspendedChunk,
    TextDeltaChunk,
    ToolCallApprovalChunk,
    ToolErrorChunk,
    UnknownChunk,
    Usage,
    Wire,
    WorkflowStepResultChunk,
    chunk_from_wire,
)

KINDS = sorted(
    {
        kind
        for kind in cast("list[object]", list(vars(bascule.stream).values()))
        if isinstance(kind, type) and issubclass(kind, Chunk)
    }
    - {Chunk, UnknownChunk},
    key=lambda kind: kind.__name__,
)

json_values: st.SearchStrategy[JsonValue] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(), inner, max_size=2),
    max_leaves=4,
)
usages = st.builds(Usage, input_tokens=st.integers(0, 9), output_tokens=st.integers(0, 9))
objects = st.dictionaries(st.text(), json_values, min_size=1, max_size=2)
pending = st.builds(PendingCall, tool_call_id=st.text(), tool_name=st.text(), args=json_values, suspend_payload=objects)


def values_of(kind: object) -> st.SearchStrategy[object]:
    """Return values of an attribute's annotation."""
    if kind == JsonValue:
        return json_values
    if kind is Usage:
        return usages
    if kind is PendingCall:
        return pending
    origin, options = get_origin(kind), get_args(kind)
    if origin is tuple:
        return st.lists(values_of(options[0]), max_size=2).map(tuple)
    if origin is Literal:
        return st.sampled_from(options)
    if options and type(None) in options:
        return st.one_of([st.none() if option is type(None) else values_of(option) for option in options])
    if kind is float:
        return st.floats(allow_nan=False, allow_infinity=False)
    if isinstance(kind, type) and kind in (str, int, bool):
        return st.from_type(kind)
    assert origin is not Union, kind
    return objects


def chunks_of(kind: type[Chunk]) -> st.SearchStrategy[Chunk]:
    given_values = {field.name: values_of(field.type) for field in fields(kind) if field.compare}
    if kind is NetworkChunk:
        given_values["kind"] = st.sampled_from(["routing-agent-start", "agent-execution-event-text-delta"])
    return st.builds(kind, **given_values)


def normal(chunk: Chunk) -> Wire:
    """Return the wire form as a peer reads it."""
    wire: Wire = json.loads(json.dumps(chunk.to_wire()))
    return wire


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
@given(data=st.data())
def test_every_kind_of_event_comes_back_from_json_as_it_was(kind: type[Chunk], data: st.DataObject) -> None:
    chunk = data.draw(chunks_of(kind))
    wire = normal(chunk)
    again = chunk_from_wire(wire)
    assert type(again) is kind
    assert normal(again) == wire


def test_every_kind_has_its_own_type() -> None:
    types = [kind.type for kind in KINDS]
    assert all(isinstance(type_, str) for type_ in types)
    assert len(types) == len(set(types))


def test_the_kinds_of_the_contract_are_all_there() -> None:
    names = """
        start step-start step-finish finish text-start text-delta text-end reasoning-start reasoning-delta reasoning-end
        reasoning-signature redacted-reasoning source file reasoning-file custom raw response-metadata
        tool-call-input-streaming-start tool-call-input-streaming-end tool-call-delta tool-call tool-result tool-error
        tool-output tool-output-denied tool-call-approval tool-call-suspended object object-result error abort tripwire
        watch step-output goal is-task-complete background-task-started background-task-running background-task-progress
        background-task-output background-task-completed background-task-failed background-task-cancelled
        background-task-suspended background-task-resumed data model-fallback retry suspended resume workflow-start
        workflow-step-start workflow-step-output workflow-step-result workflow-step-suspended workflow-step-waiting
        workflow-step-progress workflow-step-finish workflow-paused workflow-canceled workflow-finish network
        acp-diff acp-plan acp-usage acp-notice acp-raw
    """
    assert {kind.type for kind in KINDS} == set(names.split())


def test_an_attribute_that_is_left_out_is_not_written() -> None:
    assert ToolCallApprovalChunk("r", "c", "t", {"a": 1}).to_wire()["payload"] == {
        "toolCallId": "c",
        "toolName": "t",
        "args": {"a": 1},
    }


@given(
    st.fixed_dictionaries({}, optional={"type": st.text(), "runId": json_values, "payload": json_values})
    | st.fixed_dictionaries(
        {
            "type": st.sampled_from([kind.type for kind in KINDS]),
            "payload": st.dictionaries(
                st.sampled_from(["id", "text", "toolCallId", "error", "pending", "stepResult", "output"]), json_values
            ),
        }
    )
)
def test_anything_that_is_not_an_event_is_kept_whole(wire: dict[str, JsonValue]) -> None:
    chunk = chunk_from_wire(wire)
    if isinstance(chunk, UnknownChunk):
        assert chunk.to_wire() == wire


def test_an_event_of_an_unknown_type_says_which() -> None:
    wire: Wire = {"type": "from-the-future", "runId": "r", "from": "AGENT", "payload": {"x": 1}}
    chunk = chunk_from_wire(wire)
    assert isinstance(chunk, UnknownChunk)
    assert (chunk.kind, chunk.run_id, chunk.to_wire()) == ("from-the-future", "r", wire)


def test_a_value_of_the_wrong_kind_makes_the_event_unknown() -> None:
    wire: Wire = {"type": "text-delta", "runId": "r", "payload": {"id": "t", "text": 7}}
    assert chunk_from_wire(wire) == UnknownChunk("r", wire)
    assert UnknownChunk("r", {}).kind == ""


def test_an_unknown_field_of_a_known_event_is_passed_over() -> None:
    wire: Wire = {"type": "text-delta", "runId": "r", "payload": {"id": "t", "text": "x", "new": True}}
    assert chunk_from_wire(wire) == TextDeltaChunk("r", "t", "x")


def test_a_finish_with_an_unknown_reason_is_still_a_finish() -> None:
    chunk = chunk_from_wire({"type": "finish", "runId": "r", "payload": {"stepResult": {"reason": "new"}}})
    assert chunk == FinishChunk("r", message_id="", reason="unknown")


def test_the_forms_of_foreign_servers_are_read() -> None:
    assert chunk_from_wire({"type": "abort", "runId": "r"}) == AbortChunk("r")
    assert chunk_from_wire({"type": "data-note", "data": 1}) == DataChunk("", "note", 1)
    task: Wire = {"taskId": "t", "toolName": "n", "toolCallId": "c", "agentId": "a", "args": {}, "startedAt": "now"}
    assert chunk_from_wire(
        {"type": "background-task-running", "payload": {**task, "runId": "r"}}
    ) == BackgroundTaskRunningChunk(
        "r", task_id="t", tool_name="n", tool_call_id="c", agent_id="a", args={}, started_at="now"
    )
    call: Wire = {"toolCallId": "c", "toolName": "n", "args": {}}
    assert chunk_from_wire(
        {"type": "tool-call-approval", "runId": "r", "payload": {**call, "resumeSchema": '{"type":"object"}'}}
    ) == ToolCallApprovalChunk("r", "c", "n", {}, {"type": "object"})
    not_found: Wire = {**call, "error": {"name": "ToolNotFoundError"}}
    assert chunk_from_wire({"type": "tool-error", "runId": "r", "payload": not_found}) == ToolErrorChunk(
        "r", "c", "n", {}, "not_found", "The tool failed."
    )
    raised: Wire = {**call, "error": {"name": "Error", "id": "TOOL_EXECUTION_FAILED", "cause": {"message": "it broke"}}}
    assert chunk_from_wire({"type": "tool-error", "runId": "r", "payload": raised}) == ToolErrorChunk(
        "r", "c", "n", {}, "raised", "it broke"
    )
    broken: Wire = {**call, "resumeSchema": "{"}
    assert isinstance(chunk_from_wire({"type": "tool-call-approval", "payload": broken}), UnknownChunk)
    assert isinstance(chunk_from_wire({"type": "suspended", "payload": {}}), UnknownChunk)
    assert isinstance(chunk_from_wire({"type": "tool-error", "payload": {}}), UnknownChunk)


def test_nested_payloads_come_back() -> None:
    chunks = [
        SuspendedChunk("r", (PendingCall(tool_call_id="c", tool_name="t", args={}, kind="suspend"),)),
        StepFinishChunk("r", message_id="m", reason="stop", is_continued=False, provider="p", model_id="x"),
        WorkflowStepResultChunk(
            "r", step_id="s", call_id="c", input=1, started_at=1, ended_at=2, status="failed", error="no"
        ),
        WorkflowStepResultChunk(
            "r", step_id="s", call_id="c", input=1, started_at=1, ended_at=2, status="success", resumed_at=5
        ),
    ]
    assert [chunk_from_wire(normal(chunk)) for chunk in chunks] == chunks


def test_what_is_not_compared_is_not_written() -> None:
    hidden = {(kind.__name__, field.name) for kind in KINDS for field in fields(kind) if not field.compare}
    assert {name for _, name in hidden} == {"cause", "given", "inner", "parts", "remembered", "steps", "value"}
    assert all(field.default is not MISSING for kind in KINDS for field in fields(kind) if not field.compare), (
        "an event can be made without what is not on the wire"
    )
