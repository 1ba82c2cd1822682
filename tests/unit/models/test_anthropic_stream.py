import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bascule.errors import ModelError
from bascule.models import Finish, ModelPart, Raw, ReasoningDelta, Source, TextDelta, ToolCall, ToolCallDelta, Usage
from bascule.models._anthropic_stream import MessagesStream
from bascule.models._endpoint import Endpoint

ENDPOINT = Endpoint(provider="anthropic", model_id="m", url="http://x/v1")

Event = dict[str, object]


def begin(**usage: int) -> Event:
    return {"type": "message_start", "message": {"id": "msg_1", "model": "m-1", "content": [], "usage": usage}}


def block(index: int, **content: object) -> Event:
    return {"type": "content_block_start", "index": index, "content_block": content}


def delta(index: int, kind: str, **content: object) -> Event:
    return {"type": "content_block_delta", "index": index, "delta": {"type": kind, **content}}


def close(index: int) -> Event:
    return {"type": "content_block_stop", "index": index}


def tail(reason: str | None = "end_turn", usage: dict[str, int] | None = None, **more: object) -> Event:
    return {"type": "message_delta", "delta": {"stop_reason": reason, **more}, "usage": usage}


STOP: Event = {"type": "message_stop"}


def said(text: str, index: int = 0) -> list[Event]:
    return [block(index, type="text", text=""), delta(index, "text_delta", text=text), close(index)]


def sse(*events: Event, end: str = "\n\n") -> bytes:
    return "".join(f"event: {event['type']}\ndata: {json.dumps(event)}{end}" for event in events).encode()


def read(*pieces: bytes, include_raw: bool = False) -> tuple[list[ModelPart], ModelError | None]:
    stream = MessagesStream(ENDPOINT, include_raw=include_raw)
    parts: list[ModelPart] = []
    for piece in pieces:
        parts += stream.feed(piece)
        if stream.error is not None:
            return parts, stream.error
    parts += stream.end()
    return parts, stream.error


def whole(*events: Event) -> list[ModelPart]:
    parts, error = read(sse(*events, tail(), STOP))
    assert error is None
    return parts


RICH = (
    sse(begin(input_tokens=5, cache_creation_input_tokens=20, cache_read_input_tokens=100, output_tokens=1))
    + b'event: ping\r\ndata: {"type": "ping"}\r\n\r\n'
    + sse(
        block(0, type="thinking", thinking="", signature=""),
        delta(0, "thinking_delta", thinking="h\u00e4"),
        delta(0, "signature_delta", signature="sig"),
        delta(0, "signature_delta", signature="-end"),
        close(0),
        block(1, type="redacted_thinking", data="hidden"),
        close(1),
        *said("\u4f60\u597d", 2),
        end="\r\r",
    )
    + sse(
        block(3, type="tool_use", id="t1", name="add", input={}),
        block(4, type="tool_use", id="t2", name="sub", input={"b": 2}),
        delta(3, "input_json_delta", partial_json=""),
        delta(3, "input_json_delta", partial_json='{"a"'),
        delta(3, "input_json_delta", partial_json=":1}"),
        close(3),
        close(4),
        tail("tool_use", {"output_tokens": 9}),
        STOP,
    )
)


def test_everything_a_stream_may_hold_becomes_parts() -> None:
    assert read(RICH) == (
        [
            ReasoningDelta("h\u00e4"),
            ReasoningDelta("", {"anthropic": {"signature": "sig-end"}}),
            ReasoningDelta("", {"anthropic": {"redactedData": "hidden"}}),
            TextDelta("\u4f60\u597d"),
            ToolCallDelta("t1", "add", ""),
            ToolCallDelta("t2", "sub", ""),
            ToolCallDelta("t1", "add", '{"a"'),
            ToolCallDelta("t1", "add", ":1}"),
            ToolCall("t1", "add", '{"a":1}'),
            ToolCallDelta("t2", "sub", '{"b":2}'),
            ToolCall("t2", "sub", '{"b":2}'),
            Finish(
                "tool-calls",
                Usage(input_tokens=125, output_tokens=9, cached_input_tokens=100),
                {"anthropic": {"cacheCreationInputTokens": 20}},
                "msg_1",
                "m-1",
            ),
        ],
        None,
    )


@given(st.lists(st.integers(0, len(RICH)), max_size=30))
def test_any_split_of_the_bytes_gives_the_same_parts(cuts: list[int]) -> None:
    places = [0, *sorted(cuts), len(RICH)]

    assert read(*(RICH[start:end] for start, end in pairwise(places))) == read(RICH)


def test_single_bytes_give_the_same_parts() -> None:
    assert read(*(RICH[place : place + 1] for place in range(len(RICH)))) == read(RICH)


@given(st.lists(st.tuples(st.integers(0, 3), st.text(max_size=6)), max_size=40))
def test_interleaved_blocks_are_told_apart(pieces: list[tuple[int, str]]) -> None:
    begun = sorted({index for index, _ in pieces})
    events = [block(index, type="tool_use", id=f"t{index}", name=f"tool{index}", input={}) for index in begun]
    events += [delta(index, "input_json_delta", partial_json=text) for index, text in pieces]

    parts = whole(*events, *map(close, begun))

    texts = {index: "".join(text for at, text in pieces if at == index).strip() or "{}" for index in begun}
    calls = [part for part in parts if isinstance(part, ToolCall)]
    assert calls == [ToolCall(f"t{index}", f"tool{index}", texts[index]) for index in begun]


def test_a_call_without_arguments_is_an_empty_object() -> None:
    assert whole(block(0, type="tool_use", id="t1", name="now", input={}), close(0))[:2] == [
        ToolCallDelta("t1", "now", ""),
        ToolCall("t1", "now", "{}"),
    ]


def test_a_call_that_is_never_closed_is_whole_when_the_message_is() -> None:
    parts = whole(block(0, type="tool_use", id="t1", name="now", input={}))

    assert parts[-2:] == [ToolCall("t1", "now", "{}"), Finish("tool-calls")]


@pytest.mark.parametrize(
    ("reason", "told"),
    [
        ("end_turn", "stop"),
        ("stop_sequence", "stop"),
        ("max_tokens", "length"),
        ("model_context_window_exceeded", "length"),
        ("tool_use", "tool-calls"),
        ("refusal", "content-filter"),
        ("pause_turn", "other"),
        ("something_new", "other"),
    ],
)
def test_stop_reasons_are_mapped(reason: str, told: str) -> None:
    assert read(sse(*said("x"), tail(reason), STOP))[0] == [TextDelta("x"), Finish(told)]  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]  # a parameter


def test_an_end_without_a_reason_is_unknown() -> None:
    assert read(sse(*said("x"), STOP)) == ([TextDelta("x"), Finish("unknown")], None)


def test_what_is_told_about_the_end_is_kept() -> None:
    details = {"type": "refusal", "category": "c"}

    parts, _ = read(sse(*said("x"), tail("stop_sequence", stop_sequence="END", stop_details=details), STOP))

    assert parts[-1] == Finish("stop", provider_metadata={"anthropic": {"stopSequence": "END", "stopDetails": details}})


def test_later_counts_replace_earlier_ones_and_gaps_keep_them() -> None:
    usage = {"input_tokens": 7, "output_tokens": 30, "output_tokens_details": {"thinking_tokens": 12}}

    parts, _ = read(
        sse(begin(input_tokens=5, output_tokens=1, cache_read_input_tokens=3))
        + sse({**tail(), "usage": {**usage, "cache_read_input_tokens": None}}, STOP)
    )

    [finish] = parts
    assert isinstance(finish, Finish)
    assert finish.usage == Usage(input_tokens=10, output_tokens=30, reasoning_tokens=12, cached_input_tokens=3)


def test_web_pages_are_told_once() -> None:
    page = {"type": "web_search_result_location", "url": "http://a", "title": "A"}
    parts = whole(
        block(0, type="server_tool_use", id="s1", name="web_search", input={}),
        delta(0, "input_json_delta", partial_json="{}"),
        close(0),
        block(1, type="web_search_tool_result", content=[{"type": "web_search_result", "url": "http://a"}]),
        block(2, type="text", text="Well", citations=[page]),
        delta(2, "citations_delta", citation={**page, "url": "http://b"}),
        delta(2, "citations_delta", citation={"type": "char_location"}),
    )

    assert parts == [
        Source("source-1", "http://a"),
        TextDelta("Well"),
        Source("source-2", "http://b", "A"),
        Finish("stop"),
    ]


def test_thinking_without_a_signature_is_only_told() -> None:
    assert whole(block(0, type="thinking", thinking="hm"), close(0)) == [ReasoningDelta("hm"), Finish("stop")]


@pytest.mark.parametrize(
    "event",
    [
        {"type": "ping"},
        {"type": "content_block_future", "index": 0},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "hologram"}},
        {"type": "content_block_start", "index": 0},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "hologram_delta"}},
        {"type": "content_block_delta", "index": 9, "delta": {"type": "input_json_delta", "partial_json": "{"}},
        {"type": "content_block_delta", "index": 9, "delta": {"type": "signature_delta", "signature": "s"}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": None}},
        {"type": "content_block_delta", "index": 0},
        {"type": "content_block_stop"},
        {"type": "message_start"},
        {"type": "message_delta", "delta": None},
        {"type": ["odd"]},
    ],
)
def test_events_of_an_unknown_shape_are_skipped(event: Event) -> None:
    assert read(sse(event, *said("x", 1), tail(), STOP)) == ([TextDelta("x"), Finish("stop")], None)


def test_nothing_counts_after_the_end() -> None:
    assert read(sse(*said("x"), tail(), STOP, *said("y"))) == ([TextDelta("x"), Finish("stop")], None)


@pytest.mark.requirement("A22")
def test_raw_events_are_sent_when_they_are_wanted() -> None:
    event = delta(0, "text_delta", text="x")

    parts, _ = read(sse(event, tail(), STOP), include_raw=True)

    assert parts[:2] == [Raw(event), TextDelta("x")]  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]  # JSON by construction


@pytest.mark.parametrize(
    ("kind", "told", "retryable"),
    [
        ("overloaded_error", "server", True),
        ("api_error", "server", True),
        ("rate_limit_error", "rate_limit", True),
        ("timeout_error", "timeout", True),
        ("invalid_request_error", "bad_request", False),
        ("authentication_error", "auth", False),
        ("permission_error", "auth", False),
        ("not_found_error", "not_found", False),
        ("request_too_large", "bad_request", False),
        ("billing_error", "other", False),
    ],
)
@pytest.mark.parametrize("split", [False, True])
def test_an_error_in_the_stream_comes_after_what_was_said(kind: str, told: str, retryable: bool, split: bool) -> None:
    failed: Event = {"type": "error", "error": {"type": kind, "message": "why"}}
    pieces = [sse(*said("x")), sse(failed), sse(*said("y"))]

    parts, failure = read(*pieces) if split else read(b"".join(pieces))

    assert parts == [TextDelta("x")]
    assert failure is not None
    assert (failure.kind, failure.retryable) == (told, retryable)
    assert "why" in str(failure)


def test_an_answer_that_just_stops_may_be_incomplete() -> None:
    parts, failure = read(sse(*said("x")))

    assert parts == [TextDelta("x")]
    assert failure is not None
    assert failure.kind == "protocol"
    assert "incomplete" in str(failure)


def test_a_broken_event_is_an_error_and_what_came_before_is_kept() -> None:
    parts, failure = read(sse(*said("x")) + b'data: {"type": "content_\n\n' + sse(*said("y")))

    assert parts == [TextDelta("x")]
    assert failure is not None
    assert failure.kind == "protocol"
    assert "not valid JSON" in str(failure)


def test_an_answer_that_was_not_streamed_is_read() -> None:
    stream = MessagesStream(ENDPOINT)
    content = [
        {"type": "thinking", "thinking": "hm", "signature": "s"},
        {"type": "text", "text": "ok"},
        {"type": "tool_use", "id": "t1", "name": "add", "input": {"a": 1}},
    ]
    parts = stream.feed_event(
        {
            "type": "message",
            "id": "msg_1",
            "model": "m-1",
            "content": content,  # type: ignore[dict-item]  # pyright: ignore[reportArgumentType]  # JSON by construction
            "stop_reason": "tool_use",
            "usage": {"input_tokens": 1, "output_tokens": 2},
        }
    )

    assert [*parts, *stream.end()] == [
        ReasoningDelta("hm"),
        ReasoningDelta("", {"anthropic": {"signature": "s"}}),
        TextDelta("ok"),
        ToolCallDelta("t1", "add", ""),
        ToolCallDelta("t1", "add", '{"a":1}'),
        ToolCall("t1", "add", '{"a":1}'),
        Finish("tool-calls", Usage(input_tokens=1, output_tokens=2), None, "msg_1", "m-1"),
    ]


def test_a_whole_answer_that_is_no_object_is_incomplete() -> None:
    stream = MessagesStream(ENDPOINT)

    assert stream.feed_event([1]) == []
    assert stream.end() == []
    assert stream.error is not None
