"""Takes secrets out of texts that leave the process."""

import re

__all__ = ["failure_text", "redact"]

_PATTERNS = (
    re.compile(r"\b(bearer|basic|dpop)\s+[A-Za-z0-9._~+/=-]{8,}", re.IGNORECASE),
    re.compile(r"\beyJ[A-Za-z0-9_-]{5,}\.[A-Za-z0-9_-]{5,}\.[A-Za-z0-9_-]*"),
    re.compile(r"\b(?:sk|pk|rk|bsk|ghp|gho|ghs|xox[abprs])[-_][A-Za-z0-9_-]{10,}"),
    re.compile(r"(?<=://)[^/\s:@]+:[^/\s@]+(?=@)"),
)
_PAIR = re.compile(
    r"(?i)\b([\w-]*(?:api[_-]?key|access[_-]?key|secret|token|password|passwd|authorization|key))"
    r"(\"?'?\s*[=:]\s*\"?'?)([^\s\"',;&]{4,})"
)


def redact(text: str) -> str:
    """Return ``text`` with bearer tokens, JWTs, keys and passwords replaced by ``[redacted]``."""
    for pattern in _PATTERNS:
        text = pattern.sub("[redacted]", text)
    return _PAIR.sub(r"\1\2[redacted]", text)


def failure_text(error: BaseException) -> str:
    """Return what a caller is shown of an exception that a tool raised: its class and message, without secrets."""
    message = redact(str(error)).strip()
    return f"{type(error).__name__}: {message}" if message else type(error).__name__
