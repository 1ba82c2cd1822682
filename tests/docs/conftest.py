"""Folders of their own for every page."""

from pathlib import Path

import pytest

from tests.acceptance.harness.surroundings import Surroundings


@pytest.fixture
def surroundings(tmp_path: Path) -> Surroundings:
    """Folders of the test."""
    return Surroundings(tmp_path)
