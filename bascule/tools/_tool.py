"""A tool: a function that agents, workflows and MCP clients can call."""

import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import is_dataclass
from functools import partial
from typing import Any, Generic, cast, get_type_hints, overload

import anyio
from anyio import get_cancelled_exc_class
from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic.errors import PydanticUserError
from typing_extensions import ParamSpec, TypeVar, is_typeddict

from bascule.context import Principal, missing_scopes
from bascule.errors import ConfigurationError, SchemaMissing, ScopeMissing, ToolError, ToolInputInvalid
from bascule.messages import JsonObject
from bascule.tools._cancellation import cancelled_from_outside
from bascule.tools._context import ToolContext
from bascule.tools._names import check_name
from bascule.tools._schema import InputModel, input_model_of, validation_text
from bascule.tools._threads import run_in_daemon_thread

__all__ = ["Execute", "Tool", "as_tool", "tool"]

P = ParamSpec("P", default=...)
R = TypeVar("R", default=Any)
_P = ParamSpec("_P")
_R = TypeVar("_R")

Execute = Callable[[Any, ToolContext], Awaitable[object] | object]
"""Called with the checked arguments (a mapping, or the instance of a pydantic input model) and the context."""


class Tool(Generic[P, R]):
    """A function with a name, a description and schemas.

    Args:
        id: the name under which it is called.
        description: tells models and people what it does.
        input_schema: JSON schema with an object at its root, or a pydantic model.
        execute: ``(arguments, context) -> result``, sync or async; sync ones run on a thread of their own.
        title: a name for people.
        output: a type or JSON schema of an object that the result fits; makes the output structured.
        annotations: MCP tool annotations, such as ``{"readOnlyHint": True}``.
        timeout: seconds after which a call is given up.
        scopes: scopes that a verified caller needs.
        to_model_output: turns the result into what the model is shown.
        meta: entries for MCP's ``_meta``.
        function: what calling the tool object itself calls.

    Raises:
        NameInvalid: clients refuse the name.
        ConfigurationError: the schema has no object at its root.
    """

    def __init__(
        self,
        id: str,
        *,
        description: str,
        input_schema: Mapping[str, object] | type[BaseModel],
        execute: Execute,
        title: str | None = None,
        output: type | JsonObject | None = None,
        annotations: JsonObject | None = None,
        timeout: float | None = None,
        scopes: Sequence[str] = (),
        to_model_output: Callable[[Any], object] | None = None,
        meta: JsonObject | None = None,
        function: Callable[P, R] | None = None,
    ) -> None:
        self.id: str = check_name(id)
        self.description = description
        self.title = title
        self.annotations = annotations
        self.timeout = timeout
        self.scopes: tuple[str, ...] = tuple(scopes)
        self.to_model_output = to_model_output
        self.meta = meta
        schema, self._check = _input_check(id, input_schema)
        self.input_schema: JsonObject = schema
        self.output_schema: JsonObject | None = _output_schema(id, output)
        self._execute = execute
        self._is_async = _is_async(execute)
        self._function = function

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the decorated function itself, without any checks."""
        if self._function is None:
            raise TypeError(f"The tool {self.id!r} was not made from a function; use await tool.execute(arguments).")
        return self._function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<Tool {self.id}>"

    def check(self, arguments: JsonObject) -> None:
        """Check arguments without calling the tool.

        Raises:
            ToolInputInvalid: they do not fit the schema; the text lists every problem.
        """
        self._check(arguments)

    async def execute(self, arguments: JsonObject, context: ToolContext | None = None) -> object:
        """Check the arguments, call the tool and return its result.

        Args:
            arguments: by name, as JSON values.
            context: identity, cancellation and channel of the caller.

        Raises:
            ScopeMissing: the caller is verified and lacks a scope that the tool needs.
            ToolInputInvalid: the arguments do not fit the schema.
            ToolError: the tool says no, took longer than its timeout, or tried to end the process.
            Exception: whatever the function raised.
        """
        context = context or ToolContext()
        self._check_scopes(context.principal)
        checked = self._check(arguments)
        if self.timeout is None:
            return await self._call(checked, context)
        with anyio.move_on_after(self.timeout):
            return await self._call(checked, context)
        raise ToolError(f"The tool {self.id!r} did not finish within {self.timeout:g} seconds and was stopped.")

    def _check_scopes(self, principal: Principal) -> None:
        if not self.scopes or not principal.verified:
            return
        if missing := missing_scopes(principal.scopes, self.scopes):
            raise ScopeMissing(f"The tool {self.id!r} needs the scope {' '.join(missing)!r}.", scopes=self.scopes)

    async def _call(self, arguments: object, context: ToolContext) -> object:
        try:
            if self._is_async:
                return await cast("Awaitable[object]", self._execute(arguments, context))
            result = await run_in_daemon_thread(partial(self._execute, arguments, context))
            return await cast("Awaitable[object]", result) if inspect.isawaitable(result) else result
        except (Exception, KeyboardInterrupt):
            raise
        except get_cancelled_exc_class() as error:
            if cancelled_from_outside():
                raise
            raise ToolError(f"The tool {self.id!r} cancelled itself.") from error
        except BaseException as error:  # such as SystemExit: a tool must not end what serves everybody
            raise ToolError(
                f"The tool {self.id!r} tried to end the process ({type(error).__name__}: {error})."
            ) from error


def _is_async(function: object) -> bool:
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(_call_method(function))


def _call_method(function: object) -> object:
    """Return what runs when an instance is called; a function is its own."""
    return function if inspect.isroutine(function) else type(function).__call__ if callable(function) else None


def _input_check(
    name: str, schema: Mapping[str, object] | type[BaseModel] | InputModel
) -> tuple[JsonObject, Callable[[JsonObject], object]]:
    if isinstance(schema, InputModel):
        return schema.schema, partial(schema.arguments, tool=name)
    if isinstance(schema, Mapping):
        if schema.get("type", "object") != "object":
            raise ConfigurationError(
                f"The input schema of the tool {name!r} has the type {schema['type']!r} at its root; "
                "wrap it in an object with one property."
            )
        checked = cast("JsonObject", schema)  # JSON by its contract
        return checked, _JsonSchemaCheck(name, checked)
    model = schema

    def check(arguments: JsonObject) -> BaseModel:
        try:
            return model.model_validate(arguments)
        except ValidationError as error:
            raise ToolInputInvalid(validation_text(name, error)) from error

    return _with_object_root(model.model_json_schema()), check


class _JsonSchemaCheck:
    """Checks arguments against a raw JSON schema."""

    def __init__(self, name: str, schema: JsonObject) -> None:
        from jsonschema import SchemaError, validators  # noqa: PLC0415  # heavy, and few tools bring a raw schema

        kind: Any = validators.validator_for(schema, default=validators.Draft202012Validator)  # Any: no precise types
        try:
            kind.check_schema(schema)
        except SchemaError as error:
            raise ConfigurationError(
                f"The input schema of the tool {name!r} is not JSON schema: {error.message}"
            ) from error
        self._name = name
        self._validator: Any = kind(schema)

    def __call__(self, arguments: JsonObject) -> JsonObject:
        problems = [
            f"- {'.'.join(str(part) for part in problem.absolute_path) or '(arguments)'}: {problem.message}"
            for problem in self._validator.iter_errors(arguments)
        ]
        if problems:
            head = f"The arguments of {self._name!r} do not fit its input schema:"
            raise ToolInputInvalid("\n".join([head, *problems]))
        return arguments


def _output_schema(name: str, output: type | JsonObject | None) -> JsonObject | None:
    if output is None:
        return None
    try:
        schema = output if isinstance(output, Mapping) else TypeAdapter(output).json_schema(mode="serialization")
    except PydanticUserError as error:
        raise SchemaMissing(f"The output of the tool {name!r} cannot be described: {error.message}") from error
    schema = _with_object_root(schema)
    if schema.get("type") != "object":
        raise ConfigurationError(
            f"The output schema of the tool {name!r} has no object at its root; "
            "return a pydantic model, a dataclass or a TypedDict, or leave 'output' out to answer with text."
        )
    return schema


def _with_object_root(schema: JsonObject) -> JsonObject:
    """Put the definition of a type that contains itself at the root, where pydantic leaves only a reference."""
    name = str(schema.get("$ref", "")).removeprefix("#/$defs/")
    definitions = schema.get("$defs")
    definition = definitions.get(name) if isinstance(definitions, Mapping) else None
    if not isinstance(definition, Mapping):
        return schema
    return {**definition, "$defs": definitions}


@overload
def tool(function: Callable[_P, _R], /) -> Tool[_P, _R]: ...


@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    title: str | None = None,
    annotations: JsonObject | None = None,
    output: type | JsonObject | None = None,
    timeout: float | None = None,
    scopes: Sequence[str] = (),
    to_model_output: Callable[[Any], object] | None = None,
    meta: JsonObject | None = None,
) -> Callable[[Callable[_P, _R]], Tool[_P, _R]]: ...


def tool(
    function: Callable[_P, _R] | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    title: str | None = None,
    annotations: JsonObject | None = None,
    output: type | JsonObject | None = None,
    timeout: float | None = None,
    scopes: Sequence[str] = (),
    to_model_output: Callable[[Any], object] | None = None,
    meta: JsonObject | None = None,
) -> Tool[_P, _R] | Callable[[Callable[_P, _R]], Tool[_P, _R]]:
    """Make a tool from a function: schema from its signature, descriptions from its docstring.

    A parameter annotated with ``ToolContext`` is filled in and not described. Sync functions run on daemon threads.
    A return type that is a pydantic model, a dataclass or a TypedDict makes the output structured; every other result
    is answered as text.

    Args:
        function: the function, when used without parentheses.
        name: the tool's name; the function's name when left out.
        description: what models and people read; the docstring's when left out.
        title: a name for people.
        annotations: MCP tool annotations.
        output: type or JSON schema of a structured result.
        timeout: seconds after which a call is given up.
        scopes: scopes that a verified caller needs.
        to_model_output: turns the result into what the model is shown.
        meta: entries for MCP's ``_meta``.

    Raises:
        SchemaMissing: a parameter has no type, or one that JSON schema cannot express.
        NameInvalid: clients refuse the name.
    """

    def make(function: Callable[_P, _R]) -> Tool[_P, _R]:
        described = input_model_of(function, context_type=ToolContext)
        made: Tool[_P, _R] = Tool(
            name or _name_of(function),
            description=description if description is not None else described.description,
            input_schema=cast("Any", described),  # the description is unpacked by the constructor
            execute=_caller(function, described.context_parameter),
            title=title,
            output=output if output is not None else _structured_return(function),
            annotations=annotations,
            timeout=timeout,
            scopes=scopes,
            to_model_output=to_model_output,
            meta=meta,
            function=function,
        )
        return made

    return make if function is None else make(function)


def as_tool(item: Tool[..., Any] | Callable[..., Any]) -> Tool[..., Any]:
    """Return a tool as it is, and a function made into one.

    Raises:
        ConfigurationError: it is neither.
        SchemaMissing: see ``tool``.
    """
    if isinstance(item, Tool):
        return cast("Tool[..., Any]", item)
    if not callable(item):
        raise ConfigurationError(
            f"{item!r} is no tool. Give a Tool, a function with @tool above it, or a plain function."
        )
    return tool(item)


def _name_of(function: Callable[..., object]) -> str:
    return getattr(function, "__name__", type(function).__name__)


def _caller(function: Callable[..., object], context_parameter: str | None) -> Execute:
    """Return the function in the form ``(arguments, context)``, async when the function is."""
    if _is_async(function):
        call = cast("Callable[..., Awaitable[object]]", function)

        async def run_async(arguments: dict[str, object], context: ToolContext) -> object:
            if context_parameter is not None:
                arguments[context_parameter] = context
            return await call(**arguments)

        return run_async

    def run(arguments: dict[str, object], context: ToolContext) -> object:
        if context_parameter is not None:
            arguments[context_parameter] = context
        return function(**arguments)

    return run


def _structured_return(function: Callable[..., object]) -> type | None:
    hint = get_type_hints(_call_method(function)).get("return")
    if not inspect.isclass(hint):
        return None
    if is_typeddict(hint) or is_dataclass(hint) or issubclass(hint, BaseModel):
        return None if hint.__module__.startswith("bascule.tools") else hint
    return None
