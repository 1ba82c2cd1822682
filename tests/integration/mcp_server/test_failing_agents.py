"""What a caller is shown of a run that failed: what its stream says, and nothing else."""

from collections.abc import AsyncGenerator

import anyio
import pytest
from mcp import Client
from mcp.client._memory import InMemoryTransport
from mcp_types import TextContent

from bascule.agents import Agent
from bascule.mcp_server import McpServer
from bascule.models import ModelCall, ModelCapabilities, ModelPart, TextDelta
from bascule.stream import ErrorChunk
from bascule.tools import run_in_daemon_thread

SECRET = "postgres://admin:hunter2222@db/internal"


class Broken:
    """A model whose error text is for the developer alone."""

    provider = "test"
    model_id = "broken"
    capabilities = ModelCapabilities()

    async def stream(self, call: ModelCall) -> AsyncGenerator[ModelPart, None]:
        if call.messages:
            raise RuntimeError(SECRET)
        yield TextDelta("")

    async def aclose(self) -> None:
        """Nothing is open."""


@pytest.mark.parametrize("era", ["legacy", "2026-07-28"])
async def test_a_failed_run_is_told_as_its_stream_tells_it(era: str) -> None:
    agent = Agent("a", model=Broken())
    with anyio.fail_after(10):
        built = await run_in_daemon_thread(lambda: McpServer("s", agents=[agent]).build())
        shown = [chunk.message async for chunk in agent.stream("hi") if isinstance(chunk, ErrorChunk)]
        async with Client(InMemoryTransport(built.server), mode=era) as client:
            (block,) = (await client.call_tool("ask_a", {"message": "hi"})).content
    assert isinstance(block, TextContent)
    assert SECRET not in block.text
    assert block.text.partition(" under run ")[0] == f"a failed: {shown[0]}".partition(" under run ")[0]
