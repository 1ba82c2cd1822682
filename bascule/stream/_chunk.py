"""What all stream events have in common.

An event's payload has one entry for every attribute, named in camelCase, and leaves out what is ``None`` where that is
the default. ``wire_keys`` names some of them differently; a class writes its own ``_payload`` for speed, or because its
payload is nested. An attribute that takes no part in comparison never is on the wire.
"""

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from typing import ClassVar, Literal, NamedTuple, TypeAlias, cast

from bascule.messages import JsonValue

__all__ = ["Chunk", "Sender", "Wire", "WireField", "present", "wire_fields"]

Sender = Literal["AGENT", "USER", "SYSTEM", "WORKFLOW", "NETWORK"]

Wire: TypeAlias = dict[str, JsonValue]


@dataclass(frozen=True, slots=True)
class Chunk:
    """One event of a run's stream.

    Attributes:
        type: the event's kind, as on the wire.
        sender: who speaks, ``from`` on the wire.
        wire_keys: attributes whose name on the wire is not their own in camelCase.
        run_id: the run that it belongs to.
    """

    run_id: str
    type: ClassVar[str]
    sender: ClassVar[Sender] = "AGENT"
    wire_keys: ClassVar[Mapping[str, str]] = {}

    def _payload(self) -> Wire:
        """Return the event's own fields in wire spelling."""
        wire: Wire = {}
        for field in wire_fields(type(self)):
            value = cast("JsonValue", getattr(self, field.name))  # plain events hold JSON values only
            if value is not None or not field.optional:
                wire[field.key] = value
        return wire

    def to_wire(self) -> Wire:
        """Return ``{type, runId, from, payload}`` as plain JSON values."""
        return {"type": self.type, "runId": self.run_id, "from": self.sender, "payload": self._payload()}


class WireField(NamedTuple):
    """How one attribute of an event is written.

    Attributes:
        name: the attribute.
        key: its name on the wire.
        kind: its annotation.
        optional: whether it may be left out: it has a default.
    """

    name: str
    key: str
    kind: object
    optional: bool


_fields: dict[type[Chunk], tuple[WireField, ...]] = {}


def wire_fields(kind: type[Chunk]) -> tuple[WireField, ...]:
    """Return the attributes of an event's class that are on the wire."""
    known = _fields.get(kind)
    if known is None:
        keys = kind.wire_keys
        known = _fields[kind] = tuple(
            WireField(field.name, keys.get(field.name) or _camel(field.name), field.type, field.default is not MISSING)
            for field in fields(kind)
            if field.name != "run_id" and field.compare
        )
    return known


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


def present(values: Wire) -> Wire:
    """Leave out what is ``None``."""
    return {key: value for key, value in values.items() if value is not None}
