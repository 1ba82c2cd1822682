"""What the MCP SDK's own client sees, in memory and in both protocol eras."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from mcp import Client
from mcp.client._memory import InMemoryTransport
from mcp.client.session import ClientRequestContext
from mcp.shared.exceptions import MCPError
from mcp.shared.subscriptions import ResourceUpdated
from mcp_types import (
    AudioContent,
    CallToolResult,
    ElicitRequestParams,
    ElicitResult,
    EmbeddedResource,
    EmptyResult,
    ImageContent,
    LoggingLevel,
    LoggingMessageNotificationParams,
    PromptReference,
    ResourceTemplateReference,
    ResourceUpdatedNotification,
    SetLevelRequest,
    SetLevelRequestParams,
    SubscribeRequest,
    SubscribeRequestParams,
    TextContent,
    TextResourceContents,
    UnsubscribeRequest,
    UnsubscribeRequestParams,
)
from pydantic import BaseModel

from bascule.agents import Agent
from bascule.errors import NotFound, ToolError
from bascule.mcp_server import ClientSeen, McpServer, prompt, resource
from bascule.memory import Memory
from bascule.models import ScriptedModel
from bascule.tools import Audio, Image, Tool, ToolContext, run_in_daemon_thread, tool
from bascule.tools import EmbeddedResource as Embedded
from bascule.workflows import StepContext, Workflow, step

ERAS = pytest.mark.parametrize("era", ["legacy", "2026-07-28"])
LEGACY = "legacy"
MODERN = "2026-07-28"


class Sum(BaseModel):
    total: int


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tool
def add_structured(a: int, b: int) -> Sum:
    """Add two numbers."""
    return Sum(total=a + b)


@tool
def refuse() -> str:
    """Say no."""
    raise ToolError("Not on Sundays.")


@tool
def leak() -> str:
    """Fail with a secret in the message."""
    raise RuntimeError("password=hunter2222 was wrong")


@tool
def show() -> list[Any]:
    """Return all kinds of content."""
    return ["text", Image(data=b"x"), Audio(data=b"y"), Embedded(uri="a://b", data="z")]


@tool
async def report(context: ToolContext) -> str:
    """Report progress and log."""
    for done in (0, 50, 100):
        await context.progress(done, 100, f"{done} done")
        await context.log("info", {"done": done}, "reporter")
    await context.log("debug", "details")
    await context.write({"own": "data"})
    return "reported"


@tool
async def confirm(context: ToolContext) -> str:
    """Ask the person."""
    answer = await context.ask("Really?", {"type": "object", "properties": {"approve": {"type": "boolean"}}})
    return f"{answer.action}: {answer.content}"


@prompt(complete={"style": lambda typed: [style for style in ("formal", "friendly") if style.startswith(typed)]})
def greet(name: str, style: str = "friendly") -> list[object]:
    """Greet somebody."""
    return [f"Greet {name}, {style}.", {"role": "assistant", "content": "Of course."}]


@resource("info://about", media_type="text/markdown")
def about() -> str:
    """About this server."""
    return "# About"


@resource("notes://{id}", complete={"id": lambda typed: ["1", "2"]})
def note(id: int) -> str:
    """A note."""
    if id > 2:
        raise NotFound(f"There is no note {id}.")
    return f"note {id}"


@resource("broken://x")
def broken() -> str:
    """Fails."""
    raise RuntimeError("token=abcdefgh12345 is wrong")


TOOLS: list[Tool] = [add, add_structured, refuse, leak, show, report, confirm]


def server(**extra: Any) -> McpServer:
    return McpServer(
        "test", tools=TOOLS, prompts=[greet], resources=[about, note, broken], instructions="Be kind.", **extra
    )


@asynccontextmanager
async def connected(served: McpServer, era: str, **options: Any) -> AsyncGenerator[Client]:
    with anyio.fail_after(10):
        # Through the streams, as a process would be: the SDK's shorter way passes no progress tokens.
        built = await run_in_daemon_thread(served.build)
        async with Client(InMemoryTransport(built.server), mode=era, **options) as client:
            yield client


def text_of(result: CallToolResult) -> str:
    (block,) = result.content
    assert isinstance(block, TextContent)
    return block.text


@ERAS
async def test_tools_are_listed_as_they_were_written(era: str) -> None:
    async with connected(server(), era) as client:
        tools = {item.name: item for item in (await client.list_tools()).tools}
    assert list(tools) == [item.id for item in TOOLS]
    assert tools["add"].input_schema == add.input_schema
    assert tools["add"].output_schema is None
    assert tools["add_structured"].output_schema == add_structured.output_schema


@ERAS
async def test_text_is_text_and_structure_is_both(era: str) -> None:
    async with connected(server(), era) as client:
        plain = await client.call_tool("add", {"a": 2, "b": 3})
        structured = await client.call_tool("add_structured", {"a": 2, "b": 3})
    assert (text_of(plain), plain.structured_content) == ("5", None)
    assert (text_of(structured), structured.structured_content) == ('{"total":5}', {"total": 5})


@ERAS
async def test_pictures_sound_and_files_are_blocks_of_their_own(era: str) -> None:
    async with connected(server(), era) as client:
        result = await client.call_tool("show", {})
    kinds: Sequence[type] = [type(block) for block in result.content]
    assert kinds == [TextContent, ImageContent, AudioContent, EmbeddedResource]


@pytest.mark.requirement("F61")
@ERAS
async def test_wrong_arguments_are_told_to_the_model(era: str) -> None:
    async with connected(server(), era) as client:
        result = await client.call_tool("add", {"a": "x", "c": 1})
    assert result.is_error
    assert "- a: " in text_of(result)
    assert "- b: is required" in text_of(result)
    assert "- c: is not a parameter" in text_of(result)


@ERAS
async def test_a_tools_own_no_is_shown_as_it_is_and_other_failures_without_secrets(
    era: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with connected(server(), era) as client:
        refused, failed = await client.call_tool("refuse", {}), await client.call_tool("leak", {})
    assert (refused.is_error, text_of(refused)) == (True, "Not on Sundays.")
    assert failed.is_error
    assert "hunter2222" not in text_of(failed)
    assert "Traceback" not in text_of(failed)
    error_id = text_of(failed).rpartition("error id ")[2].rstrip(")")
    assert error_id in caplog.text


@pytest.mark.requirement("F62")
@ERAS
async def test_an_unknown_tool_is_an_error_of_the_protocol(era: str) -> None:
    async with connected(server(), era) as client:
        with pytest.raises(MCPError, match="nope") as caught:
            await client.call_tool("nope", {})
    assert caught.value.error.code == -32602


@ERAS
async def test_progress_is_sent_in_order(era: str) -> None:
    seen = list[tuple[float, float | None, str | None]]()

    async def progress(progress: float, total: float | None, message: str | None) -> None:
        seen.append((progress, total, message))

    async with connected(server(), era) as client:
        await client.call_tool("report", {}, progress_callback=progress)
        await client.call_tool("report", {})
    assert seen == [(0, 100, "0 done"), (50, 100, "50 done"), (100, 100, "100 done")]


async def logged(era: str, level: LoggingLevel | None) -> list[LoggingMessageNotificationParams]:
    seen = list[LoggingMessageNotificationParams]()

    async def log(params: LoggingMessageNotificationParams) -> None:
        seen.append(params)

    options: dict[str, Any] = {} if level is None or era == LEGACY else {"log_level": level}
    async with connected(server(), era, logging_callback=log, **options) as client:
        if level is not None and era == LEGACY:
            request = SetLevelRequest(params=SetLevelRequestParams(level=level))
            await client.session.send_request(request, EmptyResult)
        await client.call_tool("report", {})
    return seen


@pytest.mark.parametrize(
    ("era", "level", "levels"),
    [
        (LEGACY, None, ["info", "info", "info", "debug"]),
        (LEGACY, "info", ["info", "info", "info"]),
        (LEGACY, "error", []),
        (MODERN, None, []),
        (MODERN, "info", ["info", "info", "info"]),
        (MODERN, "error", []),
    ],
)
async def test_log_entries_are_sent_from_the_level_that_the_client_set(
    era: str, level: LoggingLevel | None, levels: list[str]
) -> None:
    assert [entry.level for entry in await logged(era, level)] == levels


async def test_a_question_is_put_to_the_person_where_the_client_can_be_asked() -> None:
    async def answer(context: ClientRequestContext, params: ElicitRequestParams) -> ElicitResult:
        assert params.message == "Really?"
        return ElicitResult(action="accept", content={"approve": True})

    async with connected(server(), LEGACY, elicitation_callback=answer) as client:
        assert text_of(await client.call_tool("confirm", {})) == "accept: {'approve': True}"


@ERAS
async def test_a_tool_that_cannot_ask_says_so(era: str) -> None:
    async with connected(server(), era) as client:
        result = await client.call_tool("confirm", {})
    assert result.is_error
    assert "Really?" in text_of(result)


@ERAS
async def test_prompts_are_listed_rendered_and_completed(era: str) -> None:
    async with connected(server(), era) as client:
        (listed,) = (await client.list_prompts()).prompts
        rendered = await client.get_prompt("greet", {"name": "Ada"})
        offered = await client.complete(PromptReference(name="greet"), {"name": "style", "value": "fr"})
        nothing = await client.complete(PromptReference(name="greet"), {"name": "name", "value": ""})
        with pytest.raises(MCPError, match="nope"):
            await client.get_prompt("nope", {})
        with pytest.raises(MCPError, match="name: is required"):
            await client.get_prompt("greet", {})
    assert [(a.name, a.required) for a in listed.arguments or []] == [("name", True), ("style", False)]
    assert [message.role for message in rendered.messages] == ["user", "assistant"]
    assert offered.completion.values == ["friendly"]
    assert nothing.completion.values == []


@ERAS
async def test_resources_are_listed_read_and_completed(era: str) -> None:
    async with connected(server(), era) as client:
        fixed = [str(item.uri) for item in (await client.list_resources()).resources]
        templates = [item.uri_template for item in (await client.list_resource_templates()).resource_templates]
        read = [await client.read_resource(uri) for uri in ("info://about", "notes://2")]
        offered = await client.complete(ResourceTemplateReference(uri="notes://{id}"), {"name": "id", "value": ""})
    assert fixed == ["info://about", "broken://x"]
    assert templates == ["notes://{id}"]
    contents = [result.contents[0] for result in read]
    assert [(c.text, c.mime_type) for c in contents if isinstance(c, TextResourceContents)] == [
        ("# About", "text/markdown"),
        ("note 2", "text/plain"),
    ]
    assert offered.completion.values == ["1", "2"]


@ERAS
@pytest.mark.parametrize("uri", ["notes://9", "notes://x", "other://x"])
async def test_an_unknown_resource_is_an_error_that_names_it(era: str, uri: str) -> None:
    async with connected(server(), era) as client:
        with pytest.raises(MCPError) as caught:
            await client.read_resource(uri)
    assert caught.value.error.code == -32602
    assert caught.value.error.data == {"uri": uri}


@ERAS
async def test_a_resource_that_fails_shows_no_secret(era: str) -> None:
    async with connected(server(), era) as client:
        with pytest.raises(MCPError, match="redacted") as caught:
            await client.read_resource("broken://x")
    assert caught.value.error.code == -32603


async def test_capabilities_say_what_there_is() -> None:
    async with connected(server(), LEGACY) as client:
        full = client.server_capabilities
        assert client.instructions == "Be kind."
    async with connected(McpServer("bare", tools=[add]), LEGACY) as client:
        bare = client.server_capabilities
        with pytest.raises(MCPError, match="Method not found"):
            await client.list_prompts()
    assert full.prompts
    assert full.resources
    assert full.completions
    assert (bare.prompts, bare.resources, bare.completions) == (None, None, None)
    assert bare.tools
    assert not bare.tools.list_changed


@ERAS
async def test_cancelling_a_call_stops_the_tool_and_tells_it(era: str) -> None:
    running, stopped = anyio.Event(), anyio.Event()

    @tool
    async def wait(context: ToolContext) -> None:
        """Wait."""
        context.cancel.on_cancel(stopped.set)
        running.set()
        await anyio.sleep_forever()

    async with connected(McpServer("s", tools=[wait]), era) as client, anyio.create_task_group() as tasks:
        tasks.start_soon(client.call_tool, "wait")
        await running.wait()
        tasks.cancel_scope.cancel()
    with anyio.fail_after(5):
        await stopped.wait()


async def test_silence_is_broken_when_the_client_wants_progress() -> None:
    heard = anyio.Event()
    messages = list[str | None]()

    @tool
    async def wait() -> str:
        """Wait until a heartbeat was heard."""
        await heard.wait()
        return "heard"

    async def progress(progress: float, total: float | None, message: str | None) -> None:
        messages.append(message)
        heard.set()

    async with connected(McpServer("s", tools=[wait], heartbeat=0.01), MODERN) as client:
        assert text_of(await client.call_tool("wait", {}, progress_callback=progress)) == "heard"
    assert (messages[0] or "").startswith("Still working")


# --- agents, workflows, memory ---


def tutor(memory: Memory | None = None) -> Agent:
    turns: list[Mapping[str, object]] = [
        {"tool_calls": [{"name": "add", "arguments": {"a": 2, "b": 3}}]},
        {"text": "It is 5."},
    ]
    return Agent("tutor", description="Explains sums.", model=ScriptedModel(turns), tools=[add], memory=memory)


@pytest.mark.requirement("F25")
@ERAS
async def test_an_agent_answers_as_text_and_tells_its_steps(era: str) -> None:
    told = list[str | None]()

    async def progress(progress: float, total: float | None, message: str | None) -> None:
        told.append(message)

    async with connected(McpServer("s", agents=[tutor()]), era) as client:
        (listed,) = (await client.list_tools()).tools
        answer = await client.call_tool("ask_tutor", {"message": "2 + 3?"}, progress_callback=progress)
    assert (listed.name, listed.description) == ("ask_tutor", "Explains sums.")
    assert listed.input_schema["required"] == ["message"]
    assert (text_of(answer), answer.structured_content) == ("It is 5.", None)
    assert told == ["Step 1", "Calling add(a=2, b=3)", "add returned 5", "Step 2", "It is 5."]


@ERAS
async def test_an_agent_that_fails_is_an_error_that_a_model_can_read(era: str) -> None:
    model = ScriptedModel([{"error": {"status": 500, "message": "out of order"}}], default="error")
    async with connected(McpServer("s", agents=[Agent("a", model=model)]), era) as client:
        answer = await client.call_tool("ask_a", {"message": "hi"})
    assert answer.is_error
    assert "out of order" in text_of(answer)


@pytest.mark.requirement("F26")
@ERAS
async def test_cancelling_a_question_stops_the_agents_tool(era: str) -> None:
    running, stopped = anyio.Event(), anyio.Event()

    @tool
    async def wait(context: ToolContext) -> None:
        """Wait."""
        running.set()
        try:
            await anyio.sleep_forever()
        finally:
            stopped.set()

    agent = Agent("a", model=ScriptedModel([{"tool_calls": ["wait"]}]), tools=[wait])
    async with connected(McpServer("s", agents=[agent]), era) as client, anyio.create_task_group() as tasks:
        tasks.start_soon(client.call_tool, "ask_a", {"message": "hi"})
        await running.wait()
        tasks.cancel_scope.cancel()
    with anyio.fail_after(5):
        await stopped.wait()


@pytest.mark.requirement("F31")
@ERAS
async def test_a_workflow_takes_its_input_flat(era: str) -> None:
    class Order(BaseModel):
        item: str
        quantity: int = 1

    @step
    def receipt(context: StepContext[Order]) -> str:
        """Write it down."""
        return f"{context.input.quantity} x {context.input.item}"

    told = list[str | None]()

    async def progress(progress: float, total: float | None, message: str | None) -> None:
        told.append(message)

    workflow = Workflow("order", input=Order).then(receipt)
    async with connected(McpServer("s", workflows=[workflow]), era) as client:
        (listed,) = (await client.list_tools()).tools
        answer = await client.call_tool("run_order", {"item": "tea", "quantity": 2}, progress_callback=progress)
        wrong = await client.call_tool("run_order", {"quantity": "x"})
    assert set(listed.input_schema["properties"]) == {"item", "quantity"}
    assert text_of(answer) == "2 x tea"
    assert told[0] == "Step receipt started"
    assert wrong.is_error


@pytest.mark.requirement("F29")
@ERAS
async def test_conversations_are_read_back_and_anothers_is_like_none(era: str) -> None:
    async with Memory(storage="sqlite://") as memory:
        await memory.create_thread(thread_id="secret", resource_id="somebody else")
        served = McpServer("s", agents=[tutor(memory)], memory=memory)
        async with connected(served, era) as client:
            assert (await client.list_resources()).resources == []
            await client.call_tool("ask_tutor", {"message": "2 + 3?", "thread_id": "my/sums"})
            (listed,) = (await client.list_resources()).resources
            (contents,) = (await client.read_resource(str(listed.uri))).contents
            threads = text_of(await client.call_tool("memory_list_threads", {}))
            read = text_of(await client.call_tool("memory_read_thread", {"thread_id": "my/sums"}))
            foreign = await client.call_tool("memory_read_thread", {"thread_id": "secret"})
            unknown = await client.call_tool("memory_read_thread", {"thread_id": "unknown"})
            errors = [await _read_error(client, id) for id in ("secret", "unknown")]
            ids = await client.complete(
                ResourceTemplateReference(uri="bascule://threads/{thread_id}"), {"name": "thread_id", "value": "my"}
            )
    assert str(listed.uri) == "bascule://threads/my%2Fsums"
    assert isinstance(contents, TextResourceContents)
    assert contents.text == read
    assert read.index("user: 2 + 3?") < read.index("assistant: [add(") < read.index("It is 5.")
    assert threads.startswith("my/sums, last changed ")
    assert text_of(foreign) == text_of(unknown).replace("unknown", "secret")
    assert foreign.is_error
    assert errors == [(-32602, {"uri": f"bascule://threads/{id}"}) for id in ("secret", "unknown")]
    assert ids.completion.values == ["my/sums"]


async def test_whoever_watches_a_conversation_hears_that_it_grew() -> None:
    heard = anyio.Event()

    async def message(message: object) -> None:
        if isinstance(message, ResourceUpdatedNotification) and str(message.params.uri) == "bascule://threads/t":
            heard.set()

    uri, question = "bascule://threads/t", {"message": "hi", "thread_id": "t"}
    async with Memory(storage="sqlite://") as memory:
        served = McpServer("s", agents=[tutor(memory)], memory=memory)
        async with connected(served, LEGACY, message_handler=message) as client:
            await client.call_tool("ask_tutor", question)
            request = SubscribeRequest(params=SubscribeRequestParams(uri=uri))
            await client.session.send_request(request, EmptyResult)
            await client.call_tool("ask_tutor", question)
            await heard.wait()
            unsubscribe = UnsubscribeRequest(params=UnsubscribeRequestParams(uri=uri))
            await client.session.send_request(unsubscribe, EmptyResult)
        async with connected(served, MODERN) as client, client.listen(resource_subscriptions=[uri]) as events:
            await client.call_tool("ask_tutor", question)
            async for event in events:
                assert isinstance(event, ResourceUpdated)
                break


@ERAS
async def test_lists_that_cannot_change_do_not_promise_to(era: str) -> None:
    mode = "auto" if era == MODERN else era
    async with connected(server(), mode) as client:
        found = client.server_capabilities
    assert found.tools
    assert found.prompts
    assert found.resources
    assert {found.tools.list_changed, found.prompts.list_changed, found.resources.list_changed} == {False}


async def test_a_caller_without_identity_may_say_whose_conversation_it_is() -> None:
    async with Memory(storage="sqlite://") as memory:
        async with connected(McpServer("s", agents=[tutor(memory)], memory=memory), LEGACY) as client:
            await client.call_tool("ask_tutor", {"message": "hi", "thread_id": "t", "resource_id": "alice"})
            assert (await client.list_resources()).resources == []
        assert await memory.get_thread("t", resource_id="alice")


@ERAS
async def test_a_client_is_told_once_with_the_tools_that_it_saw(era: str) -> None:
    seen = list[ClientSeen]()
    served = McpServer("s", tools=[add])
    served.on_client(seen.append)
    async with connected(served, era) as client:
        await client.list_tools()
        await client.call_tool("add", {"a": 1, "b": 1})
    (client_seen,) = seen
    assert client_seen.listed == ("add",)
    assert client_seen.name == "mcp"


async def _read_error(client: Client, thread_id: str) -> tuple[int, object]:
    with pytest.raises(MCPError) as caught:
        await client.read_resource(f"bascule://threads/{thread_id}")
    return caught.value.error.code, caught.value.error.data
