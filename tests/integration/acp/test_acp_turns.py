"""Prompt turns with an agent that behaves, and with one that is careless about the protocol."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from inline_snapshot import snapshot

from bascule import errors
from bascule.acp import AcpAgent
from bascule.stream import AcpRawChunk, FinishChunk
from bascule.testing import FakeAcpAgent
from bascule.tools import MemoryOption

MakeFake = Callable[..., FakeAcpAgent]


def agent_of(fake: FakeAcpAgent, project: Path, **settings: Any) -> AcpAgent:
    return AcpAgent(id="fake", command=fake.command, cwd=project, **settings)


@pytest.mark.requirement("C03")
async def test_a_turn_is_a_stream_like_any_agents(fake: MakeFake, project: Path) -> None:
    call = {"toolCallId": "c1", "title": "Read a.txt", "kind": "read", "rawInput": {"path": "a.txt"}}
    agent = fake(
        [
            {"thought": "hm"},
            {"text": "I look. "},
            {"update": {"sessionUpdate": "tool_call", **call}},
            {"update": {"sessionUpdate": "tool_call_update", "toolCallId": "c1", "status": "completed"}},
            {"text": "Done."},
            {"stop": "end_turn", "more": {"usage": {"inputTokens": 7, "outputTokens": 3}}},
        ]
    )
    async with agent_of(agent, project) as coder:
        output = coder.stream("Look.")
        kinds = [chunk.type async for chunk in output]
        result = await output
    assert kinds == snapshot(
        [
            "start",
            "step-start",
            "reasoning-start",
            "reasoning-delta",
            "reasoning-end",
            "text-start",
            "text-delta",
            "text-end",
            "tool-call",
            "tool-result",
            "text-start",
            "text-delta",
            "text-end",
            "step-finish",
            "finish",
        ]
    )
    assert (result.status, result.finish_reason, result.text) == ("success", "stop", "I look. Done.")
    assert (result.reasoning_text, result.usage.total_tokens) == ("hm", 10)
    assert await agent.violations() == []
    [prompt] = await agent.received("session/prompt")
    assert prompt["params"]["prompt"] == [{"type": "text", "text": "Look."}]


@pytest.mark.requirement("F36")
async def test_everything_arrives_in_order_before_the_result(fake: MakeFake, project: Path) -> None:
    async with agent_of(fake([{"numbers": 200}]), project) as coder:
        output = coder.stream("Count.")
        texts: list[str] = []
        async for text in output.text_stream:
            texts.append(text)
            await anyio.lowlevel.checkpoint()  # a reader that lets others go first
    assert texts == [f"{number} " for number in range(200)]


async def test_the_last_text_and_the_answer_in_one_write_are_both_there(fake: MakeFake, project: Path) -> None:
    lines = [
        {
            "jsonrpc": "2.0",
            "method": "session/update",
            "params": {
                "sessionId": "SESSION",
                "update": {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "last"}},
            },
        },
        {"jsonrpc": "2.0", "id": 3, "result": {"stopReason": "end_turn"}},
    ]
    data = "".join(json.dumps(line) + "\n" for line in lines).encode().hex()
    async with agent_of(fake([{"bytes": data}, {"hang": True}]), project) as coder:
        with anyio.fail_after(10):
            await coder.connect()
            assert (await coder.generate("Go.")).text == "last"


async def test_a_line_of_three_megabytes_arrives_whole(fake: MakeFake, project: Path) -> None:
    async with agent_of(fake([{"long_text": 3_000_000}]), project) as coder:
        assert (await coder.generate("Talk.")).text == "x" * 3_000_000


async def test_a_line_beyond_the_limit_fails_its_turn_and_the_session_goes_on(fake: MakeFake, project: Path) -> None:
    agent = fake([{"text": "before"}, {"long_text": 100_000}, {"text": "after"}], [{"text": "fine"}])
    memory: MemoryOption = {"thread": "t", "resource": "r"}
    async with agent_of(agent, project, max_line_bytes=50_000) as coder:
        with pytest.raises(errors.AcpLineTooLong, match="max_line_bytes") as caught:
            await coder.generate("Talk.", memory=memory)
        assert caught.value.output.text == "before"
        assert (await coder.generate("Again.", memory=memory)).text == "fine"
    assert len(await agent.received("session/new")) == 1
    assert await agent.violations() == []


async def test_other_output_between_the_messages_is_ignored_and_kept_for_diagnosis(
    fake: MakeFake, project: Path
) -> None:
    noise = [{"line": "Loaded credentials."}, {"line": "123"}, {"line": "[1,2]"}, {"line": "null"}, {"line": ""}]
    agent = fake([*noise, {"text": "fine"}, *noise], before=noise)
    async with agent_of(agent, project) as coder:
        assert (await coder.generate("Hi.")).text == "fine"
        diagnostics = coder.diagnostics
    assert diagnostics is not None
    assert diagnostics.ignored_lines == 12
    assert "Loaded credentials." in diagnostics.samples


async def test_ids_that_come_back_as_text_are_matched(fake: MakeFake, project: Path) -> None:
    async with agent_of(fake(string_ids=True), project) as coder:
        with anyio.fail_after(10):
            assert (await coder.generate("Hi.")).text == "ok"


async def test_bytes_that_are_no_utf8_do_not_lose_the_message(fake: MakeFake, project: Path) -> None:
    head = b'{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"SESSION","update":'
    update = b'{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"a\xffb"}}}}\n'
    async with agent_of(fake([{"bytes": (head + update).hex()}]), project) as coder:
        assert (await coder.generate("Hi.")).text == "a\ufffdb"


async def test_unknown_updates_and_notifications_do_not_fail_the_turn(fake: MakeFake, project: Path) -> None:
    notice = {"sessionUpdate": "notice", "message": "x"}
    agent = fake(
        [
            {"update": notice},
            {"update": {"sessionUpdate": "foo_update"}},
            {"notify": ["_auth/status_update", {}]},
            {"notify": ["qwen/notify/x", {}]},
            {"text": "fine"},
        ]
    )
    async with agent_of(agent, project) as coder:
        output = coder.stream("Hi.")
        raw = [chunk.update async for chunk in output if isinstance(chunk, AcpRawChunk)]
        assert (await output).text == "fine"
        assert coder.diagnostics is not None
        assert set(coder.diagnostics.unknown_methods) == {"_auth/status_update", "qwen/notify/x"}
    assert raw == [notice, {"sessionUpdate": "foo_update"}]


async def test_an_unknown_request_is_answered_at_once(fake: MakeFake, project: Path) -> None:
    agent = fake([{"request": ["_vendor/x", {}]}, {"echo": True}])
    async with agent_of(agent, project) as coder:
        with anyio.fail_after(10):
            answer = json.loads((await coder.generate("Hi.")).text)
    assert answer["code"] == -32601


@pytest.mark.parametrize("answer", [{"result": None}, {"result": {"stopReason": "bored"}}, {"result": {}}])
async def test_an_answer_without_a_known_stop_reason_is_a_warning(
    fake: MakeFake, project: Path, answer: dict[str, Any]
) -> None:
    async with agent_of(fake([{"text": "fine"}, answer]), project) as coder:
        result = await coder.generate("Hi.")
    assert (result.status, result.text, len(result.warnings)) == ("success", "fine", 1)


async def test_an_error_instead_of_an_answer_fails_the_run_and_keeps_its_text(fake: MakeFake, project: Path) -> None:
    error = {"code": -32603, "message": "Internal error", "data": {"details": "no quota"}}
    async with agent_of(fake([{"text": "half"}, {"error": error}]), project) as coder:
        with pytest.raises(errors.AcpRequestFailed, match="no quota") as caught:
            await coder.generate("Hi.")
    assert (caught.value.code, caught.value.output.text, caught.value.output.status) == (-32603, "half", "failed")


async def test_the_runs_of_one_thread_share_a_session_and_other_runs_do_not(fake: MakeFake, project: Path) -> None:
    agent = fake()
    async with agent_of(agent, project) as coder:
        for thread in ("a", "a", "b"):
            await coder.generate("Hi.", memory={"thread": thread, "resource": "r"})
        await coder.generate("Hi.")
        await coder.generate("Hi.")
    sessions = [prompt["params"]["sessionId"] for prompt in await agent.received("session/prompt")]
    assert sessions[0] == sessions[1]
    assert len(set(sessions)) == 4
    assert len(await agent.received("initialize")) == 1


async def test_a_session_of_one_run_is_closed_where_the_agent_can(fake: MakeFake, project: Path) -> None:
    agent = fake(capabilities={"sessionCapabilities": {"close": {}}})
    async with agent_of(agent, project) as coder:
        await coder.generate("Hi.")
        await coder.generate("Hi.")
    assert len(await agent.received("session/close")) == 2
    assert await agent.violations() == []


async def test_two_prompts_at_once_in_one_session_are_refused_and_in_two_sessions_run_together(
    fake: MakeFake, project: Path
) -> None:
    agent = fake([{"text": "begun"}, {"wait_cancel": True}])
    async with agent_of(agent, project) as coder:
        first = coder.stream("Hi.", memory={"thread": "t", "resource": "r"})
        async with first:
            async for chunk in first:
                if chunk.type == "text-delta":
                    break
            with pytest.raises(errors.AcpSessionBusy, match=first.run_id):
                await coder.generate("Me too.", memory={"thread": "t", "resource": "r"})
            second = coder.stream("Hi.")
            async for chunk in second:
                if chunk.type == "text-delta":
                    break
            await second.aclose()
    assert await agent.violations() == []


async def test_what_comes_after_the_end_of_a_turn_is_not_part_of_the_next(fake: MakeFake, project: Path) -> None:
    late = {"sessionUpdate": "tool_call_update", "toolCallId": "c1", "status": "completed", "rawOutput": "late"}
    agent = fake(
        [
            {"update": {"sessionUpdate": "tool_call", "toolCallId": "c1", "title": "Old", "status": "in_progress"}},
            {"text": "one"},
            {"after": [{"text": "late text"}]},
        ],
        [{"update": late}, {"text": "old message", "more": {"messageId": "m"}}, {"text": "two"}],
    )
    memory: MemoryOption = {"thread": "t", "resource": "r"}
    async with agent_of(agent, project) as coder:
        first = await coder.generate("1", memory=memory)
        with anyio.fail_after(10):
            while not coder.late_updates:  # noqa: ASYNC110  # it comes from another process
                await anyio.sleep(0.01)
        second = coder.stream("2", memory=memory)
        result = await second
        kept = coder.late_updates
    assert (first.text, result.text) == ("one", "old messagetwo")
    assert result.tool_results == ()
    assert [(update.run_id, update.update["sessionUpdate"]) for update in kept] == [
        (first.run_id, "agent_message_chunk"),
        (result.run_id, "tool_call_update"),
    ]


async def test_updates_before_the_answer_to_session_new_do_no_harm(fake: MakeFake, project: Path) -> None:
    early: dict[str, Any] = {"sessionUpdate": "available_commands_update", "availableCommands": []}
    async with agent_of(fake(early_updates=[early]), project) as coder:
        result = await coder.generate("Hi.")
        assert [update.update for update in coder.late_updates] == [early]
    assert result.text == "ok"


MODES = {"modes": {"currentModeId": "auto", "availableModes": [{"id": "auto"}, {"id": "default"}]}}


async def test_a_preset_sets_the_mode_in_which_the_agent_asks(fake: MakeFake, project: Path) -> None:
    agent = fake(session=MODES)
    async with AcpAgent("claude-code", command=agent.command, cwd=project) as coder:
        assert (await coder.generate("Hi.")).warnings == ()
    assert [message["params"]["modeId"] for message in await agent.received("session/set_mode")] == ["default"]


async def test_a_preset_whose_mode_is_missing_warns_and_a_mode_that_was_asked_for_fails(
    fake: MakeFake, project: Path
) -> None:
    async with AcpAgent("codex", command=fake(session=MODES).command, cwd=project) as coder:
        [warning] = (await coder.generate("Hi.")).warnings
    assert "'read-only'" in warning
    async with agent_of(fake(session=MODES), project, mode="plan") as coder:
        with pytest.raises(errors.AgentRunError, match="it offers: auto, default"):
            await coder.generate("Hi.")


async def test_a_model_is_chosen_by_the_option_of_its_category(fake: MakeFake, project: Path) -> None:
    option = {"id": "the-model", "category": "model", "type": "select", "options": [{"value": "big"}]}
    agent = fake(session={"configOptions": [option]})
    async with agent_of(agent, project, model="big") as coder:
        await coder.generate("Hi.")
    [message] = await agent.received("session/set_config_option")
    assert (message["params"]["configId"], message["params"]["value"]) == ("the-model", "big")
    async with agent_of(agent, project, model="small") as coder:
        with pytest.raises(errors.AgentRunError, match="it offers: big"):
            await coder.generate("Hi.")


async def test_the_agent_sees_our_environment_and_what_is_added(
    fake: MakeFake, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("X_OF_OURS", "x")
    names = ["PATH", "HOME", "X_OF_OURS", "Y"]
    async with agent_of(fake([{"env": names}]), project, env={"Y": "y"}) as coder:
        seen = json.loads((await coder.generate("Hi.")).text)
    assert seen["PATH"]
    assert (seen["X_OF_OURS"], seen["Y"]) == ("x", "y")


def test_a_script_without_an_event_loop_gets_an_answer(fake: MakeFake, project: Path) -> None:
    coder = agent_of(fake([{"permission": {"toolCall": {"toolCallId": "c"}}}, {"text": "done"}]), project)
    result = coder.generate_sync("Hi.")
    assert (result.text, result.tool_results[0].kind) == ("done", "denied")
    assert "nobody can be asked" in result.warnings[0]


async def test_the_sync_form_is_refused_inside_an_event_loop(project: Path) -> None:
    with pytest.raises(RuntimeError, match="inside an event loop"):
        AcpAgent("codex").generate_sync("Hi.")


async def test_every_stream_ends_with_one_terminal_event(fake: MakeFake, project: Path) -> None:
    agent = fake([{"text": "a"}], [{"exit": 1}])
    async with agent_of(agent, project) as coder:
        for _ in range(2):
            output = coder.stream("Hi.")
            chunks = [chunk async for chunk in output]
            assert isinstance(chunks[-1], FinishChunk)
            assert sum(chunk.type in ("finish", "suspended") for chunk in chunks) == 1
