"""Who asks, for whom, and whether they still want the answer.

One ``RequestContext`` travels from the edge (MCP, HTTP, command line, schedule) to every tool, agent, workflow and
ACP session that a request reaches.
"""

from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from os import urandom
from typing import Literal

import anyio

__all__ = [
    "ANONYMOUS",
    "LOCAL",
    "CancelToken",
    "Principal",
    "RequestContext",
    "current_context",
    "missing_scopes",
    "use_context",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    """A verified identity.

    Attributes:
        id: the owner key of everything stored for this identity; unique over all providers.
        kind: ``user``, ``client`` (a machine), ``key`` (an API key), ``local`` (the person at this machine: stdio and
            command line), ``anonymous`` (a server without auth).
        provider: name of the auth provider that verified it.
        issuer: token issuer, as configured, never normalised.
        subject: the token's subject.
        client_id: the OAuth client that acts for the subject.
        scopes: granted scopes.
        roles: granted roles.
        claims: the verified token's claims.
        expires_at: seconds since the epoch, ``None`` when it does not expire.
    """

    id: str
    kind: Literal["user", "client", "key", "local", "anonymous"] = "user"
    provider: str = ""
    issuer: str = ""
    subject: str = ""
    client_id: str = ""
    scopes: frozenset[str] = frozenset()
    roles: frozenset[str] = frozenset()
    claims: Mapping[str, object] = field(default_factory=dict[str, object], repr=False)
    expires_at: float | None = None

    @property
    def verified(self) -> bool:
        """Whether an auth provider vouches for this identity."""
        return self.kind in ("user", "client", "key")


def missing_scopes(granted: frozenset[str], needed: Iterable[str]) -> tuple[str, ...]:
    """Return the needed scopes that are not granted.

    A broad scope includes the narrow ones below it: ``agents:run`` includes ``agents:run:tutor``, ``agents:*`` includes
    everything that starts with ``agents:``, and ``admin:*`` includes all.
    """
    return tuple(scope for scope in needed if not _grants(granted, scope))


def _grants(granted: frozenset[str], needed: str) -> bool:
    if needed in granted or "admin:*" in granted:
        return True
    segments = needed.split(":")
    return any(
        f"{broad}:*" in granted or (count > 1 and broad in granted)
        for count in range(1, len(segments))
        for broad in (":".join(segments[:count]),)
    )


LOCAL = Principal(id="local", kind="local")
"""The person at this machine, over stdio and on the command line."""

ANONYMOUS = Principal(id="anonymous", kind="anonymous")
"""Anyone who reaches a server that runs without auth."""


class CancelToken:
    """Tells a run, its model and its tools to stop. Set once; not for use across threads."""

    __slots__ = ("_callbacks", "_event", "reason")

    def __init__(self) -> None:
        self.reason: str | None = None
        self._event: anyio.Event | None = None
        self._callbacks: list[Callable[[], None]] | None = []

    @property
    def cancelled(self) -> bool:
        """Whether ``cancel`` was called."""
        return self._callbacks is None

    def cancel(self, reason: str | None = None) -> None:
        """Ask for the stop; the first reason counts."""
        callbacks, self._callbacks = self._callbacks, None
        if callbacks is None:
            return
        self.reason = reason
        if self._event is not None:
            self._event.set()
        for callback in callbacks:
            callback()

    def on_cancel(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call ``callback`` on cancel, at once when that has happened; returns a function that takes it back."""
        if self._callbacks is None:
            callback()
            return _nothing
        callbacks = self._callbacks
        callbacks.append(callback)

        def remove() -> None:
            if callback in callbacks:
                callbacks.remove(callback)

        return remove

    async def wait(self) -> None:
        """Return as soon as ``cancel`` was called."""
        if self.cancelled:
            return
        if self._event is None:
            self._event = anyio.Event()
        await self._event.wait()


def _nothing() -> None:
    return


def _trace_id() -> str:
    return urandom(16).hex()


@dataclass(slots=True, kw_only=True)
class RequestContext:
    """Identity, ownership and trace of one request, and room for the app's own values.

    Attributes:
        principal: who asks.
        resource_id: the owner of memory that the request works on; taken from the principal when auth is on.
        thread_id: the conversation, when there is one.
        run_id: the run that is being served.
        trace_id: 32 hex digits, shared by everything the request causes.
        values: the app's own entries, handed to tools and subagents.
    """

    principal: Principal = LOCAL
    resource_id: str | None = None
    thread_id: str | None = None
    run_id: str | None = None
    trace_id: str = field(default_factory=_trace_id)
    values: dict[str, object] = field(default_factory=dict[str, object])

    @property
    def owner(self) -> str:
        """The id under which things are stored: the resource id, else the principal's id."""
        return self.resource_id or self.principal.id

    def for_run(self, run_id: str, thread_id: str | None) -> "RequestContext":
        """Return the context of one run of this request; it shares identity, trace and values."""
        return RequestContext(
            principal=self.principal,
            resource_id=self.resource_id,
            thread_id=thread_id,
            run_id=run_id,
            trace_id=self.trace_id,
            values=self.values,
        )

    def get(self, key: str, default: object = None) -> object:
        """Return one of the app's own values."""
        return self.values.get(key, default)


_current: ContextVar[RequestContext | None] = ContextVar("bascule_context", default=None)


def current_context() -> RequestContext | None:
    """Return the context of the request that this task serves, if there is one."""
    return _current.get()


@contextmanager
def use_context(context: RequestContext) -> Generator[RequestContext]:
    """Make ``context`` the current one inside the block."""
    token = _current.set(context)
    try:
        yield context
    finally:
        _current.reset(token)
