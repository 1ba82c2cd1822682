"""The server that `inspect`, `call` and `doctor` look at: an app's file, a URL, or a command after ``--``."""

import logging
import os
import sys
import tempfile
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace

import click

from bascule.errors import ConfigurationError
from bascule.mcp_server._client import Connection, Era, StdioCommand, Target, connect

__all__ = ["CommandWithStdio", "command_after_dashes", "connected", "run_command", "target_from"]

_COMMAND = "bascule.command"
_ERROR = "Error: "


class CommandWithStdio(click.Command):
    """Keeps what stands after ``--`` apart, untouched: it is the command that starts a server."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse what stands before ``--``."""
        if "--" in args:
            at = args.index("--")
            ctx.meta[_COMMAND] = tuple(args[at + 1 :])
            args = args[:at]
        return super().parse_args(ctx, args)

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        """Show the command in the usage line too."""
        return [*super().collect_usage_pieces(ctx), "[-- COMMAND...]"]


def command_after_dashes(ctx: click.Context) -> tuple[str, ...]:
    """Return the command after ``--``, empty when there is none."""
    command: tuple[str, ...] = ctx.meta.get(_COMMAND, ())
    return command


def run_command(file: str) -> StdioCommand:
    """Return the command that serves an app's file over stdio, with this interpreter."""
    return StdioCommand(command=sys.executable, args=("-m", "bascule", "run", file))


def target_from(text: str | None, command: Sequence[str]) -> Target:
    """Return what to connect to.

    Args:
        text: ``FILE[:name]`` or a URL.
        command: a command that starts a server; one of the two has to be given.
    """
    if command and text:
        raise click.UsageError(f"Give {text!r} or a command after --, not both.")
    if command:
        return StdioCommand(command=command[0], args=tuple(command[1:]), env=dict(os.environ))
    if not text:
        raise click.UsageError("What to look at? Give an app's file, a URL, or a command after --.")
    if "://" in text:
        return text
    return replace(run_command(text), env=dict(os.environ))


@asynccontextmanager
async def connected(
    target: Target, *, token: str | None = None, era: Era = "auto", timeout: float = 30
) -> AsyncGenerator[Connection]:
    """Connect; an error that a started `bascule run` reports is raised as if it had happened here."""
    _quiet("mcp", "httpx2")
    with tempfile.TemporaryFile() as stderr:
        try:
            async with connect(target, token, era=era, timeout=timeout, stderr=stderr) as client:
                yield client
        except ConfigurationError as error:
            stderr.seek(0)
            last = stderr.read().decode("utf-8", "replace").strip().rpartition("\n")[2]
            if last.startswith(_ERROR):
                raise ConfigurationError(last.removeprefix(_ERROR)) from error
            raise


def _quiet(*names: str) -> None:
    """Keep libraries from writing about errors that are reported anyway."""
    for name in names:
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
