"""Agents: a model with instructions and tools, and the loop that runs it."""

from bascule.agents._agent import Agent
from bascule.agents._conversation import ConversationMemory
from bascule.agents._options import RunOptions

__all__ = ["Agent", "ConversationMemory", "RunOptions"]
