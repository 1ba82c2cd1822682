"""Keys that live at a URL: one fetch at a time, cool-down, rotation, outages."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field

import anyio
import pytest

from bascule.auth import Auth
from bascule.errors import AuthUnavailable
from tests.unit.auth.kit import (
    NOW,
    App,
    Clock,
    Key,
    claims,
    guard,
    jwk,
    jwk_set,
    jwt_auth,
    key,
    reason,
    request_for,
    send,
    token,
)

URL = "https://issuer.example/jwks.json"


@dataclass
class Source:
    """What is published at the URL, and how often it was read."""

    pairs: list[Key] = field(default_factory=lambda: [key()])
    document: bytes | None = None
    failure: Exception | None = None
    reads: int = 0
    gate: Callable[[], anyio.Event] | None = None
    reading: anyio.Event | None = None

    async def __call__(self, url: str) -> bytes:
        assert url == URL
        self.reads += 1
        if self.reading is not None:
            self.reading.set()
        if self.gate is not None:
            await self.gate().wait()
        if self.failure is not None:
            raise self.failure
        return self.document if self.document is not None else json.dumps(jwk_set(*self.pairs)).encode()


def remote(source: Source, clock: Clock, **settings: object) -> Auth:
    return guard(jwt_auth(key=None, jwks_url=URL, fetch_jwks=source, **settings), clock=clock)


async def test_keys_are_read_once_and_again_after_their_time() -> None:
    source, clock = Source(), Clock()
    protected = remote(source, clock).protect(App())
    for time, reads in ((0, 1), (10, 1), (299, 1), (300, 2)):
        clock.time = NOW + time
        assert (await send(protected, token())).status_code == 200
        assert source.reads == reads


async def test_d08_invented_key_ids_cause_one_read_per_cooldown() -> None:
    source, clock = Source(), Clock()
    protected = remote(source, clock).protect(App())
    assert (await send(protected, token())).status_code == 200
    thief = key("thief")
    forged = [token(pair=thief, header={"kid": f"kid{number}"}) for number in range(50)]
    clock.time = NOW + 31
    for number, bearer in enumerate(forged):
        response = await send(protected, bearer)
        assert (response.status_code, reason(response)) == (401, "key_not_found")
        if number % 10 == 0:
            assert (await send(protected, token(claims(sub=f"user{number}")))).status_code == 200
    assert source.reads == 2


async def test_d08_a_thousand_at_once_read_once() -> None:
    source, clock = Source(), Clock()
    provider = remote(source, clock).provider
    open_gate = anyio.Event()
    source.gate, source.reading = (lambda: open_gate), anyio.Event()
    accepted = 0

    async def call(bearer: str) -> None:
        nonlocal accepted
        await provider.authenticate(bearer, request_for())
        accepted += 1

    bearer = token()
    with anyio.fail_after(10):
        async with anyio.create_task_group() as tasks:
            for _ in range(1000):
                tasks.start_soon(call, bearer)
            await source.reading.wait()
            open_gate.set()
    assert (accepted, source.reads) == (1000, 1)


async def test_a_cancelled_read_is_taken_over_by_one_who_waits() -> None:
    source, clock = Source(), Clock()
    provider = remote(source, clock).provider
    gates = [anyio.Event(), anyio.Event()]
    source.gate, source.reading = (lambda: gates[source.reads - 1]), anyio.Event()
    first = anyio.CancelScope()
    done: list[str] = []

    async def call(name: str, scope: anyio.CancelScope) -> None:
        with scope:
            await provider.authenticate(token(), request_for())
            done.append(name)

    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(call, "first", first)
            await source.reading.wait()
            tasks.start_soon(call, "second", anyio.CancelScope())
            await anyio.wait_all_tasks_blocked()
            gates[1].set()
            first.cancel()
    assert (done, source.reads) == (["second"], 2)


async def test_d09_a_new_key_is_good_after_the_cooldown_and_an_old_one_bad_after_its_time() -> None:
    source, clock = Source(), Clock()
    protected = remote(source, clock).protect(App())
    old, new = token(), token(pair=key("new"))
    assert (await send(protected, old)).status_code == 200
    source.pairs = [key("new")]
    clock.time = NOW + 29
    assert (await send(protected, new)).status_code == 401
    assert source.reads == 1
    clock.time = NOW + 30
    assert (await send(protected, new)).status_code == 200
    assert (await send(protected, token(claims(sub="bob")))).status_code == 401


async def test_d21_a_cached_token_ends_when_the_keys_have_to_be_read_again() -> None:
    source, clock = Source(), Clock()
    protected = remote(source, clock).protect(App())
    assert (await send(protected, token(claims(sub="first")))).status_code == 200
    clock.time = NOW + 290
    bearer = token(claims(exp=NOW + 9000))
    assert (await send(protected, bearer)).status_code == 200
    source.pairs = []
    clock.time = NOW + 299
    assert (await send(protected, bearer)).status_code == 200
    clock.time = NOW + 300
    response = await send(protected, bearer)
    assert (response.status_code, reason(response)) == (401, "key_not_found")


@pytest.mark.parametrize("failure", [AuthUnavailable("down"), OSError("down"), ValueError("odd")])
async def test_without_any_keys_an_outage_is_503_and_is_not_hammered(failure: Exception) -> None:
    source, clock = Source(failure=failure), Clock()
    protected = remote(source, clock).protect(App())
    for _ in range(5):
        assert (await send(protected, token())).status_code == 503
    assert source.reads == 1
    clock.time = NOW + 5
    source.failure = None
    assert (await send(protected, token())).status_code == 200


async def test_known_keys_outlast_an_outage_of_a_day() -> None:
    source, clock = Source(), Clock()
    protected = remote(source, clock).protect(App())
    bearer = token(claims(exp=NOW + 10 * 86400))
    assert (await send(protected, bearer)).status_code == 200
    source.failure = AuthUnavailable("down")
    clock.time = NOW + 3600
    for _ in range(3):
        assert (await send(protected, bearer)).status_code == 200
    assert source.reads == 2
    response = await send(protected, token(pair=key("thief")))
    assert (response.status_code, reason(response)) == (401, "key_not_found")
    clock.time = NOW + 86400
    assert (await send(protected, bearer)).status_code == 503


async def test_a_clock_that_was_set_back_does_not_make_keys_eternal() -> None:
    source, clock = Source(), Clock()
    protected = remote(source, clock).protect(App())
    assert (await send(protected, token())).status_code == 200
    clock.time = NOW - 20
    assert (await send(protected, token(claims(sub="bob")))).status_code == 200
    assert source.reads == 2


@pytest.mark.parametrize(
    "document",
    [b"", b"<html>", b"[]", b"{}", b'{"keys": {}}', b'{"keys": null}', b'{"keys": [], "keys": []}', b"\xff",
     b"[" * 9999, json.dumps({"keys": [{}] * 101}).encode()],
)  # fmt: skip
async def test_what_is_not_a_key_set_counts_as_an_outage(document: bytes) -> None:
    assert (await send(remote(Source(document=document), Clock()).protect(App()), token())).status_code == 503


async def test_one_bad_key_does_not_spoil_the_others() -> None:
    good = jwk(key())
    bad: list[object] = [
        None,
        7,
        [],
        {},
        {"kty": "RSA"},
        {"kty": "RSA", "n": "!", "e": "AQAB", "kid": "x"},
        {"kty": "RSA", "n": 5, "e": 3},
        {"kty": "quantum", "kid": "rsa"},
        {"kty": "oct", "k": "c2VjcmV0", "kid": "rsa", "alg": "HS256"},
        {"kty": "EC", "crv": "P-256", "x": "AA", "y": "AA", "kid": "rsa"},
        jwk(key(), use="enc"),
        jwk(key(), key_ops=["encrypt"]),
        jwk(key(), key_ops="verify"),
        jwk(key(), alg="RS512"),
        jwk(key(), kid=7),
        key().as_dict(private=True),
        jwk(key("short", "RSA", 1024), kid="rsa"),
        good,
    ]
    source = Source(document=json.dumps({"keys": bad, "more": 1}).encode())
    assert (await send(remote(source, Clock()).protect(App()), token())).status_code == 200


async def test_d70_keys_that_are_too_short_are_not_used() -> None:
    short = key("short", "RSA", 1024)
    response = await send(remote(Source(pairs=[short]), Clock()).protect(App()), token(pair=short))
    assert reason(response) == "key_not_found"


async def test_d04_a_secret_in_a_key_set_is_not_used() -> None:
    published = {"keys": [{"kty": "oct", "k": "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY", "kid": "rsa"}]}
    source = Source(document=json.dumps(published).encode())
    forged = token(pair="0123456789abcdef0123456789abcdef", alg="HS256", header={"kid": "rsa"})
    response = await send(remote(source, Clock()).protect(App()), forged)
    assert (reason(response), source.reads) == ("algorithm_not_allowed", 0)
