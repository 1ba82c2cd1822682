"""Finds the app in a user's file."""

import importlib.util
import os
import sys
import traceback
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeAlias

from typing_extensions import TypeIs

from bascule.app import Bascule
from bascule.cli._log import start_log
from bascule.errors import AmbiguousApp, AppImportFailed, AppNotFound
from bascule.settings import Settings, load_settings, override_settings
from bascule.tools import Tool, safe_name

if TYPE_CHECKING:
    from bascule.agents import Agent
    from bascule.workflows import Workflow

__all__ = ["load_app", "open_app", "set_up", "target_of"]

Part: TypeAlias = "Agent | Tool[..., Any] | Workflow"

MAX_DEFAULT_NAME = 40
"""Longest name that an app gets from its file: clients put it in front of every tool's name."""

_NAMES = ("app", "server", "mcp")


def target_of(target: str) -> tuple[Path, str | None]:
    """Split ``FILE[:name]`` and check that the file is there.

    Raises:
        AppNotFound: there is no such file.
    """
    file, colon, name = target.rpartition(":")
    if not colon or not name.isidentifier():
        file, name = target, ""
    path = Path(file).expanduser()
    if path.is_dir():
        raise AppNotFound(f"{file} is a folder. Name the Python file in it that holds the app.")
    if not path.is_file():
        raise AppNotFound(f"There is no file {file}. Name an existing one, or write one with: bascule new {file}")
    return path.absolute(), name or None


def set_up(folder: Path, flags: Mapping[str, object]) -> Settings:
    """Return the settings for an app in ``folder``, with the log and the default model set up by them.

    Raises:
        SettingInvalid: a setting has a bad value.
    """
    settings = load_settings(folder, overrides=flags)
    start_log(settings.log_level)
    if settings.model:
        os.environ.setdefault("BASCULE_MODEL", settings.model)
    return settings


def open_app(target: str, flags: Mapping[str, object]) -> Bascule:
    """Set up and load the app that a command serves.

    Args:
        target: ``FILE`` or ``FILE:name``.
        flags: the command's flags by the name of the setting.

    Raises:
        ConfigurationError: see ``load_app`` and ``set_up``.
    """
    app = load_app(target, set_up(target_of(target)[0].parent, flags))
    if app.own_settings is not None:
        app.settings = override_settings(app.own_settings, flags)
    return app


def load_app(target: str, settings: Settings) -> Bascule:
    """Import a file and return its app.

    The variable after the colon is taken, else ``app``, ``server`` or ``mcp``, else the only ``Bascule``, else an app
    is made of every public agent, tool and workflow of the module.

    Args:
        target: ``FILE`` or ``FILE:name``.
        settings: what holds for the app.

    Raises:
        AppNotFound: no such file, or nothing to serve in it.
        AmbiguousApp: several apps, none of them named ``app``.
        AppImportFailed: the file raised while it was imported.
    """
    path, name = target_of(target)
    module = _import(path)
    app = _named(module, name, path) if name is not None else _found(module, path)
    app.settings = settings
    app.source = path
    if not app.named:
        app.name = safe_name(path.stem)[:MAX_DEFAULT_NAME].rstrip("_-")
    return app


def _import(path: Path) -> ModuleType:
    name = f"bascule_app_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise AppNotFound(f"{path} is not a Python file. Name a file that ends in .py.")
    folder = str(path.parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except SystemExit as error:
        raise AppImportFailed(
            f"{path} called sys.exit({error.code}) while it was imported. "
            "Put what should only happen when it is run as a script under: if __name__ == '__main__'."
        ) from error
    except Exception as error:
        raise AppImportFailed(_import_text(path, error)) from error
    return module


def _import_text(path: Path, error: Exception) -> str:
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}, line {error.lineno}: {error.msg}. Mend the line and try again."
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if Path(frame.filename) == path]
    where = f", line {frames[-1].lineno}" if frames else ""
    text = f"{path}{where}: {type(error).__name__}: {error}"
    if isinstance(error, ModuleNotFoundError):
        return f"{text}. Install it into the environment that runs bascule ({sys.executable})."
    return text


def _named(module: ModuleType, name: str, path: Path) -> Bascule:
    value = getattr(module, name, None)
    if isinstance(value, Bascule):
        return value
    if _is_part(value):
        return _app_of([value])
    if value is None:
        raise AppNotFound(f"{path} has no variable {name!r}. It has {_offered(module)}.")
    raise AppNotFound(f"{name!r} in {path} is {type(value).__name__}; it has to be a Bascule, Agent, Tool or Workflow.")


def _found(module: ModuleType, path: Path) -> Bascule:
    for name in _NAMES:
        value = getattr(module, name, None)
        if isinstance(value, Bascule):
            return value
    public = {name: value for name, value in vars(module).items() if not name.startswith("_")}
    apps = {name: value for name, value in public.items() if isinstance(value, Bascule)}
    if len({id(value) for value in apps.values()}) > 1:
        raise AmbiguousApp(
            f"{path} has {len(apps)} apps: {', '.join(apps)}. Name one, for example {path.name}:{next(iter(apps))}, "
            "or call one of them 'app'."
        )
    if apps:
        return next(iter(apps.values()))
    parts = [value for value in public.values() if _is_part(value)]
    if not parts:
        raise AppNotFound(
            f"{path} has nothing to serve: no Bascule, and no public agent, tool or workflow. "
            "Put @tool above a function, or write: app = Bascule(tools=[...])."
        )
    return _app_of(parts)


def _offered(module: ModuleType) -> str:
    public = {name: value for name, value in vars(module).items() if not name.startswith("_")}
    names = [name for name, value in public.items() if isinstance(value, Bascule) or _is_part(value)]
    return ", ".join(names) or "no app, agent, tool or workflow"


def _app_of(parts: list[Part]) -> Bascule:
    unique = list({id(part): part for part in parts}.values())
    return Bascule(
        agents=[part for part in unique if _is_agent(part)],
        tools=[part for part in unique if isinstance(part, Tool)],
        workflows=[part for part in unique if _is_workflow(part)],
    )


def _is_part(value: object) -> "TypeIs[Part]":
    return isinstance(value, Tool) or _is_agent(value) or _is_workflow(value)


def _is_agent(value: object) -> "TypeIs[Agent]":
    return _is_instance(value, "bascule.agents", "Agent")


def _is_workflow(value: object) -> "TypeIs[Workflow]":
    return _is_instance(value, "bascule.workflows", "Workflow")


def _is_instance(value: object, home: str, name: str) -> bool:
    """Compare with a class that the file may not have imported, and that then has no instance."""
    module = sys.modules.get(home)
    return module is not None and isinstance(value, getattr(module, name))
