"""``bascule new``: a small app to start from."""

from pathlib import Path

import click

from bascule.errors import ConfigurationError

__all__ = ["command"]

_APP = '''"""A tool, and an agent that has it."""

from bascule import Agent, Bascule, tool


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


app = Bascule(agents=[Agent("tutor", description="Explains sums.", instructions="Be brief.", tools=[add])], tools=[add])
'''


@click.command("new")
@click.argument("file", metavar="FILE")
def command(file: str) -> None:
    """Write a small app to FILE: one tool, and an agent that has it. It runs without a key.

    A file that exists is not overwritten.
    """
    path = Path(file).expanduser()
    if path.suffix != ".py":
        raise ConfigurationError(f"{file} does not end in .py. Name a Python file: {path.name or 'app'}.py")
    if path.exists():
        raise ConfigurationError(f"{file} is there already, and was left alone. Name another file.")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("x", encoding="utf-8") as draft:
            draft.write(_APP)
    except OSError as error:
        raise ConfigurationError(f"{file} cannot be written: {error.strerror}. Name another place.") from error
    click.echo(f"Wrote {file}. Next:")
    for line in (
        f"bascule call {file} add a=2 b=3",
        f"bascule serve {file}",
        f"bascule install claude-code {file}",
    ):
        click.echo(f"  {line}")
