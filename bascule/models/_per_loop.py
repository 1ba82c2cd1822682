"""Resources that belong to one event loop, such as connections."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any, Generic, NamedTuple, Protocol, TypeVar
from weakref import WeakKeyDictionary

from anyio.lowlevel import RunVar

__all__ = ["PerLoop"]


class _Closable(Protocol):
    async def aclose(self) -> None: ...


T = TypeVar("T", bound=_Closable)


class PerLoop(Generic[T]):
    """One resource in each event loop, made when it is first wanted.

    It is closed by ``aclose``, else when this object is gone or the loop ends. It must not hold this object's owner,
    which would keep both alive.
    """

    def __init__(
        self, make: Callable[[], Awaitable[T]], *, at_end: Callable[[T], Awaitable[None]] | None = None
    ) -> None:
        """Keep the functions; nothing is opened.

        Args:
            make: makes the resource.
            at_end: closes it when the loop ends, for one whose ``aclose`` does not work there any more.
        """
        self._make = make
        self._at_end = at_end

    async def get(self) -> T:
        """Return the resource of the running event loop."""
        opened = _opened()
        if self not in opened:
            made = await self._make()
            if self in opened:  # another task may have been faster
                await made.aclose()
            else:
                holder = _hold(made, self._at_end)
                opened[self] = _Held(await anext(holder), holder)
        resource: T = opened[self].resource
        return resource

    async def aclose(self) -> None:
        """Close the resource of the running event loop; the next ``get`` makes another one."""
        held = _opened().pop(self, None)
        if held is not None:
            try:
                await held.resource.aclose()
            finally:
                await held.holder.aclose()


class _Held(NamedTuple):
    resource: Any  # the dictionary below holds resources of every kind
    holder: AsyncGenerator[Any, None]


async def _hold(resource: T, at_end: Callable[[T], Awaitable[None]] | None) -> AsyncGenerator[T, None]:
    """Keep a resource until ``aclose``; an event loop closes the async generators that are left when it ends."""
    try:
        yield resource
    finally:
        await (resource.aclose() if at_end is None else at_end(resource))


_resources: RunVar["WeakKeyDictionary[PerLoop[Any], _Held]"] = RunVar("bascule_model_resources")


def _opened() -> "WeakKeyDictionary[PerLoop[Any], _Held]":
    """Return what is open in the running event loop."""
    try:
        return _resources.get()
    except LookupError:
        opened: WeakKeyDictionary[PerLoop[Any], _Held] = WeakKeyDictionary()
        _resources.set(opened)
        return opened
