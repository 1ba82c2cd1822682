"""The agent's updates as stream events."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot

from bascule.acp._v1_updates import TurnMapper
from bascule.stream import Chunk, fold


def text(value: str, **more: object) -> dict[str, Any]:
    return {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": value}, **more}


def thought(value: str) -> dict[str, Any]:
    return {"sessionUpdate": "agent_thought_chunk", "content": {"type": "text", "text": value}}


def call(identifier: str = "c1", **more: object) -> dict[str, Any]:
    return {"sessionUpdate": "tool_call", "toolCallId": identifier, "title": "Edit a.txt", "kind": "edit", **more}


def progress(identifier: str = "c1", **more: object) -> dict[str, Any]:
    return {"sessionUpdate": "tool_call_update", "toolCallId": identifier, **more}


def content(value: str) -> dict[str, Any]:
    return {"type": "content", "content": {"type": "text", "text": value}}


def mapped(*updates: dict[str, Any], interrupted: bool = False) -> list[Chunk]:
    chunks: list[Chunk] = []
    mapper = TurnMapper("run", chunks.append)
    for update in updates:
        mapper.apply(update)
    mapper.end(interrupted=interrupted)
    return chunks


def short(chunks: list[Chunk]) -> list[Any]:
    """Type and payload, without the run."""
    return [(chunk.type, chunk.to_wire()["payload"]) for chunk in chunks]


def test_text_and_reasoning_come_in_blocks() -> None:
    assert short(mapped(thought("hm"), text("a"), text(""), text("b"), thought("x"))) == snapshot(
        [
            ("reasoning-start", {"id": "reasoning-1"}),
            ("reasoning-delta", {"id": "reasoning-1", "text": "hm"}),
            ("reasoning-end", {"id": "reasoning-1"}),
            ("text-start", {"id": "text-2"}),
            ("text-delta", {"id": "text-2", "text": "a"}),
            ("text-delta", {"id": "text-2", "text": "b"}),
            ("text-end", {"id": "text-2", "type": "text-end"}),
            ("reasoning-start", {"id": "reasoning-3"}),
            ("reasoning-delta", {"id": "reasoning-3", "text": "x"}),
            ("reasoning-end", {"id": "reasoning-3"}),
        ]
    )


def test_another_message_is_another_block() -> None:
    kinds = [chunk.type for chunk in mapped(text("a", messageId="m1"), text("b", messageId="m2"))]
    assert kinds == ["text-start", "text-delta", "text-end"] * 2


def test_a_tool_call_with_a_diff_becomes_call_diff_and_result() -> None:
    diff = {"type": "diff", "path": "/p/a.txt", "oldText": "old", "newText": "new"}
    chunks = mapped(
        call(rawInput={"path": "a.txt"}, status="pending"),
        progress(status="in_progress"),
        progress(status="completed", content=[diff, content("done")]),
    )
    assert short(chunks) == snapshot(
        [
            ("tool-call", {"toolCallId": "c1", "toolName": "Edit a.txt", "args": {"path": "a.txt"}}),
            (
                "acp-raw",
                {"update": {"sessionUpdate": "tool_call_update", "toolCallId": "c1", "status": "in_progress"}},
            ),
            ("acp-diff", {"toolCallId": "c1", "path": "/p/a.txt", "oldText": "old", "newText": "new"}),
            (
                "tool-result",
                {"args": {"path": "a.txt"}, "toolCallId": "c1", "toolName": "Edit a.txt", "result": "done"},
            ),
        ]
    )


def test_a_call_that_is_told_before_its_arguments_is_announced_with_them() -> None:
    chunks = mapped(
        call(status="pending"), progress(rawInput={"x": 1}), progress(status="completed", rawOutput={"y": 2})
    )
    result = fold(chunks)
    assert [(item.tool_name, item.args) for item in result.tool_calls] == [("Edit a.txt", {"x": 1})]
    assert [(item.args, item.result) for item in result.tool_results] == [({"x": 1}, {"y": 2})]


def test_a_call_without_arguments_is_announced_before_anything_else_is_said() -> None:
    kinds = [chunk.type for chunk in mapped(call(), call("c2"), text("meanwhile"), progress(status="completed"))]
    assert kinds == snapshot(
        ["tool-call", "tool-call", "text-start", "text-delta", "text-end", "tool-result", "tool-result"]
    )


def test_a_failed_call_is_an_error_with_the_agents_words() -> None:
    [item] = fold(
        mapped(call(rawInput={"a": 1}), progress(status="failed", content=[content("no such file")]))
    ).tool_results
    assert (item.is_error, item.kind, item.error) == (True, "raised", "no such file")


@pytest.mark.parametrize(("interrupted", "kind"), [(True, "cancelled"), (False, None)])
def test_a_call_without_a_result_gets_one_at_the_end(interrupted: bool, kind: str | None) -> None:
    [item] = fold(mapped(call(status="in_progress"), interrupted=interrupted)).tool_results
    assert item.kind == kind


def test_a_call_reported_only_by_its_end_is_whole() -> None:
    assert [chunk.type for chunk in mapped(progress("c9", title="Read", status="completed"))] == [
        "tool-call",
        "tool-result",
    ]


def test_plans_usage_files_and_links_have_events_of_their_own() -> None:
    chunks = mapped(
        {"sessionUpdate": "plan", "entries": [{"content": "look", "priority": "high", "status": "pending"}]},
        {"sessionUpdate": "usage_update", "used": 10, "size": 100, "cost": {"amount": 0.5, "currency": "USD"}},
        {
            "sessionUpdate": "agent_message_chunk",
            "content": {"type": "image", "data": "aGk=", "mimeType": "image/png"},
        },
        {
            "sessionUpdate": "agent_message_chunk",
            "content": {"type": "resource_link", "uri": "file:///a", "name": "a"},
        },
    )
    assert short(chunks) == snapshot(
        [
            ("acp-plan", {"entries": ({"content": "look", "priority": "high", "status": "pending"},)}),
            ("acp-usage", {"used": 10, "size": 100, "cost": {"amount": 0.5, "currency": "USD"}}),
            ("file", {"data": "aGk=", "base64": "aGk=", "mimeType": "image/png"}),
            ("source", {"id": "file:///a", "sourceType": "url", "url": "file:///a", "title": "a"}),
        ]
    )


@pytest.mark.parametrize(
    "update",
    [
        {"sessionUpdate": "notice", "message": "careful"},
        {"sessionUpdate": "foo_update", "x": [1]},
        {"sessionUpdate": "available_commands_update", "availableCommands": []},
        {"sessionUpdate": "user_message_chunk", "content": {"type": "text", "text": "echo"}},
        {"sessionUpdate": "plan", "entries": "none"},
        {"sessionUpdate": "usage_update", "used": "many"},
        {"sessionUpdate": "agent_message_chunk", "content": {"type": "hologram"}},
        {"sessionUpdate": "agent_message_chunk", "content": "text"},
        {"sessionUpdate": "agent_thought_chunk"},
        {"sessionUpdate": "tool_call", "title": "no id"},
        {"sessionUpdate": 7},
        {},
    ],
)
def test_what_has_no_event_of_its_own_is_kept_untouched(update: dict[str, Any]) -> None:
    [chunk] = mapped(update)
    assert chunk.to_wire()["payload"] == {"update": update}


def test_an_unknown_tool_kind_and_malformed_parts_of_a_call_do_no_harm() -> None:
    chunks = mapped(
        call(kind="teleport", locations=["x", {"path": 1}, {"path": "/a"}], content=["x", {"type": "diff"}], status=3),
        progress(status="completed", content="none"),
    )
    assert [chunk.type for chunk in chunks][-1] == "tool-result"


updates = st.lists(
    st.one_of(
        st.builds(text, st.text(max_size=3)),
        st.builds(thought, st.text(max_size=3)),
        st.builds(call, st.sampled_from(["a", "b"]), status=st.sampled_from([None, "pending", "in_progress"])),
        st.builds(
            progress,
            st.sampled_from(["a", "b", "c"]),
            status=st.sampled_from([None, "in_progress", "completed", "failed"]),
            rawInput=st.none() | st.just({"x": 1}),
        ),
        st.just({"sessionUpdate": "other"}),
    ),
    max_size=30,
)


@given(updates, st.booleans())
def test_every_block_is_closed_and_every_call_has_one_result(given: list[dict[str, Any]], interrupted: bool) -> None:
    chunks = mapped(*given, interrupted=interrupted)
    open_block: str | None = None
    for chunk in chunks:
        kind, _, phase = chunk.type.rpartition("-")
        if kind in ("text", "reasoning"):
            assert (open_block is None) == (phase == "start")
            open_block = None if phase == "end" else kind
        elif chunk.type.startswith("tool-"):
            assert open_block is None
    assert open_block is None
    result = fold(chunks)
    assert sorted(item.tool_call_id for item in result.tool_calls) == sorted(
        item.tool_call_id for item in result.tool_results
    )
    said = [update["content"]["text"] for update in given if update["sessionUpdate"] == "agent_message_chunk"]
    assert result.all_text == "".join(said)


def test_the_reason_why_a_call_failed_is_shown_without_secrets() -> None:
    words = "OPENAI_API_KEY=sk-abcdefghijklmnop was refused"
    chunks = mapped(call(status="pending"), progress(status="failed", content=[content(words)]))
    [result] = fold(chunks).tool_results
    assert result.error == "OPENAI_API_KEY=[redacted] was refused"
