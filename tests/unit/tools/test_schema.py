"""A function becomes a tool: what a model is told of it, and which arguments it takes."""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Literal
from typing import TypedDict as OldTypedDict

import pytest
from inline_snapshot import snapshot
from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from bascule.errors import ConfigurationError, NameInvalid, SchemaMissing, ToolInputInvalid
from bascule.tools import Tool, ToolContext, as_tool, check_name, safe_name, tool


class Point(BaseModel):
    x: int
    y: int = 0


@pytest.mark.requirement("F06")
def test_schema_comes_from_the_signature_and_descriptions_from_the_docstring() -> None:
    @tool
    def move(to: Point, speed: float = 1.0, mode: Literal["walk", "run"] = "walk") -> str:
        """Move somewhere.

        Args:
            to: Where to go.
            speed: How fast,
                in metres per second.
            mode: How to move.

        Returns:
            A sentence.
        """
        return f"{mode} to {to.x},{to.y} at {speed}"

    assert move.id == "move"
    assert move.description == "Move somewhere."
    assert move.input_schema == snapshot(
        {
            "$defs": {
                "Point": {
                    "properties": {"x": {"type": "integer"}, "y": {"default": 0, "type": "integer"}},
                    "required": ["x"],
                    "title": "Point",
                    "type": "object",
                }
            },
            "additionalProperties": False,
            "properties": {
                "to": {"$ref": "#/$defs/Point", "description": "Where to go."},
                "speed": {"default": 1.0, "description": "How fast, in metres per second.", "type": "number"},
                "mode": {
                    "default": "walk",
                    "description": "How to move.",
                    "enum": ["walk", "run"],
                    "type": "string",
                },
            },
            "required": ["to"],
            "type": "object",
        }
    )


def numpy_style(amount: int) -> None:
    """Count.

    Parameters
    ----------
    amount : int
        How many.
    """


def sphinx_style(amount: int) -> None:
    """Count.

    :param amount: How many.
    :returns: nothing
    """


def annotated(amount: Annotated[int, Field(description="How many.", ge=0)]) -> None:
    """Count."""


@pytest.mark.parametrize("function", [numpy_style, sphinx_style, annotated])
def test_parameter_texts_are_read_in_every_usual_style(function: Callable[..., Any]) -> None:
    made = tool(function)
    assert made.description == "Count."
    properties: Any = made.input_schema["properties"]
    assert properties["amount"]["description"] == "How many."


@pytest.mark.requirement("F08")
async def test_context_is_injected_and_not_part_of_the_schema() -> None:
    @tool
    async def who(ctx: ToolContext, greeting: str = "Hello") -> str:
        """Greet."""
        return f"{greeting} {ctx.principal.id} in {ctx.run_id}"

    assert list(who.input_schema["properties"]) == ["greeting"]  # type: ignore[arg-type]  # a mapping
    assert await who.execute({"greeting": "Hi"}, ToolContext(run_id="run-1")) == "Hi local in run-1"


def test_the_decorated_function_can_still_be_called() -> None:
    @tool
    def add(a: int, b: int) -> int:
        """Add."""
        return a + b

    assert add(1, b=2) == 3


async def test_wrong_arguments_are_refused_with_every_problem() -> None:
    @tool
    def add(a: int, b: int) -> int:
        """Add."""
        return a + b

    with pytest.raises(ToolInputInvalid) as caught:
        await add.execute({"a": "one", "c": 3})
    assert str(caught.value) == snapshot(
        """\
The arguments of 'add' do not fit its input schema:
- a: input should be a valid integer, unable to parse string as an integer, got 'one'
- b: is required and was not given
- c: is not a parameter of this tool\
"""
    )


async def test_json_sent_as_text_is_read_only_where_no_text_is_wanted() -> None:
    seen: list[object] = []

    @tool
    def take(items: list[int], options: dict[str, int], text: str, either: str | list[int]) -> None:
        """Take all kinds."""
        seen.extend([items, options, text, either])

    await take.execute({"items": "[1,2]", "options": '{"a":1}', "text": "[1,2]", "either": "[3]"})
    assert seen == [[1, 2], {"a": 1}, "[1,2]", "[3]"]


async def test_text_that_is_not_json_is_refused_and_not_guessed_at() -> None:
    @tool
    def take(items: list[int]) -> None:
        """Take a list."""

    with pytest.raises(ToolInputInvalid, match="items"):
        await take.execute({"items": "[1,"})
    with pytest.raises(ToolInputInvalid, match="items"):
        await take.execute({"items": '["x"]'})
    with pytest.raises(ToolInputInvalid, match="items"):
        await take.execute({"items": "[" * 100_000})


async def test_parameters_may_have_names_that_pydantic_uses_itself() -> None:
    @tool
    def odd(copy: int, json: str, _hidden: int = 3) -> str:
        """Take odd names."""
        return f"{copy} {json} {_hidden}"

    assert list(odd.input_schema["properties"]) == ["copy", "json", "_hidden"]  # type: ignore[arg-type]  # a mapping
    assert await odd.execute({"copy": 1, "json": "x", "_hidden": 5}) == "1 x 5"


def untyped(a: int) -> None:
    """Do."""


del untyped.__annotations__["a"]


def variadic(*values: int) -> None:
    """Do."""


def positional(a: int, /) -> None:
    """Do."""


def unknown_type(a: int) -> None:
    """Do."""


unknown_type.__annotations__["a"] = "Nowhere"


def inexpressible(a: ToolContext | Callable[[], int]) -> None:
    """Do."""


class Plain:
    """A class that pydantic knows nothing of."""


def opaque(a: Plain) -> None:
    """Do."""


@pytest.mark.requirement("F56")
@pytest.mark.parametrize(
    ("function", "text"),
    [
        (untyped, "parameter 'a' of untyped has no type. Annotate it"),
        (variadic, r"variadic takes \*values"),
        (positional, "'a' of positional is positional-only"),
        (unknown_type, "unknown_type names 'Nowhere', which is not defined"),
        (inexpressible, "parameter 'a' of inexpressible has the type"),
        (opaque, "parameter 'a' of opaque has the type Plain, which JSON schema cannot express"),
    ],
)
def test_a_parameter_that_cannot_be_described_is_refused(function: Callable[..., Any], text: str) -> None:
    with pytest.raises(SchemaMissing, match=text):
        tool(function)


class Row(TypedDict):
    name: str


@dataclass
class Size:
    width: int


@pytest.mark.parametrize("kind", [Point, Row, Size])
def test_a_return_type_that_is_an_object_makes_the_output_structured(kind: type) -> None:
    def make() -> object:
        """Make."""
        return None

    make.__annotations__["return"] = kind
    assert tool(make).output_schema is not None


class Node(BaseModel):
    value: int
    children: "list[Node]" = []


def test_a_type_that_contains_itself_can_be_taken_and_given() -> None:
    @tool
    def same(node: Node) -> Node:
        """Give it back."""
        return node

    assert same.output_schema is not None
    assert same.output_schema["type"] == "object"
    assert "Node" in str(same.output_schema["$defs"])
    assert "Node" in str(same.input_schema["$defs"])


def test_what_is_no_tool_is_refused_with_what_is() -> None:
    with pytest.raises(ConfigurationError, match=r"3 is no tool\. Give a Tool, a function with @tool above it"):
        as_tool(3)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]  # what is tested


def test_a_scalar_return_type_stays_text() -> None:
    @tool
    def count() -> int:
        """Count."""
        return 1

    assert count.output_schema is None


def test_an_output_that_is_no_object_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="output schema of the tool 'f' has no object at its root"):
        Tool("f", description="", input_schema={"type": "object"}, execute=lambda a, c: a, output=list[int])


RAW = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "properties": {"n": {"type": "integer", "minimum": 1}},
    "required": ["n"],
}
double = Tool("double", description="Doubles.", input_schema=RAW, execute=lambda args, _: args["n"] * 2)


async def test_a_raw_schema_is_kept_to_the_letter_and_checked() -> None:
    assert double.input_schema is RAW
    assert await double.execute({"n": 2}) == 4
    with pytest.raises(ToolInputInvalid, match="n: 0 is less than the minimum of 1"):
        await double.execute({"n": 0})


async def test_a_pydantic_model_as_input_schema_reaches_the_tool_as_an_instance() -> None:
    mirror = Tool("mirror", description="Mirrors.", input_schema=Point, execute=lambda point, _: point.x * -1)
    assert await mirror.execute({"x": 4}) == -4
    with pytest.raises(ToolInputInvalid, match="x: is required"):
        await mirror.execute({})


def test_a_raw_schema_that_is_no_schema_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="is not JSON schema"):
        Tool("f", description="", input_schema={"type": "object", "required": 3}, execute=lambda a, c: a)


def test_an_input_schema_without_an_object_at_its_root_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="wrap it in an object"):
        Tool("f", description="", input_schema={"type": "array"}, execute=lambda a, c: a)


@pytest.mark.requirement("F55")
@pytest.mark.parametrize("name", ["", "a b", "a.b", "a/b", "ä", "a\n"])
def test_a_name_that_clients_refuse_is_refused(name: str) -> None:
    with pytest.raises(NameInvalid, match="Use letters, digits"):
        check_name(name)


@pytest.mark.requirement("F55")
def test_an_over_long_name_is_refused_with_the_limit_and_a_shorter_one() -> None:
    assert check_name("a" * 64)
    with pytest.raises(NameInvalid, match="has 65 characters; at most 64 are accepted"):
        check_name("a" * 65)
    with pytest.raises(NameInvalid, match=r"at most 44 are accepted \(clients put 20 characters in front of it\)"):
        check_name("a" * 45, room=20)


def test_safe_names_are_always_accepted() -> None:
    for text in ("a.b/c", "  ", "é" * 100, "x" * 200):
        assert check_name(safe_name(text))


class OldRow(OldTypedDict):
    name: str


def takes_old(row: OldRow) -> None:
    """Take."""


def gives_old() -> OldRow:
    """Give."""
    return {"name": "x"}


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="pydantic takes typing.TypedDict from 3.12 on")
@pytest.mark.parametrize("function", [takes_old, gives_old])
def test_an_old_typed_dict_is_refused_with_the_way_out(function: Callable[..., Any]) -> None:
    with pytest.raises(SchemaMissing, match=r"typing_extensions\.TypedDict"):
        tool(function)
