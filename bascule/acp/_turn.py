"""One prompt turn: what the agent does with one message.

A turn goes on in the agent whether or not anyone reads. Its events go to the output that is attached; while the turn
waits for a person's decision there is none, and they are kept for the output that the decision opens.

    running ──ask──> waiting ──answer──> running ──answer to the prompt, or a failure──> ended
       └── stop ──> stopping ──────────────────────────────────────────────────────────────┘

While a turn is stopping nothing that the agent still says about it is shown, unless somebody waits for its last words.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, cast

import anyio
from anyio import to_thread

from bascule.acp._named_files import NamedFiles, named_in, places_of
from bascule.acp._permissions import (
    PermissionCallback,
    PermissionOption,
    PermissionPolicy,
    PermissionRequest,
    choose_option,
    options_of,
)
from bascule.acp._v1 import TurnResult
from bascule.acp._v1_updates import TrackedCall, TurnMapper, Update
from bascule.context import RequestContext
from bascule.errors import AcpError
from bascule.messages import JsonObject, JsonValue
from bascule.runs import RunLog
from bascule.stream import AcpNoticeChunk, Chunk, PendingCall, ToolCallApprovalChunk

__all__ = ["PendingPermission", "Turn"]

WRITING_KINDS = ("edit", "other", "")
"""Kinds of tool calls whose approval covers writing the files that they name."""
Respond = Callable[[JsonValue, JsonValue], None]
CANCELLED_OUTCOME: JsonObject = {"outcome": {"outcome": "cancelled"}}


@dataclass(slots=True, kw_only=True)
class PendingPermission:
    """A permission request that waits for a person.

    Attributes:
        request_id: the agent's id of the request.
        call: the tool call.
        request: what is asked for.
        respond: takes the answer.
        options: the answers to choose from.
    """

    request_id: JsonValue
    call: TrackedCall
    request: PermissionRequest
    respond: Respond

    @property
    def options(self) -> tuple[PermissionOption, ...]:
        """The answers to choose from."""
        return self.request.options

    def resume_schema(self) -> JsonObject:
        """Return the JSON schema of an answer."""
        return {
            "type": "object",
            "properties": {
                "optionId": {"type": "string", "enum": [option.id for option in self.options]},
                "approved": {"type": "boolean"},
                "reason": {"type": "string"},
            },
        }


class Turn:
    """The state of one prompt turn.

    Args:
        run_id: our run.
        cwd: the session's working directory.
        root: the folder that its file access is confined to.
        policy: rules or a function for permission requests.
        interactive: whether somebody can be asked; when not, asking means declining.
        context: the request that the turn serves.
        respond: answers a request of the agent.
        on_end: called when the agent has answered the prompt, or cannot any more.

    Attributes:
        mapper: makes the events.
        pending: permission requests that wait, by the id under which they are shown.
        result: how the turn ended, once the agent has said so.
        error: why it failed.
        stopping: whether the agent was told to stop.
        shown: whether what the agent says is still part of the run.
        progress_at: when the agent last said something about this turn.
        denied_files: files about which a call was declined.
        approved_files: files about which an edit was approved.
        edits_approved: whether somebody has allowed edits for good in this session.
    """

    def __init__(
        self,
        run_id: str,
        *,
        cwd: str,
        root: str,
        policy: PermissionPolicy | PermissionCallback,
        interactive: bool,
        context: RequestContext,
        respond: Respond,
        on_end: Callable[[], None],
    ) -> None:
        self.run_id = run_id
        self.cwd = cwd
        self.policy = policy
        self.context = context
        self.mapper: TurnMapper = TurnMapper(run_id, self.emit)
        self.pending: dict[str, PendingPermission] = {}
        self.result: TurnResult | None = None
        self.error: AcpError | None = None
        self.stopping = False
        self.shown = True
        self.progress_at: float = anyio.current_time()
        self.denied_files: NamedFiles = NamedFiles(cwd, root)
        self.approved_files: NamedFiles = NamedFiles(cwd)
        self.edits_approved: bool = False
        self.ended: anyio.Event = anyio.Event()
        self._root = root
        self._noticed: set[str] = set()
        self._interactive = interactive
        self._respond = respond
        self._on_end = on_end
        self._log: RunLog | None = None
        self._kept: list[Chunk] = []
        self._woken = anyio.Event()

    # --- events ---

    def emit(self, chunk: Chunk) -> None:
        """Hand an event to the reader, or keep it for the next one."""
        if self._log is not None:
            self._log.append(chunk)
        else:
            self._kept.append(chunk)

    def notice(self, code: str, message: str, data: JsonValue = None) -> None:
        """Tell the caller something; it also stands in the result's warnings."""
        self.emit(AcpNoticeChunk(self.run_id, code, message, data))

    def attach(self, log: RunLog) -> None:
        """Send the events to an output, those that were kept first."""
        self._log = log
        kept, self._kept = self._kept, []
        for chunk in kept:
            log.append(chunk)

    def detach(self) -> None:
        """Keep the events from now on."""
        self._log = None

    async def changed(self) -> None:
        """Wait until the turn has ended, or waits for a decision."""
        await self._woken.wait()
        self._woken = anyio.Event()

    def wake(self) -> None:
        """Let whoever waits for a change look again."""
        self._woken.set()

    def update(self, update: Update, at: float) -> None:
        """Take an update of the agent."""
        self.progress_at = at
        self.mapper.apply(update)

    def finish(self, result: TurnResult | None, error: AcpError | None) -> None:
        """Take the answer to the prompt, or the news that there will be none."""
        if self.ended.is_set():
            return
        self.result = result
        self.error = self.error or error
        self.cancel_pending()
        self.ended.set()
        self._on_end()
        self.wake()

    # --- permission requests ---

    def permission(
        self, request_id: JsonValue, params: Mapping[str, Any], respond: Respond | None = None
    ) -> PendingPermission:
        """Take a permission request, joined with what is known about the tool call.

        Args:
            request_id: the agent's id of the request.
            params: the request.
            respond: takes the answer; the agent when left out.
        """
        raw = params.get("toolCall")
        told = cast("Update", raw) if isinstance(raw, dict) else {}
        call = self.mapper.call(told) or self.mapper.call({**told, "toolCallId": f"permission-{request_id}"})
        assert call is not None
        self.mapper.announce(call)
        request = PermissionRequest(
            tool_call_id=call.id,
            tool_name=call.tool_name,
            kind=call.kind,
            args=call.arguments,
            paths=tuple(dict.fromkeys([*call.paths, *(path for path, _, _ in call.diffs())])),
            options=options_of(params.get("options")),
            run_id=self.run_id,
            cwd=self.cwd,
            raw=dict(params),
        )
        return PendingPermission(request_id=request_id, call=call, request=request, respond=respond or self._respond)

    def decide(self, pending: PendingPermission, decision: str, rule: str) -> None:
        """Act on the decision of a policy.

        Args:
            pending: the request.
            decision: ``allow``, ``deny``, ``ask`` or an option's id.
            rule: what decided, for people.
        """
        if self.stopping or self.ended.is_set():
            pending.respond(pending.request_id, CANCELLED_OUTCOME)
        elif decision == "ask" and self._interactive:
            self._ask(pending)
        elif decision == "ask":
            self._decline(pending, "nobody can be asked, which counts as no", rule="the missing person to ask")
        elif decision == "allow":
            always = isinstance(self.policy, PermissionPolicy) and self.policy.allow_always
            option = choose_option(pending.options, allow=True, always=always)
            if option is None:
                self._decline(pending, "the agent offers no permission for once", rule="the missing option")
            else:
                self._approve(pending, option)
        elif decision == "deny":
            self._decline(pending, f"declined by {rule}", rule=rule)
        else:
            self._decide_by_option(pending, decision, rule)

    def _decide_by_option(self, pending: PendingPermission, identifier: str, rule: str) -> None:
        option = next((option for option in pending.options if option.id == identifier), None)
        if option is None:
            self._decline(pending, f"{rule} answered {identifier!r}, which the agent does not offer", rule=rule)
        elif option.kind.startswith("reject"):
            self._decline(pending, f"declined by {rule}", rule=rule, option=option)
        else:
            self._approve(pending, option)

    def _ask(self, pending: PendingPermission) -> None:
        identifier, number = pending.call.id, 1
        while identifier in self.pending:
            number += 1
            identifier = f"{pending.call.id}#{number}"
        self.pending[identifier] = pending
        options = pending.request.raw.get("options")
        shown = tuple(cast("list[JsonObject]", options)) if isinstance(options, list) else ()
        self.emit(
            ToolCallApprovalChunk(
                self.run_id,
                identifier,
                pending.call.tool_name,
                pending.call.arguments,
                resume_schema=pending.resume_schema(),
                options=shown,
            )
        )
        self.wake()

    def answer(self, identifier: str, *, option: PermissionOption | None, approved: bool, reason: str | None) -> None:
        """Act on a person's decision."""
        pending = self.pending.pop(identifier, None)
        if pending is None:
            return
        if approved:
            chosen = option or choose_option(pending.options, allow=True)
            if chosen is not None:
                self._approve(pending, chosen)
                return
            self.notice(
                "permission_denied",
                f"{pending.call.tool_name}: the agent offers no permission for once; choose one of its options by id.",
            )
        self._reject(pending, option, reason)

    def expire(self, reason: str) -> None:
        """Answer every open question with cancelled; what was asked for counts as declined."""
        pending, self.pending = self.pending, {}
        for item in pending.values():
            self.denied_files.add(_named(item.request))
            item.respond(item.request_id, CANCELLED_OUTCOME)
            self.mapper.deny(item.call, reason)
        names = ", ".join(item.call.tool_name for item in pending.values())
        self.notice("answer_timeout", f"{names}: {reason}, which counts as no; the turn was stopped.")

    def _approve(self, pending: PendingPermission, option: PermissionOption) -> None:
        if pending.request.kind in WRITING_KINDS:
            self.approved_files.add(_named(pending.request))
        if pending.request.kind == "edit" and option.kind == "allow_always":
            self.edits_approved = True
        self._select(pending, option)

    @staticmethod
    def _select(pending: PendingPermission, option: PermissionOption) -> None:
        pending.respond(pending.request_id, {"outcome": {"outcome": "selected", "optionId": option.id}})

    def _decline(
        self, pending: PendingPermission, reason: str, *, rule: str, option: PermissionOption | None = None
    ) -> None:
        self._reject(pending, option, reason)
        self.notice("permission_denied", f"{pending.call.tool_name}: {reason}.", {"rule": rule})

    def _reject(self, pending: PendingPermission, option: PermissionOption | None, reason: str | None) -> None:
        option = option or choose_option(pending.options, allow=False)
        self.denied_files.add(_named(pending.request))
        if option is None:
            pending.respond(pending.request_id, CANCELLED_OUTCOME)
        else:
            self._select(pending, option)
        self.mapper.deny(pending.call, reason)

    def withdraw(self, request_id: JsonValue) -> bool:
        """Forget a permission request that the agent has taken back; returns whether it is left unanswered."""
        for identifier, pending in self.pending.items():
            if pending.request_id == request_id:
                del self.pending[identifier]
                self.notice("permission_withdrawn", f"{pending.call.tool_name}: the agent no longer asks.")
                if pending.respond is self._respond:
                    return True
                pending.respond(request_id, CANCELLED_OUTCOME)
                return False
        return False

    def cancel_pending(self) -> None:
        """Answer every open permission request with cancelled."""
        pending, self.pending = self.pending, {}
        for item in pending.values():
            item.respond(item.request_id, CANCELLED_OUTCOME)

    def pending_calls(self) -> tuple[PendingCall, ...]:
        """Return the calls that wait for a decision."""
        return tuple(
            PendingCall(
                tool_call_id=identifier,
                tool_name=item.call.tool_name,
                args=item.call.arguments,
                suspend_payload=item.request.raw,
                resume_schema=item.resume_schema(),
            )
            for identifier, item in self.pending.items()
        )

    # --- files ---

    async def write_refusal(self, path: str) -> str | None:
        """Return why the agent must not write a file now, ``None`` when nothing speaks against it."""
        if self.stopping or self.ended.is_set():
            return "the turn was stopped"
        if self._edit_rule() == "deny":
            return "the permission policy does not allow edits"
        if not self.denied_files.empty and await to_thread.run_sync(self._is_denied, path):
            return "a call about this file was declined"
        return None

    async def needs_approval(self, path: str) -> bool:
        """Tell whether nothing that was approved in this turn covers writing a file."""
        if self._edit_rule() == "allow":
            return False
        return not await to_thread.run_sync(self._is_approved, path)

    def note_unapproved(self, path: str) -> None:
        """Tell the caller, once for each path, that the agent wants to write without having asked."""
        if path not in self._noticed:
            self._noticed.add(path)
            text = f"The agent wants to write {path!r} without having asked for permission in this turn."
            self.notice("unapproved_tool_call", text, {"path": path})

    def _edit_rule(self) -> str | None:
        policy = self.policy
        return policy.kinds.get("edit", policy.default) if isinstance(policy, PermissionPolicy) else None

    def _is_denied(self, path: str) -> bool:
        mine = places_of((path,), (self._root,), other_names=True)
        return not mine.isdisjoint(self.denied_files.places(other_names=True))

    def _is_approved(self, path: str) -> bool:
        mine = places_of((path,), (self._root,), other_names=False)
        return not mine.isdisjoint(self.approved_files.places(other_names=False))


def _named(request: PermissionRequest) -> tuple[str, ...]:
    """Return the files that a request names, in its call or in the call's arguments."""
    return (*request.paths, *named_in(request.args))
