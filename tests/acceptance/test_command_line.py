"""The commands a user types before any client is involved, and the one that tells a client where to find the server."""

import os
from pathlib import Path

import pytest

from tests.acceptance.conftest import Program
from tests.acceptance.harness.processes import run_to_end
from tests.acceptance.harness.served import QUICKSTART, bascule, serving
from tests.acceptance.harness.surroundings import BASCULE, Surroundings


@pytest.mark.parametrize("target", ["file", "url"])
def test_a_tool_is_called_and_the_app_looked_at_from_the_command_line(surroundings: Surroundings, target: str) -> None:
    with serving(QUICKSTART, surroundings=surroundings) as served:
        where = QUICKSTART if target == "file" else served.mcp_url
        called = bascule("call", where, "add", "a=2", "b=3", surroundings=surroundings)
        looked = bascule("inspect", where, surroundings=surroundings)
    assert called.exit_code == 0, called.describe()
    assert called.stdout.strip() == "5"
    assert looked.exit_code == 0, looked.describe()
    assert "add" in looked.stdout
    assert "ask_tutor" in looked.stdout


def test_the_server_ends_in_order_when_it_is_told_to(surroundings: Surroundings) -> None:
    with serving(QUICKSTART, surroundings=surroundings) as served:
        done = served.process.terminate()
    assert done.exit_code == 0, done.describe()
    assert "Traceback" not in done.stderr


def test_installing_into_claude_code_makes_it_connect(program: Program, surroundings: Surroundings) -> None:
    claude = Path(program("claude-code")[0])
    environment = surroundings.environment(
        PATH=f"{claude.parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}",
        CLAUDE_CONFIG_DIR=str(surroundings.home / ".claude"),
        CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC="1",
        DISABLE_AUTOUPDATER="1",
        DISABLE_TELEMETRY="1",
    )
    installed = run_to_end(
        [BASCULE, "install", "claude-code", QUICKSTART, "--name", "sums"],
        env=environment,
        cwd=surroundings.project,
        timeout=60,
    )
    assert installed.exit_code == 0, installed.describe()
    listed = run_to_end([str(claude), "mcp", "list"], env=environment, cwd=surroundings.project, timeout=60)
    (line,) = [line for line in listed.stdout.splitlines() if line.startswith("sums:")]
    assert line.endswith("Connected"), listed.describe()
