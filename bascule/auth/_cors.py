"""Cross-origin requests of browsers (the Fetch standard), decided before any token is looked at.

A browser asks first, without a token, whether it may send one. Cookies are not used, so credentials mode is never
allowed, and ``*`` is harmless where a token has to be sent by hand.
"""

from collections.abc import Collection

from bascule.auth._asgi import Scope, header_values

__all__ = ["cors_headers", "is_preflight", "preflight_headers"]

Headers = list[tuple[bytes, bytes]]

METHODS = b"GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS"
EXPOSED = b"WWW-Authenticate, Mcp-Session-Id, X-Request-Id, Retry-After"
MAX_AGE = b"600"


def is_preflight(scope: Scope) -> bool:
    """Return whether a browser asks if it may send the real request."""
    return (
        scope.get("method") == "OPTIONS"
        and bool(header_values(scope, b"origin"))
        and bool(header_values(scope, b"access-control-request-method"))
    )


def cors_headers(scope: Scope, origins: Collection[str]) -> Headers:
    """Return the headers that let a page of an allowed origin read the answer; none for other pages."""
    sent = header_values(scope, b"origin")
    if not sent or not origins:
        return []
    if "*" in origins:
        return [(b"access-control-allow-origin", b"*"), (b"access-control-expose-headers", EXPOSED)]
    if len(sent) != 1 or sent[0].decode("latin-1") not in origins:
        return [(b"vary", b"Origin")]
    return [
        (b"access-control-allow-origin", sent[0]),
        (b"access-control-expose-headers", EXPOSED),
        (b"vary", b"Origin"),
    ]


def preflight_headers(scope: Scope, origins: Collection[str]) -> Headers:
    """Return the answer to a preflight; without allow headers for an origin that is not allowed."""
    headers = cors_headers(scope, origins)
    if any(name == b"access-control-allow-origin" for name, _ in headers):
        asked = b", ".join(header_values(scope, b"access-control-request-headers"))
        headers.append((b"access-control-allow-methods", METHODS))
        headers.append((b"access-control-allow-headers", asked or b"Authorization, Content-Type"))
        headers.append((b"access-control-max-age", MAX_AGE))
    return headers
