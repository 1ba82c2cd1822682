"""Keys fetched from a real server: what is read, and what is not."""

import json
import socket
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from bascule.auth import JWTAuth
from bascule.auth._fetch import fetch_document
from bascule.errors import AuthUnavailable, TokenInvalid
from tests.unit.auth.kit import ISSUER, jwk, jwk_set, key, request_for, token

Serve = Callable[..., str]


@dataclass
class Documents:
    """A server with one good document and several traps; remembers what was asked for."""

    seen: list[str] = field(default_factory=list[str])
    headers: list[dict[bytes, bytes]] = field(default_factory=list[dict[bytes, bytes]])

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:  # Any: ASGI
        self.seen.append(scope["path"])
        self.headers.append(dict(scope["headers"]))
        answer: dict[str, Callable[[Any], Awaitable[None]]] = {
            "/jwks": self.good,
            "/redirect": self.redirect,
            "/endless": self.endless,
            "/gzip": self.gzip,
            "/broken": self.broken,
        }
        await answer.get(scope["path"], self.missing)(send)

    async def good(self, send: Any) -> None:
        await answer(send, 200, [], json.dumps(jwk_set(key())).encode())

    async def redirect(self, send: Any) -> None:
        await answer(send, 302, [(b"location", b"/jwks")], b"")

    async def gzip(self, send: Any) -> None:
        await answer(send, 200, [(b"content-encoding", b"gzip")], b"x")

    async def missing(self, send: Any) -> None:
        await answer(send, 404, [], b"{}")

    async def broken(self, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"100")]})
        await send({"type": "http.response.body", "body": b"short", "more_body": True})
        raise ConnectionError

    async def endless(self, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for _ in range(100):
            await send({"type": "http.response.body", "body": b" " * 65536, "more_body": True})


async def answer(send: Any, status: int, headers: list[tuple[bytes, bytes]], body: bytes) -> None:
    length = (b"content-length", str(len(body)).encode())
    await send({"type": "http.response.start", "status": status, "headers": [*headers, length]})
    await send({"type": "http.response.body", "body": body})


def provider(url: str) -> JWTAuth:
    return JWTAuth(jwks_url=url, issuer=ISSUER, algorithms=["RS256"])


async def test_a_token_is_verified_with_keys_from_a_server(serve: Serve) -> None:
    documents = Documents()
    base = serve(documents)
    auth = provider(f"{base}/jwks")
    for _ in range(3):
        assert (await auth.authenticate(token(), request_for())).subject == "alice"
    assert documents.seen == ["/jwks"]
    assert documents.headers[0][b"host"] == base.removeprefix("http://").encode()
    assert documents.headers[0][b"accept-encoding"] == b"identity"


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("/redirect", "status 302. Redirects are not followed"),
        ("/endless", "more than 262144 bytes"),
        ("/gzip", "compressed"),
        ("/missing", "status 404"),
        ("/broken", "RemoteProtocolError"),
    ],
)
async def test_other_answers_are_an_outage(serve: Serve, path: str, message: str) -> None:
    documents = Documents()
    with pytest.raises(AuthUnavailable, match=message):
        await provider(serve(documents) + path).authenticate(token(), request_for())
    assert documents.seen == [path]


async def test_a_server_that_is_not_there_is_an_outage() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
        with pytest.raises(AuthUnavailable, match="cannot be reached"):
            await provider(f"http://127.0.0.1:{port}/jwks").authenticate(token(), request_for())


async def test_a_server_that_never_answers_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bascule.auth._fetch.TIMEOUT", 0.2)
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        with pytest.raises(AuthUnavailable, match=r"did not answer within 0\.2 s|failed: ReadTimeout"):
            await provider(f"http://127.0.0.1:{silent.getsockname()[1]}/jwks").authenticate(token(), request_for())


async def test_a_name_that_leads_inside_is_not_followed() -> None:
    # The name of this machine leads to a private or loopback address, if it leads anywhere.
    with pytest.raises(AuthUnavailable, match=r"nothing is fetched from|cannot be resolved"):
        await fetch_document(f"https://{socket.gethostname()}/jwks")


async def test_a_name_that_does_not_exist_is_an_outage() -> None:
    with pytest.raises(AuthUnavailable, match="cannot be resolved"):
        await fetch_document("https://no-such-host.invalid/jwks")


async def test_proxies_of_the_environment_are_not_used(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    assert b"keys" in await fetch_document(serve(Documents()) + "/jwks")


@pytest.mark.parametrize("field_name", ["jku", "x5u"])
async def test_d07_a_url_in_the_header_is_never_read(serve: Serve, field_name: str) -> None:
    canary, documents = Documents(), Documents()
    auth, trap = provider(serve(documents) + "/jwks"), serve(canary) + "/jwks"
    thief = key("thief")
    for kid in ("rsa", "thief"):
        forged = token(pair=thief, header={field_name: trap, "kid": kid, "jwk": jwk(thief), "x5c": ["AAAA"]})
        with pytest.raises(TokenInvalid) as caught:
            await auth.authenticate(forged, request_for())
        assert caught.value.reason in ("bad_signature", "key_not_found")
    assert canary.seen == []


async def test_a_certificate_is_checked_for_the_name_and_the_connection_goes_to_the_checked_address(
    serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    certificate, private = issue(tmp_path)
    base = serve(Documents(), ssl_certfile=certificate, ssl_keyfile=private)
    named = base.replace("127.0.0.1", "localhost")
    with pytest.raises(AuthUnavailable, match="CERTIFICATE_VERIFY_FAILED"):
        await fetch_document(f"{named}/jwks")
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    assert b"keys" in await fetch_document(f"{named}/jwks")
    with pytest.raises(AuthUnavailable, match="CERTIFICATE_VERIFY_FAILED"):
        await fetch_document(f"{base}/jwks")


def issue(folder: Path) -> tuple[Path, Path]:
    """Make a certificate for the name localhost."""
    pair = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder(name, name, pair.public_key(), x509.random_serial_number(), now, now + timedelta(1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .sign(pair, hashes.SHA256())
    )
    certificate, private = folder / "certificate.pem", folder / "key.pem"
    certificate.write_bytes(made.public_bytes(Encoding.PEM))
    private.write_bytes(pair.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    return certificate, private
