"""One call from the name of a coding agent to a tool."""

import os
from collections.abc import Mapping, Sequence
from typing import TypedDict, Unpack

from bascule.acp._agent import AcpAgent
from bascule.acp._environment import EnvPolicy
from bascule.acp._permissions import Permissions
from bascule.tools import Tool

__all__ = ["AcpOptions", "acp_tool"]


class AcpOptions(TypedDict, total=False):
    """The settings of an ``AcpAgent``, all of which may be left out."""

    id: str
    command: str | Sequence[str]
    args: Sequence[str]
    env: Mapping[str, str]
    env_policy: EnvPolicy
    cwd: str | os.PathLike[str]
    root: str | os.PathLike[str]
    permissions: Permissions
    fs: bool
    model: str
    mode: str
    start_timeout: float
    turn_timeout: float | None
    idle_timeout: float | None
    answer_timeout: float | None
    max_sessions: int
    cancel_grace: float
    max_line_bytes: int


def acp_tool(
    preset: str | None = None,
    *,
    name: str | None = None,
    description: str | None = None,
    **settings: Unpack[AcpOptions],
) -> Tool[..., object]:
    """Return a tool ``{"task": text}`` that gives a task to a coding agent.

    It answers ``{"output": text, "files_changed": [paths]}``, with ``warnings`` when there are any. Each call is a
    conversation of its own; the agent's process is kept between calls and ends with the event loop.

    Args:
        preset: a known agent, such as ``claude-code``.
        name: the tool's name; the agent's when left out.
        description: what models read.
        **settings: as for ``AcpAgent``.

    Raises:
        NotFound: there is no such preset.
        ConfigurationError: neither a preset nor a command is given.
    """
    return AcpAgent(preset, **settings).as_tool(name, description)
