"""The words of ASGI, and where this layer leaves what it found out."""

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, TypeAlias

from bascule.context import ANONYMOUS, Principal

__all__ = ["PRINCIPAL_KEY", "ASGIApp", "Receive", "Scope", "Send", "header_values", "local_path", "principal_of"]

# Any: ASGI leaves the values of a scope and of a message open, and every framework types them so.
Scope: TypeAlias = MutableMapping[str, Any]
Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
ASGIApp: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]

PRINCIPAL_KEY = "bascule.principal"
"""The key of an ASGI scope under which the verified ``Principal`` lies."""


def principal_of(scope: Scope) -> Principal:
    """Return who sent the request of this scope; ``ANONYMOUS`` when no auth layer stands before it."""
    found: object = scope.get(PRINCIPAL_KEY)
    return found if isinstance(found, Principal) else ANONYMOUS


def local_path(scope: Scope) -> str:
    """Return the path below the place where the app is mounted.

    Servers and frameworks disagree whether ``path`` contains ``root_path``; it is taken off when it is there. The rule
    is the one by which Starlette routes: a guard that saw another path than the router could be walked around.
    """
    path: str = scope["path"]
    root: str = scope.get("root_path", "")
    if root and path.startswith(root) and path[len(root) : len(root) + 1] in ("", "/"):
        return path[len(root) :]
    return path


def header_values(scope: Scope, name: bytes) -> list[bytes]:
    """Return every value of a header, which is given in lower case."""
    return [value for key, value in scope["headers"] if key == name]
