"""Keeps web pages of strangers from talking to a server on this machine.

A page may resolve its own name to 127.0.0.1 and then send requests here; they carry the page's name as ``Host`` and as
``Origin``. So a server that is reached over the loopback interface answers to loopback names only, and every server
answers requests of its own pages, of pages on this machine, and of the origins that were named.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from bascule.auth import is_loopback
from bascule.errors import SettingInvalid
from bascule.mcp_server._answers import ASGIApp, Receive, Scope, Send, answer, header, local_path

__all__ = ["Guard", "Guarded", "host_name"]

LOOPBACK = ("localhost", "127.0.0.1", "[::1]")
LONGEST_HOST = 300  # a name has 253 characters at most

_HOST = re.compile(r"(\[[0-9a-z:.%]+\]|[^:\[\]]*)(?::[0-9]*)?")  # RFC 9110 section 7.2, RFC 3986 section 3.2.2


@dataclass(frozen=True, slots=True)
class Guard:
    """Which names a server answers to, and whose pages may call it.

    Attributes:
        hosts: accepted hosts; ``None`` for loopback names on the loopback interface, and any elsewhere.
        origins: accepted origins beside the server's own and those of this machine.
    """

    hosts: tuple[str, ...] | None = None
    origins: tuple[str, ...] = ()

    @classmethod
    def of(cls, hosts: Iterable[str] | None, origins: Iterable[str] | None) -> "Guard":
        """Return the guard for settings as users write them.

        Args:
            hosts: names such as ``api.example.org``, ``*.example.org``, ``localhost:8000`` (this port only) or ``*``.
            origins: origins such as ``https://app.example.org``, or ``*``.

        Raises:
            SettingInvalid: an origin that is a URL with a path, or a host that is a URL.
        """
        for host in hosts or ():
            if "/" in host:
                raise SettingInvalid(f"The allowed host {host!r} is not a host name; write it without scheme and path.")
        for origin in origins or ():
            if origin != "*" and ("://" not in origin or urlsplit(origin).path):
                raise SettingInvalid(f"The allowed origin {origin!r} is not of the form scheme://host[:port].")
        lowered = None if hosts is None else tuple(host.lower() for host in hosts)
        return cls(lowered, tuple(origin.lower() for origin in origins or ()))

    def refusal(self, *, host: str | None, origin: str | None, address: str | None) -> tuple[int, str] | None:
        """Return status and text for a request that is not let in, else ``None``.

        Args:
            host: the ``Host`` header.
            origin: the ``Origin`` header.
            address: the server's own address on which the request arrived.
        """
        allowed = self.hosts if self.hosts is not None else LOOPBACK if is_loopback(address or "") else ("*",)
        given = (host or "").lower()[:LONGEST_HOST]
        if not _matches(given, allowed):
            return 421, f"This server does not answer to the host {given[:100]!r}; name it in allowed_hosts."
        if origin is not None and not self._knows(origin.lower(), given):
            return 403, f"Pages of {origin[:100]!r} may not call this server; name it in allowed_origins."
        return None

    def _knows(self, origin: str, host: str) -> bool:
        if origin in self.origins or "*" in self.origins:
            return True
        try:
            place = urlsplit(origin[:LONGEST_HOST]).netloc
        except ValueError:  # such as http://[
            return False
        return place == host or is_loopback(host_name(place))


class Guarded:
    """An ASGI app behind a guard.

    Args:
        app: the app.
        guard: whom to let in.
        open_paths: local paths that everyone may ask for, such as health checks.
    """

    def __init__(self, app: ASGIApp, guard: Guard, *, open_paths: Sequence[str] = ()) -> None:
        self._app = app
        self._guard = guard
        self._open = tuple(open_paths)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one ASGI scope."""
        if scope["type"] == "http" and local_path(scope) not in self._open:
            if sum(name == b"host" for name, _ in scope["headers"]) > 1:  # RFC 9112 section 3.2
                await answer(send, 400, "A request has one Host header.")
                return
            server = scope.get("server")
            refusal = self._guard.refusal(
                host=header(scope, b"host"), origin=header(scope, b"origin"), address=server[0] if server else None
            )
            if refusal is not None:
                await answer(send, *refusal)
                return
        await self._app(scope, receive, send)


def host_name(host: str) -> str:
    """Return a ``Host`` header, or the host and port of a URL, without the port; what is neither stays as it is."""
    found = _HOST.fullmatch(host)
    return host if found is None else found[1].rstrip(".")


def _matches(host: str, allowed: Iterable[str]) -> bool:
    name = host_name(host)
    for entry in allowed:
        if entry == "*" or entry in (host, name):
            return True
        if entry.endswith(":*") and entry[:-2] == name:
            return True
        if entry.startswith("*.") and name.endswith(entry[1:]) and name != entry[1:]:
            return True
    return False
