"""A workflow's run is told as a foreign server was recorded to tell it."""

import json

import pytest

from bascule.messages import JsonObject
from bascule.stream import UnknownChunk, chunk_from_wire, reference_wire
from bascule.workflows import StepContext, Workflow, step
from tests.unit.stream.recordings import kinds, missing_keys, payload_of, recording


@step(id="add-step")
async def add(ctx: StepContext[dict[str, int]]) -> dict[str, int]:
    return {"sum": ctx.input["a"] + ctx.input["b"]}


@step(id="double-step")
async def double(ctx: StepContext[dict[str, int]]) -> dict[str, int]:
    return {"value": ctx.input["sum"] * 2}


@step(id="fail-step")
async def fail(ctx: StepContext[dict[str, int]]) -> None:
    raise ValueError("step exploded")


WORKFLOWS = {
    "workflow": lambda: Workflow("add-workflow").then(add).then(double),
    "workflow-failure": lambda: Workflow("fail-workflow").then(fail),
}
NOT_OURS = ("cacheCreationInputTokens", "error.name")  # rows usage-raw and workflow-error


async def records_of(name: str) -> list[JsonObject]:
    run = await WORKFLOWS[name]().create_run()
    records = b"".join(reference_wire.records([chunk async for chunk in run.stream({"a": 2, "b": 3})]))
    assert records.endswith(b"\x1e")
    return [json.loads(record) for record in records[:-1].split(b"\x1e")]


@pytest.mark.parametrize("name", WORKFLOWS)
async def test_a_workflow_is_told_in_the_order_and_with_the_fields_that_were_recorded(name: str) -> None:
    ours, theirs = await records_of(name), recording(f"reference-{name}")
    assert kinds(ours) == kinds(theirs)
    lacking = {
        f"{other['type']}: {key}"
        for one, other in zip(ours, theirs, strict=True)
        for key in missing_keys(payload_of(one), payload_of(other))
    }
    assert {key for key in lacking if not key.endswith(NOT_OURS)} == set()
    assert all(one["from"] == "WORKFLOW" for one in ours)


@pytest.mark.parametrize("name", WORKFLOWS)
def test_a_recorded_workflow_can_be_read(name: str) -> None:
    for wire in recording(f"reference-{name}"):
        chunk = chunk_from_wire(wire)
        assert not isinstance(chunk, UnknownChunk)
        assert set(chunk.to_wire()) == set(wire)
