"""Real keys, tokens as hostile as one likes, and an app to protect."""

import hmac
import json
import warnings
from base64 import urlsafe_b64encode
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import httpx
from joserfc.jwk import ECKey, OKPKey, RSAKey
from jwt.algorithms import get_default_algorithms

from bascule.auth import ASGIApp, Auth, JWTAuth, Principal, TokenRequest, principal_of

ISSUER = "https://issuer.example"
BASE = "https://tools.example.org"
RESOURCE = f"{BASE}/mcp"
NOW = 1_800_000_000
SECRET = "0123456789abcdef0123456789abcdef"

Key = RSAKey | ECKey | OKPKey


@dataclass
class Clock:
    """A clock that stands still until it is moved."""

    time: float = NOW

    def __call__(self) -> float:
        return self.time


@cache
def key(name: str = "rsa", kind: str = "RSA", size: int | str = 2048) -> Key:
    """Return a key pair that is made once; the name tells several of a kind apart."""
    if kind == "RSA":
        with warnings.catch_warnings(action="ignore"):  # about the short keys that some tests want
            return RSAKey.generate_key(int(size), {"kid": name})
    if kind == "EC":
        return ECKey.generate_key("P-256" if size == 2048 else str(size), {"kid": name})  # pyright: ignore[reportArgumentType]
    return OKPKey.generate_key("Ed25519", {"kid": name})


def jwk(pair: Key, **extra: object) -> dict[str, object]:
    """Return the public JWK of a key pair."""
    return {**pair.as_dict(private=False), **extra}


def jwk_set(*pairs: Key) -> dict[str, object]:
    """Return the JWK set of some key pairs."""
    return {"keys": [jwk(pair) for pair in pairs]}


def claims(**changes: object) -> dict[str, object]:
    """Return the claims of a good token, changed; ``None`` takes a claim away."""
    good: dict[str, object] = {
        "iss": ISSUER,
        "sub": "alice",
        "aud": RESOURCE,
        "iat": NOW,
        "exp": NOW + 600,
        "client_id": "app",
        "scope": "mcp:read mcp:tools",
    }
    return {name: value for name, value in {**good, **changes}.items() if value is not None}


def encoded(part: bytes) -> bytes:
    return urlsafe_b64encode(part).rstrip(b"=")


def token(
    payload: Mapping[str, object] | bytes | None = None,
    *,
    pair: Key | str | bytes | None = None,
    alg: str = "RS256",
    header: Mapping[str, object] | None = None,
    raw_header: bytes | None = None,
) -> str:
    """Return a token whose signature is right for ``pair``, whatever else is wrong with it."""
    signer = pair if pair is not None else key()
    fields: dict[str, object] = {"alg": alg, "typ": "at+jwt"}
    if not isinstance(signer, str | bytes):
        fields["kid"] = signer.kid
    fields |= header or {}
    head = raw_header or json.dumps({name: value for name, value in fields.items() if value is not None}).encode()
    body = payload if isinstance(payload, bytes) else json.dumps(payload or claims()).encode()
    signed = encoded(head) + b"." + encoded(body)
    private: Any = signer.private_key if not isinstance(signer, str | bytes) else signer  # Any: PyJWT's own type
    if isinstance(private, str):
        private = private.encode()
    if isinstance(private, bytes):  # not with PyJWT, which refuses public keys as secrets
        signature = hmac.digest(private, signed, {"HS256": "sha256", "HS384": "sha384", "HS512": "sha512"}[alg])
    else:
        signature = get_default_algorithms()[alg].sign(signed, private)
    return (signed + b"." + encoded(signature)).decode()


@dataclass
class App:
    """An ASGI app that answers who asks, and counts."""

    seen: list[Principal] = field(default_factory=list[Principal])

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:  # Any: ASGI
        if scope["type"] == "lifespan":
            await receive()
            await send({"type": "lifespan.startup.complete"})
            return
        principal = principal_of(scope)
        self.seen.append(principal)
        if scope["type"] == "websocket":
            await send({"type": "websocket.accept"})
            return
        body = json.dumps({"id": principal.id, "sub": principal.subject, "kind": principal.kind}).encode()
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"application/json")]})
        await send({"type": "http.response.body", "body": body})


def jwt_auth(**changes: Any) -> JWTAuth:  # Any: keyword arguments of different types
    settings: dict[str, Any] = {"key": jwk_set(key()), "issuer": ISSUER, "algorithms": ["RS256"]}
    return JWTAuth(**(settings | changes))


def guard(provider: Any = None, *, clock: Clock | None = None, **changes: Any) -> Auth:  # Any: as above
    settings: dict[str, Any] = {"base_url": BASE, "required_scopes": ["mcp:tools"], "now": clock or Clock()}
    return Auth(provider or jwt_auth(), **(settings | changes))


@asynccontextmanager
async def client(app: ASGIApp, *, peer: str = "127.0.0.1", url: str = BASE) -> AsyncGenerator[httpx.AsyncClient]:
    """Return an HTTP client whose requests go to the app in this process."""
    transport = httpx.ASGITransport(app=app, client=(peer, 50000))
    async with httpx.AsyncClient(transport=transport, base_url=url) as made:
        yield made


async def send(
    app: ASGIApp,
    bearer: str | bytes | None = None,
    *,
    method: str = "POST",
    path: str = "/mcp",
    peer: str = "127.0.0.1",
) -> httpx.Response:
    """Send one request."""
    value = None if bearer is None else b"Bearer " + (bearer.encode() if isinstance(bearer, str) else bearer)
    async with client(app, peer=peer) as http:
        return await http.request(method, path, headers=[] if value is None else [(b"authorization", value)])


def reason(response: httpx.Response) -> str:
    """Return the reason code of a refusal."""
    body: dict[str, str] = response.json()
    return body["error_description"].partition(":")[0]


def request_for(resource: str = RESOURCE, **changes: Any) -> TokenRequest:  # Any: as above
    settings: dict[str, Any] = {"resource": resource, "now": NOW, "client_host": "127.0.0.1"}
    return TokenRequest(**(settings | changes))


def parameters(response: httpx.Response) -> dict[str, str]:
    """Return the parameters of the challenge."""
    scheme, _, rest = response.headers["www-authenticate"].partition(" ")
    assert scheme == "Bearer"
    return {name: value.strip('"') for name, _, value in (part.partition("=") for part in rest.split(", "))}
