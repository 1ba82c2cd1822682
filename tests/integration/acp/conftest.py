"""Fake agents as real processes."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from bascule.testing import FakeAcpAgent

Action = dict[str, Any]
MakeFake = Callable[..., FakeAcpAgent]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """The agent's working directory."""
    folder = tmp_path / "project"
    folder.mkdir()
    return folder


@pytest.fixture
def fake(tmp_path: Path) -> MakeFake:
    """Make a scripted agent that keeps a log; each argument is a turn."""

    def make(*turns: Sequence[Action], **settings: Any) -> FakeAcpAgent:  # Any: the settings of the fake
        return FakeAcpAgent(turns or ([{"text": "ok"}],), log=tmp_path / "agent.log", **settings)

    return make
