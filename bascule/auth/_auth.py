"""The one configuration of who may use what is served."""

import hashlib
import logging
import os
import time
from collections.abc import Callable, Iterable, Mapping
from traceback import format_tb
from typing import cast
from urllib.parse import urlsplit

from bascule.auth._asgi import ASGIApp, Scope
from bascule.auth._bearer import bearer_token, check_form
from bascule.auth._cache import TokenCache
from bascule.auth._identity import Mismatch, resolve_resource_id
from bascule.auth._layer import Layer, LayerSettings
from bascule.auth._provider import AuthProvider, LocalOnly, TokenRequest
from bascule.auth._reasons import refuse
from bascule.auth._resources import Resource, ResourceFinder, check_base_url, check_path
from bascule.auth._scopes import scope_names
from bascule.context import Principal, missing_scopes
from bascule.errors import AuthError, ConfigurationError, ScopeMissing

__all__ = ["Auth"]

logger = logging.getLogger(__name__)

FORWARDING = frozenset(
    {b"forwarded", b"via", b"x-forwarded-for", b"x-forwarded-host", b"x-forwarded-proto", b"x-real-ip"}
)


class Auth:
    """Guards everything that an app serves: MCP, REST and whatever else is behind it.

    Args:
        provider: turns tokens into identities, such as ``JWTAuth`` or ``DevAuth``.
        base_url: where clients reach the app, with the prefix of a proxy. Else ``BASCULE_BASE_URL``, else the address
            of the socket that a request arrives at; never a header of the request.
        resources: the protected resources: paths, or paths with the scopes that each needs. Tokens for one are not
            good at another. By default there is one, ``/mcp``, and its tokens are good everywhere in the app.
        required_scopes: scopes that every request needs.
        scopes_supported: scopes that the metadata documents list; by default the required ones.
        public: what is open to everyone: a path, or a method and a path (``"GET /openapi.json"``). Compared exactly.
        cors_origins: origins whose pages may use the app from a browser, or ``"*"``.
        leeway: seconds by which the clocks of issuer and server may differ.
        on_resource_mismatch: what happens to a client's resource id that is not its own: ``"replace"`` or
            ``"refuse"`` (HTTP 403).
        resource_name: the name in the metadata documents.
        cache_ttl: most seconds for which a verified token is not verified again; 0 verifies each time. It is never
            used after the token expires, nor after keys from a JWKS URL have to be read again.
        cache_size: most tokens that are remembered.
        max_token_bytes: longer tokens are refused unread.
        now: returns the time in seconds since the epoch.

    Raises:
        ConfigurationError: a URL, path or scope that cannot be one.
    """

    def __init__(
        self,
        provider: AuthProvider,
        *,
        base_url: str | None = None,
        resources: Mapping[str, Iterable[str]] | Iterable[str] | None = None,
        required_scopes: Iterable[str] = (),
        scopes_supported: Iterable[str] = (),
        public: Iterable[str] = ("/healthz", "/readyz"),
        cors_origins: Iterable[str] = (),
        leeway: float = 30.0,
        on_resource_mismatch: Mismatch = "replace",
        resource_name: str = "",
        cache_ttl: float = 300.0,
        cache_size: int = 10_000,
        max_token_bytes: int = 16 * 1024,
        now: Callable[[], float] = time.time,
    ) -> None:
        if not 0 <= leeway <= 300:
            raise ConfigurationError(f"leeway is {leeway!r} seconds. Give 0 to 300.")
        self.provider = provider
        self.required_scopes: tuple[str, ...] = scope_names(required_scopes, where="required_scopes")
        self.scopes_supported: tuple[str, ...] = scope_names(scopes_supported, where="scopes_supported")
        self.on_resource_mismatch: Mismatch = on_resource_mismatch
        self._base_url = None if base_url is None else check_base_url(base_url)
        self._resources = None if resources is None else _resources(resources)
        self._public = _public(public)
        self._cors_origins = frozenset((cors_origins,) if isinstance(cors_origins, str) else cors_origins)
        self._leeway = leeway
        self._resource_name = resource_name
        self._max_token_bytes = max_token_bytes
        self._now = now
        self._cache = TokenCache(ttl=cache_ttl, size=cache_size)
        self._local = provider if isinstance(provider, LocalOnly) else None

    def check_host(self, host: str) -> None:
        """Refuse to listen on ``host`` when the provider is for this machine only. Servers call it before they bind.

        Raises:
            ConfigurationError: the provider does not serve other machines.
        """
        if self._local is not None:
            self._local.check_host(host)

    def protect(self, app: ASGIApp, *, base_url: str | None = None, path: str = "/mcp") -> ASGIApp:
        """Return the app behind the guard. It may be mounted under any prefix, and called for several apps.

        Args:
            app: the ASGI app with everything that is served.
            base_url: where clients reach the app, when neither the constructor nor ``BASCULE_BASE_URL`` says it.
            path: the one protected resource, when the constructor names none.

        Raises:
            ConfigurationError: a URL or path that cannot be one, or one that the provider does not serve.
        """
        chosen = self._chosen(base_url)
        settings = LayerSettings(
            resources=ResourceFinder(
                chosen,
                self._resources or {check_path(path): ()},
                self.required_scopes,
            ),
            public=self._public,
            cors_origins=self._cors_origins,
            authorization_servers=tuple(self.provider.authorization_servers()),
            scopes_supported=self.scopes_supported,
            resource_name=self._resource_name,
        )
        if self._local is not None and settings.resources.host:
            self._local.check_host(settings.resources.host)
        return Layer(app, self.identify, settings)

    def public_host(self, base_url: str | None = None) -> str | None:
        """Return the host under which clients reach what this guards, or ``None`` when no base URL is known.

        Args:
            base_url: counts when neither the constructor nor ``BASCULE_BASE_URL`` says it.

        Raises:
            ConfigurationError: a URL that cannot be one.
        """
        chosen = self._chosen(base_url)
        return None if chosen is None else urlsplit(chosen).hostname

    def _chosen(self, base_url: str | None) -> str | None:
        chosen = self._base_url or os.environ.get("BASCULE_BASE_URL") or base_url
        return check_base_url(chosen) if chosen else None

    def resolve_resource_id(self, principal: Principal, requested: str | None) -> str | None:
        """Return the resource id to work with, as ``on_resource_mismatch`` says.

        Raises:
            AuthError: the id is another's, and mismatches are refused (HTTP 403).
        """
        return resolve_resource_id(principal, requested, on_mismatch=self.on_resource_mismatch)

    def forget_tokens(self) -> None:
        """Forget all verified tokens, so that each is verified again."""
        self._cache.clear()

    async def identify(self, scope: Scope, resource: Resource) -> Principal:
        """Return who sends a request to a resource.

        Raises:
            TokenInvalid: there is no token, or it is not accepted.
            ScopeMissing: the token lacks a scope that the resource needs.
            AuthUnavailable: the token cannot be checked now.
        """
        token = bearer_token([value for name, value in scope["headers"] if name == b"authorization"])
        now = self._now()
        request: TokenRequest | None = None
        if self._local is not None:
            request = self._request(scope, resource, now)
            self._local.admit(request)
        if len(token) > self._max_token_bytes:
            raise refuse("token_too_large", f"The token has more than {self._max_token_bytes} bytes.")
        key = (hashlib.sha256(token).digest(), resource.identifier)
        principal = self._cache.get(key, now)
        if principal is None:
            request = request or self._request(scope, resource, now)
            principal = await self._authenticate(check_form(token), request)
            self._cache.put(key, principal, now=now, until=self.provider.trusted_until(principal, now))
        if not principal.scopes.issuperset(resource.scopes):
            _check_scopes(principal, resource)
        return principal

    async def _authenticate(self, token: str, request: TokenRequest) -> Principal:
        try:
            principal = await self.provider.authenticate(token, request)
        except AuthError:
            raise
        except Exception as error:  # whatever a verifier stumbles over, the token is not verified
            # Where it happened, and not what the error says, which may quote the token.
            where = "".join(format_tb(error.__traceback__, limit=-20))
            logger.error("auth provider %s failed with %s\n%s", self.provider.name, type(error).__name__, where)
            raise refuse("verifier_error", "The token could not be verified.") from error
        if principal is None or not principal.verified:
            raise refuse("not_accepted", "The token is not known here.")
        return principal

    def _request(self, scope: Scope, resource: Resource, now: float) -> TokenRequest:
        client = scope.get("client")
        return TokenRequest(
            resource=resource.identifier,
            now=now,
            leeway=self._leeway,
            client_host=str(client[0]) if client else None,
            forwarded=not FORWARDING.isdisjoint([name for name, _ in scope["headers"]]),
        )


def _resources(given: Mapping[str, Iterable[str]] | Iterable[str]) -> dict[str, tuple[str, ...]]:
    if isinstance(given, str):
        raise ConfigurationError(f"resources is the text {given!r}. Give a list of paths: resources=[{given!r}].")
    if isinstance(given, Mapping):
        needed = cast("Mapping[str, Iterable[str]]", given)  # an Iterable[str] may be a Mapping of anything
        found = {check_path(path): scope_names(scopes, where="resources") for path, scopes in needed.items()}
    else:
        found = {check_path(path): () for path in given}
    if not found:
        raise ConfigurationError("resources is empty. Leave it out for the one resource /mcp.")
    return found


def _public(given: Iterable[str]) -> frozenset[tuple[str, str]]:
    """Return pairs of method and path; the method is empty where every method is open."""
    pairs: set[tuple[str, str]] = set()
    for entry in (given,) if isinstance(given, str) else given:
        method, _, path = entry.rpartition(" ")
        if not path.startswith("/") or not (method == "" or method.isupper()):
            raise ConfigurationError(f"public contains {entry!r}. Give a path, or a method and a path: 'GET /status'.")
        pairs.add((method, path))
        if method == "GET":
            pairs.add(("HEAD", path))
    return frozenset(pairs)


def _check_scopes(principal: Principal, resource: Resource) -> None:
    if missing := missing_scopes(principal.scopes, resource.scopes):
        raise ScopeMissing(f"The token lacks the scopes {' '.join(missing)}. Ask for them.", scopes=resource.scopes)
