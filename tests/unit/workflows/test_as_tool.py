"""A workflow as a tool of an agent."""

from typing import Annotated

import anyio
import pytest
from pydantic import AfterValidator, BaseModel

from bascule.agents import Agent
from bascule.context import CancelToken, RequestContext
from bascule.errors import ToolError, ToolInputInvalid
from bascule.models import ScriptedModel
from bascule.stream import ToolOutputChunk, WorkflowFinishChunk, WorkflowStartChunk
from bascule.tools import ToolContext
from bascule.workflows import StepContext, Workflow


def multiply(a: int, b: int) -> int:
    if b == 0:
        raise ValueError("zero is dull")
    return a * b


product = Workflow("product", description="Multiplies.").then(multiply)
product_tool = product.as_tool()
anything_tool = Workflow("any").then(lambda ctx: ctx.input, id="same").as_tool("same", "Gives back.")


def test_the_tool_is_named_and_described_after_the_workflow() -> None:
    assert (product_tool.id, product_tool.description) == ("workflow-product", "Multiplies.")
    assert product_tool.input_schema == {
        "type": "object",
        "properties": {"inputData": product.input_schema},
        "additionalProperties": False,
        "required": ["inputData"],
    }
    assert (anything_tool.id, anything_tool.description) == ("same", "Gives back.")
    assert "required" not in anything_tool.input_schema


class Sum(BaseModel):
    total: int


def test_a_declared_output_makes_the_tools_answer_structured() -> None:
    workflow = Workflow("sum", output=Sum).then(lambda: {"total": 1}, id="one")
    assert workflow.as_tool().output_schema == workflow.output_schema
    assert workflow.output_schema is not None
    assert workflow.output_schema["required"] == ["total"]
    assert product_tool.output_schema is None


async def test_the_tool_answers_with_the_result() -> None:
    assert await product_tool.execute({"inputData": {"a": 6, "b": 7}}) == 42
    assert await anything_tool.execute({"inputData": ["x"]}) == ["x"]
    assert await anything_tool.execute({}) is None


async def test_a_failed_run_is_a_tool_error() -> None:
    with pytest.raises(ToolError, match=r"product failed.*\n.*'multiply' failed: ValueError: zero is dull"):
        await product_tool.execute({"inputData": {"a": 6, "b": 0}})


async def test_bad_input_is_bad_input_of_the_tool() -> None:
    with pytest.raises(ToolInputInvalid, match="inputData"):
        await product_tool.execute({"inputData": {"a": 6}})


def no_thirteen(number: int) -> int:
    if number == 13:
        raise ValueError("bad luck")
    return number


class Ticket(BaseModel):
    number: Annotated[int, AfterValidator(no_thirteen)]


lucky_tool = Workflow("lucky", input=Ticket).then(no_thirteen).as_tool()


async def test_input_that_only_the_workflow_can_judge_is_bad_input_of_the_tool_too() -> None:
    assert await lucky_tool.execute({"inputData": {"number": 12}}) == 12
    with pytest.raises(ToolInputInvalid, match="bad luck"):
        await lucky_tool.execute({"inputData": {"number": 13}})


async def test_cancelling_the_call_stops_the_run() -> None:
    began, ended = anyio.Event(), anyio.Event()

    async def hang(ctx: StepContext) -> None:
        began.set()
        try:
            await anyio.sleep_forever()
        finally:
            ended.set()

    context = ToolContext(cancel=CancelToken())
    tool = await anyio.to_thread.run_sync(Workflow("slow").then(hang).as_tool)  # jsonschema reads files when first used
    with anyio.fail_after(5):
        async with anyio.create_task_group() as group:

            async def call() -> None:
                with pytest.raises(ToolError, match="was stopped"):
                    await tool.execute({}, context)

            group.start_soon(call)
            await began.wait()
            context.cancel.cancel()
    assert ended.is_set()


async def test_an_agent_runs_the_workflow_and_its_events_reach_the_agents_stream() -> None:
    model = ScriptedModel(
        [
            {"tool_calls": [{"name": "workflow-product", "arguments": {"inputData": {"a": 6, "b": 7}}}]},
            {"text": "It is ${last_result}."},
        ]
    )
    agent = Agent("tutor", model=model, workflows=[product])
    output = agent.stream("6 times 7?", request_context=RequestContext(resource_id="ada"))
    with anyio.fail_after(5):
        result = await output
    assert result.text == "It is 42."
    inner = [chunk.inner for chunk in output.log.chunks if isinstance(chunk, ToolOutputChunk)]
    assert isinstance(inner[0], WorkflowStartChunk)
    assert isinstance(inner[-1], WorkflowFinishChunk)
