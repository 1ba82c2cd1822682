"""The scripted agent refuses what a real one would refuse."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from bascule.testing import FakeAcpAgent
from bascule.workspace import spawn

MakeFake = Callable[..., FakeAcpAgent]
START: dict[str, Any] = {"method": "initialize", "params": {"protocolVersion": 1, "clientCapabilities": {}}}


def new(cwd: object) -> dict[str, Any]:
    return {"method": "session/new", "params": {"cwd": cwd, "mcpServers": []}}


async def talk(fake: FakeAcpAgent, *requests: dict[str, Any]) -> list[Any]:
    """Send the requests one by one and return what was answered to each: the result, or the error's code."""
    answers: list[Any] = []
    async with await spawn(fake.command) as process:
        for number, request in enumerate(requests, start=1):
            message = {"jsonrpc": "2.0", "id": number, **request}
            await process.write(json.dumps(message).encode() + b"\n")
            with anyio.fail_after(10):
                answer = await answer_to(process.read, number)
            answers.append(answer["result"] if "result" in answer else answer["error"]["code"])
    return answers


async def answer_to(read: Callable[[], Any], number: int) -> dict[str, Any]:
    data = b""
    while True:
        data += await read()
        for line in data.splitlines():
            message: dict[str, Any] = json.loads(line)
            if message.get("id") == number:
                return message


async def test_a_correct_client_gets_answers_and_no_complaint(fake: MakeFake, tmp_path: Path) -> None:
    agent = fake()
    [hello, session] = await talk(agent, START, new(str(tmp_path)))
    assert (hello["protocolVersion"], hello["agentInfo"]["name"]) == (1, "fake")
    assert session["sessionId"]
    assert await agent.violations() == []


CARELESS: list[tuple[list[dict[str, Any]], int]] = [
    ([new("/")], -32600),
    ([START, START], -32602),
    ([{"method": "initialize", "params": {"protocolVersion": "1", "clientCapabilities": {}}}], -32602),
    ([{"method": "initialize", "params": {"protocolVersion": 1}}], -32602),
    ([{"method": "initialize"}], -32602),
    ([START, new("relative")], -32602),
    ([START, new("/no/such/folder")], -32602),
    ([START, {"method": "session/new", "params": {"cwd": "/"}}], -32602),
    ([START, {"method": "session/prompt", "params": {"sessionId": "x", "prompt": []}}], -32602),
    ([START, {"method": "session/set_mode", "params": {"sessionId": "x", "modeId": "y"}}], -32602),
    ([START, {"method": "session/close", "params": {"sessionId": "x"}}], -32601),
]


@pytest.mark.parametrize(("requests", "code"), CARELESS)
async def test_a_careless_client_is_refused_and_noted(
    fake: MakeFake, requests: list[dict[str, Any]], code: int
) -> None:
    agent = fake()
    assert (await talk(agent, *requests))[-1] == code
    assert len(await agent.violations()) == 1


async def test_an_unknown_method_is_refused_without_a_complaint(fake: MakeFake) -> None:
    agent = fake()
    assert (await talk(agent, START, {"method": "_vendor/x", "params": {}}))[-1] == -32601
    assert await agent.violations() == []


async def test_without_a_log_nothing_can_be_asked_of_it() -> None:
    with pytest.raises(ValueError, match="log=path"):
        await FakeAcpAgent().violations()
