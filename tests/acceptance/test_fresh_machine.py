"""What a newcomer types first: the package alone in a new environment, and `make run` in a fresh clone."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.acceptance.harness.processes import run_to_end, started
from tests.acceptance.harness.programs import REPOSITORY
from tests.acceptance.harness.served import answers
from tests.acceptance.harness.surroundings import Surroundings, free_port

TWO_LINES = """
from bascule import tool

@tool
def add(a: int, b: int) -> int:
    "Add two numbers."
    return a + b
"""
INSTALL = 240
REQUESTS = [
    {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},
    },
    {"jsonrpc": "2.0", "method": "notifications/initialized"},
    {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "add", "arguments": {"a": 2, "b": 3}}},
]


def with_packages(surroundings: Surroundings) -> Mapping[str, str]:
    """An empty home that still finds the machine's package index."""
    kept = {name: value for name, value in os.environ.items() if name.startswith(("PIP_", "UV_", "SSL_"))}
    for name in (".config/pip", ".pip"):
        settings = Path.home() / name
        if settings.is_dir():
            shutil.copytree(settings, surroundings.home / name, dirs_exist_ok=True)
    return {**surroundings.environment(), "UV_SYSTEM_CERTS": "1", **kept, "HTTP_PROXY": "", "HTTPS_PROXY": ""}


def installed(target: Path, *packages: str, env: Mapping[str, str], where: Path) -> Path:
    """A new environment with the packages in it, and its folder of commands."""
    subprocess.run([sys.executable, "-m", "venv", str(target)], check=True, env=dict(env))
    pip = [str(target / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    done = run_to_end([*pip, *packages], env=env, cwd=where, timeout=INSTALL)
    if done.exit_code != 0:
        pytest.skip(f"NOT RUN: {' '.join(packages)} cannot be installed: {done.stderr.strip()[-300:]}")
    return target / "bin"


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package as it is uploaded."""
    folder = tmp_path_factory.mktemp("wheel")
    command = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--quiet",
        "--no-deps",
        "--wheel-dir",
        str(folder),
        str(REPOSITORY),
    ]
    subprocess.run(command, check=True, timeout=INSTALL)
    return next(folder.glob("bascule-*.whl"))


def answers_over_stdio(*command: str, surroundings: Surroundings, env: Mapping[str, str]) -> list[dict[str, object]]:
    """What a stdio server writes for the requests, line by line."""
    lines = "".join(json.dumps(request) + "\n" for request in REQUESTS)
    done = subprocess.run(
        command,
        input=lines,
        capture_output=True,
        text=True,
        check=False,
        timeout=INSTALL,
        env=dict(env),
        cwd=surroundings.project,
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def assert_adds(replies: list[dict[str, object]]) -> None:
    assert [reply["id"] for reply in replies] == [1, 2]
    assert '"text": "5"' in json.dumps(replies[1])


@pytest.mark.requirement("F03")
def test_the_wheel_alone_gives_a_working_command(wheel: Path, surroundings: Surroundings) -> None:
    env = with_packages(surroundings)
    commands = installed(surroundings.root / "venv", str(wheel), env=env, where=surroundings.project)
    help_text = run_to_end([str(commands / "bascule"), "--help"], env=env, cwd=surroundings.project, timeout=60)
    assert help_text.exit_code == 0
    assert "serve" in help_text.stdout
    app = surroundings.project / "app.py"
    app.write_text(TWO_LINES, encoding="utf-8")
    assert_adds(answers_over_stdio(str(commands / "bascule"), "run", "app.py", surroundings=surroundings, env=env))


@pytest.mark.requirement("F03")
def test_uvx_runs_the_wheel(wheel: Path, surroundings: Surroundings) -> None:
    env = with_packages(surroundings)
    uvx = installed(surroundings.root / "uv", "uv", env=env, where=surroundings.project) / "uvx"
    app = surroundings.project / "app.py"
    app.write_text(TWO_LINES, encoding="utf-8")
    command = [str(uvx), "--python", sys.executable, "--from", str(wheel), "bascule", "run", str(app)]
    assert_adds(answers_over_stdio(*command, surroundings=surroundings, env=env))


@pytest.mark.requirement("F01")
def test_make_run_serves_the_quickstart_in_a_fresh_clone(surroundings: Surroundings) -> None:
    env = {**with_packages(surroundings), "PYTHON": sys.executable}
    clone = surroundings.root / "clone"
    subprocess.run(["git", "clone", "--quiet", str(REPOSITORY), str(clone)], check=True, env=env)
    port = free_port()
    with started(["make", "run", f"PORT={port}", f"PYTHON={sys.executable}"], env=env, cwd=clone) as process:
        url = f"http://127.0.0.1:{port}/healthz"
        process.wait_until(lambda: answers(url), what="the health check answered", timeout=INSTALL)
        assert "ask_tutor" in process.stderr
