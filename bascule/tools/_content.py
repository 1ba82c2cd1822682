"""What a tool may return beside plain values: pictures, sound, files."""

import base64
from dataclasses import dataclass
from typing import TypeAlias

__all__ = ["Audio", "Content", "EmbeddedResource", "Image", "ResourceLink"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """A picture; ``media_type`` is its MIME type."""

    data: bytes
    media_type: str = "image/png"

    @property
    def base64(self) -> str:
        """The bytes as base64 text."""
        return base64.b64encode(self.data).decode()


@dataclass(frozen=True, slots=True, kw_only=True)
class Audio:
    """A piece of sound; ``media_type`` is its MIME type."""

    data: bytes
    media_type: str = "audio/wav"

    @property
    def base64(self) -> str:
        """The bytes as base64 text."""
        return base64.b64encode(self.data).decode()


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddedResource:
    """The contents of a resource, inline; ``data`` is text or bytes."""

    uri: str
    data: str | bytes
    media_type: str = "text/plain"


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceLink:
    """Points at a resource that the client may read."""

    uri: str
    name: str
    description: str | None = None
    media_type: str | None = None


Content: TypeAlias = Image | Audio | EmbeddedResource | ResourceLink
