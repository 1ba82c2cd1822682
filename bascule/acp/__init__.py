"""External coding agents over the Agent Client Protocol, as agents and tools of ours."""

from bascule.acp._agent import AcpAgent
from bascule.acp._factory import acp_tool
from bascule.acp._permissions import PermissionOption, PermissionPolicy, PermissionRequest
from bascule.acp._presets import PRESETS, Preset, find_preset
from bascule.acp._rpc import Diagnostics
from bascule.acp._run import AcpOutput
from bascule.acp._session import LateUpdate
from bascule.acp._v1 import AgentInfo

__all__ = [
    "PRESETS",
    "AcpAgent",
    "AcpOutput",
    "AgentInfo",
    "Diagnostics",
    "LateUpdate",
    "PermissionOption",
    "PermissionPolicy",
    "PermissionRequest",
    "Preset",
    "acp_tool",
    "find_preset",
]
