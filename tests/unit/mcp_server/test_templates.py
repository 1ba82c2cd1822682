"""URI templates, read backwards."""

from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bascule.errors import ConfigurationError
from bascule.mcp_server._templates import UriTemplate


@pytest.mark.parametrize(
    ("template", "uri", "values"),
    [
        ("a://b", "a://b", {}),
        ("a://b", "a://c", None),
        ("a://{id}", "a://x", {"id": "x"}),
        ("a://{id}", "a://x%2Fy", {"id": "x/y"}),
        ("a://{id}", "a://x/y", None),
        ("a://{id}", "a://", None),
        ("a://{id}/data.v1", "a://x/data.v1", {"id": "x"}),
        ("a://{id}/data.v1", "a://x/dataxv1", None),
        ("a://{+path}", "a://x/y", {"path": "x/y"}),
        ("a://{path*}/end", "a://x/y/end", {"path": "x/y"}),
        ("a://{a}/{b}", "a://1/2", {"a": "1", "b": "2"}),
        ("a://b{?q,n}", "a://b", {}),
        ("a://b{?q,n}", "a://b?n=2&q=x%20y&z=1", {"q": "x y", "n": "2"}),
    ],
)
def test_a_uri_gives_the_parameters_of_its_template(template: str, uri: str, values: dict[str, str] | None) -> None:
    assert UriTemplate.parse(template).match(uri) == values


@given(st.text(min_size=1))
def test_any_value_survives_the_way_through_a_uri(value: str) -> None:
    try:
        encoded = quote(value, safe="")
    except UnicodeEncodeError:
        return  # a lone surrogate has no encoding
    assert UriTemplate.parse("a://{id}").match(f"a://{encoded}") == {"id": value}


@pytest.mark.parametrize("template", ["a://{}", "a://{a,b}", "a://{;x}", "a://{?q}/x", "a://{1}", "a://{a}/{a}"])
def test_a_template_that_cannot_be_read_backwards_is_refused(template: str) -> None:
    with pytest.raises(ConfigurationError, match="template"):
        UriTemplate.parse(template)
