"""Pages of threads and messages."""

from dataclasses import dataclass

from bascule.messages import Message
from bascule.storage import Thread

__all__ = ["MessagePage", "ThreadPage"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MessagePage:
    """Some messages of a thread.

    Attributes:
        messages: the messages of this page, in the order that was asked for.
        total: how many match on all pages.
        page: which page this is, from 0.
        per_page: how many messages a page has at most; ``None`` when everything is on one page.
        has_more: whether there is another page.
    """

    messages: tuple[Message, ...]
    total: int
    page: int
    per_page: int | None
    has_more: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadPage:
    """Some threads of a resource.

    Attributes:
        threads: the threads of this page, in the order that was asked for.
        total: how many match on all pages.
        page: which page this is, from 0.
        per_page: how many threads a page has at most; ``None`` when everything is on one page.
        has_more: whether there is another page.
    """

    threads: tuple[Thread, ...]
    total: int
    page: int
    per_page: int | None
    has_more: bool
