"""``bascule inspect``: what a server offers."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

import anyio
import click

from bascule.cli._remote import CommandWithStdio, command_after_dashes, connected, target_from
from bascule.cli._values import describe_type
from bascule.mcp_server._client import Offer, Target, offer_of

__all__ = ["command"]

_Json = Mapping[str, Any]  # entries of a protocol that grows; read with defaults


@click.command("inspect", cls=CommandWithStdio)
@click.argument("target", metavar="[FILE[:name]|URL]", required=False)
@click.option("--token", metavar="TOKEN", envvar="BASCULE_TOKEN", help="Bearer token for a protected server.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def command(ctx: click.Context, target: str | None, *, token: str | None, as_json: bool) -> None:
    r"""Show the tools, prompts and resources of an app, of a server at a URL, or of one that a command starts.

    \b
    bascule inspect app.py
    bascule inspect http://127.0.0.1:8000/mcp
    bascule inspect -- npx -y some-mcp-server
    """
    offer = anyio.run(_ask, target_from(target, command_after_dashes(ctx)), token)
    click.echo(_as_json(offer) if as_json else "\n".join(_lines(offer)))


async def _ask(target: Target, token: str | None) -> Offer:
    async with connected(target, token=token) as client:
        return await offer_of(client)


def _as_json(offer: Offer) -> str:
    document = {
        "server": {"name": offer.name, "version": offer.version},
        "protocolVersion": offer.protocol_version,
        "instructions": offer.instructions,
        "tools": offer.tools,
        "prompts": offer.prompts,
        "resources": offer.resources,
        "resourceTemplates": offer.templates,
    }
    return json.dumps(document, indent=2, ensure_ascii=False)


def _lines(offer: Offer) -> Iterator[str]:
    yield f"{offer.name} {offer.version} (MCP {offer.protocol_version})"
    if offer.instructions:
        yield offer.instructions
    yield from _section("Tools", offer.tools, _tool)
    yield from _section("Prompts", offer.prompts, _prompt)
    yield from _section("Resources", offer.resources, _resource)
    yield from _section("Resource templates", offer.templates, _resource)


def _section(title: str, entries: Sequence[_Json], show: "Any") -> Iterator[str]:
    if entries:
        yield ""
        yield f"{title} ({len(entries)})"
        for entry in entries:
            yield from show(entry)


def _tool(tool: _Json) -> Iterator[str]:
    schema = cast("_Json", tool.get("inputSchema", {}))
    parameters = cast("Mapping[str, _Json]", schema.get("properties", {}))
    required = schema.get("required", ())
    inner = [f"{name}{'' if name in required else '?'}: {describe_type(p, schema)}" for name, p in parameters.items()]
    yield f"  {tool['name']}({', '.join(inner)})"
    yield from _description(tool)
    for name, parameter in parameters.items():
        if parameter.get("description"):
            yield f"      {name}: {parameter['description']}"


def _prompt(prompt: _Json) -> Iterator[str]:
    arguments = cast("Sequence[_Json]", prompt.get("arguments", ()))
    inner = [f"{argument['name']}{'' if argument.get('required') else '?'}" for argument in arguments]
    yield f"  {prompt['name']}({', '.join(inner)})"
    yield from _description(prompt)


def _resource(resource: _Json) -> Iterator[str]:
    yield f"  {resource.get('uri') or resource.get('uriTemplate')}"
    yield from _description(resource)


def _description(entry: _Json) -> Iterator[str]:
    for line in str(entry.get("description") or "").strip().splitlines():
        yield f"    {line}"
