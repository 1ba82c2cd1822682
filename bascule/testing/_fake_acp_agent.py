"""A scripted coding agent that runs as a real process.

A turn is a list of actions, each a dict with one of these keys:

    {"text": s, "times": n}      answer text, as n pieces          {"thought": s}         reasoning
    {"update": {...}}            any session/update                {"notify": [m, params]} any notification
    {"permission": {...}, "on_allow": [...], "on_reject": [...], "on_cancel": [...]}   a permission request;
                                 with "withdraw": True it is taken back at once
    {"write": {"path", "content"}}  {"read": {"path", "line", "limit"}}  {"request": [method, params]}
                                 a request of the agent; it waits for the answer, which {"echo": True} tells as text
    {"line": s} {"bytes": hex}   anything on stdout                {"stderr": s or n}     a text, or n bytes, on stderr
    {"long_text": n}             one update with n characters      {"env": [names]}       tells the variables as text
    {"spawn": seconds, "holds_stdout": bool}                       starts a child that sleeps
    {"exit": code}               ends the process                  {"close_stdout": True} closes the output and stays
    {"wait_cancel": True}        waits for session/cancel          {"hang": True}         never goes on
    {"sleep": seconds}           {"count_prompts": True}           tells how many prompts there were

The answer to the prompt follows, unless an action ends the turn: {"stop": reason}, {"result": any} or {"error": {...}};
{"after": [...]} holds actions that are played after the answer.
"""

import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from anyio import to_thread

__all__ = ["FakeAcpAgent"]

Json = dict[str, Any]  # Any: scripts and messages are plain JSON here
Action = Mapping[str, Any]

PROGRAM = Path(__file__).with_name("_fake_acp_program.py")


class FakeAcpAgent:
    """A scripted coding agent.

    Args:
        turns: what it does with each prompt, one list of actions after another; the last one is repeated.
        log: a file for what it received, and where the client broke the protocol.
        protocol_version: the version that it chooses.
        auth_methods: ids of login methods; when given, ``session/new`` wants a login.
        capabilities: its ``agentCapabilities``.
        session: further entries of the answer to ``session/new``, such as ``modes``.
        string_ids: whether it echoes ids as texts.
        ignore_cancel: whether it goes on after ``session/cancel``.
        ignore_end_of_input: whether it stays when its input is closed and when it is asked to end.
        before: actions before it reads anything.
        silent: methods that it never answers.
        early_updates: updates that it sends for a session before it answers ``session/new``.
    """

    def __init__(
        self,
        turns: Sequence[Sequence[Action]] = (({"text": "ok"},),),
        *,
        log: str | os.PathLike[str] | None = None,
        protocol_version: object = 1,
        auth_methods: Sequence[str] = (),
        capabilities: Mapping[str, object] | None = None,
        session: Mapping[str, object] | None = None,
        string_ids: bool = False,
        ignore_cancel: bool = False,
        ignore_end_of_input: bool = False,
        before: Sequence[Action] = (),
        silent: Sequence[str] = (),
        early_updates: Sequence[Mapping[str, object]] = (),
    ) -> None:
        self._log = None if log is None else Path(log)
        self._script: Json = {
            "turns": turns,
            "log": None if log is None else os.fspath(log),
            "protocol_version": protocol_version,
            "auth_methods": auth_methods,
            "capabilities": capabilities or {},
            "session": session or {},
            "string_ids": string_ids,
            "ignore_cancel": ignore_cancel,
            "ignore_end_of_input": ignore_end_of_input,
            "before": before,
            "silent": silent,
            "early_updates": early_updates,
        }

    @property
    def command(self) -> list[str]:
        """The command that starts it."""
        return [sys.executable, str(PROGRAM), json.dumps(self._script)]

    async def received(self, method: str | None = None) -> list[Json]:
        """Return the messages that it received, or those of one method.

        Raises:
            ValueError: it was made without a log.
        """
        messages = [entry["received"] for entry in await self._entries() if "received" in entry]
        return [message for message in messages if method is None or message.get("method") == method]

    async def violations(self) -> list[str]:
        """Return how the client broke the protocol.

        Raises:
            ValueError: it was made without a log.
        """
        return [entry["violation"] for entry in await self._entries() if "violation" in entry]

    async def pids(self) -> list[int]:
        """Return the ids of its processes and of the children that they started.

        Raises:
            ValueError: it was made without a log.
        """
        return [entry["pid"] for entry in await self._entries() if "pid" in entry]

    async def _entries(self) -> list[Json]:
        if self._log is None:
            raise ValueError("This fake agent keeps no log; pass log=path.")
        return await to_thread.run_sync(_read, self._log)


def _read(log: Path) -> list[Json]:
    if not log.exists():
        return []
    return [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
