"""The command that an MCP client keeps, to start an app long after this process has ended."""

import json
import os
import re
import shutil
import sys
import tomllib
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any, cast
from urllib.parse import unquote, urlsplit

from bascule import __version__
from bascule.errors import ConfigurationError
from bascule.mcp_server._client import StdioCommand

__all__ = ["lasting_command"]

_SCRIPT = re.compile(r"(?m)^# /// script\s*$\s(?P<body>(?:^#(?: .*)?$\s)+?)^# ///\s*$")
"""Inline script metadata, as the Python packaging standard writes it."""
_UV_SETTINGS = (
    "UV_DEFAULT_INDEX",
    "UV_INDEX",
    "UV_INDEX_URL",
    "UV_EXTRA_INDEX_URL",
    "UV_FIND_LINKS",
    "UV_SYSTEM_CERTS",
    "UV_NATIVE_TLS",
    "UV_CACHE_DIR",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "HTTPS_PROXY",
    "HTTP_PROXY",
    "NO_PROXY",
)
_PACKAGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def lasting_command(file: Path, variable: str | None, packages: Sequence[str]) -> StdioCommand:
    """Return the command that serves an app over stdio.

    It names this interpreter when that one stays. From the cache of uvx, which may be emptied, it names uvx instead,
    with the packages that the file says it needs.

    Args:
        file: the app's file, absolute.
        variable: the app's name in it.
        packages: packages that the file needs beside Bascule; they make uvx the starter too.

    Raises:
        ConfigurationError: uvx is needed and is not there, or the file's list of packages cannot be read.
    """
    target = f"{file}:{variable}" if variable else str(file)
    if not packages and not _in_a_cache(Path(sys.prefix)):
        return StdioCommand(command=sys.executable, args=("-m", "bascule", "run", target))
    uvx = _uvx()
    if uvx is None:
        raise ConfigurationError(
            "The command would need uvx, which is not installed. Install uv; or install "
            f"{' '.join(packages) or 'bascule'} into a lasting environment, and run this command from there."
        )
    needed = [package for package in (*packages, *_needs_of(file)) if _name_of(package) != "bascule"]
    options = [part for package in dict.fromkeys(needed) for part in ("--with", package)]
    args = ("--from", _own_source(), *options, "bascule", "run", target)
    return StdioCommand(command=uvx, args=args, env=_uv_settings())


def _in_a_cache(prefix: Path) -> bool:
    """Whether an environment lies in a folder that its owner marked as a cache, as uv does, or in that of pipx run."""
    if any((folder / "CACHEDIR.TAG").is_file() for folder in prefix.parents):
        return True
    return "pipx" in prefix.parts and bool({".cache", "cache", "Caches"} & set(prefix.parts))


def _uvx() -> str | None:
    """Return the path of uvx: an editor that is started from a desktop does not know the shell's search path."""
    beside = Path(os.environ.get("UV", "uv")).with_name("uvx")  # uv tells its children where it lies
    return str(beside) if beside.is_absolute() and beside.is_file() else shutil.which("uvx")


def _uv_settings() -> dict[str, str]:
    """Return what tells uv here where packages are: a client that is started from a desktop does not have it.

    An address with a password in it is left out, since the entry is kept in a file.
    """
    found = {name: os.environ[name] for name in _UV_SETTINGS if os.environ.get(name)}
    return {name: value for name, value in found.items() if "@" not in value}


def _own_source() -> str:
    """Return where uvx finds this Bascule: the release, or the file that it was installed from."""
    try:
        origin = distribution("bascule").read_text("direct_url.json")
    except PackageNotFoundError:
        origin = None
    if origin:
        url = urlsplit(str(json.loads(origin).get("url", "")))
        if url.scheme == "file":
            return unquote(url.path)
    return f"bascule=={__version__}"


def _needs_of(file: Path) -> list[str]:
    """Return the packages that a file names in its script metadata, else those of the project that it lies in."""
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return []  # serving it will tell why
    block = _SCRIPT.search(text)
    if block is not None:
        lines = [line[2:] if line.startswith("# ") else line[1:] for line in block["body"].splitlines()]
        return _list_in("\n".join(lines), file)
    for folder in file.parents:
        project = folder / "pyproject.toml"
        if project.is_file():
            return _list_in(project.read_text(encoding="utf-8"), project, "project")
    return []


def _list_in(text: str, where: Path, *tables: str) -> list[str]:
    try:
        table: Any = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigurationError(f"The list of packages in {where} cannot be read: {error}. Mend it.") from error
    for name in tables:
        table = table.get(name, {})
    found = table.get("dependencies", [])
    if not isinstance(found, list) or not all(isinstance(item, str) for item in cast("list[object]", found)):
        raise ConfigurationError(f"The dependencies in {where} are {found!r}; they have to be a list of texts.")
    return cast("list[str]", found)


def _name_of(package: str) -> str:
    match = _PACKAGE.match(package)
    return re.sub(r"[-_.]+", "-", match[0]).lower() if match else package
