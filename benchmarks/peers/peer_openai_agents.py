"""openai-agents, with a model class of its own that answers in the process; tracing is off."""

from collections.abc import AsyncIterator
from typing import Any

from _worker import PIECE, Candidate, measure
from agents import Agent, Model, ModelResponse, Runner, Usage, function_tool, set_tracing_disabled
from openai.types.responses import (
    Response,
    ResponseCompletedEvent,
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseOutputText,
    ResponseTextDeltaEvent,
)

DELTA = "response.output_text.delta"


def message(text: str) -> ResponseOutputMessage:
    content = ResponseOutputText(text=text, type="output_text", annotations=[])
    return ResponseOutputMessage(id="m", type="message", role="assistant", status="completed", content=[content])


def answer(given: Any) -> list[Any]:
    last = given[-1] if isinstance(given, list) else None
    if isinstance(last, dict) and last.get("type") == "function_call_output":
        return [message("3")]
    return [ResponseFunctionToolCall(type="function_call", call_id="c1", name="add", arguments='{"a": 1, "b": 2}')]


class Mock(Model):
    pieces = 0

    async def get_response(self, system_instructions: Any, input: Any, *args: Any, **options: Any) -> ModelResponse:
        return ModelResponse(output=answer(input), usage=Usage(), response_id=None)

    async def stream_response(
        self, system_instructions: Any, input: Any, *args: Any, **options: Any
    ) -> AsyncIterator[Any]:
        output = [message("done")] if self.pieces else answer(input)
        for number in range(self.pieces):
            yield ResponseTextDeltaEvent(
                type=DELTA,
                content_index=0,
                output_index=0,
                item_id="m",
                delta=PIECE,
                sequence_number=number,
                logprobs=[],
            )
        response = Response(
            id="r",
            created_at=0,
            model="mock",
            object="response",
            output=output,
            tool_choice="auto",
            tools=[],
            parallel_tool_calls=False,
        )
        yield ResponseCompletedEvent(type="response.completed", response=response, sequence_number=self.pieces)


@function_tool
async def add(a: int, b: int) -> int:
    """Add."""
    return a + b


MODEL = Mock()


def create() -> Agent:
    return Agent(name="a", instructions="sys", tools=[add], model=MODEL)


async def run(agent: Agent) -> object:
    return (await Runner.run(agent, "hi")).final_output


async def stream(agent: Agent) -> int:
    return len([event async for event in Runner.run_streamed(agent, "hi").stream_events()])


async def chunks(agent: Agent, count: int) -> int:
    MODEL.pieces, found = count, 0
    async for event in Runner.run_streamed(agent, "hi").stream_events():
        found += getattr(getattr(event, "data", None), "type", "") == DELTA
    MODEL.pieces = 0
    return found


if __name__ == "__main__":
    set_tracing_disabled(True)
    measure(Candidate(create=create, run=run, stream=stream, chunks=chunks))
