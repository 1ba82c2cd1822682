"""External coding agents as agents of ours."""

import os
import shlex
from collections.abc import Mapping, Sequence
from functools import partial
from types import TracebackType
from typing import Self
from weakref import WeakValueDictionary

import anyio

from bascule.acp._config import AgentConfig
from bascule.acp._environment import EnvPolicy
from bascule.acp._permissions import Permissions, policy_of
from bascule.acp._presets import Preset, find_preset
from bascule.acp._process import AgentProcess
from bascule.acp._rpc import Diagnostics
from bascule.acp._run import AcpOutput, AcpRun, Answer, Slot
from bascule.acp._session import LateUpdate
from bascule.acp._tool import task_tool
from bascule.acp._turn import PendingPermission
from bascule.acp._v1 import AgentInfo
from bascule.context import CancelToken, RequestContext, current_context
from bascule.errors import ConfigurationError, InputError, RunIdInUse, RunNotSuspended, SettingInvalid
from bascule.messages import JsonObject, MessagesInput, new_id, normalize
from bascule.stream import FullOutput
from bascule.tools import MemoryOption, Tool, check_name, safe_name

__all__ = ["AcpAgent"]

KEPT_RUNS = 32
KEPT_LATE = 1000
KEPT_RELEASED = 1000


class AcpAgent:
    """A coding agent that speaks the Agent Client Protocol, used like an ``Agent``.

    Its process starts on first use and goes on until ``aclose``, or until the event loop ends. A run without
    ``memory`` is a conversation of its own; runs of one thread share a session, one after another. What the agent
    asks permission for is decided by ``permissions``: with ``"ask"`` the stream ends as suspended, and
    ``approve_tool_call``, ``decline_tool_call`` or ``resume_stream`` go on with the same turn.

    Args:
        preset: a known agent: ``claude-code``, ``codex``, ``gemini``, ``opencode``.
        id: names the agent in the app and in MCP (``ask_<id>``); the preset's name when left out.
        name: a name for people.
        description: what it is good for; read by other agents and by MCP clients.
        command: the launch line, as a list or as a shell would split it; with a preset it replaces nothing else.
        args: further arguments.
        env: environment variables for the agent.
        env_policy: ``"inherit"``, or the names of the variables that it inherits; patterns such as ``AWS_*`` work.
        cwd: the folder that it works in; ours when left out.
        root: the folder that its file access through us is confined to; ``cwd`` when left out.
        permissions: ``"ask"``, ``"deny"``, ``"allow"``, a ``PermissionPolicy``, or a function of the request that
            returns one of the three or an option's id; a function that raises means no.
        fs: whether it may read and write files through us.
        model: the model to choose, by the agent's own name for it.
        mode: the mode to set; left out, a preset's mode that asks before it changes anything.
        start_timeout: seconds for each step of the start.
        turn_timeout: seconds for a whole turn, waiting for a person not counted; no limit when ``None``.
        idle_timeout: seconds without any sign of progress; no limit when ``None``.
        answer_timeout: seconds that a suspended run waits for a person; then what was asked for counts as declined and
            the turn is stopped. No limit when ``None``.
        max_sessions: how many threads keep their session; beyond that the one that was used the longest time ago is
            closed, never one that is in use. Its thread begins anew, and the result says so.
        cancel_grace: seconds between asking the agent to stop a turn and ending its process.
        max_line_bytes: the longest line that is read from it.

    Raises:
        NotFound: there is no such preset.
        ConfigurationError: neither a preset nor a command is given.
        NameInvalid: the id cannot be used in a tool name.
        SettingInvalid: ``permissions`` is none of the accepted forms, or ``max_sessions`` is below one.
    """

    def __init__(
        self,
        preset: str | None = None,
        *,
        id: str | None = None,
        name: str | None = None,
        description: str | None = None,
        command: str | Sequence[str] | None = None,
        args: Sequence[str] = (),
        env: Mapping[str, str] | None = None,
        env_policy: EnvPolicy = "inherit",
        cwd: str | os.PathLike[str] | None = None,
        root: str | os.PathLike[str] | None = None,
        permissions: Permissions = "ask",
        fs: bool = True,
        model: str | None = None,
        mode: str | None = None,
        start_timeout: float = 60,
        turn_timeout: float | None = None,
        idle_timeout: float | None = 600,
        answer_timeout: float | None = 900,
        max_sessions: int = 32,
        cancel_grace: float = 5,
        max_line_bytes: int = 64 * 2**20,
    ) -> None:
        known = find_preset(preset) if preset is not None else None
        line = _command(command, args, known)
        if max_sessions < 1:
            raise SettingInvalid(f"max_sessions is {max_sessions}; an agent needs at least one session.")
        program = os.path.basename(line[0])  # noqa: PTH119  # a word of a command line, not a path object
        self.id: str = check_name(id or (known.name if known else safe_name(program)), what="ACP agent")
        self.name: str = name or (known.title if known else self.id)
        self.description: str = description or (known.description if known else f"The coding agent {self.name}.")
        self.config: AgentConfig = AgentConfig(
            name=self.id,
            command=line,
            install=known.install if known else None,
            env=env,
            env_policy=env_policy,
            preset_env=known.env if known else {},
            drop_env=known.drop_env if known else (),
            cwd=os.fspath(cwd) if cwd is not None else None,
            root=os.fspath(root) if root is not None else None,
            policy=policy_of(permissions),
            fs=fs,
            missing_file_is_empty=known.missing_file_is_empty if known else False,
            model=model,
            mode=mode or (known.mode if known else None),
            mode_required=mode is not None,
            start_timeout=start_timeout,
            turn_timeout=turn_timeout,
            idle_timeout=idle_timeout,
            answer_timeout=answer_timeout,
            max_sessions=max_sessions,
            cancel_grace=cancel_grace,
            max_line_bytes=max_line_bytes,
        )
        self._reset()

    def _reset(self) -> None:
        self._process: AgentProcess | None = None
        self._slots: dict[tuple[str, str], Slot] = {}
        self._released: dict[tuple[str, str], None] = {}
        self._made: WeakValueDictionary[str, AcpRun] = WeakValueDictionary()
        self._runs: dict[str, AcpRun] = {}
        self._late: list[LateUpdate] = []

    def __repr__(self) -> str:
        return f"<AcpAgent {self.id}>"

    # --- life ---

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """End the agent's process and all that it started; open questions are answered with no.

        The agent can be used again afterwards, with new sessions.
        """
        process = self._process
        if process is not None:
            with anyio.CancelScope(shield=True):
                await process.aclose()
        if self._process is process:
            self._process = None
            self._slots.clear()
            self._released.clear()
            self._runs.clear()

    async def connect(self, *, session: bool = False) -> AgentInfo:
        """Start the agent, unless it runs, and return what it says about itself.

        Args:
            session: whether to open a session as well, which shows whether the agent wants a login.

        Raises:
            AcpError: it cannot be started, or opens no session.
        """
        process = await self._running()
        if session:
            process.forget(await process.new_session())
        return process.info

    async def _running(self) -> AgentProcess:
        if self._process is None or not self._process.usable:
            self._process = AgentProcess(self.config, late=self._note_late)
            self._process.start()
        process = self._process
        await process.ready()
        return process

    def _note_late(self, update: LateUpdate) -> None:
        self._late.append(update)
        if len(self._late) > KEPT_LATE:
            del self._late[: KEPT_LATE // 2]

    # --- what can be seen of it ---

    @property
    def late_updates(self) -> tuple[LateUpdate, ...]:
        """The last things that the agent said outside of a running turn."""
        return tuple(self._late)

    @property
    def diagnostics(self) -> Diagnostics | None:
        """What the running process wrote to stdout that is no message; ``None`` before it was started."""
        return self._process.diagnostics if self._process is not None else None

    @property
    def stderr(self) -> str:
        """The end of what the process wrote to stderr, without secrets."""
        return self._process.stderr if self._process is not None else ""

    # --- runs ---

    def stream(
        self,
        messages: MessagesInput,
        *,
        memory: MemoryOption | None = None,
        run_id: str | None = None,
        request_context: RequestContext | None = None,
        abort_signal: CancelToken | None = None,
    ) -> AcpOutput:
        """Start a turn and return its live output; it begins when the output is read, awaited or entered.

        Args:
            messages: a text, a message, or a list of them.
            memory: the conversation: ``{"thread": id, "resource": owner}``; one of its own when left out.
            run_id: the run's id; a fresh one when left out.
            request_context: identity and values for a permission function; the current request's when left out.
            abort_signal: stops the run.

        Raises:
            InputError: a message or an option cannot be used.
            RunIdInUse: a run with the given id is going on, or waits for a decision.
        """
        return self._stream(messages, memory, run_id, request_context, abort_signal, interactive=True)

    def _stream(
        self,
        messages: MessagesInput,
        memory: MemoryOption | None,
        run_id: str | None,
        request_context: RequestContext | None,
        abort_signal: CancelToken | None,
        *,
        interactive: bool,
    ) -> AcpOutput:
        context = request_context or current_context() or RequestContext()
        run_id = run_id or new_id()
        known = self._known(run_id)
        if known is not None and not known.over:
            raise RunIdInUse(f"The run {run_id!r} is going on. Wait for its end, or leave run_id out.")
        key = _session_key(memory, context, self.id)
        run = AcpRun(
            id=run_id,
            agent_id=self.id,
            messages=normalize(messages),
            context=context,
            enter=partial(self._enter, key=key),
            lasting=key is not None,
            interactive=interactive,
            start=self._running,
        )
        self._made[run_id] = run
        output = AcpOutput(
            run.begin, run_id=run_id, trace_id=context.trace_id, cancel_token=abort_signal or CancelToken()
        )
        run.output, output.run = output, run
        return output

    def _known(self, run_id: str) -> AcpRun | None:
        return self._runs.get(run_id) or self._made.get(run_id)

    def _enter(self, run: AcpRun, *, key: tuple[str, str] | None) -> Slot:
        """Keep a run that begins, and return the place of its conversation."""
        self._remember(run)
        if key is None:
            return Slot()
        slot = self._slots.pop(key, None) or Slot(released=key in self._released)
        self._released.pop(key, None)
        self._slots[key] = slot  # the one used last stands last
        self._make_room(slot)
        return slot

    def _remember(self, run: AcpRun) -> None:
        """Keep a run for its answers; of those that are over only the last with decisions, which may be repeated."""
        over = [known for known in self._runs.values() if known.over or known.lost]
        for known in [known for known in over if known.over and not known.decisions] + over[:-KEPT_RUNS]:
            self._runs.pop(known.id, None)
        self._runs[run.id] = run

    def _make_room(self, newest: Slot) -> None:
        """Close sessions that nobody uses, the one used the longest time ago first, as many as are too many."""
        idle = [key for key, slot in self._slots.items() if slot is not newest and not slot.claims]
        for key in idle[: max(0, len(self._slots) - self.config.max_sessions)]:
            slot = self._slots.pop(key)
            if slot.session is not None or slot.released:
                self._released[key] = None
            if slot.session is not None and slot.process is not None:
                slot.process.forget(slot.session)
        while len(self._released) > KEPT_RELEASED:
            del self._released[next(iter(self._released))]

    async def generate(
        self,
        messages: MessagesInput,
        *,
        memory: MemoryOption | None = None,
        run_id: str | None = None,
        request_context: RequestContext | None = None,
        abort_signal: CancelToken | None = None,
    ) -> FullOutput:
        """Run a turn to its end, or to a question, and return the whole result: the fold of ``stream``.

        Args:
            messages: a text, a message, or a list of them.
            memory: the conversation; one of its own when left out.
            run_id: the run's id.
            request_context: identity and values for a permission function.
            abort_signal: stops the run.

        Raises:
            AcpError: the agent failed; ``.output`` has what the run came to.
            InputError: a message or an option cannot be used.
        """
        return await self._stream(messages, memory, run_id, request_context, abort_signal, interactive=True)

    def generate_sync(self, messages: MessagesInput) -> FullOutput:
        """Do what ``generate`` does, for a script without an event loop.

        The agent is started for this call and ended after it. Nobody can be asked, so ``"ask"`` means no.

        Raises:
            AcpError: the agent failed.
            RuntimeError: an event loop is running in this thread; use ``await generate(...)`` there.
        """
        try:
            anyio.get_current_task()
        except Exception:  # noqa: BLE001  # each backend has its own error for: no event loop here
            return anyio.run(partial(self._generate_alone, messages))
        raise RuntimeError("generate_sync was called inside an event loop; use 'await agent.generate(...)' there.")

    async def _generate_alone(self, messages: MessagesInput) -> FullOutput:
        alone = object.__new__(AcpAgent)
        alone.id, alone.name, alone.description, alone.config = self.id, self.name, self.description, self.config
        alone._reset()
        async with alone:
            return await alone._stream(messages, None, None, None, None, interactive=False)

    # --- answers ---

    def approve_tool_call(self, *, run_id: str, tool_call_id: str | None = None) -> AcpOutput:
        """Allow what the agent asks for, this once, and return the output of the rest of the turn.

        Args:
            run_id: the suspended run.
            tool_call_id: the call; all that wait when left out.

        Raises:
            RunNotSuspended: the run waits for no such decision, or was answered otherwise.
        """
        return self._answer(run_id, tool_call_id, Answer(approved=True))

    def decline_tool_call(
        self, *, run_id: str, tool_call_id: str | None = None, reason: str | None = None
    ) -> AcpOutput:
        """Refuse what the agent asks for and return the output of the rest of the turn.

        Args:
            run_id: the suspended run.
            tool_call_id: the call; all that wait when left out.
            reason: kept in the result; the protocol has no way to tell it to the agent.

        Raises:
            RunNotSuspended: the run waits for no such decision, or was answered otherwise.
        """
        return self._answer(run_id, tool_call_id, Answer(approved=False, reason=reason))

    def resume_stream(self, resume_data: JsonObject, *, run_id: str, tool_call_id: str | None = None) -> AcpOutput:
        """Answer with one of the agent's options and return the output of the rest of the turn.

        Args:
            resume_data: ``{"optionId": id}``, or ``{"approved": bool, "reason": text}``.
            run_id: the suspended run.
            tool_call_id: the call; all that wait when left out.

        Raises:
            InputError: the answer is none of these; the run stays suspended.
            RunNotSuspended: the run waits for no such decision, or was answered otherwise.
        """
        identifier = resume_data.get("optionId")
        if isinstance(identifier, str):
            return self._answer(run_id, tool_call_id, None, option_id=identifier)
        approved, reason = resume_data.get("approved"), resume_data.get("reason")
        if not isinstance(approved, bool):
            raise InputError("Answer with {'optionId': one of the options} or {'approved': true or false}.")
        answer = Answer(approved=approved, reason=reason if isinstance(reason, str) else None)
        return self._answer(run_id, tool_call_id, answer)

    async def approve_tool_call_generate(self, *, run_id: str, tool_call_id: str | None = None) -> FullOutput:
        """Do what ``approve_tool_call`` does and return the whole result."""
        return await self.approve_tool_call(run_id=run_id, tool_call_id=tool_call_id)

    async def decline_tool_call_generate(
        self, *, run_id: str, tool_call_id: str | None = None, reason: str | None = None
    ) -> FullOutput:
        """Do what ``decline_tool_call`` does and return the whole result."""
        return await self.decline_tool_call(run_id=run_id, tool_call_id=tool_call_id, reason=reason)

    async def resume_generate(
        self, resume_data: JsonObject, *, run_id: str, tool_call_id: str | None = None
    ) -> FullOutput:
        """Do what ``resume_stream`` does and return the whole result."""
        return await self.resume_stream(resume_data, run_id=run_id, tool_call_id=tool_call_id)

    async def abort_run(self, run_id: str) -> None:
        """Stop a run, also one that waits for a decision; unknown and ended ones are passed over."""
        run = self._known(run_id)
        if run is None or run.over:
            return
        if run.suspended:
            run.end_suspension()
            run.stop(shown=False)
            if run.turn is not None:
                await run.turn.ended.wait()
        elif run.output is not None:
            run.output.cancel("the run was aborted")
            if run_id in self._runs:  # else it has not begun
                await run.output.log.wait_closed()

    def _answer(
        self, run_id: str, tool_call_id: str | None, answer: Answer | None, *, option_id: str | None = None
    ) -> AcpOutput:
        run = self._runs.get(run_id)
        if run is None or run.turn is None:
            raise RunNotSuspended(f"The run {run_id!r} of the agent {self.id!r} is unknown, or has not asked anything.")
        wanted = run.turn.pending if tool_call_id is None else [tool_call_id]
        waiting = {key: run.turn.pending[key] for key in wanted if key in run.turn.pending} if run.suspended else {}
        if not waiting and not (run.suspended and not run.turn.pending):  # the agent may have taken its questions back
            return self._answered_before(run, tool_call_id, answer, option_id)
        answers = {key: answer or _by_option(item, option_id or "") for key, item in waiting.items()}
        return run.resume(answers)

    def _answered_before(
        self, run: AcpRun, tool_call_id: str | None, answer: Answer | None, option_id: str | None
    ) -> AcpOutput:
        """Return the output that the same decision opened before; two decisions on one call are refused."""
        keys = list(run.decisions) if tool_call_id is None else [tool_call_id]
        for decision, output in (run.decisions[key] for key in keys if key in run.decisions):
            chosen = decision.option.id if decision.option else None
            if option_id == chosen if answer is None else decision.same_as(answer):
                return output
        what = "no decision" if tool_call_id is None else f"no decision on {tool_call_id!r}"
        raise RunNotSuspended(f"The run {run.id!r} waits for {what}; it has ended, or was answered otherwise.")

    # --- as a tool ---

    def as_tool(self, name: str | None = None, description: str | None = None) -> Tool[..., object]:
        """Return a tool ``{task}`` that runs the agent and answers with its text and the files that it changed."""
        return task_tool(self, name=name, description=description)


def _command(command: str | Sequence[str] | None, args: Sequence[str], preset: Preset | None) -> tuple[str, ...]:
    if command is None:
        if preset is None:
            raise ConfigurationError("An AcpAgent needs a preset, such as AcpAgent('codex'), or a command.")
        command = preset.command
    line = shlex.split(command) if isinstance(command, str) else list(command)
    if not line or not line[0]:
        raise ConfigurationError("The command of an AcpAgent is empty.")
    return (*line, *args)


def _session_key(memory: MemoryOption | None, context: RequestContext, agent: str) -> tuple[str, str] | None:
    if memory is None:
        return None
    given = memory.get("thread")
    thread = given.get("id") if isinstance(given, Mapping) else given
    if not isinstance(thread, str) or not thread:
        raise InputError(
            f"The memory option of {agent!r} names no thread; pass memory={{'thread': id, 'resource': id}}."
        )
    owner = context.owner if context.principal.verified else memory.get("resource") or context.owner
    return owner, thread


def _by_option(pending: PendingPermission, option_id: str) -> Answer:
    for option in pending.options:
        if option.id == option_id:
            return Answer(approved=not option.kind.startswith("reject"), option=option)
    offered = ", ".join(repr(option.id) for option in pending.options) or "none"
    raise InputError(
        f"The agent does not offer the option {option_id!r} for {pending.call.tool_name!r}; it offers {offered}."
    )
