"""The MCP SDK's own client, over both transports and in both protocol eras."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest
from mcp import Client, StdioServerParameters
from mcp_types import CallToolResult, ReadResourceResult, TextContent, TextResourceContents

from tests.acceptance.harness.served import QUICKSTART, serving, stdio_command
from tests.acceptance.harness.surroundings import Surroundings

ORDER = {"item": "pen", "quantity": 2, "price": 1.5}
THREAD = "bascule://threads/sums"


@asynccontextmanager
async def connected(transport: str, era: str, surroundings: Surroundings) -> AsyncGenerator[Client]:
    """A client of the quickstart."""
    if transport == "http":
        with serving(QUICKSTART, surroundings=surroundings) as served:
            async with Client(served.mcp_url, mode=era) as client:
                yield client
        return
    command, *arguments = stdio_command(QUICKSTART)
    server = StdioServerParameters(
        command=command, args=arguments, env=dict(surroundings.environment()), cwd=surroundings.project
    )
    async with Client(server, mode=era) as client:
        yield client


def text_of(result: CallToolResult) -> str:
    """The one text that a call answered with."""
    assert not result.is_error
    (block,) = result.content
    assert isinstance(block, TextContent)
    return block.text


@dataclass(frozen=True, slots=True, kw_only=True)
class Visit:
    """What a client saw from the first list to the last read."""

    tools: set[str]
    total: CallToolResult
    answers: tuple[CallToolResult, CallToolResult]
    run: CallToolResult
    resources: set[str]
    conversation: ReadResourceResult


async def visit(client: Client) -> Visit:
    """List, call, ask twice in one thread, run the workflow, read the conversation back."""
    tools = {tool.name for tool in (await client.list_tools()).tools}
    return Visit(
        tools=tools,
        total=await client.call_tool("add", {"a": 2, "b": 3}),
        answers=(
            await client.call_tool("ask_tutor", {"message": "add 2 and 3", "thread_id": "sums"}),
            await client.call_tool("ask_tutor", {"message": "add 40 and 2", "thread_id": "sums"}),
        ),
        run=await client.call_tool("run_order", ORDER),
        resources={str(resource.uri) for resource in (await client.list_resources()).resources},
        conversation=await client.read_resource(THREAD),
    )


@pytest.mark.requirement("C01", "F11", "F47")
@pytest.mark.parametrize("era", ["legacy", "2026-07-28"])
@pytest.mark.parametrize("transport", ["stdio", "http"])
async def test_the_official_client_lists_calls_asks_runs_and_reads_back(
    surroundings: Surroundings, transport: str, era: str
) -> None:
    async with connected(transport, era, surroundings) as client:
        seen = await visit(client)
    assert {"add", "ask_tutor", "run_order"} <= seen.tools
    assert text_of(seen.total) == "5"
    first, second = (text_of(answer) for answer in seen.answers)
    assert "5" in first
    assert "42" in second
    assert text_of(seen.run) == "2 x pen: 3.00"
    assert THREAD in seen.resources
    (contents,) = seen.conversation.contents
    assert isinstance(contents, TextResourceContents)
    said = [contents.text.find(part) for part in ("add 2 and 3", first, "add 40 and 2", second)]
    assert -1 not in said, contents.text
    assert said == sorted(said), "the conversation reads in the order in which it was held"
