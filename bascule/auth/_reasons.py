"""Why a request was refused: one closed list of codes for clients, logs and documentation."""

from typing import Literal, TypeAlias, get_args

from bascule.errors import TokenInvalid

__all__ = ["REASONS", "Reason", "refuse"]

Reason: TypeAlias = Literal[
    "no_token",
    "unsupported_scheme",
    "malformed",
    "unexpanded_placeholder",
    "token_too_large",
    "algorithm_not_allowed",
    "wrong_type",
    "critical_header",
    "key_not_found",
    "bad_signature",
    "missing_claim",
    "invalid_claim",
    "expired",
    "not_yet_valid",
    "issued_in_future",
    "wrong_issuer",
    "wrong_audience",
    "proof_of_possession_required",
    "not_local",
    "not_accepted",
    "verifier_error",
]

REASONS: tuple[str, ...] = get_args(Reason)
"""Every reason code that a 401 answer can carry."""


def refuse(reason: Reason, message: str) -> TokenInvalid:
    """Return the error for a token that is not accepted; ``message`` never contains the token."""
    return TokenInvalid(message, reason=reason)
