"""The AI SDK's UI message stream: as it was recorded, and well formed whatever happens."""

import json
from collections.abc import Sequence

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bascule.agents import Agent
from bascule.errors import ModelError
from bascule.messages import JsonObject
from bascule.models import ScriptedModel, TextDelta
from bascule.stream import (
    AbortChunk,
    AcpPlanChunk,
    Chunk,
    DataChunk,
    ErrorChunk,
    FileChunk,
    FinishChunk,
    ObjectResultChunk,
    ReasoningDeltaChunk,
    ReasoningEndChunk,
    ReasoningStartChunk,
    SourceChunk,
    StartChunk,
    StepFinishChunk,
    StepStartChunk,
    SuspendedChunk,
    TextDeltaChunk,
    TextEndChunk,
    TextStartChunk,
    ToolCallApprovalChunk,
    ToolCallChunk,
    ToolCallDeltaChunk,
    ToolCallInputStartChunk,
    ToolCallSuspendedChunk,
    ToolErrorChunk,
    ToolOutputChunk,
    ToolOutputDeniedChunk,
    ToolResultChunk,
    UnknownChunk,
    Wire,
    chunk_from_wire,
    fold,
)
from bascule.stream.ai_sdk import AiSdkEncoder, ai_sdk_parts
from bascule.tools import tool
from tests.unit.stream.recordings import Parts, kinds, recording

# What each part may hold: readers of the AI SDK refuse a part with a key that they do not know.
ALLOWED = {
    "start": {"messageId"},
    "start-step": set[str](),
    "finish-step": set[str](),
    "finish": {"finishReason"},
    "abort": {"reason"},
    "error": {"errorText"},
    "text-start": {"id"},
    "text-delta": {"id", "delta"},
    "text-end": {"id"},
    "reasoning-start": {"id"},
    "reasoning-delta": {"id", "delta"},
    "reasoning-end": {"id", "providerMetadata"},
    "tool-input-start": {"toolCallId", "toolName", "dynamic"},
    "tool-input-delta": {"toolCallId", "inputTextDelta"},
    "tool-input-available": {"toolCallId", "toolName", "input"},
    "tool-output-available": {"toolCallId", "output"},
    "tool-output-error": {"toolCallId", "errorText"},
    "source-url": {"sourceId", "url", "title"},
    "file": {"url", "mediaType"},
}


def check_well_formed(parts: Sequence[JsonObject]) -> None:
    """Fail unless a reader that trusts the protocol understands the parts."""
    step, blocks, inputs, outcomes = False, set[tuple[str, str]](), set[str](), set[str]()
    assert parts[0]["type"] == "start"
    for part in parts:
        kind = str(part["type"])
        allowed = {"id", "data", "transient"} if kind.startswith("data-") else ALLOWED[kind]
        assert set(part) <= allowed | {"type"}
        block, _, what = kind.partition("-")
        if kind in ("start-step", "finish-step"):
            assert step == (kind == "finish-step")
            assert not blocks
            step = not step
        elif block in ("text", "reasoning"):
            assert step
            assert ((block, part["id"]) in blocks) == (what != "start")
            if what != "delta":
                blocks ^= {(block, str(part["id"]))}
        elif kind == "tool-input-available":
            assert step
            assert str(part["toolCallId"]) not in inputs
            inputs.add(str(part["toolCallId"]))
        elif block == "tool" and what.startswith("output"):
            assert str(part["toolCallId"]) in inputs - outcomes
            outcomes.add(str(part["toolCallId"]))
    assert [str(part["type"]) for part in parts if part["type"] in ("finish", "abort")] == [parts[-1]["type"]]
    assert not step
    assert not blocks


ids = st.sampled_from(["a", "b"])
chunks = st.one_of(
    st.builds(StartChunk, st.just("r"), st.just("agent"), ids),
    st.builds(StepStartChunk, st.just("r"), ids, st.just(1)),
    st.builds(StepFinishChunk, st.just("r"), message_id=ids, reason=st.just("stop"), is_continued=st.booleans()),
    st.builds(FinishChunk, st.just("r"), message_id=ids, reason=st.sampled_from(["stop", "aborted", "unknown"])),
    st.builds(AbortChunk, st.just("r"), st.none() | st.text()),
    st.builds(SuspendedChunk, st.just("r"), st.just(())),
    st.builds(ErrorChunk, st.just("r"), st.just("Error"), st.text()),
    *(st.builds(kind, st.just("r"), ids) for kind in (TextStartChunk, TextEndChunk)),
    *(st.builds(kind, st.just("r"), ids) for kind in (ReasoningStartChunk, ReasoningEndChunk)),
    *(st.builds(kind, st.just("r"), ids, st.text()) for kind in (TextDeltaChunk, ReasoningDeltaChunk)),
    st.builds(ToolCallInputStartChunk, st.just("r"), ids, st.just("add")),
    st.builds(ToolCallDeltaChunk, st.just("r"), ids, st.just("add"), st.text()),
    *(
        st.builds(kind, st.just("r"), ids, st.just("add"), st.just({}))
        for kind in (ToolCallChunk, ToolOutputDeniedChunk, ToolCallApprovalChunk, ToolCallSuspendedChunk)
    ),
    st.builds(ToolResultChunk, st.just("r"), ids, st.just("add"), st.just({}), st.text()),
    st.builds(ToolErrorChunk, st.just("r"), ids, st.just("add"), st.just({}), st.just("raised"), st.text()),
    st.builds(ToolOutputChunk, st.just("r"), ids, st.just("add"), st.text()),
    st.builds(SourceChunk, st.just("r"), ids, st.just("https://example.com")),
    st.builds(FileChunk, st.just("r"), st.just("text/plain"), st.just("aGk=")),
    st.builds(DataChunk, st.just("r"), st.just("note"), st.text(), st.none() | ids, st.booleans()),
    st.builds(ObjectResultChunk, st.just("r"), st.text()),
    st.builds(AcpPlanChunk, st.just("r"), st.just(())),
)


@given(st.lists(chunks, max_size=30))
def test_any_events_give_well_formed_parts_with_one_end(events: list[Chunk]) -> None:
    check_well_formed(list(ai_sdk_parts(events)))


def test_nothing_follows_the_end() -> None:
    encoder = AiSdkEncoder()
    finish = FinishChunk("r", message_id="m", reason="stop")
    assert encoder.feed(finish) == [{"type": "start"}, {"type": "finish", "finishReason": "stop"}]
    assert encoder.feed(finish) == encoder.end() == []


@tool
async def add(a: int, b: int) -> dict[str, int]:
    """Add two numbers."""
    return {"sum": a + b}


@tool
async def boom() -> None:
    """Fail."""
    raise ValueError("tool exploded")


def scripted(*turns: dict[str, object]) -> ScriptedModel:
    return ScriptedModel([{"chunk_size": 7, **turn} for turn in turns])


def tool_agent(name: str, arguments: str) -> Agent:
    calls = [{"name": name, "id": "call-1", "arguments": arguments}]
    return Agent("tool-agent", tools=[add, boom], model=scripted({"tool_calls": calls}, {"text": "done: it is done"}))


AGENTS = {
    "text": lambda: Agent("plain-agent", model=scripted({"text": "hello big world"})),
    "tool": lambda: tool_agent("add", '{"a":1,"b":2}'),
    "tool-error": lambda: tool_agent("boom", "{   }  "),
    "error": lambda: Agent("plain-agent", model=Parts(error=ModelError("model failure", kind="other"))),
}


@pytest.mark.requirement("A41")
@pytest.mark.parametrize("name", AGENTS)
async def test_a_run_gives_the_parts_that_were_recorded(name: str) -> None:
    output = AGENTS[name]().stream("hi")
    parts = [part async for part in output.ai_sdk_stream()]
    recorded = recording(f"ai-sdk-{name}")
    assert kinds(parts) == kinds(recorded)
    ours = {part["type"]: part for part in parts}
    assert all(set(ours[part["type"]]) == set(part) for part in recorded)
    assert parts[0] == {"type": "start", "messageId": output.message_id}
    assert parts[-1] == recorded[-1]
    check_well_formed(parts)


def test_an_approval_gives_the_parts_that_were_recorded_and_then_ends() -> None:
    events = [
        StartChunk("r", "tool-agent", "m"),
        StepStartChunk("r", "m", 1),
        ToolCallInputStartChunk("r", "call-1", "approve-me"),
        ToolCallDeltaChunk("r", "call-1", "approve-me", '{"x":"go"}'),
        ToolCallChunk("r", "call-1", "approve-me", {"x": "go"}),
        ToolCallApprovalChunk("r", "call-1", "approve-me", {"x": "go"}),
        SuspendedChunk("r", ()),
    ]
    parts = list(ai_sdk_parts(events))
    recorded = recording("ai-sdk-approval")
    assert kinds(parts) == [*kinds(recorded), "finish-step", "finish"]
    ours, theirs = parts[len(parts) - 3], recorded[-1]
    assert (ours["type"], set(ours)) == (theirs["type"], set(theirs))
    assert isinstance(ours["data"], dict)
    assert isinstance(theirs["data"], dict)
    assert set(ours["data"]) == set(theirs["data"])


def test_a_resumed_run_says_what_was_called_before_it_says_what_came_of_it() -> None:
    parts = list(ai_sdk_parts([ToolResultChunk("r", "c", "t", {"a": 1}, 3)]))
    assert parts == [
        {"type": "start"},
        {"type": "start-step"},
        {"type": "tool-input-available", "toolCallId": "c", "toolName": "t", "input": {"a": 1}},
        {"type": "tool-output-available", "toolCallId": "c", "output": 3},
        {"type": "finish-step"},
        {"type": "finish", "finishReason": "other"},
    ]


def test_what_an_app_writes_from_a_tool_is_its_own_data() -> None:
    inner = DataChunk("inner", "note", 1)
    parts = list(ai_sdk_parts([ToolOutputChunk("r", "c", "t", inner.to_wire(), inner)]))
    assert parts[1] == {"type": "data-note", "data": 1}
    parts = list(ai_sdk_parts([ToolOutputChunk("r", "c", "t", "half way")]))
    data: Wire = {"toolCallId": "c", "toolName": "t", "output": "half way"}
    assert parts[1] == {"type": "data-tool-output", "data": data, "transient": True}


@pytest.mark.requirement("A41")
async def test_a_response_has_the_headers_and_frames_that_use_chat_reads() -> None:
    response = Agent("a", model=scripted({"text": "hi"})).stream("hi").ai_sdk_response()
    assert response.status == 200
    assert response.headers == {
        "content-type": "text/event-stream",
        "cache-control": "no-cache",
        "x-accel-buffering": "no",
        "x-vercel-ai-ui-message-stream": "v1",
    }
    frames = [frame async for frame in response.body]
    assert frames[-1] == b"data: [DONE]\n\n"
    parts = [json.loads(frame.removeprefix(b"data: ")) for frame in frames[:-1]]
    assert all(frame.endswith(b"\n\n") for frame in frames)
    check_well_formed(parts)


async def test_a_stopped_run_ends_with_abort() -> None:
    started = anyio.Event()

    @tool
    async def wait() -> None:
        """Wait for ever."""
        started.set()
        await anyio.sleep_forever()

    model = scripted({"tool_calls": [{"name": "wait", "id": "c", "arguments": {}}]})
    parts: list[Wire] = []
    with anyio.fail_after(5):
        async with Agent("a", tools=[wait], model=model).stream("hi") as output:
            await started.wait()
            output.cancel("enough")
            parts = [part async for part in output.ai_sdk_stream()]
    assert parts[-1] == {"type": "abort", "reason": "enough"}
    check_well_formed(parts)


async def test_a_text_that_breaks_off_is_closed_before_the_error() -> None:
    agent = Agent("a", model=Parts(TextDelta("partial"), error=ModelError("gone", kind="connection")))
    parts = [part async for part in agent.stream("hi").ai_sdk_stream()]
    assert kinds(parts)[-4:] == ["text-end", "error", "finish-step", "finish"]
    assert parts[-1] == {"type": "finish", "finishReason": "error"}


@pytest.mark.requirement("B05")
@pytest.mark.parametrize("name", ["text", "tool-call", "tool-error", "parallel-tools", "reasoning", "model-error"])
def test_a_stream_that_was_read_from_a_foreign_server_converts_to_parts(name: str) -> None:
    events = [chunk_from_wire(wire) for wire in recording(f"reference-{name}")]
    assert not any(isinstance(event, UnknownChunk) for event in events)
    parts = list(ai_sdk_parts(events))
    check_well_formed(parts)
    told = "".join(str(part["delta"]) for part in parts if part["type"] == "text-delta")
    assert told == fold(events).all_text
    assert sum(part["type"] == "tool-input-available" for part in parts) == len(fold(events).tool_calls)
