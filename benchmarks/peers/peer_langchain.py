"""langchain's create_agent (on langgraph), with a chat model of its own that answers in the process."""

from collections.abc import AsyncIterator
from typing import Any

from _worker import PIECE, Candidate, measure
from langchain.agents import create_agent
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult

ASKED = {"messages": [("user", "hi")]}


class Mock(BaseChatModel):
    pieces: int = 0

    @property
    def _llm_type(self) -> str:
        return "mock"

    def bind_tools(self, tools: Any, **options: Any) -> "Mock":
        return self

    def _generate(self, messages: Any, stop: Any = None, run_manager: Any = None, **options: Any) -> ChatResult:
        call = {"name": "add", "args": {"a": 1, "b": 2}, "id": "c1"}
        answered = isinstance(messages[-1], ToolMessage)
        message = AIMessage(content="3") if answered else AIMessage(content="", tool_calls=[call])
        return ChatResult(generations=[ChatGeneration(message=message)])

    async def _agenerate(self, messages: Any, stop: Any = None, run_manager: Any = None, **options: Any) -> ChatResult:
        return self._generate(messages)

    async def _astream(
        self, messages: Any, stop: Any = None, run_manager: Any = None, **options: Any
    ) -> AsyncIterator[ChatGenerationChunk]:
        if self.pieces:
            for _ in range(self.pieces):
                chunk = ChatGenerationChunk(message=AIMessageChunk(content=PIECE))
                if run_manager:
                    await run_manager.on_llm_new_token(PIECE, chunk=chunk)
                yield chunk
        elif isinstance(messages[-1], ToolMessage):
            yield ChatGenerationChunk(message=AIMessageChunk(content="3"))
        else:
            call = {"name": "add", "args": '{"a": 1, "b": 2}', "id": "c1", "index": 0, "type": "tool_call_chunk"}
            yield ChatGenerationChunk(message=AIMessageChunk(content="", tool_call_chunks=[call]))


async def add(a: int, b: int) -> int:
    """Add."""
    return a + b


MODEL = Mock()


def create() -> Any:
    return create_agent(MODEL, tools=[add], system_prompt="sys")


async def run(agent: Any) -> object:
    return (await agent.ainvoke(ASKED))["messages"][-1].content


async def stream(agent: Any) -> int:
    return len([event async for event in agent.astream(ASKED, stream_mode=["messages", "updates"])])


async def chunks(agent: Any, count: int) -> int:
    MODEL.pieces, found = count, 0
    async for chunk, _ in agent.astream(ASKED, stream_mode="messages"):
        found += chunk.content == PIECE
    MODEL.pieces = 0
    return found


if __name__ == "__main__":
    measure(Candidate(create=create, run=run, stream=stream, chunks=chunks))
