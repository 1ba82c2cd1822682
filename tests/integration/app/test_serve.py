"""``bascule serve`` as a process: what it says, what it refuses, and how it ends."""

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path

import anyio
import httpx
import pytest

from bascule import Bascule
from bascule.cli._load import load_app
from bascule.settings import Settings

QUICKSTART = Path(__file__).parents[3] / "examples" / "quickstart.py"

ACCEPT = {"accept": "application/json, text/event-stream", "content-type": "application/json"}


class Server:
    """A running ``bascule serve``."""

    def __init__(self, process: "subprocess.Popen[str]", banner: str) -> None:
        self.process = process
        self.banner = banner
        found = re.search(r"MCP +(https?://\S+)/mcp", banner)
        assert found is not None, banner
        self.url = found[1]


@contextmanager
def serving(data: Path, *arguments: str, environ: Mapping[str, str] | None = None, port: int = 0) -> Generator[Server]:
    command = [sys.executable, "-m", "bascule", "serve", *arguments, "--port", str(port)]
    env = {**os.environ, "BASCULE_DATA": str(data), **(environ or {})}
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env) as process:
        assert process.stderr is not None
        banner = ""
        for line in process.stderr:
            banner += line
            if "bascule inspect http" in line:
                break
        try:
            yield Server(process, banner)
        finally:
            if process.poll() is None:
                process.kill()


@pytest.mark.requirement("F14", "F17")
def test_it_says_where_it_listens_and_how_to_connect_and_answers_there(tmp_path: Path) -> None:
    with serving(tmp_path, str(QUICKSTART)) as server:
        assert "add, ask_tutor, run_order" in server.banner
        assert f"claude mcp add --transport http quickstart {server.url}/mcp" in server.banner
        assert httpx.get(f"{server.url}/healthz").status_code == 200
        assert httpx.get(f"{server.url}/readyz").status_code == 200
        body = {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "tools/call",
            "params": {"name": "add", "arguments": {"a": 1, "b": 2}},
        }
        for path in ("/mcp", "/mcp/"):
            answer = httpx.post(server.url + path, json=body, headers=ACCEPT, follow_redirects=False)
            assert answer.status_code == 200
            assert '"text":"3"' in answer.text


@pytest.mark.requirement("F16")
def test_sigterm_ends_it_with_status_0_and_without_a_traceback(tmp_path: Path) -> None:
    with serving(tmp_path, str(QUICKSTART)) as server:
        listen: dict[str, object] = {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "subscriptions/listen",
            "params": {
                "notifications": {"toolsListChanged": True},
                "_meta": {
                    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                    "io.modelcontextprotocol/clientCapabilities": dict[str, object](),
                },
            },
        }
        headers = {**ACCEPT, "mcp-protocol-version": "2026-07-28", "mcp-method": "subscriptions/listen"}
        with httpx.stream("POST", f"{server.url}/mcp", json=listen, headers=headers, timeout=30) as stream:
            lines = stream.iter_lines()
            assert stream.status_code == 200
            first = next(line for line in lines if line.startswith("data:"))
            assert "acknowledged" in first
            server.process.send_signal(signal.SIGTERM)
            list(lines)  # the stream is closed properly: reading on raises nothing
        assert server.process.wait(timeout=15) == 0
        assert server.process.stderr is not None
        assert "Traceback" not in server.process.stderr.read()


@pytest.mark.requirement("F57")
def test_a_port_in_use_is_named_with_a_way_out() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = refused(str(QUICKSTART), "--port", str(port))
    assert f"Another process listens on port {port}" in done.stderr
    assert f"--port {port + 1}" in done.stderr


def refused(*arguments: str, environ: Mapping[str, str] | None = None) -> "subprocess.CompletedProcess[str]":
    done = subprocess.run(
        [sys.executable, "-m", "bascule", "serve", *arguments],
        capture_output=True,
        check=False,
        text=True,
        timeout=60,
        env={**os.environ, **(environ or {})},
    )
    assert done.returncode in (1, 2)
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    return done


@pytest.mark.requirement("F58")
def test_a_database_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    done = refused(str(QUICKSTART), "--port", "0", environ={"BASCULE_STORAGE": f"sqlite:///{blocked}/app.db"})
    assert f"The folder {blocked} for the database app.db cannot be created" in done.stderr


def test_something_that_is_no_database_is_left_alone(tmp_path: Path) -> None:
    other = tmp_path / "notes.db"
    other.write_text("these are my notes, not a database\n" * 100)
    done = refused(str(QUICKSTART), "--port", "0", environ={"BASCULE_STORAGE": f"sqlite:///{other}"})
    assert str(other) in done.stderr
    assert other.read_text().startswith("these are my notes")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "Nothing to serve. Name a file, or use --agent CARD.md or --acp NAME."),
        ((str(QUICKSTART), "--jwt-jwks", "https://id.example/jwks"), "--jwt-jwks needs --issuer"),
        ((str(QUICKSTART), "--issuer", "x"), "need --jwt-jwks"),
        ((str(QUICKSTART), "--auth", "dev", "--host", "0.0.0.0"), "0.0.0.0"),
        ((str(QUICKSTART), "--port", "70000"), "give a port number from 0 to 65535"),
        ((str(QUICKSTART), "--agent", "nowhere.md"), "nowhere.md"),
        (("--acp", "nobody"), "nobody"),
        ((str(QUICKSTART), "--host", "0.0.0.0"), "nothing checks who calls"),
        ((str(QUICKSTART), "--auth", "none", "--jwt-jwks", "https://id.example/jwks"), "cannot be used together"),
    ],
)
def test_flags_that_cannot_work_are_refused(arguments: tuple[str, ...], said: str) -> None:
    assert said in refused(*arguments).stderr


@pytest.mark.requirement("F33")
def test_with_dev_auth_only_a_token_from_the_command_line_opens_it(tmp_path: Path) -> None:
    with serving(tmp_path, str(QUICKSTART), "--auth", "dev") as server:
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
        refusal = httpx.post(f"{server.url}/mcp", json=body, headers=ACCEPT)
        assert refusal.status_code == 401
        assert "resource_metadata=" in refusal.headers["www-authenticate"]
        token = subprocess.run(
            [sys.executable, "-m", "bascule", "auth", "token", "--sub", "me"],
            capture_output=True,
            check=True,
            text=True,
            env={**os.environ, "BASCULE_DATA": str(tmp_path)},
        ).stdout.strip()
        answer = httpx.post(f"{server.url}/mcp", json=body, headers={**ACCEPT, "authorization": f"Bearer {token}"})
        assert answer.status_code == 200


def test_apps_of_one_name_do_not_share_conversations(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BASCULE_DATA", str(tmp_path / "data"))

    async def threads(app: Bascule) -> int:
        async with app:
            await app.memory.create_thread(resource_id="me")
            return (await app.memory.list_threads(resource_id="me")).total

    seen: list[int] = []
    for folder in ("one", "two", "one"):
        app = load_app(str(copied(tmp_path / folder)), Settings())
        app.keep_in_data_folder()
        seen.append(anyio.run(threads, app))
    assert seen == [1, 1, 2]


def copied(folder: Path) -> Path:
    folder.mkdir(exist_ok=True)
    target = folder / "app.py"
    target.write_text(QUICKSTART.read_text(encoding="utf-8"), encoding="utf-8")
    return target


def test_conversations_survive_a_restart(tmp_path: Path) -> None:
    def ask(server: Server, name: str, arguments: dict[str, str]) -> str:
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": name, "arguments": arguments}}
        return httpx.post(f"{server.url}/mcp", json=body, headers=ACCEPT, timeout=30).text

    with serving(tmp_path, str(QUICKSTART)) as server:
        assert "5" in ask(server, "ask_tutor", {"message": "add 2 and 3", "thread_id": "sums"})
    with serving(tmp_path, str(QUICKSTART)) as server:
        told = ask(server, "memory_read_thread", {"thread_id": "sums"})
    assert "add 2 and 3" in told


@pytest.mark.requirement("F15")
def test_behind_a_proxy_it_answers_to_the_name_of_its_base_url_and_to_no_other(tmp_path: Path) -> None:
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with serving(tmp_path, str(QUICKSTART), "--base-url", "https://tools.example.org", port=port):
        for host, status in (("tools.example.org", 200), (f"localhost:{port}", 200), ("evil.example.org", 421)):
            answer = httpx.post(f"http://127.0.0.1:{port}/mcp", json=body, headers={**ACCEPT, "host": host})
            assert answer.status_code == status, host


def test_what_a_file_prints_goes_to_stderr(tmp_path: Path) -> None:
    app = tmp_path / "loud.py"
    app.write_text("print('loud at import')\nfrom bascule import tool\n@tool\ndef quiet() -> str:\n    'Be quiet.'\n")
    with serving(tmp_path, str(app)) as server:
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(timeout=15) == 0
        assert server.process.stdout is not None
        assert server.process.stdout.read() == ""
    assert "loud at import" in server.banner


def test_a_coding_agent_that_is_not_installed_is_said_at_the_start(tmp_path: Path) -> None:
    with serving(tmp_path, "--acp", "codex", environ={"PATH": "/nowhere"}) as server:
        assert "is not installed, so ask_codex cannot answer" in server.banner


def test_a_model_that_cannot_be_found_is_named_at_the_start() -> None:
    done = refused(str(QUICKSTART), "--port", "0", environ={"BASCULE_MODEL": "nowhere/small"})
    assert "nowhere" in done.stderr


def test_an_app_open_to_anyone_is_served_to_other_machines_when_that_is_said(tmp_path: Path) -> None:
    with serving(tmp_path, str(QUICKSTART), "--host", "0.0.0.0", "--auth", "none") as server:
        assert httpx.get(f"{server.url}/healthz").status_code == 200
