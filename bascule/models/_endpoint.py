"""From what a model server says went wrong to a ``ModelError`` that says what to do."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from urllib.parse import urlsplit, urlunsplit

from pydantic_core import from_json

from bascule.errors import ModelError
from bascule.models._errors import ErrorKind, kind_of_status
from bascule.models._prompt import json_text
from bascule.models._sse import Json

__all__ = ["Endpoint", "bare_url", "retry_after_seconds"]

_SHOWN = 500
_TYPES: Mapping[str, ErrorKind] = {
    "rate_limit_exceeded": "rate_limit",
    "rate_limit_error": "rate_limit",
    "authentication_error": "auth",
    "permission_error": "auth",
    "invalid_api_key": "auth",
    "invalid_request_error": "bad_request",
    "context_length_exceeded": "bad_request",
    "invalid_prompt": "bad_request",
    "request_too_large": "bad_request",
    "model_not_found": "not_found",
    "not_found_error": "not_found",
    "previous_response_not_found": "bad_request",
    "timeout": "timeout",
    "timeout_error": "timeout",
    "billing_error": "other",
}


def bare_url(url: str) -> str:
    """Return a URL without credentials and query, fit to be shown."""
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def retry_after_seconds(headers: Mapping[str, str], *, now: datetime | None = None) -> float | None:
    """Return how long a server asks to wait, from ``retry-after-ms`` or ``Retry-After`` as seconds or a date."""
    try:
        if "retry-after-ms" in headers:
            return max(0.0, float(headers["retry-after-ms"]) / 1000)
        text = headers.get("retry-after", "").strip()
        if not text:
            return None
        if text.replace(".", "", 1).isdigit():
            return float(text)
        date = parsedate_to_datetime(text)
        date = date if date.tzinfo is not None else date.replace(tzinfo=UTC)
        return max(0.0, (date - (now or datetime.now(UTC))).total_seconds())
    except ValueError:
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """Who is talked to; makes its errors.

    Attributes:
        provider: the provider's name.
        model_id: the model.
        url: the address, as it may be shown.
        key_env: environment variable of the key, ``None`` when the key comes from the caller.
        hint: what to do when the server cannot be reached.
        url_form: what base URLs look like, as the end of a sentence.
        secrets: texts that are removed from everything the server says.
    """

    provider: str
    model_id: str
    url: str
    key_env: str | None = None
    hint: str = ""
    url_form: str = ", which mostly ends in /v1"
    secrets: Sequence[str] = field(default=(), repr=False)

    def redact(self, text: str) -> str:
        """Return a text without secrets."""
        for secret in filter(None, self.secrets):
            text = text.replace(secret, "***")
        return text

    def of_response(self, status: int, headers: Mapping[str, str], body: bytes) -> ModelError:
        """Return the error for an answer that is not a success."""
        text = self.redact(body.decode(errors="replace"))
        raw, said, code = _read_body(text)
        said = said or (f"it answered with a page of {headers.get('content-type', 'no type')}" if raw is None else "")
        kind: ErrorKind = "other" if code == "insufficient_quota" else kind_of_status(status)
        message = f"{self._what(kind, status, code)} {self._advice(kind, status, code, headers)}".strip()
        return ModelError(
            f"{message} The server says: {said[:_SHOWN]}" if said else message,
            kind=kind,
            status=status,
            retry_after=retry_after_seconds(headers),
            raw=raw if raw is not None else text[: 4 * _SHOWN],
        )

    def of_event(self, error: Json) -> ModelError:
        """Return the error for an error object inside the stream."""
        cleared: Json = from_json(self.redact(json_text(error)))
        raw, said, code = _read_error(cleared)
        status = int(code) if code.isdigit() and 400 <= int(code) < 600 else None
        kind: ErrorKind = kind_of_status(status) if status is not None else _TYPES.get(code, "server")
        said = said[:_SHOWN] or "no reason given"
        return ModelError(f"{self._name} failed while it answered: {said}", kind=kind, status=status, raw=raw)

    def unreachable(self, reason: str) -> ModelError:
        """Return the error for a connection that cannot be made."""
        advice = self.hint or "Check the base URL and the network."
        return ModelError(
            f"Cannot reach {self.provider} at {self.url} ({self.redact(reason)}). {advice}", kind="connection"
        )

    def timed_out(self, what: str) -> ModelError:
        """Return the error for a wait that ended."""
        return ModelError(f"{self._name} at {self.url} {what}.", kind="timeout")

    def cut(self, reason: str) -> ModelError:
        """Return the error for a connection that ended in the middle of the answer."""
        return ModelError(
            f"The connection to {self._name} at {self.url} was cut before the answer was whole "
            f"({self.redact(reason)}).",
            kind="connection",
        )

    def malformed(self, reason: str) -> ModelError:
        """Return the error for an answer that is not what the interface promises."""
        return ModelError(f"{self._name} at {self.url} sent {self.redact(reason)}.", kind="protocol")

    @property
    def _name(self) -> str:
        return f"{self.provider} ({self.model_id})"

    def _what(self, kind: ErrorKind, status: int, code: str) -> str:
        if code == "insufficient_quota":
            return f"The account at {self.provider} has no quota left (HTTP {status})."
        if status == 403:
            return f"{self._name} does not allow this call (HTTP {status})."
        if kind == "auth":
            return f"{self.provider} refused the API key (HTTP {status})."
        if kind == "not_found":
            return f"{self.provider} knows no model {self.model_id!r} at {self.url} (HTTP {status})."
        if kind == "rate_limit":
            return f"{self.provider} limits the rate of calls (HTTP {status})."
        if kind == "bad_request":
            return f"{self._name} refused the request (HTTP {status})."
        if 300 <= status < 400:
            return f"{self.url} redirects (HTTP {status}) and is not followed."
        return f"{self._name} failed (HTTP {status})."

    def _advice(self, kind: ErrorKind, status: int, code: str, headers: Mapping[str, str]) -> str:
        if code == "insufficient_quota":
            return "Check its plan and billing."
        if status == 403:
            return "Check what the API key may do."
        if kind == "auth":
            return self.key_advice
        if kind == "not_found":
            return f"Check the model's name and the base URL{self.url_form}."
        if kind == "rate_limit":
            wait = retry_after_seconds(headers)
            return f"Try again in {wait:g} s." if wait else "Try again later."
        if status in (503, 529):
            return "It is overloaded; try again later."
        if 300 <= status < 400:
            return f"Use {bare_url(headers.get('location', ''))!r} as the base URL."
        return ""

    @property
    def key_advice(self) -> str:
        """What to do about a key that is missing or refused."""
        return f"Set {self.key_env} to a valid key, or pass api_key=..." if self.key_env else "Pass a valid api_key=..."


def _read_body(text: str) -> tuple[object, str, str]:
    """Return the parsed body, its message and its code; ``None`` for a body that is not JSON."""
    try:
        value: Json = from_json(text)
    except ValueError:
        page = text.lstrip().startswith("<")
        return None, "" if page else text.strip(), ""
    return _read_error(value[0] if isinstance(value, list) and value else value)


def _read_error(value: Json) -> tuple[object, str, str]:
    error: Json = value
    while isinstance(error, dict) and isinstance(error.get("error"), dict | str):
        error = error["error"]
    if not isinstance(error, dict):
        return value, error if isinstance(error, str) else "", ""
    said = next((error[key] for key in ("message", "detail", "msg") if error.get(key)), "")
    code = next((error[key] for key in ("code", "type", "status") if error.get(key)), "")
    return value, said if isinstance(said, str) else str(said), str(code)
