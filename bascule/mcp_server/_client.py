"""A client for looking at MCP servers, ours and anybody's: the SDK's own, with errors that say what to do."""

import io
import math
import os
import re
import tempfile
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, cast

import anyio
from pydantic import BaseModel

from bascule.errors import AuthUnavailable, BasculeError, ConfigurationError, InputError, ScopeMissing, TokenInvalid
from bascule.messages import JsonObject

if TYPE_CHECKING:
    from mcp import Client
    from mcp.client._transport import Transport

__all__ = ["Connection", "Era", "Offer", "StdioCommand", "Target", "connect", "offer_of"]

Connection: TypeAlias = "Client"
"""The SDK's client; its methods are the protocol's requests."""

Era: TypeAlias = Literal["auto", "legacy", "2026-07-28"]
"""``legacy`` greets with initialize, ``2026-07-28`` does without; ``auto`` finds out what the server knows."""

_TAIL = 2000
_MOST_PAGES = 1000
_DESCRIPTION = re.compile(r'error_description="((?:[^"\\]|\\.)*)"')


@dataclass(frozen=True, slots=True, kw_only=True)
class StdioCommand:
    """A server that is started and spoken to over its stdin and stdout.

    Attributes:
        command: the program.
        args: its arguments.
        env: what its environment has beside home, search path and the like.
        cwd: where it is started.
    """

    command: str
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    cwd: Path | None = None

    def __str__(self) -> str:
        return " ".join((self.command, *self.args))


Target: TypeAlias = str | StdioCommand
"""The URL of a server, or the command that starts one."""


class _Response(Protocol):
    """What is looked at in an answer of the SDK's HTTP client, whose door is elsewhere."""

    @property
    def status_code(self) -> int: ...

    @property
    def headers(self) -> Mapping[str, str]: ...


@dataclass(slots=True)
class _Seen:
    """What the transport let pass, for error texts."""

    status: int | None = None
    challenge: str = ""


@asynccontextmanager
async def connect(
    target: Target,
    token: str | None = None,
    *,
    era: Era = "auto",
    timeout: float = 30,
    stderr: IO[bytes] | None = None,
) -> "AsyncGenerator[Client]":
    """Connect to a server; what goes wrong inside the block is raised as an error of ours too.

    Args:
        target: the server's URL, or the command that starts it.
        token: a bearer token.
        era: which protocol to speak.
        timeout: seconds in which the server has to answer the first request.
        stderr: an open file that a started server's stderr goes to; by default it is seen in error texts only.

    Raises:
        ConfigurationError: the server cannot be reached or started, ended, or did not answer in time.
        TokenInvalid: it wants a token, or another one.
        ScopeMissing: the token does not allow it.
        InputError: it answered a request with an error.
    """
    from mcp import Client, Implementation  # heavy

    seen = _Seen()
    mode = "legacy" if era == "legacy" else "auto"
    info = Implementation(name="bascule", version=version("bascule"))
    with tempfile.TemporaryFile() as log:
        stderr = stderr or log
        try:
            # The scope stands outside of everything that the client opens, and ends the handshake only.
            with anyio.CancelScope(deadline=anyio.current_time() + timeout) as handshake:
                async with (
                    _transport(target, token, seen, stderr) as transport,
                    Client(transport, mode=mode, client_info=info, cache=None) as client,
                ):
                    handshake.deadline = math.inf
                    if era not in ("auto", "legacy", client.protocol_version):
                        # Pinning the version would leave out the question what the server can do.
                        raise ConfigurationError(f"{target} speaks MCP {client.protocol_version} only, not {era}.")
                    yield client
            if handshake.cancelled_caught:
                raise TimeoutError(f"no answer within {timeout:g} s")
        except Exception as error:
            ours = _ours(error, target, seen, _tail(stderr))
            if ours is None:
                raise
            raise ours from error


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """What a server offers; the entries are in the protocol's spelling."""

    name: str
    version: str
    protocol_version: str
    instructions: str | None
    tools: Sequence[JsonObject]
    prompts: Sequence[JsonObject]
    resources: Sequence[JsonObject]
    templates: Sequence[JsonObject]


async def offer_of(client: "Client") -> Offer:
    """Ask a server for all that it offers, page by page."""
    able = client.server_capabilities
    info = client.server_info
    return Offer(
        name=info.name if info else "",
        version=info.version if info else "",
        protocol_version=client.protocol_version,
        instructions=client.instructions,
        tools=await _pages(client.list_tools, "tools") if able.tools else [],
        prompts=await _pages(client.list_prompts, "prompts") if able.prompts else [],
        resources=await _pages(client.list_resources, "resources") if able.resources else [],
        templates=await _pages(client.list_resource_templates, "resourceTemplates") if able.resources else [],
    )


async def _pages(fetch: Callable[..., Awaitable[BaseModel]], key: str) -> list[JsonObject]:
    found: list[JsonObject] = []
    cursor: str | None = None
    for _ in range(_MOST_PAGES):
        page: dict[str, Any] = (await fetch(cursor=cursor)).model_dump(by_alias=True, exclude_none=True, mode="json")
        found += page[key]
        cursor = page.get("nextCursor")
        if cursor is None:
            return found
    raise InputError(f"The server's list of {key} has no end after {_MOST_PAGES} pages.")


@asynccontextmanager
async def _transport(target: Target, token: str | None, seen: _Seen, stderr: IO[bytes]) -> "AsyncGenerator[Transport]":
    """Open what the client speaks through; the client itself starts the exchange."""
    if isinstance(target, StdioCommand):
        from mcp.client.stdio import StdioServerParameters, stdio_client  # heavy

        parameters = StdioServerParameters(
            command=target.command, args=list(target.args), env=dict(target.env), cwd=target.cwd
        )
        with io.TextIOWrapper(os.fdopen(os.dup(stderr.fileno()), "wb")) as text:
            yield stdio_client(parameters, errlog=text)
        return
    from mcp.client.streamable_http import streamable_http_client  # heavy
    from mcp.shared._httpx_utils import create_mcp_http_client  # heavy

    async with create_mcp_http_client(_headers(token)) as http:

        async def look(response: _Response) -> None:
            if response.status_code >= 400:
                seen.status = response.status_code
                seen.challenge = response.headers.get("www-authenticate", "")

        http.event_hooks = {"response": [look]}
        yield streamable_http_client(target, http_client=http)


def _headers(token: str | None) -> dict[str, str] | None:
    if token is None:
        return None
    if not token.isascii() or not token.isprintable() or " " in token:
        raise InputError("The token has characters that no token has. Give it as one word, without 'Bearer'.")
    return {"authorization": f"Bearer {token}"}


def _tail(stderr: IO[bytes]) -> str:
    """Return the last lines that a started server wrote."""
    size = os.fstat(stderr.fileno()).st_size
    return os.pread(stderr.fileno(), _TAIL, max(0, size - _TAIL)).decode("utf-8", "replace").strip()


def _ours(error: Exception, target: Target, seen: _Seen, tail: str) -> BasculeError | None:
    """Return the error that says what happened; None when it is none of the connection's."""
    from mcp import MCPError  # heavy

    leaves = list(_leaves(error))
    for leaf in leaves:
        if isinstance(leaf, BasculeError):
            return leaf
    for leaf in leaves:
        if isinstance(leaf, MCPError | TimeoutError):
            return _unanswered(leaf, target, seen, tail)
        if isinstance(leaf, OSError) and isinstance(target, StdioCommand):
            return ConfigurationError(f"{target.command!r} cannot be started: {leaf.strerror}. Check the command.")
        if type(leaf).__module__.startswith("httpx2"):  # its door is elsewhere
            what = str(leaf).rstrip(".") or type(leaf).__name__
            return ConfigurationError(f"{target} cannot be reached: {what}. Check the address, and that it is served.")
    return None


def _leaves(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for inner in cast("BaseExceptionGroup[BaseException]", error).exceptions:  # the class alone says nothing
            yield from _leaves(inner)
    else:
        yield error


def _unanswered(error: Exception, target: Target, seen: _Seen, tail: str) -> BasculeError:
    if seen.status is not None:
        refused = _refused(target, seen.status, seen.challenge)
        if refused is not None:
            return refused
    if isinstance(target, StdioCommand) and (isinstance(error, TimeoutError) or "closed" in str(error).lower()):
        what = "did not answer in time" if isinstance(error, TimeoutError) else "ended before it answered"
        said = f" It wrote:\n{tail}" if tail else " It wrote nothing to stderr."
        return ConfigurationError(f"The command {str(target)!r} {what}.{said}")
    if isinstance(error, TimeoutError):
        return ConfigurationError(f"{target} did not answer in time. Check that an MCP server listens there.")
    return InputError(f"The server answers: {error}")


def _described(challenge: str) -> str:
    """Return what a challenge says in words; what it names beside that is for programs."""
    found = _DESCRIPTION.search(challenge)
    return found[1] if found else challenge or "it does not say why."


def _refused(target: Target, status: int, challenge: str) -> BasculeError | None:
    if status == 401 and "error=" not in challenge:
        return TokenInvalid(f"{target} wants a token. Give one with --token TOKEN.", reason="no_token")
    if status == 401:
        return TokenInvalid(f"{target} does not accept the token: {_described(challenge)}", reason="not_accepted")
    if status == 403:
        return ScopeMissing(f"{target} does not allow this: {_described(challenge)}", scopes=())
    if status == 503:
        return AuthUnavailable(f"{target} cannot answer now (status 503). Try again later.")
    if status in {404, 405, 501}:
        return ConfigurationError(f"{target} is no MCP server (status {status}). Check the path; Bascule's is /mcp.")
    if status >= 500:
        return ConfigurationError(f"{target} failed with status {status}. Its log says why.")
    return None
