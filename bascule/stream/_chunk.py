"""What all stream events have in common."""

from dataclasses import dataclass
from typing import ClassVar, Literal, TypeAlias

from bascule.messages import JsonValue

__all__ = ["Chunk", "Sender", "Wire", "present"]

Sender = Literal["AGENT", "USER", "SYSTEM", "WORKFLOW"]

Wire: TypeAlias = dict[str, JsonValue]


@dataclass(frozen=True, slots=True)
class Chunk:
    """One event of a run's stream.

    Attributes:
        type: the event's kind, as on the wire.
        sender: who speaks, ``from`` on the wire.
        run_id: the run that it belongs to.
    """

    run_id: str
    type: ClassVar[str]
    sender: ClassVar[Sender] = "AGENT"

    def _payload(self) -> Wire:
        """Return the event's own fields in wire spelling."""
        return {}

    def to_wire(self) -> Wire:
        """Return ``{type, runId, from, payload}`` as plain JSON values."""
        return {"type": self.type, "runId": self.run_id, "from": self.sender, "payload": self._payload()}


def present(values: Wire) -> Wire:
    """Leave out what is ``None``."""
    return {key: value for key, value in values.items() if value is not None}
