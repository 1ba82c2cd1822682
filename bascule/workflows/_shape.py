"""What a workflow or a step takes or gives: a JSON schema, and the check of a value against it.

Between steps there is only JSON. A shape turns JSON into the declared type on its way in, and whatever a step returned
into JSON on its way out.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias, TypeVar, cast

from pydantic import BaseModel, PydanticUserError, TypeAdapter, ValidationError
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import PydanticSerializationError, to_jsonable_python

from bascule.errors import ConfigurationError, InputError, SchemaMissing
from bascule.messages import JsonObject, JsonValue
from bascule.tools import InputModel

__all__ = ["Shape", "ShapeSource", "as_object", "fields_shape", "plain", "shape_of"]

T = TypeVar("T")

ShapeSource: TypeAlias = type[Any] | JsonObject
"""A pydantic model, any other type that pydantic knows, or a JSON schema."""


@dataclass(frozen=True, slots=True)
class Shape:
    """A declared type of JSON values.

    Attributes:
        schema: its JSON schema.
        check: ``(value, what)`` returns the value as the declared type, or raises ``InputError``, which lists every
            problem; ``what`` begins its text, as in ``"The input of the step 'a'"``.
        of_json: whether ``check`` takes JSON values only; otherwise instances of the type pass too.
    """

    schema: JsonObject
    check: Callable[[object, str], object]
    of_json: bool = False

    def dump(self, value: object, what: str) -> JsonValue:
        """Check a value, and return it as JSON values with what the type adds to it, such as defaults.

        Raises:
            InputError: it does not fit, or cannot be written as JSON.
        """
        given = plain(value, what) if self.of_json else value
        return plain(self.check(given, what), what)


class _Untitled(GenerateJsonSchema):
    """Leaves out the titles that pydantic makes from names: they cost tokens and say nothing."""

    def field_title_should_be_set(self, schema: Any) -> bool:  # Any: pydantic's own union of core schemas
        return False


def shape_of(source: ShapeSource, what: str) -> Shape:
    """Return the shape that a type or a JSON schema declares; ``what`` is declared, for error texts.

    Raises:
        SchemaMissing: JSON schema cannot express the type.
        ConfigurationError: what stands for a JSON schema is none.
    """
    if isinstance(source, Mapping):
        return Shape(source, _JsonSchemaCheck(source, what), of_json=True)
    try:
        adapter: TypeAdapter[object] = TypeAdapter(source)
        schema = cast("JsonObject", adapter.json_schema(schema_generator=_Untitled))
    except PydanticUserError as error:
        name = getattr(source, "__name__", None) or str(source)
        raise SchemaMissing(
            f"{what} is declared as {name}, which cannot be expressed in JSON schema. "
            "Use plain types, dataclasses, TypedDicts or pydantic models."
        ) from error
    return Shape(schema, partial(_check_type, adapter))


def fields_shape(model: InputModel) -> Shape:
    """Return the shape whose fields are the parameters of a function; its check gives arguments by parameter name.

    A value that is no object goes to the only parameter, when there is but one.
    """
    adapter: TypeAdapter[BaseModel] = TypeAdapter(model.model)
    names = model.names
    only = names[0][1] if len(names) == 1 else None

    def check(value: object, what: str) -> dict[str, object]:
        given: object = value
        if only is not None and not isinstance(value, Mapping):
            given = {only: value}
        checked = _check_type(adapter, given, what)
        return {parameter: getattr(checked, name) for name, parameter in names}

    return Shape(model.schema, check, of_json=True)


def _check_type(adapter: TypeAdapter[T], value: object, what: str) -> T:
    try:
        return adapter.validate_python(value)
    except ValidationError as error:
        raise InputError(_problems(what, error)) from error


def plain(value: object, what: str) -> JsonValue:
    """Return ``value`` as JSON values, a copy of its own.

    Raises:
        InputError: it holds something that JSON cannot say.
    """
    if value is None or isinstance(value, str | int | bool):
        return value
    try:
        return cast("JsonValue", to_jsonable_python(value, inf_nan_mode="strings"))
    except (PydanticSerializationError, ValueError, RecursionError) as error:
        raise InputError(
            f"{what} is a {type(value).__name__} that cannot be written as JSON: {error}. "
            "Use plain values, dataclasses or pydantic models."
        ) from error


def as_object(name: str, schema: JsonObject, *, required: bool = True) -> JsonObject:
    """Return the schema of an object whose one property ``name`` has the given schema."""
    inner = {key: value for key, value in schema.items() if key != "$defs"}
    wrapped: dict[str, JsonValue] = {
        "type": "object",
        "properties": {name: inner},
        "additionalProperties": False,
    }
    if required:
        wrapped["required"] = [name]
    if "$defs" in schema:
        wrapped["$defs"] = schema["$defs"]
    return wrapped


def _problems(what: str, error: ValidationError) -> str:
    lines = [f"{what} does not fit its schema:"]
    for problem in error.errors(include_url=False, include_context=False):
        where = ".".join(str(part) for part in problem["loc"]) or "(value)"
        message = problem["msg"]
        if problem["type"] == "missing":
            message = "is required and was not given"
        elif problem["type"] == "extra_forbidden":
            message = "is not one of its fields"
        else:
            message = f"{message[:1].lower()}{message[1:]}, got {_short(problem['input'])}"
        lines.append(f"- {where}: {message}")
    return "\n".join(lines)


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


class _JsonSchemaCheck:
    """Checks values against a raw JSON schema."""

    def __init__(self, schema: JsonObject, what: str) -> None:
        from jsonschema import SchemaError, validators  # noqa: PLC0415  # heavy, and few workflows bring a raw schema

        kind: Any = validators.validator_for(schema, default=validators.Draft202012Validator)  # Any: no precise types
        try:
            kind.check_schema(schema)
        except SchemaError as error:
            raise ConfigurationError(f"{what} is declared by no valid JSON schema: {error.message}") from error
        self._validator: Any = kind(schema)

    def __call__(self, value: object, what: str) -> object:
        problems = [
            f"- {'.'.join(str(part) for part in problem.absolute_path) or '(value)'}: {problem.message}"
            for problem in self._validator.iter_errors(value)
        ]
        if problems:
            raise InputError("\n".join([f"{what} does not fit its schema:", *problems]))
        return value
