"""The program behind ``FakeAcpAgent``: plays a script over the Agent Client Protocol, and is strict about the client.

It needs nothing but the standard library, so that it starts fast and shares no code with what it tests.
"""

import json
import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO, cast

__all__ = ["main"]

Json = dict[str, Any]  # Any: scripts and messages are plain JSON here
Action = Mapping[str, Any]

DEFAULT_OPTIONS = [
    {"optionId": "always", "name": "Always allow", "kind": "allow_always"},
    {"optionId": "once", "name": "Allow once", "kind": "allow_once"},
    {"optionId": "no", "name": "Reject", "kind": "reject_once"},
]


class _Stopped(Exception):
    """The turn is over: the answer has been sent, or must not be."""


class _Agent:
    """The program."""

    def __init__(self, script: Json) -> None:
        self._script = script
        self._log: TextIO | None = open(script["log"], "a", encoding="utf-8") if script["log"] else None  # noqa: PTH123, SIM115
        self._out = sys.stdout.buffer
        self._lock = threading.Lock()
        self._initialized = False
        self._sessions: dict[str, threading.Event] = {}
        self._busy: set[str] = set()
        self._prompts = 0
        self._last_id = 0
        self._answers: dict[str, queue.SimpleQueue[Json]] = {}
        self._answer: Json = {}
        self.note(pid=os.getpid())

    # --- wire and log ---

    def note(self, **entry: object) -> None:
        if self._log is not None:
            with self._lock:
                self._log.write(json.dumps(entry) + "\n")
                self._log.flush()

    def raw(self, data: bytes) -> None:
        with self._lock:
            self._out.write(data)
            self._out.flush()

    def send(self, **message: object) -> None:
        self.raw(json.dumps({"jsonrpc": "2.0", **message}, ensure_ascii=False).encode("utf-8", "surrogatepass") + b"\n")

    def respond(self, message: Json, **answer: object) -> None:
        identifier = message["id"]
        self.send(id=str(identifier) if self._script["string_ids"] else identifier, **answer)

    def refuse(self, message: Json, code: int, text: str) -> None:
        self.note(violation=text)
        self.respond(message, error={"code": code, "message": text})

    def update(self, session: str, update: Mapping[str, object]) -> None:
        self.send(method="session/update", params={"sessionId": session, "update": update})

    # --- the client's messages ---

    def run(self) -> None:
        for action in self._script["before"]:
            self._act("", action)
        for line in sys.stdin.buffer:
            message = json.loads(line)
            self.note(received=message)
            if message.get("jsonrpc") != "2.0":
                self.note(violation="a message without jsonrpc 2.0")
            if "method" not in message:
                waiting = self._answers.get(str(message.get("id")))
                if waiting is None:
                    self.note(violation=f"an answer to a request that was not made: {message}")
                else:
                    waiting.put(message)
            elif message["method"] not in self._script["silent"]:
                self._request(message)

    def _request(self, message: Json) -> None:
        method, params = message["method"], message.get("params")
        if not isinstance(params, dict):
            self.refuse(message, -32602, f"{method} without an object as params")
            return
        if method == "session/cancel":
            self._cancel(cast("Json", params))
            return
        handler = _HANDLERS.get(method)
        if handler is None:
            self.respond(message, error={"code": -32601, "message": f"no method {method}"})
        elif method != "initialize" and not self._initialized:
            self.refuse(message, -32600, f"{method} before initialize")
        else:
            handler(self, message, cast("Json", params))

    def on_initialize(self, message: Json, params: Json) -> None:
        capabilities = params.get("clientCapabilities")
        if (
            self._initialized
            or not isinstance(params.get("protocolVersion"), int)
            or not isinstance(capabilities, dict)
        ):
            self.refuse(message, -32602, "initialize twice, or without protocolVersion and clientCapabilities")
            return
        self._initialized = True
        methods = [{"id": method, "name": method.title()} for method in self._script["auth_methods"]]
        self.respond(
            message,
            result={
                "protocolVersion": self._script["protocol_version"],
                "agentCapabilities": self._script["capabilities"],
                "agentInfo": {"name": "fake", "title": "Fake agent", "version": "1.0"},
                "authMethods": methods,
            },
        )

    def on_new_session(self, message: Json, params: Json) -> None:
        if self._script["auth_methods"]:
            self.respond(message, error={"code": -32000, "message": "Authentication required"})
            return
        cwd = params.get("cwd")
        if not isinstance(cwd, str) or not Path(cwd).is_absolute() or not Path(cwd).is_dir():
            self.refuse(message, -32602, f"session/new with a cwd that is no absolute folder: {cwd!r}")
            return
        if not isinstance(params.get("mcpServers"), list):
            self.refuse(message, -32602, "session/new without a list of mcpServers")
            return
        session = f"session-{os.getpid()}-{len(self._sessions) + 1}"
        self._sessions[session] = threading.Event()
        for update in self._script["early_updates"]:
            self.update(session, update)
        self.respond(message, result={"sessionId": session, **self._script["session"]})

    def on_set_mode(self, message: Json, params: Json) -> None:
        modes = [mode["id"] for mode in self._script["session"].get("modes", {}).get("availableModes", [])]
        if params.get("modeId") in modes:
            self.respond(message, result={})
        else:
            self.refuse(message, -32602, f"session/set_mode with an unknown mode: {params.get('modeId')!r}")

    def on_set_option(self, message: Json, params: Json) -> None:
        options = self._script["session"].get("configOptions", [])
        if params.get("configId") in [option["id"] for option in options] and "value" in params:
            self.respond(message, result={"configOptions": options})
        else:
            self.refuse(message, -32602, f"session/set_config_option with an unknown option: {params!r}")

    def on_close_session(self, message: Json, params: Json) -> None:
        if "close" in self._script["capabilities"].get("sessionCapabilities", {}):
            self._sessions.pop(str(params.get("sessionId")), None)
            self.respond(message, result={})
        else:
            self.refuse(message, -32601, "session/close although it is not advertised")

    def on_prompt(self, message: Json, params: Json) -> None:
        session, prompt = params.get("sessionId"), params.get("prompt")
        if session not in self._sessions:
            self.refuse(message, -32602, f"a prompt for an unknown session: {session!r}")
        elif session in self._busy:
            self.refuse(message, -32600, "a prompt while another one is running")
        elif (
            not isinstance(prompt, list)
            or not prompt
            or not all("type" in block for block in cast("list[Json]", prompt))
        ):
            self.refuse(message, -32602, "a prompt without content blocks")
        else:
            self._busy.add(str(session))
            self._sessions[str(session)].clear()
            turns = self._script["turns"]
            actions = turns[min(self._prompts, len(turns) - 1)]
            self._prompts += 1
            threading.Thread(target=self._turn, args=(message, str(session), actions), daemon=True).start()

    def _cancel(self, params: Json) -> None:
        cancelled = self._sessions.get(str(params.get("sessionId")))
        if cancelled is None:
            self.note(violation="session/cancel for an unknown session")
        elif not self._script["ignore_cancel"]:
            cancelled.set()

    # --- a turn ---

    def _turn(self, message: Json, session: str, actions: Sequence[Action]) -> None:
        answer: Json = {"result": {"stopReason": "end_turn"}}
        after: list[Action] = []
        try:
            for action in actions:
                if "after" in action:
                    after = action["after"]
                elif "stop" in action:
                    answer = {"result": {"stopReason": action["stop"], **action.get("more", {})}}
                elif "result" in action or "error" in action:
                    answer = dict(action)
                else:
                    self._act(session, action)
                if self._sessions[session].is_set():
                    answer = {"result": {"stopReason": "cancelled"}}
                    break
        except _Stopped:
            return
        self._busy.discard(session)
        self.respond(message, **answer)
        for action in after:
            self._act(session, action)

    def _act(self, session: str, action: Action) -> None:
        for key, value in action.items():
            handler = _ACTIONS.get(key)
            if handler is not None:
                handler(self, session, value, action)
                return
        raise ValueError(f"unknown action {action!r}")

    def play_text(self, session: str, value: Any, action: Action) -> None:
        content = {"type": "text", "text": value}
        line = {"sessionUpdate": "agent_message_chunk", "content": content, **action.get("more", {})}
        message = {"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": session, "update": line}}
        self.raw((json.dumps(message).encode() + b"\n") * action.get("times", 1))

    def play_numbers(self, session: str, value: Any, action: Action) -> None:
        for number in range(value):
            self.play_text(session, f"{number} ", {})

    def play_thought(self, session: str, value: Any, action: Action) -> None:
        content = {"type": "text", "text": value}
        self.update(session, {"sessionUpdate": "agent_thought_chunk", "content": content})

    def play_update(self, session: str, value: Any, action: Action) -> None:
        self.update(session, value)

    def play_long_text(self, session: str, value: Any, action: Action) -> None:
        self.play_text(session, "x" * value, {})

    def _ask(self, session: str, method: str, params: Mapping[str, Any]) -> Json:
        self._last_id += 1
        identifier = f"agent-{self._last_id}"
        waiting: queue.SimpleQueue[Json] = queue.SimpleQueue()
        self._answers[identifier] = waiting
        self.send(id=identifier, method=method, params={"sessionId": session, **params})
        self._answer = waiting.get()
        return self._answer

    def play_permission(self, session: str, value: Any, action: Action) -> None:
        request = {"options": DEFAULT_OPTIONS, **value}
        if action.get("withdraw"):
            self.send(id="withdrawn", method="session/request_permission", params={"sessionId": session, **request})
            self.send(method="$/cancel_request", params={"requestId": "withdrawn"})
            self._answers["withdrawn"] = queue.SimpleQueue()
            return
        answer = self._ask(session, "session/request_permission", request)
        outcome = answer.get("result", {}).get("outcome", {})
        chosen = [option for option in request["options"] if option["optionId"] == outcome.get("optionId")]
        if outcome.get("outcome") == "cancelled":
            branch = "on_cancel"
        elif outcome.get("outcome") == "selected" and len(chosen) == 1:
            branch = "on_allow" if chosen[0]["kind"].startswith("allow") else "on_reject"
        else:
            self.note(violation=f"a permission answer that is none: {answer}")
            branch = "on_reject"
        for inner in action.get(branch, ()):
            self._act(session, inner)

    def play_file_write(self, session: str, value: Any, action: Action) -> None:
        self._ask(session, "fs/write_text_file", value)

    def play_file_read(self, session: str, value: Any, action: Action) -> None:
        self._ask(session, "fs/read_text_file", value)

    def play_any_request(self, session: str, value: Any, action: Action) -> None:
        self._ask(session, value[0], value[1])

    def play_notify(self, session: str, value: Any, action: Action) -> None:
        self.send(method=value[0], params=value[1])

    def play_echo(self, session: str, value: Any, action: Action) -> None:
        self.play_text(session, json.dumps(self._answer.get("result", self._answer.get("error"))), {})

    def play_line(self, session: str, value: Any, action: Action) -> None:
        self.raw(value.encode() + b"\n")

    def play_bytes(self, session: str, value: Any, action: Action) -> None:
        self.raw(bytes.fromhex(value).replace(b"SESSION", session.encode()))

    def play_stderr(self, session: str, value: Any, action: Action) -> None:
        sys.stderr.write(value if isinstance(value, str) else "e" * value)
        sys.stderr.write("\n")
        sys.stderr.flush()

    def play_env(self, session: str, value: Any, action: Action) -> None:
        self.play_text(session, json.dumps({name: os.environ.get(name) for name in value}), {})

    def play_spawn(self, session: str, value: Any, action: Action) -> None:
        pipes = {} if action.get("holds_stdout") else {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        child = subprocess.Popen(
            ["sleep", str(value)], stdin=subprocess.DEVNULL, **cast("Any", pipes)
        )  # Any: overloads
        self.note(pid=child.pid)

    def play_exit(self, session: str, value: Any, action: Action) -> None:
        os._exit(value)

    def play_close_stdout(self, session: str, value: Any, action: Action) -> None:
        os.close(1)
        self.play_hang(session, value, action)

    def play_wait_cancel(self, session: str, value: Any, action: Action) -> None:
        self._sessions[session].wait()

    def play_hang(self, session: str, value: Any, action: Action) -> None:
        threading.Event().wait()
        raise _Stopped

    def play_sleep(self, session: str, value: Any, action: Action) -> None:
        time.sleep(value)

    def play_count(self, session: str, value: Any, action: Action) -> None:
        self.play_text(session, str(self._prompts), {})


_HANDLERS: Mapping[str, Callable[[_Agent, Json, Json], None]] = {
    "initialize": _Agent.on_initialize,
    "session/new": _Agent.on_new_session,
    "session/prompt": _Agent.on_prompt,
    "session/set_mode": _Agent.on_set_mode,
    "session/set_config_option": _Agent.on_set_option,
    "session/close": _Agent.on_close_session,
}

_ACTIONS: Mapping[str, Callable[[_Agent, str, Any, Action], None]] = {
    "text": _Agent.play_text,
    "numbers": _Agent.play_numbers,
    "thought": _Agent.play_thought,
    "update": _Agent.play_update,
    "long_text": _Agent.play_long_text,
    "permission": _Agent.play_permission,
    "write": _Agent.play_file_write,
    "read": _Agent.play_file_read,
    "request": _Agent.play_any_request,
    "notify": _Agent.play_notify,
    "echo": _Agent.play_echo,
    "line": _Agent.play_line,
    "bytes": _Agent.play_bytes,
    "stderr": _Agent.play_stderr,
    "env": _Agent.play_env,
    "spawn": _Agent.play_spawn,
    "exit": _Agent.play_exit,
    "close_stdout": _Agent.play_close_stdout,
    "wait_cancel": _Agent.play_wait_cancel,
    "hang": _Agent.play_hang,
    "sleep": _Agent.play_sleep,
    "count_prompts": _Agent.play_count,
}


def main() -> None:
    """Play the script in the first argument."""
    script: Json = json.loads(sys.argv[1])
    if script["ignore_end_of_input"]:
        import signal  # noqa: PLC0415  # for this fault only

        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    _Agent(script).run()
    if script["ignore_end_of_input"]:
        threading.Event().wait()


if __name__ == "__main__":
    main()
