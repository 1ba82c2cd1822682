"""Confined files and processes that leave nothing behind."""

from bascule.workspace._files import ConfinedFiles
from bascule.workspace._process import ProcessGroup, spawn
from bascule.workspace._ring import TailBuffer

__all__ = ["ConfinedFiles", "ProcessGroup", "TailBuffer", "spawn"]
