"""Runs that are stopped: by themselves, by their caller, or by the reader who leaves."""

import threading

import anyio
import pytest

from bascule.context import CancelToken
from bascule.stream import Chunk, WorkflowFinishChunk, WorkflowStepOutputChunk
from bascule.workflows import RunResult, StepContext, Workflow, WorkflowOutput, step

stopped: list[str] = []


@pytest.fixture(autouse=True)
def _nothing_stopped() -> None:
    stopped.clear()


@step
async def hang(ctx: StepContext) -> None:
    await ctx.write("begun")
    try:
        await anyio.sleep_forever()
    finally:
        stopped.append(ctx.step_id)


@step
async def after(ctx: StepContext) -> str:
    return "never"


inner = Workflow("inner").parallel({"left": hang, "right": hang})
workflow = Workflow("w").then(inner).then(after)


async def begun(output: WorkflowOutput, count: int = 2) -> None:
    """Wait until that many steps have begun."""
    async for chunk in output:
        if isinstance(chunk, WorkflowStepOutputChunk):
            count -= 1
        if count == 0:
            return


def check(result: RunResult) -> None:
    """See that a run ended as canceled, and everything in it."""
    assert (result.status, result.result, result.error) == ("canceled", None, None)
    assert result.execution_path == ("inner", "inner.left", "inner.right")
    assert {result.steps[path].status for path in result.execution_path} == {"canceled"}
    assert sorted(stopped) == ["inner.left", "inner.right"]


def check_end(chunks: list[Chunk]) -> None:
    assert [chunk for chunk in chunks if isinstance(chunk, WorkflowFinishChunk)] == [chunks[-1]]


async def test_cancelling_a_run_stops_its_steps_and_begins_no_other() -> None:
    run = await workflow.create_run()
    output = run.stream()
    with anyio.fail_after(5):
        await begun(output)
        run.cancel("enough")
        check(await output)
    check_end(output.log.chunks)


async def test_an_abort_signal_stops_the_run() -> None:
    signal = CancelToken()
    output = (await workflow.create_run()).stream(abort_signal=signal)
    with anyio.fail_after(5):
        await begun(output)
        signal.cancel("changed my mind")
        check(await output)
    assert output.cancel_token.reason == "changed my mind"


async def test_cancelling_the_task_that_awaits_the_output_stops_the_run() -> None:
    output = (await workflow.create_run()).stream()
    with anyio.fail_after(5):
        async with anyio.create_task_group() as group:
            group.start_soon(output.result)
            await begun(output)
            group.cancel_scope.cancel()
        check(await output)
    check_end(output.log.chunks)


async def test_cancelling_the_task_that_awaits_start_stops_the_run() -> None:
    ready = anyio.Event()

    async def tell(ctx: StepContext) -> None:
        ready.set()
        await hang(ctx)

    run = await Workflow("w").then(tell).then(after).create_run()
    with anyio.fail_after(5):
        async with anyio.create_task_group() as group:
            group.start_soon(run.start)
            await ready.wait()
            group.cancel_scope.cancel()
    assert run.ended
    assert stopped == ["tell"]


async def test_an_output_can_be_cancelled() -> None:
    output = (await workflow.create_run()).stream()
    with anyio.fail_after(5):
        await begun(output)
        output.cancel()
        check(await output)


async def test_leaving_the_output_stops_the_run() -> None:
    async with (await workflow.create_run()).stream() as output:
        with anyio.fail_after(5):
            await begun(output)
    check(output.snapshot())


async def test_a_run_that_was_cancelled_before_it_starts_runs_nothing() -> None:
    run = await workflow.create_run()
    run.cancel()
    output = run.stream()
    assert (await output).status == "canceled"
    assert [chunk.type for chunk in output.log.chunks] == ["workflow-start", "workflow-finish"]

    signal = CancelToken()
    signal.cancel()
    result = await (await workflow.create_run()).start(abort_signal=signal)
    assert (result.status, result.execution_path) == ("canceled", ())


async def test_an_output_that_is_closed_before_it_starts_runs_nothing() -> None:
    output = (await workflow.create_run()).stream()
    await output.aclose()
    assert (await output).status == "canceled"
    assert output.log.chunks == []


async def test_a_signal_that_comes_after_the_end_changes_nothing() -> None:
    signal = CancelToken()
    output = (await Workflow("w").then(after).create_run()).stream(abort_signal=signal)
    assert (await output).status == "success"
    signal.cancel()
    assert not output.cancel_token.cancelled
    assert (await output).status == "success"


async def test_what_a_step_returns_although_it_was_stopped_is_recorded_and_no_later_one_runs() -> None:
    ready = anyio.Event()

    async def finish_first(ctx: StepContext) -> str:
        with anyio.CancelScope(shield=True):
            ready.set()
            await ctx.cancel.wait()
        return "tidied up"

    run = await Workflow("w").then(finish_first).then(after).create_run()
    output = run.stream()
    with anyio.fail_after(5):
        async with output:
            await ready.wait()
            run.cancel()
            result = await output
    assert result.status == "canceled"
    assert (result.steps["finish_first"].status, result.steps["finish_first"].output) == ("success", "tidied up")
    assert "after" not in result.steps


async def test_a_blocked_sync_step_is_given_up() -> None:
    entered, release = threading.Event(), threading.Event()

    def block(ctx: StepContext) -> None:
        entered.set()
        release.wait(5)

    run = await Workflow("w").then(block).create_run()
    output = run.stream()
    with anyio.fail_after(5):
        async with output:
            while not entered.is_set():
                await anyio.lowlevel.checkpoint()
            run.cancel()
            result = await output
    release.set()
    assert (result.status, result.steps["block"].status) == ("canceled", "canceled")


async def test_a_fault_that_is_no_ordinary_exception_still_ends_the_stream() -> None:
    class Fault(BaseException):
        pass

    async def break_down(ctx: StepContext) -> None:
        raise Fault

    output = (await Workflow("w").parallel({"bad": break_down, "other": hang}).create_run()).stream()
    with pytest.raises(BaseException) as caught:  # noqa: PT011  # a group, or the fault itself
        with anyio.fail_after(5):
            await output
    assert caught.group_contains(Fault) if isinstance(caught.value, BaseExceptionGroup) else caught.type is Fault
    assert output.snapshot().status == "failed"
    assert output.snapshot().steps["other"].status == "canceled"
    check_end(output.log.chunks)
