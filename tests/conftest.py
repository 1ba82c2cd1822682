"""What every test gets: a check for blocking calls, one set of property-test profiles, and the rule for services."""

import os
import socket
from collections.abc import Generator, Iterator

import pytest
from blockbuster import blockbuster_ctx
from hypothesis import settings

SERVICE_PORTS = {"postgres": 5432, "redis": 6379}
# Services that are installed where the suite runs: a test that needs one of them must not be skipped there.
REQUIRED_SERVICES = frozenset(filter(None, os.environ.get("BASCULE_REQUIRE_SERVICES", "").split(",")))

settings.register_profile("default", deadline=None, max_examples=50)
settings.load_profile("default")


@pytest.fixture(autouse=True)
def _no_blocking_call_in_the_event_loop() -> Iterator[None]:
    """Fail on a blocking call of ours in the asyncio event loop (the check does not know trio)."""
    with blockbuster_ctx("bascule") as blocking:
        for name in ("os.listdir", "os.stat", "io.BufferedReader.read", "os.read"):
            if name in blocking.functions:  # heavy packages are imported by the function that first needs them
                blocking.functions[name].can_block_in(
                    "importlib._bootstrap_external>", {"_fill_cache", "get_data", "_path_stat"}
                )
        yield


def _needed_service(item: pytest.Item) -> str | None:
    marker = item.get_closest_marker("service")
    return None if marker is None else str(marker.args[0])


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip a test whose service does not answer."""
    name = _needed_service(item)
    if name is None:
        return
    try:
        socket.create_connection(("127.0.0.1", SERVICE_PORTS[name]), timeout=2).close()
    except OSError as error:
        pytest.skip(f"service {name} does not answer on 127.0.0.1:{SERVICE_PORTS[name]} ({error})")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Count a skip as a failure where the service that the test needs is installed."""
    report = yield
    name = _needed_service(item)
    if report.skipped and name in REQUIRED_SERVICES:
        report.outcome = "failed"
        report.longrepr = f"skipped although {name} is installed here: {report.longrepr}"
    return report
