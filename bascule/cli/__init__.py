"""The command line."""

from bascule.cli._main import main

__all__ = ["main"]
