"""A process that serves over stdio: what goes over its stdout, and how it ends."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters
from mcp_types import TextContent

APP = str(Path(__file__).parent / "apps" / "stdio_app.py")
ROOT = Path(__file__).resolve().parents[3]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT)}


def request(id: int, method: str, **params: object) -> dict[str, object]:
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": params}


INITIALIZE = request(
    1, "initialize", protocolVersion="2025-11-25", capabilities={}, clientInfo={"name": "test", "version": "1"}
)
INITIALIZED = {"jsonrpc": "2.0", "method": "notifications/initialized"}


class Server:
    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        self.process = process
        assert process.stdin
        assert process.stdout
        assert process.stderr
        self.stdin, self.stdout, self.stderr = process.stdin, process.stdout, process.stderr

    def send(self, *messages: object) -> None:
        lines = [message if isinstance(message, bytes) else json.dumps(message).encode() for message in messages]
        self.stdin.write(b"".join(line + b"\n" for line in lines))
        self.stdin.flush()

    def receive(self) -> Any:
        return json.loads(self.stdout.readline())

    def open(self) -> None:
        self.send(INITIALIZE)
        assert self.receive()["id"] == 1
        self.send(INITIALIZED)

    def start(self, tool: str, said: str) -> None:
        """Call a tool and wait until it says that it runs."""
        self.send(request(2, "tools/call", name=tool, arguments={}))
        while said.encode() not in self.stderr.readline():
            pass

    def ends(self) -> tuple[int, bytes, bytes]:
        """Return how the process ended; fails when it goes on."""
        code = self.process.wait(timeout=15)
        return code, self.stdout.read(), self.stderr.read()


@contextmanager
def served(command: list[str] | None = None) -> Generator[Server]:
    pipe = subprocess.PIPE
    with subprocess.Popen(command or [sys.executable, APP], stdin=pipe, stdout=pipe, stderr=pipe, env=ENVIRONMENT) as p:
        try:
            yield Server(p)
        finally:
            p.kill()


@pytest.mark.requirement("F10")
@pytest.mark.parametrize("era", ["legacy", "2026-07-28"])
async def test_nothing_but_the_protocol_goes_over_stdout(era: str) -> None:
    server = StdioServerParameters(command=sys.executable, args=[APP], env=ENVIRONMENT)
    async with Client(server, mode=era) as client:
        result = await client.call_tool("add", {"a": 2, "b": 3})
    (block,) = result.content
    assert isinstance(block, TextContent)
    assert block.text == "5"


@pytest.mark.requirement("F10")
def test_the_first_byte_is_a_brace_whatever_is_printed_at_import() -> None:
    with served() as server:
        server.send(INITIALIZE)
        assert server.stdout.read(1) == b"{"
        server.stdin.close()
        code, _, log = server.ends()
    assert code == 0
    assert b"printed at import" in log
    assert b"printed by a child" in log


@pytest.mark.requirement("F60")
def test_a_line_that_is_no_json_is_answered_and_the_server_goes_on() -> None:
    with served() as server:
        server.send(b"{broken", INITIALIZE)
        error, answer = server.receive(), server.receive()
    assert error["id"] is None
    assert error["error"]["code"] == -32700
    assert answer["id"] == 1
    assert "result" in answer


def test_json_that_is_no_message_is_an_invalid_request() -> None:
    lines = {b"[1]": None, b'{"id": 7}': 7, b'"x"': None, b'{"jsonrpc": "2.0", "id": true}': None}
    with served() as server:
        server.open()
        server.send(*lines, b"", request(3, "tools/list"))
        errors = [server.receive() for _ in lines]
        assert server.receive()["id"] == 3
    assert [(error["id"], error["error"]["code"]) for error in errors] == [(id, -32600) for id in lines.values()]


@pytest.mark.requirement("F59")
def test_an_unknown_protocol_version_is_answered_with_one_that_is_known() -> None:
    with served() as server:
        opening: Any = json.loads(json.dumps(INITIALIZE))
        opening["params"]["protocolVersion"] = "1999-01-01"
        server.send(opening)
        assert server.receive()["result"]["protocolVersion"] == "2025-11-25"


def test_half_a_character_in_a_text_does_not_end_the_server() -> None:
    with served() as server:
        server.open()
        server.send(request(2, "tools/call", name="half", arguments={}))
        assert server.receive()["result"]["content"][0]["text"] == "caf\ufffd.txt"
        server.send(request(3, "tools/call", name="add", arguments={"a": 1, "b": 2}))
        assert server.receive()["result"]["content"][0]["text"] == "3"


def test_the_caller_is_the_person_at_this_machine() -> None:
    with served() as server:
        server.open()
        server.send(request(2, "tools/call", name="whoami", arguments={}))
        assert server.receive()["result"]["content"][0]["text"] == "local"


def test_calls_in_flight_are_answered_when_stdin_ends_at_once() -> None:
    call = request(2, "tools/call", name="add", arguments={"a": 1, "b": 2})
    with served() as server:
        server.send(INITIALIZE, INITIALIZED, call)
        server.stdin.close()
        code, out, _ = server.ends()
    assert code == 0
    assert json.loads(out.splitlines()[-1])["result"]["content"][0]["text"] == "3"


@pytest.mark.parametrize("end", ["eof", signal.SIGTERM, signal.SIGINT])
def test_an_idle_server_ends(end: "str | signal.Signals") -> None:
    with served() as server:
        server.open()
        _end(server, end)
        code, _, log = server.ends()
    assert code == 0
    assert b"left in order" in log
    assert b"Traceback" not in log


@pytest.mark.requirement("F64")
@pytest.mark.parametrize("end", ["eof", signal.SIGTERM])
@pytest.mark.parametrize(("tool", "said"), [("block", "blocking"), ("block_loop", "blocking"), ("wait", "waiting")])
def test_a_server_ends_whatever_its_tools_do(tool: str, said: str, end: "str | signal.Signals") -> None:
    with served() as server:
        server.open()
        server.start(tool, said)
        _end(server, end)
        code, _, log = server.ends()
    assert code == 0
    assert b"Traceback" not in log
    assert (b"cancelled" in log) == (tool == "wait")


def test_a_second_signal_ends_the_server_at_once() -> None:
    with served() as server:
        server.open()
        server.start("block_loop", "blocking")
        server.process.send_signal(signal.SIGTERM)
        server.process.send_signal(signal.SIGINT)
        code, _, _ = server.ends()
    assert code in (128 + signal.SIGINT, 128 + signal.SIGTERM, 0)


@pytest.mark.requirement("F65")
def test_a_server_ends_with_its_parent() -> None:
    """The grandparent keeps stdin open, so that only the parent's death can tell."""
    starter = f"import subprocess, sys, time\nsubprocess.Popen([sys.executable, {APP!r}])\ntime.sleep(60)\n"
    with served([sys.executable, "-c", starter]) as parent:
        parent.open()
        os.kill(parent.process.pid, signal.SIGKILL)
        assert parent.stdout.read() == b"", "the pipe is closed when the last process that holds it is gone"


def test_a_cancelled_call_reaches_the_tool() -> None:
    with served() as server:
        server.open()
        server.start("wait", "waiting")
        server.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 2}})
        while b"cancelled" not in server.stderr.readline():
            pass
        server.send(request(3, "ping"))
        assert server.receive() == {"jsonrpc": "2.0", "id": 3, "result": {}}


def _end(server: Server, end: "str | signal.Signals") -> None:
    if isinstance(end, signal.Signals):
        server.process.send_signal(end)
    else:
        server.stdin.close()
