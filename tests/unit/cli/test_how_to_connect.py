"""What `bascule serve` says when it is ready."""

import json
import shlex

import pytest

from bascule import Agent, Bascule, tool
from bascule.auth import DevAuth, JWTAuth
from bascule.cli._connect import describe_server
from bascule.settings import Settings


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def lines_of(app: Bascule, host: str = "127.0.0.1", port: int = 8000) -> dict[str, str]:
    """The lines by their label."""
    text = describe_server(app, "app.py", host=host, port=port)
    pairs = (line.strip().partition("  ") for line in text.splitlines() if line.startswith("  "))
    return {label: rest.strip() for label, _, rest in pairs}


@pytest.mark.requirement("F17")
def test_it_says_where_it_listens_what_it_serves_and_how_each_client_connects() -> None:
    app = Bascule("sums", tools=[add], agents=[Agent("tutor")])
    text = describe_server(app, "app.py", host="127.0.0.1", port=8000)
    url = "http://127.0.0.1:8000/mcp"
    assert text.splitlines()[0] == "Serving app.py: add, ask_tutor, memory_list_threads, memory_read_thread"
    lines = lines_of(app)
    assert lines["MCP"] == url
    assert shlex.split(lines["Claude Code"]) == ["claude", "mcp", "add", "--transport", "http", "sums", url]
    assert json.loads(lines["Cursor"].partition(": ")[2]) == {"mcpServers": {"sums": {"url": url}}}
    assert json.loads(lines["others"]) == {"mcpServers": {"sums": {"type": "http", "url": url}}}
    assert json.loads(shlex.split(lines["curl"])[-1])["method"] == "tools/list"
    assert "TOKEN" not in text


def test_a_guarded_server_says_how_to_get_a_token_and_where_it_goes() -> None:
    app = Bascule("sums", tools=[add], auth=DevAuth())
    text = describe_server(app, None, host="127.0.0.1", port=8000)
    assert "export TOKEN=$(bascule auth token --sub me)" in text
    header = "Authorization: Bearer $TOKEN"
    lines = lines_of(app)
    assert shlex.split(lines["Claude Code"])[-2:] == ["--header", header]
    assert header in shlex.split(lines["curl"])
    assert json.loads(lines["others"])["mcpServers"]["sums"]["headers"] == {"Authorization": "Bearer TOKEN"}


def test_tokens_of_an_identity_provider_are_not_made_here() -> None:
    provider = JWTAuth(secret="s" * 32, issuer="https://id.example/", audience="sums", algorithms=["HS256"])
    text = describe_server(Bascule("sums", tools=[add], auth=provider), None, host="127.0.0.1", port=8000)
    assert "auth token" not in text
    assert "a token of your identity provider" in text


@pytest.mark.parametrize(
    ("host", "base_url", "url"),
    [
        ("0.0.0.0", None, "http://127.0.0.1:8000/mcp"),
        ("::", None, "http://[::1]:8000/mcp"),
        ("localhost", None, "http://localhost:8000/mcp"),
        ("127.0.0.1", "https://sums.example/api/", "https://sums.example/api/mcp"),
    ],
)
def test_the_address_is_one_that_a_client_reaches(host: str, base_url: str | None, url: str) -> None:
    app = Bascule("sums", tools=[add], settings=Settings(base_url=base_url))
    assert lines_of(app, host)["MCP"] == url


def test_an_app_without_anything_says_so() -> None:
    assert "Serving bascule: no tools" in describe_server(Bascule(), None, host="127.0.0.1", port=1)
