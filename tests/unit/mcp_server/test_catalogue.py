"""What a server offers, and the names that it refuses."""

import logging
from collections.abc import Sequence

import pytest

from bascule.agents import Agent
from bascule.context import LOCAL, Principal
from bascule.errors import ConfigurationError, NameInvalid, NameTaken, SchemaMissing, ToolInputInvalid
from bascule.mcp_server import ClientSeen, McpServer, Prompt, Resource, prompt, resource
from bascule.mcp_server._clients import REMEMBERED, Caller, Clients, printable
from bascule.mcp_server._failures import failure_of
from bascule.tools import Tool, ToolContext, tool
from bascule.workflows import Workflow


@tool
def add(a: int, b: int) -> int:
    """Add."""
    return a + b


def named(name: str) -> Tool:
    return tool(name=name)(lambda: None)


def test_tools_agents_and_workflows_are_tools() -> None:
    server = McpServer("s", tools=[add], agents=[Agent("claude-code")], workflows=[Workflow("w-1").then(add)])
    assert list(server.catalogue.tools) == ["add", "ask_claude_code", "run_w_1"]


@pytest.mark.requirement("F54")
def test_two_things_under_one_name_are_refused_by_both_names() -> None:
    with pytest.raises(NameTaken, match=r"agent 'b'.*tool 'ask_b'"):
        McpServer("s", tools=[named("ask_b")], agents=[Agent("b")])


def test_a_name_must_leave_room_for_the_prefix_of_clients() -> None:
    McpServer("server", tools=[named("x" * (64 - len("mcp__server__")))])
    with pytest.raises(NameInvalid, match="in front of it"):
        McpServer("server", tools=[named("x" * (65 - len("mcp__server__")))])


def test_prompts_and_resources_have_names_of_their_own() -> None:
    @prompt
    def hello() -> str:
        return "hi"

    @resource("a://b")
    def first() -> str:
        return "1"

    McpServer("s", tools=[named("hello")], prompts=[hello], resources=[first])
    with pytest.raises(NameTaken, match="hello"):
        McpServer("s", prompts=[hello, Prompt(lambda: "", name="hello")])
    with pytest.raises(NameTaken, match="a://b"):
        McpServer("s", resources=[first, Resource("a://b", lambda: "")])


def test_a_verified_caller_cannot_choose_an_owner() -> None:
    server = McpServer("s", agents=[Agent("a")])
    entry = server.catalogue.tools["ask_a"]
    alice = Principal(id="alice")
    arguments = {"message": "hi", "resource_id": "bob"}
    entry.of(LOCAL).check(arguments)
    with pytest.raises(ToolInputInvalid, match="resource_id"):
        entry.of(alice).check(arguments)


def test_a_verified_caller_sees_the_tools_that_its_scopes_open() -> None:
    @tool(scopes=["files:write"])
    def write() -> None: ...

    catalogue = McpServer("s", tools=[add, write]).catalogue

    def seen(principal: Principal) -> Sequence[str]:
        return [tool.id for tool in catalogue.visible_tools(principal)]

    assert seen(LOCAL) == ["add", "write"]
    assert seen(Principal(id="a")) == ["add"]
    for scope in ("files:write", "files:*", "files:write:*", "admin:*"):
        found = seen(Principal(id="a", scopes=frozenset({scope})))
        assert found == (["add"] if scope == "files:write:*" else ["add", "write"])


async def test_a_prompt_converts_its_arguments_and_knows_its_caller() -> None:
    @prompt(title="Say hello", complete={"name": lambda typed: [typed + "!"]})
    async def hello(name: str, context: ToolContext, times: int = 1) -> str:
        """Greets.

        Args:
            name: whom to greet
        """
        return f"{context.principal.id}: " + f"hello {name} " * times

    assert hello.arguments == [
        {"name": "name", "required": True, "description": "whom to greet"},
        {"name": "times", "required": False},
    ]
    assert await hello.render({"name": "you", "times": "2"}) == "local: hello you hello you "
    assert (hello.name, hello.title, hello.description) == ("hello", "Say hello", "Greets.")
    assert repr(hello) == "<Prompt hello>"


async def test_a_resource_is_read_with_the_parameters_of_its_uri() -> None:
    @resource("notes://{id}{?page}", media_type="text/markdown")
    def note(id: int, page: int = 0) -> str:
        """A note."""
        return f"note {id + 1} page {page}"

    server = McpServer("s", resources=[note])
    found = server.catalogue.find_resource("notes://4?page=2")
    assert found is not None
    assert await found[0].read(found[1]) == "note 5 page 2"
    assert server.catalogue.find_resource("notes://") is None
    assert repr(note) == "<Resource notes://{id}{?page}>"


def wrong_names(b: str) -> str:
    return b


def required_query(q: str) -> str:
    return q


@pytest.mark.parametrize(
    ("uri", "function"),
    [("notes", str), ("a://{a}", wrong_names), ("a://b", wrong_names), ("a://b{?q}", required_query)],
)
def test_a_resource_whose_uri_does_not_fit_is_refused(uri: str, function: type) -> None:
    with pytest.raises((ConfigurationError, SchemaMissing)):
        Resource(uri, function)


def test_completions_are_for_parameters_that_there_are() -> None:
    with pytest.raises(ConfigurationError, match="nope"):
        Prompt(lambda: "", name="p", complete={"nope": lambda typed: []})


def caller(session: str = "", name: str = "client", principal: Principal = LOCAL) -> Caller:
    return Caller(principal=principal, session=session, name=name, version="1", protocol_version="2026-07-28")


def test_a_client_is_told_once_with_what_it_listed() -> None:
    clients, seen = Clients(), list[ClientSeen]()
    clients.on_client(seen.append)
    clients.saw(caller(), ["add", "ask_a"])
    clients.saw(caller(), ["add"])
    clients.saw(caller("session"))
    clients.saw(caller("session"))
    clients.saw(caller(principal=Principal(id="alice")), [])
    clients.saw(caller(principal=Principal(id="alice"), name="b"), ["add"])
    assert [str(client) for client in seen] == [
        "client 1 connected (2026-07-28) and listed 2 tools: add, ask_a",
        "client 1 connected (2026-07-28)",
        "client 1 connected as alice (2026-07-28) and listed 0 tools",
        "b 1 connected as alice (2026-07-28) and listed 1 tool: add",
    ]


def test_a_callback_that_fails_disturbs_nobody(caplog: pytest.LogCaptureFixture) -> None:
    clients, seen = Clients(), list[ClientSeen]()

    def fail(client: ClientSeen) -> None:
        raise ValueError("no")

    clients.on_client(fail)
    clients.on_client(seen.append)
    clients.saw(caller())
    assert len(seen) == 1
    assert "on_client" in caplog.text


def test_clients_are_not_remembered_without_end() -> None:
    clients = Clients()
    clients.set_level(caller("first"), "error")
    assert clients.level_of(caller("first")) == "error"
    for number in range(REMEMBERED):
        clients.saw(caller(str(number)))
    assert clients.level_of(caller("first")) is None


def test_a_failure_shows_no_secret_and_leads_to_the_log(caplog: pytest.LogCaptureFixture) -> None:
    text = failure_of(ValueError("api_key=abcdef123456 is wrong"), "tool 'x'")
    assert "abcdef123456" not in text
    assert text.startswith("ValueError: api_key=[redacted] is wrong (error id ")
    error_id = text.rpartition("error id ")[2].rstrip(")")
    assert error_id in caplog.text
    assert "abcdef123456" not in caplog.text


def test_a_failure_is_one_short_line_in_the_log_and_a_traceback_for_those_who_debug(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def fail() -> None:
        raise ValueError("a\nb " * 10_000)

    for level, lines in ((logging.INFO, 1), (logging.DEBUG, 2)):
        caplog.clear()
        with caplog.at_level(level, logger="bascule.mcp"):
            try:
                fail()
            except ValueError as error:
                failure_of(error, "tool 'fail'")
        warning, *debug = caplog.records
        assert (warning.levelname, warning.exc_info, len(warning.getMessage()) < 300) == ("WARNING", None, True)
        assert "\n" not in warning.getMessage()
        assert len(caplog.records) == lines
        assert all(record.exc_info for record in debug)


def test_what_a_client_calls_itself_is_cut_to_what_can_be_printed() -> None:
    assert printable("\x1b]0;title\x07evil\nERROR forged\u202e") == "]0;titleevilERROR forged"
    assert printable("A" * 2_000_000) == "A" * 100


def test_a_client_is_remembered_by_a_key_of_fixed_length() -> None:
    keys = {caller(session, name).key for session in ("", "s" * 10_000) for name in ("a", "b" * 10_000)}
    assert [len(key) for key in keys] == [64, 64, 64]
