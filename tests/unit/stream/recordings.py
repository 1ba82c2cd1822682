"""Recordings of a foreign server, what of them can be compared with ours, and a model that says what they need."""

import json
from collections.abc import AsyncIterator, Iterable, Mapping
from pathlib import Path
from typing import Any

from bascule.messages import JsonObject, JsonValue
from bascule.models import ModelCall, ModelCapabilities, ModelPart

FOLDER = Path(__file__).parent / "golden"


def recording(name: str) -> list[JsonObject]:
    """Return the events of a recorded stream, without the frame that ends it; times are not part of a recording."""
    lines = (FOLDER / f"{name}.jsonl").read_text(encoding="utf-8").replace('"<ms>"', "0").splitlines()
    assert json.loads(lines[-1]) == "[DONE]"
    return [json.loads(line) for line in lines[:-1]]


def kinds(wires: Iterable[JsonObject]) -> list[str]:
    """Return the types in order, repeated deltas once."""
    found: list[str] = []
    for wire in wires:
        kind = str(wire["type"])
        if not found or found[-1] != kind or not kind.endswith("delta"):
            found.append(kind)
    return found


def payload_of(wire: JsonObject) -> JsonObject:
    payload = wire.get("payload", {})
    assert isinstance(payload, Mapping)
    return payload


def at(value: JsonValue, *path: str | int) -> Any:  # Any: a test says what it expects there
    """Return what stands at a place of a JSON value."""
    found: Any = value
    for key in path:
        found = found[key]
    return found


def missing_keys(ours: JsonValue, theirs: JsonValue, where: str = "") -> list[str]:
    """Return what a recorded value has and ours lacks, at any depth; entries of lists are compared by place."""
    if isinstance(theirs, Mapping):
        if not isinstance(ours, Mapping):
            return [where]
        lacking: list[str] = []
        for key, value in theirs.items():
            place = f"{where}.{key}" if where else key
            lacking += missing_keys(ours[key], value, place) if key in ours else [place]
        return lacking
    if isinstance(theirs, list):
        if not isinstance(ours, list | tuple) or len(ours) < len(theirs):
            return [f"{where}[{len(theirs)}]"]
        pairs = zip(ours, theirs, strict=False)
        return [lacking for one, other in pairs for lacking in missing_keys(one, other, f"{where}[]")]
    return []


class Parts:
    """A model that says given parts, and then fails if it is told to."""

    provider = "script"
    model_id = "script-v1"
    capabilities = ModelCapabilities()

    def __init__(self, *parts: ModelPart, error: Exception | None = None) -> None:
        self._parts, self._error = parts, error

    async def stream(self, call: ModelCall) -> AsyncIterator[ModelPart]:
        for part in self._parts:
            yield part
        if self._error is not None:
            raise self._error
