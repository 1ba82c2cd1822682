"""The events of a run: their order, their one end, and who may read them."""

from collections.abc import Sequence
from dataclasses import replace

import anyio
import pytest

from bascule.context import Principal, RequestContext, current_context, use_context
from bascule.errors import RunError, RunIdInUse
from bascule.stream import (
    Chunk,
    WorkflowFinishChunk,
    WorkflowStartChunk,
    WorkflowStepOutputChunk,
    WorkflowStepResultChunk,
    WorkflowStepStartChunk,
)
from bascule.workflows import StepContext, Workflow, WorkflowOutput


async def greet(ctx: StepContext[str]) -> str:
    await ctx.write({"thinking": True})
    return f"hello {ctx.input}"


async def shout(ctx: StepContext[str]) -> str:
    return ctx.input.upper()


async def fail(ctx: StepContext) -> None:
    raise ValueError("no")


def timeless(chunks: Sequence[Chunk]) -> list[Chunk]:
    """Return events with their times set to zero, after looking at the order of these."""
    seen: list[Chunk] = []
    for chunk in chunks:
        if isinstance(chunk, WorkflowStepResultChunk):
            assert 0 < chunk.started_at <= chunk.ended_at
            chunk = replace(chunk, started_at=0, ended_at=0)
        elif isinstance(chunk, WorkflowStepStartChunk):
            chunk = replace(chunk, started_at=0)
        seen.append(chunk)
    return seen


async def read(output: WorkflowOutput) -> list[Chunk]:
    with anyio.fail_after(5):
        return [chunk async for chunk in output]


def ends(chunks: Sequence[Chunk]) -> list[WorkflowFinishChunk]:
    found = [chunk for chunk in chunks if isinstance(chunk, WorkflowFinishChunk)]
    assert found == [chunks[-1]], "one end, and nothing after it"
    return found


@pytest.mark.requirement("F30")
async def test_the_events_of_a_run_in_their_order() -> None:
    output = (await Workflow("w").then(greet).then(shout).create_run("r")).stream("you")
    assert timeless(await read(output)) == [
        WorkflowStartChunk("r", "w"),
        WorkflowStepStartChunk("r", "greet", "r/greet", "you", 0),
        WorkflowStepOutputChunk("r", "greet", {"thinking": True}),
        WorkflowStepResultChunk(
            "r",
            step_id="greet",
            call_id="r/greet",
            input="you",
            started_at=0,
            ended_at=0,
            status="success",
            output="hello you",
        ),
        WorkflowStepStartChunk("r", "shout", "r/shout", "hello you", 0),
        WorkflowStepResultChunk(
            "r",
            step_id="shout",
            call_id="r/shout",
            input="hello you",
            started_at=0,
            ended_at=0,
            status="success",
            output="HELLO YOU",
        ),
        WorkflowFinishChunk("r", status="success", result="HELLO YOU"),
    ]


async def test_a_failed_run_ends_its_stream_once() -> None:
    output = (await Workflow("w").then(fail).then(shout).create_run()).stream()
    chunks = await read(output)
    assert ends(chunks)[0].status == "failed"
    assert [chunk.type for chunk in chunks] == [
        "workflow-start",
        "workflow-step-start",
        "workflow-step-result",
        "workflow-finish",
    ]
    assert (await output).status == "failed"


async def test_several_readers_see_everything_from_the_beginning() -> None:
    gate, reading = anyio.Event(), anyio.Event()

    async def wait(ctx: StepContext) -> None:
        await ctx.write("begun")
        await gate.wait()

    output = (await Workflow("w").then(wait).create_run()).stream()
    seen: list[list[Chunk]] = [[], []]

    async def follow(into: list[Chunk]) -> None:
        async for chunk in output:
            into.append(chunk)
            if isinstance(chunk, WorkflowStepOutputChunk):
                reading.set()

    with anyio.fail_after(5):
        async with anyio.create_task_group() as group:
            group.start_soon(follow, seen[0])
            await reading.wait()
            assert output.status == "running"
            assert output.snapshot().steps["wait"].status == "running"
            group.start_soon(follow, seen[1])
            gate.set()
    assert seen[0] == seen[1] == await read(output) == output.log.chunks
    assert len(ends(seen[0])) == 1


async def test_the_awaited_result_is_the_fold_of_what_was_read() -> None:
    output = (await Workflow("w").then(greet).create_run()).stream("you")
    async with output:
        chunks = await read(output)
        assert await output == output.snapshot()
    assert (await output).result == "hello you"
    assert len(ends(chunks)) == 1


async def test_a_run_starts_once() -> None:
    workflow = Workflow("w").then(greet)
    run = await workflow.create_run("r")
    output = run.stream("you")
    with pytest.raises(RunIdInUse, match="'r' of the workflow 'w' was started before"):
        await run.start("you")
    await output
    with pytest.raises(RunError, match=r"is over.*create_run\(\)") as caught:
        run.stream("you")
    assert not isinstance(caught.value, RunIdInUse)


async def test_an_id_is_free_again_when_its_run_has_ended() -> None:
    workflow = Workflow("w").then(greet)
    first = await workflow.create_run("r")
    with pytest.raises(RunIdInUse, match="'r' of the workflow 'w' has not ended"):
        await workflow.create_run("r")
    assert [first.ended, (await first.start("you")).status, first.ended] == [False, "success", True]
    again = await workflow.create_run("r")
    assert (again.run_id, again.workflow_id, (await again.start("me")).result) == ("r", "w", "hello me")


async def test_runs_of_one_workflow_do_not_mix() -> None:
    arrived = 0
    all_here = anyio.Event()

    async def meet(ctx: StepContext) -> object:
        nonlocal arrived
        arrived += 1
        if arrived == 3:
            all_here.set()
        await all_here.wait()
        return [ctx.input, ctx.get_result("first")]

    workflow = Workflow("w").then(lambda ctx: ctx.input, id="first").then(meet)
    results: dict[int, object] = {}

    async def one(number: int) -> None:
        results[number] = (await (await workflow.create_run()).start(number)).result

    with anyio.fail_after(5):
        async with anyio.create_task_group() as group:
            for number in range(3):
                group.start_soon(one, number)
    assert results == {number: [number, number] for number in range(3)}


async def contexts_of(
    run_resource: str | None, given: RequestContext | None
) -> tuple[RequestContext, RequestContext | None]:
    seen: list[tuple[RequestContext, RequestContext | None]] = []

    async def look(ctx: StepContext) -> None:
        seen.append((ctx.request_context, current_context()))

    run = await Workflow("w").then(look).create_run("r", resource_id=run_resource)
    await run.start(request_context=given)
    return seen[0]


async def test_steps_see_the_callers_context_with_the_id_of_the_run() -> None:
    given = RequestContext(resource_id="mine", values={"tone": "kind"})
    context, current = await contexts_of(None, given)
    assert (context.run_id, context.resource_id, context.trace_id) == ("r", "mine", given.trace_id)
    assert context.get("tone") == "kind"
    assert current is context
    with use_context(given):
        context, _ = await contexts_of(None, None)
    assert context.trace_id == given.trace_id
    assert current_context() is None


async def test_the_owner_of_a_run_can_be_named_but_not_over_a_verified_caller() -> None:
    context, _ = await contexts_of("named", None)
    assert context.resource_id == "named"
    verified = RequestContext(principal=Principal(id="ada"), resource_id="ada")
    context, _ = await contexts_of("named", verified)
    assert context.resource_id == "ada"
