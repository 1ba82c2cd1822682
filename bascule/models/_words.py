"""Ranks tools against a text by the words they share (Okapi BM25), without any dependency."""

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from bascule.models._protocol import ModelTool

__all__ = ["RankedTool", "rank_tools", "words_of"]

_WORD = re.compile(r"[^\W_]+")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_STREAMED = re.compile(r"\s*\S+\s*$|\s*\S+|\s+")
_BETWEEN_NUMBERS = re.compile(r"[\d)]\s*([-+*/x\u00d7\u00f7\u2212^%])\s*(?=[-\d(])")
_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_K1, _B = 1.2, 0.75
_NAME_WEIGHT = 3
_SYNONYM_WEIGHT = 0.8
_MIN_RATIO = 0.5

_COMMON = (
    "a an and are as at be by can could current currently do does for from get give go has have how i if in is it its "
    "me my now of on or our please shall should so tell that the their them then there these they this to us was we "
    "what when where which who will with would you your"
)
_STOPWORDS = frozenset(_COMMON.split())
_OPERATORS: Mapping[str, str] = {
    "+": "add",
    "-": "subtract",
    "\u2212": "subtract",
    "*": "multiply",
    "x": "multiply",
    "\u00d7": "multiply",
    "/": "divide",
    "\u00f7": "divide",
    "^": "power",
    "%": "modulo",
}
_SYNONYMS = (
    ("add", "plus", "sum", "addition"),
    ("subtract", "minus", "difference", "subtraction"),
    ("multiply", "times", "product", "multiplication"),
    ("divide", "quotient", "division"),
    ("power", "exponent"),
    ("modulo", "remainder"),
    ("search", "find", "lookup"),
    ("delete", "remove"),
    ("create", "make", "new"),
    ("list", "show"),
)


_CONSEQUENTIAL = "delete remove drop reset erase clear destroy purge wipe kill cancel stop send pay deploy overwrite"


def words_of(text: str) -> list[str]:
    """Split a text into pieces of a word and the space before it; joined they are the text."""
    return _STREAMED.findall(text)


def _stem(word: str) -> str:
    word = word.casefold()
    if len(word) > 4 and word.endswith("ies"):
        return word[:-3] + "y"
    for ending in ("ing", "ed", "es", "s"):
        if word.endswith(ending) and not word.endswith("ss") and len(word) - len(ending) >= 3:
            word = word.removesuffix(ending)
            break
    return word[:-1] if len(word) > 3 and word.endswith("e") else word


def _tokens(text: str) -> list[str]:
    words = _WORD.findall(_CAMEL.sub(" ", text))
    return [_stem(word) for word in words if word.casefold() not in _STOPWORDS]


def _synonyms() -> dict[str, tuple[str, ...]]:
    groups = [tuple(_stem(word) for word in group) for group in _SYNONYMS]
    return {word: group for group in groups for word in group}


_SYNONYMS_OF = _synonyms()
_MUST_BE_SAID = frozenset(_stem(word) for word in _CONSEQUENTIAL.split())


@dataclass(frozen=True, slots=True)
class RankedTool:
    """A tool and how well a text fits it.

    Attributes:
        tool: the tool.
        score: the higher the better; 0 when nothing fits.
        shared: the stemmed words that the text and the tool's name share.
        fits: whether the text is about this tool at all.
    """

    tool: ModelTool
    score: float
    shared: frozenset[str]
    fits: bool


def _query(text: str) -> dict[str, float]:
    operators = [_OPERATORS[sign] for sign in _BETWEEN_NUMBERS.findall(_DATE.sub(" ", text))]
    said = [token for token in _tokens(text) if not token.isdigit()]
    weights = dict.fromkeys([*said, *(_stem(word) for word in operators)], 1.0)
    for word in tuple(weights):
        for other in _SYNONYMS_OF.get(word, ()):
            weights.setdefault(other, _SYNONYM_WEIGHT)
    return weights


def rank_tools(text: str, tools: Sequence[ModelTool]) -> list[RankedTool]:
    """Return the tools that a text may be about, the best first; equal ones keep their order.

    A tool fits when its name shares a word with the text, or when its description shares at least half of the text's
    words and no fewer than two. One that needs no arguments must be named in full, and a word such as "delete" in the
    name must have been said: what cannot be undone does not happen by resemblance.
    """
    query = _query(text)
    said = {token for token in _tokens(text) if not token.isdigit()}
    names = [frozenset(_tokens(tool.name)) for tool in tools]
    documents = [Counter(_document(tool)) for tool in tools]
    scores = _bm25(query, documents)
    ranked: list[RankedTool] = []
    for tool, name, document, score in zip(tools, names, documents, scores, strict=True):
        shared = name & query.keys()
        fits = _fits(tool, name, shared, said, said & document.keys())
        whole = 2.0 if re.search(rf"(?<!\w){re.escape(tool.name)}(?!\w)", text, re.IGNORECASE) else 1.0
        coverage = (1 + len(shared)) / (1 + len(name))
        ranked.append(RankedTool(tool, score * whole * (1 + coverage), shared, fits and score > 0))
    best = max((item.score for item in ranked if item.fits), default=0.0)
    kept = [item for item in ranked if item.fits and item.score >= best * _MIN_RATIO]
    return sorted(kept, key=lambda item: -item.score)


def _fits(tool: ModelTool, name: frozenset[str], shared: frozenset[str], said: set[str], described: set[str]) -> bool:
    if name & _MUST_BE_SAID and not name & _MUST_BE_SAID & shared:
        return False
    if not tool.input_schema.get("required"):
        return shared == name != frozenset()
    return bool(shared) or (len(described) >= 2 and 2 * len(described) >= len(said))


def _document(tool: ModelTool) -> Iterable[str]:
    properties = tool.input_schema.get("properties")
    parameters = " ".join(properties) if isinstance(properties, Mapping) else ""
    return [*_tokens(tool.name) * _NAME_WEIGHT, *_tokens(tool.description), *_tokens(parameters)]


def _bm25(query: Mapping[str, float], documents: Sequence[Counter[str]]) -> list[float]:
    total = len(documents)
    lengths = [sum(document.values()) for document in documents]
    average = (sum(lengths) / total if total else 0.0) or 1.0
    scores = [0.0] * total
    for word, weight in query.items():
        holders = sum(1 for document in documents if word in document)
        if not holders:
            continue
        rarity = math.log(1 + (total - holders + 0.5) / (holders + 0.5))
        for position, document in enumerate(documents):
            count = document[word]
            norm = _K1 * (1 - _B + _B * lengths[position] / average)
            scores[position] += weight * rarity * count * (_K1 + 1) / (count + norm)
    return scores
