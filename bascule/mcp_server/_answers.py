"""The words of ASGI, and small answers in it."""

import json
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, TypeAlias

__all__ = ["STOPPING", "ASGIApp", "Message", "Receive", "Response", "Scope", "Send", "answer", "header", "local_path"]

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


class Response:
    """Passes a response on and remembers how far it has come.

    Args:
        send: where to.
    """

    def __init__(self, send: Send) -> None:
        self._send = send
        self._begun = self._ended = False

    async def send(self, message: Message) -> None:
        """Pass a message on."""
        if message["type"] == "http.response.start":
            self._begun = True
        elif message["type"] == "http.response.body" and not message.get("more_body", False):
            self._ended = True
        await self._send(message)

    async def end(self) -> None:
        """Complete a response that was begun, so that the client sees the end of a stream and not a torn one."""
        if self._begun and not self._ended:
            await self.send({"type": "http.response.body", "body": b"", "more_body": False})

    async def cut(self) -> None:
        """Answer, or complete the answer to, a request that took too long."""
        if not self._begun:
            await answer(self.send, 503, {"error": "stopping", "message": "The server stopped during the request."})
        await self.end()
