"""What `bascule serve` says when it is ready: where it listens, what it serves, how to connect to it."""

import json
import shlex

from bascule.app import Bascule
from bascule.tools import safe_name

__all__ = ["describe_server"]

_LIST_TOOLS = '{"jsonrpc": "2.0", "id": 1, "method": "tools/list"}'
_CURL_HEADERS = "-H 'content-type: application/json' -H 'accept: application/json, text/event-stream'"
_ANY_ADDRESS = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # where a client finds them


def describe_server(app: Bascule, target: str | None, *, host: str, port: int) -> str:
    """Return the text that tells where an app is served, and how each client connects to it.

    Args:
        app: what is served.
        target: the file it came from, if any.
        host: the address that it listens on.
        port: the port that it listens on.
    """
    base = app.settings.base_url or _base_url(host, port)
    url = f"{base.rstrip('/')}/mcp"
    lines = [
        f"Serving {target or app.name}: {_offer(app)}",
        f"  MCP     {url}",
        f"  health  {base.rstrip('/')}/healthz",
    ]
    lines += ["", *_token_lines(app), "Connect a client:"]
    lines += [f"  {label:<13}{text}" for label, text in _clients(safe_name(app.name), url, protected=bool(app.auth))]
    return "\n".join(lines)


def _base_url(host: str, port: int) -> str:
    host = _ANY_ADDRESS.get(host, host)
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _offer(app: Bascule) -> str:
    return ", ".join(app.server().catalogue.tools) or "no tools"


def _token_lines(app: Bascule) -> list[str]:
    if app.auth is None:
        return []
    if app.auth.provider.name == "dev":
        return ["Every request needs a token. Make one:", "  export TOKEN=$(bascule auth token --sub me)", ""]
    return ["Every request needs a token of your identity provider:", "  export TOKEN=...", ""]


def _clients(name: str, url: str, *, protected: bool) -> list[tuple[str, str]]:
    shell_header = ' --header "Authorization: Bearer $TOKEN"' if protected else ""
    curl_header = ' -H "Authorization: Bearer $TOKEN"' if protected else ""
    token = ' --token "$TOKEN"' if protected else ""
    address = shlex.quote(url)
    remote: dict[str, object] = {"url": url}
    if protected:
        remote["headers"] = {"Authorization": "Bearer TOKEN"}
    cursor = json.dumps({"mcpServers": {name: remote}})
    generic = json.dumps({"mcpServers": {name: {"type": "http", **remote}}})
    inspector = (
        f"npx @modelcontextprotocol/inspector --cli {address} --transport http{shell_header} --method tools/list"
    )
    return [
        ("Claude Code", f"claude mcp add --transport http {name} {address}{shell_header}"),
        ("Cursor", f"~/.cursor/mcp.json: {cursor}"),
        ("others", generic),
        ("Inspector", inspector),
        ("curl", f"curl {address}{curl_header} {_CURL_HEADERS} -d '{_LIST_TOOLS}'"),
        ("Bascule", f"bascule inspect {address}{token}"),
    ]
