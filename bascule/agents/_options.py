"""What a caller may say about one run."""

from collections.abc import Mapping, Sequence
from typing import TypedDict

from bascule.context import CancelToken, RequestContext
from bascule.errors import InputError
from bascule.messages import JsonObject, MessagesInput
from bascule.models import ModelSettings, ModelSpec, ToolChoice
from bascule.tools import MemoryOption

__all__ = ["RunOptions", "check_options"]


class RunOptions(TypedDict, total=False):
    """Options of ``stream`` and ``generate``; all may be left out.

    Attributes:
        max_steps: how many model calls there may be; 5 when left out.
        instructions: replaces the agent's instructions.
        system: further system text, after the instructions.
        context: messages for this run alone; they are never stored.
        memory: the conversation: ``{"thread": id, "resource": owner}``.
        model: replaces the agent's model.
        model_settings: sampling.
        tool_choice: whether and which tool must be called, in the first step.
        tool_call_concurrency: how many tools may run at once; 10 when left out.
        provider_options: options by provider name, handed on untouched.
        include_raw_chunks: whether the provider's own events are in the stream.
        abort_signal: stops the run.
        run_id: the run's id; a fresh one when left out.
        request_context: identity and values for tools; the current request's when left out.
        deps: handed to tools as ``ToolContext.deps``.
    """

    max_steps: int
    instructions: str
    system: str | Sequence[str]
    context: MessagesInput
    memory: MemoryOption | None
    model: ModelSpec
    model_settings: ModelSettings | Mapping[str, object]
    tool_choice: ToolChoice
    tool_call_concurrency: int
    provider_options: JsonObject
    include_raw_chunks: bool
    abort_signal: CancelToken | None
    run_id: str
    request_context: RequestContext | None
    deps: object


_KNOWN = frozenset(RunOptions.__annotations__)


def check_options(options: Mapping[str, object]) -> None:
    """Refuse options that do not exist, and numbers out of range.

    Raises:
        InputError: names the option and what is accepted.
    """
    unknown = options.keys() - _KNOWN
    if unknown:
        raise InputError(
            f"Unknown run option {', '.join(sorted(map(repr, unknown)))}; the options are {', '.join(sorted(_KNOWN))}."
        )
    for name in ("max_steps", "tool_call_concurrency"):
        value = options.get(name, 1)
        if not isinstance(value, int) or value < 1:
            raise InputError(f"{name} is {value!r}; give a whole number of at least 1.")
