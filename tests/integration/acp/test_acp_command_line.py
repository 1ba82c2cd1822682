"""`bascule acp` as a person or a script uses it."""

import json
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from bascule.testing import FakeAcpAgent

MakeFake = Callable[..., FakeAcpAgent]
CALL = {"toolCallId": "c1", "title": "Write note.txt", "kind": "edit"}


def bascule(*arguments: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-c", "from bascule.cli import main; main()", "acp", *arguments]
    return subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=20, check=False)


def run(fake: FakeAcpAgent, project: Path, *options: str) -> "subprocess.CompletedProcess[str]":
    return bascule("run", "codex", "Do it.", "--command", shlex.join(fake.command), "--cwd", str(project), *options)


def edit(project: Path) -> list[dict[str, object]]:
    write = {"write": {"path": str(project / "note.txt"), "content": "after"}}
    return [
        {"text": "I will. "},
        {"permission": {"toolCall": CALL}, "on_allow": [write, {"text": "changed"}], "on_reject": [{"text": "left"}]},
    ]


def test_the_list_names_every_preset_and_how_to_install_it() -> None:
    done = bascule("list")
    assert done.returncode == 0
    assert [line.split()[0] for line in done.stdout.splitlines()] == ["claude-code", "codex", "gemini", "opencode"]


def test_a_check_says_what_the_agent_can_do(fake: MakeFake) -> None:
    agent = fake(capabilities={"promptCapabilities": {"image": True}})
    done = bascule("check", "mine", "--command", shlex.join(agent.command))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        "mine: Fake agent 1.0",
        "prompts:  text, links, image",
        "sessions: yes",
    ]


def test_a_check_of_an_agent_that_wants_a_login_fails_and_names_the_logins(fake: MakeFake) -> None:
    done = bascule("check", "mine", "--command", shlex.join(fake(auth_methods=["oauth"]).command))
    assert done.returncode == 1
    assert "logins:   oauth" in done.stdout
    assert "wants a login first" in done.stderr


@pytest.mark.parametrize("name", ["claude-code", "nope"])
def test_a_missing_agent_is_one_readable_line(name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin")
    done = bascule("run", name, "Do it.")
    assert (done.returncode, done.stdout) == (1, "")
    [line] = done.stderr.splitlines()
    assert ("npm install" if name == "claude-code" else "Known are claude-code") in line


def test_the_answer_is_on_stdout_and_everything_else_on_stderr(fake: MakeFake, project: Path) -> None:
    done = run(fake(edit(project)), project, "--permissions", "allow")
    assert (done.returncode, done.stdout) == (0, "I will. changed\n")
    assert "- Write note.txt" in done.stderr
    assert (project / "note.txt").read_text(encoding="utf-8") == "after"


@pytest.mark.parametrize("options", [(), ("--permissions", "deny")], ids=["ask without a terminal", "deny"])
def test_without_permission_nothing_is_changed_and_a_warning_says_so(
    fake: MakeFake, project: Path, options: tuple[str, ...]
) -> None:
    done = run(fake(edit(project)), project, *options)
    assert (done.returncode, done.stdout) == (0, "I will. left\n")
    assert "warning: " in done.stderr
    assert not (project / "note.txt").exists()


def test_the_result_as_json(fake: MakeFake, project: Path) -> None:
    done = run(fake(edit(project)), project, "--permissions", "allow", "--json")
    result = json.loads(done.stdout)
    assert (result["status"], result["text"]) == ("success", "I will. changed")
    assert (result["filesChanged"], result["error"]) == ([str(project / "note.txt")], None)


def test_an_agent_that_dies_is_an_error_after_its_last_words(fake: MakeFake, project: Path) -> None:
    agent = fake([{"text": "half"}, {"stderr": "out of luck"}, {"exit": 3}])
    done = run(agent, project)
    assert (done.returncode, done.stdout) == (1, "half\n")
    assert "exited with code 3" in done.stderr
    assert "Traceback" not in done.stderr
    assert json.loads(run(agent, project, "--json").stdout)["status"] == "failed"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_the_agent_and_leaves_nothing_running(
    fake: MakeFake, project: Path, number: signal.Signals
) -> None:
    agent = fake([{"spawn": 300}, {"text": "begun\n"}, {"wait_cancel": True}])
    arguments = ["run", "mine", "Do it.", "--command", shlex.join(agent.command), "--cwd", str(project)]
    command = [sys.executable, "-c", "from bascule.cli import main; main()", "acp", *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "begun\n"
        process.send_signal(number)
        _, errors = process.communicate(timeout=15)
    assert process.returncode == 130
    assert "Traceback" not in errors
    log = [json.loads(line) for line in (project.parent / "agent.log").read_text(encoding="utf-8").splitlines()]
    for pid in [entry["pid"] for entry in log if "pid" in entry]:
        assert not Path(f"/proc/{pid}/cmdline").exists() or not Path(f"/proc/{pid}/cmdline").read_bytes()
