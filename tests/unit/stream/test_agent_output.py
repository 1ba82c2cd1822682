"""The live output of a run: many readers, each from the beginning; and what can be awaited."""

from collections.abc import Awaitable, Callable, Sequence

import anyio
import pytest

from bascule.agents import Agent
from bascule.messages import JsonValue, ReasoningPart, TextPart
from bascule.models import Finish, ReasoningDelta, ScriptedModel, TextDelta
from bascule.runs import AgentOutput
from bascule.stream import (
    Chunk,
    FinishChunk,
    ModelResponse,
    ObjectChunk,
    ObjectResultChunk,
    PendingCall,
    ReasoningDeltaChunk,
    ReasoningEndChunk,
    ReasoningSignatureChunk,
    StepFinishChunk,
    SuspendedChunk,
    TripwireChunk,
    Usage,
    fold,
)
from tests.unit.stream.recordings import Parts


def run_of(chunks: Sequence[Chunk]) -> AgentOutput:
    async def drive(output: AgentOutput) -> None:
        for chunk in chunks:
            output.log.append(chunk)
            await anyio.lowlevel.checkpoint()

    return AgentOutput(drive, run_id="r", message_id="m")


FINISH = FinishChunk("r", message_id="m", reason="stop")


@pytest.mark.requirement("A40")
async def test_a_stream_offers_text_events_the_final_text_and_its_trace() -> None:
    output = Agent("a", model=ScriptedModel([{"text": "hello big world", "chunk_size": 6}])).stream("hi")
    assert [text async for text in output.text_stream] == ["hello ", "big wo", "rld"]
    assert [chunk.type async for chunk in output.full_stream][-1] == "finish"
    assert await output.text == await output.text == "hello big world"
    assert (len(output.trace_id), len(output.span_id)) == (32, 16)
    assert output.span_id == output.span_id


async def test_concurrent_late_and_slow_readers_all_get_everything() -> None:
    output = Agent("a", model=ScriptedModel([{"chunks": 300, "chunk_text": "x"}])).stream("hi")
    ended = anyio.Event()
    seen: dict[str, list[Chunk]] = {}

    async def read(name: str) -> None:
        seen[name] = [chunk async for chunk in output]

    async def read_slowly() -> None:
        seen["slow"] = []
        async for chunk in output:
            seen["slow"].append(chunk)
            if len(seen["slow"]) == 3:
                await ended.wait()  # the run does not wait for this reader

    with anyio.fail_after(10):
        async with anyio.create_task_group() as group:
            for name in ("one", "two", "three"):
                group.start_soon(read, name)
            group.start_soon(read_slowly)
            await output.result()
            ended.set()
        await read("late")
    assert len(seen["one"]) == 306
    assert all(chunks == seen["one"] for chunks in seen.values())
    assert all(one is other for one, other in zip(seen["one"], seen["late"], strict=True))


async def test_a_reader_may_leave_and_another_begins_where_it_wants() -> None:
    output = Agent("a", model=ScriptedModel([{"text": "hi"}])).stream("hi")
    first = await anext(output.read())
    assert first.type == "start"
    rest = [chunk.type async for chunk in output.read(after=3)]
    assert rest == ["text-delta", "text-end", "step-finish", "finish"]


async def test_what_can_be_awaited_of_a_run_is_all_there() -> None:
    proof = {"script": {"signature": "s1"}}
    model = Parts(
        ReasoningDelta("let me "),
        ReasoningDelta("think", proof),
        TextDelta("done"),
        Finish("stop", Usage(input_tokens=3, output_tokens=2), {"script": {"tier": 1}}, "resp-1", "script-v1"),
    )
    output = Agent("a", model=model).stream("hi")
    assert await output.reasoning == (ReasoningPart("let me think", proof),)
    assert await output.reasoning_text == "let me think"
    assert await output.content == (ReasoningPart("let me think", proof), TextPart("done"))
    assert await output.response == ModelResponse(id="resp-1", provider="script", model_id="script-v1")
    assert (await output.response).timestamp.endswith("+00:00")
    assert await output.provider_metadata == {"script": {"tier": 1}}
    assert await output.usage_by_model == {"script/script-v1": await output.usage}
    assert await output.suspend_payload is None
    assert await output.object is None
    assert output.tripwire is None
    assert output.snapshot() is output.snapshot()


async def test_usage_is_counted_by_model() -> None:
    def step(provider: str, model_id: str, tokens: int) -> StepFinishChunk:
        return StepFinishChunk(
            "r",
            message_id="m",
            reason="stop",
            is_continued=False,
            usage=Usage(input_tokens=tokens),
            provider=provider,
            model_id=model_id,
        )

    output = run_of([step("p", "x", 1), step("p", "y", 2), step("p", "x", 4), step("", "", 8), FINISH])
    assert await output.usage_by_model == {
        "p/x": Usage(input_tokens=5),
        "p/y": Usage(input_tokens=2),
        "unknown": Usage(input_tokens=8),
    }


async def test_an_object_is_seen_as_it_grows_and_whole_at_the_end() -> None:
    partial: list[JsonValue] = [{}, {"city": "Par"}, {"city": "Paris"}]
    output = run_of(
        [*(ObjectChunk("r", value) for value in partial), ObjectResultChunk("r", {"city": "Paris"}), FINISH]
    )
    assert [value async for value in output.object_stream] == partial
    assert await output.object == {"city": "Paris"}
    assert [value async for value in output.element_stream] == []


async def test_the_elements_of_a_list_are_seen_once_each_when_they_are_complete() -> None:
    partial: list[JsonValue] = [[], [{"n": 1}], [{"n": 1}, {}], [{"n": 1}, {"n": 2}, {"n": 3}], [{"n": 1}]]
    whole: JsonValue = [{"n": 1}, {"n": 2}, {"n": 3}]
    output = run_of([*(ObjectChunk("r", value) for value in partial), ObjectResultChunk("r", whole), FINISH])
    assert [value async for value in output.element_stream] == whole


async def test_a_signature_belongs_to_its_block_of_reasoning() -> None:
    chunks = [
        ReasoningDeltaChunk("r", "1", "a"),
        ReasoningSignatureChunk("r", "1", "proof"),
        ReasoningEndChunk("r", "1"),
        ReasoningDeltaChunk("r", "2", "b"),
        StepFinishChunk("r", message_id="m", reason="stop", is_continued=False),
    ]
    assert fold(chunks).reasoning == (ReasoningPart("a", {"signature": "proof"}), ReasoningPart("b"))
    assert fold([]).content == ()
    assert fold([]).response == ModelResponse()
    assert fold([]).provider_metadata is None


async def test_a_tripwire_is_kept_unless_the_model_is_asked_again() -> None:
    stop = TripwireChunk("r", "blocked", "guard")
    end = FinishChunk("r", message_id="m", reason="tripwire")
    output = run_of([TripwireChunk("r", "again", "guard", retry=True), stop, end])
    result = await output
    assert (output.tripwire, result.tripwire, result.status) == (stop, stop, "tripwire")


async def test_a_suspended_run_says_what_it_waits_for() -> None:
    call = PendingCall(tool_call_id="c", tool_name="t", args={}, kind="suspend", suspend_payload={"ask": "who?"})
    output = run_of([SuspendedChunk("r", (call,))])
    assert await output.suspend_payload == {"ask": "who?"}
    assert output.status == "suspended"


AWAITABLES: dict[str, Callable[[AgentOutput], Awaitable[object]]] = {
    "text": lambda output: output.text,
    "steps": lambda output: output.steps,
    "usage": lambda output: output.usage,
    "finish_reason": lambda output: output.finish_reason,
    "tool_calls": lambda output: output.tool_calls,
    "warnings": lambda output: output.warnings,
}


@pytest.mark.parametrize("name", AWAITABLES)
async def test_awaiting_one_value_drives_the_run(name: str) -> None:
    output = Agent("a", model=ScriptedModel([{"text": "hi"}])).stream("hi")
    with anyio.fail_after(5):
        await AWAITABLES[name](output)
    assert output.status == "success"
