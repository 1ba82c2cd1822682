"""A real coding agent behind the bridge: it changes a file when it may, and does not when it may not.

The agent talks to a scripted model on loopback and wants to write one file. Everything that it starts inherits a mark
in its environment, by which the test finds what is still alive afterwards.
"""

import json
import shlex
import uuid
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from bascule import AcpAgent
from tests.acceptance.conftest import Program
from tests.acceptance.harness.dialects import ToolUse
from tests.acceptance.harness.processes import Finished, alive_with, started
from tests.acceptance.harness.surroundings import BASCULE, Surroundings
from tests.acceptance.model_server import Model, model_server

pytestmark = pytest.mark.peers

TASK = "Change the note."
BEFORE = "before\n"
AFTER = "after\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """A coding agent, its model and the file that it is after."""

    command: str
    environment: Mapping[str, str]
    mark: str
    note: Path
    model: Model


def opencode_settings(model_url: str) -> str:
    """Settings that name the scripted model and make the agent ask before it edits."""
    model = {"name": "loopback", "tool_call": True, "limit": {"context": 100_000, "output": 4_000}}
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "name": "Loopback",
        "options": {"baseURL": f"{model_url}/v1", "apiKey": "none"},
        "models": {"loopback": model},
    }
    return json.dumps(
        {
            "model": "loop/loopback",
            "small_model": "loop/loopback",
            "permission": {"edit": "ask", "bash": "ask"},
            "provider": {"loop": provider},
        }
    )


@pytest.fixture
def bench(program: Program, surroundings: Surroundings) -> Generator[Bench]:
    command = program("opencode")
    note = surroundings.project / "note.txt"
    note.write_text(BEFORE, encoding="utf-8")
    settings = surroundings.home / ".config" / "opencode" / "opencode.json"
    settings.parent.mkdir(parents=True)
    mark = uuid.uuid4().hex
    with model_server(ToolUse("write", {"filePath": str(note), "content": AFTER})) as model:
        settings.write_text(opencode_settings(model.url), encoding="utf-8")
        yield Bench(
            command=shlex.join([*command, "acp"]),
            environment=surroundings.environment(
                OPENCODE_DISABLE_AUTOUPDATE="1", OPENCODE_DISABLE_MODELS_FETCH="1", BASCULE_TEST_MARK=mark
            ),
            mark=mark,
            note=note,
            model=model,
        )


def run_task(bench: Bench, permissions: str) -> tuple[Finished, list[int]]:
    """Give the task to the agent on the command line; return how that ended and who was left behind."""
    options = ["--cwd", str(bench.note.parent), "--permissions", permissions, "--command", bench.command]
    arguments = [BASCULE, "acp", "run", "opencode", TASK, *options]
    with started(arguments, env=bench.environment, cwd=bench.note.parent) as running:
        done = running.wait(180)
        return done, alive_with(bench.mark)


def agent_of(bench: Bench) -> AcpAgent:
    """The agent as a program would make it; it asks before it does anything."""
    return AcpAgent(
        "opencode",
        command=bench.command,
        env=bench.environment,
        cwd=bench.note.parent,
        permissions="ask",
    )


@pytest.mark.requirement("F48")
def test_on_the_command_line_the_agent_edits_the_file_when_that_is_allowed(bench: Bench) -> None:
    done, left_behind = run_task(bench, "allow")
    assert done.exit_code == 0, done.describe()
    assert bench.note.read_text(encoding="utf-8") == AFTER, done.describe()
    assert bench.model.results[0] in done.stdout
    assert left_behind == []


@pytest.mark.requirement("F48")
def test_on_the_command_line_the_file_stays_as_it_was_when_that_is_denied(bench: Bench) -> None:
    done, left_behind = run_task(bench, "deny")
    assert bench.model.requests, done.describe()
    assert bench.note.read_text(encoding="utf-8") == BEFORE, done.describe()
    assert left_behind == []


@pytest.mark.requirement("F48")
async def test_the_agent_waits_for_the_decision_and_edits_the_file_once_it_is_granted(bench: Bench) -> None:
    async with agent_of(bench) as agent:
        waiting = await agent.generate(TASK)
        assert (waiting.status, bench.note.read_text(encoding="utf-8")) == ("suspended", BEFORE)
        done = await agent.approve_tool_call(run_id=waiting.run_id)
    assert done.status == "success"
    assert bench.note.read_text(encoding="utf-8") == AFTER
    assert alive_with(bench.mark) == []


@pytest.mark.requirement("F48")
async def test_the_agent_waits_for_the_decision_and_leaves_the_file_once_it_is_declined(bench: Bench) -> None:
    async with agent_of(bench) as agent:
        waiting = await agent.generate(TASK)
        assert waiting.status == "suspended"
        await agent.decline_tool_call(run_id=waiting.run_id)
    assert bench.note.read_text(encoding="utf-8") == BEFORE
    assert alive_with(bench.mark) == []
