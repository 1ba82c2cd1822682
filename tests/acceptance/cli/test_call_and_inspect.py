"""Looking at a server, and calling its tools, from the command line."""

import json
import sys
from pathlib import Path

import pytest

from tests.acceptance.harness.served import bascule, serving
from tests.acceptance.harness.surroundings import Surroundings, free_port

pytestmark = pytest.mark.timeout(60)


@pytest.mark.requirement("F42")
def test_inspect_shows_tools_with_their_parameters_and_the_protocol(app: Path, surroundings: Surroundings) -> None:
    done = bascule("inspect", "app.py", surroundings=surroundings)
    assert done.exit_code == 0, done.describe()
    lines = done.stdout.splitlines()
    assert lines[0].startswith("sums ")
    assert lines[0].endswith("(MCP 2026-07-28)")
    assert "Ask for sums." in lines
    assert "  add(a: integer, b: integer)" in lines
    assert "      a: The first number." in lines
    assert any(line.startswith("  ask_tutor(message: string, thread_id?: string") for line in lines)
    assert "the file is imported" not in done.stdout
    assert app.exists()


@pytest.mark.usefixtures("app")
def test_inspect_gives_json(surroundings: Surroundings) -> None:
    done = bascule("inspect", "app.py:app", "--json", surroundings=surroundings)
    document = json.loads(done.stdout)
    assert document["server"]["name"] == "sums"
    assert document["protocolVersion"] == "2026-07-28"
    assert {"add", "count", "fail", "ask_tutor"} <= {tool["name"] for tool in document["tools"]}
    assert document["tools"][0]["inputSchema"]["required"] == ["a", "b"]


@pytest.mark.usefixtures("app")
@pytest.mark.requirement("F42")
def test_call_prints_the_text_of_the_result_and_nothing_else(surroundings: Surroundings) -> None:
    for words in (["a=2", "b=-3"], ['{"a": 2, "b": -3}']):
        done = bascule("call", "app.py", "add", *words, surroundings=surroundings)
        assert (done.exit_code, done.stdout, done.stderr) == (0, "-1\n", ""), done.describe()


@pytest.mark.usefixtures("app")
def test_progress_goes_to_stderr(surroundings: Surroundings) -> None:
    done = bascule("call", "app.py", "count", "to=2", surroundings=surroundings)
    assert done.stdout == "counted to 2\n"
    assert done.stderr.splitlines() == ["1/2 at 1", "2/2 at 2"]


@pytest.mark.usefixtures("app")
def test_the_whole_result_is_printed_as_json_on_request(surroundings: Surroundings) -> None:
    done = bascule("call", "app.py", "add", "a=2", "b=3", "--json", surroundings=surroundings)
    assert json.loads(done.stdout)["content"] == [{"type": "text", "text": "5"}]
    failed = bascule("call", "app.py", "fail", "--json", surroundings=surroundings)
    assert failed.exit_code == 1
    assert json.loads(failed.stdout)["isError"] is True


@pytest.mark.usefixtures("app")
@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["app.py", "fail"], "there is no milk"),
        (["app.py", "ad", "a=1"], "There is no tool 'ad'. Did you mean 'add'?"),
        (["app.py", "add", "a=x", "b=1"], "a is 'x', and has to be integer."),
        (["app.py", "add", "c=1"], "has no parameter 'c'"),
        (["app.py", "add", "a=1"], "b"),
        (["app.py", "add", "a=1", "b=2", "--timeout", "0.001"], "Give it more time with --timeout"),
        (["nothing.py", "add"], "There is no file nothing.py"),
        (["app.py:nothing", "add"], "nothing"),
        (["app.py"], "Which tool?"),
        ([], "What to look at?"),
        (["http://127.0.0.1:1/mcp", "add"], "cannot be reached"),
        (["add", "a=1", "--", "true"], "ended before it answered"),
        (["add", "a=1", "--", "/nowhere/at/all"], "cannot be started"),
    ],
)
def test_a_call_that_cannot_be_made_is_one_line_on_stderr(
    words: list[str], told: str, surroundings: Surroundings
) -> None:
    done = bascule("call", *words, surroundings=surroundings)
    assert done.exit_code != 0
    assert done.stdout == ""
    assert told in done.stderr, done.describe()
    assert "Error: " in done.stderr
    assert "Traceback" not in done.stderr


def test_a_file_that_cannot_be_served_is_reported_as_serving_it_would(surroundings: Surroundings) -> None:
    (surroundings.project / "broken.py").write_text("def\n", encoding="utf-8")
    done = bascule("inspect", "broken.py", surroundings=surroundings)
    assert done.exit_code == 1
    assert done.stderr.count("\n") == 1
    assert "broken.py, line 1" in done.stderr


@pytest.mark.usefixtures("app")
def test_debug_shows_the_traceback(surroundings: Surroundings) -> None:
    done = bascule("inspect", "http://127.0.0.1:1/mcp", "--debug", surroundings=surroundings)
    assert done.exit_code == 1
    assert "Traceback" in done.stderr


def test_a_command_after_dashes_is_started_and_spoken_to(app: Path, surroundings: Surroundings) -> None:
    command = ["--", sys.executable, "-m", "bascule", "run", str(app)]
    assert "  add(a: integer, b: integer)" in bascule("inspect", *command, surroundings=surroundings).stdout
    assert bascule("call", "add", "a=2", "b=3", *command, surroundings=surroundings).stdout == "5\n"
    both = bascule("inspect", "app.py", *command, surroundings=surroundings)
    assert both.exit_code == 2
    assert "not both" in both.stderr


def test_a_guarded_server_is_used_with_a_token(app: Path, surroundings: Surroundings) -> None:
    with serving(str(app), "--auth", "dev", surroundings=surroundings) as served:
        without = bascule("inspect", served.mcp_url, surroundings=surroundings)
        wrong = bascule("inspect", served.mcp_url, "--token", "wrong", surroundings=surroundings)
        token = bascule("auth", "token", "--sub", "me", surroundings=surroundings).stdout.strip()
        right = bascule("call", served.mcp_url, "add", "a=2", "b=3", "--token", token, surroundings=surroundings)
    assert (without.exit_code, wrong.exit_code) == (1, 1)
    assert "wants a token. Give one with --token TOKEN." in without.stderr
    assert "does not accept the token" in wrong.stderr
    assert right.stdout == "5\n", right.describe()


def test_a_port_where_something_else_answers_is_no_mcp_server(app: Path, surroundings: Surroundings) -> None:
    with serving(str(app), surroundings=surroundings) as served:
        done = bascule("inspect", f"http://127.0.0.1:{served.port}/elsewhere", surroundings=surroundings)
    assert done.exit_code == 1
    assert "is no MCP server" in done.stderr
    gone = bascule("inspect", f"http://127.0.0.1:{free_port()}/mcp", surroundings=surroundings)
    assert "cannot be reached" in gone.stderr
