"""Doubles that are real implementations: for tests of Bascule and of what is built with it."""

from bascule.models import ScriptedModel
from bascule.testing._fake_acp_agent import FakeAcpAgent

__all__ = ["FakeAcpAgent", "ScriptedModel"]
