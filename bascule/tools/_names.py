"""Names that every MCP client and every model accepts."""

import re

from bascule.errors import NameInvalid

__all__ = ["MAX_NAME", "check_name", "safe_name"]

MAX_NAME = 64
"""Longest tool name that Claude, OpenAI and the editors take, the client's own prefix included."""

_GOOD = re.compile(r"[A-Za-z0-9_-]{1,64}\Z")
_BAD = re.compile(r"[^A-Za-z0-9_-]+")


def check_name(name: str, *, what: str = "tool", room: int = 0) -> str:
    """Return ``name`` when clients accept it.

    Args:
        name: the name to check.
        what: what is named, for the error text.
        room: characters that clients put in front of it, such as ``mcp__server__``.

    Raises:
        NameInvalid: it has other characters than letters, digits, ``_`` and ``-``, or is too long.
    """
    if not name or not _GOOD.match(name[:MAX_NAME]):
        raise NameInvalid(
            f"The {what} name {name!r} has characters that MCP clients refuse. Use letters, digits, '_' and '-', "
            f"for example {safe_name(name)!r}."
        )
    if len(name) + room > MAX_NAME:
        limit = MAX_NAME - room
        prefix = f" (clients put {room} characters in front of it)" if room else ""
        raise NameInvalid(
            f"The {what} name {name!r} has {len(name)} characters; at most {limit} are accepted{prefix}. "
            f"Use a shorter one, for example {name[:limit].rstrip('_-')!r}."
        )
    return name


def safe_name(text: str) -> str:
    """Return ``text`` with every character that clients refuse replaced, at most 64 characters long."""
    return _BAD.sub("_", text).strip("_")[:MAX_NAME] or "unnamed"
