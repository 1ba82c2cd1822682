"""Every console block of the documentation prints what it says, typed as a reader types it."""

from pathlib import Path

import pytest

from tests.acceptance.cli.claude_stand_in import claude_in
from tests.acceptance.harness.surroundings import Surroundings
from tests.docs.blocks import PAGES, blocks_of, first_example, page_id
from tests.docs.console import commands_of, session


@pytest.mark.requirement("F43")
@pytest.mark.parametrize("page", [page for page in PAGES if blocks_of(page, "console")], ids=page_id)
def test_console_blocks_print_what_they_say(page: Path, surroundings: Surroundings) -> None:
    (surroundings.project / "app.py").write_text(first_example(), encoding="utf-8")
    for card in blocks_of(page, "markdown"):
        (surroundings.project / "helper.md").write_text(card.text, encoding="utf-8")
    with session(surroundings, programs=claude_in(surroundings.root / "programs")) as reader:
        for block in blocks_of(page, "console"):
            for command in commands_of(block):
                reader.run(command, block.place)
