"""What holds for the repository as a whole: layout, sizes, portable files."""

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "bascule"
NOT_OURS = {"node_modules", "build", "dist", "site", "htmlcov", "__pycache__"}
HEAVY = ("authlib", "httpx", "jwt", "mcp", "mcp_types", "rich", "starlette", "uvicorn")

MACHINE_SPECIFIC = re.compile(
    r"""
      (?<![\w.~/-])/(?:work|root|home/\w+|Users/\w+)(?=/|\b(?![-\w]))  # a folder of one machine
    | (?:extra-)?index-url                                             # where packages are fetched from
    | https?://[^\s"'<>]*/simple/?(?=[\s"'<>)]|$)
    """,
    re.VERBOSE,
)


def repository_files() -> list[Path]:
    """Return the files that belong to the project: git's view, or the whole tree where there is no git."""
    listing = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if listing.returncode == 0 and listing.stdout:
        paths = [ROOT / name for name in listing.stdout.split("\0") if name]
    else:
        paths = list(ROOT.rglob("*"))
    return [path for path in paths if path.is_file() and not _is_foreign(path.relative_to(ROOT))]


def _is_foreign(path: Path) -> bool:
    return any(part in NOT_OURS or (part.startswith(".") and part != ".ci") for part in path.parts[:-1])


def python_files(*folders: str) -> list[Path]:
    files = [path for path in repository_files() if path.suffix == ".py" and "_generated" not in path.parts]
    return [path for path in files if path.relative_to(ROOT).parts[0] in folders]


def functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def code_lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Count the lines of a function from `def` to its end, without its docstring."""
    assert function.end_lineno is not None
    first = function.body[0]
    docstring = 0
    if ast.get_docstring(function) is not None:
        assert first.end_lineno is not None
        docstring = first.end_lineno - first.lineno + 1
    return function.end_lineno - function.lineno + 1 - docstring


@pytest.mark.requirement("C06")
def test_the_four_names_of_the_design_are_nested_and_no_folder_hides_a_package() -> None:
    taken = {"acp", "auth", "tools", "mcp", "mcp_server", "httpx"}
    hiding = [
        path.relative_to(ROOT).as_posix()
        for path in repository_files()
        if path.relative_to(ROOT).parts[0] in taken
        or (path.stem in taken and path.suffix == ".py" and not path.is_relative_to(PACKAGE))
    ]
    assert hiding == []


def test_type_information_covers_every_subpackage() -> None:
    assert (PACKAGE / "py.typed").is_file()
    folders = {path.parent for path in PACKAGE.rglob("*.py")}
    # A folder without __init__.py is outside the marker: it is not part of the typed package.
    assert [folder for folder in sorted(folders) if not (folder / "__init__.py").is_file()] == []


def test_no_test_folder_is_a_package() -> None:
    assert [path for path in repository_files() if path.name == "__init__.py" and "tests" in path.parts] == []


def test_a_function_has_at_most_sixty_lines() -> None:
    too_long = [
        f"{path.relative_to(ROOT)}:{function.lineno} {function.name}: {code_lines(function)} lines"
        for path in python_files("bascule", "tests", "benchmarks", "examples", ".ci")
        for function in functions(path)
        if code_lines(function) > 60
    ]
    assert too_long == []


def test_no_file_names_a_machine_or_a_package_index() -> None:
    found: list[str] = []
    for path in repository_files():
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        if path != Path(__file__).resolve():
            found += [f"{path.relative_to(ROOT)}: {hit.group()}" for hit in MACHINE_SPECIFIC.finditer(text)]
    assert found == []


@pytest.mark.parametrize(
    ("text", "hit"),
    [
        ("cd /work/thing", True),
        ("/root", True),
        ("HOME=/home/someone", True),
        ("pip install --index-url x", True),
        ("https://packages.example/simple", True),
        ("/workflows/{id}", False),
        ("a/root/file", False),
        ("https://example.org/simple-guide.html", False),
    ],
)
def test_the_pattern_for_machine_specific_text(text: str, hit: bool) -> None:
    assert bool(MACHINE_SPECIFIC.search(text)) is hit


def test_constraints_pin_every_dependency_and_nothing_else_than_versions() -> None:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = [line for line in lines if line and not line.startswith("#")]
    assert [line for line in pins if not re.fullmatch(r"[a-z0-9.-]+==[\w.!+]+", line)] == []
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    wanted: list[str] = list(project["project"]["dependencies"])
    for group in project["dependency-groups"].values():
        wanted += group
    names = {re.split(r"[^\w.-]", requirement, maxsplit=1)[0].lower() for requirement in wanted}
    assert names - {line.partition("==")[0] for line in pins} == set()


def test_make_lists_every_promised_target() -> None:
    listing = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    promised = {"run", "test", "check", "cov", "acceptance", "peers", "chaos", "bench", "docs", "clean", "help"}
    assert promised - set(re.findall(r"make (\w+)", listing)) == set()


@pytest.mark.requirement("F04")
def test_importing_the_package_loads_no_heavy_package() -> None:
    code = f"import sys, bascule; print([name for name in {HEAVY!r} if name in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"
