"""What a client is told when it may not pass: status, challenge and body (RFC 6750 section 3, RFC 9728 section 5.1)."""

import json
import logging
import re
from collections.abc import Iterable
from dataclasses import dataclass
from uuid import uuid4

from bascule.auth._asgi import Receive, Scope, Send, local_path
from bascule.auth._resources import Resource
from bascule.errors import AuthError, AuthUnavailable, ScopeMissing, TokenInvalid

__all__ = ["RESOURCE_KEY", "Refusal", "logged_refusal", "refusal", "refusal_for"]

logger = logging.getLogger("bascule.auth")

RESOURCE_KEY = "bascule.resource"
RETRY_AFTER = 5
DESCRIPTION_LIMIT = 300
POLICY_VIOLATION = 1008  # WebSocket close code, RFC 6455 section 7.4.1

_NOT_QUOTABLE = re.compile(r"[^\x20\x21\x23-\x5b\x5d-\x7e]")  # error_description, RFC 6750 section 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """An answer that refuses a request. It is an ASGI app.

    Attributes:
        status: 401, 403 or 503.
        reason: a short code for logs.
        headers: header fields, names in lower case.
        body: JSON with ``error``, ``error_description`` and, when it is known, ``request_id``.
    """

    status: int
    reason: str
    headers: tuple[tuple[bytes, bytes], ...]
    body: bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the answer to an HTTP request or a WebSocket handshake."""
        prefix = "http.response"
        if scope["type"] == "websocket":
            if "websocket.http.response" not in scope.get("extensions", {}):
                await send({"type": "websocket.close", "code": POLICY_VIOLATION, "reason": self.reason})
                return
            prefix = "websocket.http.response"
        await send({"type": f"{prefix}.start", "status": self.status, "headers": list(self.headers)})
        body = b"" if scope.get("method") == "HEAD" else self.body
        await send({"type": f"{prefix}.body", "body": body})


def refusal(scope: Scope, error: AuthError) -> Refusal:
    """Return the answer for an auth error that was found behind the auth layer, such as a missing scope.

    Use it before the response has started: ``await refusal(scope, error)(scope, receive, send)``.
    """
    found: object = scope.get(RESOURCE_KEY)
    return logged_refusal(scope, error, found if isinstance(found, Resource) else None)


def logged_refusal(scope: Scope, error: AuthError, resource: Resource | None) -> Refusal:
    """Return the answer for an error at a resource, with an id under which the log has it too."""
    request_id = uuid4().hex
    answer = refusal_for(error, resource, request_id=request_id)
    # A request without a token is how clients begin; everything else is worth a look.
    usual = isinstance(error, TokenInvalid) and error.reason == "no_token"
    logger.log(
        logging.INFO if usual else logging.WARNING,
        "request refused: status=%d reason=%s method=%s path=%r client=%s request_id=%s detail=%r",
        answer.status,
        answer.reason,
        scope.get("method", "WEBSOCKET"),
        local_path(scope),
        (scope.get("client") or ("unknown",))[0],
        request_id,
        str(error),
    )
    return answer


def refusal_for(error: AuthError, resource: Resource | None, *, request_id: str = "") -> Refusal:
    """Return the answer for an error at a resource."""
    base = resource.scopes if resource else ()
    if isinstance(error, AuthUnavailable):
        # The message names the key source, which is of no use to a client and of some to an attacker.
        text = "The token cannot be checked now. Try again later."
        extra = [(b"retry-after", str(RETRY_AFTER).encode())]
        return _made(503, "unavailable", "temporarily_unavailable", text, extra, request_id)
    if isinstance(error, ScopeMissing):
        parts = {"error": "insufficient_scope", "error_description": str(error)[:DESCRIPTION_LIMIT]}
        challenge = _challenge(parts, dict.fromkeys((*base, *error.scopes)), resource)
        return _made(403, "insufficient_scope", "insufficient_scope", str(error), [challenge], request_id)
    if isinstance(error, TokenInvalid):
        text = f"{error.reason}: {error}"
        if error.reason in ("no_token", "unsupported_scheme"):
            # Without a token of the right kind, the client is told what to bring, and not that it was wrong.
            return _made(401, error.reason, "unauthorized", text, [_challenge({}, base, resource)], request_id)
        parts = {"error": "invalid_token", "error_description": text[:DESCRIPTION_LIMIT]}
        return _made(401, error.reason, "invalid_token", text, [_challenge(parts, base, resource)], request_id)
    return _made(403, "access_denied", "access_denied", str(error), [], request_id)


def _quotable(text: str) -> str:
    return _NOT_QUOTABLE.sub("'", text)


def _challenge(parts: dict[str, str], scopes: Iterable[str], resource: Resource | None) -> tuple[bytes, bytes]:
    named = dict(parts)
    if scope := " ".join(scopes):
        named["scope"] = scope
    if resource is not None:
        named["resource_metadata"] = resource.metadata_url
    text = ", ".join(f'{name}="{_quotable(value)}"' for name, value in named.items())
    return b"www-authenticate", f"Bearer {text}".rstrip().encode("ascii")


def _made(
    status: int, reason: str, code: str, text: str, extra: Iterable[tuple[bytes, bytes]], request_id: str
) -> Refusal:
    fields = {"error": code, "error_description": text[:DESCRIPTION_LIMIT]}
    headers = [*extra, (b"content-type", b"application/json"), (b"cache-control", b"no-store")]
    if request_id:
        fields["request_id"] = request_id
        headers.append((b"x-request-id", request_id.encode("ascii")))
    body = json.dumps(fields).encode("utf-8")
    headers.append((b"content-length", str(len(body)).encode("ascii")))
    return Refusal(status=status, reason=reason, headers=tuple(headers), body=body)
