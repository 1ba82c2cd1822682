"""Workflows as tools: ``run_<id>`` takes the workflow's input and answers with its result."""

from collections.abc import Mapping
from typing import Protocol

from bascule.mcp_server._catalogue import AnyTool
from bascule.messages import JsonObject, JsonValue
from bascule.tools import Tool, ToolContext, safe_name

__all__ = ["WorkflowLike", "workflow_tool"]


class WorkflowLike(Protocol):
    """A workflow, as far as a server needs to know it."""

    @property
    def id(self) -> str:
        """Its id in the app."""
        ...

    @property
    def name(self) -> str:
        """Its name for people."""
        ...

    @property
    def description(self) -> str:
        """What it does."""
        ...

    @property
    def call_schema(self) -> JsonObject:
        """JSON schema of the arguments of a call."""
        ...

    def input_from_call(self, arguments: JsonObject) -> JsonValue:
        """Return the input that the arguments of a call stand for."""
        ...

    def as_tool(self, name: str | None = None, description: str | None = None) -> Tool[..., object]:
        """Return a tool with the input ``{inputData}``."""
        ...


def workflow_tool(workflow: WorkflowLike) -> AnyTool:
    """Return a workflow's tool: its input stands flat among the arguments when it is an object."""
    name = safe_name(f"run_{workflow.id.replace('-', '_')}")
    inner = workflow.as_tool(name)

    async def run(arguments: Mapping[str, JsonValue], context: ToolContext) -> object:
        return await inner.execute({"inputData": workflow.input_from_call(arguments)}, context)

    return Tool(
        name,
        description=inner.description,
        title=f"Run {workflow.name}",
        input_schema=workflow.call_schema,
        execute=run,
        output=inner.output_schema,
    )
