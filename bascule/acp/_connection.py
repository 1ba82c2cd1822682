"""JSON-RPC over the pipes of a coding agent.

Messages are handed on one by one, in the order in which they came, by plain calls: an answer to a prompt is seen after
every update before it, and nothing is reordered by a task switch. What takes time, such as a file or a question, is
started by the handler and answered later.
"""

import logging
from collections.abc import Callable
from typing import Any, Protocol, cast

import anyio
from anyio.lowlevel import checkpoint

from bascule.acp._lines import LineSplitter, OversizedLine
from bascule.acp._rpc import METHOD_NOT_FOUND, Diagnostics, encode, own_id, parse_message
from bascule.errors import AcpError, AcpRequestFailed, AcpTimeout
from bascule.messages import JsonObject, JsonValue
from bascule.tools import redact
from bascule.workspace import ProcessGroup

__all__ = ["Answered", "Connection", "Handler", "Params"]

logger = logging.getLogger("bascule.acp")

MAX_WAITING = 2**20
"""Bytes waiting for the agent to read them, above which a large answer waits too."""

Params = dict[str, Any]  # Any: a peer's JSON, checked where it is used
Answered = Callable[[object, AcpError | None], None]
"""Called once with the result of a request, or with what went wrong."""


class Handler(Protocol):
    """Takes what the agent says of its own accord. None of the methods waits, none raises."""

    def on_notification(self, method: str, params: Params) -> bool:
        """Take a notification; returns whether it is a known one."""
        ...

    def on_request(self, request_id: JsonValue, method: str, params: Params) -> bool:
        """Take a request that is answered now or later; returns whether it is a known one."""
        ...

    def on_oversized(self, line: OversizedLine) -> None:
        """Take the news that a line was beyond the limit, and dropped."""
        ...


class Connection:
    """Reads and writes the messages of one agent.

    Args:
        process: the agent.
        handler: takes requests and notifications.
        max_line_bytes: the longest line that is read.

    Attributes:
        diagnostics: what the agent wrote that is no message, or not known.
        read_at: when the agent last wrote something, on the event loop's clock.
        reads: how often something was read.
        ended: set when the agent has closed its output.
    """

    def __init__(self, process: ProcessGroup, handler: Handler, *, max_line_bytes: int) -> None:
        self.diagnostics: Diagnostics = Diagnostics()
        self.read_at: float = anyio.current_time()
        self.reads: int = 0
        self.ended: anyio.Event = anyio.Event()
        self._process = process
        self._handler = handler
        self._splitter = LineSplitter(max_line_bytes)
        self._waiting: dict[int, Answered] = {}
        self._last_id = 0
        self._failure: AcpError | None = None
        self._outgoing = bytearray()
        self._outgoing_changed = anyio.Event()

    # --- reading ---

    async def read(self) -> None:
        """Hand on everything that the agent writes, until it closes its output."""
        try:
            while data := await self._process.read():
                self.take(data)
                await checkpoint()
        finally:
            self.ended.set()

    def read_nowait(self) -> None:
        """Hand on what the agent has written so far and the reading task has not seen yet."""
        for _ in range(16):
            data = self._process.read_nowait()
            if not data:
                return
            self.take(data)

    def take(self, data: bytes) -> None:
        """Hand on the messages that these bytes complete."""
        self.read_at = anyio.current_time()
        self.reads += 1
        for line in self._splitter.feed(data):
            try:
                self._line(line)
            except Exception:  # a fault of ours over one message must not end the session
                logger.exception("a message of the agent could not be handled")

    def _line(self, line: bytes | OversizedLine) -> None:
        if isinstance(line, OversizedLine):
            self._handler.on_oversized(line)
            return
        message = parse_message(line)
        if message is None:
            if line.strip():
                self.diagnostics.ignore(line)
            return
        method = message.get("method")
        if not isinstance(method, str):
            self._answer(line, message)
            return
        params = message.get("params")
        params = cast("Params", params) if isinstance(params, dict) else {}
        request_id = message.get("id")
        if request_id is None:
            if not self._handler.on_notification(method, params):
                self.diagnostics.unknown(method)
        elif not self._handler.on_request(request_id, method, params):
            self.diagnostics.unknown(method)
            self.respond_error(request_id, METHOD_NOT_FOUND, f"The client does not know the method {method!r}.")

    def _answer(self, line: bytes, message: dict[str, Any]) -> None:
        if "id" not in message or not ("result" in message or "error" in message):
            self.diagnostics.ignore(line)
            return
        identifier = own_id(message["id"])
        answered = self._waiting.pop(identifier, None) if identifier is not None else None
        if answered is None:
            self.diagnostics.unmatched_responses += 1
        elif message.get("error") is not None:
            answered(None, _error_of(message["error"]))
        else:
            answered(message.get("result"), None)

    # --- writing ---

    def call(self, method: str, params: JsonObject, answered: Answered) -> int:
        """Send a request; ``answered`` is called when the answer is read, before anything after it is."""
        self._last_id += 1
        identifier = self._last_id
        if self._failure is not None:
            answered(None, self._failure)
            return identifier
        self._waiting[identifier] = answered
        self._send({"id": identifier, "method": method, "params": params})
        return identifier

    async def request(self, method: str, params: JsonObject, *, agent: str, timeout: float) -> object:
        """Send a request and return its result.

        Args:
            method: the method.
            params: its parameters.
            agent: the agent's name, for messages.
            timeout: seconds to wait.

        Raises:
            AcpTimeout: no answer came in time.
            AcpError: the agent answered with an error, or ended.
        """
        done = anyio.Event()
        answer: list[object] = []
        errors: list[AcpError] = []

        def answered(result: object, error: AcpError | None) -> None:
            answer.append(result)
            if error is not None:
                errors.append(error)
            done.set()

        identifier = self.call(method, params, answered)
        with anyio.move_on_after(timeout):
            try:
                await done.wait()
            finally:
                self._waiting.pop(identifier, None)
        if not answer:
            raise AcpTimeout(
                f"The agent {agent!r} did not answer {method!r} within {timeout:g} seconds. See its stderr, or raise "
                "start_timeout.",
                what=method,
            )
        if errors:
            raise errors[0]
        return answer[0]

    def notify(self, method: str, params: JsonObject) -> None:
        """Send a notification."""
        self._send({"method": method, "params": params})

    def respond(self, request_id: JsonValue, result: JsonValue) -> None:
        """Answer a request of the agent."""
        self._send({"id": request_id, "result": result})

    def respond_error(self, request_id: JsonValue, code: int, message: str) -> None:
        """Answer a request of the agent with an error."""
        self._send({"id": request_id, "error": {"code": code, "message": message}})

    def fail(self, error: AcpError) -> None:
        """Answer everything that waits, and all that comes, with an error."""
        self._failure = self._failure or error
        waiting, self._waiting = self._waiting, {}
        for answered in waiting.values():
            answered(None, error)

    def _send(self, message: JsonObject) -> None:
        data = encode(message)
        try:
            if not self._outgoing:
                data = data[self._process.write_nowait(data) :]
        except BrokenPipeError:
            return  # the agent has ended or is about to: its exit is what gets reported
        if data:
            self._outgoing += data
            self._outgoing_changed.set()

    async def write(self) -> None:
        """Send what the agent did not take at once; runs as long as the connection does."""
        while True:
            await self._outgoing_changed.wait()
            while self._outgoing:
                data = bytes(self._outgoing[:MAX_WAITING])
                try:
                    await self._process.write(data)
                except BrokenPipeError:
                    self._outgoing.clear()
                    break
                del self._outgoing[: len(data)]
            self._outgoing_changed = anyio.Event()

    async def drained(self) -> None:
        """Wait while the agent leaves much of what was sent unread."""
        while len(self._outgoing) > MAX_WAITING:  # noqa: ASYNC110  # one writer, no second event for a rare case
            await anyio.sleep(0.01)


def _error_of(value: object) -> AcpRequestFailed:
    error = cast("Params", value) if isinstance(value, dict) else {}
    code, text = error.get("code"), error.get("message")
    data: object = error.get("data")
    message = text if isinstance(text, str) and text else "The agent answered with an error that says nothing."
    details = _details(data)
    if details and details not in message:
        message = f"{message} ({redact(details)[:500]})"
    return AcpRequestFailed(redact(message), code=code if isinstance(code, int) else 0, data=data)


def _details(data: object) -> str:
    details = cast("Params", data).get("details") if isinstance(data, dict) else data
    return details if isinstance(details, str) else ""
