"""URI templates of resources: the part of RFC 6570 that a server can also read backwards.

``{name}`` stands for one path segment, ``{+name}`` and ``{name*}`` for several, ``{?a,b}`` for query parameters.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import parse_qsl, unquote

from bascule.errors import ConfigurationError

__all__ = ["UriTemplate"]

_EXPRESSION = re.compile(r"\{([^{}]*)\}")
_PATH = re.compile(r"(\+?)([A-Za-z_]\w*)(\*?)\Z")
_QUERY = re.compile(r"\?([A-Za-z_]\w*(?:,[A-Za-z_]\w*)*)\Z")


@dataclass(frozen=True, slots=True)
class UriTemplate:
    """A template and how to read a URI with it.

    Attributes:
        text: the template as it was written.
        names: its parameters.
        required: the parameters that every matching URI has.
    """

    text: str
    names: tuple[str, ...]
    required: frozenset[str]
    _pattern: re.Pattern[str]
    _query: tuple[str, ...]

    @classmethod
    def parse(cls, text: str) -> "UriTemplate":
        """Read a template.

        Raises:
            ConfigurationError: it uses a form that cannot be read backwards, or names a parameter twice.
        """
        names: list[str] = []
        query: tuple[str, ...] = ()
        pattern, end = "", 0
        for found in _EXPRESSION.finditer(text):
            pattern += re.escape(text[end : found.start()])
            end = found.end()
            if (asked := _QUERY.match(found[1])) and end == len(text):
                query = tuple(asked[1].split(","))
            elif segment := _PATH.match(found[1]):
                many = segment[1] or segment[3]
                pattern += f"(?P<{segment[2]}>{'.+' if many else '[^/?#]+'})"
                names.append(segment[2])
            else:
                raise ConfigurationError(
                    f"The resource template {text!r} has {found[0]!r}, which is not supported. Use {{name}} for one "
                    "segment of the path, {+name} for several, and {?a,b} at the end for query parameters."
                )
        pattern += re.escape(text[end:])
        everything = (*names, *query)
        if len(set(everything)) != len(everything):
            raise ConfigurationError(f"The resource template {text!r} names a parameter twice.")
        return cls(text, everything, frozenset(names), re.compile(pattern, re.DOTALL), query)

    @property
    def fixed(self) -> bool:
        """Whether it has no parameters: a plain URI."""
        return not self.names

    def match(self, uri: str) -> dict[str, str] | None:
        """Return the parameters of a URI, decoded; ``None`` when it is not of this template."""
        given = ""
        if self._query:
            uri, _, given = uri.partition("?")
        found = self._pattern.fullmatch(uri)
        if found is None:
            return None
        values = {name: unquote(value) for name, value in found.groupdict().items()}
        asked: Mapping[str, str] = dict(parse_qsl(given, keep_blank_values=True))
        return {**values, **{name: asked[name] for name in self._query if name in asked}}
