import pytest
from hypothesis import given
from hypothesis import strategies as st

from bascule.errors import InputError
from bascule.messages import JsonValue
from bascule.storage._json import decode, encode

anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(st.characters()),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters()), inner),
)


@given(anything)
def test_what_is_stored_comes_back_equal(value: JsonValue) -> None:
    text = encode(value, "It")
    assert decode(text) == value
    text.encode()  # the database takes valid Unicode only


@pytest.mark.parametrize("value", ["\ud800", "a\0b", {"\udfff": ["\ud800x"]}, 10**400, float("inf"), "😀"])
def test_odd_values_come_back_equal(value: JsonValue) -> None:
    assert decode(encode(value, "It")) == value


def test_not_a_number_stays_what_it_is() -> None:
    value = decode(encode(float("nan"), "It"))
    assert isinstance(value, float)
    assert value != value


def nested(depth: int) -> JsonValue:
    value: JsonValue = 1
    for _ in range(depth):
        value = [value]
    return value


def test_deep_nesting_comes_back_equal_and_too_deep_nesting_is_refused() -> None:
    deep = nested(400)
    assert decode(encode(deep, "It")) == deep
    with pytest.raises(InputError, match="The result cannot be stored as JSON"):
        encode(nested(200_000), "The result")


def test_a_value_that_is_no_json_is_refused_with_its_name() -> None:
    with pytest.raises(InputError, match="The content of x cannot be stored"):
        encode({"object": object()}, "The content of x")  # type: ignore[dict-item]  # what this test is about
