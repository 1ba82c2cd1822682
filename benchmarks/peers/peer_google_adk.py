"""google-adk, with a model class of its own that answers in the process."""

import logging
from collections.abc import AsyncIterator
from typing import Any

from _worker import PIECE, Candidate, measure
from google.adk.agents import Agent
from google.adk.agents.run_config import RunConfig, StreamingMode
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_response import LlmResponse
from google.adk.runners import InMemoryRunner
from google.genai.types import Content, FunctionCall, Part

STREAMING = RunConfig(streaming_mode=StreamingMode.SSE)
WHOLE = RunConfig(streaming_mode=StreamingMode.NONE)


def response(part: Part, *, partial: bool | None = None) -> LlmResponse:
    return LlmResponse(content=Content(role="model", parts=[part]), partial=partial)


class Mock(BaseLlm):
    pieces: int = 0

    async def generate_content_async(self, request: Any, stream: bool = False) -> AsyncIterator[LlmResponse]:
        if self.pieces:
            for _ in range(self.pieces):
                yield response(Part(text=PIECE), partial=True)
            yield response(Part(text="done"), partial=False)
        elif any(part.function_response for part in request.contents[-1].parts):
            yield response(Part(text="3"))
        else:
            yield response(Part(function_call=FunctionCall(name="add", args={"a": 1, "b": 2}, id="c1")))


async def add(a: int, b: int) -> int:
    """Add."""
    return a + b


MODEL = Mock(model="mock")
_runners: dict[int, tuple[Agent, InMemoryRunner]] = {}
"""The runner of each agent, which is kept as long: an id may not be used again."""


def create() -> Agent:
    return Agent(name="a", model=MODEL, instruction="sys", tools=[add])


async def events(agent: Agent, config: RunConfig) -> AsyncIterator[Any]:
    if id(agent) not in _runners:
        _runners[id(agent)] = agent, InMemoryRunner(agent=agent, app_name="bench")
    runner = _runners[id(agent)][1]
    session = await runner.session_service.create_session(app_name="bench", user_id="u")
    asked = Content(role="user", parts=[Part(text="hi")])
    async for event in runner.run_async(user_id="u", session_id=session.id, new_message=asked, run_config=config):
        yield event


async def run(agent: Agent) -> object:
    parts = [part async for event in events(agent, WHOLE) if event.content for part in event.content.parts or []]
    return "".join(part.text or "" for part in parts)


async def stream(agent: Agent) -> int:
    return len([event async for event in events(agent, STREAMING)])


async def chunks(agent: Agent, count: int) -> int:
    MODEL.pieces, found = count, 0
    async for event in events(agent, STREAMING):
        found += bool(event.partial)
    MODEL.pieces = 0
    return found


if __name__ == "__main__":
    logging.disable(logging.WARNING)
    measure(Candidate(create=create, run=run, stream=stream, chunks=chunks))
