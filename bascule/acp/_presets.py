"""Coding agents whose launch line and peculiarities are known."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from bascule.errors import NotFound

__all__ = ["PRESETS", "Preset", "find_preset"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Preset:
    """How a known coding agent is started, and what is special about it.

    Attributes:
        name: the name to use for it.
        title: its name for people.
        description: what it is good for.
        command: its launch line.
        install: how to install it.
        env: variables that it needs.
        drop_env: variables that it must not inherit.
        mode: the mode in which it asks before it changes anything; it may start in one that does not.
        missing_file_is_empty: whether it can create a file only when reading the missing file gives an empty text.
    """

    name: str
    title: str
    description: str
    command: Sequence[str]
    install: str
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    drop_env: tuple[str, ...] = ()
    mode: str | None = None
    missing_file_is_empty: bool = False


PRESETS: Mapping[str, Preset] = {
    preset.name: preset
    for preset in (
        Preset(
            name="claude-code",
            title="Claude Code",
            description="Anthropic's coding agent: reads, changes and runs code in a project folder.",
            command=("claude-agent-acp",),
            install="npm install -g @agentclientprotocol/claude-agent-acp",
            drop_env=("CLAUDECODE", "CLAUDE_CODE_ENTRYPOINT", "CLAUDE_CODE_SSE_PORT"),
            mode="default",
        ),
        Preset(
            name="codex",
            title="Codex",
            description="OpenAI's coding agent: reads, changes and runs code in a project folder.",
            command=("codex-acp",),
            install="npm install -g @agentclientprotocol/codex-acp",
            mode="read-only",
        ),
        Preset(
            name="gemini",
            title="Gemini CLI",
            description="Google's coding agent: reads, changes and runs code in a project folder.",
            command=("gemini", "--acp"),
            install="npm install -g @google/gemini-cli",
            mode="default",
            missing_file_is_empty=True,
        ),
        Preset(
            name="opencode",
            title="OpenCode",
            description="An open source coding agent: reads, changes and runs code in a project folder.",
            command=("opencode", "acp"),
            install="npm install -g opencode-ai",
        ),
    )
}
"""The known coding agents by name."""

_ALIASES = {"claude": "claude-code", "gemini-cli": "gemini", "codex-cli": "codex"}


def find_preset(name: str) -> Preset:
    """Return a preset by its name.

    Raises:
        NotFound: there is none of this name.
    """
    key = name.strip().lower().replace("_", "-")
    preset = PRESETS.get(_ALIASES.get(key, key))
    if preset is None:
        raise NotFound(
            f"There is no coding agent {name!r}. Known are {', '.join(PRESETS)}; start any other one by its launch "
            "line: AcpAgent(id=..., command=...)."
        )
    return preset
