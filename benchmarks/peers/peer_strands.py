"""strands-agents, with a model class of its own that answers in the process.

An agent keeps its messages, so every run of the one-tool measures gets a new one, which is part of its cost.
"""

from collections.abc import AsyncIterator
from typing import Any

from _worker import PIECE, Candidate, measure
from strands import Agent, tool
from strands.models.model import Model


class Mock(Model):
    pieces = 0

    def update_config(self, **options: Any) -> None:
        return

    def get_config(self) -> dict[str, Any]:
        return {}

    async def structured_output(self, *args: Any, **options: Any) -> AsyncIterator[dict[str, Any]]:
        yield {}

    async def stream(self, messages: Any, *args: Any, **options: Any) -> AsyncIterator[dict[str, Any]]:
        yield {"messageStart": {"role": "assistant"}}
        if self.pieces:
            blocks, start, reason = [{"text": PIECE}] * self.pieces, {}, "end_turn"
        elif any("toolResult" in content for content in messages[-1]["content"]):
            blocks, start, reason = [{"text": "3"}], {}, "end_turn"
        else:
            start, reason = {"toolUse": {"name": "add", "toolUseId": "c1"}}, "tool_use"
            blocks = [{"toolUse": {"input": '{"a": 1, "b": 2}'}}]
        yield {"contentBlockStart": {"start": start}}
        for delta in blocks:
            yield {"contentBlockDelta": {"delta": delta}}
        yield {"contentBlockStop": {}}
        yield {"messageStop": {"stopReason": reason}}


@tool
async def add(a: int, b: int) -> int:
    """Add."""
    return a + b


MODEL = Mock()


def create() -> Agent:
    return Agent(model=MODEL, system_prompt="sys", tools=[add], callback_handler=None)


async def run(_: Agent) -> object:
    return str(await create().invoke_async("hi"))


async def stream(_: Agent) -> int:
    return len([event async for event in create().stream_async("hi")])


async def chunks(agent: Agent, count: int) -> int:
    MODEL.pieces, found = count, 0
    async for event in agent.stream_async("hi"):
        found += event.get("data") == PIECE
    MODEL.pieces = 0
    return found


if __name__ == "__main__":
    measure(Candidate(create=create, run=run, stream=stream, chunks=chunks))
