"""``bascule run``: MCP over stdio."""

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
    from bascule.cli._load import open_app  # noqa: PLC0415  # not before stdout is safe

    app = open_app(target, {"log_level": log_level})
    app.keep_in_data_folder()
    app.run("stdio")
