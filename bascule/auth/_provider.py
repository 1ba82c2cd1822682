"""What an identity provider must offer, and what it is told about a request."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from bascule.context import Principal

__all__ = ["AuthProvider", "LocalOnly", "TokenRequest"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenRequest:
    """What the check of a token may depend on, besides the token.

    Attributes:
        resource: identifier of the protected resource that was asked for (RFC 8707), such as
            ``https://example.org/mcp``.
        now: seconds since the epoch.
        leeway: seconds by which clocks may differ.
        client_host: address of the peer, ``None`` when it is unknown.
        forwarded: whether a proxy says that it passed the request on.
    """

    resource: str
    now: float
    leeway: float = 30.0
    client_host: str | None = None
    forwarded: bool = False


class AuthProvider(Protocol):
    """Turns a bearer token into a verified identity.

    Attributes:
        name: short name, put into ``Principal.provider`` and into logs.
    """

    @property
    def name(self) -> str: ...

    def authorization_servers(self) -> Sequence[str]:
        """Return the issuers whose tokens are accepted, for the metadata document (RFC 9728 section 2)."""
        ...

    async def authenticate(self, token: str, request: TokenRequest) -> Principal | None:
        """Return the identity that the token proves, or ``None`` when it proves none.

        Raises:
            TokenInvalid: the token is not accepted, with the reason (HTTP 401).
            AuthUnavailable: the token cannot be checked now (HTTP 503).
        """
        ...

    def trusted_until(self, principal: Principal, now: float) -> float:
        """Return the time (seconds since the epoch) up to which an accepted token may be reused unchecked."""
        ...


@runtime_checkable
class LocalOnly(Protocol):
    """A provider that is for one machine only; both checks raise to refuse."""

    def check_host(self, host: str) -> None:
        """Refuse a server that listens on, or is reached under, ``host``.

        Raises:
            ConfigurationError: the host is not a loopback address.
        """
        ...

    def admit(self, request: TokenRequest) -> None:
        """Refuse a request of another machine, whatever token it carries.

        Raises:
            TokenInvalid: the client is not on this machine.
        """
        ...
