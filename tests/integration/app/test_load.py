"""From a file to an app: what is found, and what is said when it is not."""

import subprocess
import sys
from pathlib import Path

import pytest

from bascule.cli._load import load_app
from bascule.errors import AmbiguousApp, AppImportFailed, AppNotFound
from bascule.settings import Settings

TOOL = "from bascule import tool\n@tool\ndef add(a: int, b: int) -> int:\n    'Add.'\n    return a + b\n"


def write(folder: Path, text: str, name: str = "served.py") -> str:
    path = folder / name
    path.write_text(text)
    return str(path)


def load(target: str) -> "list[str]":
    app = load_app(target, Settings())
    return [app.name, *app.tools, *app.agents, *app.workflows]


def test_a_file_with_only_tools_is_an_app_named_after_it(tmp_path: Path) -> None:
    assert load(write(tmp_path, TOOL)) == ["served", "add"]


@pytest.mark.parametrize("name", ["app", "server", "mcp", "whatever"])
def test_the_app_is_found_under_the_usual_names_and_when_it_is_the_only_one(tmp_path: Path, name: str) -> None:
    text = f"{TOOL}from bascule import Bascule\n{name} = Bascule('named', tools=[add])\n"
    assert load(write(tmp_path, text)) == ["named", "add"]


def test_a_name_after_the_colon_chooses(tmp_path: Path) -> None:
    text = (
        f"{TOOL}from bascule import Agent, Bascule\none = Bascule()\ntwo = Bascule(tools=[add])\nhelper = Agent('h')\n"
    )
    target = write(tmp_path, text)
    assert load(f"{target}:two") == ["served", "add"]
    assert load(f"{target}:helper") == ["served", "h"]
    with pytest.raises(AppNotFound, match=r"has no variable .three.\. It has add, one, two, helper"):
        load(f"{target}:three")
    with pytest.raises(AppNotFound, match=r"'Bascule' in .* is type; it has to be a Bascule"):
        load(f"{target}:Bascule")


def test_modules_beside_the_file_can_be_imported(tmp_path: Path) -> None:
    write(tmp_path, TOOL, "beside_the_app.py")
    assert load(write(tmp_path, "from beside_the_app import add\n")) == ["served", "add"]


def test_a_file_may_be_named_like_a_package_it_needs(tmp_path: Path) -> None:
    assert load(write(tmp_path, TOOL, "click.py")) == ["click", "add"]


@pytest.mark.requirement("F50")
def test_a_missing_file_is_named_with_a_way_on(tmp_path: Path) -> None:
    with pytest.raises(AppNotFound, match=r"There is no file nowhere\.py\. Name an existing one, or .*bascule new"):
        load("nowhere.py")
    with pytest.raises(AppNotFound, match="is a folder"):
        load(str(tmp_path))


@pytest.mark.requirement("F51")
def test_a_file_without_an_app_says_how_to_add_one(tmp_path: Path) -> None:
    with pytest.raises(AppNotFound, match=r"has nothing to serve.*Put @tool above a function"):
        load(write(tmp_path, "x = 1\n"))


@pytest.mark.requirement("F52")
def test_a_file_with_two_apps_says_how_to_choose(tmp_path: Path) -> None:
    text = "from bascule import Bascule\none = Bascule()\ntwo = Bascule()\n"
    with pytest.raises(AmbiguousApp, match=r"has 2 apps: one, two\. Name one, for example served\.py:one"):
        load(write(tmp_path, text))


@pytest.mark.requirement("F53")
def test_an_error_in_the_file_is_shown_with_its_place(tmp_path: Path) -> None:
    with pytest.raises(AppImportFailed, match=r"served\.py, line 2: invalid syntax"):
        load(write(tmp_path, "x = 1\ndef = 3\n"))
    with pytest.raises(AppImportFailed, match=r"served\.py, line 2: ZeroDivisionError: division by zero"):
        load(write(tmp_path, "x = 1\ny = x / 0\n"))
    with pytest.raises(AppImportFailed, match=r"No module named 'not_there'\. Install it into the environment"):
        load(write(tmp_path, "import not_there\n"))
    with pytest.raises(AppImportFailed, match=r"called sys\.exit\(3\)"):
        load(write(tmp_path, "import sys\nsys.exit(3)\n"))


@pytest.mark.requirement("F50", "F53")
@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "Error: There is no file"),
        ("def = 1", "line 1: invalid syntax"),
        ("x = 1", "has nothing to serve"),
        (
            "from bascule import Bascule, tool\ndef f(a): ...\napp = Bascule(tools=[f])",
            "parameter 'a' of f has no type",
        ),
        (
            "from bascule import Agent, Bascule, Tool\n"
            "t = Tool('ask_a', description='', input_schema={}, execute=print)\n"
            "app = Bascule(tools=[t], agents=[Agent('a')])",
            "ask_a",
        ),
    ],
)
def test_the_command_says_it_in_one_line_without_a_traceback(tmp_path: Path, text: str | None, said: str) -> None:
    target = str(tmp_path / "nowhere.py") if text is None else write(tmp_path, text)
    done = subprocess.run(
        [sys.executable, "-m", "bascule", "run", target],
        capture_output=True,
        check=False,
        text=True,
        timeout=60,
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 1
    assert done.stdout == ""
    assert said in done.stderr
    assert "Traceback" not in done.stderr
