"""Texts from the command line, read by a tool's schema."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bascule.cli._values import arguments_from, describe_type
from bascule.errors import InputError

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "count": {"type": "integer"},
        "price": {"type": "number"},
        "sure": {"type": "boolean"},
        "name": {"type": "string"},
        "note": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        "limit": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
        "items": {"type": "array", "items": {"type": "integer"}},
        "order": {"$ref": "#/$defs/Order"},
        "size": {"enum": ["s", "m"]},
        "level": {"enum": [1, 2]},
        "only": {"const": 3},
        "both": {"type": ["integer", "string"]},
        "anything": {},
        "lost": {"$ref": "#/$defs/Nowhere"},
    },
    "$defs": {"Order": {"type": "object"}},
    "additionalProperties": False,
}


@pytest.mark.parametrize(
    ("word", "value"),
    [
        ("count=3", 3),
        ("count=-3", -3),
        ("price=2.5", 2.5),
        ("price=2", 2),
        ("sure=true", True),
        ("sure=No", False),
        ("name=3", "3"),
        ("name=a=b", "a=b"),
        ("name=", ""),
        ("note=null", "null"),
        ("limit=null", None),
        ("limit=4", 4),
        ("items=[1, 2]", [1, 2]),
        ('order={"a": 1}', {"a": 1}),
        ("size=m", "m"),
        ("level=2", 2),
        ("only=3", 3),
        ("both=3", "3"),
        ("anything=[1]", [1]),
        ("anything=one", "one"),
        ("lost=1", 1),
    ],
)
def test_a_value_gets_the_type_that_its_parameter_has(word: str, value: object) -> None:
    key = word.partition("=")[0]
    found = arguments_from([word], SCHEMA, tool="t")
    assert found == {key: value}
    assert type(found[key]) is type(value)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["count=three"], ["count", "'three'", "integer"]),
        (["count=2.5"], ["'2.5'", "integer"]),
        (["sure=1"], ["boolean"]),
        (["items=1,2"], ["[integer]", "items='[1, 2]'"]),
        (["order=x"], ["object", "order='{\"a\": 1}'"]),
        (["limit=x"], ["integer|null"]),
        (["pricey=x"], ["'pricey'", "Did you mean 'price'?", "count"]),
        (["name"], ["key=value", "It takes count"]),
        (["=x"], ["key=value"]),
        (["count=1", "count=2"], ["twice"]),
        (['{"count": '], ["not JSON"]),
    ],
)
def test_a_word_that_is_no_argument_is_refused_with_what_to_write(words: list[str], told: list[str]) -> None:
    with pytest.raises(InputError) as refused:
        arguments_from(words, SCHEMA, tool="t")
    assert all(word in str(refused.value) for word in told), str(refused.value)


def test_a_tool_without_parameters_says_so() -> None:
    assert arguments_from([], {"type": "object"}, tool="now") == {}
    with pytest.raises(InputError, match="takes no arguments"):
        arguments_from(["a=1"], {"type": "object"}, tool="now")


def test_a_tool_that_takes_more_than_it_names_gets_what_is_given() -> None:
    schema = {"type": "object", "additionalProperties": True}
    assert arguments_from(["a=1", "b=x"], schema, tool="t") == {"a": 1, "b": "x"}


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.text(), JSON_VALUES, max_size=4))
def test_one_json_object_is_taken_as_it_is(arguments: dict[str, object]) -> None:
    assert arguments_from([json.dumps(arguments)], SCHEMA, tool="t") == arguments


@given(st.text())
def test_any_text_reaches_a_text_parameter_unchanged(text: str) -> None:
    assert arguments_from([f"name={text}"], SCHEMA, tool="t") == {"name": text}


def test_a_schema_that_refers_to_itself_comes_to_an_end() -> None:
    schema = {"properties": {"a": {"$ref": "#/properties/a"}}}
    assert describe_type(schema["properties"]["a"], schema) == "any"


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("limit", "integer|null"),
        ("items", "[integer]"),
        ("size", '"s"|"m"'),
        ("only", "3"),
        ("anything", "any"),
        ("order", "object"),
    ],
)
def test_types_are_shown_in_a_few_words(name: str, shown: str) -> None:
    assert describe_type(SCHEMA["properties"][name], SCHEMA) == shown
