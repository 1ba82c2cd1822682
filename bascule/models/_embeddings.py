"""From texts to vectors: what an embedding model is, and the one that needs neither a key nor a package."""

import math
import re
import unicodedata
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from typing import Protocol

import anyio.lowlevel
import anyio.to_thread

from bascule.errors import ConfigurationError

__all__ = ["EmbeddingModel", "HashEmbedder"]

_WORD = re.compile(r"\w+")
_AT_ONCE = 2_000  # characters that are embedded in the event loop; more of them go to a thread


class EmbeddingModel(Protocol):
    """Anything that turns texts into vectors, so that texts of like meaning lie close together."""

    @property
    def provider(self) -> str:
        """The provider's name, such as ``openai``."""
        ...

    @property
    def model_id(self) -> str:
        """The model's name at its provider; vectors of different models cannot be compared."""
        ...

    @property
    def dimensions(self) -> int | None:
        """The length of the vectors, ``None`` while it is not known."""
        ...

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """Return one vector for each text, in the same order."""
        ...


class HashEmbedder:
    """Counts words and groups of three letters, each at a place that its hash says; needs no key and no package.

    Texts that share words or word stems lie close together; it knows nothing of meaning. Vectors have the length 1 and
    are the same in every process.
    """

    def __init__(self, dimensions: int = 256) -> None:
        """Choose the length of the vectors.

        Raises:
            ConfigurationError: it is less than 1.
        """
        if dimensions < 1:
            raise ConfigurationError(f"dimensions is {dimensions}; a vector has at least one.")
        self._dimensions = dimensions

    def __repr__(self) -> str:
        return f"HashEmbedder({self._dimensions})"

    @property
    def provider(self) -> str:
        """The provider's name."""
        return "bascule"

    @property
    def model_id(self) -> str:
        """The model's name; it says everything that the vectors depend on."""
        return f"hash-1-{self._dimensions}"

    @property
    def dimensions(self) -> int:
        """The length of the vectors."""
        return self._dimensions

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """Return one vector for each text, in the same order; that of a text without words is all zeros."""
        texts = list(texts)
        if sum(map(len, texts)) > _AT_ONCE:
            return await anyio.to_thread.run_sync(self._vectors, texts)
        await anyio.lowlevel.checkpoint()
        return self._vectors(texts)

    def _vectors(self, texts: Sequence[str]) -> list[list[float]]:
        return [self._vector(text) for text in texts]

    def _vector(self, text: str) -> list[float]:
        vector = [0.0] * self._dimensions
        for feature, weight in _features(text):
            digest = int.from_bytes(blake2b(feature.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big")
            vector[(digest >> 1) % self._dimensions] += weight if digest & 1 else -weight
        length = math.sqrt(sum(value * value for value in vector))
        return [value / length for value in vector] if length else vector


def _features(text: str) -> Iterator[tuple[str, float]]:
    """Return what is counted: each word in full, and with less weight its groups of three letters."""
    for word in _WORD.findall(unicodedata.normalize("NFKC", text).casefold()):
        yield word, 1.0
        framed = f"<{word}>"
        if len(framed) > 3:
            weight = 1.0 / math.sqrt(len(framed) - 2)  # a long word counts no more than a short one
            for start in range(len(framed) - 2):
                yield framed[start : start + 3], weight
