"""Development tokens: one key in the user's data folder, this machine only."""

import os
import stat
from functools import partial
from pathlib import Path
from typing import Any

import anyio.to_thread
import pytest
from click.testing import CliRunner

from bascule.auth import BASE_SCOPES, Auth, DevAuth
from bascule.cli.auth import group
from bascule.errors import ConfigurationError, InputError
from bascule.settings import data_folder
from tests.unit.auth.kit import App, Clock, client, parameters, reason, send

BASE = "http://127.0.0.1:8000"


@pytest.fixture(autouse=True)
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "data" / "bascule"
    monkeypatch.setenv("BASCULE_DATA", str(folder))
    return folder


def dev() -> DevAuth:
    return DevAuth(now=Clock())


async def mint(sub: str, *arguments: Any, audience: str | None = None) -> str:  # Any: scopes and ttl
    """Make a token in a thread, since the key file is read."""
    return await anyio.to_thread.run_sync(partial(dev().mint, sub, *arguments, audience=audience))


def auth() -> Auth:
    return Auth(dev(), base_url=BASE, required_scopes=["mcp:tools"], now=Clock())


async def test_a_token_made_elsewhere_works_on_a_running_server() -> None:
    app = App()
    protected = auth().protect(app)
    response = await send(protected, await mint("me"))
    assert (response.status_code, response.json()["sub"]) == (200, "me")
    [principal] = app.seen
    assert principal.scopes == set(BASE_SCOPES)
    assert (principal.kind, principal.provider, principal.issuer) == ("user", "dev", "bascule-dev")


async def test_the_server_may_come_first(data: Path) -> None:
    protected = auth().protect(App())
    assert (await send(protected, "a.b.c")).status_code == 401
    assert data.joinpath("dev-auth.key").exists()
    assert (await send(protected, await mint("me"))).status_code == 200


async def test_a_token_for_one_resource_is_good_there_only() -> None:
    protected = auth().protect(App())
    assert (await send(protected, await mint("me", audience=f"{BASE}/mcp"))).status_code == 200
    response = await send(protected, await mint("me", audience="http://127.0.0.1:9000/mcp"))
    assert (response.status_code, reason(response)) == (401, "wrong_audience")


async def test_a_token_expires_and_has_the_scopes_that_were_asked_for() -> None:
    clock = Clock()
    protected = Auth(DevAuth(), base_url=BASE, required_scopes=["mcp:tools"], now=clock).protect(App())
    bearer = await mint("me", ["mcp:*"], 60)
    assert (await send(protected, bearer)).status_code == 200
    clock.time += 91
    assert reason(await send(protected, bearer)) == "expired"
    response = await send(protected, await mint("me", []))
    assert (response.status_code, parameters(response)["scope"]) == (403, "mcp:tools")


async def test_another_users_key_makes_other_tokens(tmp_path: Path) -> None:
    foreign = await anyio.to_thread.run_sync(DevAuth(key_file=tmp_path / "foreign.key", now=Clock()).mint, "me")
    response = await send(auth().protect(App()), foreign)
    assert (response.status_code, reason(response)) == (401, "bad_signature")


@pytest.mark.parametrize("peer", ["10.0.0.7", "192.168.0.2", "8.8.8.8", "::ffff:10.0.0.7", "testclient", "", "0.0.0.0"])
async def test_d30_another_machine_is_refused_even_with_a_good_cached_token(peer: str) -> None:
    app = App()
    protected, bearer = auth().protect(app), await mint("me")
    assert (await send(protected, bearer)).status_code == 200
    response = await send(protected, bearer, peer=peer)
    assert (response.status_code, reason(response)) == (401, "not_local")
    assert len(app.seen) == 1


async def test_another_machine_without_a_token_is_told_what_to_bring() -> None:
    response = await send(auth().protect(App()), peer="10.0.0.7")
    assert (reason(response), "error" in parameters(response)) == ("no_token", False)


@pytest.mark.parametrize("peer", ["127.0.0.1", "127.8.8.8", "::1", "::ffff:127.0.0.1", "localhost"])
async def test_this_machine_has_several_addresses(peer: str) -> None:
    assert (await send(auth().protect(App()), await mint("me"), peer=peer)).status_code == 200


@pytest.mark.parametrize(
    "header", ["forwarded", "via", "x-forwarded-for", "x-real-ip", "x-forwarded-host", "x-forwarded-proto"]
)
async def test_d30_a_proxy_in_front_is_refused(header: str) -> None:
    async with client(auth().protect(App())) as http:
        response = await http.get("/mcp", headers={"authorization": f"Bearer {await mint('me')}", header: "127.0.0.1"})
    assert (response.status_code, reason(response)) == (401, "not_local")


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.7", "example.org", "", "localhost.evil.test", "127.0.0.1.x"])
def test_d30_a_server_that_others_can_reach_is_refused(host: str) -> None:
    with pytest.raises(ConfigurationError, match="this machine only"):
        Auth(DevAuth()).check_host(host)


def test_d30_a_base_url_that_others_can_reach_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="this machine only"):
        Auth(DevAuth(), base_url="https://tools.example.org").protect(App())


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1", "[::1]", "127.0.0.2"])
def test_a_server_on_loopback_is_fine(host: str) -> None:
    Auth(DevAuth()).check_host(host)


def test_d90_the_key_is_for_its_owner_alone(data: Path) -> None:
    dev().mint("me")
    key_file = data / "dev-auth.key"
    assert stat.S_IMODE(key_file.stat().st_mode) == 0o600
    assert stat.S_IMODE(data.stat().st_mode) == 0o700
    assert [entry.name for entry in data.iterdir()] == ["dev-auth.key"]
    before = key_file.read_bytes()
    dev().mint("me")
    assert key_file.read_bytes() == before


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o660, 0o604])
async def test_d90_a_key_that_others_can_read_is_refused(data: Path, mode: int) -> None:
    bearer = await mint("me")
    data.joinpath("dev-auth.key").chmod(mode)
    with pytest.raises(ConfigurationError, match="chmod 600"):
        await mint("me")
    response = await send(auth().protect(App()), bearer)
    assert response.status_code == 503
    assert str(data) not in response.text


@pytest.mark.parametrize("content", [b"", b"short", b"00" * 31, b"00" * 33, b"zz" * 32, b"\xff" * 64])
def test_a_damaged_key_is_named_and_not_overwritten(data: Path, content: bytes) -> None:
    data.mkdir(parents=True)
    key_file = data / "dev-auth.key"
    key_file.write_bytes(content)
    key_file.chmod(0o600)
    with pytest.raises(ConfigurationError, match="Remove it"):
        dev().mint("me")
    assert key_file.read_bytes() == content


def test_a_key_file_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.touch()
    with pytest.raises(ConfigurationError, match="cannot be used"):
        DevAuth(key_file=blocked / "dev-auth.key").mint("me")


@pytest.mark.parametrize(
    ("sub", "ttl"), [("", 60), ("a\nb", 60), ("me", 0), ("me", -1), ("me", float("inf")), ("me", float("nan"))]
)
def test_a_token_that_makes_no_sense_is_not_made(sub: str, ttl: float) -> None:
    with pytest.raises(InputError):
        dev().mint(sub, ttl=ttl)
    with pytest.raises(ConfigurationError):
        dev().mint("me", ["two words"])


def test_the_data_folder_follows_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, data: Path) -> None:
    assert data_folder() == data
    monkeypatch.delenv("BASCULE_DATA")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert data_folder() == tmp_path / "bascule"
    monkeypatch.setenv("XDG_DATA_HOME", "relative")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert data_folder() == tmp_path / "home" / ".local" / "share" / "bascule"
    monkeypatch.delenv("XDG_DATA_HOME")
    assert data_folder() == tmp_path / "home" / ".local" / "share" / "bascule"
    monkeypatch.setenv("BASCULE_DATA", "~/mine")
    assert data_folder() == tmp_path / "home" / "mine"


async def test_the_command_prints_a_token_and_nothing_else() -> None:
    arguments = ["token", "--sub", "me", "--scopes", "mcp:tools x", "--ttl", "60"]
    result = await anyio.to_thread.run_sync(CliRunner().invoke, group, arguments)
    assert (result.exit_code, result.stderr) == (0, "")
    [line] = result.stdout.splitlines()
    app = App()
    assert (await send(Auth(DevAuth(), base_url=BASE).protect(app), line)).status_code == 200
    [principal] = app.seen
    assert (principal.subject, sorted(principal.scopes)) == ("me", ["mcp:tools", "x"])


@pytest.mark.parametrize(
    "arguments", [[], ["--sub", ""], ["--sub", "me", "--ttl", "0"], ["--sub", "me", "--scopes", 'a"b'], ["--ttl", "x"]]
)
def test_the_command_says_what_is_wrong(arguments: list[str]) -> None:
    result = CliRunner().invoke(group, ["token", *arguments])
    assert result.exit_code != 0
    assert result.stdout == ""
    assert "Error: " in result.stderr
    assert "Traceback" not in result.stderr


def test_the_command_names_a_key_file_that_cannot_be_used(data: Path) -> None:
    data.mkdir(parents=True)
    data.joinpath("dev-auth.key").write_text("x")
    result = CliRunner().invoke(group, ["token", "--sub", "me"])
    assert result.exit_code == 1
    assert os.fspath(data) in result.stderr
