"""Doubles that are real implementations: for tests of Bascule and of what is built with it."""

from bascule.models import ScriptedModel

__all__ = ["ScriptedModel"]
