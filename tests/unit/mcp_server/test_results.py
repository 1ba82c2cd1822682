"""How results are mapped: pure functions."""

import json
from dataclasses import dataclass

import pytest
from inline_snapshot import snapshot

from bascule.mcp_server._results import call_result, error_result, present, prompt_messages, resource_contents
from bascule.tools import Audio, EmbeddedResource, Image, ResourceLink


@dataclass
class Point:
    x: int
    y: int


def test_a_string_is_answered_as_it_is() -> None:
    assert call_result("[1, 2]", structured=False) == snapshot(
        {"content": [{"type": "text", "text": "[1, 2]"}], "isError": False}
    )


def test_other_values_are_answered_as_json_text() -> None:
    texts = [call_result(value, structured=False)["content"] for value in (5, True, [1, "a"], {"a": None}, Point(1, 2))]
    assert [blocks[0]["text"] for blocks in texts] == snapshot(["5", "true", '[1,"a"]', '{"a":null}', '{"x":1,"y":2}'])


def test_nothing_is_answered_with_nothing() -> None:
    assert call_result(None, structured=False) == snapshot({"content": [], "isError": False})


def test_structured_content_stands_in_the_text_too() -> None:
    assert call_result(Point(1, 2), structured=True) == snapshot(
        {
            "content": [{"type": "text", "text": '{"x":1,"y":2}'}],
            "structuredContent": {"x": 1, "y": 2},
            "isError": False,
        }
    )


def test_a_result_that_its_output_schema_cannot_describe_is_an_error() -> None:
    result = call_result("text", structured=True)
    assert result["isError"]
    assert "str" in result["content"][0]["text"]


def test_content_objects_become_blocks() -> None:
    value = [
        "text",
        Image(data=b"\x00\x01"),
        Audio(data=b"\x02"),
        EmbeddedResource(uri="a://b", data="c"),
        EmbeddedResource(uri="a://d", data=b"e", media_type="x/y"),
        ResourceLink(uri="a://f", name="f", description="g", media_type="x/z"),
        ResourceLink(uri="a://h", name="h"),
        7,
    ]
    assert call_result(value, structured=False)["content"] == snapshot(
        [
            {"type": "text", "text": "text"},
            {"type": "image", "data": "AAE=", "mimeType": "image/png"},
            {"type": "audio", "data": "Ag==", "mimeType": "audio/wav"},
            {"type": "resource", "resource": {"uri": "a://b", "mimeType": "text/plain", "text": "c"}},
            {"type": "resource", "resource": {"uri": "a://d", "mimeType": "x/y", "blob": "ZQ=="}},
            {"type": "resource_link", "uri": "a://f", "name": "f", "description": "g", "mimeType": "x/z"},
            {"type": "resource_link", "uri": "a://h", "name": "h"},
            {"type": "text", "text": "7"},
        ]
    )


def test_an_error_is_a_text_that_says_so() -> None:
    assert error_result("no") == snapshot({"content": [{"type": "text", "text": "no"}], "isError": True})


def test_resources_are_text_bytes_or_json() -> None:
    assert resource_contents("a://b", "text", None) == snapshot(
        [{"uri": "a://b", "mimeType": "text/plain", "text": "text"}]
    )
    assert resource_contents("a://b", b"x", None) == snapshot(
        [{"uri": "a://b", "mimeType": "application/octet-stream", "blob": "eA=="}]
    )
    assert resource_contents("a://b", {"a": 1}, None) == snapshot(
        [{"uri": "a://b", "mimeType": "application/json", "text": '{"a":1}'}]
    )
    assert resource_contents("a://b", "text", "text/markdown")[0]["mimeType"] == "text/markdown"


def test_a_resource_may_have_several_contents() -> None:
    value = [Image(data=b"x", media_type="image/gif"), EmbeddedResource(uri="a://c", data="d")]
    assert resource_contents("a://b", value, None) == snapshot(
        [
            {"uri": "a://b", "mimeType": "image/gif", "blob": "eA=="},
            {"uri": "a://c", "mimeType": "text/plain", "text": "d"},
        ]
    )
    assert resource_contents("a://b", [], None)[0]["text"] == "[]"


def test_prompts_are_texts_content_and_messages() -> None:
    assert prompt_messages("hi") == snapshot([{"role": "user", "content": {"type": "text", "text": "hi"}}])
    value = ["a", {"role": "assistant", "content": "b"}, {"content": [Image(data=b""), "c"]}, 5]
    assert prompt_messages(value) == snapshot(
        [
            {"role": "user", "content": {"type": "text", "text": "a"}},
            {"role": "assistant", "content": {"type": "text", "text": "b"}},
            {"role": "user", "content": {"type": "image", "data": "", "mimeType": "image/png"}},
            {"role": "user", "content": {"type": "text", "text": "c"}},
            {"role": "user", "content": {"type": "text", "text": "5"}},
        ]
    )
    assert prompt_messages({"role": "user", "content": "x"}) == prompt_messages("x")
    assert prompt_messages(5)[0]["content"]["text"] == "5"


@dataclass
class Note:
    text: str


CUT, WHOLE = "caf\udce9 \ud83d", "caf\ufffd \ufffd"


@pytest.mark.parametrize("value", [{CUT: [CUT]}, Note(CUT), {"deep": [{"note": Note(CUT)}]}])
def test_a_structured_result_has_no_lone_surrogates(value: object) -> None:
    result = call_result(value, structured=True)
    assert not result["isError"]
    assert WHOLE in str(result["structuredContent"])
    assert json.loads(result["content"][0]["text"].encode()) == result["structuredContent"]


def test_a_text_has_a_sign_in_place_of_a_lone_surrogate() -> None:
    assert call_result(CUT, structured=False)["content"] == [{"type": "text", "text": WHOLE}]
    assert call_result({CUT: CUT}, structured=False)["content"][0]["text"] == f'{{"{WHOLE}":"{WHOLE}"}}'


def test_no_text_that_is_sent_has_lone_surrogates() -> None:
    sent = [
        call_result(CUT, structured=False),
        call_result([CUT, ResourceLink(uri="a://b", name=CUT)], structured=False),
        call_result({CUT: 1}, structured=False),
        error_result(CUT),
        prompt_messages([CUT, {"role": "user", "content": CUT}]),
        resource_contents("a://b", CUT, None),
        resource_contents("a://b", [EmbeddedResource(uri="a://c", data=CUT, media_type="text/plain")], None),
        present({"description": CUT}),
    ]
    for wire in sent:
        assert json.dumps(wire, ensure_ascii=False).encode()


def test_a_surrogate_pair_in_two_pieces_becomes_one_character() -> None:
    assert error_result("\ud83d\ude00")["content"][0]["text"] == "\N{GRINNING FACE}"


def test_a_result_that_contains_itself_is_no_object() -> None:
    value: list[object] = []
    value.append(value)
    assert call_result(value, structured=True)["isError"]
