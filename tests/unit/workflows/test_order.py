"""In which order entries run, and what they hand to each other."""

import threading

import anyio
import anyio.lowlevel
import pytest

from bascule.errors import NotFound
from bascule.messages import JsonValue
from bascule.stream import WorkflowStepResultChunk
from bascule.workflows import RunResult, StepContext, Workflow, step


@step
async def double(ctx: StepContext[int]) -> int:
    return ctx.input * 2


@step
async def increment(ctx: StepContext[int]) -> int:
    return ctx.input + 1


@step
async def fail(ctx: StepContext) -> None:
    raise ValueError(f"cannot use {ctx.input}")


async def run(workflow: Workflow, input: object = None) -> RunResult:
    with anyio.fail_after(5):
        return await (await workflow.create_run()).start(input)


@pytest.mark.requirement("F30")
async def test_each_step_gets_the_output_of_the_one_before() -> None:
    result = await run(Workflow("sum").then(double).then(increment), 20)
    assert (result.status, result.result) == ("success", 41)
    assert result.steps["double"].output == 40
    assert (result.steps["increment"].input, result.steps["increment"].status) == (40, "success")
    assert result.execution_path == ("double", "increment")


async def test_a_failed_step_is_a_result_and_nothing_runs_after_it() -> None:
    result = await run(Workflow("sum").then(double).then(fail).then(increment), 1)
    assert (result.status, result.result) == ("failed", None)
    assert result.error == "The step 'fail' failed: ValueError: cannot use 2"
    assert result.steps["fail"].error == "ValueError: cannot use 2"
    assert result.execution_path == ("double", "fail")
    assert "increment" not in result.steps


@pytest.mark.requirement("F30")
async def test_parallel_steps_overlap_and_their_outputs_stand_under_their_ids() -> None:
    left, right = anyio.Event(), anyio.Event()

    async def a(ctx: StepContext[str]) -> str:
        left.set()
        await right.wait()
        return f"a {ctx.input}"

    async def b(ctx: StepContext[str]) -> str:
        right.set()
        await left.wait()
        return f"b {ctx.input}"

    result = await run(Workflow("both").parallel([a, b]), "x")
    assert result.result == {"a": "a x", "b": "b x"}
    assert list(result.steps) == ["a", "b"]


async def test_a_step_after_a_parallel_block_waits_for_all_of_it() -> None:
    late = anyio.Event()

    async def slow(ctx: StepContext) -> int:
        await late.wait()
        return 1

    async def fast(ctx: StepContext) -> int:
        late.set()
        return 2

    async def add(ctx: StepContext[dict[str, int]]) -> int:
        return sum(ctx.input.values())

    result = await run(Workflow("sum").parallel([slow, fast]).then(add))
    assert result.result == 3
    assert result.execution_path == ("slow", "fast", "add")


async def test_siblings_of_a_failed_step_come_to_their_end_and_are_recorded() -> None:
    failed = anyio.Event()

    async def bad(ctx: StepContext) -> None:
        try:
            raise ValueError("no")
        finally:
            failed.set()

    async def good(ctx: StepContext) -> str:
        await failed.wait()
        await anyio.lowlevel.checkpoint()
        return "done"

    result = await run(Workflow("both").parallel([bad, good]).then(double))
    assert (result.status, result.error) == ("failed", "The step 'bad' failed: ValueError: no")
    assert (result.steps["good"].status, result.steps["good"].output) == ("success", "done")
    assert "double" not in result.steps


async def test_every_failure_of_a_parallel_block_is_named() -> None:
    result = await run(Workflow("both").parallel({"a": fail, "b": fail}), 1)
    assert result.error == (
        "The step 'a' failed: ValueError: cannot use 1\nThe step 'b' failed: ValueError: cannot use 1"
    )


async def test_the_steps_of_a_nested_workflow_stand_below_it() -> None:
    inner = Workflow("inner").then(double).parallel([increment, fail])
    result = await run(Workflow("outer").then(increment).then(inner), 1)
    nested = result.steps["inner"]
    assert (nested.status, nested.input) == ("failed", 2)
    assert nested.steps["increment"].output == 5
    assert result.steps["inner.increment"] is nested.steps["increment"]
    assert result.error == ("The step 'inner' failed: The step 'inner.fail' failed: ValueError: cannot use 4")
    assert result.execution_path == ("increment", "inner", "inner.double", "inner.increment", "inner.fail")
    with pytest.raises(KeyError, match=r"inner\.unknown"):
        result.steps["inner.unknown"]


async def test_the_output_of_a_nested_workflow_is_that_of_its_last_entry() -> None:
    innermost = Workflow("innermost").then(double)
    inner = Workflow("inner").then(innermost).then(increment)
    outer = Workflow("outer").parallel({"left": inner, "right": innermost})
    result = await run(outer, 3)
    assert result.result == {"left": 7, "right": 6}
    assert result.steps["left.innermost.double"].output == 6


async def test_a_step_sees_the_results_of_earlier_steps_and_the_input_of_its_own_workflow() -> None:
    seen: list[JsonValue] = []

    async def look(ctx: StepContext) -> None:
        seen.append([ctx.init_data, ctx.get_result(double), ctx.get_result("increment"), sorted(ctx.results)])

    inner = Workflow("inner").then(double).then(increment).then(look)
    outer = (
        Workflow("outer").then(increment).then(double).then(look, id="outside").then(lambda: 10, id="ten").then(inner)
    )
    result = await run(outer, 1)
    assert result.status == "success"
    assert seen == [[1, 4, 2, ["double", "increment"]], [10, 20, 21, ["double", "increment"]]]


async def test_asking_for_a_result_that_there_is_not_fails_the_step_and_says_what_there_is() -> None:
    async def look(ctx: StepContext) -> object:
        return ctx.get_result("later")

    result = await run(Workflow("w").then(double).then(look), 1)
    assert result.steps["look"].error == (
        "The step 'look' asks for the result of 'later', which there is not. Steps with a result so far: 'double'."
    )


async def test_the_result_of_a_sibling_that_is_at_work_is_not_there_yet() -> None:
    looked = anyio.Event()

    async def slow(ctx: StepContext) -> None:
        await looked.wait()

    async def look(ctx: StepContext) -> list[str]:
        looked.set()
        assert "slow" not in ctx.results
        return list(ctx.results)

    result = await run(Workflow("w").then(double).parallel([slow, look]), 1)
    assert result.result == {"slow": None, "look": ["double"]}
    assert len(StepContext(input=None, results={"a": 1}).results) == 1


def test_a_step_can_be_tried_without_a_workflow() -> None:
    context = StepContext(input=3, results={"before": 1}, step_id="mine")
    assert context.get_result("before") == 1
    with pytest.raises(NotFound, match="'after'"):
        context.get_result("after")


async def test_what_a_step_does_to_its_input_stays_its_own() -> None:
    async def spoil(ctx: StepContext) -> None:
        ctx.input.append("spoiled")

    async def count(ctx: StepContext) -> int:
        return len(ctx.input)

    output = (await Workflow("w").parallel([spoil, count]).create_run()).stream(["one"])
    result = await output
    assert result.result == {"spoil": None, "count": 1}
    inputs = [chunk.input for chunk in output.log.chunks if isinstance(chunk, WorkflowStepResultChunk)]
    assert inputs == [["one"], ["one"]]


async def test_sync_steps_overlap_too() -> None:
    barrier = threading.Barrier(2, timeout=5)
    result = await run(Workflow("w").parallel({"a": lambda: barrier.wait() >= 0, "b": lambda: barrier.wait() >= 0}))
    assert result.result == {"a": True, "b": True}
