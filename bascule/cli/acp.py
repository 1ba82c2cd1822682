"""``bascule acp``: coding agents from the command line."""

import json
import shutil
import signal
import sys
from dataclasses import replace
from functools import partial
from typing import Literal

import anyio
import click
from anyio import to_thread

from bascule.acp import PRESETS, AcpAgent, AcpOutput
from bascule.errors import AcpAuthRequired, AcpError, NotFound
from bascule.stream import (
    AcpDiffChunk,
    AcpNoticeChunk,
    AcpPlanChunk,
    Chunk,
    FullOutput,
    PendingCall,
    TextDeltaChunk,
    ToolCallChunk,
    ToolErrorChunk,
    ToolOutputDeniedChunk,
)
from bascule.tools import safe_name

__all__ = ["group"]

Permission = Literal["ask", "allow", "deny"]


@click.group("acp")
def group() -> None:
    """Give work to coding agents that speak the Agent Client Protocol."""


@group.command("list")
def list_agents() -> None:
    """List the known coding agents, and which of them are installed."""
    for name, preset in PRESETS.items():
        where = shutil.which(preset.command[0])
        state = f"installed: {where}" if where else f"not installed: {preset.install}"
        click.echo(f"{name:<12} {preset.title:<12} {state}")


@group.command("check")
@click.argument("name")
@click.option("--command", metavar="LINE", help="The launch line, instead of the known one.")
@click.option("--cwd", type=click.Path(exists=True, file_okay=False), help="The folder to work in. Default: this one.")
def check(name: str, command: str | None, cwd: str | None) -> None:
    """Start a coding agent, open a session and say what it can do."""
    anyio.run(partial(_check, name, command, cwd))


async def _check(name: str, command: str | None, cwd: str | None) -> None:
    async with _agent(name, command, cwd, "deny") as agent:
        info = await agent.connect()
        click.echo(f"{agent.name}: {info.name or 'no name'} {info.version or '(no version)'}")
        click.echo(f"prompts:  text, links{''.join(f', {kind}' for kind in sorted(info.prompt_kinds))}")
        if info.auth_methods:
            click.echo(f"logins:   {', '.join(info.auth_methods)}")
        try:
            await agent.connect(session=True)
        except AcpAuthRequired:
            click.echo("sessions: none before a login")
            raise
        click.echo("sessions: yes")


@group.command("run")
@click.argument("name")
@click.argument("task")
@click.option("--command", metavar="LINE", help="The launch line, instead of the known one.")
@click.option("--cwd", type=click.Path(exists=True, file_okay=False), help="The folder to work in. Default: this one.")
@click.option(
    "--permissions",
    type=click.Choice(["ask", "allow", "deny"]),
    default="ask",
    show_default=True,
    help="What happens when the agent asks for permission. Without a terminal, asking means denying.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the result as one JSON object.")
def run(name: str, task: str, command: str | None, cwd: str | None, permissions: Permission, as_json: bool) -> None:
    """Give a task to a coding agent. The answer goes to stdout, everything else to stderr."""
    if permissions == "ask" and not sys.stdin.isatty():
        permissions = "deny"
    status = anyio.run(partial(_run, _agent(name, command, cwd, permissions), task, as_json))
    if status != "success":
        sys.exit(130)


def _agent(name: str, command: str | None, cwd: str | None, permissions: Permission) -> AcpAgent:
    try:
        return AcpAgent(name, command=command, cwd=cwd, permissions=permissions)
    except NotFound:
        if command is None:
            raise
        return AcpAgent(id=safe_name(name), command=command, cwd=cwd, permissions=permissions)


async def _run(agent: AcpAgent, task: str, as_json: bool) -> str:
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_cancel_on_termination, tasks.cancel_scope)
        async with agent:
            result, files = await _work(agent, task, as_json)
            if as_json:
                click.echo(json.dumps(_summary(result, files)))
        tasks.cancel_scope.cancel()
        return result.status
    return "canceled"


async def _cancel_on_termination(scope: anyio.CancelScope) -> None:
    with anyio.open_signal_receiver(signal.SIGTERM) as signals:
        async for _ in signals:
            scope.cancel()
            return


async def _work(agent: AcpAgent, task: str, as_json: bool) -> tuple[FullOutput, tuple[str, ...]]:
    """Read the run to its end, with the questions on the way."""
    output: AcpOutput = agent.stream(task)
    texts: list[str] = []
    warnings: list[str] = []
    while True:
        async for chunk in output:
            _show(chunk, quiet=as_json)
        result = await _result(output, as_json)
        texts.append(result.text)
        warnings += result.warnings
        if result.status != "suspended":
            break
        for call in result.pending[:1]:  # others come up again
            option = await to_thread.run_sync(_question, call, abandon_on_cancel=True)
            output = agent.resume_stream(
                {"optionId": option} if option else {"approved": False},
                run_id=output.run_id,
                tool_call_id=call.tool_call_id,
            )
    text = "".join(texts)
    if not as_json and text and not text.endswith("\n"):
        click.echo()
    for warning in warnings:
        click.echo(f"warning: {warning}", err=True)
    return replace(result, text=text, warnings=tuple(warnings)), output.files_changed


async def _result(output: AcpOutput, as_json: bool) -> FullOutput:
    """Return the result; a failed run's is printed before the error goes on."""
    try:
        return await output
    except AcpError as error:
        if as_json and isinstance(error.output, FullOutput):
            click.echo(json.dumps(_summary(error.output, output.files_changed)))
        elif error.output is not None and error.output.text:
            click.echo()
        raise


def _show(chunk: Chunk, *, quiet: bool) -> None:
    match chunk:
        case TextDeltaChunk():
            if not quiet:
                click.echo(chunk.text, nl=False)
        case ToolCallChunk():
            click.echo(f"- {chunk.tool_name}", err=True)
        case ToolErrorChunk():
            click.echo(f"  failed: {chunk.message}", err=True)
        case ToolOutputDeniedChunk():
            click.echo(f"  denied: {chunk.reason or chunk.tool_name}", err=True)
        case AcpDiffChunk():
            click.echo(f"  changed: {chunk.path}", err=True)
        case AcpPlanChunk():
            for entry in chunk.entries:
                click.echo(f"  [{entry.get('status')}] {entry.get('content')}", err=True)
        case AcpNoticeChunk():
            pass  # it stands among the warnings
        case _:
            pass


def _question(call: PendingCall) -> str | None:
    """Ask the person at the terminal; returns the option's id, nothing for none of them."""
    payload = call.suspend_payload
    options = payload.get("options") if isinstance(payload, dict) else None
    known = [option for option in options if isinstance(option, dict)] if isinstance(options, list) else []
    click.echo(f"\nThe agent asks for permission: {call.tool_name}", err=True)
    for number, option in enumerate(known, start=1):
        click.echo(f"  {number}  {option.get('name') or option.get('optionId')}", err=True)
    chosen = click.prompt("Your choice, 0 for none", type=click.IntRange(0, len(known)), default=0, err=True)
    return str(known[chosen - 1].get("optionId")) if chosen else None


def _summary(result: FullOutput, files: tuple[str, ...]) -> dict[str, object]:
    return {
        "status": result.status,
        "text": result.text,
        "finishReason": result.finish_reason,
        "filesChanged": list(files),
        "toolCalls": [{"toolCallId": call.tool_call_id, "toolName": call.tool_name} for call in result.tool_calls],
        "usage": result.usage.to_wire(),
        "warnings": list(result.warnings),
        "error": None if result.error is None else str(result.error),
    }
