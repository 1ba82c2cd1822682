"""Reads who asks, and what for, from the SDK's request."""

from collections.abc import Mapping
from typing import Any, TypeAlias

from mcp.server import ServerRequestContext
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS

from bascule.auth import principal_of
from bascule.context import ANONYMOUS, Principal, RequestContext
from bascule.mcp_server._clients import Caller, printable

__all__ = ["Context", "caller_of", "is_modern", "request_context_of", "sdk_user"]

Context: TypeAlias = ServerRequestContext[Any, Any]  # Any: no lifespan state; the request is Starlette's or none

SESSION_HEADER = "mcp-session-id"
UNKNOWN = "unknown client"


def is_modern(context: Context) -> bool:
    """Whether the request speaks a revision without sessions (2026-07-28 and later)."""
    return context.protocol_version not in HANDSHAKE_PROTOCOL_VERSIONS


def caller_of(context: Context) -> Caller:
    """Return the client behind a request.

    A transport that knows who sits at its other end, such as stdio, says so with each message; over HTTP the request
    says it. Without either, the caller is anonymous.
    """
    principal, session = _sender(context.request)
    client = context.session.client_params
    return Caller(
        principal=principal,
        session="" if is_modern(context) else session,
        name=(printable(client.client_info.name) if client else "") or UNKNOWN,
        version=printable(client.client_info.version) if client else "",
        protocol_version=context.protocol_version,
    )


def _sender(request: Any) -> tuple[Principal, str]:  # Any: as in Context
    if request is None:
        return ANONYMOUS, ""
    if isinstance(request, Principal):
        return request, ""
    return principal_of(request.scope), str(request.headers.get(SESSION_HEADER, ""))


def request_context_of(context: Context, principal: Principal) -> RequestContext:
    """Return our context of a request: with a verified identity, everything belongs to that identity."""
    owner = principal.id if principal.verified else None
    trace_id = _trace_id(context.meta)
    if trace_id is None:
        return RequestContext(principal=principal, resource_id=owner)
    return RequestContext(principal=principal, resource_id=owner, trace_id=trace_id)


def _trace_id(meta: Mapping[str, Any] | None) -> str | None:
    """Return the trace id of a W3C ``traceparent``."""
    given = (meta or {}).get("traceparent")
    parts = given.split("-") if isinstance(given, str) else []
    good = len(parts) == 4 and len(parts[1]) == 32 and parts[1].strip("0") != ""
    return parts[1] if good and all(c in "0123456789abcdef" for c in parts[1]) else None


def sdk_user(principal: Principal) -> AuthenticatedUser:
    """Return the SDK's form of a verified identity: it binds sessions to the identity that opened them."""
    return AuthenticatedUser(
        AccessToken(
            token="",  # the SDK compares identities; nothing behind it needs the token
            client_id=principal.client_id or principal.id,
            scopes=sorted(principal.scopes),
            expires_at=None if principal.expires_at is None else int(principal.expires_at),
            subject=principal.id,
            claims={"iss": principal.issuer},
        )
    )
