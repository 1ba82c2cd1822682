"""May the agent do what it asks for?

The agent offers options of four kinds: allow or reject, once or always. An option is chosen by its kind and never by
its place, since agents list them in any order. Permission for good is never given unless the policy says so, and what
cannot be decided is declined.
"""

import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal, TypeAlias, cast

from bascule.errors import SettingInvalid
from bascule.messages import JsonObject, JsonValue
from bascule.tools import run_in_daemon_thread

__all__ = [
    "Decision",
    "PermissionCallback",
    "PermissionOption",
    "PermissionPolicy",
    "PermissionRequest",
    "Permissions",
    "ask_function",
    "choose_option",
    "options_of",
    "policy_of",
]

Decision = Literal["allow", "deny", "ask"]


@dataclass(frozen=True, slots=True)
class PermissionOption:
    """One of the answers that an agent takes.

    Attributes:
        id: what is sent back.
        name: its text for people.
        kind: ``allow_once``, ``allow_always``, ``reject_once`` or ``reject_always``.
    """

    id: str
    name: str
    kind: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PermissionRequest:
    """What an agent asks permission for.

    Attributes:
        tool_call_id: the call.
        tool_name: its title, else its kind.
        kind: the protocol's word for what it does: ``read``, ``edit``, ``delete``, ``move``, ``execute``, ...; empty
            when the agent does not tell.
        args: its input, as far as the agent tells.
        paths: the files that it is about, as the agent names them.
        options: the answers to choose from.
        run_id: our run.
        cwd: the session's working directory.
        raw: the agent's request, untouched.
    """

    tool_call_id: str
    tool_name: str
    kind: str
    args: JsonValue
    paths: tuple[str, ...]
    options: tuple[PermissionOption, ...]
    run_id: str
    cwd: str
    raw: JsonObject = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class PermissionPolicy:
    """Rules for permission requests.

    Attributes:
        default: what happens when no other rule applies.
        kinds: decisions by the kind of the tool call, such as ``{"read": "allow", "execute": "deny"}``.
        allow_always: whether an allowed call may be answered with permission for good when the agent offers no
            permission for once.
    """

    default: Decision = "ask"
    kinds: Mapping[str, Decision] = field(default_factory=dict[str, Decision])
    allow_always: bool = False

    def __post_init__(self) -> None:
        """Refuse decisions that do not exist."""
        for value in (self.default, *self.kinds.values()):
            if value not in ("allow", "deny", "ask"):
                raise SettingInvalid(f"The permission {value!r} does not exist; use 'ask', 'allow' or 'deny'.")

    def decide(self, request: PermissionRequest) -> Decision:
        """Return what the rules say about a request."""
        return self.kinds.get(request.kind, self.default)

    def rule(self, request: PermissionRequest) -> str:
        """Return the rule that applies to a request, for people."""
        if request.kind in self.kinds:
            return f"the rule {self.kinds[request.kind]!r} for tool calls of the kind {request.kind!r}"
        return f"the permission policy {self.default!r}"


PermissionCallback: TypeAlias = Callable[[PermissionRequest], str | Awaitable[str]]
Permissions: TypeAlias = Decision | PermissionPolicy | PermissionCallback
"""A decision for everything, rules, or a function that returns ``"allow"``, ``"deny"``, ``"ask"`` or an option's id."""


def policy_of(permissions: Permissions) -> PermissionPolicy | PermissionCallback:
    """Return the policy behind what a user passed.

    Raises:
        SettingInvalid: it is none.
    """
    match permissions:
        case "ask" | "allow" | "deny":
            return PermissionPolicy(default=permissions)
        case PermissionPolicy():
            return permissions
        case _:
            pass
    if callable(permissions):
        return permissions
    raise SettingInvalid(
        f"The permissions {permissions!r} are neither 'ask', 'allow', 'deny', a PermissionPolicy nor a function."
    )


async def ask_function(function: PermissionCallback, request: PermissionRequest) -> str:
    """Return the decision of a user's function; a sync one runs on a thread of its own.

    Raises:
        Exception: whatever the function raised.
    """
    if inspect.iscoroutinefunction(function):
        decision = cast("object", await function(request))
    else:
        decision = await run_in_daemon_thread(partial(function, request))
        if inspect.isawaitable(decision):
            decision = await decision
    return decision if isinstance(decision, str) else "deny"


def options_of(value: object) -> tuple[PermissionOption, ...]:
    """Read an agent's options; what is malformed is left out."""
    found: list[PermissionOption] = []
    for item in cast("list[object]", value) if isinstance(value, list) else []:
        option = cast("dict[str, Any]", item) if isinstance(item, dict) else {}
        identifier, name, kind = option.get("optionId"), option.get("name"), option.get("kind")
        if isinstance(identifier, str):
            found.append(
                PermissionOption(
                    identifier, name if isinstance(name, str) else identifier, kind if isinstance(kind, str) else ""
                )
            )
    return tuple(found)


def choose_option(options: Sequence[PermissionOption], *, allow: bool, always: bool = False) -> PermissionOption | None:
    """Return the option that stands for a decision, ``None`` when the agent offers none.

    Args:
        options: what the agent offers.
        allow: the decision.
        always: whether permission for good may be given when there is none for once.
    """
    wanted = ("allow_once", "allow_always") if allow and always else ("allow_once",) if allow else ()
    for kind in wanted or ("reject_once", "reject_always"):
        matching = [option for option in options if option.kind == kind]
        if matching:
            return min(matching, key=_side_effects)
    return None


def _side_effects(option: PermissionOption) -> int:
    """Rank options of one kind: agents offer variants that switch the mode as well."""
    text = f"{option.id} {option.name}".lower()
    if any(word in text for word in ("mode", "always", "session", "auto", "all ")):
        return 2
    return 0 if "once" in text else 1
