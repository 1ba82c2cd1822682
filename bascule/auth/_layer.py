"""The guard in front of an ASGI app: one pass over the scope, before the body is read.

Order: metadata documents and preflights, which are for everyone; public paths; then the token. What is left is deny:
a path that nobody declared public needs a token, whether a route exists for it or not.
"""

from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass

from bascule.auth._asgi import PRINCIPAL_KEY, ASGIApp, Message, Receive, Scope, Send, local_path
from bascule.auth._cors import cors_headers, is_preflight, preflight_headers
from bascule.auth._refusal import RESOURCE_KEY, logged_refusal
from bascule.auth._resources import WELL_KNOWN, Resource, ResourceFinder, ResourceMap
from bascule.context import ANONYMOUS, Principal
from bascule.errors import AuthError

__all__ = ["Layer", "LayerSettings"]

Identify = Callable[[Scope, Resource], Awaitable[Principal]]
Headers = list[tuple[bytes, bytes]]

# Where clients look for an authorization server. They take 401 for "there is one, but not for you".
DISCOVERY = ("/.well-known/oauth-authorization-server", "/.well-known/openid-configuration")


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerSettings:
    """What the guard needs to know, besides how to identify."""

    resources: ResourceFinder
    public: Collection[tuple[str, str]]
    cors_origins: Collection[str]
    authorization_servers: Sequence[str]
    scopes_supported: Sequence[str]
    resource_name: str


class Layer:
    """An ASGI app that lets verified requests through to another one."""

    def __init__(self, app: ASGIApp, identify: Identify, settings: LayerSettings) -> None:
        self._app = app
        self._identify = identify
        self._settings = settings

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one ASGI scope."""
        kind = scope["type"]
        if kind == "lifespan":
            await self._app(scope, receive, send)
            return
        if kind not in ("http", "websocket"):
            raise ValueError(f"ASGI scope type {kind!r} is not known, so nobody can be identified in it.")
        path = local_path(scope)
        if kind == "http":
            if await self._answer_everyone(scope, path, send):
                return
            if self._settings.cors_origins:
                send = _with_headers(send, cors_headers(scope, self._settings.cors_origins))
        await self._pass_or_refuse(scope, path, receive, send)

    async def _pass_or_refuse(self, scope: Scope, path: str, receive: Receive, send: Send) -> None:
        resource = self._settings.resources.under(scope).at(path)
        started = False

        async def watched(message: Message) -> None:
            nonlocal started
            started = True
            await send(message)

        try:
            principal = ANONYMOUS if self._is_public(scope, path) else await self._identify(scope, resource)
            await self._app({**scope, PRINCIPAL_KEY: principal, RESOURCE_KEY: resource}, receive, watched)
        except AuthError as error:
            # From the check above, or from the app (a scope that only it knows is needed).
            if started:
                raise
            await logged_refusal(scope, error, resource)(scope, receive, send)

    def _is_public(self, scope: Scope, path: str) -> bool:
        public = self._settings.public
        return ("", path) in public or (scope.get("method", ""), path) in public

    async def _answer_everyone(self, scope: Scope, path: str, send: Send) -> bool:
        """Answer what is asked before there is a token; return whether that was the case."""
        if path.startswith("/.well-known/"):
            return await self._well_known(scope, path, send)
        if is_preflight(scope):
            await _answer(send, 204, preflight_headers(scope, self._settings.cors_origins))
            return True
        return False

    async def _well_known(self, scope: Scope, path: str, send: Send) -> bool:
        resources: ResourceMap = self._settings.resources.under(scope)
        ours = path == WELL_KNOWN or path.startswith(f"{WELL_KNOWN}/")
        resource = resources.described_at(path) if ours else None
        if not ours and not path.startswith(DISCOVERY):
            return False
        if is_preflight(scope):
            await _answer(send, 204, preflight_headers(scope, ("*",)))
        elif resource is None:
            await _answer(send, 404, cors_headers(scope, ("*",)), b'{"error": "not_found"}')
        elif scope["method"] not in ("GET", "HEAD"):
            await _answer(send, 405, [(b"allow", b"GET, HEAD, OPTIONS")], b'{"error": "method_not_allowed"}')
        else:
            body = resources.document(
                resource,
                servers=self._settings.authorization_servers,
                scopes=self._settings.scopes_supported,
                name=self._settings.resource_name,
            )
            headers = [(b"cache-control", b"public, max-age=300"), *cors_headers(scope, ("*",))]
            await _answer(send, 200, headers, body, head=scope["method"] == "HEAD")
        return True


def _with_headers(send: Send, headers: Headers) -> Send:
    """Return a ``send`` that adds headers to the response, except those that it has."""
    if not headers:
        return send

    async def adding(message: Message) -> None:
        if message["type"] == "http.response.start":
            own: Headers = list(message.get("headers", ()))
            present = {name.lower() for name, _ in own}
            added = [(name, value) for name, value in headers if name == b"vary" or name not in present]
            message = {**message, "headers": [*own, *added]}
        await send(message)

    return adding


async def _answer(send: Send, status: int, headers: Headers, body: bytes = b"", *, head: bool = False) -> None:
    described = [*headers, (b"content-length", str(len(body)).encode("ascii"))] if status != 204 else list(headers)
    if body:
        described.append((b"content-type", b"application/json"))
    await send({"type": "http.response.start", "status": status, "headers": described})
    await send({"type": "http.response.body", "body": b"" if head else body})
