"""Runs that wait for a person, and sessions that wait for the next message: every wait has an end."""

import gc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from bascule import errors
from bascule.acp import AcpAgent
from bascule.testing import FakeAcpAgent
from bascule.tools import MemoryOption

MakeFake = Callable[..., FakeAcpAgent]
CLOSES: dict[str, Any] = {"sessionCapabilities": {"close": {}}}
ASK = {
    "permission": {"toolCall": {"toolCallId": "c1", "title": "Edit note.txt", "kind": "edit"}},
    "on_allow": [{"text": "changed"}],
    "on_reject": [{"text": "left"}],
    "on_cancel": [{"wait_cancel": True}],
}


def agent_of(fake: FakeAcpAgent, project: Path, **settings: Any) -> AcpAgent:
    return AcpAgent(id="fake", command=fake.command, cwd=project, **settings)


def thread(name: str) -> MemoryOption:
    return {"thread": name, "resource": "r"}


async def heard(fake: FakeAcpAgent, method: str | None, *, count: int = 1) -> list[dict[str, Any]]:
    """Wait until the agent has received so many messages of a kind; answers when there is no method."""
    with anyio.fail_after(10):
        while True:
            messages = [message for message in await fake.received() if message.get("method") == method]
            if len(messages) >= count:
                return messages
            await anyio.sleep(0.01)  # another process has them


async def test_a_question_that_nobody_answers_is_cancelled_and_its_turn_ends_as_denied(
    fake: MakeFake, project: Path
) -> None:
    agent = fake([ASK, {"text": "never said"}], [{"text": "next"}])
    async with agent_of(agent, project, answer_timeout=0.01) as coder:
        waiting = await coder.generate("Go.", memory=thread("t"))
        assert waiting.status == "suspended"
        await heard(agent, "session/cancel")
        [answer] = await heard(agent, None)
        assert answer["result"] == {"outcome": {"outcome": "cancelled"}}
        with pytest.raises(errors.RunNotSuspended):
            coder.approve_tool_call(run_id=waiting.run_id)
        with anyio.fail_after(10):
            done = await coder.decline_tool_call(run_id=waiting.run_id)
            assert (await coder.generate("And?", memory=thread("t"))).text == "next"
    assert (done.status, done.text) == ("canceled", "")
    assert [(item.kind, item.error) for item in done.tool_results] == [
        ("denied", "nobody answered within 0.01 seconds")
    ]
    [warning] = done.warnings
    assert warning.startswith("answer_timeout: Edit note.txt: nobody answered within 0.01 seconds")
    assert await agent.violations() == []


async def test_an_answer_in_time_ends_the_limit(fake: MakeFake, project: Path) -> None:
    agent = fake([ASK, ASK])
    async with agent_of(agent, project, answer_timeout=None) as coder:
        waiting = await coder.generate("Go.")
        assert (await coder.approve_tool_call(run_id=waiting.run_id)).status == "suspended"
    async with agent_of(agent, project, answer_timeout=60) as coder:
        waiting = await coder.generate("Go.")
        await coder.approve_tool_call(run_id=waiting.run_id)
        done = await coder.approve_tool_call(run_id=waiting.run_id)
    assert (done.status, done.text, done.warnings) == ("success", "changed", ())


async def test_an_answered_run_goes_on_although_nobody_reads_its_output(fake: MakeFake, project: Path) -> None:
    agent = fake([ASK], [{"text": "next"}])
    async with agent_of(agent, project) as coder:
        waiting = await coder.generate("Go.", memory=thread("t"))
        coder.approve_tool_call(run_id=waiting.run_id)
        [answer] = await heard(agent, None)
        assert answer["result"]["outcome"]["optionId"] == "once"
        assert (await coder.approve_tool_call(run_id=waiting.run_id)).text == "changed"
        assert (await coder.generate("And?", memory=thread("t"))).text == "next"


async def test_runs_that_were_never_begun_are_not_kept(fake: MakeFake, project: Path) -> None:
    async with agent_of(fake(), project) as coder:
        output = coder.stream("Hi.", run_id="mine")
        with pytest.raises(errors.RunIdInUse):
            coder.stream("Hi.", run_id="mine")
        del output
        gc.collect()
        assert (await coder.generate("Hi.", run_id="mine")).text == "ok"


async def test_a_run_that_has_not_begun_can_be_aborted(fake: MakeFake, project: Path) -> None:
    agent = fake()
    async with agent_of(agent, project) as coder:
        output = coder.stream("Hi.", run_id="mine")
        with anyio.fail_after(5):
            await coder.abort_run("mine")
            assert (await output).status == "canceled"
    assert await agent.received("session/prompt") == []


async def test_the_session_used_the_longest_time_ago_is_closed_when_there_are_too_many(
    fake: MakeFake, project: Path
) -> None:
    agent = fake(capabilities=CLOSES)
    async with agent_of(agent, project, max_sessions=2) as coder:
        for name in ("a", "b", "a", "c"):
            assert (await coder.generate("Hi.", memory=thread(name))).warnings == ()
        used = [message["params"]["sessionId"] for message in await agent.received("session/prompt")]
        [closed] = await heard(agent, "session/close")
        assert closed["params"]["sessionId"] == used[1]
        assert (await coder.generate("Hi.", memory=thread("a"))).warnings == ()
        again = await coder.generate("Hi.", memory=thread("b"))
        assert again.warnings[0].startswith("session_not_resumed: The agent's session was closed to make room")
        assert (await coder.generate("Hi.", memory=thread("b"))).warnings == ()
    assert len(await agent.received("session/new")) == 4
    assert await agent.violations() == []


async def test_a_session_is_released_without_a_word_to_an_agent_that_closes_none(fake: MakeFake, project: Path) -> None:
    agent = fake()
    async with agent_of(agent, project, max_sessions=1) as coder:
        for name in ("a", "b", "a"):
            await coder.generate("Hi.", memory=thread(name))
    assert len(await agent.received("session/new")) == 3
    assert await agent.received("session/close") == []
    assert await agent.violations() == []


async def test_a_session_that_waits_for_a_decision_or_is_busy_is_never_closed(fake: MakeFake, project: Path) -> None:
    agent = fake([ASK], [{"text": "half"}, {"wait_cancel": True}], [{"text": "next"}], capabilities=CLOSES)
    async with agent_of(agent, project, max_sessions=1) as coder:
        waiting = await coder.generate("Go.", memory=thread("waits"))
        busy = coder.stream("Go.", memory=thread("busy"))
        async for chunk in busy:
            if chunk.type == "text-delta":
                break
        assert (await coder.generate("Hi.", memory=thread("third"))).text == "next"
        assert await agent.received("session/close") == []
        assert (await coder.approve_tool_call(run_id=waiting.run_id)).text == "changed"
        busy.cancel()
        assert (await busy).status == "canceled"
        await coder.generate("Hi.", memory=thread("fourth"))
        assert len(await heard(agent, "session/close", count=3)) == 3
    assert await agent.violations() == []


def test_an_agent_needs_at_least_one_session() -> None:
    with pytest.raises(errors.SettingInvalid, match="max_sessions"):
        AcpAgent(command="agent", max_sessions=0)
