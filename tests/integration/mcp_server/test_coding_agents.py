"""Coding agents behind MCP: what they ask reaches the person, and nothing is left waiting."""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client
from mcp.client._memory import InMemoryTransport
from mcp.client.session import ClientRequestContext
from mcp_types import CallToolResult, ElicitRequestParams, ElicitResult, TextContent

from bascule.acp import AcpAgent
from bascule.mcp_server import McpServer
from bascule.testing import FakeAcpAgent
from bascule.tools import run_in_daemon_thread

LEGACY, MODERN = "legacy", "2026-07-28"
IN_THREAD = {"message": "Do it.", "thread_id": "t"}


def permission(identifier: str, title: str) -> dict[str, Any]:
    return {
        "permission": {"toolCall": {"toolCallId": identifier, "title": title, "kind": "edit"}},
        "on_allow": [{"text": f"{title}: done. "}],
        "on_reject": [{"text": f"{title}: left. "}],
        "on_cancel": [{"text": "cancelled"}],
    }


ASKS = [permission("c1", "Write a.txt"), permission("c2", "Run tests")]


@asynccontextmanager
async def connected(coder: AcpAgent, era: str, **options: Any) -> AsyncGenerator[Client]:
    with anyio.fail_after(15):
        built = await run_in_daemon_thread(lambda: McpServer("s", agents=[coder]).build())
        async with Client(InMemoryTransport(built.server), mode=era, **options) as client:
            yield client


@asynccontextmanager
async def coding(tmp_path: Path, *turns: list[Any]) -> AsyncGenerator[tuple[AcpAgent, FakeAcpAgent]]:
    fake = FakeAcpAgent(turns, log=tmp_path / "agent.log")
    async with AcpAgent(id="coder", command=fake.command, cwd=tmp_path) as coder:
        yield coder, fake


def text_of(result: CallToolResult) -> str:
    (block,) = result.content
    assert isinstance(block, TextContent)
    return block.text


def answering(asked: list[str], *answers: ElicitResult) -> Callable[..., Any]:
    left = list(answers)

    async def answer(context: ClientRequestContext, params: ElicitRequestParams) -> ElicitResult:
        asked.append(params.message)
        return left.pop(0)

    return answer


YES = ElicitResult(action="accept", content={"approve": True})
NO = ElicitResult(action="decline")


async def test_each_question_reaches_the_person_and_the_answers_count(tmp_path: Path) -> None:
    asked: list[str] = []
    person = answering(asked, YES, NO)
    async with (
        coding(tmp_path, ASKS, [{"text": "again"}]) as (coder, _),
        connected(coder, LEGACY, elicitation_callback=person) as client,
    ):
        answer = await client.call_tool("ask_coder", IN_THREAD)
        again = await client.call_tool("ask_coder", IN_THREAD)
    assert asked == ["coder asks for permission: Write a.txt", "coder asks for permission: Run tests"]
    assert (answer.is_error, text_of(answer)) == (False, "Write a.txt: done. Run tests: left. ")
    assert (again.is_error, text_of(again)) == (False, "again")


@pytest.mark.parametrize("era", [LEGACY, MODERN])
async def test_where_nobody_can_be_asked_the_call_is_declined_and_the_answer_says_so(tmp_path: Path, era: str) -> None:
    async with coding(tmp_path, ASKS, [{"text": "again"}]) as (coder, _), connected(coder, era) as client:
        answer = await client.call_tool("ask_coder", IN_THREAD)
        again = await client.call_tool("ask_coder", IN_THREAD)
    assert not answer.is_error
    assert text_of(answer) == (
        "Write a.txt: left. Run tests: left. \n\n"
        "[Declined: Write a.txt, Run tests. The client that called cannot be asked for permission.]"
    )
    assert text_of(again) == "again"


async def test_a_call_that_is_given_up_during_a_question_leaves_nothing_waiting(tmp_path: Path) -> None:
    asked, stop = anyio.Event(), anyio.CancelScope()

    async def answer(context: ClientRequestContext, params: ElicitRequestParams) -> ElicitResult:
        asked.set()
        await anyio.sleep_forever()
        raise AssertionError

    async with coding(tmp_path, ASKS, [{"text": "again"}]) as (coder, fake):
        async with connected(coder, LEGACY, elicitation_callback=answer) as client:
            async with anyio.create_task_group() as tasks:

                async def call() -> None:
                    with stop:
                        await client.call_tool("ask_coder", IN_THREAD)

                tasks.start_soon(call)
                await asked.wait()
                stop.cancel()
            again = await client.call_tool("ask_coder", IN_THREAD)
        assert (again.is_error, text_of(again)) == (False, "again")
        assert len(await fake.received("session/cancel")) == 1


async def test_an_answer_that_is_none_leaves_nothing_waiting(tmp_path: Path) -> None:
    async def answer(context: ClientRequestContext, params: ElicitRequestParams) -> ElicitResult:
        raise RuntimeError("the window was closed")

    async with (
        coding(tmp_path, ASKS, [{"text": "again"}]) as (coder, _),
        connected(coder, LEGACY, elicitation_callback=answer) as client,
    ):
        await client.call_tool("ask_coder", IN_THREAD)
        again = await client.call_tool("ask_coder", IN_THREAD)
    assert (again.is_error, text_of(again)) == (False, "again")


async def test_an_agent_that_fails_after_a_refusal_tells_both(tmp_path: Path) -> None:
    turn = [permission("c1", "Write a.txt"), {"error": {"code": -32603, "message": "out of order"}}]
    async with coding(tmp_path, turn, [{"text": "again"}]) as (coder, _), connected(coder, LEGACY) as client:
        answer = await client.call_tool("ask_coder", IN_THREAD)
        again = await client.call_tool("ask_coder", IN_THREAD)
    assert answer.is_error
    assert "out of order" in text_of(answer)
    assert "[Declined: Write a.txt. " in text_of(answer)
    assert (again.is_error, text_of(again)) == (False, "again")
