"""``bascule serve``: MCP over HTTP."""

import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

import anyio
import click

from bascule.acp import AcpAgent
from bascule.app import Bascule
from bascule.auth import Auth, DevAuth, JWTAuth
from bascule.cli._card import agent_from_card
from bascule.cli._connect import describe_server
from bascule.cli._load import open_app, set_up
from bascule.mcp_server import ClientSeen, protect_stdout, serving_process

__all__ = ["command"]

_ALGORITHMS = ("RS256", "ES256", "PS256", "EdDSA")


@click.command("serve")
@click.argument("target", metavar="[FILE[:name]]", required=False)
@click.option("--host", help="Address to listen on (127.0.0.1).")
@click.option("--port", type=int, help="Port to listen on (8000); 0 takes a free one.")
@click.option("--base-url", help="Address under which clients reach the server, behind a proxy.")
@click.option("--root-path", help="Prefix that a proxy strips.")
@click.option("--grace", type=float, help="Seconds that calls in flight get at the end (10).")
@click.option("--http", type=click.Choice(["auto", "h11", "httptools"]), help="HTTP parser.")
@click.option(
    "--auth",
    "auth_mode",
    type=click.Choice(["none", "dev"]),
    help="dev: tokens from 'bascule auth token'; none: anyone may call.",
)
@click.option("--jwt-jwks", metavar="URL", help="Accept JWTs signed with the keys at this address.")
@click.option("--issuer", help="The issuer that those JWTs must name.")
@click.option("--audience", help="The audience that they must name; the server's own address when left out.")
@click.option("--jwt-algorithm", "algorithms", multiple=True, help=f"Accepted algorithms ({', '.join(_ALGORITHMS)}).")
@click.option(
    "--agent", "cards", multiple=True, metavar="CARD.md", help="Serve an agent written as a card; repeatable."
)
@click.option("--acp", "acp_names", multiple=True, metavar="NAME", help="Serve a coding agent; repeatable.")
@click.option("--log-level", help="debug, info, warning, error or critical.")
def command(
    target: str | None,
    *,
    host: str | None,
    port: int | None,
    base_url: str | None,
    root_path: str | None,
    grace: float | None,
    http: str | None,
    auth_mode: str | None,
    jwt_jwks: str | None,
    issuer: str | None,
    audience: str | None,
    algorithms: tuple[str, ...],
    cards: tuple[str, ...],
    acp_names: tuple[str, ...],
    log_level: str | None,
) -> None:
    """Serve the app in FILE over HTTP: MCP at /mcp, health at /healthz and /readyz.

    Without FILE, --agent and --acp say what is served. Ends on SIGTERM and Ctrl-C.
    """
    protect_stdout()
    flags = {
        "host": host,
        "port": port,
        "base_url": base_url,
        "root_path": root_path,
        "grace": grace,
        "http": http,
        "log_level": log_level,
    }
    app = _app(target, flags, cards, acp_names)
    auth = _auth(auth_mode, jwt_jwks, issuer, audience, algorithms)
    if auth is not None or auth_mode == "none":
        app.auth = auth
    app.open_to_anyone = app.open_to_anyone or auth_mode == "none"
    app.keep_in_data_folder()
    app.check()
    _serve(app, target)


def _app(
    target: str | None, flags: Mapping[str, object], cards: tuple[str, ...], acp_names: tuple[str, ...]
) -> Bascule:
    if not (target or cards or acp_names):
        raise click.UsageError("Nothing to serve. Name a file, or use --agent CARD.md or --acp NAME.")
    app = open_app(target, flags) if target else Bascule(settings=set_up(Path.cwd(), flags))
    for card in cards:
        app.add_agent(agent_from_card(Path(card), tools=app.tools))
    for name in acp_names:
        agent = AcpAgent(name)
        if shutil.which(agent.config.command[0]) is None:
            hint = agent.config.install or "put it on the search path"
            print(
                f"Note: {agent.config.command[0]} is not installed, so ask_{name} cannot answer: {hint}",
                file=sys.stderr,
            )
        app.add_acp_agent(agent)
    return app


def _auth(
    mode: str | None,
    jwks: str | None,
    issuer: str | None,
    audience: str | None,
    algorithms: tuple[str, ...],
) -> Auth | None:
    if jwks is None:
        if issuer or audience or algorithms:
            raise click.UsageError("--issuer, --audience and --jwt-algorithm need --jwt-jwks.")
        return Auth(DevAuth()) if mode == "dev" else None
    if mode is not None:
        raise click.UsageError(f"--auth {mode} and --jwt-jwks cannot be used together.")
    if not issuer:
        raise click.UsageError(
            "--jwt-jwks needs --issuer: the exact text of the 'iss' claim, such as https://id.example/"
        )
    provider = JWTAuth(jwks_url=jwks, issuer=issuer, audience=audience, algorithms=algorithms or _ALGORITHMS)
    return Auth(provider)


def _serve(app: Bascule, target: str | None) -> None:
    def listening(host: str, port: int) -> None:
        print(describe_server(app, target, host=host, port=port), file=sys.stderr, flush=True)

    def connected(client: ClientSeen) -> None:
        print(client, file=sys.stderr, flush=True)

    app.server().on_client(connected)
    with serving_process():
        anyio.run(lambda: app.run_http(on_listening=listening))
