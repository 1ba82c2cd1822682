"""Bascule as a user starts it: `bascule serve` in a process, ready when it says so."""

import urllib.error
import urllib.request
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass

from tests.acceptance.harness.processes import Finished, Running, run_to_end, started
from tests.acceptance.harness.programs import REPOSITORY
from tests.acceptance.harness.surroundings import BASCULE, Surroundings, free_port

QUICKSTART = str(REPOSITORY / "examples" / "quickstart.py")
DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """A served app."""

    port: int
    process: Running

    @property
    def mcp_url(self) -> str:
        """Where MCP clients connect."""
        return f"http://127.0.0.1:{self.port}/mcp"


@contextmanager
def serving(app: str, *options: str, surroundings: Surroundings) -> Generator[Served]:
    """Serve an app over HTTP until the block ends."""
    port = free_port()
    arguments = [BASCULE, "serve", app, "--host", "127.0.0.1", "--port", str(port), *options]
    with started(arguments, env=surroundings.environment(), cwd=surroundings.project) as process:
        process.wait_until(lambda: answers(f"http://127.0.0.1:{port}/healthz"), what="the health check answered")
        yield Served(port=port, process=process)


def stdio_command(app: str) -> list[str]:
    """The command that serves an app over stdio."""
    return [BASCULE, "run", app]


def bascule(*arguments: str, surroundings: Surroundings, timeout: float = 60) -> Finished:
    """Run one command of the command line to its end."""
    return run_to_end([BASCULE, *arguments], env=surroundings.environment(), cwd=surroundings.project, timeout=timeout)


def answers(url: str) -> bool:
    """Whether something answers a GET there with 200."""
    try:
        with DIRECT.open(url, timeout=2) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False
