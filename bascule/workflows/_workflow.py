"""The workflow: steps in an order, with a checked input."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self, TypeAlias, overload
from weakref import WeakValueDictionary

from bascule.errors import ConfigurationError, NameTaken, RunIdInUse, ToolError, ToolInputInvalid, WorkflowInputError
from bascule.messages import JsonObject, JsonValue, new_id
from bascule.tools import Runnable, Tool, ToolContext, check_name
from bascule.workflows._context import StepContext
from bascule.workflows._definition import Definition, check_step_id
from bascule.workflows._execution import Plan
from bascule.workflows._graph import Entry, ParallelEntry, StepEntry, WorkflowEntry, nested
from bascule.workflows._run import WorkflowRun
from bascule.workflows._shape import Shape, ShapeSource, as_object, shape_of
from bascule.workflows._step import Step, definition_of

__all__ = ["EntrySource", "Workflow"]

TOOL_PREFIX = "workflow-"

EntrySource: TypeAlias = "Step[..., Any] | Tool[..., Any] | Runnable | Workflow | Callable[..., Any]"
"""What can be an entry: a function, with or without ``@step``, a tool, an agent, or another workflow."""


class Workflow:
    """Steps that run one after the other, or side by side, each with the output of the one before as its input.

    Args:
        id: names the workflow in the app, in URLs and in MCP (``run_<id>``).
        input: a pydantic model, another type, or a JSON schema; what the first entry declares when left out.
        output: the same for the result, which is checked against it.
        description: what it does; read by models and MCP clients.
        name: a name for people; the id when left out.

    Raises:
        NameInvalid: the id has characters that clients refuse, or is too long.
        SchemaMissing: JSON schema cannot express the input or the output.
    """

    def __init__(
        self,
        id: str,
        *,
        input: ShapeSource | None = None,
        output: ShapeSource | None = None,
        description: str = "",
        name: str | None = None,
    ) -> None:
        self.id: str = check_name(id, what="workflow", room=len(TOOL_PREFIX))
        self.name: str = name or id
        self.description: str = description
        self._input: Shape | None = None if input is None else shape_of(input, f"The input of the workflow {id!r}")
        self._output: Shape | None = None if output is None else shape_of(output, f"The output of the workflow {id!r}")
        self._entries: list[Entry] = []
        self._definitions: dict[str, Definition] = {}
        self._plan: Plan | None = None
        self._runs: WeakValueDictionary[str, WorkflowRun] = WeakValueDictionary()

    def __repr__(self) -> str:
        return f"<Workflow {self.id}>"

    # --- definition ---

    @overload
    def then(self, entry: Callable[[StepContext[Any]], Any], /, *, id: str | None = None) -> Self: ...

    @overload
    def then(self, entry: EntrySource, /, *, id: str | None = None) -> Self: ...

    def then(self, entry: EntrySource, /, *, id: str | None = None) -> Self:
        """Add an entry that gets the output of the one before.

        Args:
            entry: a function, a step, a tool, an agent, or another workflow.
            id: its id in this workflow; its own when left out.

        Raises:
            NameTaken: another entry of this workflow has the id.
            ConfigurationError: it cannot be an entry, or the workflow is in use.
        """
        self._refuse_when_in_use()
        self._entries.append(self._add(entry, id))
        return self

    def parallel(self, entries: Sequence[EntrySource] | Mapping[str, EntrySource], /) -> Self:
        """Add entries that run at the same time, each with the output of the one before.

        The output is a mapping from their ids to their outputs. All of them come to their end, also when one fails.

        Args:
            entries: two or more entries; a mapping gives them their ids.

        Raises:
            NameTaken: another entry of this workflow has one of the ids.
            ConfigurationError: one of them cannot be an entry, there is none, or the workflow is in use.
        """
        self._refuse_when_in_use()
        named = entries.items() if isinstance(entries, Mapping) else ((None, entry) for entry in entries)
        block = tuple(self._add(entry, id) for id, entry in named)
        if not block:
            raise ConfigurationError(f"The parallel block of the workflow {self.id!r} is empty; give it entries.")
        self._entries.append(ParallelEntry(entries=block))
        return self

    def commit(self) -> Self:
        """Say that the definition is complete; using the workflow says so too.

        Raises:
            ConfigurationError: it has no entries.
        """
        self._compiled()
        return self

    def _add(self, source: EntrySource, id: str | None) -> StepEntry | WorkflowEntry:
        if isinstance(source, Workflow):
            return self._add_workflow(source, check_step_id(id or source.id))
        definition = definition_of(source, id)
        self._take(definition.id)
        self._definitions[definition.id] = definition
        return StepEntry(id=definition.id, path=definition.id)

    def _add_workflow(self, workflow: "Workflow", id: str) -> WorkflowEntry:
        plan = workflow._compiled()  # of the same class
        self._refuse_when_in_use()  # it was a workflow inside itself
        self._take(id)
        self._definitions[id] = Definition(
            id=id, description=workflow.description, input=plan.input, output=plan.output, call=None
        )
        for path, definition in plan.definitions.items():
            self._definitions[f"{id}.{path}"] = definition
        return WorkflowEntry(id=id, path=id, entries=nested(plan.entries, id))

    def _take(self, id: str) -> None:
        if id in self._definitions:
            raise NameTaken(
                f"The workflow {self.id!r} has a step {id!r} already. Give this one an id of its own: "
                f".then(x, id='{id}_2'), or .parallel({{'{id}_2': x}})."
            )

    def _refuse_when_in_use(self) -> None:
        if self._plan is not None:
            raise ConfigurationError(
                f"The workflow {self.id!r} is complete: it was committed, run, or used in a workflow. "
                "Add all entries before."
            )

    def _compiled(self) -> Plan:
        if self._plan is None:
            if not self._entries:
                raise ConfigurationError(f"The workflow {self.id!r} has no entries; add some with .then(...).")
            self._plan = Plan(
                workflow_id=self.id,
                entries=tuple(self._entries),
                definitions=dict(self._definitions),
                input=self._input or self._first_input(),
                output=self._output,
            )
        return self._plan

    def _first_input(self) -> Shape | None:
        """Return what the first entry takes; of a parallel block when its entries agree."""
        if not self._entries:
            return None
        first = self._entries[0]
        block = first.entries if isinstance(first, ParallelEntry) else (first,)
        declared = [shape for entry in block if (shape := self._definitions[entry.path].input) is not None]
        if declared and all(shape.schema == declared[0].schema for shape in declared):
            return declared[0]
        return None

    # --- what others see ---

    @property
    def input_schema(self) -> JsonObject:
        """JSON schema of the input; empty when everything is taken."""
        shape = self._input or self._first_input()
        return {} if shape is None else shape.schema

    @property
    def output_schema(self) -> JsonObject | None:
        """JSON schema of the result: the workflow's, else the last entry's; ``None`` when neither declares one."""
        if self._output is not None:
            return self._output.schema
        last = self._entries[-1] if self._entries else None
        shape = None if last is None or isinstance(last, ParallelEntry) else self._definitions[last.path].output
        return None if shape is None else shape.schema

    @property
    def call_schema(self) -> JsonObject:
        """The input schema with an object at its root, as MCP wants it: other inputs stand under ``input``."""
        schema = self.input_schema
        return schema if schema.get("type") == "object" else as_object("input", schema, required=bool(schema))

    def input_from_call(self, arguments: JsonObject) -> JsonValue:
        """Return the input that arguments which follow ``call_schema`` stand for."""
        return arguments if self.input_schema.get("type") == "object" else arguments.get("input")

    def as_tool(self, name: str | None = None, description: str | None = None) -> Tool[..., object]:
        """Return a tool with the input ``{inputData}`` that runs the workflow and answers with its result.

        The run's events reach the caller's stream while it goes on; stopping the caller stops it.

        Args:
            name: the tool's name; ``workflow-<id>`` when left out.
            description: what models read; the workflow's description when left out.
        """
        output = self.output_schema
        return Tool(
            name or f"{TOOL_PREFIX}{self.id}",
            description=description or self.description or f"Runs the workflow {self.name}.",
            input_schema=as_object("inputData", self.input_schema, required=bool(self.input_schema)),
            execute=self._execute,
            output=output if output is not None and output.get("type") == "object" else None,
        )

    async def _execute(self, arguments: JsonObject, context: ToolContext) -> object:
        run = await self.create_run()
        try:
            output = run.stream(
                arguments.get("inputData"), request_context=context.request_context, abort_signal=context.cancel
            )
        except WorkflowInputError as error:
            raise ToolInputInvalid(str(error)) from error
        async with output:
            async for chunk in output:
                await context.channel.emit(chunk)
        result = output.snapshot()
        if result.status == "success":
            return result.result
        if result.status == "failed":
            raise ToolError(f"The workflow {self.name} failed (run {run.run_id}).\n{result.error}")
        raise ToolError(f"The workflow {self.name} was stopped before it had a result (run {run.run_id}).")

    # --- running ---

    async def create_run(self, run_id: str | None = None, resource_id: str | None = None) -> WorkflowRun:
        """Return a run, to be started once.

        Args:
            run_id: its id; a fresh one when left out.
            resource_id: the owner on whose behalf it runs; a verified caller's own id counts before it.

        Raises:
            RunIdInUse: a run of this workflow with the id has not ended.
            ConfigurationError: the workflow has no entries.
        """
        plan = self._compiled()
        active = None if run_id is None else self._runs.get(run_id)
        if active is not None and not active.ended:
            raise RunIdInUse(
                f"A run {run_id!r} of the workflow {self.id!r} has not ended. "
                "Wait for it, cancel it, or use another id."
            )
        run = WorkflowRun(plan, run_id=run_id or new_id(), resource_id=resource_id)
        self._runs[run.run_id] = run
        return run
