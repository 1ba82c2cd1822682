"""The JSON files in which clients keep their servers."""

import base64
import json
import stat
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from bascule.cli._clients import ClaudeCode, JsonFile, command_of, cursor_link, entry_of, is_ours
from bascule.errors import ConfigurationError
from bascule.mcp_server._client import StdioCommand

ENTRY = {"command": "/usr/bin/python3", "args": ["-m", "bascule", "run", "/tmp/app.py"]}


def test_an_entry_is_added_and_everything_else_stays(tmp_path: Path) -> None:
    path = tmp_path / "mcp.json"
    before = {"theme": "dunkel ☾", "mcpServers": {"other": {"url": "http://127.0.0.1:1/mcp"}}, "n": 1.5}
    path.write_text(json.dumps(before), encoding="utf-8")
    path.chmod(0o640)
    JsonFile(path).write("sums", ENTRY)
    after = json.loads(path.read_text(encoding="utf-8"))
    assert after == {**before, "mcpServers": {**before["mcpServers"], "sums": ENTRY}}  # type: ignore[dict-item]
    assert list(after) == list(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert list(tmp_path.iterdir()) == [path], "no draft is left behind"


def test_a_file_that_is_not_there_is_made_for_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / ".cursor" / "mcp.json"
    JsonFile(path, extra={"type": "stdio"}).write("sums", ENTRY)
    assert json.loads(path.read_text(encoding="utf-8")) == {"mcpServers": {"sums": {"type": "stdio", **ENTRY}}}
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_what_else_an_entry_holds_stays_when_it_is_replaced(tmp_path: Path) -> None:
    file = JsonFile(tmp_path / "mcp.json")
    file.write("sums", {**ENTRY, "env": {"KEY": "1"}})
    file.write("sums", {"command": "/usr/bin/python4", "args": []})
    assert file.read("sums") == {"env": {"KEY": "1"}, "command": "/usr/bin/python4", "args": []}
    file.write("sums", {**ENTRY, "env": {"MORE": "2"}})
    assert file.read("sums") == {**ENTRY, "env": {"KEY": "1", "MORE": "2"}}


def test_a_link_to_a_file_stays_a_link(tmp_path: Path) -> None:
    real, link = tmp_path / "real.json", tmp_path / "mcp.json"
    real.write_text("{}", encoding="utf-8")
    link.symlink_to(real)
    JsonFile(link).write("sums", ENTRY)
    assert link.is_symlink()
    assert JsonFile(real).read("sums") == ENTRY


def test_removing_takes_one_entry_only(tmp_path: Path) -> None:
    file = JsonFile(tmp_path / "mcp.json")
    file.write("sums", ENTRY)
    file.write("other", ENTRY)
    file.remove("sums")
    assert file.read("sums") is None
    assert file.read("other") == ENTRY


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('{"mcpServers": {', "is not JSON"),
        ('{"mcpServers": {}, // mine\n}', "is not JSON"),
        ("[]", "holds no JSON object"),
        ('{"mcpServers": []}', "no object of objects"),
        ('{"mcpServers": {"a": 1}}', "no object of objects"),
        ("\udcff", "cannot be read"),
    ],
)
def test_a_file_that_is_not_understood_is_not_touched(tmp_path: Path, text: str, told: str) -> None:
    path = tmp_path / "mcp.json"
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    before = path.read_bytes()
    with pytest.raises(ConfigurationError, match=told) as refused:
        JsonFile(path).write("sums", ENTRY)
    assert "Nothing was changed" in str(refused.value)
    assert path.read_bytes() == before


def test_an_empty_file_and_one_with_a_byte_order_mark_are_understood(tmp_path: Path) -> None:
    path = tmp_path / "mcp.json"
    for text in ("", "\ufeff{}", " \n"):
        path.write_text(text, encoding="utf-8")
        JsonFile(path).write("sums", ENTRY)
        assert JsonFile(path).read("sums") == ENTRY


def test_a_file_that_cannot_be_written_is_an_error_with_its_path(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    path = tmp_path / "file" / "mcp.json"
    with pytest.raises(ConfigurationError, match=r"mcp\.json"):
        JsonFile(path).write("sums", ENTRY)


@pytest.mark.parametrize(
    ("entry", "ours"),
    [
        (ENTRY, True),
        ({"command": "/opt/bin/bascule", "args": ["run", "app.py"]}, True),
        ({"command": "uvx", "args": ["--from", "bascule==1", "bascule", "run", "app.py"]}, True),
        ({"command": "uvx", "args": ["some-mcp-server"]}, False),
        ({"url": "http://127.0.0.1:1/mcp"}, False),
        ({"command": "bascule"}, False),
    ],
)
def test_entries_of_ours_are_told_from_others(entry: dict[str, object], ours: bool) -> None:
    assert is_ours(entry) is ours


def test_the_link_for_cursor_carries_the_entry() -> None:
    entry = entry_of(StdioCommand(command="/usr/bin/python3", args=("-m", "bascule", "run", "/tmp/ä b+c.py")))
    link = urlsplit(cursor_link("sums", entry))
    values = parse_qs(link.query, strict_parsing=True)
    assert (link.scheme, link.netloc, link.path) == ("cursor", "anysphere.cursor-deeplink", "/mcp/install")
    assert values["name"] == ["sums"]
    assert json.loads(base64.b64decode(values["config"][0], validate=True)) == entry


def test_a_command_and_its_entry_say_the_same() -> None:
    command = StdioCommand(command="/usr/bin/python3", args=("-m", "bascule"))
    assert command_of(entry_of(command)) == command


def test_a_missing_claude_command_says_what_else_can_be_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(ConfigurationError, match="--project"):
        ClaudeCode()
