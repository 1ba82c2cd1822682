"""What callers may hand to a memory; beyond this edge the types are trusted."""

from collections.abc import Mapping
from typing import Literal, cast

from bascule.errors import InputError
from bascule.messages import JsonObject

__all__ = ["MAX_ID", "MAX_TITLE", "check_id", "check_metadata", "check_title", "page_bounds", "thread_option"]

MAX_ID = 1024
"""Characters of an id of a thread, resource or message."""

MAX_TITLE = 10_000
"""Characters of a thread's title."""


def check_id(value: object, name: str) -> str:
    """Return ``value`` if it can be an id.

    Args:
        value: what the caller gave.
        name: the argument, for the message.

    Raises:
        InputError: it is no text, empty, too long, or not valid Unicode.
    """
    if not isinstance(value, str):
        raise InputError(f"{name} is {type(value).__name__}; it must be a text.")
    if not value:
        raise InputError(f"{name} is empty; give the id of one.")
    if len(value) > MAX_ID:
        raise InputError(f"{name} has {len(value)} characters; at most {MAX_ID} are allowed.")
    if "\0" in value or not _valid(value):
        raise InputError(f"{name} is {value!r}; an id has no NUL and no lone surrogate.")
    return value


def check_title(value: object) -> str:
    """Return ``value`` as a title; what is no valid Unicode in it is replaced.

    Raises:
        InputError: it is no text, or too long.
    """
    if not isinstance(value, str):
        raise InputError(f"The title is {type(value).__name__}; it must be a text.")
    if len(value) > MAX_TITLE:
        raise InputError(f"The title has {len(value)} characters; at most {MAX_TITLE} are allowed.")
    # A model that is cut off in the middle of an emoji must not cost the user the conversation.
    return value if _valid(value) else value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def check_metadata(value: object) -> JsonObject:
    """Return ``value`` if it can be metadata; whether all of it is JSON shows when it is stored.

    Raises:
        InputError: it is no mapping from texts.
    """
    return _mapping(value, "The metadata is")


def thread_option(thread: object) -> tuple[str, str | None, JsonObject | None]:
    """Return id, title and metadata of a thread that was given by its id or as a mapping.

    A title or metadata that is left out, or empty, keeps what the thread has.

    Raises:
        InputError: it is neither, or a mapping without an id.
    """
    if isinstance(thread, str):
        return check_id(thread, "The thread id"), None, None
    given = _mapping(thread, "The thread is")
    unknown = sorted(set(given) - {"id", "title", "metadata"})
    if unknown:
        raise InputError(f"The thread has the unknown entry {unknown[0]!r}; the entries are id, title and metadata.")
    title, metadata = given.get("title"), given.get("metadata")
    return (
        check_id(given.get("id"), "The thread id"),
        check_title(title) if title else None,
        check_metadata(metadata) if metadata else None,
    )


def page_bounds(page: object, per_page: object) -> tuple[int, int | None]:
    """Return offset and limit of a page.

    Raises:
        InputError: the page is negative, or a page of less than one entry is asked for.
    """
    if not isinstance(page, int) or isinstance(page, bool) or page < 0:
        raise InputError(f"page is {page!r}; it counts from 0.")
    if per_page is None or per_page is False:
        if page:
            raise InputError(f"page is {page}, but without per_page there is only page 0.")
        return 0, None
    if not isinstance(per_page, int) or per_page is True or per_page < 1:
        raise InputError(f"per_page is {per_page!r}; it must be at least 1, or False for everything.")
    if page * per_page >= 2**63:
        raise InputError(f"page is {page}; there are not that many.")
    return page * per_page, per_page


def check_last_messages(value: object) -> int | Literal[False]:
    """Return ``value`` if it is a number of messages, or ``False``.

    Raises:
        InputError: it is negative, or no number.
    """
    if value is False or (isinstance(value, int) and value is not True and value >= 0):
        return min(value, 2**62) or False
    raise InputError(f"last_messages is {value!r}; it must be a number of messages, or False for no history.")


def _mapping(value: object, what: str) -> JsonObject:
    if not isinstance(value, Mapping):
        raise InputError(f"{what} {type(value).__name__}; it must be a mapping.")
    given = cast("Mapping[object, object]", value)
    odd = next((key for key in given if not isinstance(key, str)), None)
    if odd is not None:
        raise InputError(f"{what} a mapping with the key {odd!r}; all keys must be texts.")
    return cast("JsonObject", given)


def _valid(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True
