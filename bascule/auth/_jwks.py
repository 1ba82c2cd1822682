"""Keys that live at a URL and change.

One fetch at a time, whoever asks. Keys are trusted for ``ttl`` seconds. A token with an unknown ``kid`` may cause a
fetch earlier, but not within ``cooldown`` seconds of the last one, so that tokens with invented ids cost nothing. When
the source fails, the last known keys stay good for ``stale`` seconds, and the next attempt waits ``retry`` seconds.
"""

import logging
from collections.abc import Awaitable, Callable, Sequence

import anyio

from bascule.auth._json import strict_object
from bascule.auth._keys import KeySet, VerifyKey, keys_of_set
from bascule.errors import AuthUnavailable

__all__ = ["Fetch", "RemoteKeys"]

logger = logging.getLogger(__name__)

Fetch = Callable[[str], Awaitable[bytes]]
"""Returns the body of a URL, or raises ``AuthUnavailable``."""

NEVER = float("-inf")


class RemoteKeys:
    """The JWK set behind a URL.

    Args:
        url: where the set is.
        algorithms: which signatures are accepted.
        fetch: reads the document.
        ttl: seconds for which fetched keys are trusted.
        cooldown: least seconds between two fetches that unknown key ids cause.
        stale: seconds for which the last known keys are used while the source fails.
        retry: seconds between two attempts while the source fails.
    """

    def __init__(
        self,
        url: str,
        *,
        algorithms: Sequence[str],
        fetch: Fetch,
        ttl: float = 300.0,
        cooldown: float = 30.0,
        stale: float = 86400.0,
        retry: float = 5.0,
    ) -> None:
        self._url = url
        self._algorithms = tuple(algorithms)
        self._fetch = fetch
        self._ttl, self._cooldown, self._stale, self._retry = ttl, cooldown, stale, retry
        self._keys: KeySet | None = None
        self._fetched_at = NEVER
        self._failed_at = NEVER
        self._attempts = 0
        self._failure: AuthUnavailable | None = None
        self._fetching: anyio.Event | None = None

    @property
    def trusted_until(self) -> float:
        """The time (seconds since the epoch) up to which the keys need no fetch."""
        return self._fetched_at + self._ttl

    async def find(self, kid: str | None, algorithm: str, now: float) -> VerifyKey | None:
        """Return the key for a token header, ``None`` when the set has none.

        Raises:
            AuthUnavailable: no keys are known and they cannot be fetched now.
        """
        keys = await self._current(now)
        found = keys.find(kid, algorithm)
        if found is None and kid is not None and self._may_look_again(now):
            keys = await self._refresh(now)
            found = keys.find(kid, algorithm)
        return found

    def _may_look_again(self, now: float) -> bool:
        last = max(self._fetched_at, self._failed_at)
        return not last <= now < last + self._cooldown

    async def _current(self, now: float) -> KeySet:
        # A clock that was set back makes fetched keys look new for ever: fetched in the future counts as old.
        if self._keys is not None and self._fetched_at <= now < self.trusted_until:
            return self._keys
        if self._failure is not None and self._failed_at <= now < self._failed_at + self._retry:
            return self._last_known(now)
        return await self._refresh(now)

    def _last_known(self, now: float) -> KeySet:
        if self._keys is not None and self._fetched_at <= now < self._fetched_at + self._stale:
            return self._keys
        raise AuthUnavailable(str(self._failure))

    async def _refresh(self, now: float) -> KeySet:
        """Fetch, or wait for the fetch that is under way and use its result."""
        while self._fetching is not None:
            before = self._attempts
            await self._fetching.wait()
            if self._attempts != before:  # else the one who fetched was cancelled
                return self._result(now)
        self._fetching = done = anyio.Event()
        try:
            document = strict_object(await self._fetch(self._url))
            self._keys = keys_of_set(document, self._algorithms)
            self._fetched_at, self._failure = now, None
            self._attempts += 1
        except (AuthUnavailable, ValueError, OSError) as error:
            self._failed_at = now
            self._failure = AuthUnavailable(f"The keys at {self._url} cannot be read: {error}")
            self._attempts += 1
            logger.warning("%s", self._failure)
        finally:
            self._fetching = None
            done.set()
        return self._result(now)

    def _result(self, now: float) -> KeySet:
        if self._keys is not None and self._failure is None:
            return self._keys
        return self._last_known(now)
