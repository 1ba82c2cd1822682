"""Protocol version 1: requests and answers, as plain JSON.

Everything that depends on the version stands here and in ``_v1_updates``; the connection knows messages only.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

from bascule.errors import AcpProtocolVersion, InputError
from bascule.messages import FilePart, JsonObject, JsonValue, Message, Part, TextPart
from bascule.stream import RunFinishReason, StoppedBy, Usage

__all__ = [
    "PROTOCOL_VERSION",
    "AgentInfo",
    "SessionInfo",
    "TurnResult",
    "agent_info",
    "initialize_params",
    "prompt_blocks",
    "session_info",
    "turn_result",
]

PROTOCOL_VERSION: Final = 1

Result = dict[str, Any]  # Any: a peer's JSON, checked field by field


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentInfo:
    """What an agent says about itself when the connection begins.

    Attributes:
        name: its name, empty when it tells none.
        version: its version, empty when it tells none.
        auth_methods: the ids of its login methods.
        prompt_kinds: what a prompt may hold beside text and links: ``image``, ``audio``, ``embeddedContext``.
        closes_sessions: whether it knows ``session/close``.
        capabilities: everything it advertises, untouched.
    """

    name: str = ""
    version: str = ""
    auth_methods: tuple[str, ...] = ()
    prompt_kinds: frozenset[str] = frozenset()
    closes_sessions: bool = False
    capabilities: JsonObject | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionInfo:
    """What an agent says about a session.

    Attributes:
        id: the agent's id of it.
        mode: the mode that it starts in.
        modes: the ids of the modes that can be set with ``session/set_mode``.
        models: the ids of the models that can be set with ``session/set_model``, which older agents know.
        options: the config options by category: id of the option, and the values that it takes.
    """

    id: str
    mode: str | None = None
    modes: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    options: dict[str, tuple[str, tuple[str, ...]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnResult:
    """How a prompt turn ended."""

    reason: RunFinishReason
    usage: Usage
    stopped_by: StoppedBy | None = None
    warnings: tuple[str, ...] = ()


def _object(value: object) -> Result:
    return cast("Result", value) if isinstance(value, dict) else {}


def _objects(value: object) -> list[Result]:
    return [_object(item) for item in cast("list[object]", value)] if isinstance(value, list) else []


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


# --- the beginning ---


def initialize_params(*, fs: bool, version: str) -> JsonObject:
    """Return the parameters of ``initialize``."""
    return {
        "protocolVersion": PROTOCOL_VERSION,
        "clientCapabilities": {"fs": {"readTextFile": fs, "writeTextFile": fs}, "terminal": False},
        "clientInfo": {"name": "bascule", "title": "Bascule", "version": version},
    }


def agent_info(result: object, *, agent: str) -> AgentInfo:
    """Read the answer to ``initialize``.

    Raises:
        AcpProtocolVersion: the agent chose a version that we do not speak.
    """
    answer = _object(result)
    version = answer.get("protocolVersion")
    if version not in (PROTOCOL_VERSION, str(PROTOCOL_VERSION)):
        raise AcpProtocolVersion(
            f"The agent {agent!r} speaks version {version!r} of the Agent Client Protocol; this is version "
            f"{PROTOCOL_VERSION}. Install a version of the agent that speaks it."
        )
    capabilities = _object(answer.get("agentCapabilities"))
    info = _object(answer.get("agentInfo"))
    prompt = _object(capabilities.get("promptCapabilities"))
    sessions = _object(capabilities.get("sessionCapabilities"))
    methods = [_text(method.get("id")) for method in _objects(answer.get("authMethods"))]
    return AgentInfo(
        name=_text(info.get("title")) or _text(info.get("name")),
        version=_text(info.get("version")),
        auth_methods=tuple(method for method in methods if method),
        prompt_kinds=frozenset(key for key, value in prompt.items() if value is True),
        closes_sessions=sessions.get("close") is not None,
        capabilities=capabilities,
    )


def session_info(result: object) -> SessionInfo | None:
    """Read the answer to ``session/new``; ``None`` when it names no session."""
    answer = _object(result)
    identifier = _text(answer.get("sessionId"))
    if not identifier:
        return None
    modes = _object(answer.get("modes"))
    options: dict[str, tuple[str, tuple[str, ...]]] = {}
    for option in _objects(answer.get("configOptions")):
        category = _text(option.get("category"))
        if category and category not in options and _text(option.get("id")):
            options[category] = (_text(option.get("id")), tuple(_option_values(option.get("options"))))
    return SessionInfo(
        id=identifier,
        mode=_text(modes.get("currentModeId")) or None,
        modes=tuple(_text(mode.get("id")) for mode in _objects(modes.get("availableModes"))),
        models=tuple(
            _text(item.get("modelId")) for item in _objects(_object(answer.get("models")).get("availableModels"))
        ),
        options=options,
    )


def _option_values(options: object) -> list[str]:
    """Return the values of a selection, those inside of groups included."""
    values: list[str] = []
    for option in _objects(options):
        if isinstance(option.get("options"), list):
            values += _option_values(option["options"])
        elif _text(option.get("value")):
            values.append(_text(option["value"]))
    return values


# --- a turn ---

_REASONS: dict[str, RunFinishReason] = {
    "end_turn": "stop",
    "max_tokens": "length",
    "max_turn_requests": "tool-calls",
    "refusal": "content-filter",
    "cancelled": "aborted",
}


def turn_result(result: object) -> TurnResult:
    """Read the answer to ``session/prompt``; what is missing or unknown in it is a warning, not an error."""
    answer = _object(result)
    stop = answer.get("stopReason")
    reason = _REASONS.get(stop) if isinstance(stop, str) else None
    counts = _object(answer.get("usage"))
    return TurnResult(
        reason=reason or "other",
        usage=Usage(
            input_tokens=_count(counts.get("inputTokens")),
            output_tokens=_count(counts.get("outputTokens")),
            reasoning_tokens=_count(counts.get("thoughtTokens")),
            cached_input_tokens=_count(counts.get("cachedReadTokens")),
        ),
        stopped_by="max_steps" if stop == "max_turn_requests" else None,
        warnings=() if reason else (f"The agent ended its turn with the unknown stop reason {stop!r}.",),
    )


def _count(value: object) -> int:
    return value if isinstance(value, int) and value >= 0 else 0


def prompt_blocks(messages: Sequence[Message], kinds: frozenset[str]) -> list[JsonObject]:
    """Return messages as the content of a prompt.

    A session keeps its own history, so a prompt is what is said now. Messages before the last one are set apart by the
    name of their role.

    Args:
        messages: at least one.
        kinds: what the agent takes beside text and links.

    Raises:
        InputError: a part cannot be sent to this agent.
    """
    blocks: list[JsonObject] = []
    for position, message in enumerate(messages):
        if position < len(messages) - 1 or message.role != "user":
            blocks.append({"type": "text", "text": f"[{message.role}]"})
        blocks += [block for part in message.parts for block in _block(part, kinds)]
    if not any(block.get("type") != "text" or block.get("text") for block in blocks):
        raise InputError("The message is empty. Say what the agent is to do.")
    return blocks


def _block(part: Part, kinds: frozenset[str]) -> list[JsonObject]:
    if isinstance(part, TextPart):
        return [{"type": "text", "text": part.text}]
    if not isinstance(part, FilePart):
        return []
    if part.data is None:
        return [{"type": "resource_link", "uri": part.url or "", "name": part.filename or part.url or "file"}]
    kind = part.media_type.partition("/")[0]
    if kind in ("image", "audio") and kind in kinds:
        return [{"type": kind, "mimeType": part.media_type, "data": part.data}]
    if kind not in ("image", "audio") and "embeddedContext" in kinds:
        resource: dict[str, JsonValue] = {
            "uri": f"attachment:{part.filename or 'file'}",
            "mimeType": part.media_type,
            "blob": part.data,
        }
        return [{"type": "resource", "resource": resource}]
    raise InputError(
        f"The agent does not take files of the type {part.media_type!r} in a prompt; put the file into its working "
        "directory and name it in the text."
    )
