"""What an agent costs: to create, to keep, to run with one tool, and for each piece of text; beside its peers.

CPU time, the least of several rounds. Every candidate runs in a process of its own and the rounds are interleaved,
because machines are noisy. A peer has an environment of its own under ``.cache/bench``, made when it is first needed;
one that cannot be installed or run is reported on stderr and left out.

    python benchmarks/agent.py [--json] [--no-peers] [--peers NAME,NAME] [--rounds N]
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from _report import Row, print_rows

ROOT = Path(__file__).parent.parent
WORKERS = Path(__file__).parent / "peers"
ENVIRONMENTS = ROOT / ".cache" / "bench"

QUICKLY = 60.0
"""Seconds that installing a peer may take when nobody asked for it by name."""
PATIENTLY = 900.0
WORKER_TIMEOUT = 300.0

OURS, BARE = "bascule", "bare loop"
BUDGETS = {"create": 5.0, "memory": 2.0, "run": 250.0, "chunk": 3.0}
LABELS = {
    "create": "create an agent",
    "memory": "memory per agent",
    "run": "one-tool run",
    "stream": "one-tool stream",
    "chunk": "text chunk, 2,000 in a run",
}
GROWTH = (
    ("text chunk", "chunk", "2,000 in a run", "chunk, 20000", "20,000 in a run"),
    ("tool result", "result, few steps", "10 steps", "result, many steps", "1,000 steps"),
    ("tool result", "result, few at once", "10 in a step", "result, many at once", "1,000 in a step"),
)
MAY_GROW = 1.5
"""How much dearer a unit may be in a long run: room for noise and for the garbage collector, not for a square."""

Figures: TypeAlias = Mapping[str, float]


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """Something to measure: a worker, and the interpreter that runs it."""

    name: str
    script: str
    python: Path
    variables: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, kw_only=True)
class Peer:
    """An entry of ``peers.toml``."""

    name: str
    script: str
    requirements: Sequence[str]
    environment: Mapping[str, str] = field(default_factory=dict[str, str])


class NotRun(Exception):
    """A peer cannot be installed or run here."""


def main() -> None:
    """Measure and print."""
    peers = {name: Peer(name=name, **entry) for name, entry in tomllib.loads(_data()).items()}
    parser = argparse.ArgumentParser(description="What an agent costs, beside its peers.")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--no-peers", action="store_true", help="only Bascule and the bare loop")
    parser.add_argument("--peers", help=f"a choice of {', '.join(peers)}", default="")
    parser.add_argument("--rounds", type=int, default=3, help="how often each candidate is measured")
    options = parser.parse_args()
    chosen = [name for name in options.peers.split(",") if name]
    unknown = set(chosen) - peers.keys()
    if unknown:
        parser.error(f"no peer is called {', '.join(sorted(unknown))}; they are {', '.join(peers)}")
    names = [] if options.no_peers else chosen or list(peers)
    candidates = [
        Candidate(
            name=OURS, script="bascule_agent.py", python=Path(sys.executable), variables={"PYTHONPATH": str(ROOT)}
        ),
        Candidate(name=BARE, script="bare_loop.py", python=Path(sys.executable)),
        *_installed([peers[name] for name in names], timeout=PATIENTLY if chosen else QUICKLY),
    ]
    print_rows(rows_of(measured(candidates, rounds=options.rounds)))


def _data() -> str:
    return (WORKERS / "peers.toml").read_text(encoding="utf-8")


# --- environments ---


def _installed(peers: Sequence[Peer], *, timeout: float) -> list[Candidate]:
    found: list[Candidate] = []
    for peer in peers:
        try:
            python = environment(peer, timeout=timeout)
        except NotRun as reason:
            _report(peer.name, reason)
        else:
            found.append(Candidate(name=peer.name, script=peer.script, python=python, variables=peer.environment))
    return found


def environment(peer: Peer, *, timeout: float) -> Path:
    """Return the interpreter that has the peer, in the version of the data file.

    Raises:
        NotRun: it cannot be installed in this time.
    """
    folder = ENVIRONMENTS / peer.name
    python, stamp = folder / "bin" / "python", folder / "installed.txt"
    wanted = "\n".join(peer.requirements)
    if stamp.is_file() and stamp.read_text(encoding="utf-8").strip() == wanted:
        return python
    shutil.rmtree(folder, ignore_errors=True)
    _call([sys.executable, "-m", "venv", str(folder)], timeout=timeout)
    pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--retries", "1"]
    try:
        _call([*pip, *peer.requirements], timeout=timeout)
    except NotRun:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    stamp.write_text(wanted + "\n", encoding="utf-8")
    return python


def _call(command: Sequence[str], *, timeout: float, variables: Mapping[str, str] | None = None) -> str:
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=True,
            env={**os.environ, **(variables or {})},
        )
    except subprocess.TimeoutExpired:
        raise NotRun(f"it took longer than {timeout:g} s; name it with --peers to give it more time") from None
    except subprocess.CalledProcessError as error:
        lines: list[str] = error.stderr.strip().splitlines() or [f"exit status {error.returncode}"]
        raise NotRun(lines[-1]) from None
    return done.stdout


def _report(name: str, reason: object) -> None:
    print(f"{name}: not run: {reason}", file=sys.stderr)


# --- measuring ---


def measured(candidates: Sequence[Candidate], *, rounds: int) -> Mapping[str, Figures]:
    """Return the least of each figure over all rounds, by candidate.

    Raises:
        NotRun: one of our own two workers failed.
    """
    best: dict[str, dict[str, float]] = {}
    going = list(candidates)
    for turn in range(rounds):
        start = turn % len(going)
        for candidate in going[start:] + going[:start]:
            command = [str(candidate.python), str(WORKERS / candidate.script)]
            try:
                printed = _call(command, timeout=WORKER_TIMEOUT, variables=candidate.variables)
            except NotRun as reason:
                if candidate.name in (OURS, BARE):
                    raise
                _report(candidate.name, reason)
                going.remove(candidate)
                best.pop(candidate.name, None)
                continue
            figures: dict[str, float] = json.loads(printed.splitlines()[-1])
            known = best.setdefault(candidate.name, figures)
            best[candidate.name] = {name: min(value, known[name]) for name, value in figures.items()}
    return best


# --- rows ---


def rows_of(best: Mapping[str, Figures]) -> list[Row]:
    """Return our figures with their budgets, how they grow, and then everybody's, with the ratios."""
    ours, bare = best[OURS], best[BARE]
    rows = [Row(name=LABELS[key], value=ours[key], unit=_unit(key), budget=BUDGETS.get(key)) for key in LABELS]
    for what, few, short, many, long in GROWTH:
        if few != "chunk":
            rows.append(Row(name=f"{what}, {short}", value=ours[few], unit="us"))
        rows.append(Row(name=f"{what}, {long}", value=ours[many], unit="us"))
        rows.append(Row(name=f"{what}, {long} / {short}", value=ours[many] / ours[few], unit="x", budget=MAY_GROW))
    for key, label in LABELS.items():
        rows.append(Row(name=f"{label}: bare loop", value=bare[key], unit=_unit(key)))
        rows.append(Row(name=f"{label}: ours / bare loop", value=ours[key] / bare[key], unit="x"))
        for name, figures in best.items():
            if name not in (OURS, BARE):
                rows.append(Row(name=f"{label}: {name}", value=figures[key], unit=_unit(key)))
                rows.append(Row(name=f"{label}: {name} / ours", value=figures[key] / ours[key], unit="x"))
    return rows


def _unit(key: str) -> str:
    return "KiB" if key == "memory" else "us"


if __name__ == "__main__":
    main()
