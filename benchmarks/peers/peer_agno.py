"""agno, with a model class of its own that answers in the process."""

from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from _worker import PIECE, Candidate, measure
from agno.agent import Agent
from agno.models.base import Model
from agno.models.response import ModelResponse


@dataclass
class Mock(Model):
    id: str = "mock"
    pieces: int = 0

    def _answer(self, messages: Sequence[Any]) -> ModelResponse:
        if messages[-1].role == "tool":
            return ModelResponse(role="assistant", content="3")
        function = {"name": "add", "arguments": '{"a": 1, "b": 2}'}
        return ModelResponse(role="assistant", tool_calls=[{"id": "c1", "type": "function", "function": function}])

    def invoke(self, messages: Sequence[Any], *args: Any, **options: Any) -> ModelResponse:
        return self._answer(messages)

    async def ainvoke(self, messages: Sequence[Any], *args: Any, **options: Any) -> ModelResponse:
        return self._answer(messages)

    def invoke_stream(self, messages: Sequence[Any], *args: Any, **options: Any) -> Iterator[ModelResponse]:
        yield self._answer(messages)

    async def ainvoke_stream(self, messages: Sequence[Any], *args: Any, **options: Any) -> AsyncIterator[ModelResponse]:
        if self.pieces:
            for _ in range(self.pieces):
                yield ModelResponse(content=PIECE)
        else:
            yield self._answer(messages)

    def _parse_provider_response(self, response: ModelResponse, **options: Any) -> ModelResponse:
        return response

    def _parse_provider_response_delta(self, response: ModelResponse) -> ModelResponse:
        return response


async def add(a: int, b: int) -> int:
    """Add."""
    return a + b


MODEL = Mock()


def create() -> Agent:
    return Agent(model=MODEL, instructions="sys", tools=[add], telemetry=False)


async def run(agent: Agent) -> object:
    return (await agent.arun("hi")).content


async def stream(agent: Agent) -> int:
    return len([event async for event in agent.arun("hi", stream=True, stream_events=True)])


async def chunks(agent: Agent, count: int) -> int:
    MODEL.pieces, found = count, 0
    async for event in agent.arun("hi", stream=True):
        found += getattr(event, "content", None) == PIECE
    MODEL.pieces = 0
    return found


if __name__ == "__main__":
    measure(Candidate(create=create, run=run, stream=stream, chunks=chunks))
