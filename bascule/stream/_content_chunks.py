"""The events that carry what a model makes: text, reasoning, files, objects, an app's data."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

from bascule.messages import JsonObject, JsonValue
from bascule.stream._chunk import Chunk, Sender, Wire, present

__all__ = [
    "CustomChunk",
    "DataChunk",
    "FileChunk",
    "ObjectChunk",
    "ObjectResultChunk",
    "RawChunk",
    "ReasoningDeltaChunk",
    "ReasoningEndChunk",
    "ReasoningFileChunk",
    "ReasoningSignatureChunk",
    "ReasoningStartChunk",
    "RedactedReasoningChunk",
    "ResponseMetadataChunk",
    "SourceChunk",
    "TextDeltaChunk",
    "TextEndChunk",
    "TextStartChunk",
]


@dataclass(frozen=True, slots=True)
class TextStartChunk(Chunk):
    """A block of text begins."""

    id: str
    type: ClassVar[Literal["text-start"]] = "text-start"

    def _payload(self) -> Wire:
        return {"id": self.id}


@dataclass(frozen=True, slots=True)
class TextDeltaChunk(Chunk):
    """A piece of text."""

    id: str
    text: str
    type: ClassVar[Literal["text-delta"]] = "text-delta"

    def _payload(self) -> Wire:
        return {"id": self.id, "text": self.text}


@dataclass(frozen=True, slots=True)
class TextEndChunk(Chunk):
    """A block of text is complete."""

    id: str
    type: ClassVar[Literal["text-end"]] = "text-end"

    def _payload(self) -> Wire:
        return {"id": self.id, "type": "text-end"}


@dataclass(frozen=True, slots=True)
class ReasoningStartChunk(Chunk):
    """A block of reasoning begins."""

    id: str
    type: ClassVar[Literal["reasoning-start"]] = "reasoning-start"

    def _payload(self) -> Wire:
        return {"id": self.id}


@dataclass(frozen=True, slots=True)
class ReasoningDeltaChunk(Chunk):
    """A piece of reasoning."""

    id: str
    text: str
    type: ClassVar[Literal["reasoning-delta"]] = "reasoning-delta"

    def _payload(self) -> Wire:
        return {"id": self.id, "text": self.text}


@dataclass(frozen=True, slots=True)
class ReasoningEndChunk(Chunk):
    """A block of reasoning is complete; ``provider_metadata`` is what its provider wants back with it."""

    id: str
    provider_metadata: JsonObject | None = None
    type: ClassVar[Literal["reasoning-end"]] = "reasoning-end"

    def _payload(self) -> Wire:
        return present({"id": self.id, "providerMetadata": self.provider_metadata})


@dataclass(frozen=True, slots=True)
class ReasoningSignatureChunk(Chunk):
    """The provider's proof for a block of reasoning, to be sent back with it."""

    id: str
    signature: str
    provider_metadata: JsonObject | None = None
    type: ClassVar[Literal["reasoning-signature"]] = "reasoning-signature"


@dataclass(frozen=True, slots=True)
class RedactedReasoningChunk(Chunk):
    """Reasoning that the provider does not show; ``data`` is to be sent back as it is."""

    id: str
    data: JsonValue
    provider_metadata: JsonObject | None = None
    type: ClassVar[Literal["redacted-reasoning"]] = "redacted-reasoning"


@dataclass(frozen=True, slots=True)
class ReasoningFileChunk(Chunk):
    """A file that the model made while it reasoned; ``data`` is base64 text."""

    media_type: str
    data: str
    type: ClassVar[Literal["reasoning-file"]] = "reasoning-file"
    wire_keys: ClassVar[Mapping[str, str]] = {"media_type": "mimeType"}

    def _payload(self) -> Wire:
        return {"data": self.data, "base64": self.data, "mimeType": self.media_type}


@dataclass(frozen=True, slots=True)
class SourceChunk(Chunk):
    """Something the answer rests on."""

    id: str
    url: str
    title: str | None = None
    type: ClassVar[Literal["source"]] = "source"

    def _payload(self) -> Wire:
        return present({"id": self.id, "sourceType": "url", "url": self.url, "title": self.title})


@dataclass(frozen=True, slots=True)
class FileChunk(Chunk):
    """A file that the model made; ``data`` is base64 text."""

    media_type: str
    data: str
    type: ClassVar[Literal["file"]] = "file"
    wire_keys: ClassVar[Mapping[str, str]] = {"media_type": "mimeType"}

    def _payload(self) -> Wire:
        return {"data": self.data, "base64": self.data, "mimeType": self.media_type}


@dataclass(frozen=True, slots=True)
class RawChunk(Chunk):
    """A provider's event, untouched."""

    value: JsonValue
    type: ClassVar[Literal["raw"]] = "raw"
    wire_keys: ClassVar[Mapping[str, str]] = {"value": "rawValue"}

    def _payload(self) -> Wire:
        return {"rawValue": self.value}


@dataclass(frozen=True, slots=True)
class CustomChunk(Chunk):
    """A kind of content that only its provider knows; ``kind`` names it as ``provider.kind``."""

    kind: str
    provider_metadata: JsonObject | None = None
    type: ClassVar[Literal["custom"]] = "custom"


@dataclass(frozen=True, slots=True)
class ResponseMetadataChunk(Chunk):
    """What the provider says of its answer before the answer is complete."""

    id: str | None = None
    timestamp: str | None = None
    model_id: str | None = None
    type: ClassVar[Literal["response-metadata"]] = "response-metadata"


@dataclass(frozen=True, slots=True)
class ObjectChunk(Chunk):
    """The structured answer as far as it is known; on the wire it stands beside the type, not in a payload."""

    object: JsonValue
    type: ClassVar[Literal["object"]] = "object"

    def to_wire(self) -> Wire:
        return {"type": self.type, "runId": self.run_id, "from": self.sender, "object": self.object}


@dataclass(frozen=True, slots=True)
class ObjectResultChunk(Chunk):
    """The structured answer, complete and checked."""

    object: JsonValue
    type: ClassVar[Literal["object-result"]] = "object-result"

    def to_wire(self) -> Wire:
        return {"type": self.type, "runId": self.run_id, "from": self.sender, "object": self.object}


@dataclass(frozen=True, slots=True)
class DataChunk(Chunk):
    """An app's own data; on the wire its type is ``data-<name>`` and it carries ``data`` at the top.

    Attributes:
        name: the part of the type after ``data-``.
        data: the data.
        id: a later event with the same name and id replaces this one on a screen.
        transient: whether it is for those who look now only, and never stored.
    """

    name: str
    data: JsonValue
    id: str | None = None
    transient: bool = False
    type: ClassVar[str] = "data"
    sender: ClassVar[Sender] = "USER"

    def to_wire(self) -> Wire:
        wire: Wire = {"type": f"data-{self.name}", "runId": self.run_id, "from": self.sender, "data": self.data}
        if self.id is not None:
            wire["id"] = self.id
        if self.transient:
            wire["transient"] = True
        return wire
