"""Agents that remember: what the model is shown of a thread, and what is kept of a run."""

from collections.abc import AsyncIterator

import anyio
import pytest

from bascule.agents import Agent
from bascule.context import Principal, RequestContext
from bascule.errors import InputError
from bascule.memory import Memory
from bascule.messages import Message, ToolCallPart
from bascule.models import ModelCall, ModelCapabilities, ModelPart, ScriptedModel, TextDelta
from bascule.tools import MemoryOption, tool

HERE: MemoryOption = {"thread": "t", "resource": "me"}


@pytest.fixture
async def memory() -> AsyncIterator[Memory]:
    async with Memory() as memory:
        yield memory


def texts(messages: "tuple[Message, ...] | list[Message]") -> list[tuple[str, str]]:
    return [(message.role, message.text) for message in messages]


@pytest.mark.requirement("F28")
async def test_the_model_is_shown_the_last_messages_of_the_thread(memory: Memory) -> None:
    model = ScriptedModel([{"text": "Nice to meet you, Ann."}, {"text": "Ann."}])
    agent = Agent("a", model=model, memory=memory)
    await agent.generate("I am Ann.", memory=HERE)
    second = await agent.generate("Who am I?", memory=HERE)
    assert texts(list(model.calls[1].messages)) == [
        ("user", "I am Ann."),
        ("assistant", "Nice to meet you, Ann."),
        ("user", "Who am I?"),
    ]
    assert texts(second.remembered_messages) == [("user", "I am Ann."), ("assistant", "Nice to meet you, Ann.")]
    assert texts(second.messages) == [("user", "Who am I?"), ("assistant", "Ann.")]


async def test_a_turn_with_tools_is_one_message_under_the_id_of_the_stream(memory: Memory) -> None:
    @tool
    async def add(a: int, b: int) -> int:
        """Add."""
        return a + b

    model = ScriptedModel(
        [
            {"text": "Let me see.", "tool_calls": [{"name": "add", "id": "c", "arguments": {"a": 1, "b": 2}}]},
            {"text": "3"},
        ]
    )
    output = Agent("a", model=model, tools=[add], memory=memory).stream("1 + 2?", memory=HERE)
    await output
    question, answer = (await memory.recall("t", resource_id="me")).messages
    assert (question.role, answer.role, answer.id) == ("user", "assistant", output.message_id)
    assert [part.type for part in answer.parts] == ["text", "tool-invocation", "step-start", "text"]
    call = answer.parts[1]
    assert isinstance(call, ToolCallPart)
    assert (call.state, call.args, call.result) == ("result", {"a": 1, "b": 2}, 3)


async def test_threads_do_not_see_each_other(memory: Memory) -> None:
    model = ScriptedModel([{"text": "ok", "times": 9}])
    agent = Agent("a", model=model, memory=memory)
    await agent.generate("one", memory=HERE)
    await agent.generate("two", memory={"thread": "other", "resource": "me"})
    await agent.generate("three", memory={"thread": "t", "resource": "somebody else"})
    assert [texts(list(call.messages)) for call in model.calls[1:]] == [[("user", "two")], [("user", "three")]]


@pytest.mark.requirement("F35")
async def test_a_verified_caller_owns_the_thread_whatever_the_option_says(memory: Memory) -> None:
    agent = Agent("a", model=ScriptedModel([{"text": "ok"}]), memory=memory)
    context = RequestContext(principal=Principal(id="issuer|ann"))
    await agent.generate("hi", memory={"thread": "t", "resource": "bob"}, request_context=context)
    assert await memory.get_thread("t", resource_id="bob") is None
    assert await memory.get_thread("t", resource_id="issuer|ann") is not None


@pytest.mark.requirement("A23")
async def test_title_and_metadata_of_the_thread_are_kept(memory: Memory) -> None:
    agent = Agent("a", model=ScriptedModel([{"text": "ok"}]), memory=memory)
    await agent.generate("hi", memory={"thread": {"id": "t", "title": "Sums", "metadata": {"x": 1}}, "resource": "me"})
    thread = await memory.get_thread("t", resource_id="me")
    assert thread is not None
    assert (thread.title, thread.metadata) == ("Sums", {"x": 1})


async def test_without_last_messages_nothing_is_loaded_or_kept() -> None:
    async with Memory(last_messages=False) as memory:
        agent = Agent("a", model=ScriptedModel([{"text": "ok", "times": 2}]), memory=memory)
        await agent.generate("one", memory=HERE)
        full = await agent.generate("two", memory=HERE)
        assert full.remembered_messages == ()
        assert await memory.get_thread("t", resource_id="me") is None


class Breaking:
    """A model that says half and then fails, or waits."""

    provider = "test"
    model_id = "breaking"
    capabilities = ModelCapabilities()

    def __init__(self, *, wait: bool) -> None:
        self.wait = wait
        self.half = anyio.Event()

    async def stream(self, call: ModelCall) -> AsyncIterator[ModelPart]:
        yield TextDelta("half")
        self.half.set()
        if self.wait:
            await anyio.sleep_forever()
        raise OSError("gone")


@pytest.mark.requirement("A15")
@pytest.mark.parametrize("wait", [True, False])
async def test_what_a_stopped_or_failed_run_said_is_kept(memory: Memory, wait: bool) -> None:
    model = Breaking(wait=wait)
    with anyio.fail_after(5):
        async with Agent("a", model=model, memory=memory).stream("go", memory=HERE) as output:
            await model.half.wait()
            if not wait:
                await output.consume_stream()
    assert texts((await memory.recall("t", resource_id="me")).messages) == [("user", "go"), ("assistant", "half")]


async def test_a_thread_without_an_owner_is_refused(memory: Memory) -> None:
    agent = Agent("a", model=ScriptedModel([]), memory=memory)
    with pytest.raises(InputError, match="names the thread 't' but not its owner"):
        agent.stream("go", memory={"thread": "t"})
    with pytest.raises(InputError, match="names no thread"):
        agent.stream("go", memory={"resource": "me"})


async def test_the_same_message_sent_twice_is_kept_once(memory: Memory) -> None:
    agent = Agent("a", model=ScriptedModel([{"text": "ok", "times": 2}]), memory=memory)
    message = {"id": "m-1", "role": "user", "content": "hi"}
    await agent.generate(message, memory=HERE)
    await agent.generate(message, memory=HERE)
    stored = (await memory.recall("t", resource_id="me")).messages
    assert [item.role for item in stored] == ["user", "assistant", "assistant"]
