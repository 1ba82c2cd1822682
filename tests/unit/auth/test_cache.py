"""The memory of verified tokens."""

from bascule.auth._cache import TokenCache
from bascule.context import Principal

ALICE = Principal(id="alice")


def test_d21_a_hundred_thousand_tokens_do_not_fill_the_memory() -> None:
    cache = TokenCache(ttl=300, size=1000)
    for number in range(100_000):
        cache.put(number, ALICE, now=0, until=100)
    assert len(cache) == 1000
    assert cache.get(98_999, 1) is None
    assert cache.get(99_000, 1) is ALICE


def test_an_entry_ends_with_the_earlier_of_token_and_ttl() -> None:
    cache = TokenCache(ttl=300, size=10)
    cache.put("short", ALICE, now=0, until=10)
    cache.put("long", ALICE, now=0, until=9999)
    assert cache.get("short", 9.9) is ALICE
    assert cache.get("short", 10) is None
    assert cache.get("long", 299.9) is ALICE
    assert cache.get("long", 300) is None
    assert len(cache) == 0


def test_nothing_is_remembered_without_time_or_room() -> None:
    for cache in (TokenCache(ttl=0, size=10), TokenCache(ttl=300, size=0)):
        cache.put("token", ALICE, now=0, until=100)
        assert cache.get("token", 0) is None
    cache = TokenCache(ttl=300, size=10)
    cache.put("expired", ALICE, now=100, until=100)
    assert len(cache) == 0


def test_remembering_again_does_not_push_others_out() -> None:
    cache = TokenCache(ttl=300, size=2)
    for key in ("a", "b", "a", "a"):
        cache.put(key, ALICE, now=0, until=100)
    assert cache.get("b", 1) is ALICE
    cache.clear()
    assert len(cache) == 0
