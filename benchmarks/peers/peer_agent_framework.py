"""agent-framework-core, with a chat client of its own that answers in the process."""

from collections.abc import AsyncIterator
from typing import Any

from _worker import PIECE, Candidate, measure
from agent_framework import (
    Agent,
    BaseChatClient,
    ChatResponse,
    ChatResponseUpdate,
    Content,
    FunctionInvocationLayer,
    Message,
    ResponseStream,
)


class Mock(FunctionInvocationLayer, BaseChatClient):
    pieces = 0

    def _inner_get_response(self, *, messages: Any, stream: bool, options: Any, **more: Any) -> Any:
        answered = any(content.type == "function_result" for content in messages[-1].contents)
        call = Content.from_function_call("c1", "add", arguments='{"a": 1, "b": 2}')
        contents = [Content.from_text("3") if answered else call]
        if stream:
            return ResponseStream(self._updates(contents), finalizer=ChatResponse.from_updates)
        return self._response(contents)

    async def _updates(self, contents: Any) -> AsyncIterator[ChatResponseUpdate]:
        if self.pieces:
            for _ in range(self.pieces):
                yield ChatResponseUpdate(role="assistant", contents=[Content.from_text(PIECE)])
        else:
            yield ChatResponseUpdate(role="assistant", contents=contents)

    async def _response(self, contents: Any) -> ChatResponse:
        return ChatResponse(messages=[Message(role="assistant", contents=contents)])


async def add(a: int, b: int) -> int:
    """Add."""
    return a + b


MODEL = Mock()


def create() -> Agent:
    return Agent(MODEL, "sys", tools=[add])


async def run(agent: Agent) -> object:
    return (await agent.run("hi")).text


async def stream(agent: Agent) -> int:
    return len([update async for update in agent.run("hi", stream=True)])


async def chunks(agent: Agent, count: int) -> int:
    MODEL.pieces, found = count, 0
    async for update in agent.run("hi", stream=True):
        found += update.text == PIECE
    MODEL.pieces = 0
    return found


if __name__ == "__main__":
    measure(Candidate(create=create, run=run, stream=stream, chunks=chunks))
