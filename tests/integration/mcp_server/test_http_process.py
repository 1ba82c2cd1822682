"""A process that serves over HTTP: how it ends."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Generator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

APP = str(Path(__file__).parent / "apps" / "http_app.py")
ROOT = Path(__file__).resolve().parents[3]
HEADERS = {"accept": "application/json, text/event-stream", "content-type": "application/json"}


class Server:
    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        self.process = process
        assert process.stderr
        self.log = process.stderr
        self.port = int(self.until("listening").split()[1])
        self.client = httpx.Client(
            base_url=f"http://127.0.0.1:{self.port}", headers=HEADERS, timeout=15, trust_env=False
        )

    def until(self, said: str) -> str:
        """Read the log up to a line that begins with these words."""
        while not (line := self.log.readline().decode()).startswith(said):
            assert line, "the server ended"
        return line

    def call(self, tool: str) -> httpx.Response:
        params: dict[str, object] = {"name": tool, "arguments": {}}
        return self.client.post("/mcp", json={"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})

    def open_session(self) -> str:
        info = {"name": "test", "version": "1"}
        params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info}
        opened = self.client.post("/mcp", json={"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params})
        return str(opened.headers["mcp-session-id"])

    def ends(self) -> tuple[int, str]:
        """Return how the process ended."""
        return self.process.wait(timeout=15), self.log.read().decode()


@contextmanager
def served(grace: float = 5) -> Generator[Server]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, APP, str(grace)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, env=environment) as process:
        try:
            server = Server(process)
            with server.client:
                yield server
        finally:
            process.kill()


@contextmanager
def beside() -> Generator[ThreadPoolExecutor]:
    with ThreadPoolExecutor() as threads:
        yield threads


def listen(server: Server, opened: threading.Event) -> str:
    """Hold a `subscriptions/listen` stream open and return all of it."""
    meta: dict[str, object] = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    message = {
        "jsonrpc": "2.0",
        "id": "sub",
        "method": "subscriptions/listen",
        "params": {"_meta": meta, "notifications": {"toolsListChanged": True}},
    }
    headers = {"mcp-protocol-version": "2026-07-28", "mcp-method": "subscriptions/listen"}
    with server.client.stream("POST", "/mcp", json=message, headers=headers) as response:
        received = ""
        for part in response.iter_text():
            received += part
            opened.set()
        return received


def hold_get_stream(server: Server, session: str, opened: threading.Event) -> int:
    """Hold the standing stream of a session open until it ends."""
    with server.client.stream("GET", "/mcp", headers={"mcp-session-id": session}) as response:
        opened.set()
        response.read()
        return response.status_code


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_an_idle_server_ends_with_status_0(number: signal.Signals) -> None:
    with served() as server:
        assert server.client.get("/readyz").status_code == 200
        server.process.send_signal(number)
        code, log = server.ends()
    assert (code, log) == (0, "")


def test_open_streams_are_closed_and_not_torn() -> None:
    with served() as server, beside() as threads:
        listening, standing = threading.Event(), threading.Event()
        listened = threads.submit(listen, server, listening)
        held = threads.submit(hold_get_stream, server, server.open_session(), standing)
        assert listening.wait(10)
        assert standing.wait(10)
        server.process.send_signal(signal.SIGTERM)
        code, log = server.ends()
        frames = re.findall(r"data: (.*)", listened.result(5))
        assert held.result(5) == 200
    assert (code, log) == (0, "")
    assert json.loads(frames[0])["method"] == "notifications/subscriptions/acknowledged"
    assert json.loads(frames[-1])["id"] == "sub"


def test_a_call_in_flight_is_answered() -> None:
    with served() as server, beside() as threads:
        answer: Future[httpx.Response] = threads.submit(server.call, "finish")
        server.until("waiting")
        server.process.send_signal(signal.SIGTERM)
        assert "done in time" in answer.result(10).text
        code, log = server.ends()
    assert (code, log) == (0, "")


@pytest.mark.requirement("F64")
@pytest.mark.parametrize("tool", ["block", "block_loop", "stubborn"])
def test_a_call_that_does_not_end_is_cut_off(tool: str) -> None:
    with served(grace=0.2) as server, beside() as threads:
        threads.submit(server.call, tool)
        server.until("blocking")
        server.process.send_signal(signal.SIGTERM)
        code, log = server.ends()
    assert (code, log) == (0, "")


def test_a_second_signal_ends_the_server_at_once() -> None:
    with served(grace=600) as server, beside() as threads:
        threads.submit(server.call, "block")
        server.until("blocking")
        server.process.send_signal(signal.SIGTERM)
        server.process.send_signal(signal.SIGINT)
        code, log = server.ends()
    assert code in (128 + signal.SIGINT, 128 + signal.SIGTERM)
    assert "Traceback" not in log
