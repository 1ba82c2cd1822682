"""A protected app on a real server, as a client on the network meets it."""

import logging
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Mount, Route

from bascule.auth import Auth, DevAuth, principal_of
from tests.unit.auth.kit import App, claims, jwt_auth, parameters, token

Serve = Callable[..., str]


def now(**changes: object) -> dict[str, object]:
    return claims(iat=int(time.time()), exp=int(time.time()) + 600, **changes)


def cli_token(data: Path, *arguments: str) -> str:
    """Make a token with the command, in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-c", "from bascule.cli.auth import group; group()", "token", "--sub", "me", *arguments],
        env={**os.environ, "BASCULE_DATA": str(data)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""
    return done.stdout.strip()


def test_a_token_from_the_command_line_works_on_the_running_server(
    serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BASCULE_DATA", str(tmp_path))
    base = serve(Auth(DevAuth(), required_scopes=["mcp:tools"]).protect(App()))
    first = httpx.post(f"{base}/mcp")
    assert parameters(first)["resource_metadata"] == f"{base}/.well-known/oauth-protected-resource/mcp"
    bearer = cli_token(tmp_path)
    response = httpx.post(f"{base}/mcp", headers={"authorization": f"Bearer {bearer}"})
    assert response.json()["sub"] == "me"
    bound = cli_token(tmp_path, "--aud", f"{base}/mcp", "--scopes", "mcp:tools", "--ttl", "60")
    assert httpx.get(f"{base}/api/x", headers={"authorization": f"Bearer {bound}"}).status_code == 200
    narrow = cli_token(tmp_path, "--scopes", "agents:read")
    assert httpx.get(f"{base}/mcp", headers={"authorization": f"Bearer {narrow}"}).status_code == 403
    assert httpx.get(f"{base}/healthz").json()["kind"] == "anonymous"


def test_two_processes_that_need_a_key_agree_on_it(tmp_path: Path) -> None:
    program = "from bascule.auth import DevAuth; print(DevAuth()._read_key().hex())"
    running = [
        subprocess.Popen(
            [sys.executable, "-c", program],
            env={**os.environ, "BASCULE_DATA": str(tmp_path)},
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(4)
    ]
    assert len({process.communicate(timeout=15)[0] for process in running}) == 1


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost"])
def test_mounted_in_an_app_without_base_url_everything_follows_from_the_socket(serve: Serve, name: str) -> None:
    async def who(request: Request) -> JSONResponse:
        return JSONResponse({"sub": principal_of(request.scope).subject})

    inner = Starlette(routes=[Route("/mcp", who, methods=["GET", "POST"])])
    base = serve(Starlette(routes=[Mount("/api", Auth(jwt_auth()).protect(inner))])).replace("127.0.0.1", name)
    link = parameters(httpx.get(f"{base}/api/mcp"))["resource_metadata"]
    document = httpx.get(link).json()
    assert document["resource"] == f"{base}/api/mcp"
    bearer = token(now(aud=document["resource"]))
    assert httpx.get(f"{base}/api/mcp", headers={"authorization": f"Bearer {bearer}"}).json() == {"sub": "alice"}


@pytest.mark.parametrize("http", ["h11", "httptools"])
@pytest.mark.parametrize("size", [64 * 1024, 1024 * 1024])
def test_d19_a_huge_header_does_not_reach_the_app(serve: Serve, http: str, size: int) -> None:
    app = App()
    host, port = serve(Auth(jwt_auth()).protect(app), http=http).rpartition("/")[2].split(":")
    with socket.create_connection((host, int(port)), timeout=10) as connection:
        head = (
            b"GET /mcp HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + b"a" * size + b"\r\nConnection: close\r\n\r\n"
        )
        try:
            connection.sendall(head + b"a" * size + b"\r\n\r\n")
            status = connection.recv(64).split(b" ")[1]
        except ConnectionError:  # the server does not read on
            status = b"431"
    assert status in (b"400", b"401", b"431")
    assert app.seen == []


@pytest.mark.parametrize("http", ["h11", "httptools"])
def test_d02_odd_bytes_in_the_header_are_refused(serve: Serve, http: str) -> None:
    app = App()
    host, port = serve(Auth(jwt_auth()).protect(app), http=http).rpartition("/")[2].split(":")
    for value in (b"Bearer \xff\xfe", b"Bearer \x80.\x81.\x82", b"Bearer\t x", b"Bearer", b"\xc3\xa9"):
        with socket.create_connection((host, int(port)), timeout=10) as connection:
            connection.sendall(b"GET /mcp HTTP/1.1\r\nHost: x\r\nAuthorization: " + value + b"\r\n\r\n")
            assert connection.recv(64).split(b" ")[1] in (b"401", b"400")
    assert app.seen == []


def test_d81_no_token_reaches_a_log_at_any_level(
    serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("BASCULE_DATA", str(tmp_path))
    caplog.set_level(logging.DEBUG)
    base = serve(Auth(DevAuth(), required_scopes=["mcp:tools"]).protect(App()))
    good = DevAuth().mint("me")
    tokens = [good, DevAuth().mint("me", []), good[:-2] + "xx", "canary-canary-canary", "${CANARY}"]
    answers = [httpx.get(f"{base}/mcp", headers={"authorization": f"Bearer {bearer}"}) for bearer in tokens]
    assert [answer.status_code for answer in answers] == [200, 403, 401, 401, 401]
    key = (tmp_path / "dev-auth.key").read_text().strip()
    written = caplog.text + "".join(answer.text + str(answer.headers) for answer in answers)
    for secret in (*(part for bearer in tokens for part in bearer.split(".")[1:]), "canary", "CANARY", key):
        assert secret not in written
