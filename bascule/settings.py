"""Where a setting comes from, and where things are kept.

One precedence for all: a flag or constructor argument, else the environment (``BASCULE_*``), else ``bascule.toml`` or
the ``[tool.bascule]`` table of ``pyproject.toml`` in the nearest folder that has one, else the default.
"""

import os
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias, cast

from bascule.errors import SettingInvalid

__all__ = ["HttpProtocol", "Settings", "data_folder", "load_settings", "override_settings"]

HttpProtocol: TypeAlias = str
"""``auto``, ``h11`` or ``httptools``."""

_NOTHING: Mapping[str, object] = {}

_HTTP = ("auto", "h11", "httptools")


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Everything that can be set from outside.

    Attributes:
        host: address to listen on.
        port: TCP port to listen on; 0 takes a free one.
        base_url: the address under which clients reach the server, when a proxy stands in front of it.
        root_path: the prefix that a proxy strips.
        grace: seconds that calls in flight get when the server is told to stop.
        http: HTTP parser of the server.
        storage: where conversations are kept, as a URL.
        model: model of agents that name none.
        log_level: level of the log on stderr.
    """

    host: str = "127.0.0.1"
    port: int = 8000
    base_url: str | None = None
    root_path: str = ""
    grace: float = 10.0
    http: HttpProtocol = "auto"
    storage: str | None = None
    model: str | None = None
    log_level: str = "warning"


def data_folder() -> Path:
    """Return the folder for what Bascule keeps for this user: databases and keys. It may not exist yet.

    ``BASCULE_DATA`` names it; else it is ``bascule`` under ``XDG_DATA_HOME``, else under ``~/.local/share``. A relative
    ``XDG_DATA_HOME`` is ignored, as the XDG base directory specification asks.
    """
    if own := os.environ.get("BASCULE_DATA"):
        return Path(own).expanduser().absolute()
    shared = Path(os.environ.get("XDG_DATA_HOME", ""))
    return (shared if shared.is_absolute() else Path.home() / ".local" / "share") / "bascule"


def load_settings(
    folder: Path | None = None,
    *,
    environ: Mapping[str, str] | None = None,
    overrides: Mapping[str, object] | None = None,
) -> Settings:
    """Return the settings that hold for an app.

    Args:
        folder: where the app's file lies; the search for a settings file goes upwards from here. Without it no file is
            read.
        environ: the environment; the process's own when left out.
        overrides: flags; entries that are ``None`` do not count.

    Raises:
        SettingInvalid: a value cannot be read; names the setting and where it came from.
    """
    environ = os.environ if environ is None else environ
    values: dict[str, object] = {}
    path, table = (None, _NOTHING) if folder is None else _file_settings(folder)
    for key, value in table.items():
        name = key.replace("-", "_")
        if name not in _READERS:
            raise SettingInvalid(
                f"{path} sets {key!r}, which is not a setting; the settings are {', '.join(_READERS)}."
            )
        values[name] = _READERS[name](value, f"{key!r} in {path}")
    for name, reader in _READERS.items():
        for variable in (f"BASCULE_{name.upper()}", name.upper() if name in ("host", "port") else ""):
            text = environ.get(variable, "")
            if text:
                values[name] = reader(text, f"the environment variable {variable}")
                break
    known: dict[str, Any] = values  # Any: every value went through the reader of its field
    return override_settings(Settings(**known), overrides or {})


def override_settings(settings: Settings, overrides: Mapping[str, object]) -> Settings:
    """Return the settings with flags applied.

    Args:
        settings: what holds without them.
        overrides: flags by the name of the setting; entries that are ``None`` do not count.

    Raises:
        SettingInvalid: a flag has a bad value.
    """
    values: dict[str, Any] = {  # Any: every value went through the reader of its field
        name: _READERS[name](value, f"--{name.replace('_', '-')}")
        for name, value in overrides.items()
        if value is not None
    }
    return replace(settings, **values)


def _file_settings(folder: Path) -> tuple[Path | None, Mapping[str, object]]:
    for place in (folder, *folder.parents):
        own, project = place / "bascule.toml", place / "pyproject.toml"
        if own.is_file():
            return own, _read_toml(own)
        if project.is_file():
            table = _table(_read_toml(project), "tool", "bascule")
            return (None, _NOTHING) if table is None else (project, table)
    return None, _NOTHING


def _table(document: Mapping[str, object], *names: str) -> Mapping[str, object] | None:
    found = document
    for name in names:
        inner = found.get(name)
        if not isinstance(inner, Mapping):
            return None
        found = cast("Mapping[str, object]", inner)  # TOML has text keys
    return found


def _read_toml(path: Path) -> Mapping[str, object]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingInvalid(f"{path} cannot be read: {error}. Mend the file, or remove it.") from error


def _text(value: object, source: str) -> str:
    if not isinstance(value, str) or not value:
        raise SettingInvalid(f"{source} is {value!r}; give a text.")
    return value


def _port(value: object, source: str) -> int:
    number = _number(value, source)
    if number != int(number) or not 0 <= number <= 65535:
        raise SettingInvalid(f"{source} is {value!r}; give a port number from 0 to 65535.")
    return int(number)


def _seconds(value: object, source: str) -> float:
    number = _number(value, source)
    if number < 0:
        raise SettingInvalid(f"{source} is {value!r}; give a number of seconds.")
    return number


def _number(value: object, source: str) -> float:
    try:
        if isinstance(value, bool):
            raise ValueError
        return float(str(value))
    except ValueError:
        raise SettingInvalid(f"{source} is {value!r}; give a number.") from None


def _one_of(choices: tuple[str, ...]) -> Callable[[object, str], str]:
    def read(value: object, source: str) -> str:
        if value not in choices:
            raise SettingInvalid(f"{source} is {value!r}; give one of {', '.join(choices)}.")
        return str(value)

    return read


_READERS: dict[str, Callable[[object, str], object]] = {
    "host": _text,
    "port": _port,
    "base_url": _text,
    "root_path": _text,
    "grace": _seconds,
    "http": _one_of(_HTTP),
    "storage": _text,
    "model": _text,
    "log_level": _one_of(("debug", "info", "warning", "error", "critical")),
}
