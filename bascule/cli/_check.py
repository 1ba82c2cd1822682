"""Starts what a client was told to start, the way the client does it, and looks whether tools come out."""

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from bascule.cli._remote import connected
from bascule.mcp_server._client import StdioCommand, offer_of
from bascule.tools import check_name

__all__ = ["MANY_TOOLS", "check_room", "list_tools"]

MANY_TOOLS = 40
"""Beyond this number of tools, editors and their models choose badly."""

_DESKTOP_PATH = "/usr/bin:/bin"
_START = 120
"""uvx may have to download first."""


async def list_tools(command: StdioCommand) -> list[str]:
    """Start a command in an environment as empty as a desktop program's, and return the tools that it lists.

    Raises:
        ConfigurationError: it does not start, or does not answer; with the end of what it wrote to stderr.
    """
    env = {"PATH": _DESKTOP_PATH, "HOME": os.environ.get("HOME", str(Path.home())), **command.env}
    async with connected(replace(command, env=env, cwd=Path.home()), timeout=_START) as client:
        return [str(tool["name"]) for tool in (await offer_of(client)).tools]


def check_room(server: str, tools: Sequence[str]) -> None:
    """Check that every tool's name fits behind the prefix that clients make of the server's name.

    Raises:
        NameInvalid: one does not.
    """
    for tool in tools:
        check_name(tool, room=len(f"mcp__{server}__"))
