"""What can be an entry, and under which id."""

from functools import partial

import anyio
import pytest

from bascule.agents import Agent
from bascule.errors import ConfigurationError, NameInvalid, NameTaken, ToolError
from bascule.models import ScriptedModel
from bascule.stream import TextDeltaChunk, WorkflowFinishChunk, WorkflowStepOutputChunk
from bascule.tools import ToolContext, tool
from bascule.workflows import RunResult, StepContext, Workflow, step


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tool
async def negate(number: int, ctx: ToolContext) -> int:
    """Change the sign."""
    await ctx.progress(1, 2, "half way")
    await ctx.write({"seen": number})
    await ctx.log("info", "negating")
    return -number


async def run(workflow: Workflow, input: object = None) -> RunResult:
    with anyio.fail_after(5):
        return await (await workflow.create_run()).start(input)


async def test_a_tool_is_a_step_with_the_tools_schemas() -> None:
    workflow = Workflow("w").then(add).then(negate)
    assert workflow.input_schema == add.input_schema
    output = (await workflow.create_run()).stream({"a": 1, "b": 2})
    assert (await output).result == -3
    said = [chunk.output for chunk in output.log.chunks if isinstance(chunk, WorkflowStepOutputChunk)]
    assert said == [
        {"progress": 1, "total": 2, "message": "half way"},
        {"seen": 3},
        {"level": "info", "data": "negating", "logger": None},
    ]


async def test_a_tools_context_belongs_to_the_run() -> None:
    seen: list[ToolContext] = []

    @tool
    def look(ctx: ToolContext) -> str:
        seen.append(ctx)
        return "seen"

    started = await Workflow("w").then(look).create_run("run-1")
    await started.start({})
    assert (seen[0].run_id, seen[0].tool_call_id) == ("run-1", "run-1/look")


async def test_arguments_that_do_not_fit_a_tool_fail_its_step() -> None:
    result = await run(Workflow("w").then(lambda: {"a": 1}, id="first").then(add))
    assert result.steps["add"].error == (
        "The arguments of 'add' do not fit its input schema:\n- b: is required and was not given"
    )
    result = await run(Workflow("w").then(lambda: 5, id="first").then(add))
    assert result.steps["add"].error == "The input is 5, but the tool 'add' takes an object with its parameters."


async def test_a_tool_that_wants_to_ask_fails_its_step() -> None:
    @tool
    async def ask(ctx: ToolContext) -> str:
        return (await ctx.ask("Sure?", {"type": "object", "properties": {}})).action

    result = await run(Workflow("w").then(ask), {})
    assert "cannot be asked" in str(result.error)


async def test_an_agent_is_a_step_from_prompt_to_text_and_its_events_are_forwarded() -> None:
    agent = Agent("tutor", model=ScriptedModel([{"text": "It is four.", "usage": {"input": 7, "output": 3}}]))
    workflow = Workflow("w").then(lambda: "What is 2 + 2?", id="question").then(agent)
    output = (await workflow.create_run()).stream()
    result = await output
    assert result.result == {"text": "It is four."}
    inner = [chunk.inner for chunk in output.log.chunks if isinstance(chunk, WorkflowStepOutputChunk)]
    assert "".join(chunk.text for chunk in inner if isinstance(chunk, TextDeltaChunk)) == "It is four."
    assert (result.usage.input_tokens, result.usage.output_tokens) == (7, 3)
    finish = output.log.chunks[-1]
    assert isinstance(finish, WorkflowFinishChunk)
    assert finish.usage == result.usage


async def test_an_agent_that_fails_fails_its_step() -> None:
    agent = Agent("tutor", model=ScriptedModel([{"error": {"status": 401, "message": "no key"}}]))
    workflow = Workflow("w").then(agent)
    assert workflow.input_schema["required"] == ["prompt"]
    result = await run(workflow, {"prompt": "hello"})
    assert result.status == "failed"
    assert "tutor failed" in str(result.steps["tutor"].error)


async def test_an_agent_takes_nothing_but_a_prompt() -> None:
    agent = Agent("tutor", model=ScriptedModel())
    result = await run(Workflow("w").then(lambda: 5, id="first").then(agent))
    assert result.error == "The step 'tutor' failed: The input is 5, but the agent 'tutor' takes {'prompt': text}."


async def test_a_callable_object_is_a_step() -> None:
    class Twice:
        async def __call__(self, ctx: StepContext[int]) -> int:
            return ctx.input * 2

    result = await run(Workflow("w").then(Twice()).then(partial(Twice(), StepContext(input=4)), id="eight"), 3)
    assert (result.steps["Twice"].output, result.result) == (6, 8)


async def test_a_sync_function_may_return_something_to_await() -> None:
    async def later(value: int) -> int:
        return value + 1

    assert (await run(Workflow("w").then(lambda ctx: later(ctx.input), id="later"), 1)).result == 2


async def test_a_tool_error_is_shown_as_it_is_and_secrets_are_taken_out() -> None:
    def refuse() -> None:
        raise ToolError("Ask again tomorrow.")

    def leak() -> None:
        raise RuntimeError("failed with Authorization: Bearer abcdefgh12345678")

    result = await run(Workflow("w").parallel([refuse, leak]))
    assert result.steps["refuse"].error == "Ask again tomorrow."
    assert "abcdefgh" not in str(result.steps["leak"].error)


async def test_a_group_of_one_exception_is_shown_as_that_one() -> None:
    async def grouped(ctx: StepContext) -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(partial(fail, "inside"))

    async def fail(text: str) -> None:
        raise ValueError(text)

    assert (await run(Workflow("w").then(grouped))).steps["grouped"].error == "ValueError: inside"


def test_a_step_keeps_its_function_and_says_what_it_is() -> None:
    @step(id="total", description="Adds up.")
    def total_of(a: int, b: int) -> int:
        return a + b

    @step
    def bare(ctx: StepContext) -> None:
        """Does nothing.

        At all.
        """

    assert total_of(1, b=2) == 3
    assert (total_of.id, total_of.description, total_of.output_schema) == ("total", "Adds up.", None)
    assert total_of.input_schema is not None
    assert (bare.id, bare.description, bare.input_schema, repr(bare)) == ("bare", "Does nothing.", None, "<Step bare>")


def test_two_entries_with_one_id_are_refused() -> None:
    workflow = Workflow("w").then(add)
    with pytest.raises(NameTaken, match=r"has a step 'add' already.*id='add_2'"):
        workflow.then(add)
    with pytest.raises(NameTaken, match="'negate'"):
        workflow.parallel([negate, negate])
    workflow.then(add, id="add_2")


@pytest.mark.parametrize("source", ["a text", 5, None, int])
def test_what_cannot_be_an_entry_is_refused_with_what_can(source: object) -> None:
    with pytest.raises(ConfigurationError, match=r"It is a function .*, a Tool, an agent, or another Workflow"):
        Workflow("w").then(source)  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType, reportCallIssue]


def test_a_function_that_was_called_is_refused_with_a_hint() -> None:
    async def work() -> None: ...

    called = work()
    with pytest.raises(ConfigurationError, match="Pass the function itself, without calling it"):
        Workflow("w").then(called)  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType, reportCallIssue]
    called.close()


def test_ids_that_cannot_stand_in_a_path_are_refused() -> None:
    with pytest.raises(NameInvalid, match=r"'<lambda>'.*\.then\(x, id='name'\)"):
        Workflow("w").then(lambda: 1)
    with pytest.raises(NameInvalid, match=r"a\.b"):
        step(id="a.b")(lambda: 1)
    with pytest.raises(NameInvalid, match="workflow"):
        Workflow("my workflow")
    with pytest.raises(NameInvalid):
        Workflow("w" * 60)


def test_a_workflow_without_entries_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="has no entries"):
        Workflow("w").commit()
    with pytest.raises(ConfigurationError, match="has no entries"):
        Workflow("outer").then(Workflow("w"))
    with pytest.raises(ConfigurationError, match="is empty"):
        Workflow("w").parallel([])


async def test_a_workflow_in_use_cannot_be_changed() -> None:
    committed = Workflow("w").then(add).commit()
    used, ran = Workflow("used").then(add), Workflow("ran").then(add)
    Workflow("outer").then(used)
    await ran.create_run()
    for workflow in (committed, used, ran):
        with pytest.raises(ConfigurationError, match="is complete"):
            workflow.then(negate)
        with pytest.raises(ConfigurationError, match="is complete"):
            workflow.parallel([negate])


def test_a_workflow_cannot_be_inside_itself() -> None:
    workflow = Workflow("w").then(add)
    with pytest.raises(ConfigurationError, match="is complete"):
        workflow.then(workflow)
    assert repr(workflow) == "<Workflow w>"
