"""The root of the command line: finds the command, and turns errors into one readable line."""

import importlib
import os
import sys
import traceback
from collections.abc import Sequence
from typing import cast

import click

from bascule import __version__
from bascule.errors import BasculeError

__all__ = ["main"]

_COMMANDS = {
    "run": ("bascule.cli.run", "Serve MCP over stdio, for a client that starts the command."),
    "serve": ("bascule.cli.serve", "Serve MCP over HTTP."),
    "new": ("bascule.cli.new", "Write a small app to start from."),
    "install": ("bascule.cli.install", "Tell an MCP client about an app."),
    "inspect": ("bascule.cli.inspect", "Show what an app or a server offers."),
    "call": ("bascule.cli.call", "Call one tool of an app or a server."),
    "doctor": ("bascule.cli.doctor", "Find out what is wrong."),
    "auth": ("bascule.cli.auth", "Tokens for protected servers."),
    "acp": ("bascule.cli.acp", "External coding agents."),
}
"""Each command lives in a module of its own, as ``command`` or ``group``, imported when it is called."""


class _Commands(click.Group):
    """Imports a command's module when the command is called, not before."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names in the order of the table."""
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return one command."""
        if cmd_name not in _COMMANDS:
            return None
        module = importlib.import_module(_COMMANDS[cmd_name][0])
        command: click.Command = getattr(module, "command", None) or module.group
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands without importing any."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in _COMMANDS.items()])


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="bascule")
def _root() -> None:
    """Serve agents, workflows, memory and tools over MCP, and bridge coding agents over ACP.

    Add --debug to any command to see the traceback of an error.
    """


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit.

    Args:
        arguments: the arguments after the command's name; the process's own when left out.

    Raises:
        SystemExit: always; 0 when the command succeeded, 1 when it failed, 2 when it was called wrongly.
    """
    given = list(sys.argv[1:] if arguments is None else arguments)
    options, rest = (given[: given.index("--")], given[given.index("--") :]) if "--" in given else (given, [])
    debug = "--debug" in options or bool(os.environ.get("BASCULE_DEBUG"))
    given = [argument for argument in options if argument != "--debug"] + rest
    try:
        _root.main(given, prog_name="bascule", standalone_mode=False)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        sys.exit(130)
    except click.exceptions.Exit as error:
        sys.exit(error.exit_code)
    except BrokenPipeError:
        sys.stdout = None
        sys.exit(1)
    except Exception as error:  # noqa: BLE001  # the last stop: nobody wants a traceback they did not ask for
        sys.exit(_report(error, debug=debug))
    sys.exit(0)


def _report(error: Exception, *, debug: bool) -> int:
    if debug:
        traceback.print_exc()
        return 1
    ours = _first_of_ours(error)
    if ours is not None:
        print(f"Error: {ours}", file=sys.stderr)
    else:
        print(f"Error: {type(error).__name__}: {error}", file=sys.stderr)
        print("This was not expected. Run the command again with --debug to see where it happened.", file=sys.stderr)
    return 1


def _first_of_ours(error: BaseException) -> BasculeError | None:
    """Return our own error, also when task groups have wrapped it."""
    if isinstance(error, BasculeError):
        return error
    if isinstance(error, BaseExceptionGroup):
        group = cast("BaseExceptionGroup[BaseException]", error)
        return next((found for found in map(_first_of_ours, group.exceptions) if found is not None), None)
    return None
