"""OpenAI's embeddings, and every server that speaks the same interface, over httpx."""

import math
import os
from collections.abc import Iterator, Mapping, Sequence

import anyio

from bascule.errors import InputError, ModelError
from bascule.messages import JsonValue
from bascule.models._exchange import Exchange
from bascule.models._http import retry_delay
from bascule.models._openai_server import find_server
from bascule.models._prompt import json_text
from bascule.models._sse import Json

__all__ = ["OpenAIEmbeddings"]

_BATCH_CHARACTERS = 600_000  # a request may hold 300,000 tokens, and a token mostly holds more than two characters


class OpenAIEmbeddings:
    """An embedding model behind OpenAI's interface.

    One HTTP client serves all calls in an event loop; it is closed by ``aclose``, else when the loop ends.
    """

    def __init__(
        self,
        model_id: str,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        dimensions: int | None = None,
        batch_size: int = 512,
        headers: Mapping[str, str] | None = None,
        timeout: float = 60.0,
        max_retries: int = 2,
        retry_backoff: float = 0.5,
        provider: str = "openai",
        environ: Mapping[str, str] = os.environ,
    ) -> None:
        """Describe the model; nothing is opened.

        Args:
            model_id: the model's name at the server.
            base_url: the server's address, which mostly ends in ``/v1``; by default the provider's, from
                ``<PROVIDER>_BASE_URL`` or the built-in table.
            api_key: the key; by default the provider's environment variable, which is only used when ``base_url`` is
                not given, so that a key is never sent to a server that it is not for.
            dimensions: the length of the vectors, for models that can shorten them.
            batch_size: the most texts in one request; long texts make it fewer.
            headers: headers to add to every request.
            timeout: the longest silence of the server, in seconds.
            max_retries: how often a failed request is repeated, if that can help.
            retry_backoff: seconds before the first repetition, doubled for each further one.
            provider: the provider's name, which also chooses the defaults.
            environ: where key and address are looked for.

        Raises:
            ConfigurationError: the base URL, the key or a header cannot be used.
        """
        self._server = find_server(
            model_id, provider=provider, base_url=base_url, api_key=api_key, headers=headers, environ=environ
        )
        self._model_id = model_id
        self._dimensions = dimensions
        self._asked_dimensions = dimensions
        self._batch_size = max(1, batch_size)
        self._max_retries = max_retries
        self._backoff = retry_backoff
        self._exchange = Exchange(self._server.endpoint, self._server.url("/embeddings"), timeout=timeout)

    def __repr__(self) -> str:
        url = self._server.endpoint.url
        return f"OpenAIEmbeddings({self._model_id!r}, provider={self.provider!r}, base_url={url!r})"

    @property
    def provider(self) -> str:
        """The provider's name."""
        return self._server.endpoint.provider

    @property
    def model_id(self) -> str:
        """The model's name at the server."""
        return self._model_id

    @property
    def dimensions(self) -> int | None:
        """The length of the vectors, ``None`` until the first answer unless it was chosen."""
        return self._dimensions

    async def aclose(self) -> None:
        """Close the connections of the running event loop; a later call opens new ones."""
        await self._exchange.aclose()

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """Return one vector for each text, in the same order.

        Raises:
            InputError: a text is empty, which the interface refuses.
            ModelError: the server failed or refused the request, or its answer does not fit it.
        """
        for at, text in enumerate(texts):
            if not text:
                raise InputError(f"The text at position {at} is empty and has no embedding. Leave it out.")
        vectors: list[list[float]] = []
        for batch in self._batches(texts):
            vectors += await self._embed(batch)
        return vectors

    def _batches(self, texts: Sequence[str]) -> Iterator[list[str]]:
        batch: list[str] = []
        size = 0
        for text in texts:
            if batch and (len(batch) >= self._batch_size or size + len(text) > _BATCH_CHARACTERS):
                yield batch
                batch, size = [], 0
            batch.append(text)
            size += len(text)
        if batch:
            yield batch

    async def _embed(self, batch: Sequence[str]) -> list[list[float]]:
        body: dict[str, JsonValue] = {"model": self._model_id, "input": batch, "encoding_format": "float"}
        if self._asked_dimensions is not None:
            body["dimensions"] = self._asked_dimensions
        attempt = 0
        while True:
            try:
                answer = await self._exchange.fetch_json(json_text(body), await self._server.request_headers())
                break
            except ModelError as error:
                wait = retry_delay(attempt, error, max_retries=self._max_retries, backoff=self._backoff)
                if wait is None:
                    raise
            attempt += 1
            await anyio.sleep(wait)
        vectors = _read_vectors(answer, len(batch))
        if vectors is None or len({*map(len, vectors)}) != 1:
            raise self._server.endpoint.malformed(f"something else than {len(batch)} vectors of one length")
        self._dimensions = len(vectors[0])
        return vectors


def _read_vectors(answer: Json, count: int) -> list[list[float]] | None:
    """Return the vectors of an answer in the order of the texts, ``None`` when it does not hold them all."""
    data = answer.get("data") if isinstance(answer, dict) else None
    found: dict[int, list[float]] = {}
    for position, item in enumerate(data if isinstance(data, list) else ()):
        if isinstance(item, dict):
            index, vector = item.get("index", position), _read_vector(item.get("embedding"))
            if isinstance(index, int) and vector:
                found[index] = vector
    return [found[index] for index in range(count)] if found.keys() == {*range(count)} else None


def _read_vector(value: Json) -> list[float]:
    """Return a vector, an empty one when it is none."""
    if not isinstance(value, list):
        return []
    numbers = [float(number) for number in value if isinstance(number, int | float)]
    return numbers if len(numbers) == len(value) and all(map(math.isfinite, numbers)) else []
