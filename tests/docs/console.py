"""Runs the console blocks of a page, as a reader types them: one after another, in one folder, with one home.

A line that begins with ``$`` is a command, and what follows is what it prints; a block without such a line is commands
only. ``...`` stands for anything, within a line and, alone, for any number of lines. A server goes on until the page
ends or the next one is started.
"""

import os
import re
import shlex
from collections.abc import Generator, Mapping
from contextlib import ExitStack, chdir, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import click

from bascule.cli import _main as command_line
from tests.acceptance.harness.processes import Running, run_to_end, started
from tests.acceptance.harness.served import DIRECT
from tests.acceptance.harness.surroundings import BASCULE, Surroundings, free_port
from tests.docs.blocks import ROOT, Block

PORT = "8000"
MAKE_RUN = "bascule serve examples/quickstart.py --port 8000"
NOT_RUN_HERE = re.compile(r"make test|bascule acp (check|run) ")
"""What would run these tests again, or needs a program of someone else: it is parsed, not run."""


@dataclass(slots=True)
class Command:
    """A command and what it should print."""

    line: str
    expected: list[str] = field(default_factory=list[str])


def commands_of(block: Block) -> list[Command]:
    """Take a console block apart."""
    found: list[Command] = []
    lines = block.text.splitlines()
    if not any(line.startswith("$ ") for line in lines):
        lines = [f"$ {line}" for line in lines]
    for line in lines:
        if line.startswith("$ "):
            found.append(Command(re.sub(r"\s+# .*", "", line[2:]).strip()))
        else:
            assert found, f"{block.place} prints something before its first command"
            found[-1].expected.append(line)
    return found


class Session:
    """A reader at a terminal."""

    def __init__(self, surroundings: Surroundings, environment: Mapping[str, str], servers: ExitStack) -> None:
        self._surroundings = surroundings
        self._port = str(free_port())
        self._environment = {**environment, "BASCULE_PORT": self._port}
        self._servers = servers
        self._server: Running | None = None

    def run(self, command: Command, place: str) -> None:
        """Run a command and compare what it prints."""
        line = MAKE_RUN if command.line == "make run" else command.line
        if line.startswith("claude "):
            assert self._server is not None, f"{place} connects to a server that is not there"
            assert line.replace(PORT, self._port) in self._server.stderr, f"{place}: the server says something else"
        elif NOT_RUN_HERE.match(line):
            with chdir(self._surroundings.project):
                parse(line)
        elif re.match(r"bascule serve\b", line):
            # As late as possible: any other process may be given the port meanwhile.
            self._port = str(free_port())
            printed = self._serve(line.replace(PORT, self._port))
            compare(printed, [text.replace(PORT, self._port) for text in command.expected], f"{place}: {line}")
        else:
            printed = self._run(line.replace(PORT, self._port), place)
            compare(printed, [text.replace(PORT, self._port) for text in command.expected], f"{place}: {line}")

    def _serve(self, line: str) -> str:
        self._servers.close()
        environment = {**self._environment, "BASCULE_PORT": self._port}
        arguments = [BASCULE, *shlex.split(line)[1:]]
        server = started(arguments, env=environment, cwd=self._surroundings.project)
        self._server = running = self._servers.enter_context(server)
        address = f"http://127.0.0.1:{self._port}/healthz"
        running.wait_until(lambda: _answers(address) and "Bascule " in running.stderr, what="the server was ready")
        return running.stderr

    def _run(self, line: str, place: str) -> str:
        kept = self._surroundings.root / "environment"
        script = f"set -e\n{line}\nenv -0 > {shlex.quote(str(kept))}"
        done = run_to_end(["bash", "-c", script], env=self._environment, cwd=self._surroundings.project, timeout=60)
        assert done.exit_code == 0, f"{place}\n{done.describe()}"
        pairs = (entry.partition("=") for entry in kept.read_text(encoding="utf-8").split("\0") if entry)
        self._environment |= {name: value for name, _, value in pairs if name not in ("PWD", "SHLVL", "_", "OLDPWD")}
        return done.stdout


def _answers(url: str) -> bool:
    try:
        with DIRECT.open(url, timeout=2) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


@contextmanager
def session(surroundings: Surroundings, *, programs: Path) -> Generator[Session]:
    """Sit down at a terminal that has the repository's examples at hand."""
    (surroundings.project / "examples").symlink_to(ROOT / "examples")
    (surroundings.project / "project").mkdir()
    path = os.pathsep.join((str(programs), str(Path(BASCULE).parent), os.environ.get("PATH", os.defpath)))
    with ExitStack() as servers:
        yield Session(surroundings, surroundings.environment(PATH=path), servers)


def compare(printed: str, expected: list[str], place: str) -> None:
    """Compare what was printed with what a page says; nothing said means nothing compared."""
    if not expected:
        return
    pattern = "".join(
        r"(?:.*\n)*?" if line.strip() == "..." else re.escape(line.rstrip()).replace(r"\.\.\.", ".*") + r"[ ]*\n"
        for line in expected
    )
    text = printed if printed.endswith("\n") else f"{printed}\n"
    assert re.fullmatch(pattern, text), f"{place} prints\n{printed}\nand the page says\n{chr(10).join(expected)}"


def parse(line: str) -> None:
    """Check that a command and its options exist."""
    program, *words = shlex.split(line)
    if program != "bascule":
        return
    command: click.Command = command_line._root  # pyright: ignore[reportPrivateUsage]  # the command line itself
    context = command.make_context("bascule", list(words))
    while isinstance(command, click.Group):
        name, *words = words
        found = command.get_command(context, name)
        assert found is not None, f"there is no command {name!r} in: {line}"
        command = found
        context = command.make_context(name, list(words), parent=context)
