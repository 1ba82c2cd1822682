"""The manifest of promises and the tests that are marked with them agree."""

import ast
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pytest
from pydantic import BaseModel, ConfigDict, TypeAdapter, model_validator

TESTS = Path(__file__).resolve().parent.parent


class Requirement(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    text: str
    source: str
    status: Literal["tested", "gap"]
    tests: tuple[str, ...] = ()
    reason: str = ""

    @model_validator(mode="after")
    def _status_has_its_evidence(self) -> "Requirement":
        if self.status == "tested" and not (self.tests and not self.reason):
            raise ValueError("a tested entry has tests and no reason")
        if self.status == "gap" and not (self.reason and not self.tests):
            raise ValueError("a gap has a reason and no tests")
        return self


@dataclass(frozen=True, slots=True, kw_only=True)
class TestFunction:
    __test__ = False

    node: str
    requirements: frozenset[str]


def _marked_ids(expression: ast.expr) -> Iterator[str]:
    for node in ast.walk(expression):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "pytest.mark.requirement":
            for argument in node.args:
                assert isinstance(argument, ast.Constant), "requirement ids are literals"
                yield str(argument.value)


def _module_ids(body: list[ast.stmt]) -> frozenset[str]:
    """Return the ids in a `pytestmark = ...` of a module or class."""
    return frozenset(
        found
        for statement in body
        if isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == "pytestmark"
        for found in _marked_ids(statement.value)
    )


def _functions(body: list[ast.stmt], prefix: str, inherited: frozenset[str]) -> Iterator[TestFunction]:
    inherited |= _module_ids(body)
    for statement in body:
        if not isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            continue
        own = frozenset(found for mark in statement.decorator_list for found in _marked_ids(mark))
        node = f"{prefix}::{statement.name}"
        if isinstance(statement, ast.ClassDef):
            yield from _functions(statement.body, node, inherited | own)
        elif statement.name.startswith("test"):
            yield TestFunction(node=node, requirements=inherited | own)


def find_tests(folder: Path) -> list[TestFunction]:
    """Return every test function below a folder, without importing anything."""
    return [
        function
        for path in sorted(folder.rglob("test_*.py"))
        for function in _functions(
            ast.parse(path.read_text(encoding="utf-8")).body,
            path.relative_to(folder.parent).as_posix(),
            frozenset(),
        )
    ]


def disagreements(manifest: dict[str, Requirement], tests: list[TestFunction]) -> list[str]:
    """Return a sentence for each place where the manifest and the marked tests do not agree."""
    listed = {(identifier, node) for identifier, entry in manifest.items() for node in entry.tests}
    marked = {(identifier, test.node) for test in tests for identifier in test.requirements}
    nodes = {test.node for test in tests}
    found = [f"{identifier} names {node}, which does not exist" for identifier, node in listed if node not in nodes]
    found += [
        f"{identifier} names {node}, which is not marked" for identifier, node in listed - marked if node in nodes
    ]
    for identifier, node in marked - listed:
        if identifier not in manifest:
            found.append(f"{node} is marked with {identifier}, which the manifest does not have")
        else:
            found.append(f"{node} is marked with {identifier}, whose entry does not list it")
    return sorted(found)


def load_manifest() -> dict[str, Requirement]:
    data = tomllib.loads((TESTS / "requirements.toml").read_text(encoding="utf-8"))
    return TypeAdapter(dict[str, Requirement]).validate_python(data)


def test_every_promise_and_every_marked_test_agree() -> None:
    assert disagreements(load_manifest(), find_tests(TESTS)) == []


def test_a_missing_side_is_found_wherever_it_is_missing(tmp_path: Path) -> None:
    folder = tmp_path / "tests"
    folder.mkdir()
    (folder / "test_sample.py").write_text(
        "import pytest\n"
        "pytestmark = pytest.mark.requirement('X1')\n"
        "@pytest.mark.requirement('X2', 'X9')\n"
        "def test_one(): ...\n"
        "class TestGroup:\n"
        "    @pytest.mark.requirement('X3')\n"
        "    async def test_two(self): ...\n",
        encoding="utf-8",
    )
    one, two = "tests/test_sample.py::test_one", "tests/test_sample.py::TestGroup::test_two"

    def tested(*tests: str) -> Requirement:
        return Requirement(text="t", source="s", status="tested", tests=tests)

    manifest = {
        "X1": tested(one, two),
        "X2": tested(one, "tests/test_sample.py::test_gone"),
        "X3": Requirement(text="t", source="s", status="gap", reason="r"),
        "X4": tested(two),
    }
    assert disagreements(manifest, find_tests(folder)) == [
        "X2 names tests/test_sample.py::test_gone, which does not exist",
        "X4 names tests/test_sample.py::TestGroup::test_two, which is not marked",
        "tests/test_sample.py::TestGroup::test_two is marked with X3, whose entry does not list it",
        "tests/test_sample.py::test_one is marked with X9, which the manifest does not have",
    ]


@pytest.mark.parametrize(
    "entry",
    [
        {"status": "tested"},
        {"status": "gap"},
        {"status": "gap", "reason": "r", "tests": ["tests/unit/test_x.py::test_y"]},
        {"status": "tested", "reason": "r", "tests": ["tests/unit/test_x.py::test_y"]},
    ],
)
def test_a_status_without_its_evidence_is_refused(entry: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"a tested entry|a gap"):
        Requirement.model_validate({"text": "t", "source": "s", **entry})
