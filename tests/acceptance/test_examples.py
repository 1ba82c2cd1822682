"""The examples run without a key, in a home of their own."""

import json
import sys

import pytest

from tests.acceptance.harness.processes import run_to_end, started
from tests.acceptance.harness.served import DIRECT, bascule, serving
from tests.acceptance.harness.surroundings import Surroundings, free_port
from tests.docs.blocks import ROOT

pytestmark = pytest.mark.timeout(120)

EXAMPLES = ROOT / "examples"

TOOLS = {
    "quickstart.py": {"add", "ask_tutor", "run_order", "memory_list_threads", "memory_read_thread"},
    "two_lines.py": {"shout"},
    "guarded.py": {"whoami"},
    "mounted.py": {"add"},
}
PRINTED = {
    "library.py": [
        "whole: add(a=2, b=3) = 5",
        "calls: add {'a': 20, 'b': 22}",
        "piece by piece: add(a=20, b=22) = 42",
        "remembered: ['My name is Ada.', 'What did I say?']",
        "workflow: 12",
    ],
    "delegate.py": ["allow: written, the file is there", "deny: not allowed, the file is not there"],
}


def test_every_example_is_tested() -> None:
    assert {path.name for path in EXAMPLES.glob("*.py")} == {*TOOLS, *PRINTED}


@pytest.mark.requirement("F43")
@pytest.mark.parametrize("name", TOOLS)
def test_a_served_example_offers_its_tools(name: str, surroundings: Surroundings) -> None:
    done = bascule("inspect", str(EXAMPLES / name), "--json", surroundings=surroundings)
    assert done.exit_code == 0, done.describe()
    assert {tool["name"] for tool in json.loads(done.stdout)["tools"]} == TOOLS[name]


@pytest.mark.requirement("F43")
@pytest.mark.parametrize("name", PRINTED)
def test_a_script_prints_what_it_promises(name: str, surroundings: Surroundings) -> None:
    command = [sys.executable, "-W", "error", str(EXAMPLES / name)]
    done = run_to_end(command, env=surroundings.environment(), cwd=surroundings.project, timeout=60)
    assert done.exit_code == 0, done.describe()
    assert done.stdout.splitlines() == PRINTED[name]


def test_the_mounted_example_serves_its_own_pages_and_mcp_below_the_prefix(surroundings: Surroundings) -> None:
    port = free_port()
    program = f"import uvicorn\nfrom examples.mounted import site\nuvicorn.run(site, port={port}, log_level='error')\n"
    environment = surroundings.environment(PYTHONPATH=str(ROOT))
    with started([sys.executable, "-c", program], env=environment, cwd=surroundings.project) as process:
        process.wait_until(lambda: _page(f"http://127.0.0.1:{port}/") == "hello", what="the site answered")
        done = bascule("call", f"http://127.0.0.1:{port}/ai/mcp", "add", "a=2", "b=3", surroundings=surroundings)
    assert done.stdout == "5\n", done.describe()


def _page(url: str) -> str:
    try:
        with DIRECT.open(url, timeout=2) as answer:
            return str(answer.read().decode())
    except OSError:
        return ""


def test_the_guarded_example_knows_who_calls(surroundings: Surroundings) -> None:
    with serving(str(EXAMPLES / "guarded.py"), surroundings=surroundings) as served:
        token = bascule(
            "auth", "token", "--sub", "me", "--scopes", "mcp:tools", surroundings=surroundings
        ).stdout.strip()
        done = bascule("call", served.mcp_url, "whoami", "--token", token, surroundings=surroundings)
    assert done.stdout == "You are me, and may mcp:tools.\n", done.describe()


def test_the_card_is_served_together_with_the_tools_that_it_names(surroundings: Surroundings) -> None:
    card, tools = str(EXAMPLES / "herald.md"), str(EXAMPLES / "two_lines.py")
    with serving(tools, "--agent", card, surroundings=surroundings) as served:
        done = bascule("call", served.mcp_url, "ask_herald", "message=shout hello", surroundings=surroundings)
    assert 'shout(text="shout hello") = SHOUT HELLO!' in done.stdout, done.describe()
