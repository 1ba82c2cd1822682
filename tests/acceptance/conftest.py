"""What the acceptance tests share: third-party programs, a home for each test, and time enough for real processes."""

import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2]))  # the repository: test modules import the harness by its full name

from tests.acceptance.harness.programs import NotInstalledError, command
from tests.acceptance.harness.surroundings import Surroundings

Program = Callable[[str], Sequence[str]]

HERE = Path(__file__).parent
BACKSTOP = 900
"""Seconds after which a test is given up. Every wait inside has an end of its own; this one also covers installing."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(BACKSTOP))


@pytest.fixture
def anyio_backend() -> str:
    """The official client runs on asyncio here; what is under test runs in a process of its own."""
    return "asyncio"


@pytest.fixture(scope="session")
def program() -> Program:
    """The command line of a third-party program; the test is skipped, and said to be, when it cannot be installed."""

    def find(name: str) -> Sequence[str]:
        try:
            return command(name)
        except NotInstalledError as error:
            pytest.skip(f"NOT RUN: {error}")

    return find


@pytest.fixture
def surroundings(tmp_path: Path) -> Surroundings:
    """A home and a working directory for this test alone."""
    return Surroundings(tmp_path)
