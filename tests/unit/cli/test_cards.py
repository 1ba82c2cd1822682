"""Agents written as Markdown."""

from pathlib import Path

import pytest

from bascule import tool
from bascule.cli._card import agent_from_card
from bascule.errors import AppNotFound, BasculeError, ConfigurationError, NameInvalid


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def write(folder: Path, text: str, name: str = "tutor.md") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def test_a_card_describes_an_agent_and_its_text_instructs_it(tmp_path: Path) -> None:
    card = write(
        tmp_path,
        "---\nid: maths\nname: Maths tutor\ndescription: Explains sums.\nmodel: scripted/echo\ntools: [add]\n---\n\n"
        "Be brief.\n\n---\nA line like a fence is text here.\n",
    )
    agent = agent_from_card(card, tools={"add": add})
    assert (agent.id, agent.name, agent.description, agent.model) == (
        "maths",
        "Maths tutor",
        "Explains sums.",
        "scripted/echo",
    )
    assert agent.instructions == "Be brief.\n\n---\nA line like a fence is text here."
    assert list(agent.tools) == ["add"]


def test_a_card_without_front_matter_takes_its_id_from_the_file(tmp_path: Path) -> None:
    agent = agent_from_card(write(tmp_path, "Be brief.", "my tutor.md"), tools={})
    assert (agent.id, agent.name, agent.instructions) == ("my_tutor", "my_tutor", "Be brief.")
    assert list(agent.tools) == []


def test_tools_may_be_one_text(tmp_path: Path) -> None:
    agent = agent_from_card(write(tmp_path, "---\ntools: add, \n---\n"), tools={"add": add})
    assert list(agent.tools) == ["add"]


@pytest.mark.parametrize(
    ("text", "error", "words"),
    [
        ("---\nid: a\n", ConfigurationError, ["never closes", "---"]),
        ("---\nid: [\n---\n", ConfigurationError, ["not YAML", "line 2"]),
        ("---\n- a\n---\n", ConfigurationError, ["no mapping", "id: tutor"]),
        ("---\ntool: add\n---\n", ConfigurationError, ["'tool'", "tools"]),
        ("---\nid: 7\n---\n", ConfigurationError, ["7", "id", "quotes"]),
        ("---\ntools: {a: 1}\n---\n", ConfigurationError, ["list of names"]),
        ("---\ntools: [subtract]\n---\n", ConfigurationError, ["'subtract'", "add"]),
        ("---\nid: a b\n---\n", NameInvalid, ["'a b'", "'a_b'"]),
    ],
)
def test_a_card_that_cannot_be_used_is_refused_with_what_to_do(
    tmp_path: Path, text: str, error: type[BasculeError], words: list[str]
) -> None:
    card = write(tmp_path, text)
    with pytest.raises(error) as refused:
        agent_from_card(card, tools={"add": add})
    assert all(word in str(refused.value) for word in [*words, "tutor.md"]), str(refused.value)


def test_a_tool_named_without_an_app_says_where_tools_come_from(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="serve FILE --agent"):
        agent_from_card(write(tmp_path, "---\ntools: [add]\n---\n"), tools={})


def test_a_missing_or_unreadable_card_is_refused(tmp_path: Path) -> None:
    with pytest.raises(AppNotFound, match=r"no\.md"):
        agent_from_card(tmp_path / "no.md", tools={})
    (tmp_path / "bytes.md").write_bytes(b"\xff\xfe\xfa")
    with pytest.raises(ConfigurationError, match="UTF-8"):
        agent_from_card(tmp_path / "bytes.md", tools={})
