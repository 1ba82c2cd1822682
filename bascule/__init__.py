"""Serve agents, workflows, memory and tools over MCP; delegate to coding agents over ACP; secure both.

Names are imported on first use, so that ``import bascule`` stays cheap.
"""

import importlib
from typing import TYPE_CHECKING

from bascule import errors

if TYPE_CHECKING:
    from bascule.acp import AcpAgent, acp_tool
    from bascule.agents import Agent
    from bascule.app import Bascule
    from bascule.auth import Auth
    from bascule.context import CancelToken, RequestContext
    from bascule.memory import Memory
    from bascule.tools import Tool, ToolContext, tool
    from bascule.workflows import Workflow, step

__all__ = [
    "AcpAgent",
    "Agent",
    "Auth",
    "Bascule",
    "CancelToken",
    "Memory",
    "RequestContext",
    "Tool",
    "ToolContext",
    "Workflow",
    "acp_tool",
    "errors",
    "step",
    "tool",
]

__version__ = "0.1.0"

_HOMES = {
    "AcpAgent": "bascule.acp",
    "Agent": "bascule.agents",
    "Auth": "bascule.auth",
    "Bascule": "bascule.app",
    "CancelToken": "bascule.context",
    "Memory": "bascule.memory",
    "RequestContext": "bascule.context",
    "Tool": "bascule.tools",
    "ToolContext": "bascule.tools",
    "Workflow": "bascule.workflows",
    "acp_tool": "bascule.acp",
    "step": "bascule.workflows",
    "tool": "bascule.tools",
}


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'bascule' has no attribute {name!r}")
    value: object = getattr(importlib.import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
