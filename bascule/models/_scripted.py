"""A model that says what its script says."""

from collections.abc import AsyncGenerator, Iterator, Sequence
from typing import Literal

import anyio
import anyio.lowlevel

from bascule.errors import ConfigurationError, ModelError
from bascule.models._errors import kind_of_status
from bascule.models._prompt import json_text, last_user_text, prompt_size
from bascule.models._protocol import (
    Finish,
    ModelCall,
    ModelCapabilities,
    ModelPart,
    ReasoningDelta,
    TextDelta,
    ToolCall,
    ToolCallDelta,
    Usage,
)
from bascule.models._turns import ScriptedCall, ScriptedError, ScriptTurn, Turn, fill_in, read_turn

__all__ = ["ScriptedModel"]

_CHECKPOINT_EVERY = 64
"""Deltas between two moments at which other tasks may run; one each would cost more than the delta."""


class ScriptedModel:
    """A deterministic model for tests, examples and demonstrations.

    A turn is a mapping, a text, or a function of the ``ModelCall`` that returns one of those. Its keys, all optional:

    - ``text``, ``reasoning``: what is streamed, in pieces of ``chunk_size`` characters (16), ``chunk_delay`` seconds
      apart; ``chunks`` sends ``chunk_text`` that many times instead of ``text``.
    - ``tool_calls``: names, or mappings with ``name``, ``arguments`` (a mapping, or a text sent as it is) and ``id``.
      A list as ``name`` stands for the first of them that the call declares.
    - ``delay``: seconds before the first part; ``hang``: seconds after the last delta, ``True`` for ever.
    - ``error``: a mapping with ``status``, ``message`` and ``retry_after``, a text, or an exception; raised before the
      first part. ``drop_after`` cuts the stream after that many deltas.
    - ``finish``: the finish reason; ``None`` ends the stream without one. ``usage``: ``input``, ``output``,
      ``reasoning``, ``cached``; estimated from the lengths when it is absent.
    - ``when``: a function of the call, or patterns (``user``, ``result``, ``model``) and values (``last_role``,
      ``tool``) that must all fit. ``times``: how many calls the turn serves (1), 0 for any number.

    The first turn that is not used up and whose ``when`` fits answers; a turn without ``when`` always fits. Texts and
    arguments may hold ``${last_user}`` and ``${last_result}``.

    Attributes:
        calls: every call seen, in order.
    """

    def __init__(
        self,
        turns: Sequence[Turn] = (),
        *,
        default: Literal["echo", "error"] = "echo",
        provider: str = "script",
        model_id: str = "scripted",
        capabilities: ModelCapabilities | None = None,
    ) -> None:
        """Read the script.

        Args:
            turns: the turns in order.
            default: what answers when no turn is left: the user's text, or an error.
            provider: the provider's name to show.
            model_id: the model's name to show.
            capabilities: what the model claims to be able to do.

        Raises:
            ConfigurationError: an unknown key in a turn, or a value of the wrong kind.
        """
        if default not in ("echo", "error"):
            raise ConfigurationError(f"default={default!r} is not known; it is 'echo' or 'error'.")
        self.calls: list[ModelCall] = []
        self._turns = [turn if callable(turn) else read_turn(turn) for turn in turns]
        self._left = [1 if callable(turn) else turn.times or -1 for turn in self._turns]
        self._default = default
        self._provider = provider
        self._model_id = model_id
        self._capabilities = capabilities or ModelCapabilities()

    def __repr__(self) -> str:
        return f"ScriptedModel({len(self._turns)} turns, {len(self.calls)} calls)"

    @property
    def provider(self) -> str:
        """The provider's name."""
        return self._provider

    @property
    def model_id(self) -> str:
        """The model's name."""
        return self._model_id

    @property
    def capabilities(self) -> ModelCapabilities:
        """What the model can do."""
        return self._capabilities

    async def stream(self, call: ModelCall) -> AsyncGenerator[ModelPart, None]:
        """Answer with the next turn of the script.

        Raises:
            ModelError: the turn asks for an error or a cut, or no turn is left and ``default`` is ``error``.
        """
        self.calls.append(call)
        turn = self._next_turn(call)
        await (anyio.sleep(turn.delay) if turn.delay else anyio.lowlevel.checkpoint())
        if turn.error is not None:
            raise _error(turn.error)
        sent = 0
        for part in _deltas(turn, call, len(self.calls)):
            if isinstance(part, ToolCall):
                yield part
                continue
            if turn.drop_after is not None and sent >= turn.drop_after:
                break
            if turn.chunk_delay and sent:
                await anyio.sleep(turn.chunk_delay)
            elif sent % _CHECKPOINT_EVERY == _CHECKPOINT_EVERY - 1:
                await anyio.lowlevel.checkpoint()
            yield part
            sent += 1
        if turn.drop_after is not None:
            raise ModelError(f"The script cut the stream after {sent} deltas.", kind="connection")
        if turn.hang:
            await anyio.sleep(turn.hang)
        if turn.ends:
            yield self._finish(turn, call)

    def _next_turn(self, call: ModelCall) -> ScriptTurn:
        for position, turn in enumerate(self._turns):
            if self._left[position] == 0:
                continue
            if not callable(turn) and turn.when is not None and not turn.when(call, self._model_id):
                continue
            self._left[position] -= 1
            return read_turn(turn(call)) if callable(turn) else turn
        if self._default == "error":
            raise ModelError(
                f"The script of {len(self._turns)} turns has none for call {len(self.calls)}. Add a turn, or pass "
                "default='echo'.",
                kind="other",
            )
        return ScriptTurn(text=last_user_text(call.messages), literal=True)

    def _finish(self, turn: ScriptTurn, call: ModelCall) -> Finish:
        usage = turn.usage
        if usage is None:
            written = len(turn.text) + len(turn.reasoning) + turn.chunks * len(turn.chunk_text)
            usage = Usage(
                input_tokens=max(1, prompt_size(call.messages) // 4),
                output_tokens=max(1, written // 4),
                reasoning_tokens=len(turn.reasoning) // 4,
            )
        return Finish(
            turn.finish or ("tool-calls" if turn.tool_calls else "stop"), usage, response_model=self._model_id
        )


def _error(error: ScriptedError | Exception) -> Exception:
    if isinstance(error, Exception):
        return error
    return ModelError(
        error.message,
        kind="other" if error.status is None else kind_of_status(error.status),
        status=error.status,
        retry_after=error.retry_after,
    )


def _deltas(turn: ScriptTurn, call: ModelCall, number: int) -> Iterator[ModelPart]:
    for piece in _pieces(_filled(turn.reasoning, turn, call), turn.chunk_size):
        yield ReasoningDelta(piece)
    if turn.chunks:
        for _ in range(turn.chunks):
            yield TextDelta(turn.chunk_text)
    else:
        for piece in _pieces(_filled(turn.text, turn, call), turn.chunk_size):
            yield TextDelta(piece)
    for position, tool_call in enumerate(turn.tool_calls):
        yield from _tool_call(tool_call, call, tool_call.id or f"call_{number}_{position + 1}", turn.chunk_size)


def _filled(text: str, turn: ScriptTurn, call: ModelCall) -> str:
    return text if turn.literal or "${" not in text else str(fill_in(text, call))


def _pieces(text: str, size: int) -> Iterator[str]:
    return (text[start : start + size] for start in range(0, len(text), size))


def _tool_call(scripted: ScriptedCall, call: ModelCall, call_id: str, size: int) -> Iterator[ModelPart]:
    declared = {tool.name for tool in call.tools}
    name = next((name for name in scripted.names if name in declared), scripted.names[0])
    arguments = (
        scripted.arguments if isinstance(scripted.arguments, str) else json_text(fill_in(scripted.arguments, call))
    )
    for piece in _pieces(arguments, size):
        yield ToolCallDelta(call_id, name, piece)
    yield ToolCall(call_id, name, arguments)
