import inspect
from pathlib import Path

import anyio
import pytest

from bascule import storage
from bascule.errors import SettingInvalid
from bascule.storage import MemoryStore


def test_the_short_url_is_a_store_in_memory() -> None:
    assert storage.open("sqlite://").durable is False
    assert storage.open("sqlite:///:memory:").durable is False


def test_a_path_is_a_durable_store_and_nothing_is_created_before_its_first_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert storage.open("sqlite:///folder/app.db").durable is True
    assert list(tmp_path.iterdir()) == []


def test_a_relative_path_is_meant_from_where_the_url_was_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    store = storage.open("sqlite:///my%20app.db?sync=normal")
    monkeypatch.chdir(tmp_path / "elsewhere")

    async def use() -> None:
        async with store:
            assert (tmp_path / "my app.db").is_file()

    anyio.run(use)


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("postgresql://user:secret@host/db", "'postgresql'"),
        ("app.db", "no scheme"),
        ("", "no scheme"),
        ("sqlite:///", "names no file"),
        ("sqlite:///a%00b", "names no file"),
        ("sqlite://app.db", "write 'sqlite:///app.db'"),
        ("sqlite:///app.db?sync=off", "full and normal"),
        ("sqlite:///app.db?cache=shared", "unknown option 'cache'"),
    ],
)
def test_a_url_that_cannot_be_used_is_refused_with_what_can(url: str, words: str) -> None:
    with pytest.raises(SettingInvalid) as caught:
        storage.open(url)
    assert words in str(caught.value)
    assert "secret" not in str(caught.value)


@pytest.mark.requirement("F27")
def test_every_method_of_the_port_and_of_the_adapter_takes_the_owner_without_a_default() -> None:
    adapter = type(storage.open("sqlite://").memory)
    for kind in (MemoryStore, adapter):
        methods = [value for name, value in vars(kind).items() if inspect.iscoroutinefunction(value) and name[0] != "_"]
        assert len(methods) == 9
        for method in methods:
            owner = inspect.signature(method).parameters["owner"]
            assert (owner.kind, owner.default) == (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.empty)
