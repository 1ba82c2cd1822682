"""The step machine of an agent's run: decides, and does nothing else.

It takes what happened (a model's part, a tool's outcome, an abort) and returns the events to tell, and it knows what
comes next: another model call, tools to run, or the end. It opens nothing, awaits nothing and reads no clock; the
shell in ``_run`` does all that. The states follow each other like this:

    begin -> begin_step -> part* -> model_ended -> tool_outcome* -> end_step -> begin_step ... or finish
                             any -> model_failed | abort -> finish
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, cast

from pydantic_core import from_json

from bascule.messages import (
    ErrorPart,
    FilePart,
    JsonObject,
    JsonValue,
    Message,
    Part,
    ReasoningPart,
    SourcePart,
    StepStartPart,
    TextPart,
    ToolCallPart,
)
from bascule.models import (
    File,
    Finish,
    ModelPart,
    Raw,
    ReasoningDelta,
    Source,
    TextDelta,
    ToolCall,
    ToolCallDelta,
)
from bascule.stream import (
    NO_USAGE,
    AbortChunk,
    Chunk,
    ErrorChunk,
    FileChunk,
    FinishChunk,
    RawChunk,
    ReasoningDeltaChunk,
    ReasoningEndChunk,
    ReasoningStartChunk,
    RunFinishReason,
    SourceChunk,
    StartChunk,
    StepFinishChunk,
    StepStartChunk,
    StoppedBy,
    TextDeltaChunk,
    TextEndChunk,
    TextStartChunk,
    ToolCallChunk,
    ToolCallDeltaChunk,
    ToolCallInputEndChunk,
    ToolCallInputStartChunk,
    ToolErrorChunk,
    ToolErrorKind,
    ToolResultChunk,
    Usage,
)

__all__ = ["Call", "Failure", "Outcome", "StepMachine", "Success"]


@dataclass(slots=True)
class Call:
    """One tool call of the current step.

    Attributes:
        args: the parsed arguments; the raw text when they are not a JSON object.
        problem: why the arguments cannot be used, and what kind of error that is.
        position: where its part stands in the turn.
    """

    id: str
    name: str
    args: JsonValue
    position: int
    problem: tuple[ToolErrorKind, str] | None = None


@dataclass(frozen=True, slots=True)
class Success:
    """A tool returned.

    Attributes:
        value: the returned object.
        result: the same as JSON values.
        model_output: what the model is shown instead, when the tool says so.
    """

    value: object
    result: JsonValue
    model_output: JsonValue = None


@dataclass(frozen=True, slots=True)
class Failure:
    """A tool call failed; the model is shown ``message``."""

    kind: ToolErrorKind
    message: str


Outcome = Success | Failure


class StepMachine:
    """One run of an agent.

    Args:
        run_id: the run.
        message_id: id of the assistant message that the run makes.
        agent_id: the agent.
        max_steps: how many model calls there may be.

    Attributes:
        parts: the parts of the turn so far; replaced as tool calls get their outcome.
        calls: the tool calls of the current step, in the order of the model.
        usage: tokens so far.
        remembered: the messages that memory contributed, for the last event.
        given: the caller's messages, likewise.
    """

    def __init__(
        self, *, run_id: str, message_id: str, agent_id: str, max_steps: int, provider: str = "", model_id: str = ""
    ) -> None:
        self.run_id = run_id
        self.message_id = message_id
        self.agent_id = agent_id
        self.max_steps = max_steps
        self.parts: list[Part] = []
        self.calls: list[Call] = []
        self.usage = NO_USAGE
        self.remembered: tuple[Message, ...] = ()
        self.given: tuple[Message, ...] = ()
        self._model = (provider, model_id)
        self._steps: list[StepFinishChunk] = []
        self._step_from = 0
        self._block: Literal["text", "reasoning"] | None = None
        self._block_id = ""
        self._blocks = 0
        self._block_metadata: JsonObject | None = None
        self._texts: list[str] = []
        self._step_text = ""
        self._last_text = ""
        self._step_usage = NO_USAGE
        self._streaming: set[str] = set()
        self._open: set[str] = set()
        self._finish: Finish | None = None
        self._in_step = False
        self._warnings: list[str] = []

    # --- the run and its steps ---

    def begin(self) -> Sequence[Chunk]:
        """Open the run."""
        return (StartChunk(self.run_id, self.agent_id, self.message_id),)

    def begin_step(self, started_at: int) -> Sequence[Chunk]:
        """Open a step; ``started_at`` is in milliseconds since the epoch."""
        if self._steps:
            self.parts.append(StepStartPart())
        self._step_from = len(self.parts)
        self.calls = []
        self._streaming.clear()
        self._open.clear()
        self._finish = None
        self._step_text = ""
        self._step_usage = NO_USAGE
        self._in_step = True
        return (StepStartChunk(self.run_id, self.message_id, started_at),)

    def part(self, part: ModelPart) -> Sequence[Chunk]:
        """Take the next part of the model's answer."""
        handler = self._parts.get(type(part))
        return handler(self, part) if handler is not None else ()

    def model_ended(self) -> Sequence[Chunk]:
        """Take the end of the model's answer; ``calls`` are the tools to run now."""
        if self._finish is None:
            self._warnings.append("The model's answer ended without saying why; it may be incomplete.")
        return self._close_block()

    def tool_outcome(self, call: Call, outcome: Outcome) -> Sequence[Chunk]:
        """Take what came of a call; outcomes may arrive in any order."""
        self._open.discard(call.id)
        if isinstance(outcome, Success):
            self.parts[call.position] = ToolCallPart(
                tool_call_id=call.id,
                tool_name=call.name,
                args=call.args,
                state="result",
                result=outcome.result,
                model_output=outcome.model_output,
            )
            return (
                ToolResultChunk(
                    self.run_id, call.id, call.name, call.args, outcome.result, outcome.value, outcome.model_output
                ),
            )
        self.parts[call.position] = ToolCallPart(
            tool_call_id=call.id, tool_name=call.name, args=call.args, state="output-error", error=outcome.message
        )
        return (ToolErrorChunk(self.run_id, call.id, call.name, call.args, outcome.kind, outcome.message),)

    def end_step(self, *, timestamp: str) -> Sequence[Chunk]:
        """Close the step; ``continues`` says whether another follows."""
        reason: RunFinishReason = self._finish.reason if self._finish is not None else "unknown"
        self._in_step = False
        self._last_text = self._step_text
        self.usage += self._step_usage
        more = bool(self.calls) and self._finish is not None and len(self._steps) + 1 < self.max_steps
        return (self._step_finish(reason, more, timestamp),)

    def _step_finish(self, reason: RunFinishReason, is_continued: bool, timestamp: str) -> StepFinishChunk:
        finish, (provider, model_id) = self._finish, self._model
        chunk = StepFinishChunk(
            self.run_id,
            message_id=self.message_id,
            reason=reason,
            is_continued=is_continued,
            usage=self._step_usage,
            text=self._step_text,
            provider=provider,
            model_id=(finish.response_model if finish else None) or model_id,
            response_id=finish.response_id if finish else None,
            timestamp=timestamp,
            provider_metadata=finish.provider_metadata if finish else None,
            parts=tuple(self.parts[self._step_from :]),
        )
        self._steps.append(chunk)
        return chunk

    @property
    def incomplete(self) -> bool:
        """Whether the model's answer broke off: what it asked for last may not be what it meant."""
        return self._finish is None

    @property
    def continues(self) -> bool:
        """Whether the model has to be called again, as things stand after ``end_step``."""
        return bool(self._steps) and self._steps[-1].is_continued

    def finish(self) -> Sequence[Chunk]:
        """Close the run."""
        reason: RunFinishReason = self._finish.reason if self._finish is not None else "unknown"
        limited = bool(self.calls) and self._finish is not None
        return (self._finish_chunk("tool-calls" if limited else reason, "max_steps" if limited else None),)

    # --- the unhappy ends ---

    def model_failed(self, error: Exception, message: str) -> Sequence[Chunk]:
        """Close the run after an error; the text so far is kept."""
        chunks = [*self._close_block(), *self._give_up_calls("The run failed before the tool ran.")]
        chunks.append(ErrorChunk(self.run_id, type(error).__name__, message, cause=error))
        self.parts.append(ErrorPart(type(error).__name__, message))
        chunks += self._end_open_step("error")
        return [*chunks, self._finish_chunk("error", None)]

    def abort(self, reason: str | None) -> Sequence[Chunk]:
        """Close the run because it was told to stop."""
        chunks = [*self._close_block(), *self._give_up_calls("The run was stopped.")]
        chunks.append(AbortChunk(self.run_id, reason))
        chunks += self._end_open_step("aborted")
        return [*chunks, self._finish_chunk("aborted", None)]

    def _give_up_calls(self, text: str) -> list[Chunk]:
        failure = Failure("cancelled", text)
        return [chunk for call in self.calls if call.id in self._open for chunk in self.tool_outcome(call, failure)]

    def _end_open_step(self, reason: RunFinishReason) -> list[Chunk]:
        if not self._in_step:
            return []
        self._in_step = False
        self._last_text = self._step_text
        self.usage += self._step_usage
        return [self._step_finish(reason, False, "")]

    def _finish_chunk(self, reason: RunFinishReason, stopped_by: StoppedBy | None) -> Chunk:
        return FinishChunk(
            self.run_id,
            message_id=self.message_id,
            reason=reason,
            usage=self.usage,
            text=self._last_text,
            stopped_by=stopped_by,
            warnings=tuple(self._warnings),
            steps=tuple(self._steps),
            remembered=self.remembered,
            given=self.given,
        )

    # --- blocks of text and reasoning ---

    def _text_delta(self, part: TextDelta) -> Sequence[Chunk]:
        if self._block == "text":
            self._texts.append(part.text)
            return (TextDeltaChunk(self.run_id, self._block_id, part.text),)
        closing = self._close_block()
        self._open_block("text")
        self._texts.append(part.text)
        return (
            *closing,
            TextStartChunk(self.run_id, self._block_id),
            TextDeltaChunk(self.run_id, self._block_id, part.text),
        )

    def _reasoning_delta(self, part: ReasoningDelta) -> Sequence[Chunk]:
        opening: tuple[Chunk, ...] = ()
        if self._block != "reasoning":
            closing = self._close_block()
            self._open_block("reasoning")
            opening = (*closing, ReasoningStartChunk(self.run_id, self._block_id))
        self._texts.append(part.text)
        said = (ReasoningDeltaChunk(self.run_id, self._block_id, part.text),) if part.text else ()
        if part.provider_metadata is None:
            return (*opening, *said)
        self._block_metadata = part.provider_metadata  # comes with the last piece of a block
        return (*opening, *said, *self._close_block())

    def _open_block(self, kind: Literal["text", "reasoning"]) -> None:
        self._block = kind
        self._block_id = f"{kind}-{self._blocks}"
        self._blocks += 1

    def _close_block(self) -> tuple[Chunk, ...]:
        if self._block is None:
            return ()
        text = "".join(self._texts)
        self._texts.clear()
        kind, self._block = self._block, None
        if kind == "text":
            self._step_text += text
            self.parts.append(TextPart(text))
            return (TextEndChunk(self.run_id, self._block_id),)
        metadata, self._block_metadata = self._block_metadata, None
        self.parts.append(ReasoningPart(text, metadata))
        return (ReasoningEndChunk(self.run_id, self._block_id, metadata),)

    # --- tool calls ---

    def _tool_delta(self, part: ToolCallDelta) -> Sequence[Chunk]:
        chunks: list[Chunk] = []
        if part.id not in self._streaming:
            chunks += self._close_block()
            self._streaming.add(part.id)
            chunks.append(ToolCallInputStartChunk(self.run_id, part.id, part.name))
        if part.arguments_text:
            chunks.append(ToolCallDeltaChunk(self.run_id, part.id, part.name, part.arguments_text))
        return chunks

    def _tool_call(self, part: ToolCall) -> Sequence[Chunk]:
        chunks: list[Chunk] = []
        if part.id not in self._streaming:
            chunks += self._tool_delta(ToolCallDelta(part.id, part.name, part.arguments))
        chunks.append(ToolCallInputEndChunk(self.run_id, part.id))
        args, problem = _parse(part.arguments)
        call = Call(part.id, part.name, args, len(self.parts), problem)
        self.calls.append(call)
        self._open.add(call.id)
        self.parts.append(ToolCallPart(tool_call_id=part.id, tool_name=part.name, args=args))
        chunks.append(ToolCallChunk(self.run_id, part.id, part.name, args))
        return chunks

    # --- the rest ---

    def _source(self, part: Source) -> Sequence[Chunk]:
        self.parts.append(SourcePart(id=part.id, url=part.url, title=part.title))
        return (SourceChunk(self.run_id, part.id, part.url, part.title),)

    def _file(self, part: File) -> Sequence[Chunk]:
        self.parts.append(FilePart(media_type=part.media_type, data=part.data))
        return (FileChunk(self.run_id, part.media_type, part.data),)

    def _raw(self, part: Raw) -> Sequence[Chunk]:
        return (RawChunk(self.run_id, part.value),)

    def _usage(self, part: Usage) -> Sequence[Chunk]:
        self._step_usage = part
        return ()

    def _finished(self, part: Finish) -> Sequence[Chunk]:
        self._finish = part
        if part.usage.total_tokens:
            self._step_usage = part.usage
        return ()

    _parts: ClassVar[
        dict[type[object], Callable[["StepMachine", Any], Sequence[Chunk]]]
    ] = {  # Any: each takes its own part
        TextDelta: _text_delta,
        ReasoningDelta: _reasoning_delta,
        ToolCallDelta: _tool_delta,
        ToolCall: _tool_call,
        Source: _source,
        File: _file,
        Raw: _raw,
        Usage: _usage,
        Finish: _finished,
    }


def _parse(text: str) -> tuple[JsonValue, tuple[ToolErrorKind, str] | None]:
    """Return a call's arguments, and what is wrong with them."""
    if not text.strip():
        return {}, None
    try:
        args = from_json(text)
    except ValueError as error:
        return text, ("invalid_json", f"The arguments are not valid JSON: {error}. Send one JSON object.")
    if not isinstance(args, dict):
        return text, ("invalid_input", f"The arguments are {type(args).__name__}, not a JSON object. Send one object.")
    return cast("JsonObject", args), None  # JSON objects have text keys
