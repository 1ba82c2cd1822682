"""Finding out what is wrong."""

import json
import socket
import threading
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.acceptance.harness.processes import Finished, run_to_end
from tests.acceptance.harness.served import bascule, serving
from tests.acceptance.harness.surroundings import BASCULE, Surroundings, free_port

pytestmark = pytest.mark.timeout(90)


def states(done: Finished) -> list[str]:
    return [line.split()[0] for line in done.stdout.splitlines()]


def doctor(surroundings: Surroundings, *arguments: str, **extra: str) -> Finished:
    environment = surroundings.environment(**{"BASCULE_PORT": str(free_port()), **extra})
    return run_to_end([BASCULE, "doctor", *arguments], env=environment, cwd=surroundings.project, timeout=60)


@pytest.mark.requirement("F42")
def test_a_healthy_machine_and_app_have_nothing_that_failed(app: Path, surroundings: Surroundings) -> None:
    done = doctor(surroundings, str(app))
    assert done.exit_code == 0, done.describe()
    assert set(states(done)) <= {"ok", "note"}
    for told in (
        "Python 3.",
        "packages: bascule",
        "data folder",
        "is free",
        "stdout holds messages only",
        "2026-07-28",
    ):
        assert told in done.stdout
    assert "every tool's name fits behind mcp__app__" in done.stdout


def test_a_port_in_use_and_a_folder_that_cannot_be_written_are_named(surroundings: Surroundings) -> None:
    (surroundings.root / "file").write_text("", encoding="utf-8")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        done = doctor(surroundings, BASCULE_PORT=port, BASCULE_DATA=str(surroundings.root / "file" / "data"))
    assert done.exit_code == 1
    lines = done.stdout.splitlines()
    failed = [line for line in lines if line.startswith("failed")]
    assert len(failed) == 1, done.describe()
    assert "BASCULE_DATA=FOLDER" in failed[0]
    assert any(line.startswith("note") and f"127.0.0.1:{port} is taken" in line for line in lines), done.describe()
    assert "1 of these failed." in done.stderr


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("import nothing_of_that_name\n", "No module named 'nothing_of_that_name'"),
        ("import os\nfrom bascule import tool\nos.write(1, b'x')\n@tool\ndef a() -> int:\n    return 1\n", ""),
        ("from bascule import tool\n@tool(name='x' * 60)\ndef a() -> int:\n    return 1\n", "clients put"),
    ],
)
def test_a_file_that_cannot_be_served_fails_with_the_reason(text: str, told: str, surroundings: Surroundings) -> None:
    (surroundings.project / "app.py").write_text(text, encoding="utf-8")
    done = doctor(surroundings, "app.py")
    assert done.exit_code == (1 if told else 0), done.describe()
    assert told in done.stdout


def test_bad_settings_of_the_environment_are_one_line(surroundings: Surroundings) -> None:
    done = doctor(surroundings, BASCULE_PORT="many")
    assert done.exit_code == 1
    assert "BASCULE_PORT" in done.stderr
    assert "Traceback" not in done.stderr


def test_an_open_server_is_looked_at_in_both_eras(app: Path, surroundings: Surroundings) -> None:
    with serving(str(app), surroundings=surroundings) as served:
        done = bascule("doctor", "--remote", served.mcp_url, surroundings=surroundings)
        wrong = bascule("doctor", "--remote", f"http://127.0.0.1:{served.port}/x", surroundings=surroundings)
    assert done.exit_code == 0, done.describe()
    assert states(done) == ["ok", "ok", "ok", "ok"]
    assert "open to everyone" in done.stdout
    assert "MCP 2025 and before: sums" in done.stdout
    assert wrong.exit_code == 1


@pytest.mark.requirement("F42")
def test_a_guarded_server_is_looked_at_with_and_without_a_token(app: Path, surroundings: Surroundings) -> None:
    with serving(str(app), "--auth", "dev", surroundings=surroundings) as served:
        without = bascule("doctor", "--remote", served.mcp_url, surroundings=surroundings)
        token = bascule("auth", "token", "--sub", "me", surroundings=surroundings).stdout.strip()
        right = bascule("doctor", "--remote", served.mcp_url, "--token", token, surroundings=surroundings)
        wrong = bascule("doctor", "--remote", served.mcp_url, "--token", "x", surroundings=surroundings)
    assert (without.exit_code, states(without)) == (0, ["ok", "ok", "note", "note"]), without.describe()
    assert "Give a token with --token" in without.stdout
    assert (right.exit_code, states(right)) == (0, ["ok", "ok", "note", "ok", "ok"]), right.describe()
    assert wrong.exit_code == 1


@dataclass(frozen=True)
class Page:
    """An answer; ADDRESS stands for the server's own address."""

    body: object = None
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict[str, str])


@contextmanager
def answering(pages: Mapping[str, Page]) -> Generator[str]:
    """Serve pages by their path."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            page = pages.get(self.path, NOTHING)
            data = json.dumps(page.body).replace("ADDRESS", address).encode()
            self.send_response(page.status)
            for name, value in page.headers.items():
                self.send_header(name, value.replace("ADDRESS", address))
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def do_POST(self) -> None:
            self.do_GET()

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        address = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield address
        finally:
            server.shutdown()
            thread.join()


METADATA = "/.well-known/oauth-protected-resource/mcp"
OPENID = "/.well-known/openid-configuration/id"
NOTHING = Page({}, 404)
GUARDED = {
    "/healthz": Page(),
    "/mcp": Page(status=401, headers={"www-authenticate": f'Bearer resource_metadata="ADDRESS{METADATA}"'}),
    METADATA: Page({"resource": "ADDRESS/mcp", "authorization_servers": ["ADDRESS/id"]}),
    OPENID: Page({"issuer": "ADDRESS/id", "jwks_uri": "ADDRESS/keys"}),
    "/keys": Page({"keys": [{"kty": "OKP"}]}),
}


def test_the_chain_from_the_challenge_to_the_keys_is_followed(surroundings: Surroundings) -> None:
    with answering(GUARDED) as address:
        done = bascule("doctor", "--remote", f"{address}/mcp", surroundings=surroundings)
    assert done.exit_code == 0, done.describe()
    assert f"{address}/id describes itself, and has 1 keys" in done.stdout


@pytest.mark.parametrize(
    ("path", "page", "told"),
    [
        ("/healthz", Page(status=502), "status 502"),
        ("/mcp", Page(status=401), "names no resource_metadata"),
        ("/mcp", Page(status=308, headers={"location": "/mcp/"}), "sends clients to /mcp/"),
        (METADATA, NOTHING, "Route /.well-known too"),
        (METADATA, Page({"resource": "ADDRESS/mcp/"}), "Set --base-url"),
        (OPENID, NOTHING, "has no metadata document"),
        (OPENID, Page({"issuer": "ADDRESS/id/"}), "names the issuer"),
        ("/keys", Page({"keys": []}), "names no keys"),
    ],
)
def test_a_broken_link_of_the_chain_is_named(path: str, page: Page, told: str, surroundings: Surroundings) -> None:
    with answering({**GUARDED, path: page}) as address:
        done = bascule("doctor", "--remote", f"{address}/mcp", surroundings=surroundings)
    assert done.exit_code == 1, done.describe()
    assert any(told in line for line in done.stdout.splitlines() if line.startswith("failed")), done.describe()


@pytest.mark.parametrize("url", ["127.0.0.1:8000/mcp", "ftp://127.0.0.1/mcp", "http://127.0.0.1:1/mcp"])
def test_an_address_that_leads_nowhere_is_named(url: str, surroundings: Surroundings) -> None:
    done = bascule("doctor", "--remote", url, surroundings=surroundings)
    assert done.exit_code == 1
    assert states(done) == ["failed"]
