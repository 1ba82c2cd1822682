import math
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bascule.errors import ConfigurationError
from bascule.models import EmbeddingModel, HashEmbedder


def closeness(one: list[float], other: list[float]) -> float:
    return sum(a * b for a, b in zip(one, other, strict=True))


async def test_texts_that_share_words_or_stems_lie_close_together() -> None:
    cat, cats, planets = await HashEmbedder().embed(
        ["The cat sleeps on the mat", "cats sleeping on mats", "Jupiter orbits far away"]
    )

    assert closeness(cat, cats) > closeness(cat, planets) + 0.2


async def test_case_and_form_of_letters_do_not_matter() -> None:
    one, other = await HashEmbedder().embed(["STRASSE \uff21", "stra\u00dfe a"])

    assert one == other


@given(st.lists(st.text(alphabet=st.characters(), max_size=40), max_size=5))
async def test_a_vector_has_the_length_one_or_is_all_zeros(texts: list[str]) -> None:
    model = HashEmbedder(16)

    vectors = await model.embed(texts)

    assert len(vectors) == len(texts)
    for vector in vectors:
        assert len(vector) == 16
        assert not any(vector) or math.isclose(closeness(vector, vector), 1.0)


async def test_a_text_without_words_and_one_of_broken_characters_are_taken() -> None:
    empty, broken = await HashEmbedder(8).embed([" .,! ", "a\ud800b"])

    assert empty == [0.0] * 8
    assert any(broken)


async def test_long_texts_are_embedded_alike() -> None:
    text = "word " * 2000

    [alone] = await HashEmbedder().embed([text])
    short, together = await HashEmbedder().embed(["word", text])

    assert alone == together
    assert closeness(alone, short) == pytest.approx(1.0)


def test_vectors_are_the_same_in_every_process() -> None:
    code = (
        "import anyio; from bascule.models import HashEmbedder; "
        "print(anyio.run(HashEmbedder(4).embed, ['the same text everywhere']))"
    )

    seen = {
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True, env={"PYTHONHASHSEED": seed}
        ).stdout
        for seed in ("1", "2")
    }

    assert len(seen) == 1


def test_the_name_says_what_vectors_depend_on() -> None:
    model: EmbeddingModel = HashEmbedder(64)

    assert (model.provider, model.model_id, model.dimensions) == ("bascule", "hash-1-64", 64)
    assert repr(model) == "HashEmbedder(64)"
    with pytest.raises(ConfigurationError):
        HashEmbedder(0)
