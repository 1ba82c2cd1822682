"""The end of an endless stream."""

from hypothesis import given
from hypothesis import strategies as st

from bascule.workspace import TailBuffer


@given(st.lists(st.binary(max_size=30)), st.integers(min_value=1, max_value=40))
def test_the_last_bytes_are_kept_however_they_arrive(pieces: list[bytes], size: int) -> None:
    buffer = TailBuffer(size)
    for piece in pieces:
        buffer.write(piece)
    whole = b"".join(pieces)
    assert buffer.total == len(whole)
    assert buffer.text() == "\n".join(whole[-size:].decode("utf-8", "replace").rstrip().splitlines())


def test_the_last_lines_are_given() -> None:
    buffer = TailBuffer()
    buffer.write(b"a\nb\nc\n")
    assert buffer.text(2) == "b\nc"
