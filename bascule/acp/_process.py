"""A running coding agent: its process, its connection and its sessions.

It lives in a task of its own, from the first use until it is closed, ends by itself or ignores a request to stop. The
task owns everything: when it is over, no process and no task is left, and everyone who waited has an answer.
"""

import logging
import os
from collections import deque
from collections.abc import Callable, Coroutine
from importlib import metadata
from typing import cast

import anyio
from anyio import to_thread
from anyio.abc import TaskGroup
from anyio.lowlevel import current_token

from bascule.acp._config import AgentConfig
from bascule.acp._connection import Connection, Params
from bascule.acp._environment import agent_environment
from bascule.acp._lines import OversizedLine
from bascule.acp._permissions import PermissionCallback, PermissionPolicy, ask_function
from bascule.acp._rpc import AUTH_REQUIRED, INVALID_PARAMS, Diagnostics
from bascule.acp._session import FileRequest, LateUpdate, Session
from bascule.acp._turn import PendingPermission, Turn
from bascule.acp._v1 import AgentInfo, agent_info, initialize_params, session_info
from bascule.acp._v1_updates import Update
from bascule.context import use_context
from bascule.errors import (
    AcpAgentExited,
    AcpAuthRequired,
    AcpCommandNotFound,
    AcpError,
    AcpLineTooLong,
    AcpRequestFailed,
    SettingInvalid,
)
from bascule.messages import JsonObject, JsonValue
from bascule.runs import start_detached
from bascule.tools import redact
from bascule.workspace import ConfinedFiles, ProcessGroup, spawn

__all__ = ["AgentProcess"]

logger = logging.getLogger("bascule.acp")

LAST_WORDS = 0.15
"""Seconds without news after which the output of an agent that has exited counts as read."""
KEPT_EARLY = 200


def _look_around(folder: str) -> tuple[str, str]:
    """Return the whole path of a folder, and our own version."""
    try:
        version = metadata.version("bascule")
    except metadata.PackageNotFoundError:
        version = "0"
    return os.path.abspath(folder), version  # noqa: PTH100  # links stay as they were given


class AgentProcess:
    """One process of an agent.

    Args:
        config: how it is started.
        late: takes what it says outside of a turn.

    Attributes:
        info: what the agent says about itself, once it is ready.
        sessions: its sessions by the agent's ids.
        cwd: the working directory of its sessions.
    """

    def __init__(self, config: AgentConfig, *, late: Callable[[LateUpdate], None]) -> None:
        self.config = config
        self.info: AgentInfo = AgentInfo()
        self.sessions: dict[str, Session] = {}
        self._late = late
        self._early: dict[str, deque[Update]] = {}
        self._error: AcpError | None = None
        self._ready = anyio.Event()
        self._stop = anyio.Event()
        self._closed = anyio.Event()
        self._process: ProcessGroup
        self._connection: Connection
        self._tasks: TaskGroup
        self.cwd: str = ""
        self._version = ""
        self._loop = current_token()

    # --- life ---

    def start(self) -> None:
        """Begin to start the agent."""
        start_detached(self._main)

    @property
    def usable(self) -> bool:
        """Whether it runs, or is about to, in this event loop."""
        return self._error is None and not self._stop.is_set() and self._loop == current_token()

    @property
    def diagnostics(self) -> Diagnostics:
        """What the agent wrote that is no message."""
        return self._connection.diagnostics

    @property
    def stderr(self) -> str:
        """The end of what it wrote to stderr, without secrets."""
        return redact(self._process.stderr.text()) if hasattr(self, "_process") else ""

    async def ready(self) -> None:
        """Wait until sessions can be opened.

        Raises:
            AcpError: it could not be started.
        """
        await self._ready.wait()
        if self._error is not None:
            raise self._error

    async def aclose(self) -> None:
        """End the process and everything that it started."""
        if self._loop == current_token():  # the end of another event loop has ended it
            self._stop.set()
            await self._closed.wait()

    def fail(self, error: AcpError) -> None:
        """Give up: everyone who waits gets the error, and the process is ended."""
        if self._error is None:
            self._error = error
            self._connection.fail(error)
        self._stop.set()

    async def _main(self) -> None:
        try:
            self._process = await self._spawn()
        except AcpError as error:
            self._error = error
            self._ready.set()
            self._closed.set()
            return
        except BaseException:
            self._error = AcpError(f"The start of the agent {self.config.name!r} was interrupted.")
            self._ready.set()
            self._closed.set()
            raise
        self._connection = Connection(self._process, self, max_line_bytes=self.config.max_line_bytes)
        try:
            await self._serve()
        except Exception:  # the boundary of the task; a fault of ours ends the agent, not the program
            logger.exception("the connection to the agent %s failed", self.config.name)
        finally:
            await self._end()

    async def _serve(self) -> None:
        async with anyio.create_task_group() as tasks:
            self._tasks = tasks
            tasks.start_soon(self._connection.read)
            tasks.start_soon(self._connection.write)
            tasks.start_soon(self._watch_exit)
            tasks.start_soon(self._watch_output)
            tasks.start_soon(self._initialize)
            await self._stop.wait()
            tasks.cancel_scope.cancel()

    async def _end(self) -> None:
        error = AcpError(f"The agent {self.config.name!r} was closed.")
        self._stop.set()
        for session in self.sessions.values():
            if session.turn is not None:
                session.cancel(session.turn)
            session.close()
            session.file_requests.close()
        self._connection.fail(self._error or error)
        self._error = self._error or error
        self._ready.set()
        try:
            await self._process.aclose()
        finally:
            self._closed.set()

    async def _spawn(self) -> ProcessGroup:
        config = self.config
        environment = agent_environment(
            os.environ,
            policy=config.env_policy,
            env=config.env,
            preset_env=config.preset_env,
            drop=config.drop_env,
        )
        self.cwd, self._version = await to_thread.run_sync(_look_around, config.cwd or ".")
        try:
            return await spawn(config.command, cwd=self.cwd, env=environment)
        except OSError as error:
            if not await anyio.Path(self.cwd).is_dir():
                raise AcpError(
                    f"The working directory {self.cwd!r} of the agent {config.name!r} is not a folder."
                ) from error
            raise AcpCommandNotFound(self._not_found(error)) from error

    def _not_found(self, error: OSError) -> str:
        config = self.config
        how = f"Install it: {config.install}" if config.install else "Install it, or give its full path"
        reason = "was not found" if isinstance(error, FileNotFoundError) else f"cannot be run ({error.strerror})"
        return f"The command {config.command[0]!r} of the agent {config.name!r} {reason}. {how}."

    async def _initialize(self) -> None:
        try:
            params = initialize_params(fs=self.config.fs, version=self._version)
            self.info = agent_info(await self._request("initialize", params), agent=self.config.name)
        except AcpError as error:
            self.fail(error)
        else:
            self._ready.set()

    async def _watch_exit(self) -> None:
        """Fail everything soon after the agent has exited, whoever still holds its pipes."""
        code = await self._process.wait()
        connection = self._connection
        for _ in range(6):
            reads = connection.reads
            with anyio.move_on_after(LAST_WORDS):
                await connection.ended.wait()
            if connection.ended.is_set() or connection.reads == reads:
                break
        self.fail(
            self._exited(code, f"exited with code {code}" if code is None or code >= 0 else f"died of signal {-code}")
        )

    async def _watch_output(self) -> None:
        """Fail everything when the agent closes its output and stays."""
        await self._connection.ended.wait()
        with anyio.move_on_after(1.0):
            await self._process.wait()
            return  # the other watch reports it
        self.fail(self._exited(None, "closed its output"))

    def _exited(self, code: int | None, what: str) -> AcpAgentExited:
        tail = redact(self._process.stderr.text(20))
        words = tail or redact("\n".join(self._connection.diagnostics.samples))
        ending = f" It wrote: {words[-2000:]}" if words else " It wrote nothing to stderr."
        return AcpAgentExited(
            f"The agent {self.config.name!r} ({self.config.command[0]}) {what}.{ending}",
            exit_code=code,
            stderr_tail=tail,
        )

    # --- requests to the agent ---

    async def _request(self, method: str, params: JsonObject) -> object:
        try:
            return await self._connection.request(
                method, params, agent=self.config.name, timeout=self.config.start_timeout
            )
        except AcpRequestFailed as error:
            raise self.translated(error) from error

    def translated(self, error: AcpError) -> AcpError:
        """Return the error to show for one that the agent answered with."""
        if not isinstance(error, AcpRequestFailed) or error.code != AUTH_REQUIRED:
            return error
        methods = self.info.auth_methods
        offered = f" It offers: {', '.join(methods)}." if methods else ""
        return AcpAuthRequired(
            f"The agent {self.config.name!r} wants a login first.{offered} Log in once with the agent's own program, "
            f"or put its API key into the environment. It said: {error}",
            methods=methods,
        )

    async def new_session(self) -> Session:
        """Open a session, in the mode and with the model of the settings.

        Raises:
            AcpError: the agent refuses, ends or does not answer.
            SettingInvalid: the mode or the model does not exist.
        """
        await self.ready()
        result = await self._request("session/new", {"cwd": self.cwd, "mcpServers": []})
        info = session_info(result)
        if info is None:
            raise AcpError(
                f"The agent {self.config.name!r} opened a session without an id: {redact(str(result))[:200]}."
            )
        files = ConfinedFiles(self.config.root or self.cwd) if self.config.fs else None
        session = Session(
            info,
            self._connection,
            files=files,
            missing_file_is_empty=self.config.missing_file_is_empty,
            consult=self._consult,
            late=self._late,
        )
        self.sessions[info.id] = session
        for update in self._early.pop(info.id, ()):
            session.update(update)
        self._tasks.start_soon(session.serve_files)
        await self._choose_mode(session)
        await self._choose_model(session)
        return session

    async def _choose_mode(self, session: Session) -> None:
        mode, info = self.config.mode, session.info
        if mode is None or mode == info.mode:
            return
        if mode in info.modes:
            await self._request("session/set_mode", {"sessionId": session.id, "modeId": mode})
            return
        if await self._set_option(session, "mode", mode):
            return
        offered = ", ".join(info.modes) or ", ".join(info.options.get("mode", ("", ()))[1]) or "none"
        text = f"The agent {self.config.name!r} has no mode {mode!r}; it offers: {offered}."
        if self.config.mode_required:
            raise SettingInvalid(text)
        session.notices.append(("mode_not_set", f"{text} It may do things without asking."))

    async def _choose_model(self, session: Session) -> None:
        model = self.config.model
        if model is None or await self._set_option(session, "model", model):
            return
        if model not in session.info.models:
            offered = ", ".join(session.info.models or session.info.options.get("model", ("", ()))[1]) or "none"
            raise SettingInvalid(f"The agent {self.config.name!r} has no model {model!r}; it offers: {offered}.")
        await self._request("session/set_model", {"sessionId": session.id, "modelId": model})

    async def _set_option(self, session: Session, category: str, value: str) -> bool:
        option, values = session.info.options.get(category, ("", ()))
        if value not in values:
            return False
        await self._request("session/set_config_option", {"sessionId": session.id, "configId": option, "value": value})
        return True

    def respond(self, request_id: JsonValue, result: JsonValue) -> None:
        """Answer a request of the agent."""
        self._connection.respond(request_id, result)

    def start_soon(self, function: Callable[[], Coroutine[object, object, None]]) -> None:
        """Run a function in a task that ends with the process at the latest."""
        if self.usable:
            self._tasks.start_soon(function)

    def forget(self, session: Session) -> None:
        """Close a session that nobody will use again."""
        self.sessions.pop(session.id, None)
        session.close()
        if self.usable and self.info.closes_sessions:
            self._connection.call("session/close", {"sessionId": session.id}, lambda _result, _error: None)

    # --- stopping a turn ---

    def stop_turn(self, session: Session, turn: Turn, *, shown: bool) -> None:
        """Tell the agent to stop a turn; its process is ended when it does not within the grace period.

        Args:
            session: the session.
            turn: its turn.
            shown: whether what the agent still says about the turn is part of the run.
        """
        turn.shown = turn.shown and shown
        if turn.stopping or turn.ended.is_set():
            return
        session.cancel(turn)
        if self.usable:
            self._tasks.start_soon(self._supervise_stop, turn)

    async def _supervise_stop(self, turn: Turn) -> None:
        with anyio.move_on_after(self.config.cancel_grace):
            await turn.ended.wait()
        if not turn.ended.is_set():
            self.fail(
                AcpError(
                    f"The agent {self.config.name!r} did not stop within {self.config.cancel_grace:g} seconds after it "
                    "was asked to; its process was ended."
                )
            )

    # --- what the agent says ---

    def on_notification(self, method: str, params: Params) -> bool:
        """Take a notification."""
        if method == "session/update":
            update = params.get("update")
            identifier = params.get("sessionId")
            if isinstance(update, dict) and isinstance(identifier, str):
                session = self.sessions.get(identifier)
                if session is not None:
                    session.update(cast("Update", update))
                elif len(self._early) < KEPT_EARLY or identifier in self._early:
                    kept = self._early.setdefault(identifier, deque(maxlen=KEPT_EARLY))
                    kept.append(cast("Update", update))
            return True
        if method == "$/cancel_request":
            for session in self.sessions.values():
                if session.withdraw(params.get("requestId")):
                    break
            return True
        return False

    def on_request(self, request_id: JsonValue, method: str, params: Params) -> bool:
        """Take a request."""
        handled = method == "session/request_permission" or (
            self.config.fs and method in ("fs/read_text_file", "fs/write_text_file")
        )
        if not handled:
            return False
        session = self.sessions.get(str(params.get("sessionId")))
        if session is None:
            text = f"The session {params.get('sessionId')!r} is not known here."
            self._connection.respond_error(request_id, INVALID_PARAMS, text)
        elif method == "session/request_permission":
            session.permission(request_id, params)
        else:
            session.file(FileRequest(request_id, method == "fs/write_text_file", params))
        return True

    def on_oversized(self, line: OversizedLine) -> None:
        """Fail the turns that a dropped line may have been about; the session goes on."""
        limit = self.config.max_line_bytes
        head = line.head.decode("utf-8", "replace")
        about = [session for session in self.sessions.values() if f'"{session.id}"' in head]
        for session in about or list(self.sessions.values()):
            if session.turn is not None and session.turn.error is None:
                session.turn.error = AcpLineTooLong(
                    f"The agent {self.config.name!r} sent a line of {line.size} bytes or more; the limit is {limit}. "
                    "Raise max_line_bytes to accept it."
                )
                turn = session.turn
                self.stop_turn(session, turn, shown=False)
                turn.wake()

    # --- permissions ---

    def _consult(self, turn: Turn, pending: PendingPermission) -> None:
        policy = turn.policy
        if isinstance(policy, PermissionPolicy):
            turn.decide(pending, policy.decide(pending.request), policy.rule(pending.request))
        else:
            self._tasks.start_soon(self._ask_function, policy, turn, pending)

    async def _ask_function(self, function: PermissionCallback, turn: Turn, pending: PendingPermission) -> None:
        rule = "the permission function"
        try:
            with use_context(turn.context):
                decision = await ask_function(function, pending.request)
        except Exception as error:  # a rule that fails means no
            logger.exception("the permission function failed")
            decision, rule = "deny", f"the permission function, which raised {type(error).__name__}"
        turn.decide(pending, decision, rule)
