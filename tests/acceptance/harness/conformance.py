"""The official conformance suite, one leg at a time, and its verdict in a form that can be kept in a file.

The suite leaves a folder of checks for each scenario. A check is known here as `scenario:check`, the spelling of the
suite's own lists of expected failures.
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

import yaml
from pydantic import BaseModel, ConfigDict, TypeAdapter

from tests.acceptance.harness.processes import run_to_end
from tests.acceptance.harness.surroundings import Surroundings

LEG_TIMEOUT = 180
FOLDER = re.compile(r"server-(?P<scenario>.+)-\d{4}-\d\d-\d\dT[\d-]+Z")


class Verdict(BaseModel):
    """The score of a leg and the checks behind it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    passed: int
    failed: int
    expected_failures: tuple[str, ...] = ()


class Check(BaseModel):
    """One check of a scenario; a warning counts as a failure, as it does for the suite's own baseline."""

    id: str
    status: Literal["SUCCESS", "FAILURE", "WARNING", "SKIPPED", "INFO"]


def read_verdicts(path: Path) -> Mapping[str, Verdict]:
    """The recorded verdicts, by leg."""
    return TypeAdapter(dict[str, Verdict]).validate_python(yaml.safe_load(path.read_text(encoding="utf-8")))


def write_verdict(leg: str, verdict: Verdict) -> str:
    """A verdict as it stands in the file."""
    lines = [f"{leg}:", f"  passed: {verdict.passed}", f"  failed: {verdict.failed}"]
    if verdict.expected_failures:
        lines += ["  expected_failures:", *(f"    - {check}" for check in verdict.expected_failures)]
    return "\n".join(lines)


def run_leg(command: Sequence[str], url: str, options: Sequence[str], *, surroundings: Surroundings) -> Verdict:
    """Run the suite against a server with the options of one leg."""
    output = surroundings.root / "conformance"
    arguments = [*command, "server", "--url", url, *options, "--output-dir", str(output)]
    done = run_to_end(arguments, env=surroundings.environment(), cwd=surroundings.project, timeout=LEG_TIMEOUT)
    assert done.exit_code is not None, done.describe()
    scenarios = {_scenario(path): _checks(path) for path in output.glob("*/checks.json")}
    assert scenarios, done.describe()
    failures = [
        f"{scenario}:{check.id}"
        for scenario, checks in scenarios.items()
        for check in checks
        if check.status in {"FAILURE", "WARNING"}
    ]
    return Verdict(
        passed=sum(check.status == "SUCCESS" for checks in scenarios.values() for check in checks),
        failed=len(failures),
        expected_failures=tuple(sorted(set(failures))),
    )


def _scenario(path: Path) -> str:
    found = FOLDER.fullmatch(path.parent.name)
    assert found is not None, f"the suite names its folders differently now: {path.parent.name}"
    return found["scenario"]


def _checks(path: Path) -> list[Check]:
    return TypeAdapter(list[Check]).validate_json(path.read_bytes())
