"""The turns of a script: read and checked once, when the script is given."""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias, cast, get_args

from bascule.errors import ConfigurationError
from bascule.messages import JsonObject, JsonValue
from bascule.models._prompt import calls_since_user, last_role, last_user_text, result_text
from bascule.models._protocol import FinishReason, ModelCall, Usage

__all__ = [
    "TURN_KEYS",
    "ScriptTurn",
    "ScriptedCall",
    "ScriptedError",
    "Turn",
    "TurnFunction",
    "fill_in",
    "last_result_text",
    "read_turn",
]

TurnFunction: TypeAlias = Callable[[ModelCall], "Mapping[str, object] | str"]
Turn: TypeAlias = Mapping[str, object] | str | TurnFunction
"""One turn of a script: a mapping, a text, or a function of the call that returns one of those."""

TURN_KEYS = (
    "text",
    "reasoning",
    "tool_calls",
    "chunks",
    "chunk_text",
    "chunk_size",
    "chunk_delay",
    "delay",
    "error",
    "drop_after",
    "hang",
    "finish",
    "usage",
    "when",
    "times",
)
_CALL_KEYS = ("name", "arguments", "id")
_ERROR_KEYS = ("status", "message", "type", "retry_after")
_USAGE_KEYS = ("input", "output", "reasoning", "cached")
_WHEN_KEYS = ("user", "last_role", "tool", "model", "result")
_FINISH: tuple[str, ...] = get_args(FinishReason)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptedCall:
    """A tool call that a script makes; of several names the first one that the prompt declares counts."""

    names: tuple[str, ...]
    arguments: JsonObject | str
    id: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptedError:
    """A failure that a script asks for."""

    status: int | None
    message: str
    retry_after: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptTurn:
    """One turn, checked; see ``ScriptedModel`` for what each entry does."""

    text: str = ""
    reasoning: str = ""
    tool_calls: tuple[ScriptedCall, ...] = ()
    chunks: int = 0
    chunk_text: str = "0123456789abcdef"
    chunk_size: int = 16
    chunk_delay: float = 0.0
    delay: float = 0.0
    error: ScriptedError | Exception | None = None
    drop_after: int | None = None
    hang: float = 0.0
    finish: FinishReason | None = None
    ends: bool = True
    usage: Usage | None = None
    when: Callable[[ModelCall, str], bool] | None = None
    times: int = 1
    literal: bool = False


def read_turn(turn: Mapping[str, object] | str) -> ScriptTurn:
    """Check one turn.

    Raises:
        ConfigurationError: an unknown key, or a value of the wrong kind.
    """
    if isinstance(turn, str):
        return ScriptTurn(text=turn)
    _refuse_unknown(turn, TURN_KEYS, "turn")
    return ScriptTurn(
        text=_text(turn, "text", ""),
        reasoning=_text(turn, "reasoning", ""),
        tool_calls=tuple(_read_call(call) for call in _items(turn, "tool_calls")),
        chunks=_count(turn, "chunks", 0),
        chunk_text=_text(turn, "chunk_text", "0123456789abcdef"),
        chunk_size=max(1, _count(turn, "chunk_size", 16)),
        chunk_delay=_seconds(turn, "chunk_delay"),
        delay=_seconds(turn, "delay"),
        error=_read_error(turn.get("error")),
        drop_after=None if turn.get("drop_after") is None else _count(turn, "drop_after", 0),
        hang=math.inf if turn.get("hang") is True else _seconds(turn, "hang"),
        finish=_read_finish(turn.get("finish")),
        ends=turn.get("finish", "stop") is not None,
        usage=_read_usage(turn.get("usage")),
        when=_read_when(turn.get("when")),
        times=_count(turn, "times", 1),
    )


def _refuse_unknown(value: Mapping[str, object], known: Sequence[str], what: str) -> None:
    unknown = [key for key in value if key not in known]
    if unknown:
        raise ConfigurationError(
            f"A scripted {what} has the unknown key {unknown[0]!r}; the keys are {', '.join(known)}."
        )


def _wrong(key: str, value: object, wanted: str) -> ConfigurationError:
    return ConfigurationError(f"{key!r} of a scripted turn is {value!r}; it takes {wanted}.")


def _text(turn: Mapping[str, object], key: str, default: str) -> str:
    value = turn.get(key, default)
    if not isinstance(value, str):
        raise _wrong(key, value, "a text")
    return value


def _count(turn: Mapping[str, object], key: str, default: int) -> int:
    value = turn.get(key, default)
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise _wrong(key, value, "a whole number, 0 or more")
    return value


def _seconds(turn: Mapping[str, object], key: str) -> float:
    value = turn.get(key, 0)
    if not isinstance(value, int | float) or value < 0:
        raise _wrong(key, value, "a number of seconds")
    return float(value)


def _items(turn: Mapping[str, object], key: str) -> Sequence[object]:
    value = turn.get(key, ())
    if not isinstance(value, Sequence) or isinstance(value, str):
        raise _wrong(key, value, "a list")
    return cast("Sequence[object]", value)  # the items are checked one by one


def _mapping(value: object, key: str) -> Mapping[str, object]:
    if not isinstance(value, Mapping):
        raise _wrong(key, value, "a mapping")
    return cast("Mapping[str, object]", value)  # its keys are checked by the caller


def _read_call(value: object) -> ScriptedCall:
    call = {"name": value} if isinstance(value, str) else _mapping(value, "tool_calls")
    _refuse_unknown(call, _CALL_KEYS, "tool call")
    no_arguments: JsonObject = {}
    name, arguments, call_id = call.get("name"), call.get("arguments", no_arguments), call.get("id")
    names = (name,) if isinstance(name, str) else tuple(str(item) for item in _items(call, "name"))
    if not names:
        raise _wrong("tool_calls", value, "a list of calls with a name each")
    if not isinstance(arguments, str | Mapping):
        raise _wrong("arguments", arguments, "a mapping, or a text that is sent as it is")
    if call_id is not None and not isinstance(call_id, str):
        raise _wrong("id", call_id, "a text")
    return ScriptedCall(names=names, arguments=cast("JsonObject | str", arguments), id=call_id)


def _read_error(value: object) -> ScriptedError | Exception | None:
    if value is None or isinstance(value, Exception):
        return value
    if isinstance(value, str):
        return ScriptedError(status=None, message=value, retry_after=None)
    error = _mapping(value, "error")
    _refuse_unknown(error, _ERROR_KEYS, "error")
    status, retry_after = error.get("status", 500), error.get("retry_after")
    if not isinstance(status, int):
        raise _wrong("status", status, "an HTTP status")
    if retry_after is not None and not isinstance(retry_after, int | float):
        raise _wrong("retry_after", retry_after, "a number of seconds")
    return ScriptedError(status=status, message=_text(error, "message", "The script fails."), retry_after=retry_after)


def _read_finish(value: object) -> FinishReason | None:
    if value is None:
        return None
    reason = value.replace("_", "-") if isinstance(value, str) else value
    if reason not in _FINISH:
        raise _wrong("finish", value, f"one of {', '.join(_FINISH)}, or None for a stream without a finish")
    return cast("FinishReason", reason)


def _read_usage(value: object) -> Usage | None:
    if value is None or isinstance(value, Usage):
        return value
    usage = _mapping(value, "usage")
    _refuse_unknown(usage, _USAGE_KEYS, "usage")
    return Usage(
        input_tokens=_count(usage, "input", 0),
        output_tokens=_count(usage, "output", 0),
        reasoning_tokens=_count(usage, "reasoning", 0),
        cached_input_tokens=_count(usage, "cached", 0),
    )


def _read_when(value: object) -> Callable[[ModelCall, str], bool] | None:
    if value is None:
        return None
    if callable(value):
        predicate = cast("Callable[[ModelCall], object]", value)  # a caller's function: its result is only tested
        return lambda call, _: bool(predicate(call))
    conditions = _mapping(value, "when")
    _refuse_unknown(conditions, _WHEN_KEYS, "'when'")
    wanted = {key: _text(conditions, key, "") for key in conditions}
    return lambda call, model_id: all(_holds(key, want, call, model_id) for key, want in wanted.items())


def _holds(key: str, want: str, call: ModelCall, model_id: str) -> bool:
    if key == "tool":
        return any(tool.name == want for tool in call.tools)
    if key == "last_role":
        return last_role(call.messages) == want
    if key == "user":
        return re.search(want, last_user_text(call.messages)) is not None
    if key == "model":
        return re.search(want, model_id) is not None
    return re.search(want, last_result_text(call)) is not None


def last_result_text(call: ModelCall) -> str:
    """Return what the last tool call since the user's message returned, as text."""
    calls = calls_since_user(call.messages)
    return result_text(calls[-1]) if calls else ""


def fill_in(value: JsonValue, call: ModelCall) -> JsonValue:
    """Replace ``${last_user}`` and ``${last_result}`` in every text of a value."""
    if isinstance(value, str):
        if "${" not in value:
            return value
        value = value.replace("${last_user}", last_user_text(call.messages))
        return value.replace("${last_result}", last_result_text(call))
    if isinstance(value, Mapping):
        return {key: fill_in(item, call) for key, item in value.items()}
    if isinstance(value, Sequence):
        return [fill_in(item, call) for item in value]
    return value
