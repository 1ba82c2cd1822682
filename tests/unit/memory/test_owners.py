"""A thread of somebody else answers exactly like a thread that does not exist."""

from collections.abc import Awaitable, Callable

import pytest

from bascule.errors import NotFound
from bascule.memory import Memory
from bascule.messages import Message, TextPart

Call = Callable[[Memory, str], Awaitable[object]]

# Each call is made by "mallory", once with alice's thread id and once with an id that nobody uses.
CALLS: dict[str, Call] = {
    "get_thread": lambda memory, thread: memory.get_thread(thread, resource_id="mallory"),
    "update_thread": lambda memory, thread: memory.update_thread(thread, resource_id="mallory", title="mine"),
    "delete_thread": lambda memory, thread: memory.delete_thread(thread, resource_id="mallory"),
    "save_messages": lambda memory, thread: memory.save_messages("x", thread_id=thread, resource_id="mallory"),
    "recall": lambda memory, thread: memory.recall(thread, resource_id="mallory"),
    "load": lambda memory, thread: memory.load(thread, resource_id="mallory"),
    "delete_messages": lambda memory, thread: memory.delete_messages(
        "secret-id", resource_id="mallory", thread_id=thread
    ),
    "delete_messages anywhere": lambda memory, _: memory.delete_messages("secret-id", resource_id="mallory"),
    "list_threads": lambda memory, _: memory.list_threads(resource_id="mallory"),
}


async def answer(call: Call, memory: Memory, thread: str) -> str:
    try:
        return repr(await call(memory, thread))
    except NotFound as error:
        return str(error).replace(thread, "<id>")


async def alice(memory: Memory) -> str:
    """Describe everything that alice has."""
    return repr((await memory.list_threads(resource_id="alice"), await memory.recall("shared", resource_id="alice")))


async def prepared() -> Memory:
    memory = Memory()
    await memory.save_turn(
        [Message(role="user", parts=(TextPart("secret"),), id="secret-id")],
        thread={"id": "shared", "title": "Secret", "metadata": {"k": "secret"}},
        resource_id="alice",
    )
    return memory


@pytest.mark.requirement("F27")
@pytest.mark.parametrize("name", CALLS)
async def test_a_foreign_thread_answers_like_an_unknown_one_and_is_untouched(name: str) -> None:
    async with await prepared() as memory:
        before = await alice(memory)
        foreign = await answer(CALLS[name], memory, "shared")
        assert foreign == await answer(CALLS[name], memory, "unused")
        assert "secret" not in foreign.lower()
        assert await alice(memory) == before


async def test_using_a_foreign_thread_id_gives_a_thread_of_ones_own() -> None:
    async with await prepared() as memory:
        before = await alice(memory)
        turn = [Message(role="user", parts=(TextPart("mine"),), id="secret-id")]
        thread = await memory.save_turn(turn, thread="shared", resource_id="mallory")
        assert (thread.resource_id, thread.title, thread.metadata) == ("mallory", "", {})
        created = await memory.create_thread(resource_id="bob", thread_id="shared", title="Bob's")
        assert (created.title, created.metadata) == ("Bob's", {})
        assert [message.text for message in await memory.load("shared", resource_id="mallory")] == ["mine"]
        assert await alice(memory) == before
        await memory.delete_messages("secret-id", resource_id="mallory")
        await memory.delete_thread("shared", resource_id="mallory")
        assert await alice(memory) == before


async def test_an_owner_is_compared_exactly() -> None:
    async with await prepared() as memory:
        for owner in ("Alice", "alice ", "alic", "alice%", "_lice", "a*", "álice"):
            assert await memory.get_thread("shared", resource_id=owner) is None
            assert await memory.get_thread("Shared", resource_id="alice") is None
