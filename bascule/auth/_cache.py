"""Remembers which tokens were verified. Refusals are not remembered."""

from collections.abc import Hashable

from bascule.context import Principal

__all__ = ["TokenCache"]


class TokenCache:
    """A bounded memory of principals; the oldest entry makes room for a new one.

    Args:
        ttl: most seconds that an entry is used; 0 turns the cache off.
        size: most entries.
    """

    __slots__ = ("_entries", "_size", "_ttl")

    def __init__(self, *, ttl: float, size: int) -> None:
        self._ttl = ttl
        self._size = size
        self._entries: dict[Hashable, tuple[float, float, Principal]] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: Hashable, now: float) -> Principal | None:
        """Return the principal of an entry that is still good. A clock that was set back ends it, too."""
        entry = self._entries.get(key)
        if entry is None:
            return None
        if entry[0] <= now < entry[1]:
            return entry[2]
        del self._entries[key]
        return None

    def put(self, key: Hashable, principal: Principal, *, now: float, until: float) -> None:
        """Remember a principal, until ``until`` (seconds since the epoch) at most."""
        until = min(until, now + self._ttl)
        if until <= now or self._size <= 0:
            return
        self._entries.pop(key, None)
        while len(self._entries) >= self._size:
            del self._entries[next(iter(self._entries))]
        self._entries[key] = (now, until, principal)

    def clear(self) -> None:
        """Forget everything."""
        self._entries.clear()
