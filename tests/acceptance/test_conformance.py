"""The official conformance suite against an app that is written with the public names alone.

`conformance-expected-failures.yml` holds the score of every leg and the checks that are known to fail. A check that
fails and is not listed there is a regression; a listed one that no longer fails is stale: either fails the test, which
then says what the file should hold.
"""

import ast
import sys
from pathlib import Path

import pytest

from tests.acceptance.conftest import Program
from tests.acceptance.harness.conformance import read_verdicts, run_leg, write_verdict
from tests.acceptance.harness.served import serving
from tests.acceptance.harness.surroundings import Surroundings

HERE = Path(__file__).parent
APP = HERE / "apps" / "mcp_everything.py"
EXPECTED = HERE / "conformance-expected-failures.yml"
LEGS = {
    "requirements 2025-11-25": ["--requirements", "2025-11-25"],
    "requirements 2026-07-28": ["--requirements", "2026-07-28"],
    "all at 2025-11-25": ["--suite", "all", "--spec-version", "2025-11-25"],
    "all at 2026-07-28": ["--suite", "all", "--spec-version", "2026-07-28"],
    "all": ["--suite", "all"],
}


@pytest.mark.requirement("F49")
@pytest.mark.parametrize("leg", LEGS)
def test_the_conformance_score_is_the_recorded_one(program: Program, surroundings: Surroundings, leg: str) -> None:
    command = program("conformance")
    with serving(str(APP), surroundings=surroundings) as served:
        # The rebinding scenario sends foreign host names: the suite wants a name here, not an address.
        url = f"http://localhost:{served.port}/mcp"
        verdict = run_leg(command, url, LEGS[leg], surroundings=surroundings)
    recorded = read_verdicts(EXPECTED).get(leg)
    assert recorded is not None, f"no verdict is recorded; record this one:\n{write_verdict(leg, verdict)}"
    regressions = set(verdict.expected_failures) - set(recorded.expected_failures)
    stale = set(recorded.expected_failures) - set(verdict.expected_failures)
    told = f"new failures: {sorted(regressions)}\nstale entries: {sorted(stale)}\n{write_verdict(leg, verdict)}"
    assert verdict == recorded, told


@pytest.mark.requirement("F49")
def test_the_app_under_test_imports_bascule_and_the_standard_library_only() -> None:
    imported: set[str] = set()
    for node in ast.walk(ast.parse(APP.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            imported |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "a relative import reaches the tests"
            imported.add(node.module or "")
    private = {
        name for name in imported if any(part.startswith("_") for part in name.split(".")) and name != "__future__"
    }
    assert not private, "private modules are not part of the public interface"
    roots = {name.partition(".")[0] for name in imported}
    assert roots - sys.stdlib_module_names == {"bascule"}
