"""The storage port: what every adapter offers.

Each method that touches somebody's data takes ``owner``, keyword only and without a default. Ids are keyed per owner:
an id of another owner is an unknown id, so there is nothing to compare, and nothing to give away.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, Protocol, Self, TypedDict

from bascule.messages import JsonObject, Message

__all__ = ["DateRange", "MemoryStore", "MessageFilter", "Order", "Storage", "Thread", "ThreadOrder"]

Order = Literal["asc", "desc"]

ThreadOrder = Literal["created_at", "updated_at"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Thread:
    """A conversation.

    Attributes:
        id: unique within its resource.
        resource_id: who owns it; never changes.
        title: a name to show, empty until there is one.
        metadata: the app's own entries, kept untouched.
        created_at: when it was created, in UTC.
        updated_at: when it or one of its messages last changed, in UTC.
    """

    id: str
    resource_id: str
    title: str
    metadata: JsonObject
    created_at: datetime
    updated_at: datetime


class DateRange(TypedDict, total=False):
    """A span of time, both ends included; an end that is left out is open.

    Attributes:
        start: the earliest moment, with a time zone.
        end: the latest moment, with a time zone.
    """

    start: datetime
    end: datetime


class MessageFilter(TypedDict, total=False):
    """Which messages to return; several conditions must all hold.

    Attributes:
        metadata: entries that a message's metadata must have. Values are strings, numbers, booleans or ``None``, which
            matches an explicit null only. Keys are a letter or underscore, then letters, digits and underscores, at
            most 128 characters.
        date_range: when the message was created.
    """

    metadata: Mapping[str, str | int | float | bool | None]
    date_range: DateRange


class MemoryStore(Protocol):
    """Threads and their messages."""

    async def save(
        self,
        thread_id: str,
        messages: Sequence[Message],
        *,
        owner: str,
        at: datetime,
        title: str | None = None,
        metadata: JsonObject | None = None,
    ) -> Thread:
        """Create the thread or touch it, and save messages in it, all in one transaction.

        A message whose id is already in the thread keeps its place and its moment; its role, content and metadata
        are replaced.

        Args:
            thread_id: the thread.
            messages: what to save, in order; may be empty.
            owner: whose thread it is.
            at: the present moment.
            title: a new title, ``None`` to keep the one it has.
            metadata: entries to add to the thread's, key by key.

        Raises:
            StorageError: nothing was saved.
        """
        ...

    async def append(self, thread_id: str, messages: Sequence[Message], *, owner: str, at: datetime) -> bool:
        """Save messages in a thread that exists; as ``save``, but ``False`` when there is no such thread."""
        ...

    async def get_thread(self, thread_id: str, *, owner: str) -> Thread | None:
        """Return a thread."""
        ...

    async def list_threads(
        self,
        *,
        owner: str,
        metadata: Mapping[str, str | int | float | bool | None] | None = None,
        order_by: ThreadOrder = "created_at",
        order: Order = "desc",
        offset: int = 0,
        limit: int | None = None,
    ) -> tuple[tuple[Thread, ...], int]:
        """Return some of the owner's threads and how many match in all."""
        ...

    async def update_thread(
        self,
        thread_id: str,
        *,
        owner: str,
        at: datetime,
        title: str | None = None,
        metadata: JsonObject | None = None,
    ) -> Thread | None:
        """Change the title, add metadata key by key; ``None`` when there is no such thread."""
        ...

    async def delete_thread(self, thread_id: str, *, owner: str) -> bool:
        """Delete a thread with its messages; ``False`` when there is no such thread."""
        ...

    async def last_messages(self, thread_id: str, *, owner: str, limit: int) -> tuple[Message, ...]:
        """Return the newest messages in chronological order; none when there is no such thread."""
        ...

    async def list_messages(
        self,
        thread_id: str,
        *,
        owner: str,
        where: MessageFilter | None = None,
        order: Order = "asc",
        offset: int = 0,
        limit: int | None = None,
    ) -> tuple[tuple[Message, ...], int] | None:
        """Return some of a thread's messages and how many match in all; ``None`` when there is no such thread."""
        ...

    async def delete_messages(self, ids: Sequence[str], *, owner: str, thread_id: str | None = None) -> int:
        """Delete the owner's messages with these ids, in one thread or in all; returns how many there were."""
        ...


class Storage(Protocol):
    """A place where things are kept; opens on first use.

    ``async with storage:`` opens it at once and closes it at the end.
    """

    @property
    def durable(self) -> bool:
        """Whether what is saved outlives the process."""
        ...

    @property
    def memory(self) -> MemoryStore:
        """Threads and messages."""
        ...

    async def aclose(self) -> None:
        """Write what is waiting, then close; a closed storage refuses further use until it is entered again."""
        ...

    async def __aenter__(self) -> Self: ...

    async def __aexit__(self, *exc_info: object) -> None: ...
