"""``bascule install``: tells an MCP client about an app, and tries it the way the client will."""

import json
from pathlib import Path

import anyio
import click

from bascule.cli._check import check_room, list_tools
from bascule.cli._clients import ClaudeCode, Client, Entry, JsonFile, command_of, cursor_link, entry_of, is_ours
from bascule.cli._entry import lasting_command
from bascule.cli._load import target_of
from bascule.errors import ConfigurationError
from bascule.mcp_server._client import StdioCommand
from bascule.tools import check_name, safe_name

__all__ = ["command"]

_LONGEST_NAME = 48
"""Leaves room for a tool's name behind ``mcp__<server>__``."""


@click.command("install")
@click.argument("client", type=click.Choice(["claude-code", "cursor", "json"]))
@click.argument("file", metavar="FILE[:name]")
@click.option("--name", help="The server's name in the client; the file's name when left out.")
@click.option("--with", "packages", multiple=True, metavar="PKG", help="A package that the file needs; repeatable.")
@click.option("--project", is_flag=True, help="Only for the current folder: .mcp.json or .cursor/mcp.json.")
@click.option("--check", "only_check", is_flag=True, help="Change nothing; start what is installed and list its tools.")
@click.option("--remove", is_flag=True, help="Remove what was installed.")
def command(
    client: str,
    file: str,
    *,
    name: str | None,
    packages: tuple[str, ...],
    project: bool,
    only_check: bool,
    remove: bool,
) -> None:
    r"""Make an MCP client start the app in FILE over stdio.

    Before anything is written, the command is started as the client will start it, with an almost empty environment,
    and its tools are listed. json prints an entry for any other client.

    \b
    bascule install claude-code app.py
    bascule install cursor app.py --check
    bascule install cursor app.py --remove
    """
    name = _name(name, file)
    if only_check and remove:
        raise click.UsageError("--check and --remove cannot be used together.")
    if client == "json":
        if only_check or remove or project:
            raise click.UsageError("json prints an entry and keeps nothing: no --check, no --remove, no --project.")
        click.echo(json.dumps({"mcpServers": {name: _tried(file, packages, name)}}, indent=2, ensure_ascii=False))
        return
    keeper = _keeper(client, project=project)
    if remove:
        _remove(keeper, name)
    elif only_check:
        _check(keeper, name, file)
    else:
        _install(keeper, name, _tried(file, packages, name, keeper))
        if client == "cursor" and not project:
            entry = keeper.read(name) or {}
            click.echo(f"Or open this link to let Cursor ask: {cursor_link(name, entry)}")


def _name(name: str | None, file: str) -> str:
    if name is not None:
        return check_name(name, what="server", room=len("mcp____a"))
    path, colon, variable = file.rpartition(":")
    stem = Path(path if colon and variable.isidentifier() else file).stem
    return safe_name(stem)[:_LONGEST_NAME].rstrip("_-")


def _keeper(client: str, *, project: bool) -> Client:
    if client == "cursor":
        return JsonFile((Path.cwd() if project else Path.home()) / ".cursor" / "mcp.json")
    if project:
        return JsonFile(Path.cwd() / ".mcp.json", extra={"type": "stdio"})
    return ClaudeCode()


def _tried(file: str, packages: tuple[str, ...], name: str, keeper: Client | None = None) -> Entry:
    """Return the entry for a file, after it has been started once."""
    path, variable = target_of(file)
    if keeper is not None:
        _refuse_foreign(keeper, name)
    starter = lasting_command(path, variable, packages)
    _start(starter, name)
    return entry_of(starter)


def _start(starter: StdioCommand, name: str) -> None:
    tools = anyio.run(list_tools, starter)
    check_room(name, tools)
    click.echo(f"Started it as the client does; it has {len(tools)} tools: {', '.join(tools)}", err=True)


def _install(keeper: Client, name: str, entry: Entry) -> None:
    before = keeper.read(name)
    if before is not None and _runs_the_same(before, entry):
        click.echo(f"{name} is installed in {keeper.place} already.")
        return
    keeper.write(name, entry)
    after = keeper.read(name)
    if after is None or not _runs_the_same(after, entry):
        raise ConfigurationError(
            f"{name} was written to {keeper.place}, and something else stands there now. Try again."
        )
    click.echo(f"{name} is {'replaced' if before else 'installed'} in {keeper.place}. Restart the client if it runs.")


def _remove(keeper: Client, name: str) -> None:
    if keeper.read(name) is None:
        click.echo(f"{name} is not installed in {keeper.place}.")
        return
    _refuse_foreign(keeper, name)
    keeper.remove(name)
    click.echo(f"{name} is removed from {keeper.place}.")


def _check(keeper: Client, name: str, file: str) -> None:
    entry = keeper.read(name)
    if entry is None:
        raise ConfigurationError(f"{name} is not installed in {keeper.place}. Run the command without --check: {file}")
    _refuse_foreign(keeper, name)
    _start(command_of(entry), name)
    click.echo(f"{name} in {keeper.place} works.")


def _refuse_foreign(keeper: Client, name: str) -> None:
    before = keeper.read(name)
    if before is not None and not is_ours(before):
        raise ConfigurationError(
            f"{keeper.place} has a server {name!r} that does not run bascule; it was left alone. Choose another --name."
        )


def _runs_the_same(found: Entry, wanted: Entry) -> bool:
    same = all(found.get(key) == wanted.get(key) for key in ("command", "args"))
    return same and {**(found.get("env") or {}), **(wanted.get("env") or {})} == (found.get("env") or {})
