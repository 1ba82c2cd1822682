"""Stopping a run: whatever it is doing, it ends once, says so, and keeps what it had."""

import threading
from collections.abc import AsyncIterator

import anyio
import pytest
from anyio import get_cancelled_exc_class

from bascule.agents import Agent
from bascule.context import CancelToken
from bascule.errors import ToolError
from bascule.models import ModelCall, ModelCapabilities, ModelPart, ScriptedModel, TextDelta
from bascule.stream import AbortChunk, FinishChunk, SuspendedChunk
from bascule.tools import ToolContext, tool


class Hanging:
    """A model that says a little and then waits for ever; knows whether it was closed."""

    provider = "test"
    model_id = "hanging"
    capabilities = ModelCapabilities()

    def __init__(self) -> None:
        self.waiting = anyio.Event()
        self.closed = False

    async def stream(self, call: ModelCall) -> AsyncIterator[ModelPart]:
        try:
            yield TextDelta("abc")
            self.waiting.set()
            await anyio.sleep_forever()
        finally:
            self.closed = True


@pytest.mark.requirement("F23", "A15")
async def test_a_run_stopped_in_the_model_ends_once_with_abort_and_keeps_its_text() -> None:
    model, token = Hanging(), CancelToken()
    output = Agent("a", model=model).stream("go", abort_signal=token)
    with anyio.fail_after(5):
        async with anyio.create_task_group() as group:
            group.start_soon(output.consume_stream)
            await model.waiting.wait()
            token.cancel("enough")
    kinds = [chunk.type for chunk in output.log.chunks]
    assert kinds[-4:] == ["text-end", "abort", "step-finish", "finish"]
    assert sum(isinstance(chunk, FinishChunk | SuspendedChunk) for chunk in output.log.chunks) == 1
    full = await output
    assert (full.status, full.finish_reason, full.text) == ("canceled", "aborted", "abc")
    assert next(chunk for chunk in output.log.chunks if isinstance(chunk, AbortChunk)).reason == "enough"
    assert model.closed


async def test_a_run_that_is_stopped_before_it_starts_does_not_call_the_model() -> None:
    token = CancelToken()
    token.cancel()
    model = ScriptedModel([{"text": "never"}])
    output = Agent("a", model=model).stream("go", abort_signal=token)
    assert [chunk.type async for chunk in output] == ["start", "abort", "finish"]
    assert model.calls == []


def asks_for(name: str) -> ScriptedModel:
    return ScriptedModel(
        [{"tool_calls": [{"name": name, "id": "call-1", "arguments": dict[str, int]()}]}, {"text": "never"}]
    )


async def stopped_in_tool(agent: Agent, started: anyio.Event) -> "list[tuple[str, object]]":
    token = CancelToken()
    output = agent.stream("go", abort_signal=token)
    with anyio.fail_after(5):
        async with anyio.create_task_group() as group:
            group.start_soon(output.consume_stream)
            await started.wait()
            token.cancel()
    full = await output
    assert full.status == "canceled"
    assert len([chunk for chunk in output.log.chunks if chunk.type == "abort"]) == 1
    return [(item.tool_name, (item.kind, item.cancelled)) for item in full.tool_results]


async def test_a_tool_that_waits_is_cancelled_and_has_one_result() -> None:
    started = anyio.Event()
    seen: list[str] = []

    @tool
    async def wait() -> None:
        """Wait for ever."""
        started.set()
        try:
            await anyio.sleep_forever()
        except get_cancelled_exc_class():
            seen.append("cancelled")
            raise

    results = await stopped_in_tool(Agent("a", tools=[wait], model=asks_for("wait")), started)
    assert results == [("wait", ("cancelled", True))]
    assert seen == ["cancelled"]


async def test_a_tool_that_fails_because_it_was_told_to_stop_is_cancelled_and_no_success() -> None:
    started = anyio.Event()

    @tool
    async def obey(ctx: ToolContext) -> None:
        """Raise as soon as the signal comes."""
        started.set()
        try:
            await ctx.cancel.wait()
        except get_cancelled_exc_class():
            raise ToolError("I was told to stop") from None
        raise ToolError("I was told to stop")

    results = await stopped_in_tool(Agent("a", tools=[obey], model=asks_for("obey")), started)
    assert results == [("obey", ("cancelled", True))]


async def test_a_sync_tool_that_never_looks_up_does_not_hold_the_run() -> None:
    release, started = threading.Event(), anyio.Event()
    loop = anyio.lowlevel.current_token()

    @tool
    def deaf() -> None:
        """Block."""
        anyio.from_thread.run_sync(started.set, token=loop)
        release.wait(30)

    try:
        results = await stopped_in_tool(Agent("a", tools=[deaf], model=asks_for("deaf")), started)
    finally:
        release.set()
    assert results == [("deaf", ("cancelled", True))]


async def test_cancelling_the_awaiting_task_stops_the_run() -> None:
    model = Hanging()
    output = Agent("a", model=model).stream("go")
    with anyio.fail_after(5):
        async with anyio.create_task_group() as group:

            async def wait() -> None:
                await output

            group.start_soon(wait)
            await model.waiting.wait()
            group.cancel_scope.cancel()
    assert model.closed
    assert output.log.closed
    assert output.snapshot().status == "canceled"


async def test_leaving_the_block_stops_the_run() -> None:
    model = Hanging()
    with anyio.fail_after(5):
        async with Agent("a", model=model).stream("go") as output:
            await model.waiting.wait()
    assert model.closed
    assert output.status == "canceled"


async def test_a_reader_that_leaves_early_does_not_stop_the_run() -> None:
    output = Agent("a", model=ScriptedModel([{"text": "all of it", "chunk_size": 1}])).stream("go")
    async for chunk in output:
        if chunk.type == "text-delta":
            break
    assert await output.text == "all of it"


async def test_every_reader_sees_everything_also_after_the_end() -> None:
    output = Agent("a", model=ScriptedModel([{"text": "all of it", "chunk_size": 1}])).stream("go")
    seen: list[list[str]] = []

    async def read() -> None:
        seen.append([chunk.type async for chunk in output])

    with anyio.fail_after(5):
        async with anyio.create_task_group() as group:
            for _ in range(3):
                group.start_soon(read)
    await read()
    assert len(seen) == 4
    assert all(kinds == seen[0] for kinds in seen)
    assert "".join([text async for text in output.text_stream]) == "all of it"
    assert [chunk.type async for chunk in output.read(after=2)] == seen[0][2:]


@pytest.mark.requirement("A15")
async def test_stopping_a_run_stops_the_subagent_and_its_tool() -> None:
    started = anyio.Event()

    @tool
    async def wait() -> None:
        """Wait for ever."""
        started.set()
        await anyio.sleep_forever()

    helper = Agent("helper", tools=[wait], model=asks_for("wait"))
    boss = Agent(
        "boss",
        agents=[helper],
        model=ScriptedModel(
            [{"tool_calls": [{"name": "agent-helper", "id": "call-1", "arguments": {"prompt": "go"}}]}]
        ),
    )
    assert await stopped_in_tool(boss, started) == [("agent-helper", ("cancelled", True))]
