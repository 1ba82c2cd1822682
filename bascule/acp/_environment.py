"""What a coding agent sees of our environment."""

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Literal

__all__ = ["EnvPolicy", "agent_environment"]

EnvPolicy = Literal["inherit"] | Sequence[str]
"""``"inherit"``: everything but Bascule's own secrets. A list: only the variables whose names match one of its
patterns, and those without which no program starts."""

_WITHHELD = (
    "BASCULE_STORAGE",
    "BASCULE_BUS",
    "BASCULE_AUTH_*",
    "BASCULE_*SECRET*",
    "BASCULE_*TOKEN*",
    "BASCULE_*PASSWORD*",
    "BASCULE_*KEY*",
)
_BASIC = ("PATH", "HOME", "USER", "LOGNAME", "SHELL", "TERM", "LANG", "LC_*", "TZ", "TMPDIR", "SYSTEMROOT", "COMSPEC")


def agent_environment(
    ours: Mapping[str, str],
    *,
    policy: EnvPolicy,
    env: Mapping[str, str] | None,
    preset_env: Mapping[str, str] | None = None,
    drop: Sequence[str] = (),
) -> dict[str, str]:
    """Return the environment for an agent.

    Args:
        ours: our own environment.
        policy: which of our variables it inherits.
        env: variables that are set for it, whatever the policy.
        preset_env: variables that its preset sets, unless ``env`` does.
        drop: variables that it must not inherit.
    """
    names = (name for name in ours if not _matches(name, (*_WITHHELD, *drop)))
    if not isinstance(policy, str):
        names = (name for name in names if _matches(name, (*_BASIC, *policy)))
    return {**{name: ours[name] for name in names}, **(preset_env or {}), **(env or {})}


def _matches(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)
