from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from bascule import storage
from bascule.errors import ConfigurationError, InputError, NotFound, SettingInvalid, StorageError
from bascule.memory import Memory, MessageFilter
from bascule.messages import Message, TextPart


def said(text: str, *, id: str | None = None, metadata: dict[str, object] | None = None) -> Message:
    given = {} if id is None else {"id": id}
    return Message(role="user", parts=(TextPart(text),), metadata=metadata, **given)  # type: ignore[arg-type]  # JSON


def texts(messages: tuple[Message, ...]) -> list[str]:
    return [message.text for message in messages]


async def test_a_turn_is_remembered_in_order() -> None:
    async with Memory() as memory:
        thread = await memory.save_turn([said("one"), said("two")], thread="t", resource_id="r")
        assert (thread.id, thread.resource_id, thread.title, thread.metadata) == ("t", "r", "", {})
        await memory.save_turn([said("three")], thread="t", resource_id="r")
        loaded = await memory.load("t", resource_id="r")
        assert texts(loaded) == ["one", "two", "three"]
        assert {(message.thread_id, message.resource_id) for message in loaded} == {("t", "r")}


async def test_a_memory_opens_on_its_first_use_and_an_unknown_thread_has_no_history() -> None:
    memory = Memory()
    assert await memory.load("t", resource_id="r") == ()
    assert (await memory.list_threads(resource_id="r")).threads == ()
    await memory.aclose()


async def test_a_thread_given_as_a_mapping_keeps_title_and_metadata() -> None:
    async with Memory() as memory:
        await memory.save_turn([], thread={"id": "t", "title": "Trip", "metadata": {"a": 1, "b": [1]}}, resource_id="r")
        await memory.save_turn([said("hi")], thread={"id": "t", "metadata": {"a": 2}}, resource_id="r")
        await memory.save_turn([said("ho")], thread="t", resource_id="r")
        thread = await memory.get_thread("t", resource_id="r")
        assert thread is not None
        assert (thread.title, thread.metadata) == ("Trip", {"a": 2, "b": [1]})
        assert thread.updated_at > thread.created_at


async def test_only_the_last_messages_are_loaded() -> None:
    async with Memory(last_messages=3) as memory:
        await memory.save_turn([said(str(number)) for number in range(20)], thread="t", resource_id="r")
        assert texts(await memory.load("t", resource_id="r")) == ["17", "18", "19"]
        assert texts(await memory.load("t", resource_id="r", limit=1)) == ["19"]
        assert len(await memory.load("t", resource_id="r", limit=10**30)) == 20
        assert await memory.load("t", resource_id="r", limit=0) == ()


@pytest.mark.parametrize("off", [False, 0])
async def test_without_history_a_run_neither_loads_nor_saves_messages(off: int) -> None:
    async with Memory(last_messages=off) as memory:
        assert memory.last_messages is False
        await memory.save_turn([said("hi")], thread="t", resource_id="r")
        assert (await memory.recall("t", resource_id="r")).total == 0
        await memory.save_messages("kept", thread_id="t", resource_id="r")
        assert await memory.load("t", resource_id="r") == ()


async def test_saving_a_message_again_changes_what_it_says_and_not_its_place() -> None:
    async with Memory() as memory:
        first = said("first", id="m1")
        await memory.save_turn([first, said("second")], thread="t", resource_id="r")
        again = Message(
            role="assistant",
            parts=(TextPart("new"),),
            id="m1",
            metadata={"a": 1},
            created_at=datetime(2000, 1, 1, tzinfo=UTC),
        )
        await memory.save_turn([said("third"), again], thread="t", resource_id="r")
        loaded = await memory.load("t", resource_id="r")
        assert texts(loaded) == ["new", "second", "third"]
        assert (loaded[0].role, loaded[0].metadata, loaded[0].created_at) == ("assistant", {"a": 1}, first.created_at)


async def test_threads_may_use_the_same_message_id() -> None:
    async with Memory() as memory:
        for thread in ("a", "b"):
            await memory.save_turn([said(f"in {thread}", id="1")], thread=thread, resource_id="r")
        assert texts(await memory.load("a", resource_id="r")) == ["in a"]
        assert await memory.delete_messages("1", resource_id="r", thread_id="b") == 1
        assert texts(await memory.load("a", resource_id="r")) == ["in a"]
        assert await memory.delete_messages(["1", "2"], resource_id="r") == 1


async def test_creating_a_thread_that_exists_keeps_its_messages_and_its_age() -> None:
    async with Memory() as memory:
        first = await memory.create_thread(resource_id="r", thread_id="t", title="One", metadata={"a": 1})
        await memory.save_messages("hi", thread_id="t", resource_id="r")
        again = await memory.create_thread(resource_id="r", thread_id="t", metadata={"b": 2})
        assert (again.title, again.metadata, again.created_at) == ("One", {"a": 1, "b": 2}, first.created_at)
        assert len(await memory.load("t", resource_id="r")) == 1


async def test_a_thread_without_an_id_gets_a_fresh_one() -> None:
    async with Memory() as memory:
        ids = {(await memory.create_thread(resource_id="r")).id for _ in range(3)}
        assert len(ids) == 3


async def test_a_thread_is_updated_and_deleted_with_its_messages() -> None:
    async with Memory() as memory:
        await memory.save_turn([said("hi")], thread="t", resource_id="r")
        assert (await memory.update_thread("t", resource_id="r", title="New", metadata={"k": None})).title == "New"
        assert (await memory.update_thread("t", resource_id="r")).metadata == {"k": None}
        assert (await memory.update_thread("t", resource_id="r", title="")).title == ""
        await memory.delete_thread("t", resource_id="r")
        assert await memory.get_thread("t", resource_id="r") is None
        await memory.create_thread(resource_id="r", thread_id="t")
        assert await memory.load("t", resource_id="r") == ()


async def test_threads_are_listed_by_page_in_both_orders() -> None:
    async with Memory() as memory:
        for name in "abcde":
            await memory.create_thread(resource_id="r", thread_id=name)
        await memory.save_messages("hi", thread_id="b", resource_id="r")
        page = await memory.list_threads(resource_id="r", per_page=2, page=1)
        assert [thread.id for thread in page.threads] == ["c", "b"]
        assert (page.total, page.page, page.per_page, page.has_more) == (5, 1, 2, True)
        last = await memory.list_threads(resource_id="r", order_by="updated_at", direction="asc", per_page=2, page=2)
        assert ([thread.id for thread in last.threads], last.has_more) == (["b"], False)
        everything = await memory.list_threads(resource_id="r", per_page=False)
        assert (len(everything.threads), everything.per_page, everything.has_more) == (5, None, False)


async def test_messages_are_recalled_by_page_in_both_orders() -> None:
    async with Memory() as memory:
        await memory.save_turn([said(str(number)) for number in range(5)], thread="t", resource_id="r")
        page = await memory.recall("t", resource_id="r", page=1, per_page=2)
        assert (texts(page.messages), page.total, page.has_more) == (["2", "3"], 5, True)
        newest = await memory.recall("t", resource_id="r", per_page=2, direction="desc")
        assert texts(newest.messages) == ["4", "3"]
        assert (await memory.recall("t", resource_id="r", page=9, per_page=2)).messages == ()


async def test_metadata_filters_tell_null_false_zero_and_missing_apart() -> None:
    odd: list[object] = [None, False, 0, "", "0", 1, True, 1.5, "x", [1], {"k": 1}, float("nan"), "\ud800"]
    async with Memory() as memory:
        await memory.save_turn(
            [said(repr(value), metadata={"k": value}) for value in odd] + [said("none"), said("{}", metadata={})],
            thread="t",
            resource_id="r",
        )
        for value, expected in [
            (None, ["None"]),
            (False, ["False"]),
            (0, ["0"]),
            (True, ["True"]),
            (1.0, ["1"]),
            (1.5, ["1.5"]),
            ("", ["''"]),
            ("0", ["'0'"]),
            ("y", []),
        ]:
            page = await memory.recall("t", resource_id="r", filter={"metadata": {"k": value}})
            assert (texts(page.messages), page.total) == (expected, len(expected))


async def test_several_conditions_must_all_hold() -> None:
    start = datetime(2024, 5, 1, tzinfo=UTC)
    messages = [
        Message(
            role="user", parts=(TextPart(str(day)),), created_at=start + timedelta(days=day), metadata={"odd": day % 2}
        )
        for day in range(6)
    ]
    async with Memory() as memory:
        await memory.save_turn(messages, thread="t", resource_id="r")
        where: MessageFilter = {
            "metadata": {"odd": 1},
            "date_range": {"start": start + timedelta(days=1), "end": start + timedelta(days=3)},
        }
        assert texts((await memory.recall("t", resource_id="r", filter=where)).messages) == ["1", "3"]
        await memory.create_thread(resource_id="r", thread_id="u", metadata={"kind": "x", "n": 1})
        found = await memory.list_threads(resource_id="r", metadata={"kind": "x", "n": 1})
        assert [thread.id for thread in found.threads] == ["u"]


@pytest.mark.parametrize("key", ["", "a.b", "a b", "1a", "é", "a" * 129, "__proto__", "constructor", "x'; --", "a\n"])
async def test_a_metadata_key_that_is_no_plain_name_is_refused(key: str) -> None:
    async with Memory() as memory:
        await memory.create_thread(resource_id="r", thread_id="t")
        with pytest.raises(InputError, match="cannot be filtered by"):
            await memory.recall("t", resource_id="r", filter={"metadata": {key: 1}})
        with pytest.raises(InputError, match="cannot be filtered by"):
            await memory.list_threads(resource_id="r", metadata={key: 1})


@pytest.mark.parametrize("value", [2**63, float("nan"), float("inf"), "a\0b", "\ud800", [1], {}])
async def test_a_metadata_value_that_cannot_be_compared_is_refused(value: object) -> None:
    async with Memory() as memory:
        with pytest.raises(InputError, match="metadata filter for 'k'"):
            await memory.list_threads(resource_id="r", metadata={"k": value})  # type: ignore[dict-item]  # what this is about


async def test_a_filter_with_an_unknown_entry_is_refused() -> None:
    without_zone = datetime(2024, 1, 1)  # noqa: DTZ001  # what this is about
    filters: list[object] = [{"meta": {}}, {"date_range": {"from": 1}}, {"date_range": {"start": without_zone}}]
    async with Memory() as memory:
        for where in filters:
            with pytest.raises(InputError):
                await memory.recall("t", resource_id="r", filter=where)  # type: ignore[arg-type]  # what this is about
        with pytest.raises(InputError, match="33 keys"):
            await memory.list_threads(resource_id="r", metadata={f"k{number}": 1 for number in range(33)})


@pytest.mark.parametrize("bad", ["", None, 7, "x" * 1025, "a\0", "\ud800"])
async def test_an_id_that_cannot_be_one_is_refused(bad: str) -> None:
    async with Memory() as memory:
        calls = [
            memory.create_thread(resource_id=bad),
            memory.get_thread("t", resource_id=bad),
            memory.get_thread(bad, resource_id="r"),
            memory.list_threads(resource_id=bad),
            memory.update_thread(bad, resource_id="r"),
            memory.delete_thread(bad, resource_id="r"),
            memory.save_messages("x", thread_id=bad, resource_id="r"),
            memory.save_messages("x", thread_id="t", resource_id=bad),
            memory.recall(bad, resource_id="r"),
            memory.delete_messages([bad], resource_id="r"),
            memory.load(bad, resource_id="r"),
            memory.save_turn([], thread=bad, resource_id="r"),
            memory.save_turn([], thread={"id": bad}, resource_id="r"),
            memory.save_turn([said("x")], thread="t", resource_id=bad),
        ]
        for call in calls:
            with pytest.raises(InputError):
                await call
        with pytest.raises(InputError):
            await memory.save_turn([replace(said("x"), id=bad)], thread="t", resource_id="r")


async def test_other_arguments_that_cannot_be_used_are_refused() -> None:
    async with Memory() as memory:
        await memory.create_thread(resource_id="r", thread_id="t")
        calls = [
            memory.list_threads(resource_id="r", page=-1),
            memory.list_threads(resource_id="r", per_page=0),
            memory.list_threads(resource_id="r", page=1, per_page=False),
            memory.list_threads(resource_id="r", page=2**62, per_page=2**62),
            memory.list_threads(resource_id="r", order_by="title"),  # type: ignore[arg-type]
            memory.recall("t", resource_id="r", direction="up"),  # type: ignore[arg-type]
            memory.load("t", resource_id="r", limit=-1),
            memory.create_thread(resource_id="r", title="x" * 10_001),
            memory.create_thread(resource_id="r", title=7),  # type: ignore[arg-type]
            memory.create_thread(resource_id="r", metadata=[]),  # type: ignore[arg-type]
            memory.create_thread(resource_id="r", metadata={1: 2}),  # type: ignore[dict-item]
            memory.create_thread(resource_id="r", metadata={"x": object()}),  # type: ignore[dict-item]
            memory.update_thread("t", resource_id="r", metadata={"x": object()}),  # type: ignore[dict-item]
            memory.save_turn([], thread={"id": "t", "name": "x"}, resource_id="r"),
            memory.save_messages([7], thread_id="t", resource_id="r"),  # type: ignore[list-item]
            memory.save_turn([said("x", metadata={"x": object()})], thread="t", resource_id="r"),
            memory.save_turn(
                [Message(role="user", parts=(), created_at=datetime(2024, 1, 1))],  # noqa: DTZ001
                thread="t",
                resource_id="r",
            ),
        ]
        for call in calls:
            with pytest.raises(InputError):
                await call
        assert (await memory.recall("t", resource_id="r")).total == 0
    for last in (-1, True, "10", None):
        with pytest.raises(InputError):
            Memory(last_messages=last)  # type: ignore[arg-type]  # what this is about
    with pytest.raises(SettingInvalid):
        Memory(storage="postgresql://host/db")


async def test_a_title_cut_off_in_the_middle_of_an_emoji_is_kept_as_far_as_it_goes() -> None:
    async with Memory() as memory:
        assert (await memory.create_thread(resource_id="r", title="Hi \ud83d")).title == "Hi �"
        assert (await memory.create_thread(resource_id="r", title="a\0b")).title == "a\0b"


async def test_saving_nothing_is_fine_in_a_thread_that_exists() -> None:
    async with Memory() as memory:
        with pytest.raises(NotFound):
            await memory.save_messages([], thread_id="t", resource_id="r")
        await memory.create_thread(resource_id="r", thread_id="t")
        assert await memory.save_messages([], thread_id="t", resource_id="r") == ()
        assert await memory.delete_messages([], resource_id="r") == 0


async def test_messages_of_every_accepted_form_are_saved() -> None:
    async with Memory() as memory:
        await memory.create_thread(resource_id="r", thread_id="t")
        saved = await memory.save_messages(
            ["text", {"role": "assistant", "content": "mapping"}, said("message")], thread_id="t", resource_id="r"
        )
        assert saved == (await memory.recall("t", resource_id="r")).messages


async def test_a_storage_that_was_handed_in_is_left_open() -> None:
    async with storage.open("sqlite://") as store:
        async with Memory(storage=store) as memory:
            await memory.create_thread(resource_id="r", thread_id="t")
        assert memory.storage is store
        assert await Memory(storage=store).get_thread("t", resource_id="r") is not None


async def test_a_closed_memory_refuses_use_until_it_is_entered_again() -> None:
    memory = Memory()
    async with memory:
        await memory.create_thread(resource_id="r", thread_id="t")
    with pytest.raises(StorageError, match="closed"):
        await memory.get_thread("t", resource_id="r")
    async with memory:
        assert await memory.get_thread("t", resource_id="r") is None


async def test_an_app_hands_its_storage_to_a_memory_without_one() -> None:
    async with storage.open("sqlite://") as app, storage.open("sqlite://") as own:
        shared, separate, used = Memory(), Memory(storage=own), Memory()
        await used.create_thread(resource_id="r")
        shared.attach(app)
        shared.attach(app)
        separate.attach(app)
        assert (shared.storage, separate.storage) == (app, own)
        with pytest.raises(ConfigurationError, match="before its app had a storage"):
            used.attach(app)
        async with shared:
            await shared.create_thread(resource_id="r", thread_id="t")
        assert await app.memory.get_thread("t", owner="r") is not None
        await used.aclose()
