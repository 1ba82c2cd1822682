"""Bascule, and how its cost grows with the length of a run."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from functools import partial

from _worker import PIECE, Candidate, measure

from bascule import Agent, tool
from bascule.models import Finish, ModelCall, ModelCapabilities, ModelPart, TextDelta, ToolCall
from bascule.stream import TextDeltaChunk

FEW, MANY = 10, 1000


@dataclass(frozen=True, kw_only=True)
class Mock:
    """Answers in the process.

    Attributes:
        pieces: how many pieces of text it answers with, without a tool call.
        steps: how many steps call a tool before it answers.
        calls: how many calls each of them makes.
    """

    pieces: int = 0
    steps: int = 1
    calls: int = 1
    provider: str = "mock"
    model_id: str = "mock"
    capabilities: ModelCapabilities = field(default_factory=ModelCapabilities)

    async def stream(self, call: ModelCall) -> AsyncIterator[ModelPart]:
        if self.pieces:
            for _ in range(self.pieces):
                yield TextDelta(PIECE)
            yield Finish("stop")
        elif self._done(call):
            yield TextDelta("3")
            yield Finish("stop")
        else:
            for number in range(self.calls):
                yield ToolCall(f"c{number}", "add", '{"a": 1, "b": 2}')
            yield Finish("tool-calls")

    def _done(self, call: ModelCall) -> bool:
        """Each step of one call leaves the call and the border before the next step in the last message."""
        last = call.messages[-1]
        return last.role == "assistant" and len(last.parts) >= self.steps * self.calls + self.steps


@tool
async def add(a: int, b: int) -> int:
    """Add."""
    return a + b


def agent_on(model: Mock) -> Agent:
    return Agent("a", instructions="sys", model=model, tools=[add])


async def run(agent: Agent) -> str:
    return (await agent.generate("hi")).text


async def stream(agent: Agent) -> int:
    return len([chunk async for chunk in agent.stream("hi")])


async def chunks(agent: Agent, count: int) -> int:
    found = 0
    async for chunk in agent.stream("hi", model=Mock(pieces=count)):
        found += isinstance(chunk, TextDeltaChunk)
    return found


async def results(*, steps: int, calls: int) -> None:
    output = await agent_on(Mock(steps=steps, calls=calls)).generate("hi", max_steps=steps + 1)
    assert len(output.tool_results) == steps * calls
    assert output.text == "3"


if __name__ == "__main__":
    measure(
        Candidate(
            create=partial(agent_on, Mock()),
            run=run,
            stream=stream,
            chunks=chunks,
            also={
                "chunk, 20000": (lambda: chunks(agent_on(Mock()), 20000), 20000),
                "result, few steps": (partial(results, steps=FEW, calls=1), FEW),
                "result, many steps": (partial(results, steps=MANY, calls=1), MANY),
                "result, few at once": (partial(results, steps=1, calls=FEW), FEW),
                "result, many at once": (partial(results, steps=1, calls=MANY), MANY),
            },
        )
    )
