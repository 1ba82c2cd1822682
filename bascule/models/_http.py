"""What an HTTP adapter needs around its interface: addresses, headers, retries, clients."""

import importlib
import random
import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, urlsplit, urlunsplit
from urllib.request import getproxies

import anyio.to_thread

from bascule.errors import ConfigurationError, ModelError

if TYPE_CHECKING:  # for the checkers only: both are heavy and loaded by the first call
    import ssl

    import httpx

__all__ = ["api_url", "client_maker", "header_value", "is_local", "retry_delay", "secrets_of", "tls_context"]

_LONGEST_BACKOFF = 8.0
_LONGEST_WAIT = 60.0
_DOUBLINGS = 16
_KEPT = 20  # idle connections of a client
_SECRET_NAMES = ("key", "auth", "token", "secret", "cookie")
_SHORTEST_SECRET = 4
_LOCAL = ("127.0.0.1", "localhost", "::1")
_tls: list["ssl.SSLContext"] = []  # one for the process: reading the certificates takes longer than a call


def api_url(base_url: str, path: str) -> str:
    """Return the address of an interface under a base URL that may name it already; a query is kept.

    Raises:
        ConfigurationError: the base URL is no http address.
    """
    refused = ConfigurationError(
        f"The base URL {base_url.rpartition('@')[2]!r} is no http(s) address. Write one such as http://host:8000/v1."
    )
    try:
        parts = urlsplit(base_url.strip())
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.port == 0:
            raise refused
    except ValueError as error:
        raise refused from error
    base = parts.path.rstrip("/")
    whole = base if base.endswith(path) else base + path
    return urlunsplit((parts.scheme, parts.netloc, whole, parts.query, ""))


def header_value(name: str, value: str) -> str:
    """Return a header's value without surrounding space.

    Raises:
        ConfigurationError: it cannot be sent; the message does not show it.
    """
    value = value.strip()
    if not (value.isascii() and (value.isprintable() or not value)):
        raise ConfigurationError(
            f"The value of {name!r} holds characters that cannot be sent in a header. Check it for line breaks and "
            "typographic characters."
        )
    return value


def secrets_of(key: str, headers: Mapping[str, str], url: str) -> tuple[str, ...]:
    """Return every text that must not be shown, the longest first."""
    parts = urlsplit(url)
    found = [key, parts.password or ""]
    for name, value in (*headers.items(), *parse_qsl(parts.query)):
        if any(word in name.lower() for word in _SECRET_NAMES):
            found += [value, value.rpartition(" ")[2]]
    return tuple(sorted({text for text in found if len(text) >= _SHORTEST_SECRET}, key=len, reverse=True))


def retry_delay(
    attempt: int,
    error: ModelError,
    *,
    max_retries: int,
    backoff: float,
    chance: Callable[[], float] = random.random,
) -> float | None:
    """Return the seconds to wait before a call is repeated, ``None`` when it is not.

    Args:
        attempt: how many repetitions there were.
        error: why the call failed.
        max_retries: how many repetitions are allowed.
        backoff: seconds before the first repetition; doubled for each further one, up to 8, and jittered by half.
        chance: a number from 0 to 1.
    """
    if attempt >= max_retries or not error.retryable:
        return None
    if error.retry_after is not None:
        return error.retry_after if error.retry_after <= _LONGEST_WAIT else None
    return min(_LONGEST_BACKOFF, backoff * 2.0 ** min(attempt, _DOUBLINGS)) * (0.5 + chance() / 2)


def is_local(url: str) -> bool:
    """Whether an address is this machine's own, which no proxy can reach."""
    return urlsplit(url).hostname in _LOCAL


async def tls_context() -> "ssl.SSLContext":
    """Return the TLS settings of all connections; reads the certificates in a thread the first time."""
    if not _tls:
        await anyio.to_thread.run_sync(_load)
    return _tls[0]


async def client_maker() -> "Callable[[str], httpx.AsyncClient]":
    """Return the function that makes an HTTP client for an address; loads httpx in a thread the first time."""
    if not _tls or "httpx" not in sys.modules:
        await anyio.to_thread.run_sync(_load)
    return _make_client


def _load() -> None:
    import httpx  # heavy; loaded by the first call

    importlib.import_module("bascule.models._transport")  # stands on httpx
    if not _tls:
        _tls.append(httpx.create_ssl_context())


def _make_client(url: str) -> "httpx.AsyncClient":
    import httpx  # heavy; loaded by the first call

    from bascule.models._transport import JoiningTransport  # noqa: PLC0415  # stands on httpx

    if is_local(url) or not getproxies():
        return httpx.AsyncClient(transport=JoiningTransport(_tls[0], max_keepalive=_KEPT), trust_env=False)
    return httpx.AsyncClient(verify=_tls[0], limits=httpx.Limits(max_connections=None, max_keepalive_connections=_KEPT))
