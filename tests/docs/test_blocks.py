"""Every code block of the documentation does what it says."""

import json
import re
import sys
import tomllib
from pathlib import Path

import pytest

from bascule.settings import load_settings
from tests.acceptance.harness.processes import run_to_end
from tests.acceptance.harness.surroundings import Surroundings
from tests.docs.blocks import PAGES, ROOT, Block, blocks_of, page_id
from tests.docs.console import MAKE_RUN, Command, commands_of, compare

pytestmark = pytest.mark.timeout(240)

LANGUAGES = {"python", "text", "console", "json", "toml", "markdown"}
END = "--- end of block ---\n"


def test_every_block_is_of_a_kind_that_is_tested() -> None:
    untested = [block.place for page in PAGES for block in blocks_of(page) if block.language not in LANGUAGES]
    assert untested == []


@pytest.mark.requirement("F43")
@pytest.mark.parametrize("page", [page for page in PAGES if blocks_of(page, "python")], ids=page_id)
def test_python_blocks_run_and_print_what_they_say(page: Path, surroundings: Surroundings) -> None:
    blocks = blocks_of(page, "python", "text")
    outputs = iter(_outputs(page, surroundings))
    printed = ""
    for block in blocks:
        if block.language == "text":
            compare(printed, block.text.splitlines(), block.place)
        else:
            printed = next(outputs)
            compare(printed, re.findall(r"(?m)^\s*#> ?(.*)$", block.text), block.place)


def _outputs(page: Path, surroundings: Surroundings) -> list[str]:
    """Run the blocks of a page one after another in one process, and return what each printed."""
    codes = [(block.text, block.place) for block in blocks_of(page, "python")]
    program = (
        f"for code, place in {codes!r}:\n    exec(compile(code, place, 'exec'), globals())\n    print(end={END!r})\n"
    )
    environment = surroundings.environment(PYTHONPATH=str(ROOT))
    command = [sys.executable, "-W", "error", "-c", program]
    done = run_to_end(command, env=environment, cwd=surroundings.project, timeout=120)
    assert done.exit_code == 0, f"{page_id(page)}\n{done.stderr}"
    return done.stdout.split(END)


def test_data_blocks_can_be_read(tmp_path: Path) -> None:
    for page in PAGES:
        for block in blocks_of(page, "json", "toml"):
            read = json.loads if block.language == "json" else tomllib.loads
            assert read(block.text), block.place
            if block.text.startswith("# bascule.toml"):
                (tmp_path / "bascule.toml").write_text(block.text, encoding="utf-8")
                load_settings(tmp_path, environ={})


def test_make_run_serves_what_the_pages_say() -> None:
    recipe = re.search(r"(?m)^run:.*\n\t(.*)$", (ROOT / "Makefile").read_text(encoding="utf-8"))
    assert recipe is not None
    assert recipe[1].replace("$(BIN)/", "").replace("$(PORT)", "8000") == MAKE_RUN


def test_a_console_block_is_taken_apart() -> None:
    block = Block(ROOT / "README.md", 1, "console", "$ one   # why\n1\n\n$ two # 2\n")
    assert commands_of(block) == [Command("one", ["1", ""]), Command("two")]
    block = Block(ROOT / "README.md", 1, "console", "one   # why\ntwo\n")
    assert commands_of(block) == [Command("one"), Command("two")]


def test_what_is_printed_is_compared_with_room_for_what_differs() -> None:
    compare("a\nb\nc\n", ["a", "...", "c"], "here")
    compare("Python 3.11.7\n", ["Python 3..."], "here")
    compare("a\n", ["a", "..."], "here")
    compare("anything", [], "here")
    for expected in (["a"], ["a", "b", "..."], ["b"]):
        with pytest.raises(AssertionError, match="here prints"):
            compare("a\nc\n", expected, "here")
