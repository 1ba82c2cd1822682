"""The seam between the agent loop and every language model."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol, TypeAlias

from bascule.context import CancelToken, RequestContext
from bascule.messages import JsonObject, JsonValue, Message
from bascule.stream import NO_USAGE, Usage

__all__ = [
    "File",
    "Finish",
    "FinishReason",
    "LanguageModel",
    "ModelCall",
    "ModelCapabilities",
    "ModelPart",
    "ModelSettings",
    "ModelTool",
    "Raw",
    "ReasoningDelta",
    "Source",
    "TextDelta",
    "ToolCall",
    "ToolCallDelta",
    "ToolChoice",
    "Usage",
]

FinishReason: TypeAlias = Literal["stop", "length", "tool-calls", "content-filter", "error", "other", "unknown"]


@dataclass(frozen=True, slots=True)
class TextDelta:
    """A piece of the answer."""

    text: str


@dataclass(frozen=True, slots=True)
class ReasoningDelta:
    """A piece of the model's reasoning.

    ``provider_metadata`` is what the provider wants back with the reasoning, such as a signature. It comes with the
    last piece of a block, which may be empty, and belongs into the ``ReasoningPart`` of that block.
    """

    text: str
    provider_metadata: JsonObject | None = None


@dataclass(frozen=True, slots=True)
class ToolCallDelta:
    """A piece of a tool call's arguments, as JSON text."""

    id: str
    name: str
    arguments_text: str


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A whole tool call; ``arguments`` is the JSON text exactly as the model wrote it."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class Source:
    """Something the answer rests on."""

    id: str
    url: str
    title: str | None = None


@dataclass(frozen=True, slots=True)
class File:
    """A file that the model made; ``data`` is base64 text."""

    media_type: str
    data: str


@dataclass(frozen=True, slots=True)
class Raw:
    """A provider event, untouched; only sent when the call asks for it."""

    value: JsonValue


@dataclass(frozen=True, slots=True)
class Finish:
    """The model is done."""

    reason: FinishReason
    usage: Usage = NO_USAGE
    provider_metadata: JsonObject | None = None
    response_id: str | None = None
    response_model: str | None = None


ModelPart: TypeAlias = TextDelta | ReasoningDelta | ToolCallDelta | ToolCall | Source | File | Raw | Usage | Finish


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelTool:
    """A tool as the model is told of it; ``input_schema`` is a JSON schema with an object at its root."""

    name: str
    description: str
    input_schema: JsonObject


ToolChoice: TypeAlias = Literal["auto", "none", "required"] | JsonObject
"""``{"type": "tool", "toolName": name}`` forces one tool."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSettings:
    """How the model samples; ``None`` leaves the provider's default."""

    temperature: float | None = None
    max_output_tokens: int | None = None
    top_p: float | None = None
    top_k: int | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    stop_sequences: tuple[str, ...] = ()
    seed: int | None = None
    headers: JsonObject | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCapabilities:
    """What a model can do."""

    tools: bool = True
    native_json: bool = False
    images: bool = False
    label: str | None = None
    """Shown to people when the model is not a language model at all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCall:
    """One request to a model.

    Attributes:
        messages: the prompt in order, system messages first; one assistant message holds a whole turn, its model
            calls separated by ``StepStartPart`` and its tool results inside the ``ToolCallPart`` items.
        tools: tools that may be called.
        tool_choice: whether and which tool must be called.
        settings: sampling.
        response_format: JSON schema that the answer must fit, for models with native JSON.
        provider_options: options by provider name, handed on untouched.
        include_raw: whether ``Raw`` parts are wanted.
        cancel: set when nobody wants the answer any more; the task is cancelled as well.
        request_context: identity and trace of the request that caused the call.
    """

    messages: Sequence[Message]
    tools: Sequence[ModelTool] = ()
    tool_choice: ToolChoice = "auto"
    settings: ModelSettings = field(default_factory=ModelSettings)
    response_format: JsonObject | None = None
    provider_options: JsonObject | None = None
    include_raw: bool = False
    cancel: CancelToken | None = None
    request_context: RequestContext | None = None


class LanguageModel(Protocol):
    """Anything that answers a prompt as a stream of parts."""

    @property
    def provider(self) -> str:
        """The provider's name, such as ``openai``."""
        ...

    @property
    def model_id(self) -> str:
        """The model's name at its provider."""
        ...

    @property
    def capabilities(self) -> ModelCapabilities:
        """What the model can do."""
        ...

    def stream(self, call: ModelCall) -> AsyncIterator[ModelPart]:
        """Answer a call; ends with exactly one ``Finish`` unless it raises ``ModelError``.

        Tool calls are sent whole as ``ToolCall`` after their deltas. A call may be repeated.
        """
        ...
