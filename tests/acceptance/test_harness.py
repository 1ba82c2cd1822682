"""The harness: programs end as a whole, waits have an end, an installation is done once or said to be impossible."""

import sys
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.acceptance.harness.processes import alive_with, run_to_end, started
from tests.acceptance.harness.programs import ATTEMPTS, NotInstalledError, install_once
from tests.acceptance.harness.surroundings import Surroundings

FAMILY = """
import subprocess, sys, time
subprocess.Popen([sys.executable, "-c", "import time; print('child', flush=True); time.sleep(600)"])
print("parent", flush=True)
time.sleep(600)
"""


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="processes are found by their environment in /proc")
def test_a_program_and_all_that_it_started_end_with_the_block(surroundings: Surroundings) -> None:
    mark = uuid.uuid4().hex
    environment = surroundings.environment(MARK=mark)
    with started([sys.executable, "-c", FAMILY], env=environment, cwd=surroundings.project) as running:
        running.wait_until(lambda: {"parent", "child"} <= set(running.stdout.split()), what="both had started")
        assert len(alive_with(mark)) == 2
    assert alive_with(mark) == []


def test_a_wait_ends_at_once_when_the_program_ends_before(surroundings: Surroundings) -> None:
    command = [sys.executable, "-c", "import sys; sys.exit('no port')"]
    expected = r"ended before it answered(?s:.*)exited with 1(?s:.*)no port"
    with (
        started(command, env=surroundings.environment(), cwd=surroundings.project) as running,
        pytest.raises(AssertionError, match=expected),
    ):
        running.wait_until(lambda: False, what="it answered", timeout=60)


def test_a_program_whose_time_is_up_is_ended_and_said_to_be(surroundings: Surroundings) -> None:
    command = [sys.executable, "-c", "import time; time.sleep(600)"]
    done = run_to_end(command, env=surroundings.environment(), cwd=surroundings.project, timeout=0.2)
    assert done.exit_code is None
    assert "its time was up" in done.describe()


def installer(folder: Path, *, failures: int) -> tuple[Callable[[], None], list[str]]:
    """An installation that fails some times first, leaving something behind each time."""
    tries: list[str] = []

    def install() -> None:
        folder.mkdir()
        tries.append("try")
        if len(tries) <= failures:
            raise NotInstalledError("the registry is away")

    return install, tries


def test_an_installation_is_repeated_until_it_succeeds_and_then_kept(tmp_path: Path) -> None:
    folder = tmp_path / "program-1"
    install, tries = installer(folder, failures=ATTEMPTS - 1)
    install_once(folder, install)
    install_once(folder, install)
    assert len(tries) == ATTEMPTS


def test_an_installation_that_keeps_failing_names_the_program_and_the_reason_in_one_line(tmp_path: Path) -> None:
    folder = tmp_path / "program-1"
    install, tries = installer(folder, failures=ATTEMPTS)
    with pytest.raises(NotInstalledError) as raised:
        install_once(folder, install)
    assert str(raised.value) == "program-1 could not be installed in 3 attempts: the registry is away"
    assert len(tries) == ATTEMPTS
