"""``bascule doctor``: finds out what is wrong, here or at a server."""

import sys
from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import click

from bascule.cli._findings import Finding, file_findings, machine_findings
from bascule.cli._load import target_of
from bascule.cli._remote_findings import remote_findings
from bascule.settings import load_settings

__all__ = ["command"]

_COLOURS = {"ok": "green", "failed": "red", "note": "yellow"}


@click.command("doctor")
@click.argument("target", metavar="[FILE[:name]]", required=False)
@click.option("--remote", metavar="URL", help="Look at a server instead: health, login, protocol.")
@click.option("--token", metavar="TOKEN", envvar="BASCULE_TOKEN", help="Bearer token for a protected server.")
def command(target: str | None, *, remote: str | None, token: str | None) -> None:
    r"""Look at this machine, at the app in FILE, or at a server, and say what to do about what is wrong.

    The exit status is 1 when something is.

    \b
    bascule doctor
    bascule doctor app.py
    bascule doctor --remote http://127.0.0.1:8000/mcp
    """
    if remote and target:
        raise click.UsageError("Look at FILE or at --remote URL, one at a time.")
    failed = anyio.run(_report, _all(target, remote, token))
    if failed:
        click.echo(f"{failed} of these failed.", err=True)
        sys.exit(1)


async def _all(target: str | None, remote: str | None, token: str | None) -> AsyncIterator[Finding]:
    if remote is not None:
        async for finding in remote_findings(remote, token):
            yield finding
        return
    folder = target_of(target)[0].parent if target else Path.cwd()
    for finding in machine_findings(load_settings(folder)):
        yield finding
    if target:
        async for finding in file_findings(target):
            yield finding


async def _report(findings: AsyncIterator[Finding]) -> int:
    failed = 0
    async for finding in findings:
        click.echo(f"{click.style(f'{finding.state:<8}', fg=_COLOURS[finding.state])}{finding.text}")
        failed += finding.state == "failed"
    return failed
