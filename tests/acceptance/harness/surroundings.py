"""The environment of a program under test: a home of its own, nothing of the caller's, nothing beyond loopback."""

import os
import socket
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

BASCULE = str(Path(sys.executable).with_name("bascule"))
DEAD_PROXY = "http://127.0.0.1:9"


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Folders that belong to one test."""

    root: Path

    @property
    def home(self) -> Path:
        """The home folder."""
        return self._folder("home")

    @property
    def project(self) -> Path:
        """The working directory."""
        return self._folder("project")

    def environment(self, **extra: str) -> Mapping[str, str]:
        """The whole environment of a program; only the search path is taken from the caller."""
        return {
            "PATH": os.environ.get("PATH", os.defpath),
            "HOME": str(self.home),
            "TMPDIR": str(self._folder("tmp")),
            "LANG": "C.UTF-8",
            "HTTP_PROXY": DEAD_PROXY,
            "HTTPS_PROXY": DEAD_PROXY,
            "NO_PROXY": "127.0.0.1,localhost",
            **extra,
        }

    def _folder(self, name: str) -> Path:
        folder = self.root / name
        folder.mkdir(parents=True, exist_ok=True)
        return folder


def free_port() -> int:
    """A port of the loopback interface that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
