"""SQLite databases as files: opening, closing, refusing, and many users at once."""
# ruff: noqa: ASYNC240  # these tests look at small files while nothing else runs in their event loop

import gc
import os
import sqlite3
import stat
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable, Coroutine
from pathlib import Path

import anyio
import anyio.to_thread
import pytest

from bascule import storage
from bascule.errors import InputError, StorageError
from bascule.memory import Memory
from bascule.messages import Message, TextPart
from bascule.storage._sqlite import SqliteStorage


def said(text: str) -> Message:
    return Message(role="user", parts=(TextPart(text),))


def texts(messages: tuple[Message, ...]) -> list[str]:
    return [message.text for message in messages]


def held_by(gate: threading.Event) -> Callable[[sqlite3.Connection], bool]:
    """Return a write that keeps the writer busy until the gate opens."""

    def hold(_: sqlite3.Connection) -> bool:
        return gate.wait(10)

    return hold


def turn(memory: Memory, *words: str) -> Callable[[], Coroutine[None, None, None]]:
    """Return a function that saves a turn with these messages."""

    async def save() -> None:
        await memory.save_turn([said(word) for word in words], thread="t", resource_id="r")

    return save


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "app.db"


@pytest.fixture
def url(path: Path) -> str:
    return f"sqlite:///{path}"


async def test_a_conversation_outlives_the_storage_that_saved_it(url: str) -> None:
    async with Memory(storage=url) as memory:
        await memory.save_turn([said("hello")], thread={"id": "t", "title": "T"}, resource_id="r")
    async with Memory(storage=url) as memory:
        assert texts(await memory.load("t", resource_id="r")) == ["hello"]


async def test_the_folder_is_created_and_only_its_owner_may_read_the_file(tmp_path: Path) -> None:
    path = tmp_path / "new" / "deep" / "app.db"
    async with Memory(storage=f"sqlite:///{path}") as memory:
        await memory.create_thread(resource_id="r")
        modes = {entry.name: stat.S_IMODE(entry.stat().st_mode) for entry in path.parent.iterdir()}
    assert modes == {"app.db": 0o600, "app.db-wal": 0o600, "app.db-shm": 0o600}
    assert [entry.name for entry in path.parent.iterdir()] == ["app.db"]


async def test_an_acknowledged_write_is_seen_by_another_connection(url: str, path: Path) -> None:
    async with Memory(storage=url) as memory:
        await memory.save_turn([said("hello")], thread="t", resource_id="r")
        other = sqlite3.connect(path)
        assert other.execute("SELECT count(*) FROM messages").fetchone() == (1,)
        other.close()


@pytest.mark.parametrize("url", ["sqlite://", None])
async def test_a_thousand_concurrent_saves_keep_order_and_count(url: str | None, path: Path) -> None:
    started: list[int] = []
    async with Memory(storage=url or f"sqlite:///{path}") as memory:

        async def save(number: int) -> None:
            started.append(number)
            await memory.save_turn([said(f"{number}a"), said(f"{number}b")], thread="t", resource_id="r")

        async with anyio.create_task_group() as group:
            for number in range(1000):
                group.start_soon(save, number)
        page = await memory.recall("t", resource_id="r")
    assert page.total == 2000
    # Two messages of one turn stay together, and turns stand in the order in which they were saved.
    assert texts(page.messages) == [f"{number}{part}" for number in started for part in "ab"]


async def test_a_write_that_fails_in_a_batch_is_undone_alone(url: str) -> None:
    """Writes that wait for one transaction: one of them raises after it has changed something."""
    store = storage.open(url)
    assert isinstance(store, SqliteStorage)
    gate = threading.Event()
    outcomes: dict[int, str] = {}

    def change(number: int) -> Callable[[sqlite3.Connection], int]:
        def write(connection: sqlite3.Connection) -> int:
            connection.execute(
                "INSERT INTO threads (owner, id, title, metadata, created_at, updated_at) "
                "VALUES ('r', ?, '', '{}', 0, 0)",
                (str(number),),
            )
            if number % 3 == 0:
                raise InputError(f"no {number}")
            if number % 3 == 1:
                connection.execute("SELECT * FROM nowhere")
            return number

        return write

    async def save(number: int) -> None:
        try:
            outcomes[number] = f"saved {await store.write(change(number))}"
        except (InputError, StorageError) as error:
            outcomes[number] = type(error).__name__

    async with store:
        async with anyio.create_task_group() as group:
            group.start_soon(store.write, held_by(gate))  # holds the writer until all others wait behind it
            await anyio.wait_all_tasks_blocked()
            for number in range(9):
                group.start_soon(save, number)
            await anyio.wait_all_tasks_blocked()
            gate.set()
        threads, _ = await store.memory.list_threads(owner="r")
    assert {number: outcomes[number] for number in sorted(outcomes)} == {
        number: ["InputError", "StorageError", f"saved {number}"][number % 3] for number in range(9)
    }
    assert sorted(thread.id for thread in threads) == ["2", "5", "8"]


async def test_a_cancelled_save_is_carried_out_as_a_whole(url: str) -> None:
    store = storage.open(url)
    assert isinstance(store, SqliteStorage)
    memory = Memory(storage=store)
    gate = threading.Event()
    async with store:
        async with anyio.create_task_group() as outer:
            outer.start_soon(store.write, held_by(gate))
            await anyio.wait_all_tasks_blocked()
            async with anyio.create_task_group() as group:
                for number in range(10):
                    group.start_soon(turn(memory, f"{number}a", f"{number}b"))
                await anyio.wait_all_tasks_blocked()
                group.cancel_scope.cancel()
            gate.set()
        halves = texts(await memory.load("t", resource_id="r", limit=100))
        assert [text[-1] for text in halves] == ["a", "b"] * (len(halves) // 2)
    async with store:  # closing has carried out what was queued
        assert len(await memory.load("t", resource_id="r", limit=100)) == 20


async def test_closing_carries_out_what_waits_even_when_the_closing_task_is_cancelled(url: str) -> None:
    store = storage.open(url)
    memory = Memory(storage=store)
    async with anyio.create_task_group() as group:
        for number in range(50):
            group.start_soon(turn(memory, str(number)))
        await anyio.wait_all_tasks_blocked()
        with anyio.CancelScope() as scope:
            scope.cancel()
            await store.aclose()
    async with Memory(storage=url) as again:
        assert (await again.recall("t", resource_id="r")).total == 50


async def test_closing_twice_and_closing_what_was_never_opened_is_fine(url: str, path: Path) -> None:
    store = storage.open(url)
    await store.aclose()
    await store.aclose()
    assert not path.exists()
    with pytest.raises(StorageError, match="closed"):
        await store.memory.get_thread("t", owner="r")


def test_one_storage_serves_several_event_loops_one_after_another(url: str) -> None:
    memory = Memory(storage=url)

    async def use(text: str) -> None:
        await memory.save_turn([said(text)], thread="t", resource_id="r")

    async def check() -> None:
        assert texts(await memory.load("t", resource_id="r")) == ["one", "two", "three"]
        await memory.aclose()

    anyio.run(use, "one")
    anyio.run(use, "two", backend="trio")
    anyio.run(use, "three")
    anyio.run(check, backend="trio")


def test_one_storage_serves_event_loops_in_several_threads(url: str) -> None:
    memory = Memory(storage=url)

    async def use() -> None:
        for number in range(20):
            await memory.save_turn([said(str(number))], thread="t", resource_id="r")

    async def check() -> None:
        assert (await memory.recall("t", resource_id="r")).total == 80
        await memory.aclose()

    threads = [
        threading.Thread(target=anyio.run, args=(use,), kwargs={"backend": backend})
        for backend in ("asyncio", "trio", "asyncio", "trio")
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(15)
    anyio.run(check)


def test_an_event_loop_that_ends_before_its_answer_harms_nobody(url: str) -> None:
    store = storage.open(url)
    assert isinstance(store, SqliteStorage)
    gate = threading.Event()

    async def leave() -> None:
        with anyio.CancelScope() as scope:
            async with anyio.create_task_group() as group:
                group.start_soon(store.write, held_by(gate))
                await anyio.wait_all_tasks_blocked()
                scope.cancel()

    async def check() -> None:
        gate.set()
        assert await store.memory.get_thread("t", owner="r") is None
        await store.aclose()

    for backend in ("asyncio", "trio"):
        gate.clear()
        anyio.run(leave, backend=backend)
        gate.set()
    anyio.run(check)


async def test_a_storage_that_is_dropped_ends_its_threads(url: str) -> None:
    def count() -> int:
        return sum(thread.name.startswith("bascule-") for thread in threading.enumerate())

    before = count()
    store = storage.open(url)
    assert await store.memory.get_thread("t", owner="r") is None
    assert count() == before + 2
    ending = [thread for thread in threading.enumerate() if thread.name == "bascule-storage"]
    gone = weakref.ref(store)
    del store
    gc.collect()
    assert gone() is None
    for thread in ending:
        await anyio.to_thread.run_sync(thread.join, 10)
    assert count() <= before


@pytest.mark.parametrize("make", ["text", "folder", "parent is a file", "damaged"])
async def test_a_database_that_cannot_be_used_is_named_with_a_remedy(make: str, path: Path) -> None:
    words = {
        "text": "is not a SQLite database. Name another file",
        "folder": "cannot be opened. Check that it is a file",
        "parent is a file": "cannot be created",
        "damaged": "is not a SQLite database",
    }[make]
    target = path
    if make == "text":
        path.write_text("This is a letter and no database, and it is long enough to be sure about that.\n" * 20)
    elif make == "folder":
        path.mkdir()
    elif make == "parent is a file":
        path.write_text("x")
        target = path / "app.db"
    else:
        path.write_bytes(b"SQLite format 3\0" + b"\xff" * 5000)
    before = path.read_bytes() if path.is_file() else None
    store = storage.open(f"sqlite:///{target}")
    for _ in range(2):  # a refused storage is tried anew each time
        with pytest.raises(StorageError) as caught:
            await store.memory.get_thread("t", owner="r")
        assert str(path) in str(caught.value)
        assert words in str(caught.value)
    with pytest.raises(StorageError):
        async with store:
            pass
    assert (path.read_bytes() if path.is_file() else None) == before


async def test_a_storage_works_as_soon_as_what_was_in_the_way_is_gone(path: Path) -> None:
    path.mkdir()
    memory = Memory(storage=f"sqlite:///{path}")
    with pytest.raises(StorageError):
        await memory.create_thread(resource_id="r")
    path.rmdir()
    await memory.create_thread(resource_id="r")
    await memory.aclose()


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is read-only for root")
async def test_a_read_only_database_is_named_with_a_remedy(url: str, path: Path) -> None:
    async with Memory(storage=url) as memory:
        await memory.create_thread(resource_id="r")
    path.chmod(0o400)
    with pytest.raises(StorageError, match="is not writable"):
        await Memory(storage=url).create_thread(resource_id="r")


async def test_a_newer_database_is_refused_and_left_as_it_is(url: str, path: Path) -> None:
    async with Memory(storage=url) as memory:
        await memory.create_thread(resource_id="r")
    connection = sqlite3.connect(path)
    connection.execute("INSERT INTO bascule_migrations VALUES (9999, 'from the future', 0)")
    connection.commit()
    connection.close()
    before = path.read_bytes()
    with pytest.raises(StorageError, match=r"newer version.*migration 9999.*Update Bascule"):
        await Memory(storage=url).create_thread(resource_id="r")
    assert path.read_bytes() == before


async def test_a_database_with_tables_of_the_same_name_is_refused_and_left_as_it_is(url: str, path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE messages (mine)")
    connection.close()
    with pytest.raises(StorageError, match="tables of another program"):
        await Memory(storage=url).create_thread(resource_id="r")
    connection = sqlite3.connect(path)
    assert connection.execute("SELECT name FROM sqlite_master").fetchall() == [("messages",)]
    connection.close()


async def test_a_database_that_another_process_holds_is_refused_after_a_while_and_used_afterwards(
    url: str, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bascule.storage._sqlite._connection.BUSY_TIMEOUT", 0.05)
    async with Memory(storage=url) as memory:
        await memory.create_thread(resource_id="r", thread_id="t")
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StorageError, match="locked by another process"):
            await memory.save_turn([said("lost")], thread="t", resource_id="r")
        assert await memory.load("t", resource_id="r") == ()
        other.execute("ROLLBACK")
        other.close()
        await memory.save_turn([said("kept")], thread="t", resource_id="r")
        assert texts(await memory.load("t", resource_id="r")) == ["kept"]


APPEND = """
import sys, anyio
from bascule.memory import Memory
from bascule.messages import Message, TextPart

async def main(url, name):
    async with Memory(storage=url) as memory:
        print("open", flush=True)
        sys.stdin.readline()
        async with anyio.create_task_group() as group:
            for number in range(100):
                message = Message(role="user", parts=(TextPart(f"{name} {number}"),))
                group.start_soon(lambda message=message: memory.save_turn([message], thread="t", resource_id="r"))

anyio.run(main, *sys.argv[1:])
"""


def test_several_processes_open_a_new_database_together_and_lose_nothing(url: str) -> None:
    processes = [
        subprocess.Popen(
            [sys.executable, "-W", "error", "-c", APPEND, url, name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for name in "abc"
    ]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "open\n"
    for process in processes:
        process.communicate("go\n", timeout=15)
        assert process.returncode == 0

    async def check() -> None:
        async with Memory(storage=url) as memory:
            messages = (await memory.recall("t", resource_id="r")).messages
            assert len(set(texts(messages))) == len(messages) == 300
            for name in "abc":
                own = [text for text in texts(messages) if text.startswith(name)]
                assert own == [f"{name} {number}" for number in range(100)]

    anyio.run(check)


LEAVE = """
import sys, anyio
from bascule.memory import Memory
from bascule.messages import Message, TextPart

async def main(url):
    memory = Memory(storage=url)
    await memory.save_turn([], thread="t", resource_id="r")
    with anyio.CancelScope() as scope:
        scope.cancel()
        await memory.save_turn([Message(role="user", parts=(TextPart("last words"),))], thread="t", resource_id="r")
    return memory

memory = anyio.run(main, sys.argv[1])
"""


def test_a_process_that_ends_without_closing_finishes_its_writes_and_prints_nothing(url: str, path: Path) -> None:
    result = subprocess.run(
        [sys.executable, "-X", "dev", "-W", "error", "-c", LEAVE, url],
        capture_output=True,
        text=True,
        check=False,
        timeout=15,
    )
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")
    assert [entry.name for entry in path.parent.iterdir()] == ["app.db"]  # closed in order: no journal is left

    async def check() -> None:
        async with Memory(storage=url) as memory:
            assert texts(await memory.load("t", resource_id="r")) == ["last words"]

    anyio.run(check)


FORK = """
import os, sys, anyio
from bascule.memory import Memory
from bascule.messages import Message, TextPart

memory = Memory(storage=sys.argv[1])

async def save(text):
    await memory.save_turn([Message(role="user", parts=(TextPart(text),))], thread="t", resource_id="r")

anyio.run(save, "before")
child = os.fork()
if child == 0:
    anyio.run(save, "child")
    os._exit(0)
_, status = os.waitpid(child, 0)
assert status == 0, status
anyio.run(save, "after")
"""


def test_a_forked_process_opens_the_database_for_itself(url: str) -> None:
    subprocess.run([sys.executable, "-c", FORK, url], check=True, timeout=15)

    async def check() -> None:
        async with Memory(storage=url) as memory:
            assert texts(await memory.load("t", resource_id="r")) == ["before", "child", "after"]

    anyio.run(check)
