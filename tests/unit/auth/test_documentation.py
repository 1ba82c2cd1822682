"""What the page about auth says is so."""

import re
from pathlib import Path

import pytest
from pytest_examples import CodeExample, EvalExample, find_examples

from bascule.auth import REASONS

PAGE = Path(__file__).parents[3] / "docs" / "how-to" / "auth.md"
PYTHON = [example for example in find_examples(PAGE) if example.prefix == "python"]


@pytest.mark.parametrize("example", PYTHON, ids=str)
def test_the_examples_run(example: CodeExample, eval_example: EvalExample) -> None:
    eval_example.run(example)


def test_every_reason_is_explained() -> None:
    assert re.findall(r"^\| 401 \| `(\w+)`", PAGE.read_text(), re.MULTILINE) == list(REASONS)
