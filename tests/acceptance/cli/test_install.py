"""Telling clients about an app, with a home of its own and nothing beyond it."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.cli.claude_stand_in import claude_in
from tests.acceptance.harness.processes import Finished, run_to_end
from tests.acceptance.harness.served import bascule
from tests.acceptance.harness.surroundings import BASCULE, Surroundings

pytestmark = pytest.mark.timeout(90)


def config(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def entry_for(app: Path) -> dict[str, Any]:
    python = str(Path(BASCULE).with_name("python"))
    return {"command": python, "args": ["-m", "bascule", "run", str(app)]}


@pytest.mark.requirement("C04", "F41")
def test_cursor_gets_an_entry_that_was_started_as_cursor_starts_it(app: Path, surroundings: Surroundings) -> None:
    file = surroundings.home / ".cursor" / "mcp.json"
    file.parent.mkdir()
    file.write_text('{"mcpServers": {"other": {"url": "http://127.0.0.1:1/mcp"}}}', encoding="utf-8")
    done = bascule("install", "cursor", "app.py", surroundings=surroundings)
    assert done.exit_code == 0, done.describe()
    found = config(file)["mcpServers"]
    assert found == {"other": {"url": "http://127.0.0.1:1/mcp"}, "app": entry_for(app)}
    assert "tools: add, count, fail, ask_tutor" in done.stderr
    assert "cursor://anysphere.cursor-deeplink/mcp/install?name=app&config=" in done.stdout


@pytest.mark.usefixtures("app")
@pytest.mark.requirement("F41")
def test_installing_twice_changes_nothing_and_removing_leaves_nothing(surroundings: Surroundings) -> None:
    file = surroundings.home / ".cursor" / "mcp.json"
    bascule("install", "cursor", "app.py", "--name", "sums", surroundings=surroundings)
    before = file.read_bytes(), file.stat().st_mtime_ns
    again = bascule("install", "cursor", "app.py", "--name", "sums", surroundings=surroundings)
    assert "already" in again.stdout
    assert (file.read_bytes(), file.stat().st_mtime_ns) == before
    checked = bascule("install", "cursor", "app.py", "--name", "sums", "--check", surroundings=surroundings)
    assert checked.exit_code == 0, checked.describe()
    assert "works" in checked.stdout
    removed = bascule("install", "cursor", "app.py", "--name", "sums", "--remove", surroundings=surroundings)
    assert removed.exit_code == 0
    assert config(file) == {"mcpServers": {}}
    once_more = bascule("install", "cursor", "app.py", "--name", "sums", "--remove", surroundings=surroundings)
    assert once_more.exit_code == 0
    assert "is not installed" in once_more.stdout


@pytest.mark.usefixtures("app")
def test_a_project_gets_an_entry_of_its_own(surroundings: Surroundings) -> None:
    for client, place in (("claude-code", ".mcp.json"), ("cursor", ".cursor/mcp.json")):
        done = bascule("install", client, "app.py", "--project", surroundings=surroundings)
        assert done.exit_code == 0, done.describe()
        assert "app" in config(surroundings.project / place)["mcpServers"]
    assert list(surroundings.home.glob(".c*")) == []


@pytest.mark.requirement("F41")
def test_json_prints_an_entry_and_nothing_else(app: Path, surroundings: Surroundings) -> None:
    done = bascule("install", "json", "app.py", surroundings=surroundings)
    assert json.loads(done.stdout) == {"mcpServers": {"app": entry_for(app)}}
    refused = bascule("install", "json", "app.py", "--check", surroundings=surroundings)
    assert refused.exit_code == 2


def with_claude(surroundings: Surroundings, *arguments: str, **extra: str) -> Finished:
    folder = claude_in(surroundings.root / "bin")
    environment = surroundings.environment(PATH=f"{folder}{os.pathsep}{os.defpath}", **extra)
    command = [BASCULE, "install", "claude-code", *arguments]
    return run_to_end(command, env=environment, cwd=surroundings.project, timeout=60)


@pytest.mark.requirement("F41")
def test_claude_code_is_told_through_its_own_command(app: Path, surroundings: Surroundings) -> None:
    state = surroundings.home / ".claude.json"
    done = with_claude(surroundings, "app.py")
    assert done.exit_code == 0, done.describe()
    assert config(state) == {"state": 1, "mcpServers": {"app": {"type": "stdio", **entry_for(app)}}}
    assert "already" in with_claude(surroundings, "app.py").stdout
    moved = surroundings.project / "moved.py"
    app.rename(moved)
    replaced = with_claude(surroundings, "moved.py", "--name", "app")
    assert "replaced" in replaced.stdout, replaced.describe()
    assert config(state)["mcpServers"]["app"]["args"][-1] == str(moved)
    assert with_claude(surroundings, "moved.py", "--name", "app", "--check").exit_code == 0
    assert with_claude(surroundings, "moved.py", "--name", "app", "--remove").exit_code == 0
    assert config(state)["mcpServers"] == {}


@pytest.mark.usefixtures("app")
def test_a_command_of_claude_that_fails_is_reported(surroundings: Surroundings) -> None:
    done = with_claude(surroundings, "app.py", CLAUDE_FAILS="add-json")
    assert done.exit_code == 1
    assert done.stderr.splitlines()[-1] == "Error: `claude mcp add-json` failed with status 1: out of order"


@pytest.mark.usefixtures("app")
@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["claude-code", "app.py"], "'claude' is not on the search path"),
        (["cursor", "nothing.py"], "There is no file nothing.py"),
        (["cursor", "app.py", "--name", "a b"], "'a_b'"),
        (["cursor", "app.py", "--name", "x" * 56], "clients put"),
        (["cursor", "app.py", "--check"], "is not installed"),
        (["cursor", "app.py", "--check", "--remove"], "cannot be used together"),
        (["cursor", "app.py", "--with", "rich"], "needs uvx"),
        (["vim", "app.py"], "vim"),
    ],
)
def test_what_cannot_be_installed_is_refused_and_nothing_is_written(
    arguments: list[str], told: str, surroundings: Surroundings
) -> None:
    environment = surroundings.environment(PATH=str(surroundings.project))
    done = run_to_end([BASCULE, "install", *arguments], env=environment, cwd=surroundings.project, timeout=60)
    assert done.exit_code not in (0, None)
    assert told in done.stderr.replace("would need uvx", "needs uvx"), done.describe()
    assert "Traceback" not in done.stderr
    assert list(surroundings.home.iterdir()) == [] or not (surroundings.home / ".cursor").exists()


def test_an_app_that_does_not_start_is_not_installed(surroundings: Surroundings) -> None:
    (surroundings.project / "broken.py").write_text("import nothing_of_that_name\n", encoding="utf-8")
    done = bascule("install", "cursor", "broken.py", surroundings=surroundings)
    assert done.exit_code == 1
    assert "No module named 'nothing_of_that_name'" in done.stderr
    assert not (surroundings.home / ".cursor").exists()


@pytest.mark.usefixtures("app")
def test_a_config_that_is_no_json_and_a_server_of_others_are_left_alone(surroundings: Surroundings) -> None:
    file = surroundings.home / ".cursor" / "mcp.json"
    file.parent.mkdir()
    for text, told in (
        ('{"mcpServers": {,}}', "is not JSON"),
        ('{"mcpServers": {"app": {"command": "npx"}}}', "does not run bascule"),
    ):
        file.write_text(text, encoding="utf-8")
        for option in ([], ["--remove"]):
            done = bascule("install", "cursor", "app.py", *option, surroundings=surroundings)
            assert done.exit_code == 1
            assert told in done.stderr
            assert file.read_text(encoding="utf-8") == text


@pytest.mark.usefixtures("app")
def test_check_fails_with_what_the_server_said_when_the_app_is_gone(surroundings: Surroundings) -> None:
    bascule("install", "cursor", "app.py", surroundings=surroundings)
    (surroundings.project / "app.py").write_text("raise RuntimeError('no longer')\n", encoding="utf-8")
    done = bascule("install", "cursor", "app.py", "--check", surroundings=surroundings)
    assert done.exit_code == 1
    assert "RuntimeError: no longer" in done.stderr
