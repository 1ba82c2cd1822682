"""A protected server: refused without a token, served with one, with tokens of the machine's own or of an issuer."""

import json
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx2
import pytest
from joserfc import jwt
from joserfc.jwk import ECKey
from mcp import Client, MCPError
from mcp.client.streamable_http import streamable_http_client
from mcp_types import TextContent

from tests.acceptance.harness.served import DIRECT, QUICKSTART, Served, bascule, serving
from tests.acceptance.harness.surroundings import Surroundings

ERAS = ["legacy", "2026-07-28"]
AUDIENCE = "https://sums.example"


async def add(served: Served, *, token: str, era: str) -> str:
    """Call the quickstart's tool with a token."""
    headers = {"authorization": f"Bearer {token}"}
    async with httpx2.AsyncClient(headers=headers, timeout=30) as http:
        transport = streamable_http_client(served.mcp_url, http_client=http)
        async with Client(transport, mode=era) as client:
            (block,) = (await client.call_tool("add", {"a": 2, "b": 3})).content
    assert isinstance(block, TextContent)
    return block.text


def refusal(served: Served, token: str | None = None) -> tuple[int, str]:
    """Knock with a plain request; return the status and the challenge."""
    headers = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
    if token is not None:
        headers["authorization"] = f"Bearer {token}"
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}).encode()
    with pytest.raises(urllib.error.HTTPError) as refused:
        DIRECT.open(urllib.request.Request(served.mcp_url, body, headers), timeout=10)
    with refused.value as answer:
        return answer.code, answer.headers.get("www-authenticate", "")


@pytest.mark.requirement("F33")
@pytest.mark.parametrize("era", ERAS)
async def test_dev_auth_refuses_the_official_client_without_a_token_and_serves_it_with_one(
    surroundings: Surroundings, era: str
) -> None:
    with serving(QUICKSTART, "--auth", "dev", surroundings=surroundings) as served:
        with pytest.RaisesGroup(MCPError, allow_unwrapped=True, flatten_subgroups=True):
            async with Client(served.mcp_url, mode=era) as client:
                await client.list_tools()
        status, challenge = refusal(served)
        made = bascule("auth", "token", "--sub", "me", surroundings=surroundings)
        total = await add(served, token=made.stdout.strip(), era=era)
    assert (status, made.exit_code) == (401, 0)
    assert challenge.startswith("Bearer ")
    assert "error=" not in challenge, "nobody presented a token that could be wrong"
    assert total == "5"


@contextmanager
def issuer(key: ECKey) -> Generator[str]:
    """Publish a key as an identity provider does."""
    document = json.dumps({"keys": [{**key.as_dict(private=False), "alg": "ES256", "use": "sig"}]}).encode()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(document)))
            self.end_headers()
            self.wfile.write(document)

        def log_message(self, format: str, *args: Any) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join(5)


def token(key: ECKey, url: str, **claims: Any) -> str:
    """A token of the issuer, good for a minute unless a claim says otherwise."""
    now = int(time.time())
    content: Mapping[str, Any] = {"iss": url, "aud": AUDIENCE, "sub": "me", "iat": now, "exp": now + 60, **claims}
    return jwt.encode({"alg": "ES256", "kid": key.kid, "typ": "at+jwt"}, dict(content), key)


@pytest.mark.parametrize("era", ERAS)
async def test_a_server_that_trusts_an_issuer_serves_its_tokens_and_refuses_others(
    surroundings: Surroundings, era: str
) -> None:
    key = ECKey.generate_key("P-256", parameters={"kid": "one"})
    stranger = ECKey.generate_key("P-256", parameters={"kid": "one"})
    with issuer(key) as url:
        trust = ["--jwt-jwks", f"{url}/keys", "--audience", AUDIENCE, "--issuer", url]
        with serving(QUICKSTART, *trust, surroundings=surroundings) as served:
            statuses = {
                "none": refusal(served)[0],
                "foreign key": refusal(served, token(stranger, url))[0],
                "foreign audience": refusal(served, token(key, url, aud="https://other.example"))[0],
                "expired": refusal(served, token(key, url, exp=int(time.time()) - 120))[0],
            }
            total = await add(served, token=token(key, url), era=era)
    assert set(statuses.values()) == {401}, statuses
    assert total == "5"
