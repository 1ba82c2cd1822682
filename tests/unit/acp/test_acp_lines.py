"""Bytes to lines to messages."""

import json

from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot

from bascule.acp._lines import LineSplitter, OversizedLine
from bascule.acp._rpc import Diagnostics, encode, own_id, parse_message


def split(data: bytes, cuts: list[int], limit: int) -> list[bytes | OversizedLine]:
    splitter = LineSplitter(limit)
    lines: list[bytes | OversizedLine] = []
    start = 0
    for cut in sorted({min(cut, len(data)) for cut in cuts} | {len(data)}):
        lines += splitter.feed(data[start:cut])
        start = cut
    return lines


@given(
    st.lists(st.binary(max_size=40).map(lambda line: line.replace(b"\n", b"")), max_size=20),
    st.lists(st.integers(min_value=0, max_value=800)),
    st.integers(min_value=1, max_value=30),
)
def test_any_split_of_the_bytes_gives_the_same_lines(lines: list[bytes], cuts: list[int], limit: int) -> None:
    found = split(b"".join(line + b"\n" for line in lines), cuts, limit)
    shown = [f"too long: {line.head[:limit]!r}" if isinstance(line, OversizedLine) else line for line in found]
    assert shown == [f"too long: {line[:limit]!r}" if len(line) > limit else line for line in lines if line]


def test_a_line_without_its_end_waits() -> None:
    splitter = LineSplitter(100)
    assert splitter.feed(b"abc") == []
    assert splitter.feed(b"def\n\n\ng") == [b"abcdef"]


def test_an_endless_line_is_reported_at_once_and_not_collected() -> None:
    splitter = LineSplitter(100)
    assert splitter.feed(b"x" * 60) == []
    assert splitter.feed(b"x" * 60) == [OversizedLine(120, b"x" * 120)]
    for _ in range(1000):
        assert splitter.feed(b"x" * 60) == []
    assert splitter.feed(b"x\nafter\n") == [b"after"]


def test_only_objects_are_messages() -> None:
    lines = [b"123", b"[1,2]", b"null", b'"text"', b"Loaded credentials.", b"{", b"\xff\xfe", b"{nope}"]
    assert [parse_message(line) for line in lines] == [None] * len(lines)
    assert parse_message(b'{"id": 1}') == {"id": 1}


def test_bytes_that_are_no_utf8_and_half_surrogates_are_replaced() -> None:
    assert parse_message(b'{"a": "x\xffy"}') == {"a": "x\ufffdy"}
    assert parse_message(b'{"a": "x\\ud83dy"}') == {"a": "x?y"}
    assert parse_message(b'{"a": "\\ud83d\\ude00"}') == {"a": "\U0001f600"}


def test_deep_nesting_is_no_message_and_no_crash() -> None:
    assert parse_message(b'{"a":' * 100_000) is None
    assert parse_message(b'{"a":' * 100_000 + b"1" + b"}" * 100_000) is None


def test_ids_are_matched_loosely() -> None:
    assert [own_id(value) for value in (7, "7", 7.0, "x", None, float("inf"), [7])] == [7, 7, 7, None, None, None, None]


@given(st.text())
def test_every_text_survives_the_way_to_the_wire_and_back(text: str) -> None:
    line = encode({"method": "x", "params": {"text": text}})
    assert line.count(b"\n") == 1
    assert json.loads(line) == {"jsonrpc": "2.0", "method": "x", "params": {"text": text}}


def test_half_a_surrogate_pair_in_a_prompt_can_be_sent() -> None:
    assert json.loads(encode({"text": "a\ud83d"})) == {"jsonrpc": "2.0", "text": "a?"}


def test_diagnostics_keep_a_bounded_sample() -> None:
    diagnostics = Diagnostics()
    for number in range(300):
        diagnostics.ignore(b"%d" % number + b"x" * 1000)
        diagnostics.unknown(f"method/{number}")
    assert (diagnostics.ignored_lines, len(diagnostics.samples), len(diagnostics.samples[0])) == snapshot(
        (300, 20, 200)
    )
    assert len(diagnostics.unknown_methods) == 101
    assert sum(diagnostics.unknown_methods.values()) == 300
