"""A small app to start from."""

import pytest

from tests.acceptance.harness.served import bascule
from tests.acceptance.harness.surroundings import Surroundings

pytestmark = pytest.mark.timeout(60)


@pytest.mark.requirement("F42")
def test_the_new_app_works_and_so_do_the_commands_that_are_named(surroundings: Surroundings) -> None:
    done = bascule("new", "apps/mine.py", surroundings=surroundings)
    assert done.exit_code == 0, done.describe()
    first, *commands = done.stdout.splitlines()
    assert first == "Wrote apps/mine.py. Next:"
    called = bascule(*commands[0].split()[1:], surroundings=surroundings)
    assert called.stdout == "5\n", called.describe()
    assert [line.split()[:2] for line in commands] == [["bascule", name] for name in ("call", "serve", "install")]


def test_a_file_that_exists_is_left_alone(surroundings: Surroundings) -> None:
    path = surroundings.project / "app.py"
    path.write_text("mine", encoding="utf-8")
    done = bascule("new", "app.py", surroundings=surroundings)
    assert done.exit_code == 1
    assert done.stderr == "Error: app.py is there already, and was left alone. Name another file.\n"
    assert path.read_text(encoding="utf-8") == "mine"


@pytest.mark.parametrize(
    ("name", "told"), [("app", "Name a Python file: app.py"), ("file/app.py", "Name another place")]
)
def test_a_place_where_no_app_can_be_is_refused(name: str, told: str, surroundings: Surroundings) -> None:
    (surroundings.project / "file").write_text("", encoding="utf-8")
    done = bascule("new", name, surroundings=surroundings)
    assert done.exit_code == 1
    assert told in done.stderr
    assert "Traceback" not in done.stderr
