"""What `doctor` looks at on this machine, one finding each."""

import json
import os
import platform
import re
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import Literal, TypeAlias

from bascule.acp import PRESETS
from bascule.cli._check import MANY_TOOLS, check_room
from bascule.cli._load import target_of
from bascule.cli._remote import connected, run_command, target_from
from bascule.errors import BasculeError
from bascule.mcp_server._client import Era, offer_of
from bascule.models import default_model
from bascule.settings import Settings, data_folder, load_settings
from bascule.tools import safe_name

__all__ = ["Finding", "file_findings", "machine_findings"]

State: TypeAlias = Literal["ok", "failed", "note"]

ERAS: tuple[tuple[Era, str], ...] = (("legacy", "2025 and before"), ("2026-07-28", "2026-07-28"))

_TESTED = ((3, 11), (3, 13))
_REQUIREMENT = re.compile(r"(?P<name>[A-Za-z0-9._-]+)(?:\[[^]]*\])?(?P<bounds>[^;]*)(?P<marker>;.*)?")
_BOUND = re.compile(r"(?P<sign>>=|<)\s*(?P<version>[0-9.]+)")
_INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "bascule-doctor", "version": "1"},
    },
}


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at.

    Attributes:
        state: a note is nothing that has to be mended.
        text: what was found, and what to do when it failed.
    """

    state: State
    text: str


def machine_findings(settings: Settings) -> Iterator[Finding]:
    """Look at this machine: interpreter, packages, data folder, port, models, programs."""
    yield _interpreter()
    yield from _packages()
    yield _data_folder()
    yield _port(settings)
    yield _model()
    yield _programs()


async def file_findings(target: str) -> AsyncIterator[Finding]:
    """Look at an app's file: settings, start, stdout, both protocol eras, names."""
    try:
        path, _ = target_of(target)
        load_settings(path.parent)
    except BasculeError as error:
        yield Finding("failed", str(error))
        return
    yield Finding("ok", f"{path} is there, and its settings can be read")
    yield _stdout(target)
    tools: list[str] = []
    for era, label in ERAS:
        try:
            async with connected(target_from(target, ()), era=era) as client:
                tools = [str(tool["name"]) for tool in (await offer_of(client)).tools]
        except BasculeError as error:
            yield Finding("failed", f"MCP {label} over stdio: {error}")
            return
        yield Finding("ok", f"MCP {label} over stdio: {len(tools)} tools")
    yield _names(safe_name(path.stem), tools)


def _interpreter() -> Finding:
    found = f"Python {platform.python_version()} ({sys.executable})"
    if _TESTED[0] <= sys.version_info[:2] <= _TESTED[1]:
        return Finding("ok", found)
    return Finding("note", f"{found}; Bascule is tested on 3.11 to 3.13")


def _packages() -> Iterator[Finding]:
    try:
        lines = requires("bascule") or []
    except PackageNotFoundError:
        yield Finding("failed", "Bascule is not installed as a package. Run: python -m pip install bascule")
        return
    wrong = [text for line in lines if (text := _wrong_package(line))]
    if wrong:
        yield Finding("failed", f"packages: {', '.join(wrong)}. Run: {sys.executable} -m pip install --upgrade bascule")
    else:
        shown = ", ".join(f"{name} {version(name)}" for name in ("bascule", "mcp", "pydantic", "anyio", "uvicorn"))
        yield Finding("ok", f"packages: {shown}")


def _wrong_package(line: str) -> str | None:
    found = _REQUIREMENT.match(line)
    if found is None or "extra ==" in (found["marker"] or ""):
        return None
    try:
        installed = version(found["name"])
    except PackageNotFoundError:
        return None if found["marker"] else f"{found['name']} is missing"
    for bound in _BOUND.finditer(found["bounds"]):
        ours, theirs = _numbers(installed), _numbers(bound["version"])
        if (ours < theirs) if bound["sign"] == ">=" else (ours >= theirs):
            return f"{found['name']} is {installed}, and has to be {bound[0]}"
    return None


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", text)[:3])


def _data_folder() -> Finding:
    folder = data_folder()
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(b"x")
    except OSError as error:
        return Finding("failed", f"data folder {folder}: {error.strerror}. Name another one: BASCULE_DATA=FOLDER")
    return Finding("ok", f"data folder {folder} can be written")


def _port(settings: Settings) -> Finding:
    where = f"{settings.host}:{settings.port}"
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    with socket.socket(family) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((settings.host, settings.port))
        except OSError as error:
            return Finding("note", f"{where} is taken ({error.strerror}): serve needs another one, such as --port 0")
    return Finding("ok", f"{where} is free to listen on")


def _model() -> Finding:
    try:
        model = default_model()
    except BasculeError as error:
        return Finding("failed", f"model of agents that name none: {error}")
    return Finding("ok", f"model of agents that name none: {model.provider}/{model.model_id}")


def _programs() -> Finding:
    found = [f"{name} ({preset.command[0]})" for name, preset in PRESETS.items() if shutil.which(preset.command[0])]
    found += [f"{name} (client)" for name in ("claude", "cursor") if shutil.which(name)]
    if found:
        return Finding("ok", f"coding agents on the search path: {', '.join(found)}")
    return Finding("note", "no coding agent is on the search path; `bascule acp list` says how to install one")


def _stdout(target: str) -> Finding:
    """Greet the server as a client does, and look at every line it writes."""
    command = run_command(target)
    try:
        done = subprocess.run(
            [command.command, *command.args],
            input=f"{json.dumps(_INITIALIZE)}\n".encode(),
            capture_output=True,
            env=dict(os.environ),
            timeout=60,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return Finding("failed", f"`bascule run {target}` was still busy 60 s after its input had ended")
    if done.returncode != 0:
        said = done.stderr.decode("utf-8", "replace").strip().rpartition("\n")[2]
        return Finding("failed", f"`bascule run {target}` ended with status {done.returncode}: {said}")
    foreign = [line for line in done.stdout.splitlines() if not line.startswith(b"{")]
    if foreign or not done.stdout:
        shown = foreign[0].decode("utf-8", "replace")[:80] if foreign else "nothing"
        return Finding("failed", f"stdout holds what is no message: {shown!r}. Find what writes past sys.stdout")
    return Finding("ok", f"`bascule run {Path(target).name}` starts, and stdout holds messages only")


def _names(server: str, tools: list[str]) -> Finding:
    try:
        check_room(server, tools)
    except BasculeError as error:
        return Finding("failed", str(error))
    if len(tools) > MANY_TOOLS:
        return Finding("note", f"{len(tools)} tools; editors choose badly beyond {MANY_TOOLS}. Serve them in parts")
    return Finding("ok", f"every tool's name fits behind mcp__{server}__")
