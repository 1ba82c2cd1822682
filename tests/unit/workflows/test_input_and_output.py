"""What is checked on the way in and on the way out, and the schemas that others see."""

from dataclasses import dataclass
from typing import Annotated, Any

import anyio
import pytest
from inline_snapshot import snapshot
from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from bascule.errors import ConfigurationError, SchemaMissing, WorkflowInputError
from bascule.messages import JsonObject
from bascule.workflows import RunResult, StepContext, Workflow, step


class Order(BaseModel):
    item: str
    quantity: Annotated[int, Field(ge=1)] = 1


class Price(TypedDict):
    total: float


@dataclass
class Receipt:
    text: str


ORDER_SCHEMA: JsonObject = {
    "properties": {"item": {"type": "string"}, "quantity": {"default": 1, "minimum": 1, "type": "integer"}},
    "required": ["item"],
    "title": "Order",
    "type": "object",
}


@step
async def price(ctx: StepContext[Order]) -> Price:
    return {"total": ctx.input.quantity * 2.5}


async def run(workflow: Workflow, input: object = None) -> RunResult:
    with anyio.fail_after(5):
        return await (await workflow.create_run()).start(input)


@pytest.mark.requirement("F30")
async def test_bad_run_input_is_refused_with_every_problem_and_nothing_runs() -> None:
    ran: list[object] = []

    async def note(ctx: StepContext) -> None:
        ran.append(ctx.input)

    workflow = Workflow("shop", input=Order).then(note)
    order = await workflow.create_run()
    with pytest.raises(WorkflowInputError) as caught:
        await order.start({"quantity": 0})
    assert str(caught.value) == snapshot(
        """\
The input of the workflow 'shop' does not fit its schema:
- item: is required and was not given
- quantity: input should be greater than or equal to 1, got 0\
"""
    )
    assert ran == []
    assert (await order.start({"item": "tea"})).status == "success"
    assert ran == [{"item": "tea", "quantity": 1}]


async def test_the_first_steps_annotation_is_the_workflows_input() -> None:
    workflow = Workflow("shop").then(price)
    assert workflow.input_schema == ORDER_SCHEMA
    with pytest.raises(WorkflowInputError, match="quantity"):
        await run(workflow, {"item": "tea", "quantity": "many"})
    assert (await run(workflow, {"item": "tea", "quantity": 2})).result == {"total": 5.0}
    assert (await run(workflow, Order(item="tea", quantity=4))).result == {"total": 10.0}


COUNT_SCHEMA: JsonObject = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
count = Workflow("count", input=COUNT_SCHEMA).then(lambda ctx: ctx.input["n"] + 1, id="add")


async def test_a_json_schema_can_declare_the_input() -> None:
    assert count.input_schema == COUNT_SCHEMA
    assert (await run(count, {"n": 1})).result == 2
    with pytest.raises(WorkflowInputError, match=r"- n: 'x' is not of type 'integer'"):
        await run(count, {"n": "x"})


async def test_input_that_json_cannot_say_is_refused() -> None:
    workflow = Workflow("w").then(lambda ctx: ctx.input, id="same")
    with pytest.raises(WorkflowInputError, match="is a object that cannot be written as JSON"):
        await run(workflow, object())


async def test_input_that_does_not_fit_a_step_fails_that_step() -> None:
    workflow = Workflow("shop").then(lambda: {"quantity": 0}, id="order").then(price)
    result = await run(workflow)
    assert (result.status, result.steps["order"].status, result.steps["price"].status) == (
        "failed",
        "success",
        "failed",
    )
    assert result.steps["price"].error == snapshot(
        """\
The input does not fit its schema:
- item: is required and was not given
- quantity: input should be greater than or equal to 1, got 0\
"""
    )


@pytest.mark.requirement("F30")
async def test_a_declared_output_is_checked() -> None:
    @step(output=Receipt)
    def bad(ctx: StepContext) -> object:
        return {"letter": "tea"}

    result = await run(Workflow("shop").then(bad))
    assert result.steps["bad"].error == snapshot(
        """\
The output does not fit its schema:
- text: is required and was not given\
"""
    )


async def test_a_return_annotation_that_is_a_model_is_a_declared_output() -> None:
    def receipt(item: str) -> Receipt:
        return Receipt(f"1 {item}")

    workflow = Workflow("shop").then(receipt)
    assert workflow.output_schema == {
        "properties": {"text": {"type": "string"}},
        "required": ["text"],
        "title": "Receipt",
        "type": "object",
    }
    assert (await run(workflow, {"item": "tea"})).result == {"text": "1 tea"}


async def test_the_output_of_the_workflow_is_checked() -> None:
    workflow = Workflow("shop", output=Receipt).then(price)
    result = await run(workflow, {"item": "tea"})
    assert result.steps["price"].status == "success"
    assert (result.status, result.result) == ("failed", None)
    assert str(result.error).startswith(
        "The output of the workflow 'shop' does not fit its schema:\n- text: is required"
    )


async def test_the_output_of_a_nested_workflow_is_checked() -> None:
    inner = Workflow("inner", output=Receipt).then(price)
    result = await run(Workflow("outer").then(inner), {"item": "tea"})
    assert result.steps["inner.price"].status == "success"
    assert result.steps["inner"].status == "failed"
    assert "- text: is required" in str(result.steps["inner"].error)


async def test_the_input_of_a_nested_workflow_is_checked_before_its_steps() -> None:
    inner = Workflow("inner", input=Order).then(lambda ctx: ctx.input["quantity"], id="quantity")
    outer = Workflow("outer").then(lambda ctx: ctx.input, id="same").then(inner)
    assert (await run(outer, {"item": "tea"})).result == 1
    result = await run(outer, {})
    assert list(result.steps["inner"].steps) == []
    assert "- item: is required" in str(result.steps["inner"].error)


async def test_output_that_json_cannot_say_fails_the_step() -> None:
    result = await run(Workflow("w").then(lambda: {"x": object()}, id="odd"))
    assert "is a dict that cannot be written as JSON" in str(result.steps["odd"].error)


async def test_models_become_plain_values_between_steps() -> None:
    async def order(ctx: StepContext) -> Order:
        return Order(item="tea")

    result = await run(Workflow("w").then(order).then(lambda ctx: ctx.input["quantity"], id="quantity"))
    assert (result.steps["order"].output, result.result) == ({"item": "tea", "quantity": 1}, 1)


async def test_parameters_with_types_are_the_fields_of_the_input() -> None:
    def ship(item: str, ctx: StepContext[Any], quantity: int = 1) -> str:
        return f"{quantity} {item} for {ctx.run_id}"

    workflow = Workflow("shop").then(ship)
    assert workflow.input_schema == {
        "additionalProperties": False,
        "properties": {"item": {"type": "string"}, "quantity": {"default": 1, "type": "integer"}},
        "required": ["item"],
        "type": "object",
    }
    run_of_it = await workflow.create_run("r1")
    assert (await run_of_it.start({"item": "tea"})).result == "1 tea for r1"
    with pytest.raises(WorkflowInputError, match="- colour: is not one of its fields"):
        await run(workflow, {"item": "tea", "colour": "red"})


async def test_a_value_goes_to_the_only_parameter_of_the_next_step() -> None:
    def length(text: str) -> int:
        return len(text)

    def double(n: int) -> int:
        return n * 2

    assert (await run(Workflow("w").then(length).then(double), "four")).result == 8
    assert (await run(Workflow("w").then(length).then(double), {"text": "four"})).result == 8


async def test_a_single_parameter_that_is_a_model_takes_the_whole_input() -> None:
    def total(order: Order) -> int:
        return order.quantity

    workflow = Workflow("w").then(total)
    assert workflow.input_schema == ORDER_SCHEMA
    assert (await run(workflow, {"item": "tea", "quantity": 3})).result == 3


def untyped(item, quantity) -> None:  # type: ignore[no-untyped-def]  # pyright: ignore[reportMissingParameterType, reportUnknownParameterType]
    ...


async def test_the_context_may_be_a_keyword_only_parameter() -> None:
    async def look(*, ctx: StepContext[Order]) -> str:
        return ctx.input.item

    assert (await run(Workflow("w").then(look), {"item": "tea"})).result == "tea"


def test_an_annotation_that_is_not_defined_is_refused() -> None:
    def lost(item: "Nowhere") -> None:  # type: ignore[name-defined]  # noqa: F821  # pyright: ignore[reportUndefinedVariable, reportUnknownParameterType]
        ...

    with pytest.raises(SchemaMissing, match="An annotation of the step 'lost' names 'Nowhere'"):
        step(lost)  # pyright: ignore[reportUnknownArgumentType]


def test_a_workflow_without_entries_takes_anything() -> None:
    assert (Workflow("w").input_schema, Workflow("w").output_schema) == ({}, None)


def test_input_declared_twice_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="declares its input twice"):
        step(input=Order)(untyped)  # pyright: ignore[reportUnknownArgumentType]


def test_a_parameter_without_a_type_is_refused() -> None:
    with pytest.raises(SchemaMissing, match="The parameter 'item'"):
        Workflow("w").then(untyped)  # pyright: ignore[reportUnknownArgumentType]


def test_a_type_that_json_schema_cannot_say_is_refused() -> None:
    class Odd:
        pass

    with pytest.raises(SchemaMissing, match="The input of the workflow 'w' is declared as Odd"):
        Workflow("w", input=Odd)


def test_what_is_no_json_schema_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="The output of the workflow 'w' is declared by no valid JSON schema"):
        Workflow("w", output={"type": "thing"})


def test_parallel_entries_that_agree_declare_the_input() -> None:
    def a(item: str) -> None: ...

    def b(item: str) -> None: ...

    def c(thing: str) -> None: ...

    assert Workflow("w").parallel([a, b]).input_schema == Workflow("w").then(a).input_schema
    assert Workflow("w").parallel([a, c]).input_schema == {}
    assert Workflow("w").parallel([a, c]).output_schema is None


def test_the_schema_for_callers_has_an_object_at_its_root() -> None:
    of_object = Workflow("w", input=Order).then(price)
    assert of_object.call_schema == ORDER_SCHEMA
    assert of_object.input_from_call({"item": "tea"}) == {"item": "tea"}

    of_list = Workflow("w", input=list[Order]).then(lambda ctx: len(ctx.input), id="count")
    assert of_list.call_schema == {
        "type": "object",
        "properties": {"input": {"items": {"$ref": "#/$defs/Order"}, "type": "array"}},
        "additionalProperties": False,
        "required": ["input"],
        "$defs": {"Order": ORDER_SCHEMA},
    }
    assert of_list.input_from_call({"input": [{"item": "tea"}]}) == [{"item": "tea"}]

    of_anything = Workflow("w").then(lambda ctx: ctx.input, id="same")
    assert of_anything.call_schema == {
        "type": "object",
        "properties": {"input": {}},
        "additionalProperties": False,
    }
    assert of_anything.input_from_call({}) is None
