"""What `doctor --remote` looks at: the steps that a client takes to a server, one finding each."""

import json
import re
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import IO, Any, cast
from urllib.parse import urlsplit, urlunsplit

import anyio.to_thread

from bascule.cli._findings import ERAS, Finding
from bascule.cli._remote import connected
from bascule.errors import BasculeError
from bascule.mcp_server._client import offer_of

__all__ = ["remote_findings"]

_WAIT = 15
_MOST = 1 << 20
_METADATA = re.compile(r'resource_metadata="([^"]+)"')
_KNOCK = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "ping"}).encode()
_KNOCK_HEADERS = {"content-type": "application/json", "accept": "application/json, text/event-stream"}


@dataclass(frozen=True, slots=True)
class _Answer:
    status: int
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    body: bytes = b""
    error: str = ""

    def json(self) -> dict[str, Any] | None:
        """Return the document, if there is one."""
        if self.status != 200:
            return None
        try:
            found: object = json.loads(self.body)
        except ValueError:
            return None
        return cast("dict[str, Any]", found) if isinstance(found, dict) else None


async def remote_findings(url: str, token: str | None) -> AsyncIterator[Finding]:
    """Look at a server: health, the way in, what guards it, both protocol eras."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        yield Finding("failed", f"{url!r} is no address. Write it as http://127.0.0.1:8000/mcp")
        return
    health = urlunsplit(parts._replace(path=f"{parts.path.removesuffix('/').removesuffix('/mcp')}/healthz", query=""))
    answer = await _fetch(health)
    if answer.status == 0:
        yield Finding("failed", f"{health} cannot be reached: {answer.error}. Check the address, and that it is served")
        return
    if answer.status == 200:
        yield Finding("ok", f"{health} answers")
    else:
        yield Finding(
            "failed", f"{health} answers with status {answer.status}. Check the prefix, and the proxy's routes"
        )
    knock = await _fetch(url, method="POST", headers=_KNOCK_HEADERS, body=_KNOCK)
    if 300 <= knock.status < 400:
        place = knock.headers.get("location", "elsewhere")
        yield Finding("failed", f"{url} sends clients to {place}; they do not follow. Use that address")
        return
    if knock.status == 401:
        async for finding in _guard(url, knock.headers.get("www-authenticate", "")):
            yield finding
        if token is None:
            yield Finding("note", "what is behind the guard was not looked at. Give a token with --token")
            return
    elif knock.status in (404, 405):
        yield Finding("failed", f"{url} is no MCP server (status {knock.status}). Bascule's path is /mcp")
        return
    else:
        yield Finding("ok", f"{url} is open to everyone")
    async for finding in _eras(url, token):
        yield finding


async def _eras(url: str, token: str | None) -> AsyncIterator[Finding]:
    for era, label in ERAS:
        try:
            async with connected(url, token=token, era=era) as client:
                offer = await offer_of(client)
        except BasculeError as error:
            yield Finding("failed", f"MCP {label}: {error}")
        else:
            yield Finding("ok", f"MCP {label}: {offer.name} {offer.version} with {len(offer.tools)} tools")


async def _guard(url: str, challenge: str) -> AsyncIterator[Finding]:
    """Follow the chain from the challenge to the keys, as a client does that logs in."""
    named = _METADATA.search(challenge)
    if named is None:
        yield Finding("failed", f"the challenge names no resource_metadata: {challenge or 'there is none'}")
        return
    answer = await _fetch(named[1])
    document = answer.json()
    if document is None:
        yield Finding("failed", f"{named[1]} answers with {answer.status or answer.error}. Route /.well-known too")
        return
    if document.get("resource") != url:
        what = document.get("resource")
        yield Finding("failed", f"the metadata is about {what!r}, and clients compare it with {url!r}. Set --base-url")
    else:
        yield Finding("ok", f"{named[1]} describes {url}")
    servers = cast("list[object]", document.get("authorization_servers") or [])
    if not servers:
        yield Finding("note", "no authorization server is named; people give their clients a token by hand")
    for issuer in servers:
        yield await _issuer(str(issuer))


async def _issuer(issuer: str) -> Finding:
    for address in _metadata_addresses(issuer):
        document = (await _fetch(address)).json()
        if document is None:
            continue
        if document.get("issuer") != issuer:
            return Finding("failed", f"{address} names the issuer {document.get('issuer')!r}, not {issuer!r}")
        keys = (await _fetch(str(document.get("jwks_uri", "")))).json()
        if keys is None or not keys.get("keys"):
            return Finding("failed", f"{address} names no keys that can be read: {document.get('jwks_uri')!r}")
        return Finding("ok", f"{issuer} describes itself, and has {len(keys['keys'])} keys")
    return Finding("failed", f"{issuer} has no metadata document where clients look for it")


def _metadata_addresses(issuer: str) -> Iterator[str]:
    """Return where RFC 8414 and OpenID Connect Discovery put the document."""
    parts = urlsplit(issuer)
    path = parts.path.rstrip("/")
    for name in ("oauth-authorization-server", "openid-configuration"):
        yield urlunsplit((parts.scheme, parts.netloc, f"/.well-known/{name}{path}", "", ""))
    yield urlunsplit((parts.scheme, parts.netloc, f"{path}/.well-known/openid-configuration", "", ""))


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: object, newurl: str
    ) -> None:
        """Follow nothing: clients do not."""


async def _fetch(
    url: str, *, method: str = "GET", headers: Mapping[str, str] | None = None, body: bytes | None = None
) -> _Answer:
    return await anyio.to_thread.run_sync(_fetch_now, url, method, dict(headers or {}), body)


def _fetch_now(url: str, method: str, headers: dict[str, str], body: bytes | None) -> _Answer:
    handlers: list[urllib.request.BaseHandler] = [_NoRedirect()]
    try:
        if urlsplit(url).hostname in ("127.0.0.1", "localhost", "::1"):
            handlers.append(urllib.request.ProxyHandler({}))
        request = urllib.request.Request(url, body, headers, method=method)
        with urllib.request.build_opener(*handlers).open(request, timeout=_WAIT) as answer:
            return _Answer(answer.status, _lowered(answer.headers.items()), answer.read(_MOST))
    except urllib.error.HTTPError as error:
        with error:
            return _Answer(error.code, _lowered(error.headers.items()), error.read(_MOST))
    except (OSError, ValueError) as error:
        reason = error.reason if isinstance(error, urllib.error.URLError) else error
        return _Answer(0, error=str(reason))


def _lowered(headers: Iterable[tuple[str, str]]) -> dict[str, str]:
    return {name.lower(): value for name, value in headers}
