"""Takes secrets out of texts that leave the process: error messages of user code, above all."""

import re

__all__ = ["redact"]

MASK = "[redacted]"

_JWT = r"\beyJ[\w-]{5,}\.[\w-]{5,}\.[\w-]*"
_BEARER = r"\b(?:bearer|basic|dpop)\s+[\w.~+/=-]{6,}"
_KNOWN = r"\b(?:sk|pk|rk|ghp|gho|ghs|github_pat|xox[abprs]|glpat|AKIA|AIza)[-_]?[\w-]{12,}"
_USERINFO = r"(?<=://)[^/\s:@]+:[^/\s@]+(?=@)"
_NAMED = (
    r"\b([\w-]*(?:api[-_]?key|access[-_]?key|key|token|secret|password|passwd|pwd|authorization|credential|signature))"
    r"([\"']?\s*[=:]\s*)(?:\"[^\"]*\"|'[^']*'|[^\s\"',;&)}\]]+)"
)

_WHOLE = re.compile("|".join((_BEARER, _JWT, _USERINFO)), re.IGNORECASE)
_PREFIXED = re.compile(_KNOWN)
_PAIR = re.compile(_NAMED, re.IGNORECASE)


def redact(text: str) -> str:
    """Return ``text`` with bearer tokens, JWTs, well-known keys and ``key=value`` secrets masked."""
    text = _WHOLE.sub(MASK, text)
    text = _PREFIXED.sub(MASK, text)
    return _PAIR.sub(rf"\1\2{MASK}", text)
