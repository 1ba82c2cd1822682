"""The words of ASGI, and small answers in it."""

import json
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, TypeAlias

__all__ = ["STOPPING", "ASGIApp", "Message", "Receive", "Scope", "Send", "answer", "header", "local_path"]

# Any: ASGI leaves the values of a scope and of a message open, and every framework types them so.
Scope: TypeAlias = MutableMapping[str, Any]
Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
ASGIApp: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]

STOPPING = "bascule.stopping"
"""The key of an ASGI scope under which lies the ``CancelToken`` that is set when the server stops."""


async def answer(send: Send, status: int, body: object = None, *headers: tuple[bytes, bytes]) -> None:
    """Send a whole response; ``body`` becomes JSON unless it is text."""
    content = body.encode() if isinstance(body, str) else b"" if body is None else json.dumps(body).encode()
    kind = b"text/plain; charset=utf-8" if isinstance(body, str) else b"application/json"
    described = [(b"content-type", kind), (b"content-length", str(len(content)).encode()), *headers]
    await send({"type": "http.response.start", "status": status, "headers": described})
    await send({"type": "http.response.body", "body": content, "more_body": False})


def header(scope: Scope, name: bytes) -> str | None:
    """Return the first value of a header, whose name is given in lower case."""
    return next((value.decode("latin-1").strip(" \t") for key, value in scope["headers"] if key == name), None)


def local_path(scope: Scope) -> str:
    """Return the path below the place where the app is mounted, whether or not ``path`` contains that place."""
    path: str = scope["path"]
    root: str = scope.get("root_path", "").rstrip("/")
    if root and path.startswith(root) and path[len(root) : len(root) + 1] in ("", "/"):
        return path[len(root) :]
    return path
