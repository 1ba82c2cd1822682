"""The limit: a loop written by hand over the model, with nothing around it. Arguments are parsed, messages are kept."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from _worker import PIECE, Candidate, measure

Event: TypeAlias = tuple[str, Any]
Messages: TypeAlias = list[dict[str, Any]]


@dataclass(slots=True)
class BareAgent:
    instructions: str
    tools: Mapping[str, Callable[..., Awaitable[object]]]


async def add(a: int, b: int) -> int:
    return a + b


async def model(messages: Messages, pieces: int) -> AsyncIterator[Event]:
    if pieces:
        for _ in range(pieces):
            yield "text", PIECE
    elif messages[-1]["role"] == "user":
        yield "call", ("c1", "add", '{"a": 1, "b": 2}')
    else:
        yield "text", "3"


async def events(agent: BareAgent, pieces: int = 0) -> AsyncIterator[Event]:
    messages: Messages = [{"role": "system", "content": agent.instructions}, {"role": "user", "content": "hi"}]
    while True:
        calls: list[tuple[str, str, str]] = []
        text: list[str] = []
        async for kind, value in model(messages, pieces):
            yield kind, value
            if kind == "call":
                calls.append(value)
            else:
                text.append(value)
        messages.append({"role": "assistant", "content": "".join(text), "tool_calls": calls})
        if not calls:
            return
        for call_id, name, arguments in calls:
            result = await agent.tools[name](**json.loads(arguments))
            messages.append({"role": "tool", "id": call_id, "content": result})
            yield "result", result


async def run(agent: BareAgent) -> str:
    return "".join([value async for kind, value in events(agent) if kind == "text"])


async def stream(agent: BareAgent) -> int:
    return len([kind async for kind, _ in events(agent)])


async def chunks(agent: BareAgent, count: int) -> int:
    found = 0
    async for kind, _ in events(agent, count):
        found += kind == "text"
    return found


if __name__ == "__main__":
    measure(
        Candidate(
            create=lambda: BareAgent(instructions="sys", tools={"add": add}), run=run, stream=stream, chunks=chunks
        )
    )
