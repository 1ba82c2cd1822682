import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bascule.errors import ModelError
from bascule.models import Finish, ModelPart, Raw, ReasoningDelta, Source, TextDelta, ToolCall, ToolCallDelta, Usage
from bascule.models._endpoint import Endpoint
from bascule.models._openai_chat_stream import ChatStream
from bascule.models._sse import MAX_LINE_BYTES, SseReader

ENDPOINT = Endpoint(provider="openai", model_id="m", url="http://x/v1")


def chunk(delta: dict[str, object] | None = None, finish: str | None = None, **more: object) -> dict[str, object]:
    return {"choices": [{"index": 0, "delta": delta or {}, "finish_reason": finish}], **more}


def call(
    index: int | None, arguments: object = None, call_id: str | None = None, name: str | None = None
) -> dict[str, object]:
    delta: dict[str, object] = {"function": {"name": name, "arguments": arguments}}
    if index is not None:
        delta["index"] = index
    if call_id is not None:
        delta["id"] = call_id
    return delta


def calls(*deltas: dict[str, object], finish: str | None = None) -> dict[str, object]:
    return chunk({"tool_calls": list(deltas)}, finish)


def sse(*events: object, end: str = "\n\n") -> bytes:
    return "".join(f"data: {json.dumps(event)}{end}" for event in events).encode()


def read(*pieces: bytes, include_raw: bool = False) -> tuple[list[ModelPart], ModelError | None]:
    stream = ChatStream(ENDPOINT, include_raw=include_raw)
    parts: list[ModelPart] = []
    for piece in pieces:
        parts += stream.feed(piece)
        if stream.error is not None:
            return parts, stream.error
    parts += stream.end()
    return parts, stream.error


def whole(*events: object) -> list[ModelPart]:
    parts, error = read(sse(*events), b"data: [DONE]\n\n")
    assert error is None
    return parts


def made(parts: list[ModelPart]) -> list[tuple[str, str]]:
    return [(part.name, part.arguments) for part in parts if isinstance(part, ToolCall)]


RICH = (
    sse(chunk({"role": "assistant", "content": ""}, id="c1", model="m-1"), end="\r\n\r\n")
    + b": keep-alive\n\nevent: ping\ndata: pong\n\nid: 7\nretry: 10\n"
    + sse(chunk({"reasoning_content": "h\u00e4"}), chunk({"content": "\u4f60\u597d"}), end="\r\r")
    + sse(calls(call(0, "", "t1", "add"), call(1, "", "t2", "sub")))
    + sse(calls(call(1, '{"b"')), calls(call(0, '{"a"')), calls(call(1, ":2}")), calls(call(0, ":1}")))
    + b'data: {"choices":[{"index":0,\ndata: "delta":{},"finish_reason":"tool_calls"}]}\n\n'
    + sse({"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 4}})
    + b"data: [DONE]\n\n"
)


def test_everything_a_stream_may_hold_becomes_parts() -> None:
    assert read(RICH) == (
        [
            ReasoningDelta("h\u00e4"),
            TextDelta("\u4f60\u597d"),
            ToolCallDelta("t1", "add", ""),
            ToolCallDelta("t2", "sub", ""),
            ToolCallDelta("t2", "sub", '{"b"'),
            ToolCallDelta("t1", "add", '{"a"'),
            ToolCallDelta("t2", "sub", ":2}"),
            ToolCallDelta("t1", "add", ":1}"),
            ToolCall("t1", "add", '{"a":1}'),
            ToolCall("t2", "sub", '{"b":2}'),
            Finish("tool-calls", Usage(input_tokens=3, output_tokens=4), response_id="c1", response_model="m-1"),
        ],
        None,
    )


@given(st.lists(st.integers(0, len(RICH)), max_size=30))
def test_any_split_of_the_bytes_gives_the_same_parts(cuts: list[int]) -> None:
    places = [0, *sorted(cuts), len(RICH)]

    assert read(*(RICH[start:end] for start, end in pairwise(places))) == read(RICH)


def test_single_bytes_give_the_same_parts() -> None:
    assert read(*(RICH[place : place + 1] for place in range(len(RICH)))) == read(RICH)


@given(st.lists(st.tuples(st.integers(0, 3), st.text(max_size=6)), max_size=40), st.data())
def test_interleaved_calls_are_put_together_by_their_index(pieces: list[tuple[int, str]], data: st.DataObject) -> None:
    begun = sorted({index for index, _ in pieces})
    events = [calls(call(index, "", f"t{index}", f"tool{index}")) for index in begun]
    events += [calls(call(index, text)) for index, text in pieces]
    body = sse(*events, chunk(finish="tool_calls"))
    cut = data.draw(st.integers(0, len(body)))

    parts, error = read(body[:cut], body[cut:])

    texts = {index: "".join(text for at, text in pieces if at == index).strip() or "{}" for index in begun}
    assert error is None
    assert made(parts) == [(f"tool{index}", texts[index]) for index in begun]
    for index in begun:
        deltas = [part.arguments_text for part in parts if isinstance(part, ToolCallDelta) and part.id == f"t{index}"]
        assert "".join(deltas).strip() == texts[index].replace("{}", "") or "".join(deltas).strip() == texts[index]


def test_whole_calls_without_index_or_id_are_told_apart() -> None:
    parts = whole(
        calls(call(None, {"a": 1}, name="add")), calls(call(None, '{"b":2}', name="sub")), chunk(finish="stop")
    )

    assert made(parts) == [("add", '{"a":1}'), ("sub", '{"b":2}')]
    ids = [part.id for part in parts if isinstance(part, ToolCall)]
    assert len(set(ids)) == 2
    assert all(identity.startswith("call_") for identity in ids)


def test_pieces_without_index_go_on_with_the_last_call_or_the_one_of_their_id() -> None:
    parts = whole(
        calls(call(None, '{"a"', "t1", "add")),
        calls(call(None, '{"b"', "t2", "sub")),
        calls(call(None, ":1}", "t1")),
        calls(call(None, ":2}")),
        chunk(finish="tool_calls"),
    )

    assert made(parts) == [("add", '{"a":1}'), ("sub", '{"b":2}')]


def test_whole_calls_that_share_an_index_are_told_apart_by_id() -> None:
    parts = whole(calls(call(0, "{}", "t1", "add"), call(0, "{}", "t2", "sub")), chunk(finish="tool_calls"))

    assert made(parts) == [("add", "{}"), ("sub", "{}")]


def test_id_and_name_may_be_repeated_in_every_piece() -> None:
    parts = whole(calls(call(0, '{"a"', "t1", "add")), calls(call(0, ":1}", "t1", "add")), chunk(finish="tool_calls"))

    assert made(parts) == [("add", '{"a":1}')]


def test_arguments_that_come_before_the_name_are_kept() -> None:
    parts = whole(calls(call(0, '{"a"', "t1")), calls(call(0, ":1}", None, "add")), chunk(finish="tool_calls"))

    assert parts[0] == ToolCallDelta("t1", "add", '{"a":1}')
    assert made(parts) == [("add", '{"a":1}')]


def test_calls_are_whole_when_the_stream_is_done_without_a_reason() -> None:
    parts = whole(calls(call(0, "{}", "t1", "add")))

    assert parts[-2:] == [ToolCall("t1", "add", "{}"), Finish("tool-calls")]


@pytest.mark.parametrize("odd", [None, "x", {"function": "x"}, {"index": 0, "function": None}])
def test_odd_tool_calls_do_not_end_the_stream(odd: object) -> None:
    assert isinstance(whole(chunk({"content": "x", "tool_calls": [odd]}), chunk(finish="stop"))[-1], Finish)


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ("stop", "stop"),
        ("length", "length"),
        ("content_filter", "content-filter"),
        ("tool_calls", "tool-calls"),
        ("function_call", "tool-calls"),
        ("error", "error"),
        ("something_new", "other"),
    ],
)
def test_finish_reasons_are_mapped(said: str, reason: str) -> None:
    assert whole(chunk({"content": "x"}), chunk(finish=said)) == [TextDelta("x"), Finish(reason)]  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]  # a parameter


def test_done_without_a_reason_is_unknown() -> None:
    assert whole(chunk({"content": "x"})) == [TextDelta("x"), Finish("unknown")]


def test_reasoning_has_several_spellings() -> None:
    typed = [{"type": "thinking", "thinking": [{"type": "text", "text": "b"}]}, {"type": "text", "text": "c"}]

    assert whole(chunk({"reasoning": "a"}), chunk({"content": typed}))[:3] == [
        ReasoningDelta("a"),
        ReasoningDelta("b"),
        TextDelta("c"),
    ]


def test_the_last_usage_counts_wherever_it_stands() -> None:
    first = {"prompt_tokens": 1, "completion_tokens": 1}
    last = {"prompt_tokens": 5, "completion_tokens": 6, "prompt_cache_hit_tokens": 2}

    assert whole(chunk({"content": "x"}, usage=first), chunk(finish="stop", usage=last))[-1] == Finish(
        "stop", Usage(input_tokens=5, output_tokens=6, cached_input_tokens=2)
    )
    assert whole(chunk(finish="stop", x_groq={"usage": first}))[-1] == Finish(
        "stop", Usage(input_tokens=1, output_tokens=1)
    )


def test_refusals_and_sources_are_told() -> None:
    citation = {"type": "url_citation", "url_citation": {"url": "http://a", "title": "A"}}
    parts = whole(
        chunk({"refusal": "No."}), chunk({"annotations": [citation, {}]}), chunk(finish="stop", service_tier="t")
    )

    assert parts[:2] == [TextDelta("No."), Source("source-1", "http://a", "A")]
    assert parts[2] == Finish("stop", provider_metadata={"openai": {"refusal": True, "service_tier": "t"}})


@pytest.mark.requirement("A22")
def test_raw_events_are_sent_when_they_are_wanted() -> None:
    event = chunk({"content": "x"}, "stop")

    parts, _ = read(sse(event), include_raw=True)

    assert parts[0] == Raw(event)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]  # JSON by construction
    assert parts[1] == TextDelta("x")


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ({"message": "m", "code": 429}, "rate_limit"),
        ({"message": "m", "code": "context_length_exceeded"}, "bad_request"),
        ({"message": "m", "type": "server_error"}, "server"),
        ("m", "server"),
    ],
)
@pytest.mark.parametrize("split", [False, True])
def test_an_error_in_the_stream_comes_after_what_was_said(error: object, kind: str, split: bool) -> None:
    pieces = [sse(chunk({"content": "x"})), sse({"error": error}), sse(chunk({"content": "y"}))]

    parts, failure = read(*pieces) if split else read(b"".join(pieces))

    assert parts == [TextDelta("x")]
    assert failure is not None
    assert failure.kind == kind
    assert "m" in str(failure)


def test_an_event_named_error_is_an_error() -> None:
    for body in (b'event: error\ndata: {"message": "down"}\n\n', b"event: error\ndata: down\n\n"):
        _, failure = read(body)
        assert failure is not None
        assert "down" in str(failure)


def test_a_broken_event_is_an_error_and_what_came_before_is_kept() -> None:
    parts, failure = read(sse(chunk({"content": "x"})) + b'data: {"choices": [\n\n')

    assert parts == [TextDelta("x")]
    assert failure is not None
    assert failure.kind == "protocol"
    assert "not valid JSON" in str(failure)


def test_a_last_line_without_an_end_counts() -> None:
    parts, failure = read(sse(chunk({"content": "x"}, "stop"), end=""))

    assert failure is None
    assert parts == [TextDelta("x"), Finish("stop")]


@pytest.mark.parametrize("event", [[1], 1, {}, {"choices": {}}, {"choices": [1]}, {"choices": [{"index": 1}]}])
def test_events_of_another_shape_are_skipped(event: object) -> None:
    assert whole(event, chunk({"content": "x"}, "stop")) == [TextDelta("x"), Finish("stop")]


def test_other_choices_are_left_out() -> None:
    other = {"choices": [{"index": 1, "delta": {"content": "no"}, "finish_reason": "stop"}]}

    assert whole(other, chunk({"content": "x"}, "stop")) == [TextDelta("x"), Finish("stop")]


def test_an_endless_line_is_given_up() -> None:
    reader = SseReader()
    piece = b"x" * (1024 * 1024)
    for _ in range(MAX_LINE_BYTES // len(piece) + 1):
        reader.feed(piece)

    assert reader.done
    assert reader.malformed == "a line of more than 32 MiB"
