"""``bascule run``: MCP over stdio."""

import logging
from pathlib import Path

import click

from bascule.mcp_server import protect_stdout

__all__ = ["command"]


@click.command("run")
@click.argument("target", metavar="FILE[:name]")
@click.option("--log-level", help="debug, info, warning, error or critical.")
def command(target: str, log_level: str | None) -> None:
    """Serve the app in FILE over stdin and stdout, for a client that starts this command.

    Ends when stdin ends. Everything that the file prints goes to stderr.
    """
    protect_stdout()
    from bascule.cli._load import load_app, target_of  # noqa: PLC0415  # not before stdout is safe
    from bascule.settings import load_settings  # noqa: PLC0415

    path, _ = target_of(target)
    settings = load_settings(Path(path).parent, overrides={"log_level": log_level})
    logging.basicConfig(level=settings.log_level.upper(), format="%(levelname)s %(name)s: %(message)s")
    app = load_app(target, settings)
    app.keep_in_data_folder()
    app.run("stdio")
