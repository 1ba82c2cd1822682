"""The rules that tests/conftest.py lays on every test."""

import time
from pathlib import Path

import pytest
from blockbuster import BlockingError

pytest_plugins = ["pytester"]

CONFTEST = Path(__file__).resolve().parent.parent / "conftest.py"
NEEDS_A_SERVICE = """
    import pytest

    @pytest.mark.service("redis")
    def test_that_needs_a_service():
        pytest.skip("not here")
"""


@pytest.mark.parametrize(("required", "outcome"), [("", {"skipped": 1}), ("postgres,redis", {"failed": 1})])
def test_a_skipped_suite_fails_only_where_its_service_is_installed(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, required: str, outcome: dict[str, int]
) -> None:
    monkeypatch.setenv("BASCULE_REQUIRE_SERVICES", required)
    pytester.makeconftest(CONFTEST.read_text(encoding="utf-8"))
    pytester.makepyfile(NEEDS_A_SERVICE)
    result = pytester.runpytest_subprocess("-p", "no:randomly")
    counts = result.parseoutcomes()
    assert {name: counts.get(name) for name in outcome} == outcome


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_blocking_call_of_ours_in_the_event_loop_fails_the_test() -> None:
    source = "def wait():\n    time.sleep(0.001)\n"
    namespace: dict[str, object] = {"time": time}
    package = CONFTEST.parent.parent / "bascule" / "_generated" / "sample.py"  # never written: its name counts
    exec(compile(source, str(package), "exec"), namespace)
    wait = namespace["wait"]
    assert callable(wait)
    with pytest.raises(BlockingError):
        wait()
