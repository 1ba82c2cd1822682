"""Makes a step from a function."""

import inspect
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import is_dataclass
from functools import partial
from typing import (
    Annotated,
    Any,
    TypeAlias,
    TypeGuard,
    TypeVar,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

from pydantic import BaseModel
from typing_extensions import is_typeddict

from bascule.errors import ConfigurationError, SchemaMissing
from bascule.tools import input_model_of, run_in_daemon_thread
from bascule.workflows._context import StepContext
from bascule.workflows._definition import Definition, StepCall
from bascule.workflows._shape import Shape, ShapeSource, fields_shape, shape_of

__all__ = ["function_definition"]

Bind: TypeAlias = Callable[[StepContext[Any]], tuple[Sequence[Any], dict[str, Any]]]
"""Gives the arguments of a call, from a context whose input has been checked."""


def function_definition(
    function: Callable[..., object],
    *,
    id: str | None = None,
    description: str | None = None,
    input: ShapeSource | None = None,
    output: ShapeSource | None = None,
) -> Definition:
    """Return a function as a step.

    Args:
        function: takes a ``StepContext``, or the fields of its input as parameters, or nothing.
        id: the step's id; the function's name when left out.
        description: what it does; the docstring's first paragraph when left out.
        input: what it takes, when it takes a ``StepContext``.
        output: what it gives; the return annotation when that is a model.

    Raises:
        SchemaMissing: a parameter has no type, or one that JSON schema cannot express.
        ConfigurationError: ``input`` is declared beside parameters that say the same.
    """
    name: str = id or getattr(function, "__name__", None) or type(function).__name__
    hints = _hints(function, name)
    shape, bind = _input(function, name, hints, input)
    returned = hints.get("return")
    declared = output if output is not None else returned if _is_model(returned) else None
    doc = inspect.getdoc(function) or ""
    return Definition(
        id=name,
        description=description if description is not None else doc.split("\n\n")[0].replace("\n", " "),
        input=shape,
        output=None if declared is None else shape_of(declared, f"The output of the step {name!r}"),
        call=_caller(function, bind),
    )


def _hints(function: Callable[..., object], name: str) -> dict[str, Any]:
    target = function if inspect.isroutine(function) else type(function).__call__
    try:
        return get_type_hints(target, include_extras=True)
    except NameError as error:
        raise SchemaMissing(
            f"An annotation of the step {name!r} names {error.name!r}, which is not defined in its module. "
            "Import it at the top of the module, outside any 'if TYPE_CHECKING' block."
        ) from error


def _input(
    function: Callable[..., object], name: str, hints: dict[str, Any], declared: ShapeSource | None
) -> tuple[Shape | None, Bind]:
    parameters = list(inspect.signature(function).parameters.values())
    context = _context_parameter(parameters, hints)
    others = [parameter for parameter in parameters if parameter is not context]
    what = f"The input of the step {name!r}"
    if not others:
        if declared is None and context is not None:
            declared = _declared_input(hints.get(context.name))
        shape = None if declared is None else shape_of(declared, what)
        return shape, _bind_nothing if context is None else partial(_bind_context, context)
    if declared is not None:
        raise ConfigurationError(
            f"The step {name!r} declares its input twice, with input= and with parameters. Leave input= out, or take "
            "a single parameter annotated with StepContext."
        )
    only = others[0]
    if len(others) == 1 and _is_model(hints.get(only.name)):
        return shape_of(hints[only.name], what), partial(_bind_whole, context, only.name)
    described = input_model_of(function, context_type=StepContext)
    return fields_shape(described), partial(_bind_fields, context)


def _context_parameter(parameters: Sequence[inspect.Parameter], hints: dict[str, Any]) -> inspect.Parameter | None:
    """Return the parameter that takes the context; a single one without annotation does."""
    for parameter in parameters:
        hint = _bare(hints.get(parameter.name))
        if hint is StepContext or get_origin(hint) is StepContext:
            return parameter
    if len(parameters) == 1 and parameters[0].name not in hints and parameters[0].kind in _POSITIONAL:
        return parameters[0]
    return None


_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def _bare(hint: object) -> object:
    return get_args(hint)[0] if get_origin(hint) is Annotated else hint


def _declared_input(hint: object) -> ShapeSource | None:
    """Return ``Order`` for ``StepContext[Order]``."""
    given = get_args(_bare(hint))
    if not given or given[0] is Any or isinstance(given[0], TypeVar):
        return None
    return cast("ShapeSource", given[0])


def _is_model(hint: object) -> TypeGuard[type[Any]]:
    return inspect.isclass(hint) and (is_typeddict(hint) or is_dataclass(hint) or issubclass(hint, BaseModel))


def _bind_nothing(context: StepContext[Any]) -> tuple[Sequence[Any], dict[str, Any]]:
    return (), {}


def _bind_context(parameter: inspect.Parameter, context: StepContext[Any]) -> tuple[Sequence[Any], dict[str, Any]]:
    if parameter.kind in _POSITIONAL:
        return (context,), {}
    return (), {parameter.name: context}


def _bind_whole(
    parameter: inspect.Parameter | None, name: str, context: StepContext[Any]
) -> tuple[Sequence[Any], dict[str, Any]]:
    return (), _with_context(parameter, {name: context.input}, context)


def _bind_fields(
    parameter: inspect.Parameter | None, context: StepContext[Any]
) -> tuple[Sequence[Any], dict[str, Any]]:
    return (), _with_context(parameter, context.input, context)


def _with_context(
    parameter: inspect.Parameter | None, arguments: dict[str, Any], context: StepContext[Any]
) -> dict[str, Any]:
    return arguments if parameter is None else {**arguments, parameter.name: context}


def _caller(function: Callable[..., object], bind: Bind) -> StepCall:
    called = function if inspect.isroutine(function) else type(function).__call__
    if inspect.iscoroutinefunction(called):
        awaited = cast("Callable[..., Awaitable[object]]", function)

        async def call_async(context: StepContext[Any]) -> object:
            arguments, named = bind(context)
            return await awaited(*arguments, **named)

        return call_async

    async def call(context: StepContext[Any]) -> object:
        arguments, named = bind(context)
        result = await run_in_daemon_thread(partial(function, *arguments, **named))
        return await cast("Awaitable[object]", result) if inspect.isawaitable(result) else result

    return call
