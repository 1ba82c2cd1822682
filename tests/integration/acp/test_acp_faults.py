"""Agents that fail, hang, flood, or are stopped."""

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio
import pytest

from bascule import errors
from bascule.acp import AcpAgent
from bascule.context import CancelToken
from bascule.stream import FullOutput
from bascule.testing import FakeAcpAgent
from bascule.tools import MemoryOption

MakeFake = Callable[..., FakeAcpAgent]
MEMORY: MemoryOption = {"thread": "t", "resource": "r"}


def agent_of(fake: FakeAcpAgent, project: Path, **settings: Any) -> AcpAgent:
    return AcpAgent(id="fake", command=fake.command, cwd=project, **settings)


def alive(pids: list[int]) -> list[int]:
    found: list[int] = []
    for pid in pids:
        try:
            state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
        except FileNotFoundError:
            continue
        if state not in ("Z", "X"):
            found.append(pid)
    return found


async def first_text(coder: AcpAgent, **options: Any) -> Any:
    """Start a run and return its output once the agent has said something."""
    output = coder.stream("Hi.", **options)
    with anyio.fail_after(10):
        async for chunk in output:
            if chunk.type == "text-delta":
                break
    return output


async def test_a_flood_on_stderr_does_not_stop_the_agent(fake: MakeFake, project: Path) -> None:
    agent = fake([{"stderr": 300_000}, {"stderr": "the last line"}, {"text": "fine"}])
    async with agent_of(agent, project) as coder:
        with anyio.fail_after(10):
            assert (await coder.generate("Hi.")).text == "fine"
            while "the last line" not in coder.stderr:  # noqa: ASYNC110  # it comes through another pipe
                await anyio.sleep(0.01)
        assert len(coder.stderr) <= 64 * 1024


@pytest.mark.requirement("F69")
@pytest.mark.parametrize("child", [False, True], ids=["alone", "while a child holds its output open"])
async def test_an_agent_that_dies_in_a_turn_is_an_error_with_its_last_words(
    fake: MakeFake, project: Path, child: bool
) -> None:
    spawn = [{"spawn": 300, "holds_stdout": True}] if child else []
    agent = fake([{"text": "half"}, {"stderr": "out of luck"}, *spawn, {"exit": 3}])
    async with agent_of(agent, project) as coder:
        with anyio.fail_after(10), pytest.raises(errors.AcpAgentExited, match="out of luck") as caught:
            await coder.generate("Hi.")
    error = caught.value
    assert (error.exit_code, error.stderr_tail, error.output.text) == (3, "out of luck", "half")
    assert alive(await agent.pids()) == []


SECRETS = "ANTHROPIC_API_KEY=sk-ant-abcdefghijklmnop rejected, Authorization: Bearer qrstuvwxyz0123"


def clean(text: str) -> bool:
    return "rejected" in text and "[redacted]" in text and "klmnop" not in text and "qrstuv" not in text


async def test_the_last_words_of_an_agent_are_shown_without_secrets(fake: MakeFake, project: Path) -> None:
    async with agent_of(fake([{"stderr": SECRETS}, {"exit": 3}]), project) as coder:
        with anyio.fail_after(10), pytest.raises(errors.AcpAgentExited) as caught:
            await coder.generate("Hi.")
        assert clean(coder.stderr)
    error = caught.value
    assert clean(str(error))
    assert clean(error.stderr_tail)
    assert clean(str(error.output.error))


async def test_what_an_agent_says_on_stdout_before_it_exits_is_shown_without_secrets(
    fake: MakeFake, project: Path
) -> None:
    async with agent_of(fake([{"line": SECRETS}, {"exit": 3}]), project) as coder:
        with anyio.fail_after(10), pytest.raises(errors.AcpAgentExited) as caught:
            await coder.generate("Hi.")
    assert clean(str(caught.value))


async def test_the_errors_that_an_agent_answers_with_are_shown_without_secrets(fake: MakeFake, project: Path) -> None:
    answer = {"error": {"code": -32603, "message": "Internal error", "data": {"details": SECRETS}}}
    async with agent_of(fake([answer]), project) as coder:
        with anyio.fail_after(10), pytest.raises(errors.AcpRequestFailed) as caught:
            await coder.generate("Hi.")
    assert clean(str(caught.value))


async def test_an_agent_that_closes_its_output_and_stays_is_an_error(fake: MakeFake, project: Path) -> None:
    agent = fake([{"text": "half"}, {"close_stdout": True}])
    async with agent_of(agent, project) as coder:
        with anyio.fail_after(10), pytest.raises(errors.AcpAgentExited, match="closed its output"):
            await coder.generate("Hi.")
    assert alive(await agent.pids()) == []


async def test_after_a_crash_the_next_prompt_gets_a_fresh_process_and_a_warning(fake: MakeFake, project: Path) -> None:
    agent = fake([{"exit": 1}])
    async with agent_of(agent, project) as coder:
        with pytest.raises(errors.AcpAgentExited):
            await coder.generate("Hi.", memory=MEMORY)
        coder.config = AcpAgent(command=fake([{"text": "fresh"}]).command, cwd=project).config
        result = await coder.generate("Hi.", memory=MEMORY)
    assert result.text == "fresh"
    assert [warning.partition(":")[0] for warning in result.warnings] == ["session_not_resumed"]


async def test_an_agent_that_says_goodbye_on_stdout_and_exits_is_an_error_with_its_words(
    fake: MakeFake, project: Path
) -> None:
    agent = fake(before=[{"line": "This program is no longer maintained."}, {"exit": 0}])
    async with agent_of(agent, project) as coder:
        with anyio.fail_after(10), pytest.raises(errors.AcpAgentExited, match="no longer maintained") as caught:
            await coder.generate("Hi.")
    assert caught.value.exit_code == 0


@pytest.mark.requirement("F68")
async def test_a_missing_command_says_how_to_install_it(project: Path) -> None:
    async with AcpAgent("codex", command="no-such-agent --acp", cwd=project) as coder:
        with pytest.raises(errors.AcpCommandNotFound, match=r"'no-such-agent'.*npm install -g") as caught:
            await coder.generate("Hi.")
    assert isinstance(caught.value.output, FullOutput)
    assert caught.value.output.status == "failed"


async def test_a_missing_working_directory_is_named(fake: MakeFake, project: Path) -> None:
    async with agent_of(fake(), project / "missing") as coder:
        with pytest.raises(errors.AcpError, match="missing"):
            await coder.generate("Hi.")


async def test_an_agent_that_wants_a_login_names_its_methods(fake: MakeFake, project: Path) -> None:
    async with agent_of(fake(auth_methods=["oauth", "api-key"]), project) as coder:
        with pytest.raises(errors.AcpAuthRequired, match="oauth, api-key") as caught:
            await coder.generate("Hi.")
    assert caught.value.methods == ("oauth", "api-key")


async def test_another_protocol_version_is_refused(fake: MakeFake, project: Path) -> None:
    agent = fake(protocol_version=2)
    async with agent_of(agent, project) as coder:
        with pytest.raises(errors.AcpProtocolVersion, match="version 2"):
            await coder.generate("Hi.")
    assert await agent.received("session/new") == []


@pytest.mark.requirement("F70")
@pytest.mark.parametrize("method", ["initialize", "session/new"])
async def test_an_agent_that_does_not_start_in_time_is_ended(fake: MakeFake, project: Path, method: str) -> None:
    agent = fake(silent=[method])
    async with agent_of(agent, project, start_timeout=1.0) as coder:
        with anyio.fail_after(10), pytest.raises(errors.AcpTimeout, match=method) as caught:
            await coder.generate("Hi.")
    assert caught.value.what == method
    assert alive(await agent.pids()) == []


@pytest.mark.requirement("F70")
async def test_an_agent_without_progress_is_stopped(fake: MakeFake, project: Path) -> None:
    agent = fake([{"text": "half"}, {"wait_cancel": True}])
    async with agent_of(agent, project, idle_timeout=0.3) as coder:
        with anyio.fail_after(10), pytest.raises(errors.AcpTimeout, match="no progress") as caught:
            await coder.generate("Hi.")
    assert (caught.value.what, caught.value.output.text) == ("progress", "half")
    assert len(await agent.received("session/cancel")) == 1


async def test_an_agent_with_progress_is_not_stopped(fake: MakeFake, project: Path) -> None:
    busy = [{"text": "."}, {"sleep": 0.2}] * 6
    async with agent_of(fake(busy), project, idle_timeout=0.8) as coder:
        assert (await coder.generate("Hi.")).text == "......"


async def test_a_turn_that_takes_too_long_is_stopped_although_there_is_progress(fake: MakeFake, project: Path) -> None:
    busy = [{"text": "."}, {"sleep": 0.05}] * 200
    agent = fake(busy, [{"text": "next"}])
    async with agent_of(agent, project, turn_timeout=0.4) as coder:
        with anyio.fail_after(10), pytest.raises(errors.AcpTimeout, match="turn_timeout") as caught:
            await coder.generate("Hi.", memory=MEMORY)
        assert (await coder.generate("Hi.", memory=MEMORY)).text == "next"
    assert caught.value.what == "turn"
    assert len(await agent.received("initialize")) == 1


@pytest.mark.requirement("F36")
async def test_a_cancelled_run_ends_as_canceled_with_its_last_words_and_the_session_goes_on(
    fake: MakeFake, project: Path
) -> None:
    agent = fake([{"text": "half"}, {"wait_cancel": True}], [{"text": "next"}])
    token = CancelToken()
    async with agent_of(agent, project) as coder:
        output = await first_text(coder, memory=MEMORY, abort_signal=token)
        token.cancel("enough")
        with anyio.fail_after(10):
            chunks = [chunk async for chunk in output]
            result = await output
        assert (await coder.generate("Hi.", memory=MEMORY)).text == "next"
    assert [chunk.type for chunk in chunks][-3:] == ["abort", "step-finish", "finish"]
    assert (result.status, result.finish_reason, result.text) == ("canceled", "aborted", "half")
    assert (len(await agent.received("session/cancel")), len(await agent.received("session/new"))) == (1, 1)
    assert await agent.violations() == []


async def test_a_run_cancelled_before_it_starts_asks_the_agent_nothing(fake: MakeFake, project: Path) -> None:
    token = CancelToken()
    token.cancel("changed my mind")
    agent = fake()
    async with agent_of(agent, project) as coder:
        result = await coder.generate("Hi.", abort_signal=token)
    assert result.status == "canceled"
    assert await agent.received("session/prompt") == []


async def test_an_agent_that_ignores_the_request_to_stop_is_ended_and_replaced(fake: MakeFake, project: Path) -> None:
    agent = fake([{"text": "half"}, {"spawn": 300}, {"hang": True}], ignore_cancel=True)
    async with agent_of(agent, project, cancel_grace=0.3) as coder:
        output = await first_text(coder, memory=MEMORY)
        output.cancel("enough")
        with anyio.fail_after(10):
            result = await output
        first_pids = await agent.pids()
        assert result.status == "canceled"
        assert "did not stop within" in result.warnings[0]
        output = await first_text(coder, memory=MEMORY)
        assert alive(first_pids) == []
        assert [warning.partition(":")[0] for warning in output.snapshot().warnings] == ["session_not_resumed"]
        output.cancel()
        with anyio.fail_after(10):
            await output
    assert alive(await agent.pids()) == []


async def test_cancelling_the_awaiting_task_tells_the_agent_and_returns_at_once(fake: MakeFake, project: Path) -> None:
    agent = fake([{"text": "half"}, {"wait_cancel": True}], [{"text": "next"}])
    async with agent_of(agent, project) as coder:
        await coder.connect()
        async with anyio.create_task_group() as tasks:

            async def ask() -> None:
                await coder.generate("Hi.", memory=MEMORY)

            tasks.start_soon(ask)
            with anyio.fail_after(10):
                while not await agent.received("session/prompt"):  # noqa: ASYNC110  # another process has it
                    await anyio.sleep(0.01)
            tasks.cancel_scope.cancel()
        with anyio.fail_after(10):
            assert (await coder.generate("Hi.", memory=MEMORY)).text == "next"
    assert len(await agent.received("session/cancel")) == 1
    assert await agent.violations() == []


async def test_leaving_the_output_stops_the_run(fake: MakeFake, project: Path) -> None:
    agent = fake([{"text": "half"}, {"wait_cancel": True}])
    async with agent_of(agent, project) as coder:
        async with coder.stream("Hi.") as output:
            async for chunk in output:
                if chunk.type == "text-delta":
                    break
        assert output.status == "canceled"
    assert len(await agent.received("session/cancel")) == 1


@pytest.mark.requirement("F39")
@pytest.mark.parametrize("stubborn", [False, True], ids=["an obedient agent", "one that ignores everything"])
async def test_nothing_is_alive_after_close(fake: MakeFake, project: Path, stubborn: bool) -> None:
    agent = fake([{"spawn": 300}, {"spawn": 300, "holds_stdout": True}, {"text": "up"}], ignore_end_of_input=stubborn)
    async with agent_of(agent, project) as coder:
        await coder.generate("Hi.")
        assert len(alive(await agent.pids())) == 3
    assert alive(await agent.pids()) == []


async def test_nothing_is_alive_after_an_exception(fake: MakeFake, project: Path) -> None:
    agent = fake([{"spawn": 300}, {"text": "up"}])
    with suppress(ZeroDivisionError):
        async with agent_of(agent, project) as coder:
            await coder.generate("Hi.")
            assert len(alive(await agent.pids())) == 2
            raise ZeroDivisionError
    assert alive(await agent.pids()) == []


async def test_closing_ends_the_run_that_is_going_on(fake: MakeFake, project: Path) -> None:
    agent = fake([{"text": "half"}, {"hang": True}], ignore_cancel=True)
    coder = agent_of(agent, project)
    output = await first_text(coder)
    with anyio.fail_after(10):
        await coder.aclose()
        with pytest.raises(errors.AcpError, match="was closed") as caught:
            await output
    assert caught.value.output.text == "half"


async def test_a_closed_agent_can_be_used_again(fake: MakeFake, project: Path) -> None:
    coder = agent_of(fake(), project)
    for _ in range(2):
        async with coder:
            assert (await coder.generate("Hi.")).text == "ok"


def test_an_agent_can_be_used_in_one_event_loop_after_another(fake: MakeFake, project: Path) -> None:
    agent = fake()
    coder = agent_of(agent, project)

    async def once() -> str:
        return (await coder.generate("Hi.", memory=MEMORY)).text

    assert [anyio.run(once), anyio.run(once)] == ["ok", "ok"]
    assert alive(anyio.run(agent.pids)) == []
