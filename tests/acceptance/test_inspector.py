"""The command line of the MCP Inspector, over both transports and in both protocol eras."""

import json
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest

from tests.acceptance.conftest import Program
from tests.acceptance.harness.processes import run_to_end
from tests.acceptance.harness.served import QUICKSTART, serving, stdio_command
from tests.acceptance.harness.surroundings import Surroundings

THREAD = "bascule://threads/sums"


class Inspector:
    """The program, pointed at one server."""

    def __init__(self, arguments: Sequence[str], target: Sequence[str], era: str, surroundings: Surroundings) -> None:
        self._arguments = [*arguments, "--cli", *target]
        self._options = ["--protocol-era", era, "--format", "json", "-q"]
        self._surroundings = surroundings

    def __call__(self, method: str, *options: str) -> Any:
        """Call one method and return what the program prints: the result."""
        done = run_to_end(
            [*self._arguments, "--method", method, *options, *self._options],
            env=self._surroundings.environment(),
            cwd=self._surroundings.project,
            timeout=60,
        )
        assert done.exit_code == 0, done.describe()
        return json.loads(done.stdout)["result"]


@contextmanager
def target_of(transport: str, surroundings: Surroundings) -> Generator[Sequence[str]]:
    """The part of the Inspector's command line that names the server."""
    if transport == "stdio":
        yield stdio_command(QUICKSTART)
    else:
        with serving(QUICKSTART, surroundings=surroundings) as served:
            yield [served.mcp_url, "--transport", "http"]


@pytest.mark.requirement("F45")
@pytest.mark.parametrize("era", ["legacy", "modern"])
@pytest.mark.parametrize("transport", ["stdio", "http"])
def test_inspector_lists_calls_asks_and_reads_the_conversation(
    program: Program, surroundings: Surroundings, transport: str, era: str
) -> None:
    command = program("inspector")
    with target_of(transport, surroundings) as target:
        inspector = Inspector(command, target, era, surroundings)
        tools = inspector("tools/list")["tools"]
        total = inspector("tools/call", "--tool-name", "add", "--tool-arg", "a=2", "b=3")
        asked = {"message": "add 2 and 3", "thread_id": "sums"}
        answer = inspector("tools/call", "--tool-name", "ask_tutor", "--tool-args-json", json.dumps(asked))
        resources = inspector("resources/list")["resources"]
        conversation = inspector("resources/read", "--uri", THREAD)["contents"]
    assert {"add", "ask_tutor"} <= {tool["name"] for tool in tools}
    assert [block["text"] for block in total["content"]] == ["5"]
    assert "5" in answer["content"][0]["text"]
    assert THREAD in {resource["uri"] for resource in resources}
    assert "add 2 and 3" in conversation[0]["text"]
