"""mcp-remote, the bridge that clients without HTTP use to reach a server."""

import pytest

from tests.acceptance.conftest import Program
from tests.acceptance.harness.processes import run_to_end
from tests.acceptance.harness.served import QUICKSTART, serving
from tests.acceptance.harness.surroundings import Surroundings


@pytest.mark.requirement("F46")
def test_mcp_remote_connects_and_lists_the_tools(program: Program, surroundings: Surroundings) -> None:
    command = program("mcp-remote")
    with serving(QUICKSTART, surroundings=surroundings) as served:
        done = run_to_end(
            [*command, served.mcp_url, "--allow-http"],
            env=surroundings.environment(),
            cwd=surroundings.project,
            timeout=60,
            keep_stdin_open=True,  # the program ends early when its standard input does
        )
    assert done.exit_code == 0, done.describe()
    said = done.stdout + done.stderr
    assert "Connected successfully" in said
    tools = said.partition("Tools:")[2].partition("Requesting resource list")[0]
    assert {'"name": "add"', '"name": "ask_tutor"'} <= {line.strip().rstrip(",") for line in tools.splitlines()}
