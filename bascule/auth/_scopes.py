"""Scopes: what an identity may do. A scope is a text of segments with colons; see ``context.missing_scopes``."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from bascule.auth._identity import current_principal
from bascule.auth._reasons import refuse
from bascule.context import Principal, missing_scopes
from bascule.errors import ConfigurationError, ScopeMissing

__all__ = ["BASE_SCOPES", "ScopeCheck", "require_scopes", "scope_names"]

BASE_SCOPES: tuple[str, ...] = ("mcp:read", "mcp:tools", "agents:read", "agents:run")
"""What an ordinary user of a served app has."""

_SCOPE = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]+")  # scope-token, RFC 6749 section 3.3


def scope_names(scopes: Iterable[str], *, where: str) -> tuple[str, ...]:
    """Return the scopes of a configuration, in order and without repetition.

    Raises:
        ConfigurationError: one of them is not a scope, or is ``offline_access``, which says how a client gets its
            tokens and nothing about a resource.
    """
    if isinstance(scopes, str):
        raise ConfigurationError(f"{where} is the text {scopes!r}. Give a list of scopes: {where}={scopes.split()!r}.")
    names = tuple(dict.fromkeys(scopes))
    for name in names:
        if not _SCOPE.fullmatch(name) or name == "offline_access":
            raise ConfigurationError(f"{where} contains {name!r}, which is not a scope of a resource. Remove it.")
    return names


@dataclass(frozen=True, slots=True)
class ScopeCheck:
    """Checks that a principal has scopes; made by ``require_scopes``.

    Attributes:
        scopes: what is needed.
    """

    scopes: tuple[str, ...]

    def __call__(self, principal: Principal | None = None) -> None:
        """Return when the principal (by default the current one) has every scope.

        The person at this machine (stdio, command line) has every right.

        Raises:
            TokenInvalid: nobody is identified.
            ScopeMissing: a scope is missing; the error names all that are needed.
        """
        who = principal or current_principal()
        if who is None or who.kind == "anonymous":
            raise refuse("no_token", f"This needs an identity with the scopes {' '.join(self.scopes)}. Send a token.")
        if who.kind == "local":
            return
        if missing := missing_scopes(who.scopes, self.scopes):
            raise ScopeMissing(f"The token lacks the scopes {' '.join(missing)}. Ask for them.", scopes=self.scopes)


def require_scopes(*scopes: str) -> ScopeCheck:
    """Return a check that a principal has all these scopes: ``require_scopes("agents:run")(principal)``.

    Raises:
        ConfigurationError: no scope was given, or one of them cannot be a scope.
    """
    if not scopes:
        raise ConfigurationError("require_scopes() needs at least one scope.")
    return ScopeCheck(scope_names(scopes, where="require_scopes"))
