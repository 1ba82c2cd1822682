"""``bascule call``: one call of one tool."""

import difflib
import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any, cast

import anyio
import click

from bascule.cli._remote import CommandWithStdio, command_after_dashes, connected, target_from
from bascule.cli._values import arguments_from
from bascule.errors import InputError, ToolError
from bascule.mcp_server._client import Target, offer_of

__all__ = ["command"]

_Json = Mapping[str, Any]  # entries of a protocol that grows; read with defaults


@click.command("call", cls=CommandWithStdio)
@click.argument("words", metavar="[FILE[:name]|URL] TOOL [key=value]...|JSON", nargs=-1)
@click.option("--token", metavar="TOKEN", envvar="BASCULE_TOKEN", help="Bearer token for a protected server.")
@click.option(
    "--timeout",
    type=click.FloatRange(min=0, min_open=True),
    default=300,
    show_default=True,
    metavar="SECONDS",
    help="Give up after this time.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the whole result as JSON.")
@click.pass_context
def command(ctx: click.Context, words: tuple[str, ...], *, token: str | None, timeout: float, as_json: bool) -> None:
    r"""Call a tool and print the text of its result.

    The tool's schema says how values are read: numbers, booleans (true, false), lists and objects (as JSON).
    Progress goes to stderr. The exit status is 1 when the tool reports an error.

    \b
    bascule call app.py add a=2 b=3
    bascule call app.py add '{"a": 2, "b": 3}'
    bascule call http://127.0.0.1:8000/mcp ask_tutor message="What is 2 + 3?"
    bascule call add a=2 b=3 -- python my_server.py
    """
    server = command_after_dashes(ctx)
    target, rest = (None, words) if server else (words[0] if words else None, words[1:])
    where = target_from(target, server)
    if not rest:
        raise click.UsageError("Which tool? Name it after the target; `bascule inspect` lists them.")
    result = anyio.run(_call, where, rest, token, timeout)
    if as_json:
        click.echo(json.dumps(result, indent=2, ensure_ascii=False))
        sys.exit(1 if result.get("isError") else 0)
    text = "\n".join(_texts(result))
    if result.get("isError"):
        raise ToolError(text or f"The tool {rest[0]!r} failed and does not say why.")
    click.echo(text)


async def _call(target: Target, words: Sequence[str], token: str | None, timeout: float) -> _Json:
    name = words[0]
    try:
        with anyio.fail_after(timeout):
            async with connected(target, token=token, timeout=min(timeout, 30)) as client:
                tools = {str(tool["name"]): cast("_Json", tool) for tool in (await offer_of(client)).tools}
                if name not in tools:
                    raise InputError(_unknown(name, list(tools)))
                arguments = arguments_from(words[1:], tools[name].get("inputSchema", {}), tool=name)
                result = await client.call_tool(name, arguments, progress_callback=_show_progress)
                return result.model_dump(by_alias=True, exclude_none=True, mode="json")
    except TimeoutError:
        raise InputError(
            f"The tool {name!r} did not answer within {timeout:g} s. Give it more time with --timeout."
        ) from None


def _unknown(name: str, names: list[str]) -> str:
    near = difflib.get_close_matches(name, names, n=1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    return f"There is no tool {name!r}.{hint} The tools are {', '.join(names) or 'none'}."


async def _show_progress(progress: float, total: float | None, message: str | None) -> None:
    share = f"{progress:g}/{total:g}" if total is not None else f"{progress:g}"
    click.echo(f"{share} {message}" if message else share, err=True)


def _texts(result: _Json) -> list[str]:
    """Return what can be read of a result: texts as they are, a word about everything else."""
    found = [_text_of(block) for block in cast("Sequence[_Json]", result.get("content", ()))]
    if not found and "structuredContent" in result:
        found = [json.dumps(result["structuredContent"], ensure_ascii=False)]
    return found


def _text_of(block: _Json) -> str:
    match block.get("type"):
        case "text":
            return str(block["text"])
        case "resource":
            resource = cast("_Json", block["resource"])
            return str(resource.get("text") or f"[{resource.get('mimeType', 'data')} {resource['uri']}]")
        case "resource_link":
            return str(block["uri"])
        case kind:
            return f"[{kind} {block.get('mimeType', '')}, {len(block.get('data', '')) * 3 // 4} bytes]"
