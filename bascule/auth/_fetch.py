"""Reads a small document from another server without being led astray.

Only ``https``, or ``http`` to this machine. Redirects are not followed. The name is resolved once, every address is
checked, and the connection goes to the checked address, so that a name cannot point elsewhere between check and use.
"""

import ipaddress
import socket
from collections.abc import AsyncIterator, Mapping
from urllib.parse import urlsplit

import anyio

from bascule.auth._addresses import is_loopback, is_public
from bascule.errors import AuthUnavailable, ConfigurationError

__all__ = ["check_url", "fetch_document"]

TIMEOUT = 5.0
MAX_BYTES = 256 * 1024


def check_url(url: str, *, private_network: bool = False) -> str:
    """Return ``url`` when documents may be fetched from it.

    Raises:
        ConfigurationError: not https (http is good for loopback only), with user name, fragment or control characters,
            or an address inside a private network that was not allowed.
    """
    parts = urlsplit(url)
    host = parts.hostname or ""
    if not host or parts.fragment or "@" in parts.netloc or not url.isascii() or not url.isprintable() or " " in url:
        raise ConfigurationError(f"{url!r} is not the URL of a document. Example: https://login.example.org/jwks.json")
    if parts.scheme != "https" and not (parts.scheme == "http" and is_loopback(host)):
        raise ConfigurationError(f"{url!r} is not https. Plain http is accepted for this machine only (127.0.0.1).")
    literal = _is_literal(host)
    if literal and not (private_network or is_loopback(host) or is_public(host)):
        raise ConfigurationError(f"{url!r} is inside a private network. Allow it with private_network=True.")
    return url


def _is_literal(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


async def fetch_document(url: str, *, private_network: bool = False) -> bytes:
    """Return the body of ``url``: at most 256 KiB, within 5 s.

    Raises:
        AuthUnavailable: it cannot be reached, answers otherwise than 200, is too long or too slow.
    """
    try:
        with anyio.fail_after(TIMEOUT):
            return await _fetch(url, private_network=private_network)
    except TimeoutError:
        raise AuthUnavailable(f"{url} did not answer within {TIMEOUT:g} s.") from None


async def _addresses(url: str, *, private_network: bool) -> list[str]:
    parts = urlsplit(url)
    host = parts.hostname or ""
    try:
        found = await anyio.getaddrinfo(host, parts.port or 443, type=socket.SOCK_STREAM)
    except OSError as error:
        raise AuthUnavailable(f"The name of {url} cannot be resolved: {error}.") from error
    addresses = list(dict.fromkeys(str(entry[4][0]) for entry in found))
    for address in addresses:
        good = is_loopback(address) if is_loopback(host) else private_network or is_public(address)
        if not good:
            raise AuthUnavailable(f"{url} resolves to {address}, where nothing is fetched from.")
    return addresses


async def _fetch(url: str, *, private_network: bool) -> bytes:
    import httpx  # heavy, and needed only when keys are fetched

    target = httpx.URL(url)
    host = target.netloc.decode("ascii")
    headers = {"Host": host, "Accept": "application/json", "Accept-Encoding": "identity"}
    last: Exception | None = None
    # HTTPS_PROXY and its like are not read, since a proxy would resolve the name again; SSL_CERT_FILE is.
    trust = httpx.create_ssl_context()
    async with httpx.AsyncClient(verify=trust, trust_env=False, follow_redirects=False, timeout=TIMEOUT) as client:
        for address in await _addresses(url, private_network=private_network):
            try:
                async with client.stream(
                    "GET",
                    target.copy_with(host=address),
                    headers=headers,
                    extensions={"sni_hostname": target.host},
                ) as response:
                    return await _body(url, response.status_code, response.headers, response.aiter_raw())
            except httpx.ConnectError as error:
                last = error
            except httpx.HTTPError as error:
                raise AuthUnavailable(f"{url} failed: {type(error).__name__}.") from error
    raise AuthUnavailable(f"{url} cannot be reached: {_why(last)}.") from last


def _why(error: BaseException | None) -> str:
    """Return the first text in a chain of errors; on trio, the outer ones have none."""
    text = ""
    while error is not None and not text:
        text, error = str(error), error.__cause__ or error.__context__
    return text or "no reason given"


async def _body(url: str, status: int, headers: Mapping[str, str], chunks: AsyncIterator[bytes]) -> bytes:
    if status != 200:
        hint = " Redirects are not followed: configure the final URL." if 300 <= status < 400 else ""
        raise AuthUnavailable(f"{url} answered with status {status}.{hint}")
    if headers.get("content-encoding", "identity").lower() != "identity":
        raise AuthUnavailable(f"{url} answered with a compressed document, which was not asked for.")
    body = bytearray()
    # Cancelled from within, the next read ends inside httpx, which then closes what it has open.
    with anyio.CancelScope() as reading:
        async for chunk in chunks:
            body += chunk
            if len(body) > MAX_BYTES:
                reading.cancel()
    if len(body) > MAX_BYTES:
        raise AuthUnavailable(f"{url} answered with more than {MAX_BYTES} bytes.")
    return bytes(body)
