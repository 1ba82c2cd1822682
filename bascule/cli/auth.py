"""``bascule auth``: tokens for trying things out."""

import click

from bascule.auth import BASE_SCOPES, DevAuth
from bascule.errors import BasculeError

__all__ = ["group"]


@click.group("auth")
def group() -> None:
    """Make tokens for a server on this machine."""


@group.command("token")
@click.option("--sub", required=True, metavar="NAME", help="Whose token it is.")
@click.option("--scopes", default=" ".join(BASE_SCOPES), show_default=True, help="What it allows, separated by spaces.")
@click.option(
    "--ttl", type=click.FloatRange(min=1), default=3600, show_default=True, metavar="SECONDS", help="How long it lives."
)
@click.option("--aud", metavar="URL", help="The one resource it is good for. Default: every server of yours.")
def token(sub: str, scopes: str, ttl: float, aud: str | None) -> None:
    """Print a token that `bascule serve --auth dev` accepts, and nothing else.

    The server and this command have to run as the same user of the same machine.
    """
    try:
        click.echo(DevAuth().mint(sub, scopes.split(), ttl, audience=aud))
    except BasculeError as error:
        raise click.ClickException(str(error)) from error
