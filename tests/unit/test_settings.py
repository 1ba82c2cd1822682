"""Where a setting comes from: flag, environment, file, default, in this order."""

from pathlib import Path

import pytest

from bascule.errors import SettingInvalid
from bascule.settings import Settings, data_folder, load_settings


@pytest.mark.requirement("F09")
def test_flags_win_over_the_environment_and_that_over_the_file(tmp_path: Path) -> None:
    (tmp_path / "bascule.toml").write_text('port = 1\nhost = "file"\nlog-level = "info"\ngrace = 3')
    settings = load_settings(tmp_path, environ={"BASCULE_PORT": "2", "BASCULE_HOST": "env"}, overrides={"port": 3})
    assert (settings.port, settings.host, settings.log_level, settings.grace) == (3, "env", "info", 3.0)


def test_nothing_said_gives_the_defaults(tmp_path: Path) -> None:
    assert load_settings(tmp_path, environ={}) == Settings()


def test_the_nearest_file_above_counts(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool.bascule]\nport = 9")
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    assert load_settings(inner, environ={}).port == 9
    (tmp_path / "a" / "pyproject.toml").write_text("[project]\nname = 'x'")
    assert load_settings(inner, environ={}).port == 8000


def test_the_usual_names_for_host_and_port_are_honoured(tmp_path: Path) -> None:
    assert load_settings(tmp_path, environ={"PORT": "81", "HOST": "::1"}).port == 81
    assert load_settings(tmp_path, environ={"PORT": "81", "BASCULE_PORT": "82"}).port == 82


@pytest.mark.parametrize(
    ("environ", "text"),
    [
        ({"BASCULE_PORT": "many"}, "environment variable BASCULE_PORT is 'many'; give a number"),
        ({"BASCULE_PORT": "70000"}, "give a port number from 0 to 65535"),
        ({"BASCULE_HTTP": "http3"}, "give one of auto, h11, httptools"),
        ({"BASCULE_GRACE": "-1"}, "give a number of seconds"),
    ],
)
def test_a_bad_value_is_named_with_its_source(tmp_path: Path, environ: dict[str, str], text: str) -> None:
    with pytest.raises(SettingInvalid, match=text):
        load_settings(tmp_path, environ=environ)


def test_an_unknown_entry_in_the_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "bascule.toml").write_text("prot = 1")
    with pytest.raises(
        SettingInvalid, match=r"bascule\.toml sets 'prot', which is not a setting; the settings are host"
    ):
        load_settings(tmp_path, environ={})


def test_a_file_that_is_no_toml_is_refused(tmp_path: Path) -> None:
    (tmp_path / "bascule.toml").write_text("port = ")
    with pytest.raises(SettingInvalid, match="cannot be read"):
        load_settings(tmp_path, environ={})


def test_the_data_folder_follows_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    monkeypatch.delenv("BASCULE_DATA", raising=False)
    assert data_folder() == tmp_path / "bascule"
    monkeypatch.setenv("BASCULE_DATA", str(tmp_path / "own"))
    assert data_folder() == tmp_path / "own"
