"""pydantic-ai-slim, with its own function model as the mock."""

from collections.abc import AsyncIterator
from typing import Any

from _worker import PIECE, Candidate, measure
from pydantic_ai import Agent
from pydantic_ai.messages import ModelResponse, PartDeltaEvent, PartStartEvent, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import DeltaToolCall, FunctionModel


class Mock:
    pieces = 0

    def answer(self, messages: Any, info: Any) -> ModelResponse:
        part = TextPart("3") if _answered(messages) else ToolCallPart("add", {"a": 1, "b": 2})
        return ModelResponse(parts=[part])

    async def events(self, messages: Any, info: Any) -> AsyncIterator[Any]:
        if self.pieces:
            for _ in range(self.pieces):
                yield PIECE
        elif _answered(messages):
            yield "3"
        else:
            yield {0: DeltaToolCall(name="add", json_args='{"a": 1, "b": 2}', tool_call_id="c1")}


def _answered(messages: Any) -> bool:
    return any(isinstance(part, ToolReturnPart) for part in messages[-1].parts)


async def add(a: int, b: int) -> int:
    """Add."""
    return a + b


MOCK = Mock()
MODEL = FunctionModel(MOCK.answer, stream_function=MOCK.events)


def create() -> Agent:
    return Agent(MODEL, instructions="sys", tools=[add])


async def run(agent: Agent) -> object:
    return (await agent.run("hi")).output


async def stream(agent: Agent) -> int:
    async with agent.run_stream_events("hi") as events:
        return len([event async for event in events])


async def chunks(agent: Agent, count: int) -> int:
    MOCK.pieces, found = count, 0
    async with agent.run_stream_events("hi") as events:
        async for event in events:
            found += isinstance(event, PartDeltaEvent | PartStartEvent)
    MOCK.pieces = 0
    return found


if __name__ == "__main__":
    measure(Candidate(create=create, run=run, stream=stream, chunks=chunks))
