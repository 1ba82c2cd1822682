"""Which hosts a server answers to, and whose pages may call it."""

import pytest

from bascule.errors import SettingInvalid
from bascule.mcp_server._guard import Guard

HERE = "127.0.0.1"


@pytest.mark.parametrize("host", ["localhost", "localhost:8000", "127.0.0.1:1", "[::1]:8000", "LOCALHOST:8000"])
def test_loopback_names_are_accepted_on_the_loopback_interface(host: str) -> None:
    assert Guard().refusal(host=host, origin=None, address=HERE) is None


@pytest.mark.parametrize(
    "host",
    [
        *(None, "", "evil.example", "localhost.evil.example", "127.0.0.1.evil.example:80"),
        *("[::1].evil.example", "[::1]evil:80", "localhost:evil", "localhost:80:80", "localhost, evil.example", "["),
    ],
)
def test_other_names_are_refused_on_the_loopback_interface(host: str | None) -> None:
    refusal = Guard().refusal(host=host, origin=None, address=HERE)
    assert refusal is not None
    assert refusal[0] == 421
    assert "allowed_hosts" in refusal[1]


@pytest.mark.parametrize("address", ["::1", "127.0.0.5", "::ffff:127.0.0.1", "localhost"])
def test_the_loopback_interface_has_several_addresses(address: str) -> None:
    assert Guard().refusal(host="localhost", origin=None, address=address) is None
    refusal = Guard().refusal(host="evil.example", origin="http://evil.example", address=address)
    assert refusal is not None
    assert refusal[0] == 421


def test_any_name_is_accepted_elsewhere_unless_hosts_are_named() -> None:
    assert Guard().refusal(host="api.example", origin=None, address="10.0.0.5") is None
    assert Guard().refusal(host="api.example", origin=None, address=None) is None
    refusal = Guard.of(["api.example"], None).refusal(host="other.example", origin=None, address="10.0.0.5")
    assert refusal is not None


@pytest.mark.parametrize(
    ("allowed", "host", "good"),
    [
        ("api.example", "api.example:443", True),
        ("api.example:443", "api.example:443", True),
        ("api.example:443", "api.example:80", False),
        ("api.example:*", "api.example:80", True),
        ("*.example", "a.b.example", True),
        ("*.example", "example", False),
        ("*.example", "badexample", False),
        ("API.example", "api.EXAMPLE.", True),
        ("*", "anything", True),
    ],
)
def test_hosts_may_be_named(allowed: str, host: str, good: bool) -> None:
    assert (Guard.of([allowed], None).refusal(host=host, origin=None, address=HERE) is None) == good


@pytest.mark.parametrize(
    ("origin", "good"),
    [
        (None, True),
        ("http://localhost:6274", True),
        ("http://127.0.0.1", True),
        ("https://app.example", True),
        ("https://api.example:8000", True),
        ("https://app.example.evil.example", False),
        ("null", False),
        ("https://evil.example", False),
        ("http://[", False),
        ("http://[::1", False),
        ("http://[::1]:80", True),
        ("http://localhost@evil.example", False),
    ],
)
def test_pages_of_this_machine_its_own_and_the_named_ones_may_call(origin: str | None, good: bool) -> None:
    guard = Guard.of(None, ["https://app.example"])
    refusal = guard.refusal(host="api.example:8000", origin=origin, address="10.0.0.5")
    assert (refusal is None) == good
    assert refusal is None or refusal[0] == 403


def test_every_origin_can_be_allowed() -> None:
    assert Guard.of(None, ["*"]).refusal(host="a", origin="https://b", address=None) is None


@pytest.mark.parametrize(("hosts", "origins"), [(["http://a"], None), (None, ["a.example"]), (None, ["http://a/b"])])
def test_a_setting_that_cannot_match_is_refused(hosts: list[str] | None, origins: list[str] | None) -> None:
    with pytest.raises(SettingInvalid):
        Guard.of(hosts, origins)
