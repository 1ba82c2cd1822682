"""How every benchmark prints: a table for people, one JSON object with --json."""

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

__all__ = ["Row", "cpu_seconds", "print_rows"]


@dataclass(frozen=True, kw_only=True)
class Row:
    """One figure.

    Attributes:
        budget: the largest value that is accepted; ``None`` for a figure that is only for comparison.
    """

    name: str
    value: float
    unit: str
    budget: float | None = None

    @property
    def ok(self) -> bool:
        """Whether the figure is within its budget."""
        return self.budget is None or self.value <= self.budget


def print_rows(rows: Sequence[Row]) -> None:
    """Print all rows and leave with 1 when one is over its budget."""
    if "--json" in sys.argv[1:]:
        print(json.dumps({"rows": [{**asdict(row), "ok": row.ok} for row in rows]}))
    else:
        width = max(len(row.name) for row in rows)
        for row in rows:
            budget = "" if row.budget is None else f"  budget {row.budget:g}  {'ok' if row.ok else 'OVER'}"
            print(f"{row.name:<{width}}  {row.value:>10.4g} {row.unit}{budget}")
    sys.exit(0 if all(row.ok for row in rows) else 1)


def cpu_seconds(pid: int) -> float:
    """Return the CPU time that a process has used so far, in seconds (Linux)."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rsplit(")", 1)[1].split()
    ticks = int(fields[11]) + int(fields[12])
    return ticks / 100
