"""Takes the token out of a request (RFC 6750 section 2.1): the ``Authorization`` header, and nothing else."""

import re
from collections.abc import Sequence

from bascule.auth._reasons import refuse

__all__ = ["bearer_token", "check_form"]

_B64TOKEN = re.compile(rb"[A-Za-z0-9\-._~+/]+=*")
_PLACEHOLDER = re.compile(rb"\$\w|\$\{|\{\{|\{\w+\}|<[^>]*>|%\w+%|\[\w+\]")


def bearer_token(values: Sequence[bytes]) -> bytes:
    """Return the token in the ``Authorization`` headers of a request; its form is not checked yet.

    Raises:
        TokenInvalid: there is none, another scheme, or more than one header.
    """
    if not values:
        raise refuse("no_token", "Send an access token: Authorization: Bearer TOKEN.")
    if len(values) > 1:
        raise refuse("malformed", "The request has more than one Authorization header.")
    scheme, _, token = values[0].partition(b" ")
    if scheme.lower() != b"bearer":
        raise refuse("unsupported_scheme", "Send an access token: Authorization: Bearer TOKEN.")
    return token.strip(b" ")


def check_form(token: bytes) -> str:
    """Return a token whose characters may occur in one.

    Raises:
        TokenInvalid: it is empty, has other characters, or is a placeholder that a client's configuration left in.
    """
    if _B64TOKEN.fullmatch(token):
        return token.decode("ascii")
    if _PLACEHOLDER.search(token):
        raise refuse(
            "unexpanded_placeholder",
            "The token looks like a placeholder that was not replaced. Set the variable where the client is started.",
        )
    raise refuse("malformed", "The token is empty, or has characters that no token has. Send: Bearer TOKEN.")
