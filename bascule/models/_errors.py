"""What an HTTP status says about a failed model call."""

from typing import Literal, TypeAlias

__all__ = ["ErrorKind", "kind_of_status"]

ErrorKind: TypeAlias = Literal[
    "auth", "rate_limit", "bad_request", "not_found", "server", "connection", "timeout", "protocol", "other"
]

_KINDS: dict[int, ErrorKind] = {
    400: "bad_request",
    401: "auth",
    403: "auth",
    404: "not_found",
    408: "timeout",
    409: "server",  # a conflict inside the server: the same call may succeed later
    413: "bad_request",
    422: "bad_request",
    429: "rate_limit",
}


def kind_of_status(status: int) -> ErrorKind:
    """Return the kind of ``ModelError`` that an HTTP status stands for."""
    if status >= 500:
        return "server"
    return _KINDS.get(status, "other")
