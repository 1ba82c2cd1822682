"""Makes the input schema of a tool from a function's signature, and checks arguments against it.

One compiled pydantic validator per function does the checking; nothing is built per call or per instance.
"""

import inspect
import json
import re
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, get_args, get_origin, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, PydanticSchemaGenerationError, ValidationError, create_model
from pydantic.errors import PydanticInvalidForJsonSchema, PydanticUndefinedAnnotation, PydanticUserError
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema

from bascule.errors import SchemaMissing, ToolInputInvalid
from bascule.messages import JsonObject, JsonValue
from bascule.tools._docstring import describe

__all__ = ["InputModel", "input_model_of", "validation_text"]


class _Schema(GenerateJsonSchema):
    """Leaves out the titles that pydantic makes from names: they cost tokens and say nothing."""

    def field_title_should_be_set(self, schema: Any) -> bool:  # Any: pydantic's own union of core schemas
        return False


class _Arguments(BaseModel):
    model_config = ConfigDict(extra="forbid", arbitrary_types_allowed=False, populate_by_name=True)


@dataclass(frozen=True, slots=True)
class InputModel:
    """How a function's arguments are described and checked.

    Attributes:
        schema: JSON schema with an object at its root.
        description: the function's own description.
        context_parameter: name of the parameter that receives the ``ToolContext``.
    """

    model: type[BaseModel]
    schema: JsonObject
    description: str
    context_parameter: str | None
    names: tuple[tuple[str, str], ...]
    """(field name in the model, parameter name in the function)"""

    def arguments(self, given: JsonObject, *, tool: str) -> dict[str, object]:
        """Return the checked and converted arguments by parameter name.

        Args:
            given: arguments as they came.
            tool: the tool's name, for the error text.

        Raises:
            ToolInputInvalid: they do not fit; the text lists every problem with its path.
        """
        validator = self.model.__pydantic_validator__
        try:
            checked = validator.validate_python(given)
        except ValidationError as error:
            repaired = _parse_stringified(given, error)
            if repaired is None:
                raise ToolInputInvalid(validation_text(tool, error)) from error
            try:
                checked = validator.validate_python(repaired)
            except ValidationError:
                raise ToolInputInvalid(validation_text(tool, error)) from error
        values = checked.__dict__
        return {parameter: values[name] for name, parameter in self.names}


def _parse_stringified(given: JsonObject, error: ValidationError) -> dict[str, JsonValue] | None:
    """Read JSON text that a client sent where a list, object, number or boolean belongs.

    Some clients send arrays and objects as strings. A parameter that takes a string never gets here: it was valid.
    """
    repaired = dict(given)
    changed = False
    for problem in error.errors(include_url=False, include_context=False, include_input=False):
        key = problem["loc"][0] if problem["loc"] else None
        value = given.get(key) if isinstance(key, str) else None
        if isinstance(key, str) and isinstance(value, str) and value[:1] in ("[", "{"):
            try:
                repaired[key] = json.loads(value)
            except (ValueError, RecursionError):
                return None
            changed = True
    return repaired if changed else None


def validation_text(tool: str, error: ValidationError) -> str:
    """Return every problem of some arguments, for a person or a model to mend them."""
    lines = [f"The arguments of {tool!r} do not fit its input schema:"]
    for problem in error.errors(include_url=False, include_context=False):
        where = ".".join(str(part) for part in problem["loc"]) or "(arguments)"
        message = problem["msg"]
        if problem["type"] == "missing":
            message = "is required and was not given"
        elif problem["type"] == "extra_forbidden":
            message = "is not a parameter of this tool"
        else:
            message = f"{message[:1].lower()}{message[1:]}, got {_short(problem['input'])}"
        lines.append(f"- {where}: {message}")
    return "\n".join(lines)


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def input_model_of(function: Callable[..., object], *, context_type: type) -> InputModel:
    """Describe a function's parameters.

    Args:
        function: the function that will be called.
        context_type: a parameter annotated with this class is filled in by the runtime and not described.

    Raises:
        SchemaMissing: a parameter has no annotation, or one that JSON schema cannot express.
    """
    label = getattr(function, "__qualname__", repr(function))
    description, texts = describe(function)
    hints = _hints(function, label)
    fields: dict[str, Any] = {}  # Any: create_model takes (type, FieldInfo) pairs
    names: list[tuple[str, str]] = []
    context_parameter = None
    for parameter in inspect.signature(function).parameters.values():
        hint = hints.get(parameter.name, inspect.Parameter.empty)
        if _is_context(hint, context_type):
            context_parameter = parameter.name
            continue
        _check_parameter(parameter, hint, label)
        name = _field_name(parameter.name)
        names.append((name, parameter.name))
        fields[name] = (hint, _field(parameter, hint, texts.get(parameter.name), alias=name != parameter.name))
    model = _build(label, fields)
    return InputModel(model, _schema_of(model, label), description, context_parameter, tuple(names))


def _hints(function: Callable[..., object], label: str) -> dict[str, Any]:
    target = function
    if not inspect.isroutine(function) and callable(function) and not inspect.isclass(function):
        target = type(function).__call__
    try:
        return get_type_hints(target, include_extras=True)
    except NameError as error:
        raise SchemaMissing(
            f"An annotation of {label} names {error.name!r}, which is not defined in its module. "
            "Import it at the top of the module, outside any 'if TYPE_CHECKING' block."
        ) from error


def _is_context(hint: object, context_type: type) -> bool:
    if get_origin(hint) is Annotated:
        hint = get_args(hint)[0]
    if hint is context_type or get_origin(hint) is context_type:
        return True
    return any(arg is context_type for arg in get_args(hint)) and type(None) in get_args(hint)


def _check_parameter(parameter: inspect.Parameter, hint: object, label: str) -> None:
    if parameter.kind in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD):
        raise SchemaMissing(
            f"{label} takes *{parameter.name}, which cannot be described to a model. "
            "Give every parameter a name and a type of its own."
        )
    if parameter.kind is inspect.Parameter.POSITIONAL_ONLY:
        raise SchemaMissing(
            f"The parameter {parameter.name!r} of {label} is positional-only; remove the '/' before it."
        )
    if hint is inspect.Parameter.empty:
        raise SchemaMissing(
            f"The parameter {parameter.name!r} of {label} has no type. Annotate it, for example {parameter.name}: str."
        )


def _field_name(name: str) -> str:
    """Pydantic takes no leading underscore and no name that its models use themselves."""
    return f"field_{name.strip('_')}_" if name.startswith("_") or hasattr(BaseModel, name) else name


def _field(parameter: inspect.Parameter, hint: object, text: str | None, *, alias: bool) -> FieldInfo:
    default = ... if parameter.default is inspect.Parameter.empty else parameter.default
    described = any(isinstance(extra, FieldInfo) and extra.description for extra in getattr(hint, "__metadata__", ()))
    texts = [extra for extra in getattr(hint, "__metadata__", ()) if isinstance(extra, str)]
    description = None if described else (texts[0] if texts else text)
    options: dict[str, Any] = {"description": description} if description else {}
    if alias:
        options["alias"] = parameter.name
    if isinstance(default, FieldInfo):
        return default
    return typing.cast("FieldInfo", Field(default, **options))


def _build(label: str, fields: Mapping[str, Any]) -> type[BaseModel]:
    name = re.sub(r"\W", "_", label)
    try:
        return _make_model(name, fields)
    except (PydanticSchemaGenerationError, PydanticUndefinedAnnotation) as error:
        raise _no_schema(label, fields) from error
    except PydanticUserError as error:
        raise SchemaMissing(f"The parameters of {label} cannot be described: {error.message}") from error


def _make_model(name: str, fields: Mapping[str, Any]) -> type[BaseModel]:
    make: Any = create_model  # Any: its overloads do not know fields that come in one mapping
    return typing.cast("type[BaseModel]", make(name, __base__=_Arguments, **fields))


def _no_schema(label: str, fields: Mapping[str, Any]) -> SchemaMissing:
    for name, (hint, _) in fields.items():
        try:
            _make_model("probe", {name: (hint, ...)}).model_json_schema()
        except (PydanticSchemaGenerationError, PydanticUndefinedAnnotation, PydanticInvalidForJsonSchema):
            kind = getattr(hint, "__name__", None) or str(hint)
            return SchemaMissing(
                f"The parameter {name!r} of {label} has the type {kind}, which JSON schema cannot express. "
                "Use plain types, dataclasses, TypedDicts or pydantic models; for what the runtime should hand in, "
                "annotate it with ToolContext."
            )
    return SchemaMissing(f"The parameters of {label} cannot be expressed in JSON schema.")


def _schema_of(model: type[BaseModel], label: str) -> JsonObject:
    try:
        schema = model.model_json_schema(schema_generator=_Schema)
    except PydanticInvalidForJsonSchema as error:
        raise _no_schema(label, {n: (f.annotation, f) for n, f in model.model_fields.items()}) from error
    schema.pop("title", None)
    schema.pop("description", None)
    schema.setdefault("properties", {})
    return schema
