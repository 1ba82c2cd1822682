"""Who connects: told once for every client, with the tools that it was shown."""

import hashlib
import logging
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from bascule.context import Principal

__all__ = ["Caller", "ClientSeen", "Clients", "OnClient", "printable"]

logger = logging.getLogger("bascule.mcp")

REMEMBERED = 10_000
LONGEST_NAME = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSeen:
    """A client that began to use the server.

    Attributes:
        name: what it calls itself.
        version: its version.
        protocol_version: the revision of the protocol that it speaks.
        principal: on whose behalf.
        listed: names of the tools that it was shown; ``None`` when it did something else before it listed tools.
    """

    name: str
    version: str
    protocol_version: str
    principal: Principal
    listed: tuple[str, ...] | None = None

    def __str__(self) -> str:
        """One line for a log or a terminal."""
        who = f"{self.name} {self.version}".strip()
        whom = f" as {self.principal.id}" if self.principal.verified else ""
        if self.listed is None:
            return f"{who} connected{whom} ({self.protocol_version})"
        tools = "1 tool" if len(self.listed) == 1 else f"{len(self.listed)} tools"
        names = f": {', '.join(self.listed)}" if self.listed else ""
        return f"{who} connected{whom} ({self.protocol_version}) and listed {tools}{names}"


OnClient: TypeAlias = Callable[[ClientSeen], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """The client behind one request.

    Attributes:
        session: its session, where the protocol has sessions.
    """

    principal: Principal
    session: str
    name: str
    version: str
    protocol_version: str

    @property
    def key(self) -> str:
        """Tells clients apart; a client without session is the same as long as name, version and identity are."""
        parts = (self.session,) if self.session else (self.name, self.version, self.protocol_version, self.principal.id)
        return hashlib.sha256("\0".join(parts).encode(errors="replace")).hexdigest()


def printable(text: str) -> str:
    """Return what a client calls itself, fit for a log line: no control characters or escapes, and not long."""
    return "".join(char for char in text[: 2 * LONGEST_NAME] if char.isprintable())[:LONGEST_NAME].strip()


class Clients:
    """Remembers the clients that were seen, and what each of them set for its session."""

    def __init__(self) -> None:
        self._callbacks: list[OnClient] = []
        self._seen: OrderedDict[str, str | None] = OrderedDict()

    def on_client(self, callback: OnClient) -> None:
        """Call ``callback`` once for every client."""
        self._callbacks.append(callback)

    def saw(self, caller: Caller, listed: Sequence[str] | None = None) -> None:
        """Note a request of a client; the first one is told."""
        if caller.key in self._seen:
            return
        self._remember(caller.key, None)
        seen = ClientSeen(
            name=caller.name,
            version=caller.version,
            protocol_version=caller.protocol_version,
            principal=caller.principal,
            listed=None if listed is None else tuple(listed),
        )
        for callback in self._callbacks:
            try:
                callback(seen)
            except Exception:
                logger.exception("a function given to on_client failed")

    def set_level(self, caller: Caller, level: str) -> None:
        """Note from which level on a client wants log entries."""
        self.saw(caller)
        self._remember(caller.key, level)

    def level_of(self, caller: Caller) -> str | None:
        """Return the level that a client set."""
        return self._seen.get(caller.key)

    def _remember(self, key: str, level: str | None) -> None:
        self._seen[key] = level
        self._seen.move_to_end(key)
        while len(self._seen) > REMEMBERED:
            self._seen.popitem(last=False)
