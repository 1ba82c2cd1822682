import json
from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bascule.errors import ModelError
from bascule.models import (
    File,
    Finish,
    ModelPart,
    Raw,
    ReasoningDelta,
    Source,
    TextDelta,
    ToolCall,
    ToolCallDelta,
    Usage,
)
from bascule.models._endpoint import Endpoint
from bascule.models._openai_responses_stream import ResponsesStream

ENDPOINT = Endpoint(provider="openai", model_id="m", url="http://x/v1")

Event = dict[str, object]


def event(kind: str, **more: object) -> Event:
    return {"type": kind if kind == "error" else f"response.{kind}", **more}


def text(delta: str, index: int = 0) -> Event:
    return event("output_text.delta", output_index=index, delta=delta)


def ended(status: str = "completed", **more: object) -> Event:
    return event(status, response={"id": "resp_1", "model": "m-1", "status": status, **more})


def added(index: int, **item: object) -> Event:
    return event("output_item.added", output_index=index, item=item)


def done(index: int, **item: object) -> Event:
    return event("output_item.done", output_index=index, item=item)


def sse(*events: object) -> bytes:
    return "".join(
        f"event: {item['type']}\ndata: {json.dumps(item)}\n\n" if isinstance(item, dict) else str(item)
        for item in events
    ).encode()


def read(*pieces: bytes, include_raw: bool = False) -> tuple[list[ModelPart], ModelError | None]:
    stream = ResponsesStream(ENDPOINT, include_raw=include_raw)
    parts: list[ModelPart] = []
    for piece in pieces:
        parts += stream.feed(piece)
        if stream.error is not None:
            return parts, stream.error
    return parts + stream.end(), stream.error


def whole(*events: object) -> list[ModelPart]:
    parts, error = read(sse(*events))
    assert error is None
    return parts


def failed(*events: object) -> ModelError:
    _, error = read(sse(*events))
    assert error is not None
    return error


CALL = {"type": "function_call", "id": "fc_1", "call_id": "t1", "name": "add"}
USAGE = {
    "input_tokens": 7,
    "output_tokens": 9,
    "input_tokens_details": {"cached_tokens": 2},
    "output_tokens_details": {"reasoning_tokens": 4},
}
RICH: Sequence[Event] = (
    event("created", response={"id": "resp_1", "model": "m-1"}),
    event("in_progress", response={}),
    added(0, type="reasoning", id="rs_1"),
    event("reasoning_summary_part.added", output_index=0, summary_index=0),
    event("reasoning_summary_text.delta", output_index=0, delta="h\u00e4"),
    event("reasoning_summary_part.added", output_index=0, summary_index=1),
    event("reasoning_summary_text.delta", output_index=0, delta="so"),
    done(0, type="reasoning", id="rs_1", summary=[{"text": "h\u00e4"}, {"text": "so"}], encrypted_content="e1"),
    added(1, type="message", id="msg_1"),
    text("\u4f60", 1),
    text("", 1),
    event("something_new", output_index=1),
    text("\u597d", 1),
    event("output_text.annotation.added", annotation={"type": "url_citation", "url": "http://a", "title": "A"}),
    done(1, type="message", content=[{"type": "output_text", "text": "\u4f60\u597d"}]),
    added(2, **CALL, arguments=""),
    event("function_call_arguments.delta", output_index=2, delta='{"a"'),
    event("function_call_arguments.delta", output_index=2, delta=":1}"),
    event("function_call_arguments.done", output_index=2, arguments='{"a":1}'),
    done(2, **CALL, arguments='{"a":1}'),
    ended(usage=USAGE, service_tier="default", output=[{"type": "message", "content": [{"text": "never twice"}]}]),
)
RICH_PARTS = [
    ReasoningDelta("h\u00e4"),
    ReasoningDelta("\n\n"),
    ReasoningDelta("so"),
    ReasoningDelta("", {"openai": {"item_id": "rs_1", "encrypted_content": "e1"}}),
    TextDelta("\u4f60"),
    TextDelta("\u597d"),
    Source("source-1", "http://a", "A"),
    ToolCallDelta("t1", "add", ""),
    ToolCallDelta("t1", "add", '{"a"'),
    ToolCallDelta("t1", "add", ":1}"),
    ToolCall("t1", "add", '{"a":1}'),
    Finish(
        "tool-calls",
        Usage(input_tokens=7, output_tokens=9, reasoning_tokens=4, cached_input_tokens=2),
        {"openai": {"service_tier": "default"}},
        "resp_1",
        "m-1",
    ),
]


def test_everything_a_stream_may_hold_becomes_parts() -> None:
    assert whole(*RICH) == RICH_PARTS


@given(st.lists(st.integers(0, len(sse(*RICH))), max_size=8))
def test_any_split_of_the_bytes_gives_the_same_parts(cuts: list[int]) -> None:
    data = sse(*RICH)
    borders = [0, *sorted(cuts), len(data)]

    parts, error = read(*(data[start:end] for start, end in pairwise(borders)))

    assert (parts, error) == (RICH_PARTS, None)


def test_messages_of_a_socket_give_the_same_parts() -> None:
    stream = ResponsesStream(ENDPOINT)
    parts: list[ModelPart] = []
    for item in RICH:
        parts += stream.feed_event(json.loads(json.dumps(item)))

    assert stream.done
    assert stream.response_id == "resp_1"
    assert parts + stream.end() == RICH_PARTS


@pytest.mark.parametrize(
    ("end", "reason"),
    [
        (ended(), "stop"),
        (ended("incomplete", incomplete_details={"reason": "max_output_tokens"}), "length"),
        (ended("incomplete", incomplete_details={"reason": "content_filter"}), "content-filter"),
        (ended("incomplete"), "other"),
        (ended("cancelled"), "other"),
        (event("completed"), "stop"),
    ],
)
def test_finish_reasons_are_mapped(end: Event, reason: str) -> None:
    finish = whole(text("x"), end)[-1]

    assert isinstance(finish, Finish)
    assert finish.reason == reason


def test_a_refusal_is_text_that_says_so() -> None:
    parts = whole(
        event("refusal.delta", output_index=0, delta="No."),
        done(0, type="message", content=[{"refusal": "No."}]),
        ended(),
    )

    assert parts == [TextDelta("No."), Finish("stop", Usage(), {"openai": {"refusal": True}}, "resp_1", "m-1")]


def test_what_the_deltas_left_out_is_taken_from_the_whole_items() -> None:
    parts = whole(
        done(0, type="reasoning", content=[{"text": "Hm."}]),
        done(1, type="message", content=[{"type": "output_text", "text": "Hi."}, {"refusal": "No."}]),
        done(2, **CALL, arguments={"a": 1}),
        ended(),
    )

    assert parts[:-1] == [
        ReasoningDelta("Hm."),
        TextDelta("Hi."),
        TextDelta("No."),
        ToolCallDelta("t1", "add", ""),
        ToolCall("t1", "add", '{"a":1}'),
    ]


def test_what_no_event_said_is_taken_from_the_response() -> None:
    output = [{"type": "message", "content": [{"text": "Hi."}]}, {**CALL, "arguments": "{}"}]

    assert whole(ended(output=output))[:-1] == [
        TextDelta("Hi."),
        ToolCallDelta("t1", "add", ""),
        ToolCall("t1", "add", "{}"),
    ]
    assert whole(text("Hi."), ended(output=output[:1]))[:-1] == [TextDelta("Hi.")]


def test_a_response_that_was_not_streamed_is_read() -> None:
    stream = ResponsesStream(ENDPOINT)
    response = {"object": "response", "id": "resp_1", "status": "completed", "error": None}

    parts = stream.feed_event({**response, "output": [{"type": "message", "content": [{"text": "Hi."}]}]})

    assert parts + stream.end() == [TextDelta("Hi."), Finish("stop", Usage(), None, "resp_1", None)]


def test_a_call_without_ids_and_indexes_is_read() -> None:
    parts = whole(
        {"type": "response.output_item.added", "item": {"type": "function_call", "name": "add"}},
        {"type": "response.function_call_arguments.delta", "delta": "{}"},
        {"type": "response.output_item.done", "item": {"type": "function_call", "name": "add"}},
        ended(),
    )

    assert parts[:-1] == [
        ToolCallDelta("call_1", "add", ""),
        ToolCallDelta("call_1", "add", "{}"),
        ToolCall("call_1", "add", "{}"),
    ]


def test_files_searches_and_custom_calls_are_told() -> None:
    custom = {"type": "custom_tool_call", "call_id": "t1", "name": "run"}
    cited = {"type": "file_citation", "file_id": "f1"}
    parts = whole(
        done(0, type="image_generation_call", result="aGk=", output_format="webp"),
        done(1, type="web_search_call", action={"sources": [{"url": "http://a"}, {"url": "http://a"}, {}]}),
        added(2, **custom),
        event("custom_tool_call_input.delta", output_index=2, delta="ls"),
        done(2, **custom, input="ls"),
        done(3, type="message", content=[{"text": "x", "annotations": [cited, cited]}]),
        done(4, type="mcp_list_tools"),
        ended(),
    )

    assert parts[:-1] == [
        File("image/webp", "aGk="),
        Source("source-1", "http://a"),
        ToolCallDelta("t1", "run", ""),
        ToolCallDelta("t1", "run", "ls"),
        ToolCall("t1", "run", '{"input":"ls"}'),
        TextDelta("x"),
    ]
    assert parts[-1] == Finish("tool-calls", Usage(), {"openai": {"annotations": [cited]}}, "resp_1", "m-1")


@pytest.mark.parametrize(
    ("end", "kind", "said"),
    [
        (ended("failed", error={"code": "rate_limit_exceeded", "message": "slow"}), "rate_limit", "slow"),
        (ended("failed", error={"code": "server_error", "message": "down"}), "server", "down"),
        (ended("failed"), "server", "no reason given"),
        (event("error", code="invalid_prompt", message="bad"), "bad_request", "bad"),
        (event("error", error={"message": "down", "type": "server_error"}), "server", "down"),
        ({"type": "error", "status": 401, "error": {"message": "who"}}, "auth", "who"),
    ],
)
def test_a_failure_inside_the_stream_comes_after_the_text(end: Event, kind: str, said: str) -> None:
    parts, error = read(sse(text("Good"), end, text("never")))

    assert parts == [TextDelta("Good")]
    assert error is not None
    assert error.kind == kind
    assert said in str(error)


def test_a_refused_request_over_a_socket_says_when_to_try_again() -> None:
    stream = ResponsesStream(ENDPOINT)

    stream.feed_event({"type": "error", "status": 429, "error": {"message": "slow"}, "headers": {"Retry-After": "7"}})

    assert stream.error is not None
    assert (stream.error.kind, stream.error.retry_after) == ("rate_limit", 7.0)


def test_an_error_without_a_type_is_an_error() -> None:
    assert "down" in str(failed('data: {"error": {"message": "down"}}\n\n'))
    assert "down" in str(failed('event: error\ndata: {"message": "down"}\n\n'))


def test_an_answer_that_just_stops_is_a_protocol_error() -> None:
    error = failed(text("Good"))

    assert error.kind == "protocol"
    assert "incomplete" in str(error)


def test_a_broken_event_is_an_error_and_what_came_before_is_kept() -> None:
    parts, error = read(sse(text("x")) + b'data: {"type": [\n\n')

    assert parts == [TextDelta("x")]
    assert error is not None
    assert "not valid JSON" in str(error)


@pytest.mark.parametrize(
    "odd",
    [
        {"type": 3},
        {"type": ["x"]},
        {"type": "response.created", "response": 3},
        {"type": "response.output_item.added", "item": None},
        {"type": "response.output_item.done", "output_index": 9, "item": 3},
        {"type": "response.output_text.delta", "output_index": 0, "delta": None},
        {"type": "response.output_text.annotation.added", "annotation": "x"},
        {"type": "response.function_call_arguments.delta", "output_index": 8, "delta": 3},
    ],
)
def test_odd_events_are_skipped(odd: object) -> None:
    parts = whole(f"data: {json.dumps(odd)}\n\n", text("x"), ended())

    assert parts == [TextDelta("x"), Finish("stop", Usage(), None, "resp_1", "m-1")]


@pytest.mark.requirement("A22")
def test_raw_events_are_sent_when_they_are_wanted() -> None:
    parts, _ = read(sse(text("x"), ended()), include_raw=True)

    assert parts[0] == Raw(text("x"))  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]  # JSON by construction
    assert [type(part) for part in parts] == [Raw, TextDelta, Raw, Finish]
