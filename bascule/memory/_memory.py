"""Threads, their messages, and what a run remembers of them."""

from collections.abc import Mapping, Sequence
from typing import Literal, Self

from bascule.errors import ConfigurationError, InputError, NotFound
from bascule.memory._checks import (
    check_id,
    check_last_messages,
    check_metadata,
    check_title,
    page_bounds,
    thread_option,
)
from bascule.memory._pages import MessagePage, ThreadPage
from bascule.messages import JsonObject, JsonValue, Message, MessagesInput, new_id, normalize, utc_now
from bascule.storage import MemoryStore, MessageFilter, Order, Storage, Thread, ThreadOrder
from bascule.storage import open as open_storage

__all__ = ["Memory"]


class Memory:
    """Keeps conversations: threads, owned by a resource, and their messages.

    A resource is whoever the conversations belong to, for instance a user. Every method needs its id, and sees nothing
    of other resources: a thread of another resource is an unknown thread. Two resources may use the same thread id;
    each has a thread of its own.

    A memory opens its storage on first use. ``async with memory:`` opens it at once, and closes it at the end.

    Args:
        storage: a URL as ``bascule.storage.open`` takes it, an opened or unopened ``Storage`` (which stays its
            maker's to close), or ``None`` for a store in this process that is empty again when it is closed.
        last_messages: how many of the newest messages a run is shown. ``False`` or 0: a run neither loads nor saves
            messages.

    Raises:
        ConfigurationError: the URL names no storage that is supported.
        InputError: ``last_messages`` is no such number.
    """

    def __init__(self, *, storage: str | Storage | None = None, last_messages: int | Literal[False] = 10) -> None:
        self._given = storage is not None
        self._used = False
        self._storage: Storage
        if storage is None or isinstance(storage, str):
            self._owned, self._storage = True, open_storage("sqlite://" if storage is None else storage)
        else:
            self._owned, self._storage = False, storage
        self._last_messages = check_last_messages(last_messages)

    @property
    def storage(self) -> Storage:
        """Where this memory keeps things."""
        return self._storage

    @property
    def last_messages(self) -> int | Literal[False]:
        """How many of the newest messages a run is shown; ``False`` when it neither loads nor saves any."""
        return self._last_messages

    def attach(self, storage: Storage) -> None:
        """Use an app's storage, unless this memory was given one of its own.

        Args:
            storage: the app's; the app opens and closes it.

        Raises:
            ConfigurationError: this memory has already stored something elsewhere.
        """
        if self._given or storage is self._storage:
            return
        if self._used:
            raise ConfigurationError(
                "This memory was used before its app had a storage, so its conversations would be left behind. "
                "Give it to one app only, before its first use, or give it a storage of its own: Memory(storage=...)."
            )
        self._storage = storage
        self._owned = False

    async def create_thread(
        self,
        *,
        resource_id: str,
        thread_id: str | None = None,
        title: str = "",
        metadata: JsonObject | None = None,
    ) -> Thread:
        """Create a thread; one that is there already gets the title and metadata.

        Args:
            resource_id: who owns it.
            thread_id: its id, unique for the resource; a fresh one when left out.
            title: a name to show.
            metadata: the app's own entries, kept untouched; added key by key to those of an existing thread.

        Raises:
            InputError: an argument cannot be used.
            StorageError: the store cannot be written.
        """
        owner = check_id(resource_id, "resource_id")
        return await self._store().save(
            new_id() if thread_id is None else check_id(thread_id, "thread_id"),
            (),
            owner=owner,
            at=utc_now(),
            title=check_title(title) or None,
            metadata=None if metadata is None else check_metadata(metadata),
        )

    async def get_thread(self, thread_id: str, *, resource_id: str) -> Thread | None:
        """Return a thread, or ``None`` when the resource has none with this id.

        Raises:
            StorageError: the store cannot be read.
        """
        owner = check_id(resource_id, "resource_id")
        return await self._store().get_thread(check_id(thread_id, "thread_id"), owner=owner)

    async def list_threads(
        self,
        *,
        resource_id: str,
        metadata: Mapping[str, str | int | float | bool | None] | None = None,
        order_by: ThreadOrder = "created_at",
        direction: Order = "desc",
        page: int = 0,
        per_page: int | Literal[False] | None = 100,
    ) -> ThreadPage:
        """Return the threads of a resource, a page at a time.

        Args:
            resource_id: who owns them.
            metadata: entries that a thread's metadata must have; see ``MessageFilter``.
            order_by: ``created_at`` or ``updated_at``.
            direction: ``desc`` for the newest first, or ``asc``.
            page: which page, from 0.
            per_page: threads on a page; ``False`` for all on one.

        Raises:
            InputError: an argument cannot be used.
            StorageError: the store cannot be read.
        """
        owner = check_id(resource_id, "resource_id")
        _check_choice(order_by, ("created_at", "updated_at"), "order_by")
        _check_choice(direction, ("asc", "desc"), "direction")
        offset, limit = page_bounds(page, per_page)
        threads, total = await self._store().list_threads(
            owner=owner, metadata=metadata, order_by=order_by, order=direction, offset=offset, limit=limit
        )
        return ThreadPage(
            threads=threads, total=total, page=page, per_page=limit, has_more=offset + len(threads) < total
        )

    async def update_thread(
        self,
        thread_id: str,
        *,
        resource_id: str,
        title: str | None = None,
        metadata: JsonObject | None = None,
    ) -> Thread:
        """Change a thread's title, or add to its metadata.

        Args:
            thread_id: the thread.
            resource_id: who owns it.
            title: the new title; ``None`` keeps the old one.
            metadata: entries to add or replace, key by key.

        Raises:
            NotFound: the resource has no such thread.
            InputError: an argument cannot be used.
            StorageError: the store cannot be written.
        """
        owner = check_id(resource_id, "resource_id")
        thread = await self._store().update_thread(
            check_id(thread_id, "thread_id"),
            owner=owner,
            at=utc_now(),
            title=None if title is None else check_title(title),
            metadata=None if metadata is None else check_metadata(metadata),
        )
        if thread is None:
            raise _unknown(thread_id)
        return thread

    async def delete_thread(self, thread_id: str, *, resource_id: str) -> None:
        """Delete a thread and its messages.

        Raises:
            NotFound: the resource has no such thread.
            StorageError: the store cannot be written.
        """
        owner = check_id(resource_id, "resource_id")
        if not await self._store().delete_thread(check_id(thread_id, "thread_id"), owner=owner):
            raise _unknown(thread_id)

    async def save_messages(self, messages: MessagesInput, *, thread_id: str, resource_id: str) -> tuple[Message, ...]:
        """Save messages in a thread and return them as they are stored.

        A message whose id is already in the thread keeps its place, and gets the new content.

        Args:
            messages: a text, a ``Message``, a mapping, or a list of them.
            thread_id: the thread; it must exist.
            resource_id: who owns it.

        Raises:
            NotFound: the resource has no such thread.
            InputError: an argument cannot be used.
            StorageError: the store cannot be written; nothing was saved.
        """
        owner = check_id(resource_id, "resource_id")
        check_id(thread_id, "thread_id")
        checked = _checked(messages)
        if not await self._store().append(thread_id, checked, owner=owner, at=utc_now()):
            raise _unknown(thread_id)
        return tuple(message.owned_by(thread_id=thread_id, resource_id=owner) for message in checked)

    async def recall(
        self,
        thread_id: str,
        *,
        resource_id: str,
        page: int = 0,
        per_page: int | Literal[False] | None = None,
        direction: Order = "asc",
        filter: MessageFilter | None = None,
    ) -> MessagePage:
        """Return the messages of a thread, all of them or a page at a time.

        Args:
            thread_id: the thread.
            resource_id: who owns it.
            page: which page, from 0.
            per_page: messages on a page; all on one when left out.
            direction: ``asc`` for the order of the conversation, ``desc`` for the newest first.
            filter: which messages.

        Raises:
            NotFound: the resource has no such thread.
            InputError: an argument cannot be used.
            StorageError: the store cannot be read.
        """
        owner = check_id(resource_id, "resource_id")
        _check_choice(direction, ("asc", "desc"), "direction")
        offset, limit = page_bounds(page, per_page)
        found = await self._store().list_messages(
            check_id(thread_id, "thread_id"), owner=owner, where=filter, order=direction, offset=offset, limit=limit
        )
        if found is None:
            raise _unknown(thread_id)
        messages, total = found
        return MessagePage(
            messages=messages, total=total, page=page, per_page=limit, has_more=offset + len(messages) < total
        )

    async def delete_messages(self, ids: str | Sequence[str], *, resource_id: str, thread_id: str | None = None) -> int:
        """Delete messages by their ids; ids that the resource does not have are passed over.

        Args:
            ids: one id, or several.
            resource_id: who owns the messages.
            thread_id: the thread to delete from; in every thread of the resource when left out.

        Returns:
            How many messages were deleted.

        Raises:
            InputError: an argument cannot be used.
            StorageError: the store cannot be written.
        """
        owner = check_id(resource_id, "resource_id")
        if thread_id is not None:
            check_id(thread_id, "thread_id")
        wanted = [ids] if isinstance(ids, str) else list(ids)
        for id_ in wanted:
            check_id(id_, "A message id")
        return await self._store().delete_messages(wanted, owner=owner, thread_id=thread_id)

    async def load(self, thread_id: str, *, resource_id: str, limit: int | None = None) -> tuple[Message, ...]:
        """Return what a run remembers: the newest messages of a thread, in the order of the conversation.

        Args:
            thread_id: the thread; one that is not there yet has no messages.
            resource_id: who owns it.
            limit: how many messages; ``last_messages`` when left out.

        Raises:
            InputError: an argument cannot be used.
            StorageError: the store cannot be read.
        """
        owner = check_id(resource_id, "resource_id")
        check_id(thread_id, "thread_id")
        count = self._last_messages if limit is None else check_last_messages(limit)
        if not count:
            return ()
        return await self._store().last_messages(thread_id, owner=owner, limit=count)

    async def save_turn(
        self, messages: Sequence[Message], *, thread: str | Mapping[str, JsonValue], resource_id: str
    ) -> Thread:
        """Create or touch a thread and save a turn's messages in it, in one transaction.

        With ``last_messages=False`` the thread is kept, and the messages are not.

        Args:
            messages: what was said, in order; a message that is saved again under its id is replaced in its place.
            thread: the thread's id, or a mapping with ``id``, ``title`` and ``metadata``.
            resource_id: who owns the thread.

        Returns:
            The thread as it is now.

        Raises:
            InputError: an argument cannot be used.
            StorageError: the store cannot be written; nothing was saved.
        """
        owner = check_id(resource_id, "resource_id")
        thread_id, title, metadata = thread_option(thread)
        for message in messages:
            check_id(message.id, "A message id")
        kept = messages if self._last_messages else ()
        return await self._store().save(thread_id, kept, owner=owner, at=utc_now(), title=title, metadata=metadata)

    async def aclose(self) -> None:
        """Close the storage, unless it was handed in; what was saved in it stays readable."""
        if self._owned:
            await self._storage.aclose()

    async def __aenter__(self) -> Self:
        if self._owned:
            await self._storage.__aenter__()
            self._used = True
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.aclose()

    def _store(self) -> MemoryStore:
        self._used = True
        return self._storage.memory


def _checked(messages: MessagesInput) -> tuple[Message, ...]:
    if isinstance(messages, Sequence) and not messages:
        return ()
    checked = normalize(messages)
    for message in checked:
        check_id(message.id, "A message id")
    return checked


def _check_choice(value: object, choices: Sequence[str], name: str) -> None:
    if value not in choices:
        raise InputError(f"{name} is {value!r}; the choices are {' and '.join(choices)}.")


def _unknown(thread_id: str) -> NotFound:
    return NotFound(
        f"There is no thread {thread_id!r}. Create it first, or look for its id among the resource's threads."
    )
