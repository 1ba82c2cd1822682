"""Nothing that can be used is missing from the reference."""

import importlib
import re
from collections.abc import Iterator
from dataclasses import fields

import click
import pytest

import bascule
from bascule.cli import _main as command_line
from bascule.settings import Settings
from tests.docs.blocks import PAGES, ROOT

REFERENCE = ROOT / "docs" / "reference"
INTERNAL = {"BASCULE_PROCESS_GROUP"}
"""Marks the processes that we start; nobody sets it."""


def leaves(command: click.Command, name: str) -> Iterator[tuple[str, click.Command]]:
    """Every command that does something, with its whole name."""
    if not isinstance(command, click.Group):
        yield name, command
        return
    context = click.Context(command)
    for inner in command.list_commands(context):
        found = command.get_command(context, inner)
        assert found is not None
        yield from leaves(found, f"{name} {inner}")


COMMANDS = dict(leaves(command_line._root, "bascule"))  # pyright: ignore[reportPrivateUsage]  # the command line itself


def sections() -> dict[str, str]:
    text = (REFERENCE / "cli.md").read_text(encoding="utf-8")
    titles = re.split(r"(?m)^## (.*)$", text)
    return dict(zip(titles[1::2], titles[2::2], strict=True))


def test_every_command_has_a_section_and_no_section_is_of_a_command_that_is_gone() -> None:
    assert set(sections()) == set(COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_of_a_command_is_in_its_section(name: str) -> None:
    options = {
        option
        for parameter in COMMANDS[name].params
        if isinstance(parameter, click.Option)
        for option in parameter.opts
        if option.startswith("--")
    }
    documented = set(re.findall(r"`(--[a-z-]+)`", "\n".join(re.findall(r"(?m)^\| .*$", sections()[name]))))
    assert documented == options


def test_every_setting_is_in_the_table_with_its_variable() -> None:
    text = (REFERENCE / "settings.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"(?m)^\| `([a-z_]+)` \| (.*?) \|", text))
    assert set(rows) == {field.name for field in fields(Settings)}
    for name, variables in rows.items():
        assert f"`BASCULE_{name.upper()}`" in variables


def test_every_variable_that_the_code_reads_is_documented() -> None:
    sources = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "bascule").rglob("*.py"))
    read = set(re.findall(r"environ(?:\.get\(|\[)\s*f?\"(BASCULE_[A-Z_]+)\"|envvar=\"(BASCULE_[A-Z_]+)\"", sources))
    names = {name for pair in read for name in pair if name} - INTERNAL
    text = (REFERENCE / "settings.md").read_text(encoding="utf-8")
    assert names
    assert {name for name in names if f"`{name}`" not in text} == set()


def test_every_public_name_is_in_the_reference() -> None:
    text = (REFERENCE / "python.md").read_text(encoding="utf-8")
    documented = re.findall(r"(?m)^::: bascule\.(\w+)$", text)
    assert sorted(documented) == sorted(bascule.__all__)
    for name in documented:
        assert getattr(bascule, name).__doc__, f"bascule.{name} has no docstring"


def test_every_page_can_be_found_in_the_navigation() -> None:
    text = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    listed = set(re.findall(r"(?m)^\s+- ([\w/.-]+\.md)$", text))
    assert listed == {page.relative_to(ROOT / "docs").as_posix() for page in PAGES if ROOT / "docs" in page.parents}


def test_links_between_pages_lead_somewhere() -> None:
    broken = [
        f"{page.relative_to(ROOT)}: {link}"
        for page in PAGES
        for link in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8"))
        if not (page.parent / link).exists()
    ]
    assert broken == []


@pytest.mark.requirement("C05")
def test_the_four_parts_of_the_design_are_mapped_to_their_folders() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    rows = re.findall(r"(?m)^\| `(\w+)` \| \[`([\w/]+)`\]", readme)
    assert rows == [(name, f"bascule/{name}/") for name in ("mcp_server", "acp", "auth", "tools")]
    for name, folder in rows:
        assert (ROOT / folder).is_dir()
        importlib.import_module(f"bascule.{name}")
