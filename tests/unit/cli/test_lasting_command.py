"""The command that a client keeps."""

import os
import sys
from pathlib import Path

import pytest

from bascule import __version__
from bascule.cli._entry import lasting_command
from bascule.errors import ConfigurationError


@pytest.fixture
def uvx(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A uvx on the search path; it is named and never run."""
    path = tmp_path / "bin" / "uvx"
    path.parent.mkdir()
    path.write_text("#!/bin/sh\n", encoding="utf-8")
    path.chmod(0o755)
    monkeypatch.setenv("PATH", str(path.parent))
    for name in ("UV", "UV_INDEX"):
        monkeypatch.delenv(name, raising=False)
    return str(path)


@pytest.fixture
def cached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An environment of this process that lies in a cache."""
    prefix = tmp_path / "cache" / "archive-v0" / "x1"
    prefix.mkdir(parents=True)
    (tmp_path / "cache" / "CACHEDIR.TAG").write_text("", encoding="utf-8")
    monkeypatch.setattr(sys, "prefix", str(prefix))


def app(folder: Path, text: str = "") -> Path:
    path = folder / "app.py"
    path.write_text(text, encoding="utf-8")
    return path


def test_an_interpreter_that_stays_is_named_by_its_path(tmp_path: Path) -> None:
    command = lasting_command(app(tmp_path), "sums", ())
    assert command.command == sys.executable
    assert command.args == ("-m", "bascule", "run", f"{tmp_path / 'app.py'}:sums")


def test_an_environment_that_marks_itself_as_a_cache_stays_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "CACHEDIR.TAG").write_text("", encoding="utf-8")
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    assert lasting_command(app(tmp_path), None, ()).command == sys.executable


@pytest.mark.usefixtures("cached")
def test_from_a_cache_uvx_is_named_with_the_version(tmp_path: Path, uvx: str) -> None:
    command = lasting_command(app(tmp_path), None, ())
    assert command.command == uvx
    source = command.args[1]
    assert "UV_INDEX" not in command.env
    assert command.args == ("--from", source, "bascule", "run", str(tmp_path / "app.py"))
    assert source == f"bascule=={__version__}" or Path(source).exists()


@pytest.mark.usefixtures("cached", "uvx")
def test_what_tells_uv_where_packages_are_goes_into_the_entry_but_no_password(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", "/etc/ssl/own.pem")
    monkeypatch.setenv("UV_DEFAULT_INDEX", "https://packages.example/")
    monkeypatch.setenv("UV_INDEX", "https://me:secret@packages.example/")
    env = lasting_command(app(tmp_path), None, ()).env
    assert env["SSL_CERT_FILE"] == "/etc/ssl/own.pem"
    assert env["UV_DEFAULT_INDEX"] == "https://packages.example/"
    assert "UV_INDEX" not in env


@pytest.mark.usefixtures("cached")
def test_uvx_beside_the_uv_that_started_us_is_preferred(
    tmp_path: Path, uvx: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", os.defpath)
    monkeypatch.setenv("UV", str(Path(uvx).with_name("uv")))
    assert lasting_command(app(tmp_path), None, ()).command == uvx


@pytest.mark.usefixtures("cached")
def test_the_packages_of_the_file_come_with_it(tmp_path: Path, uvx: str) -> None:
    script = app(
        tmp_path, '# /// script\n# dependencies = [\n#   "rich>=13",\n#   "Bascule",\n# ]\n# ///\nimport rich\n'
    )
    command = lasting_command(script, None, ("numpy", "rich>=13"))
    assert command.command == uvx
    assert command.args[2:-3] == ("--with", "numpy", "--with", "rich>=13")


@pytest.mark.usefixtures("cached", "uvx")
def test_the_packages_of_the_project_come_when_the_file_names_none(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text('[project]\ndependencies = ["httpx", "bascule>=0.1"]\n', encoding="utf-8")
    assert lasting_command(app(tmp_path), None, ()).args[2:-3] == ("--with", "httpx")


@pytest.mark.usefixtures("cached", "uvx")
@pytest.mark.parametrize("text", ['dependencies = "rich"', "dependencies = [1]", "dependencies = ["])
def test_a_list_of_packages_that_cannot_be_read_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(ConfigurationError, match=r"app\.py"):
        lasting_command(app(tmp_path, f"# /// script\n# {text}\n# ///\n"), None, ())


def test_more_packages_need_uvx(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("UV", raising=False)
    with pytest.raises(ConfigurationError, match="Install uv; or install numpy"):
        lasting_command(app(tmp_path), None, ("numpy",))
