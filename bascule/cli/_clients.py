"""Where MCP clients keep their servers: a JSON file with ``mcpServers``, or the client's own command."""

import base64
import json
import os
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol, cast
from urllib.parse import quote

from bascule.errors import ConfigurationError
from bascule.mcp_server._client import StdioCommand

__all__ = ["ClaudeCode", "Client", "JsonFile", "command_of", "cursor_link", "entry_of", "is_ours"]

Entry = dict[str, Any]
"""An entry of ``mcpServers``; its other keys belong to the client."""

_CLAUDE_PLACES = (".local/bin/claude", ".claude/local/claude")
_WAIT = 60


class Client(Protocol):
    """A client that keeps servers by name."""

    @property
    def place(self) -> str:
        """Where it keeps them, for people."""
        ...

    def read(self, name: str) -> Entry | None:
        """Return an entry."""
        ...

    def write(self, name: str, entry: Entry) -> None:
        """Add or replace an entry."""
        ...

    def remove(self, name: str) -> None:
        """Remove an entry that is there."""
        ...


def entry_of(command: StdioCommand) -> Entry:
    """Return the entry that makes a client run a command."""
    entry: Entry = {"command": command.command, "args": list(command.args)}
    return {**entry, "env": dict(command.env)} if command.env else entry


def command_of(entry: Entry) -> StdioCommand:
    """Return the command that an entry makes a client run."""
    arguments = cast("list[object]", entry.get("args") or [])
    env = cast("dict[str, object]", entry.get("env") or {})
    return StdioCommand(
        command=str(entry.get("command", "")),
        args=tuple(str(argument) for argument in arguments),
        env={key: str(value) for key, value in env.items()},
    )


def is_ours(entry: Entry) -> bool:
    """Whether an entry runs Bascule; anything else was written by someone else, and is left alone."""
    command = command_of(entry)
    words = [Path(command.command).name, *command.args]
    return any(words[at : at + 2] == ["bascule", "run"] for at in range(len(words)))


def _over(before: Entry | None, entry: Entry) -> Entry:
    """Return an entry with what stood beside the command before, such as variables that a person has added."""
    kept = {key: value for key, value in (before or {}).items() if key not in ("command", "args")}
    env = cast("Entry", {**(kept.get("env") or {}), **(entry.get("env") or {})})
    return {**kept, **entry, "env": env} if env else {**kept, **entry}


def cursor_link(name: str, entry: Entry) -> str:
    """Return the link that makes Cursor offer to install an entry."""
    config = base64.b64encode(json.dumps(entry).encode()).decode("ascii")
    return f"cursor://anysphere.cursor-deeplink/mcp/install?name={quote(name)}&config={quote(config, safe='')}"


class JsonFile:
    """A file with ``mcpServers``. It is never left half written, and what is not understood is not touched.

    Args:
        path: the file; it need not exist.
        extra: keys that its entries have beside command and args.
    """

    def __init__(self, path: Path, extra: Mapping[str, str] | None = None) -> None:
        self.path = path
        self._extra = dict(extra or {})

    @property
    def place(self) -> str:
        """The file."""
        return str(self.path)

    def read(self, name: str) -> Entry | None:
        """Return an entry.

        Raises:
            ConfigurationError: the file cannot be read or understood.
        """
        return self._servers(self._load()).get(name)

    def write(self, name: str, entry: Entry) -> None:
        """Add or replace an entry; all others stay.

        Raises:
            ConfigurationError: the file cannot be read, understood or written.
        """
        document = self._load()
        servers = self._servers(document)
        servers[name] = {**self._extra, **_over(servers.get(name), entry)}
        document["mcpServers"] = servers
        self._save(document)

    def remove(self, name: str) -> None:
        """Remove an entry.

        Raises:
            ConfigurationError: the file cannot be read, understood or written.
        """
        document = self._load()
        del self._servers(document)[name]
        self._save(document)

    def _load(self) -> dict[str, Any]:
        try:
            text = self.path.read_text(encoding="utf-8-sig")
        except FileNotFoundError:
            return {}
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigurationError(f"{self.path} cannot be read: {error}. Nothing was changed.") from error
        if not text.strip():
            return {}
        try:
            document: object = json.loads(text)
        except ValueError as error:
            raise ConfigurationError(
                f"{self.path} is not JSON: {error}. Nothing was changed. Mend the file, or move it away, and try again."
            ) from error
        if not isinstance(document, dict):
            raise ConfigurationError(f"{self.path} holds no JSON object. Nothing was changed. Mend the file.")
        return cast("dict[str, Any]", document)

    def _servers(self, document: dict[str, Any]) -> dict[str, Entry]:
        servers: object = document.get("mcpServers", {})
        if isinstance(servers, dict):
            found = cast("dict[str, Entry]", servers)
            if all(isinstance(entry, dict) for entry in cast("dict[str, object]", servers).values()):
                return found
        raise ConfigurationError(
            f"The entry 'mcpServers' of {self.path} is no object of objects. Nothing was changed. Mend the file."
        )

    def _save(self, document: dict[str, Any]) -> None:
        path = self.path.resolve()  # a link stays a link
        text = json.dumps(document, indent=2, ensure_ascii=False) + "\n"
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            mode = stat.S_IMODE(path.stat().st_mode) if path.exists() else 0o600
            descriptor, draft = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        except OSError as error:
            raise ConfigurationError(f"{self.path} cannot be written: {error.strerror}.") from error
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8", errors="surrogatepass") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            Path(draft).chmod(mode)
            Path(draft).replace(path)
        except OSError as error:
            raise ConfigurationError(f"{self.path} cannot be written: {error.strerror}.") from error
        finally:
            with suppress(FileNotFoundError):
                Path(draft).unlink()


class ClaudeCode:
    """Claude Code's servers for this user, kept through its own command.

    The file behind it also holds the program's running state, so that only the program itself should write it.

    Raises:
        ConfigurationError: the command is not installed.
    """

    place = "Claude Code"

    def __init__(self) -> None:
        found = shutil.which("claude") or next(
            (str(Path.home() / place) for place in _CLAUDE_PLACES if (Path.home() / place).is_file()), None
        )
        if found is None:
            raise ConfigurationError(
                "The command 'claude' is not on the search path. Install Claude Code; or add --project to write "
                ".mcp.json in the current folder, which Claude Code reads when it starts there."
            )
        self._claude = found

    def read(self, name: str) -> Entry | None:
        """Return an entry of the user's."""
        folder = os.environ.get("CLAUDE_CONFIG_DIR")
        return JsonFile((Path(folder) if folder else Path.home()) / ".claude.json").read(name)

    def write(self, name: str, entry: Entry) -> None:
        """Add or replace an entry.

        Raises:
            ConfigurationError: the command failed; the entry is then what it was.
        """
        before = self.read(name)
        if before is not None:
            self.remove(name)
        try:
            self._add(name, _over(before, entry))
        except ConfigurationError:
            if before is not None:
                self._add(name, before)
            raise

    def remove(self, name: str) -> None:
        """Remove an entry.

        Raises:
            ConfigurationError: the command failed.
        """
        self._run("mcp", "remove", "--scope", "user", name)

    def _add(self, name: str, entry: Entry) -> None:
        self._run("mcp", "add-json", "--scope", "user", name, json.dumps({"type": "stdio", **entry}))

    def _run(self, *arguments: str) -> None:
        shown = f"claude {' '.join(arguments[:2])}"
        try:
            done = subprocess.run(
                [self._claude, *arguments],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=_WAIT,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise ConfigurationError(f"`{shown}` did not work: {error}.") from error
        if done.returncode != 0:
            said = (done.stderr or done.stdout).strip()
            raise ConfigurationError(f"`{shown}` failed with status {done.returncode}: {said}")
