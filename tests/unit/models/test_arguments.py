from collections.abc import Mapping
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bascule.messages import JsonValue
from bascule.models._arguments import fill_arguments, neutral_value

STRING: JsonValue = {"type": "string"}
INTEGER: JsonValue = {"type": "integer"}


def filled(
    text: str, schema: JsonValue, name: str = "x", definitions: Mapping[str, JsonValue] | None = None
) -> JsonValue:
    """Return what the text gives for one required property, ``missing`` when it gives nothing."""
    root: Mapping[str, JsonValue] = {"type": "object", "properties": {name: schema}, "required": [name]}
    if definitions is not None:
        root = {**root, "$defs": definitions}
    found = fill_arguments(root, text)
    return "missing" if found.missing else found.arguments[name]


@pytest.mark.parametrize(
    ("text", "schema", "value"),
    [
        ("it is 3", INTEGER, 3),
        ("it is 3.5", INTEGER, "missing"),
        ("it is -3.5", {"type": "number"}, -3.5),
        ("x = 4 not 5", INTEGER, 4),
        ("x = 4.5", INTEGER, "missing"),
        ("it weighs 5kg", INTEGER, 5),
        ("version v2", INTEGER, "missing"),
        ("on 2026-01-02 at 10:30", INTEGER, "missing"),
        ("on 2026-01-02", {"type": "string", "format": "date"}, "2026-01-02"),
        ("at 10:30", {"type": "string", "format": "time"}, "10:30"),
        ("at 2026-01-02T10:30Z", {"type": "string", "format": "date-time"}, "2026-01-02T10:30Z"),
        ("see https://a.test/b?c=1.", {"type": "string", "format": "uri"}, "https://a.test/b?c=1"),
        ("nothing here", {"type": "string", "format": "email"}, "missing"),
        ("maybe true", {"type": "boolean"}, True),
        ("that is false", {"type": "boolean"}, False),
        ("x: on", {"type": "boolean"}, True),
        ("without x", {"type": "boolean"}, False),
        ("hello", {"type": "boolean"}, "missing"),
        ("the dark blue one", {"enum": ["blue", "dark_blue"]}, "dark_blue"),
        ("green", {"enum": ["blue"]}, "missing"),
        ("anything", {"const": 7}, 7),
        ("anything", {"type": "null"}, None),
        ("colours blue and red", {"type": "array", "items": {"enum": ["red", "green", "blue"]}}, ["red", "blue"]),
        ("buy: milk, bread and eggs", {"type": "array", "items": STRING}, ["milk", "bread", "eggs"]),
        ("nothing", {"type": "array", "items": STRING}, "missing"),
        ("nothing", {"type": "array", "items": {"type": "object"}}, "missing"),
        ("1 and 2.5", {"type": "array", "items": INTEGER}, [1]),
        ("x='a b'", STRING, "a b"),
        ("say \u201chello there\u201d", STRING, "hello there"),
        ("it's Ada's book", STRING, "Ada's"),
        ("3", {"type": ["integer", "null"]}, 3),
        ("3", {"anyOf": [{"type": "null"}, INTEGER]}, 3),
        ("...", STRING, "missing"),
    ],
)
def test_a_value_is_taken_from_the_text_by_its_schema(text: str, schema: JsonValue, value: JsonValue) -> None:
    assert filled(text, schema) == value


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("message", "tell them we are late", "tell them we are late"),
        ("text", "count the words: to be or not", "to be or not"),
        ("url", "open https://a.test now", "https://a.test"),
        ("recipient", "write to ada@a.test", "ada@a.test"),
        ("query", "look for Ada in the docs", "Ada in the docs"),
        ("city", "look in Paris", "Paris"),
    ],
)
def test_the_name_of_a_text_says_which_part_is_meant(name: str, text: str, value: str) -> None:
    assert filled(text, STRING, name) == value


def test_references_are_followed() -> None:
    definitions: Mapping[str, JsonValue] = {
        "Point": {"type": "object", "properties": {"n": INTEGER}, "required": ["n"]}
    }

    assert filled("at 4", {"$ref": "#/$defs/Point"}, definitions=definitions) == {"n": 4}
    assert filled("'a'", {"$ref": "#/$defs/Missing"}) == "a"
    assert filled("'a'", {"$ref": "#/properties/x"}) == "a"


def test_a_missing_value_is_named_with_its_path() -> None:
    point: JsonValue = {"type": "object", "properties": {"n": INTEGER}, "required": ["n"]}
    root: Mapping[str, JsonValue] = {"properties": {"at": point, "far": INTEGER}, "required": ["at", "far"]}

    found = fill_arguments(root, "nothing")

    assert found.missing == ("at.n", "far")


def test_optional_values_come_after_the_required_ones_and_keep_the_order_of_the_schema() -> None:
    root: Mapping[str, JsonValue] = {
        "properties": {
            "limit": INTEGER,
            "a": INTEGER,
            "inner": {"properties": {"s": STRING}},
            "free": {"type": "object"},
        },
        "required": ["a"],
    }

    assert fill_arguments(root, "1 2").arguments == {"limit": 2, "a": 1}


@pytest.mark.parametrize(
    ("text", "arguments"),
    [
        ('use {"a": 1}', {"a": 1}),
        ('use {"b": 1}', {"a": 1}),
        ("use {a: 9}", {"a": 9}),
        ("use {broken} 5", {"a": 5}),
        ("use }{ 5", {"a": 5}),
        ("use {} 5", {"a": 5}),
    ],
)
def test_json_in_the_text_is_taken_when_it_fits(text: str, arguments: dict[str, JsonValue]) -> None:
    root: Mapping[str, JsonValue] = {"properties": {"a": INTEGER}, "required": ["a"]}

    assert fill_arguments(root, text).arguments == arguments


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"type": "integer", "minimum": 3}, 3),
        ({"type": "number"}, 0),
        ({"type": "boolean"}, False),
        ({"type": "null"}, None),
        ({"type": "array", "items": STRING, "minItems": 2}, ["", ""]),
        ({"type": "array"}, []),
        ({"enum": ["a", "b"]}, "a"),
        ({"const": 1}, 1),
        ({"type": "string", "default": "d"}, "d"),
        ({"type": "object", "properties": {"a": STRING, "b": STRING}, "required": ["a"]}, {"a": ""}),
        (True, ""),
    ],
)
def test_the_plainest_value_of_a_schema(schema: JsonValue, value: JsonValue) -> None:
    assert neutral_value(schema, {}) == value


def test_a_schema_that_holds_itself_ends() -> None:
    node: Mapping[str, JsonValue] = {"type": "object", "properties": {"next": {"$ref": "#"}}, "required": ["next"]}
    root: Mapping[str, JsonValue] = {"$defs": {"Node": node}, "$ref": "#/$defs/Node"}
    looped: Mapping[str, JsonValue] = {
        "$defs": {"Node": {"type": "object", "properties": {"next": {"$ref": "#/$defs/Node"}}, "required": ["next"]}},
        "properties": {"x": {"$ref": "#/$defs/Node"}},
        "required": ["x"],
    }

    assert neutral_value(root, root) is not None
    assert fill_arguments(looped, "x").missing


KEYS = st.sampled_from(["type", "properties", "required", "enum", "anyOf", "$ref", "items", "a"])
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=12,
)
SCHEMAS = st.dictionaries(KEYS, JSON, max_size=4)


@given(SCHEMAS, st.text(max_size=30))
def test_no_schema_and_no_text_breaks_it(schema: dict[str, object], text: str) -> None:
    root = cast("Mapping[str, JsonValue]", schema)

    fill_arguments(root, text)
    neutral_value(root, root)
