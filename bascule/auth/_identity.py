"""Owner keys: who something belongs to, whatever the client says.

The id of a principal is a digest over kind, issuer and subject, each preceded by its length, so that no two different
triples give the same input: two issuers that know the same subject, or a machine whose client id looks like a person's
subject, are different owners.
"""

import hashlib
from typing import Literal

from bascule.context import Principal, current_context
from bascule.errors import AuthError

__all__ = ["Mismatch", "current_principal", "owner_of", "principal_id", "resolve_resource_id"]

Mismatch = Literal["replace", "refuse"]
"""What happens to a client's resource id that is not the principal's."""


def principal_id(kind: Literal["user", "client", "key"], issuer: str, subject: str) -> str:
    """Return the stable owner key of an identity, such as ``user_`` and 40 hexadecimal digits.

    The same kind, issuer and subject always give the same key; issuer and subject are taken byte for byte.
    """
    digest = hashlib.sha256()
    for part in (kind, issuer, subject):
        data = part.encode("utf-8")
        digest.update(len(data).to_bytes(8, "big"))
        digest.update(data)
    return f"{kind}_{digest.hexdigest()[:40]}"


def owner_of(principal: Principal) -> str:
    """Return the key under which things of this principal are stored."""
    return principal.id


def resolve_resource_id(
    principal: Principal, requested: str | None, *, on_mismatch: Mismatch = "replace"
) -> str | None:
    """Return the resource id to work with, given the one that the client asked for.

    A verified principal works on its own data only. Without a verified identity (a server without auth, stdio, the
    command line) the requested id is kept.

    Args:
        principal: who asks.
        requested: the id in the request, ``None`` when there is none.
        on_mismatch: ``"replace"`` a foreign id by the principal's own, or ``"refuse"`` the request.

    Raises:
        AuthError: ``on_mismatch`` is ``"refuse"`` and the id is another's (HTTP 403).
    """
    if not principal.verified:
        return requested
    own = owner_of(principal)
    if on_mismatch == "refuse" and requested not in (None, "", own):
        raise AuthError("The resource id in the request is not yours. Leave it out: it is taken from your identity.")
    return own


def current_principal() -> Principal | None:
    """Return who asks, inside a request, a tool, an agent or a workflow; ``None`` outside of them."""
    context = current_context()
    return None if context is None else context.principal
