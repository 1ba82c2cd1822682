"""The protected resources of an app: identifiers, required scopes and metadata documents (RFC 9728, RFC 8707).

Every URL comes from configuration, or from the socket that the request arrived at. ``Host`` and ``X-Forwarded-*`` can
be written by anyone and are not used, with one exception: on a loopback socket, the name ``localhost`` is as good as
the address, and clients compare the identifier with the URL that they were given.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import quote, urlsplit

from bascule.auth._addresses import is_loopback
from bascule.auth._asgi import Scope, header_values
from bascule.errors import ConfigurationError

__all__ = ["WELL_KNOWN", "Resource", "ResourceFinder", "ResourceMap", "check_base_url", "check_path", "served_at"]

BASE_URLS = 64
WELL_KNOWN = "/.well-known/oauth-protected-resource"

_URL = re.compile(r"""[!#-;=?-\[\]_a-z~]*""")  # the characters of RFC 3986, and none that ends a quoted text


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """One protected resource.

    Attributes:
        path: where it lies in the app, without a slash at the end; empty for the whole app.
        identifier: its URL, the audience of tokens for it.
        scopes: what every request to it needs.
        metadata_url: where its metadata document can be read.
    """

    path: str
    identifier: str
    scopes: tuple[str, ...]
    metadata_url: str


class ResourceMap:
    """Finds the resource for a path, under one base URL.

    With one resource, every path of the app belongs to it. With several, a path outside of all of them belongs to a
    resource of its own, the app as a whole, so that no token for one of them is good there.
    """

    def __init__(self, base_url: str, resources: Mapping[str, tuple[str, ...]], required: tuple[str, ...]) -> None:
        self._prefix = urlsplit(base_url).path
        made = [
            Resource(
                path=path,
                identifier=base_url + path,
                scopes=tuple(dict.fromkeys((*required, *scopes))),
                metadata_url=base_url + WELL_KNOWN + path,
            )
            for path, scopes in resources.items()
        ]
        if len(made) > 1 and "" not in resources:
            made.append(Resource(path="", identifier=base_url, scopes=required, metadata_url=base_url + WELL_KNOWN))
        self._longest_first = sorted(made, key=lambda resource: len(resource.path), reverse=True)
        self._default = made[0] if len(made) == 1 else self._longest_first[-1]

    def at(self, path: str) -> Resource:
        """Return the resource that a path of the app belongs to."""
        for resource in self._longest_first:
            if path.startswith(resource.path) and path[len(resource.path) : len(resource.path) + 1] in ("", "/"):
                return resource
        return self._default

    def described_at(self, path: str) -> Resource | None:
        """Return the resource whose metadata document lies at a path below ``/.well-known``.

        RFC 9728 section 3.1 puts the path of the resource behind the well-known name. The prefix of a proxy or mount
        may be part of it, or may have been taken off on the way. The bare name gives the default resource, which is
        where clients look last.
        """
        suffix = path.removeprefix(WELL_KNOWN).rstrip("/")
        for resource in self._longest_first:
            if suffix in (resource.path, self._prefix + resource.path):
                return resource
        return self._default if suffix in ("", self._prefix) else None

    def document(self, resource: Resource, *, servers: Sequence[str], scopes: Sequence[str], name: str) -> bytes:
        """Return the metadata document of a resource (RFC 9728 section 2)."""
        document: dict[str, object] = {"resource": resource.identifier}
        if servers:
            document["authorization_servers"] = list(servers)
        if scopes or resource.scopes:
            document["scopes_supported"] = list(scopes or resource.scopes)
        document["bearer_methods_supported"] = ["header"]
        if name:
            document["resource_name"] = name
        return json.dumps(document).encode("utf-8")


class ResourceFinder:
    """The resources under a fixed base URL, or under the one that follows from where a request arrives.

    Attributes:
        host: host of the fixed base URL, empty without one.
    """

    def __init__(
        self, base_url: str | None, resources: Mapping[str, tuple[str, ...]], required: tuple[str, ...]
    ) -> None:
        self._given = (resources, required)
        self._fixed = None if base_url is None else ResourceMap(base_url, resources, required)
        self._found: dict[str, ResourceMap] = {}
        self.host = "" if base_url is None else urlsplit(base_url).hostname or ""

    def under(self, scope: Scope) -> ResourceMap:
        """Return the resources for a request."""
        if self._fixed is not None:
            return self._fixed
        url = served_at(scope)
        found = self._found.get(url)
        if found is None:
            if len(self._found) >= BASE_URLS:  # a mount with a parameter in its path has as many as clients invent
                self._found.clear()
            found = self._found[url] = ResourceMap(url, *self._given)
        return found


def check_base_url(url: str) -> str:
    """Return a base URL without a slash at the end.

    Raises:
        ConfigurationError: not an absolute http or https URL, or one with query, fragment or user name.
    """
    parts = urlsplit(url)
    good = parts.scheme in ("http", "https") and parts.hostname and _URL.fullmatch(url)
    if not good or parts.query or parts.fragment or "@" in parts.netloc:
        raise ConfigurationError(f"base_url {url!r} is not the URL of a server. Example: https://tools.example.org")
    return f"{parts.scheme.lower()}://{parts.netloc.lower()}{parts.path.rstrip('/')}"


def check_path(path: str) -> str:
    """Return the path of a resource without a slash at the end.

    Raises:
        ConfigurationError: it does not begin with a slash.
    """
    if not path.startswith("/") or not _URL.fullmatch(path) or "?" in path or "#" in path or "//" in path:
        raise ConfigurationError(f"The resource {path!r} is not a path. Example: /mcp")
    return path.rstrip("/")


def served_at(scope: Scope) -> str:
    """Return the base URL that follows from the socket of a request."""
    scheme = "https" if scope.get("scheme", "http") in ("https", "wss") else "http"
    server: Sequence[object] = scope.get("server") or ("localhost", None)
    host, port = str(server[0]), server[1]
    if host.startswith("/"):
        host, port = "localhost", None  # a UNIX socket has a path instead of an address
    suffix = "" if port in (None, 443 if scheme == "https" else 80) else f":{port}"
    if is_loopback(host) and [f"localhost{suffix}".encode()] == header_values(scope, b"host"):
        host = "localhost"
    if ":" in host:
        host = f"[{host}]"
    root = quote(scope.get("root_path", "").rstrip("/"), safe="/%-._~!$&'()*+,;=:@")
    return f"{scheme}://{host}{suffix}{root}"
