"""Claude Code, as a user sets it up: `claude mcp add`, `claude mcp list`, `claude -p`."""

from collections.abc import Mapping, Sequence

import pytest

from tests.acceptance.conftest import Program
from tests.acceptance.harness.dialects import ToolUse
from tests.acceptance.harness.processes import Finished, run_to_end
from tests.acceptance.harness.served import QUICKSTART, serving, stdio_command
from tests.acceptance.harness.surroundings import Surroundings
from tests.acceptance.model_server import FINAL_ANSWER, model_server

SCRIPT = (
    ToolUse("mcp__bascule__add", {"a": 2, "b": 3}),
    ToolUse("mcp__bascule__ask_tutor", {"message": "add 2 and 3"}),
)


class ClaudeCode:
    """The program with a configuration of its own."""

    def __init__(self, arguments: Sequence[str], surroundings: Surroundings) -> None:
        self._arguments = arguments
        self._surroundings = surroundings

    def __call__(self, *arguments: str, model_url: str = "", timeout: float = 60) -> Finished:
        done = run_to_end(
            [*self._arguments, *arguments],
            env=self._environment(model_url),
            cwd=self._surroundings.project,
            timeout=timeout,
        )
        assert done.exit_code == 0, done.describe()
        return done

    def _environment(self, model_url: str) -> Mapping[str, str]:
        # A key without the address of a model sends the program out to look for one, and it waits for an answer.
        model = {"ANTHROPIC_API_KEY": "none", "ANTHROPIC_BASE_URL": model_url} if model_url else {}
        return self._surroundings.environment(
            **model,
            CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC="1",
            CLAUDE_CONFIG_DIR=str(self._surroundings.home / ".claude"),
            DISABLE_AUTOUPDATER="1",
            DISABLE_TELEMETRY="1",
            ENABLE_TOOL_SEARCH="false",  # offer the tools of the servers at once, not behind a search
            MCP_CONNECTION_NONBLOCKING="false",  # connect before the first turn, however slow the machine is
            MCP_CONNECT_TIMEOUT_MS="60000",
            MCP_TIMEOUT="60000",
        )


@pytest.fixture
def claude(program: Program, surroundings: Surroundings) -> ClaudeCode:
    return ClaudeCode(program("claude-code"), surroundings)


def ask_for_both_tools(claude: ClaudeCode) -> None:
    """Let Claude Code call a tool and the agent, and look at what its model got to read."""
    with model_server(*SCRIPT) as model:
        allowed = ",".join(use.tool for use in SCRIPT)
        done = claude("-p", "What is the sum?", "--allowedTools", allowed, model_url=model.url, timeout=120)
    assert len(model.results) == 2, f"{model.results}\n{done.describe()}"
    total, answer = model.results
    assert total == "5"
    assert "5" in answer
    assert not answer.startswith(("{", "[")), "the agent's answer is text, not a wrapped value"
    assert done.stdout.strip() == FINAL_ANSWER + answer


@pytest.mark.requirement("F44")
def test_claude_code_lists_the_server_as_connected_over_both_transports(
    claude: ClaudeCode, surroundings: Surroundings
) -> None:
    with serving(QUICKSTART, surroundings=surroundings) as served:
        claude("mcp", "add", "local", "--", *stdio_command(QUICKSTART))
        claude("mcp", "add", "--transport", "http", "remote", served.mcp_url)
        listed = claude("mcp", "list").stdout.splitlines()
    states = {line.partition(":")[0]: line for line in listed if line.startswith(("local", "remote"))}
    assert states.keys() == {"local", "remote"}
    assert all(line.endswith("Connected") for line in states.values()), states


@pytest.mark.requirement("C04", "F44")
def test_claude_code_calls_a_tool_and_asks_the_agent_over_stdio(claude: ClaudeCode) -> None:
    # A server over stdio inherits Claude Code's own key, which would make its agent a client of the scripted model too.
    own_model = ["--env", "BASCULE_MODEL=scripted/rules"]
    claude("mcp", "add", "bascule", *own_model, "--", *stdio_command(QUICKSTART))
    ask_for_both_tools(claude)


@pytest.mark.requirement("C04", "F44")
def test_claude_code_calls_a_tool_and_asks_the_agent_over_http(claude: ClaudeCode, surroundings: Surroundings) -> None:
    with serving(QUICKSTART, surroundings=surroundings) as served:
        claude("mcp", "add", "--transport", "http", "bascule", served.mcp_url)
        ask_for_both_tools(claude)
