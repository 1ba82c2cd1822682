from datetime import UTC, datetime

import pytest

from bascule.errors import ModelError
from bascule.models._endpoint import Endpoint, bare_url, retry_after_seconds
from bascule.models._http import retry_delay

NOW = datetime(2026, 1, 1, tzinfo=UTC)
ENDPOINT = Endpoint(
    provider="openai", model_id="m", url="http://x/v1", key_env="OPENAI_API_KEY", secrets=("sk-secret",)
)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": "1.5"}, 1.5),
        ({"retry-after-ms": "250", "retry-after": "7"}, 0.25),
        ({"retry-after": "Thu, 01 Jan 2026 00:01:00 GMT"}, 60.0),
        ({"retry-after": "Thu, 01 Jan 2026 00:01:00"}, 60.0),
        ({"retry-after": "Wed, 31 Dec 2025 00:00:00 GMT"}, 0.0),
        ({"retry-after": "soon"}, None),
        ({"retry-after-ms": "soon"}, None),
    ],
)
def test_a_server_may_ask_to_wait_in_several_forms(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after_seconds(headers, now=NOW) == seconds


def failed(retry_after: float | None = None) -> ModelError:
    return ModelError("x", kind="server", retry_after=retry_after)


def test_waits_double_up_to_a_limit_and_are_jittered() -> None:
    def wait(attempt: int, chance: float) -> float | None:
        return retry_delay(attempt, failed(), max_retries=9999, backoff=0.5, chance=lambda: chance)

    assert [wait(attempt, 1) for attempt in range(6)] == [0.5, 1, 2, 4, 8, 8]
    assert wait(2, 0) == 1
    assert wait(5000, 1) == 8


def test_the_wait_of_the_server_counts_up_to_a_minute() -> None:
    assert retry_delay(0, failed(60), max_retries=1, backoff=1) == 60
    assert retry_delay(0, failed(61), max_retries=1, backoff=1) is None


def test_no_wait_when_nothing_is_to_be_tried() -> None:
    assert retry_delay(1, failed(), max_retries=1, backoff=1) is None
    assert retry_delay(0, ModelError("x", kind="auth"), max_retries=1, backoff=1) is None


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b'{"error": {"message": "why", "type": "t"}}', "why"),
        (b'{"error": "why"}', "why"),
        (b'[{"error": {"message": "why"}}]', "why"),
        (b'{"detail": "why"}', "why"),
        (b'{"detail": [{"msg": "why"}]}', "why"),
        (b"why", "why"),
        (b"<html>gateway</html>", "page of text/html"),
    ],
)
def test_the_reason_is_found_in_every_form(body: bytes, said: str) -> None:
    error = ENDPOINT.of_response(500, {"content-type": "text/html"}, body)

    assert said in str(error)
    assert "gateway" not in str(error)


def test_no_quota_is_not_a_matter_of_waiting() -> None:
    error = ENDPOINT.of_response(429, {}, b'{"error": {"message": "m", "code": "insufficient_quota"}}')

    assert (error.kind, error.retryable) == ("other", False)
    assert "billing" in str(error)


def test_a_rate_limit_says_how_long() -> None:
    assert "Try again in 3 s." in str(ENDPOINT.of_response(429, {"retry-after": "3"}, b""))
    assert "Try again later." in str(ENDPOINT.of_response(429, {}, b""))


def test_secrets_are_removed_from_everything() -> None:
    errors = [
        ENDPOINT.of_response(500, {}, b'{"error": {"message": "sk-secret"}}'),
        ENDPOINT.of_event({"message": "sk-secret"}),
        ENDPOINT.unreachable("sk-secret"),
        ENDPOINT.cut("sk-secret"),
        ENDPOINT.malformed("sk-secret"),
    ]

    for error in errors:
        assert "sk-secret" not in f"{error} {error.raw!r}"
    assert "sk-secret" not in repr(ENDPOINT)


def test_addresses_are_shown_without_credentials_and_query() -> None:
    assert bare_url("https://user:pw@host:1/v1?key=x#y") == "https://host:1/v1"
