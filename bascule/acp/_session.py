"""A session of a coding agent: its turns, one at a time, and its files."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import PurePath
from typing import Protocol

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream

from bascule.acp._connection import Connection, Params
from bascule.acp._rpc import CANCELLED, INTERNAL_ERROR, INVALID_PARAMS, RESOURCE_NOT_FOUND
from bascule.acp._turn import CANCELLED_OUTCOME, PendingPermission, Turn
from bascule.acp._v1 import SessionInfo, turn_result
from bascule.acp._v1_updates import TrackedCall, Update
from bascule.errors import AcpError, NotFound, PathRefused
from bascule.messages import JsonObject, JsonValue
from bascule.workspace import ConfinedFiles

__all__ = ["FileRequest", "LateUpdate", "Session"]

MAX_FILE_REQUESTS = 256
MAX_ENDED = 10_000
WRITE_OPTIONS: list[JsonValue] = [
    {"optionId": "allow", "name": "Allow once", "kind": "allow_once"},
    {"optionId": "reject", "name": "Reject", "kind": "reject_once"},
]
WRITE_ALLOWED: JsonObject = {"outcome": {"outcome": "selected", "optionId": "allow"}}


@dataclass(frozen=True, slots=True, kw_only=True)
class LateUpdate:
    """Something an agent said outside of a running turn.

    Attributes:
        session_id: the agent's id of the session.
        run_id: the run that was the last one by then, ``None`` before the first.
        update: the agent's update, untouched.
    """

    session_id: str
    run_id: str | None
    update: JsonObject


@dataclass(frozen=True, slots=True)
class FileRequest:
    """A request of the agent to read or write a file."""

    id: JsonValue
    writes: bool
    params: Params


class _Consult(Protocol):
    def __call__(self, turn: Turn, pending: PendingPermission) -> None: ...


class Session:
    """One conversation with an agent.

    Args:
        info: what the agent said about it.
        connection: the agent.
        files: the files that it may use, ``None`` when it uses its own ways.
        missing_file_is_empty: whether a missing file reads as an empty one.
        consult: asks the policy about a permission request; answers by itself, now or later.
        late: takes what the agent says outside of a turn.

    Attributes:
        id: the agent's id of it.
        turn: the turn that is going on.
        notices: what the next run has to tell: code and message.
    """

    def __init__(
        self,
        info: SessionInfo,
        connection: Connection,
        *,
        files: ConfinedFiles | None,
        missing_file_is_empty: bool,
        consult: _Consult,
        late: Callable[[LateUpdate], None],
    ) -> None:
        self.info = info
        self.id: str = info.id
        self.turn: Turn | None = None
        self.notices: list[tuple[str, str]] = []
        self._connection = connection
        self._files = files
        self._missing_file_is_empty = missing_file_is_empty
        self._consult = consult
        self._late = late
        self._last_run: str | None = None
        self._asked = 0
        self._edits_approved = False
        self._ended_ids: set[str] = set()
        self.file_requests: MemoryObjectReceiveStream[FileRequest]
        self._requests, self.file_requests = anyio.create_memory_object_stream[FileRequest](MAX_FILE_REQUESTS)

    # --- turns ---

    def begin(self, turn: Turn, prompt: list[JsonObject]) -> None:
        """Send a prompt; the turn ends when the agent answers it."""
        self._connection.read_nowait()  # what the agent has said before this belongs to no turn
        self.turn = turn
        self._last_run = turn.run_id
        turn.edits_approved = self._edits_approved
        params: JsonObject = {"sessionId": self.id, "prompt": prompt}
        self._connection.call("session/prompt", params, partial(self._ended, turn))

    def _ended(self, turn: Turn, result: object, error: AcpError | None) -> None:
        turn.finish(None if error is not None else turn_result(result), error)
        self._edits_approved = self._edits_approved or turn.edits_approved
        if self.turn is turn:
            self.turn = None
        if len(self._ended_ids) > MAX_ENDED:
            self._ended_ids.clear()
        self._ended_ids.update(turn.mapper.calls, turn.mapper.message_ids)

    def cancel(self, turn: Turn) -> None:
        """Tell the agent to stop a turn; it answers the prompt when it has."""
        if turn.stopping or turn.ended.is_set():
            return
        turn.stopping = True
        turn.cancel_pending()
        self._connection.notify("session/cancel", {"sessionId": self.id})

    def update(self, update: Update) -> None:
        """Take an update of the agent."""
        turn = self.turn
        if turn is None or not turn.shown or (self._ended_ids and self._is_late(turn, update)):
            self._late(LateUpdate(session_id=self.id, run_id=self._last_run, update=update))
        else:
            turn.update(update, self._connection.read_at)

    def _is_late(self, turn: Turn, update: Update) -> bool:
        """Tell whether an update belongs to a turn that has ended: it is about a call or a message of that turn."""
        if update.get("sessionUpdate") == "tool_call_update":
            identifier = update.get("toolCallId")
            return identifier in self._ended_ids and identifier not in turn.mapper.calls
        message = update.get("messageId")
        return isinstance(message, str) and message in self._ended_ids

    # --- requests of the agent ---

    def permission(self, request_id: JsonValue, params: Params) -> None:
        """Take a permission request."""
        turn = self.turn
        if turn is None or turn.stopping or not turn.shown:
            self._connection.respond(request_id, CANCELLED_OUTCOME)
            return
        turn.progress_at = self._connection.read_at
        self._consult(turn, turn.permission(request_id, params))

    def withdraw(self, request_id: JsonValue) -> bool:
        """Take the news that the agent no longer waits for an answer."""
        if self.turn is None or not self.turn.withdraw(request_id):
            return False
        self._connection.respond_error(request_id, CANCELLED, "The request was cancelled.")
        return True

    def file(self, request: FileRequest) -> None:
        """Take a request to read or write a file; they are served one after another."""
        try:
            self._requests.send_nowait(request)
        except (anyio.WouldBlock, anyio.BrokenResourceError, anyio.ClosedResourceError):
            self._connection.respond_error(request.id, INTERNAL_ERROR, "Too many file requests at once.")

    def close(self) -> None:
        """Serve no more files."""
        self._requests.close()

    async def serve_files(self) -> None:
        """Serve the requests for files, in their order."""
        requests: MemoryObjectReceiveStream[FileRequest] = self.file_requests
        async with requests:
            async for request in requests:
                await self._serve(request)
                await self._connection.drained()

    async def _serve(self, request: FileRequest) -> None:
        turn = self.turn
        if turn is not None:
            turn.progress_at = self._connection.read_at
        path = request.params.get("path")
        if not isinstance(path, str) or not path or self._files is None:
            self._connection.respond_error(request.id, INVALID_PARAMS, "The parameter 'path' is missing.")
            return
        try:
            if request.writes:
                result = await self._write(self._files, turn, path, request)
            else:
                result = await self._read(self._files, path, request.params)
        except NotFound as error:
            self._connection.respond_error(request.id, RESOURCE_NOT_FOUND, str(error))
        except PathRefused as error:
            if turn is not None and turn.shown:
                turn.notice("path_refused", str(error))
            self._connection.respond_error(request.id, INVALID_PARAMS, str(error))
        else:
            self._connection.respond(request.id, result)

    async def _read(self, files: ConfinedFiles, path: str, params: Params) -> JsonValue:
        line, limit = _number(params.get("line")), _number(params.get("limit"))
        try:
            return {"content": await files.read_text(path, line=None if line is None else max(line, 1), limit=limit)}
        except NotFound:
            if not self._missing_file_is_empty:
                raise
            return {"content": ""}

    async def _write(self, files: ConfinedFiles, turn: Turn | None, path: str, request: FileRequest) -> JsonValue:
        root, content = str(files.root), request.params.get("content")
        if not isinstance(content, str):
            raise PathRefused(f"The content for {path!r} is no text.", path=path, root=root)
        if turn is None:
            raise _must_not(path, "no turn is running", root)
        refusal = await turn.write_refusal(path)
        if refusal is not None:
            raise _must_not(path, refusal, root)
        call = None
        if await turn.needs_approval(path):
            turn.note_unapproved(path)
            if not turn.edits_approved:
                call = await self._ask_to_write(turn, request.id, path, content)
                if call is None:
                    refusal = "nobody has approved it"
            refusal = await turn.write_refusal(path) or refusal
            if refusal is not None:
                raise _must_not(path, refusal, root)
        written = await self._written(files, turn, path, content, call)
        turn.mapper.changed_files[str(PurePath(files.root, written))] = None
        return None

    async def _written(
        self, files: ConfinedFiles, turn: Turn, path: str, content: str, call: TrackedCall | None
    ) -> str:
        """Write a file; a call of ours for it ends with that."""
        status = "failed"
        try:
            written = await files.write_text(path, content)
            status = "completed"
        finally:
            if call is not None and turn.shown:
                update = {"sessionUpdate": "tool_call_update", "toolCallId": call.id, "status": status}
                turn.update(update, self._connection.read_at)
        return written

    async def _ask_to_write(self, turn: Turn, request_id: JsonValue, path: str, content: str) -> TrackedCall | None:
        """Ask as if the agent had asked before it writes; returns the call that was approved.

        Some agents write through us without a question. To whoever decides it is a permission request like any other.
        """
        self._asked += 1
        identifier = f"write-{self.id}-{self._asked}"
        params: Params = {
            "toolCall": {
                "toolCallId": identifier,
                "title": f"Write {path}",
                "kind": "edit",
                "rawInput": {"path": path},
                "locations": [{"path": path}],
                "content": [{"type": "diff", "path": path, "newText": content}],
            },
            "options": WRITE_OPTIONS,
        }
        answered = anyio.Event()
        answers: list[JsonValue] = []

        def respond(_request_id: JsonValue, result: JsonValue) -> None:
            answers.append(result)
            answered.set()

        pending = turn.permission(request_id, params, respond)
        self._consult(turn, pending)
        await answered.wait()
        return pending.call if answers[0] == WRITE_ALLOWED else None


def _must_not(path: str, reason: str, root: str) -> PathRefused:
    return PathRefused(f"The file {path!r} must not be written now: {reason}.", path=path, root=root)


def _number(value: object) -> int | None:
    return value if isinstance(value, int) and value >= 0 else None
