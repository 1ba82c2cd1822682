from itertools import pairwise

import h11
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bascule.models._chunks import ChunkJoiner

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
PLAIN = b"HTTP/1.1 404 Not Found\r\ncontent-length: 5\r\n\r\n1\r\nA\r"
EMPTY = b"HTTP/1.1 500 Oh\r\ncontent-length: 0\r\n\r\n"
INTERIM = b"HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n"


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


def chunked(*data: bytes, end: bytes = b"0\r\n\r\n") -> bytes:
    return HEAD + b"".join(map(chunk, data)) + end


def joined(*pieces: bytes, close: bool = True) -> bytes:
    joiner = ChunkJoiner()
    out = b"".join(map(joiner.feed, pieces))
    return out + joiner.close() if close else out


def split(data: bytes, cuts: list[int]) -> list[bytes]:
    borders = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    return [data[start:end] for start, end in pairwise(borders)]


def read(data: bytes) -> tuple[list[int], bytes, bool]:
    """Return what h11 makes of an answer: statuses, body, and whether it is whole."""
    peer = h11.Connection(h11.CLIENT)
    peer.send(h11.Request(method="POST", target="/", headers=[("host", "x"), ("content-length", "0")]))
    peer.send(h11.EndOfMessage())
    peer.receive_data(data)
    peer.receive_data(b"")
    statuses: list[int] = []
    body = b""
    while True:
        try:
            event = peer.next_event()
        except h11.RemoteProtocolError:
            return statuses, body, False
        if isinstance(event, h11.Response | h11.InformationalResponse):
            statuses.append(event.status_code)
        elif isinstance(event, h11.Data):
            body += bytes(event.data)
        elif isinstance(event, h11.EndOfMessage):
            return statuses, body, True
        else:
            return statuses, body, False


def test_chunks_that_come_together_become_one() -> None:
    assert joined(chunked(b"a", b"bc", b"d" * 20)) == chunked(b"abc" + b"d" * 20)


def test_nothing_but_the_beginning_of_a_line_is_held_back() -> None:
    joiner = ChunkJoiner()

    assert joiner.feed(HEAD[:20]) == HEAD[:20]
    assert joiner.feed(HEAD[20:] + b"5\r\nab") == HEAD[20:] + chunk(b"ab")
    assert joiner.feed(b"cde\r") == chunk(b"cde")
    assert joiner.feed(b"\n1") == b""
    assert joiner.feed(b"\r\nf\r\n0\r") == chunk(b"f")
    assert joiner.feed(b"\n\r\n") == b"0\r\n\r\n"


@given(st.lists(st.binary(min_size=1, max_size=40), max_size=6), st.lists(st.integers(0, 300), max_size=6))
def test_any_split_of_the_bytes_gives_the_same_body(data: list[bytes], cuts: list[int]) -> None:
    whole = INTERIM + chunked(*data)

    assert read(joined(*split(whole, cuts))) == ([103, 200], b"".join(data), True)


@given(st.lists(st.integers(0, 400), max_size=8))
def test_answers_on_one_connection_are_told_apart(cuts: list[int]) -> None:
    whole = PLAIN + chunked(b"a", b"b") + EMPTY + chunked(b"c", b"d")

    out = joined(*split(whole, cuts))

    assert out.startswith(PLAIN + HEAD)
    rest = out[len(PLAIN) :]
    border = rest.index(EMPTY)
    assert read(rest[:border]) == ([200], b"ab", True)
    assert read(rest[border + len(EMPTY) :]) == ([200], b"cd", True)
    assert joined(whole) == PLAIN + chunked(b"ab") + EMPTY + chunked(b"cd")


@given(st.binary(max_size=60), st.lists(st.integers(0, 200), max_size=5))
def test_what_is_not_understood_is_left_to_the_library(odd: bytes, cuts: list[int]) -> None:
    for whole in (odd, HEAD + odd, chunked(b"a", b"b", end=odd)):
        assert read(joined(*split(whole, cuts))) == read(whole)


@pytest.mark.parametrize(
    "whole",
    [
        HEAD + b"1;name=value\r\na\r\n0\r\n\r\n",
        HEAD + b"1\r\na\r\n00\r\n\r\n",
        HEAD + b"fffffffffffffffffffff\r\n",
        chunked(b"a", end=b"0\r\nx-trailer: y\r\n\r\n"),
        b"HTTP/1.0 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\na\r\n1\r\nb\r\n",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: gzip, chunked\r\n\r\n1\r\na\r\n1\r\nb\r\n",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ncontent-length: 1\r\n\r\n1\r\na\r\n1\r\nb\r\n",
        b"HTTP/1.1 200 OK\r\n\r\n1\r\na\r\n1\r\nb\r\n",
        b"HTTP/1.1 200 OK\r\nx: " + b"y" * 70_000,
    ],
)
def test_the_unusual_passes_unchanged(whole: bytes) -> None:
    assert joined(whole) == whole
    assert joined(*split(whole, list(range(len(whole))))) == whole or len(whole) > 1000


@pytest.mark.parametrize("wrong", [b"X\r\n", b"1\r\nb\r\n", b"\rX", b"\n"])
@pytest.mark.parametrize("cuts", [[], [len(HEAD) + 4], [len(HEAD) + 5]])
def test_a_chunk_that_is_longer_than_it_says_stays_an_error(wrong: bytes, cuts: list[int]) -> None:
    whole = HEAD + b"1\r\na" + wrong + b"0\r\n\r\n"

    assert read(joined(*split(whole, cuts))) == read(whole) == ([200], b"a", False)


def test_a_connection_that_ends_gives_back_what_was_held() -> None:
    assert joined(HEAD + b"1\r\na\r\n5", close=False) == HEAD + chunk(b"a")
    assert joined(HEAD + b"1\r\na\r\n5") == HEAD + chunk(b"a") + b"5"
