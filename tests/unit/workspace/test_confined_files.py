"""Files that cannot be reached from outside their folder."""

import os
import socket
import stat
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bascule.errors import NotFound, PathRefused
from bascule.workspace import ConfinedFiles


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "secret.txt").write_text("secret", encoding="utf-8")
    return folder


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "root"
    folder.mkdir()
    (folder / "a.txt").write_text("one\ntwo\nthree\n", encoding="utf-8")
    return folder


def snapshot(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text(encoding="utf-8") for path in folder.iterdir()}


async def test_a_file_is_read_by_its_relative_and_its_absolute_path(root: Path) -> None:
    files = ConfinedFiles(root)
    assert await files.read_text("a.txt") == "one\ntwo\nthree\n"
    assert await files.read_text(str(root / "a.txt")) == "one\ntwo\nthree\n"
    assert await files.read_text(".//./a.txt") == "one\ntwo\nthree\n"


@pytest.mark.parametrize(
    ("line", "limit", "text"),
    [(1, 1, "one\n"), (2, None, "two\nthree\n"), (2, 1, "two\n"), (None, 2, "one\ntwo\n"), (9, 1, ""), (1, 0, "")],
)
async def test_some_lines_of_a_file_are_read(root: Path, line: int | None, limit: int | None, text: str) -> None:
    assert await ConfinedFiles(root).read_text("a.txt", line=line, limit=limit) == text


async def test_a_file_is_written_with_its_folders_and_line_ends_untouched(root: Path) -> None:
    files = ConfinedFiles(root)
    assert await files.write_text("new/deep/b.txt", "x\r\ny\n") == "new/deep/b.txt"
    assert (root / "new/deep/b.txt").read_bytes() == b"x\r\ny\n"
    assert await files.read_text("new/deep/b.txt") == "x\r\ny\n"


async def test_a_replaced_file_keeps_its_mode_and_leaves_no_temporary_file(root: Path) -> None:
    (root / "run.sh").write_text("old", encoding="utf-8")
    (root / "run.sh").chmod(0o750)
    await ConfinedFiles(root).write_text("run.sh", "new")
    assert (root / "run.sh").read_text(encoding="utf-8") == "new"
    assert stat.S_IMODE((root / "run.sh").stat().st_mode) == 0o750
    assert set(snapshot(root)) == {"a.txt", "run.sh"}


def _dots(root: Path, outside: Path) -> str:
    return "../outside/secret.txt"


def _dots_from_a_folder(root: Path, outside: Path) -> str:
    (root / "d").mkdir()
    return "d/../../outside/secret.txt"


def _absolute(root: Path, outside: Path) -> str:
    return str(outside / "secret.txt")


def _absolute_with_dots(root: Path, outside: Path) -> str:
    return f"{root}/../outside/secret.txt"


def _prefix_sibling(root: Path, outside: Path) -> str:
    sibling = root.with_name("root-evil")
    sibling.mkdir()
    return str(sibling / "secret.txt")


def _linked_folder(root: Path, outside: Path) -> str:
    (root / "d").symlink_to(outside)
    return "d/secret.txt"


def _linked_folder_by_a_relative_link(root: Path, outside: Path) -> str:
    (root / "d").symlink_to("../outside")
    return "d/secret.txt"


def _linked_file(root: Path, outside: Path) -> str:
    (root / "f").symlink_to(outside / "secret.txt")
    return "f"


def _chain_of_links(root: Path, outside: Path) -> str:
    (root / "g").symlink_to("f")
    (root / "f").symlink_to("../outside/secret.txt")
    return "g"


def _dangling_link(root: Path, outside: Path) -> str:
    (root / "f").symlink_to(outside / "new.txt")
    return "f"


def _dangling_folder_link(root: Path, outside: Path) -> str:
    (root / "d").symlink_to(outside / "new")
    return "d/x.txt"


def _null(root: Path, outside: Path) -> str:
    return "a\0b"


ESCAPES = [
    _dots,
    _dots_from_a_folder,
    _absolute,
    _absolute_with_dots,
    _prefix_sibling,
    _linked_folder,
    _linked_folder_by_a_relative_link,
    _linked_file,
    _chain_of_links,
    _dangling_link,
    _dangling_folder_link,
    _null,
]


@pytest.mark.requirement("F38")
@pytest.mark.parametrize("escape", ESCAPES)
async def test_a_path_that_leads_outside_is_refused_and_nothing_outside_changes(
    root: Path, outside: Path, escape: Callable[[Path, Path], str]
) -> None:
    path = escape(root, outside)
    before = snapshot(outside)
    files = ConfinedFiles(root)
    with pytest.raises(PathRefused) as read:
        await files.read_text(path)
    with pytest.raises(PathRefused):
        await files.write_text(path, "overwritten")
    assert snapshot(outside) == before
    assert repr(path) in str(read.value)
    assert read.value.path == path
    assert str(files.root) == read.value.root
    assert str(files.root) in str(read.value)


async def test_links_that_stay_inside_are_followed(root: Path) -> None:
    (root / "real").mkdir()
    (root / "real/f.txt").write_text("inside", encoding="utf-8")
    (root / "by-name").symlink_to("real")
    (root / "by-path").symlink_to(root / "real")
    (root / "file").symlink_to("real/../real/f.txt")
    files = ConfinedFiles(root)
    assert await files.read_text("by-name/f.txt") == "inside"
    assert await files.read_text("by-path/f.txt") == "inside"
    assert await files.read_text("file") == "inside"
    assert await files.write_text("by-path/f.txt", "changed") == "real/f.txt"
    assert (root / "real/f.txt").read_text(encoding="utf-8") == "changed"
    assert (root / "by-path").is_symlink()


async def test_a_root_that_is_a_link_may_be_named_either_way(root: Path, tmp_path: Path) -> None:
    alias = tmp_path / "alias"
    alias.symlink_to(root)
    files = ConfinedFiles(alias)
    assert await files.read_text(str(alias / "a.txt")) == await files.read_text(str(root / "a.txt"))


def test_a_folder_that_is_swapped_for_a_link_meanwhile_leads_nowhere(root: Path, outside: Path) -> None:
    stop = threading.Event()

    def swap() -> None:
        number = 0
        while not stop.is_set():
            number += 1
            with suppress(OSError):
                (root / "d").rename(root / f"aside-{number}")
            with suppress(OSError):
                (root / "d").symlink_to(outside)
            with suppress(OSError):
                (root / "d").unlink()

    swapper = threading.Thread(target=swap)
    swapper.start()
    files = ConfinedFiles(root)
    try:
        for number in range(500):
            with suppress(PathRefused, NotFound):
                files.write_text_sync("d/secret.txt", str(number))
            with suppress(PathRefused, NotFound):
                assert files.read_text_sync("d/secret.txt") != "secret"
    finally:
        stop.set()
        swapper.join()
    assert snapshot(outside) == {"secret.txt": "secret"}


async def test_links_in_a_circle_are_refused(root: Path) -> None:
    (root / "x").symlink_to("y")
    (root / "y").symlink_to("x")
    with pytest.raises(PathRefused, match="cannot be used"):
        await ConfinedFiles(root).read_text("x")


async def test_a_hard_link_to_a_file_outside_is_replaced_and_not_written_through(root: Path, outside: Path) -> None:
    os.link(outside / "secret.txt", root / "f")
    await ConfinedFiles(root).write_text("f", "changed")
    assert (outside / "secret.txt").read_text(encoding="utf-8") == "secret"
    assert (root / "f").read_text(encoding="utf-8") == "changed"


async def test_pipes_sockets_devices_and_folders_are_refused_without_waiting(root: Path, tmp_path: Path) -> None:
    os.mkfifo(root / "fifo")
    (root / "folder").mkdir()
    (root / "null").symlink_to("/dev/null")
    listener = socket.socket(socket.AF_UNIX)
    working = Path.cwd()
    os.chdir(root)  # a socket's path has to be short
    listener.bind("socket")
    os.chdir(working)
    files = ConfinedFiles(root)
    try:
        for name in ("fifo", "folder", "null", "socket", "."):
            with pytest.raises(PathRefused):
                await files.read_text(name)
            with pytest.raises(PathRefused):
                await files.write_text(name, "x")
    finally:
        listener.close()


async def test_a_missing_file_is_not_found_and_a_file_is_no_folder(root: Path) -> None:
    files = ConfinedFiles(root)
    with pytest.raises(NotFound, match=r"'missing\.txt'"):
        await files.read_text("missing.txt")
    with pytest.raises(NotFound):
        await files.read_text("missing/x.txt")
    with pytest.raises(PathRefused):
        await files.read_text("a.txt/x")
    assert not (root / "missing").exists()


async def test_what_is_too_large_is_refused_and_a_part_of_it_can_be_read(root: Path) -> None:
    (root / "big.txt").write_text("0123456789\n" * 100, encoding="utf-8")
    files = ConfinedFiles(root, max_read_bytes=50, max_write_bytes=50)
    with pytest.raises(PathRefused, match="the limit is 50"):
        await files.read_text("big.txt")
    with pytest.raises(PathRefused, match="the limit is 50"):
        await files.read_text("big.txt", line=1, limit=10)
    assert await files.read_text("big.txt", line=99, limit=2) == "0123456789\n" * 2
    with pytest.raises(PathRefused, match="the limit is 50"):
        await files.write_text("a.txt", "x" * 51)
    assert (root / "a.txt").read_text(encoding="utf-8").startswith("one")


async def test_a_binary_file_and_a_write_protected_one_are_refused(root: Path) -> None:
    (root / "b").write_bytes(b"\xff\xfe\x00")
    (root / "a.txt").chmod(0o444)
    files = ConfinedFiles(root)
    with pytest.raises(PathRefused, match="not UTF-8"):
        await files.read_text("b")
    with pytest.raises(PathRefused, match="write-protected"):
        await files.write_text("a.txt", "x")


async def test_a_root_that_is_no_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PathRefused, match="is not a folder"):
        await ConfinedFiles(tmp_path / "missing").read_text("x")


@given(st.lists(st.sampled_from(["..", ".", "", "d", "l", "x", "a.txt"]), min_size=1, max_size=8))
def test_no_mix_of_names_dots_and_links_leaves_the_root(
    tmp_path_factory: pytest.TempPathFactory, names: list[str]
) -> None:
    base = tmp_path_factory.mktemp("walk")
    (base / "root/d").mkdir(parents=True)
    (base / "root/l").symlink_to("d/..")
    (base / "root/d/l").symlink_to("../..")
    before = sorted(path for path in base.rglob("*") if "root" not in path.relative_to(base).parts)
    files = ConfinedFiles(base / "root")
    try:
        written = files.write_text_sync("/".join(names), "x")
    except (PathRefused, NotFound):
        written = None
    after = sorted(path for path in base.rglob("*") if "root" not in path.relative_to(base).parts)
    assert before == after
    if written is not None:
        assert (base / "root" / written).resolve().is_relative_to((base / "root").resolve())
