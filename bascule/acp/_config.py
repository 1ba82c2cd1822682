"""Everything that says how a coding agent is started and treated."""

from collections.abc import Mapping
from dataclasses import dataclass

from bascule.acp._environment import EnvPolicy
from bascule.acp._permissions import PermissionCallback, PermissionPolicy

__all__ = ["AgentConfig"]


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentConfig:
    """The settings of an ``AcpAgent``, checked.

    Attributes:
        name: the agent's id, for messages.
        command: the launch line.
        install: how to install the agent, when that is known.
        env: variables for the agent.
        env_policy: which of our variables it inherits.
        preset_env: variables that its preset sets.
        drop_env: variables that it must not inherit.
        cwd: the working directory of its sessions; ours when ``None``.
        root: the folder that file access is confined to; the working directory when ``None``.
        policy: rules or a function for permission requests.
        fs: whether it reads and writes files through us.
        missing_file_is_empty: whether a missing file reads as an empty one.
        model: the model to choose.
        mode: the mode to set.
        mode_required: whether it is an error when the mode does not exist.
        start_timeout: seconds for each step of the start.
        turn_timeout: seconds for a whole turn.
        idle_timeout: seconds without any sign of progress.
        answer_timeout: seconds that a question waits for a person.
        max_sessions: how many conversations keep their session.
        cancel_grace: seconds between asking the agent to stop a turn and ending its process.
        max_line_bytes: the longest line that is read.
    """

    name: str
    command: tuple[str, ...]
    install: str | None
    env: Mapping[str, str] | None
    env_policy: EnvPolicy
    preset_env: Mapping[str, str]
    drop_env: tuple[str, ...]
    cwd: str | None
    root: str | None
    policy: PermissionPolicy | PermissionCallback
    fs: bool
    missing_file_is_empty: bool
    model: str | None
    mode: str | None
    mode_required: bool
    start_timeout: float
    turn_timeout: float | None
    idle_timeout: float | None
    answer_timeout: float | None
    max_sessions: int
    cancel_grace: float
    max_line_bytes: int
