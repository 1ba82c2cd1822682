"""What is behind an entry of a graph: a function, a tool, an agent, in one form."""

import inspect
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeGuard, cast

from bascule.errors import ConfigurationError, InputError, NameInvalid
from bascule.messages import JsonObject
from bascule.tools import Runnable, Tool, ToolContext, answer_of, json_value
from bascule.workflows._context import StepContext
from bascule.workflows._shape import Shape, shape_of

__all__ = ["Definition", "agent_definition", "check_step_id", "is_runnable", "tool_definition", "unsupported"]

StepCall: TypeAlias = Callable[[StepContext[Any]], Awaitable[object]]

_GOOD_ID = re.compile(r"[A-Za-z0-9_-]{1,64}\Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    """A step as the runtime sees it.

    Attributes:
        id: its id in the workflow.
        description: what it does, for people.
        input: what it takes; ``None`` takes everything.
        output: what it gives; ``None`` when it is not declared.
        call: does the work; ``None`` for a nested workflow, whose entries do it.
    """

    id: str
    description: str
    input: Shape | None
    output: Shape | None
    call: StepCall | None


def check_step_id(step_id: str) -> str:
    """Return the id when it can stand in a path.

    Raises:
        NameInvalid: it has other characters than letters, digits, ``_`` and ``-``, or is too long.
    """
    if not _GOOD_ID.match(step_id):
        raise NameInvalid(
            f"The step id {step_id!r} cannot be used: an id has 1 to 64 letters, digits, '_' or '-'. "
            "Name the step with .then(x, id='name'), .parallel({'name': x}) or @step(id='name')."
        )
    return step_id


def tool_definition(tool: Tool[..., Any]) -> Definition:
    """Return a tool as a step; a value that is no object goes to its only parameter, when there is but one."""
    properties = tool.input_schema.get("properties")
    only = next(iter(properties)) if isinstance(properties, Mapping) and len(properties) == 1 else None

    def check(value: object, what: str) -> JsonObject:
        if isinstance(value, Mapping):
            arguments = cast("JsonObject", value)
        elif only is not None:
            arguments = {only: json_value(value)}
        else:
            raise InputError(f"{what} is {value!r}, but the tool {tool.id!r} takes an object with its parameters.")
        tool.check(arguments)
        return arguments

    async def call(context: StepContext[JsonObject]) -> object:
        result = await tool.execute(
            context.input,
            ToolContext(
                run_id=context.run_id,
                tool_call_id=f"{context.run_id}/{context.step_id}",
                request_context=context.request_context,
                cancel=context.cancel,
                channel=context.channel,
            ),
        )
        return json_value(result)

    return Definition(
        id=tool.id,
        description=tool.description,
        input=Shape(tool.input_schema, check, of_json=True),
        output=None if tool.output_schema is None else shape_of(tool.output_schema, f"The output of {tool.id!r}"),
        call=call,
    )


def is_runnable(source: object) -> TypeGuard[Runnable]:
    """Return whether something answers messages with a stream, as agents do."""
    return isinstance(getattr(source, "id", None), str) and callable(getattr(source, "stream", None))


def agent_definition(agent: Runnable) -> Definition:
    """Return an agent as a step from ``{prompt}``, or a text, to ``{text}``; its events reach the run's stream."""

    def check(value: object, what: str) -> JsonObject:
        prompt = cast("JsonObject", value).get("prompt") if isinstance(value, Mapping) else value
        if not isinstance(prompt, str):
            raise InputError(f"{what} is {value!r}, but the agent {agent.id!r} takes {{'prompt': text}}.")
        return {"prompt": prompt}

    async def call(context: StepContext[dict[str, str]]) -> object:
        output = agent.stream(
            context.input["prompt"], request_context=context.request_context, abort_signal=context.cancel
        )
        async with output:
            async for chunk in output:
                await context.channel.emit(chunk)
        return {"text": answer_of(output.snapshot(), agent.name)}

    return Definition(
        id=agent.id,
        description=agent.description,
        input=Shape(_object_of("prompt"), check, of_json=True),
        output=Shape(_object_of("text"), lambda value, what: value, of_json=True),
        call=call,
    )


def _object_of(name: str) -> JsonObject:
    return {"type": "object", "properties": {name: {"type": "string"}}, "required": [name]}


def unsupported(source: object) -> ConfigurationError:
    """Return the error for something that cannot be an entry."""
    hint = " Pass the function itself, without calling it." if inspect.iscoroutine(source) else ""
    kind = f"the class {source.__name__}" if inspect.isclass(source) else f"a {type(source).__name__}"
    return ConfigurationError(
        f"An entry of a workflow cannot be {kind}: {source!r}. It is a function (with or without @step), a Tool, an "
        f"agent, or another Workflow.{hint}"
    )
