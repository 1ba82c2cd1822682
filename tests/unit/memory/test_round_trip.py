from datetime import UTC, datetime, timedelta, timezone

import anyio
from hypothesis import given, settings
from hypothesis import strategies as st

from bascule.memory import Memory
from bascule.messages import (
    DataPart,
    ErrorPart,
    FilePart,
    JsonValue,
    Message,
    ReasoningPart,
    SourcePart,
    StepStartPart,
    TextPart,
    ToolCallPart,
)

text = st.text(st.characters())  # with NUL and lone surrogates
json_values: st.SearchStrategy[JsonValue] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3),
    max_leaves=5,
)
objects = st.dictionaries(text, json_values, max_size=3)
tool_calls = st.builds(
    ToolCallPart,
    tool_call_id=text,
    tool_name=text,
    args=json_values,
    state=st.just("result"),
    result=json_values,
    model_output=json_values,
) | st.builds(
    ToolCallPart,
    tool_call_id=text,
    tool_name=text,
    args=json_values,
    state=st.sampled_from(["call", "approval-requested", "approval-responded", "output-error", "output-denied"]),
    error=st.none() | text,
)
parts = st.one_of(
    st.builds(TextPart, text),
    st.builds(ReasoningPart, text, st.none() | objects),
    st.builds(FilePart, media_type=text.filter(bool), data=st.none() | st.just("aGk="), filename=st.none() | text),
    st.builds(SourcePart, id=text, url=text, title=st.none() | text),
    tool_calls,
    st.builds(StepStartPart),
    st.builds(ErrorPart, text, text),
    st.builds(DataPart, text, json_values),
)
moments = st.datetimes(
    min_value=datetime(1, 1, 2),  # noqa: DTZ001  # hypothesis adds the time zone
    max_value=datetime(9999, 12, 30),  # noqa: DTZ001
    timezones=st.sampled_from([UTC, timezone(timedelta(hours=-7))]),
)
messages = st.builds(
    Message,
    role=st.sampled_from(["system", "user", "assistant", "signal"]),
    parts=st.lists(parts, max_size=4).map(tuple),
    created_at=moments,
    metadata=st.none() | objects,
)


@settings(max_examples=100)
@given(st.lists(messages, max_size=3), objects)
def test_any_message_and_metadata_come_back_equal(
    given_messages: list[Message], metadata: dict[str, JsonValue]
) -> None:
    async def round_trip() -> None:
        async with Memory() as memory:
            await memory.save_turn(given_messages, thread={"id": "t", "metadata": metadata}, resource_id="r")
            loaded = await memory.load("t", resource_id="r")
            assert loaded == tuple(message.owned_by(thread_id="t", resource_id="r") for message in given_messages)
            thread = await memory.get_thread("t", resource_id="r")
            assert thread is not None
            assert thread.metadata == metadata

    anyio.run(round_trip)


async def test_a_message_of_ten_megabytes_comes_back_equal() -> None:
    big = Message(role="user", parts=(TextPart("0123456789" * 2**20),))
    async with Memory() as memory:
        await memory.save_turn([big], thread="t", resource_id="r")
        (loaded,) = await memory.load("t", resource_id="r")
        assert loaded.text == big.text
