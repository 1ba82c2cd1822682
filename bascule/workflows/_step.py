"""The decorator that makes a step from a function."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Generic, ParamSpec, TypeVar, cast, overload

from bascule.messages import JsonObject
from bascule.tools import Tool
from bascule.workflows._definition import (
    Definition,
    agent_definition,
    check_step_id,
    is_runnable,
    tool_definition,
    unsupported,
)
from bascule.workflows._function import function_definition
from bascule.workflows._shape import ShapeSource

__all__ = ["Step", "definition_of", "step"]

P = ParamSpec("P")
R = TypeVar("R")


class Step(Generic[P, R]):
    """A function with an id and declared input and output, for use in workflows.

    Calling it calls the function itself, without any checks.

    Attributes:
        definition: the step as the runtime sees it.
    """

    __slots__ = ("_function", "definition")

    def __init__(self, function: Callable[P, R], definition: Definition) -> None:
        self._function = function
        self.definition: Definition = definition

    @property
    def id(self) -> str:
        """Its id in the workflow."""
        return self.definition.id

    @property
    def description(self) -> str:
        """What it does, for people."""
        return self.definition.description

    @property
    def input_schema(self) -> JsonObject | None:
        """JSON schema of what it takes, when it is declared."""
        shape = self.definition.input
        return None if shape is None else shape.schema

    @property
    def output_schema(self) -> JsonObject | None:
        """JSON schema of what it gives, when it is declared."""
        shape = self.definition.output
        return None if shape is None else shape.schema

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function itself, without any checks."""
        return self._function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<Step {self.id}>"


@overload
def step(function: Callable[P, R], /) -> Step[P, R]: ...


@overload
def step(
    *,
    id: str | None = None,
    description: str | None = None,
    input: ShapeSource | None = None,
    output: ShapeSource | None = None,
) -> Callable[[Callable[P, R]], Step[P, R]]: ...


def step(
    function: Callable[P, R] | None = None,
    /,
    *,
    id: str | None = None,
    description: str | None = None,
    input: ShapeSource | None = None,
    output: ShapeSource | None = None,
) -> Step[P, R] | Callable[[Callable[P, R]], Step[P, R]]:
    """Make a step from a function.

    The function takes a ``StepContext`` (``StepContext[Order]`` declares its input), or the fields of its input as
    parameters with types, as a tool does; a single parameter whose type is a model takes the whole input. Sync
    functions run on daemon threads.

    Args:
        function: the function, when used without parentheses.
        id: the step's id; the function's name when left out.
        description: what it does, for people; from the docstring when left out.
        input: a pydantic model, another type, or a JSON schema, which the input is checked against.
        output: the same for what the function returns; its return annotation when that is a model.

    Raises:
        NameInvalid: the id cannot be used.
        SchemaMissing: a parameter has no type, or one that JSON schema cannot express.
    """

    def make(function: Callable[P, R]) -> Step[P, R]:
        definition = function_definition(function, id=id, description=description, input=input, output=output)
        check_step_id(definition.id)
        return Step(function, definition)

    return make if function is None else make(function)


def definition_of(source: object, id: str | None = None) -> Definition:
    """Return what a workflow was given as a step, under another id when one is given.

    Raises:
        ConfigurationError: it is none of the kinds that can be a step.
        NameInvalid: its id cannot be used.
    """
    if isinstance(source, Step):
        found: Definition = source.definition
    elif isinstance(source, Tool):
        found = tool_definition(cast("Tool[..., Any]", source))
    elif is_runnable(source):
        found = agent_definition(source)
    elif callable(source) and not isinstance(source, type):
        found = function_definition(source, id=id)
    else:
        raise unsupported(source)
    return replace(found, id=check_step_id(id or found.id))
