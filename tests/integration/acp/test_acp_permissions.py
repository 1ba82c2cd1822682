"""What an agent asks for, who decides, and files that cannot leave their folder."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from bascule import errors
from bascule.acp import AcpAgent, PermissionPolicy, PermissionRequest, acp_tool
from bascule.messages import JsonObject
from bascule.stream import ToolCallApprovalChunk
from bascule.testing import FakeAcpAgent
from bascule.tools import Answer, MemoryOption, SilentChannel, ToolContext

MakeFake = Callable[..., FakeAcpAgent]
MEMORY: MemoryOption = {"thread": "t", "resource": "r"}
CALL = {"toolCallId": "c1", "title": "Write note.txt", "kind": "edit", "rawInput": {"path": "note.txt"}}
OTHER = {"toolCallId": "c2", "title": "Run tests", "kind": "execute"}
DONE = {"update": {"sessionUpdate": "tool_call_update", "toolCallId": "c1", "status": "completed"}}
FAILED = {"update": {"sessionUpdate": "tool_call_update", "toolCallId": "c1", "status": "failed"}}


def edit(project: Path) -> dict[str, Any]:
    """Ask for an edit, make it when allowed, and say which it was."""
    write = {"write": {"path": str(project / "note.txt"), "content": "after"}}
    return {
        "permission": {"toolCall": CALL},
        "on_allow": [write, DONE, {"text": "changed"}],
        "on_reject": [FAILED, {"text": "left"}],
        "on_cancel": [{"text": "cancelled"}],
    }


@pytest.fixture
def note(project: Path) -> Path:
    path = project / "note.txt"
    path.write_text("before", encoding="utf-8")
    return path


def read(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def agent_of(fake: FakeAcpAgent, project: Path, **settings: Any) -> AcpAgent:
    return AcpAgent(id="fake", command=fake.command, cwd=project, **settings)


async def option_taken(fake: FakeAcpAgent) -> Any:
    outcomes = [
        message["result"]["outcome"] for message in await fake.received() if "outcome" in str(message.get("result"))
    ]
    return [outcome.get("optionId", outcome["outcome"]) for outcome in outcomes]


@pytest.mark.requirement("F37")
async def test_asking_suspends_the_run_and_an_approval_goes_on_with_the_same_turn(
    fake: MakeFake, project: Path, note: Path
) -> None:
    agent = fake([{"text": "I will. "}, edit(project)])
    async with agent_of(agent, project) as coder:
        output = coder.stream("Change it.")
        chunks = [chunk async for chunk in output]
        waiting = output.snapshot()
        assert (waiting.status, waiting.text, read(note)) == ("suspended", "I will. ", "before")
        [question] = [chunk for chunk in chunks if isinstance(chunk, ToolCallApprovalChunk)]
        assert (question.tool_call_id, question.tool_name, question.args) == (
            "c1",
            "Write note.txt",
            {"path": "note.txt"},
        )
        assert question.options is not None
        assert [option["kind"] for option in question.options] == ["allow_always", "allow_once", "reject_once"]
        assert [call.tool_call_id for call in waiting.pending] == ["c1"]
        rest = coder.approve_tool_call(run_id=waiting.run_id)
        done = await rest
        assert rest.files_changed == (str(note),)
    assert (done.status, done.text, done.run_id) == ("success", "changed", waiting.run_id)
    assert read(note) == "after"
    assert await option_taken(agent) == ["once"]
    assert await agent.violations() == []


async def test_a_declined_call_is_denied_and_the_file_stays(fake: MakeFake, project: Path, note: Path) -> None:
    agent = fake([edit(project)])
    async with agent_of(agent, project) as coder:
        waiting = await coder.generate("Change it.")
        done = await coder.decline_tool_call_generate(run_id=waiting.run_id, reason="not today")
    [result] = done.tool_results
    assert (done.text, result.kind, result.rejected, result.error) == ("left", "denied", True, "not today")
    assert read(note) == "before"
    assert await option_taken(agent) == ["no"]


async def test_an_option_is_chosen_by_its_id_and_an_unknown_one_leaves_the_run_suspended(
    fake: MakeFake, project: Path, note: Path
) -> None:
    agent = fake([edit(project)])
    async with agent_of(agent, project) as coder:
        waiting = await coder.generate("Change it.")
        for data in ({"optionId": "maybe"}, {"yes": True}):
            with pytest.raises(errors.InputError):
                coder.resume_stream(data, run_id=waiting.run_id)
        done = await coder.resume_generate({"optionId": "always"}, run_id=waiting.run_id)
    assert (done.text, await option_taken(agent)) == ("changed", ["always"])


async def test_the_same_decision_again_is_quiet_and_another_one_is_refused(
    fake: MakeFake, project: Path, note: Path
) -> None:
    agent = fake([edit(project)])
    async with agent_of(agent, project) as coder:
        waiting = await coder.generate("Change it.")
        first = coder.approve_tool_call(run_id=waiting.run_id)
        with pytest.raises(errors.RunNotSuspended):
            coder.decline_tool_call(run_id=waiting.run_id)
        await first
        again = await coder.approve_tool_call(run_id=waiting.run_id, tool_call_id="c1")
        assert again.text == "changed"
        for run_id, call in ((waiting.run_id, "c9"), ("unknown", None)):
            with pytest.raises(errors.RunNotSuspended):
                coder.approve_tool_call(run_id=run_id, tool_call_id=call)
        with pytest.raises(errors.RunNotSuspended):
            coder.resume_stream({"optionId": "no"}, run_id=waiting.run_id)
    assert await option_taken(agent) == ["once"]


async def test_calls_are_answered_one_after_another(fake: MakeFake, project: Path, note: Path) -> None:
    both = [edit(project), {"permission": {"toolCall": OTHER}, "on_reject": [{"text": ", not run"}]}]
    async with agent_of(fake(both), project) as coder:
        first = await coder.generate("Change it.")
        second = await coder.approve_tool_call(run_id=first.run_id, tool_call_id="c1")
        assert [call.tool_name for call in second.pending] == ["Run tests"]
        third = await coder.decline_tool_call(run_id=first.run_id)
    assert (third.status, third.text) == ("success", ", not run")


async def test_a_session_that_waits_for_a_decision_is_busy(fake: MakeFake, project: Path) -> None:
    async with agent_of(fake([edit(project)], [{"text": "next"}]), project) as coder:
        waiting = await coder.generate("Change it.", memory=MEMORY)
        with pytest.raises(errors.AcpSessionBusy, match="waits for a decision"):
            await coder.generate("And?", memory=MEMORY)
        with pytest.raises(errors.RunIdInUse):
            coder.stream("And?", run_id=waiting.run_id)


async def test_a_suspended_run_can_be_aborted_and_its_session_goes_on(fake: MakeFake, project: Path) -> None:
    agent = fake([edit(project), {"wait_cancel": True}], [{"text": "next"}])
    async with agent_of(agent, project) as coder:
        waiting = await coder.generate("Change it.", memory=MEMORY)
        with anyio.fail_after(10):
            await coder.abort_run(waiting.run_id)
        assert (await coder.generate("And?", memory=MEMORY)).text == "next"
        with pytest.raises(errors.RunNotSuspended):
            coder.approve_tool_call(run_id=waiting.run_id)
    assert await option_taken(agent) == ["cancelled"]
    assert await agent.violations() == []


async def test_an_unanswered_question_is_cancelled_on_close(fake: MakeFake, project: Path, note: Path) -> None:
    agent = fake([edit(project)])
    async with agent_of(agent, project) as coder:
        assert (await coder.generate("Change it.")).status == "suspended"
    assert read(note) == "before"
    assert await option_taken(agent) == ["cancelled"]


async def test_an_agent_that_dies_while_a_question_is_open_fails_the_answer(fake: MakeFake, project: Path) -> None:
    agent = fake([{"permission": {"toolCall": CALL}, "on_allow": [{"exit": 4}]}])
    async with agent_of(agent, project) as coder:
        waiting = await coder.generate("Change it.")
        with anyio.fail_after(10), pytest.raises(errors.AcpAgentExited) as caught:
            await coder.approve_tool_call(run_id=waiting.run_id)
    assert caught.value.exit_code == 4


@pytest.mark.requirement("F37")
@pytest.mark.parametrize(
    ("permissions", "text", "taken"), [("allow", "changed", "once"), ("deny", "left", "no")], ids=["allow", "deny"]
)
async def test_a_policy_chooses_by_kind_and_never_for_good(
    fake: MakeFake, project: Path, note: Path, permissions: str, text: str, taken: str
) -> None:
    agent = fake([edit(project)])
    async with agent_of(agent, project, permissions=permissions) as coder:
        result = await coder.generate("Change it.")
    assert (result.status, result.text, await option_taken(agent)) == ("success", text, [taken])
    assert read(note) == ("after" if text == "changed" else "before")


async def test_a_denial_is_seen_in_the_stream_the_results_and_one_warning(
    fake: MakeFake, project: Path, note: Path
) -> None:
    async with agent_of(fake([edit(project)]), project, permissions="deny") as coder:
        output = coder.stream("Change it.")
        kinds = [chunk.type async for chunk in output]
        result = await output
    assert kinds.count("tool-output-denied") == 1
    assert [item.kind for item in result.tool_results] == ["denied"]
    [warning] = result.warnings
    assert "Write note.txt" in warning
    assert "'deny'" in warning


async def test_allow_without_an_option_for_once_is_a_denial_unless_for_good_is_allowed(
    fake: MakeFake, project: Path
) -> None:
    options = [
        {"optionId": "a", "name": "Always", "kind": "allow_always"},
        {"optionId": "r", "name": "No", "kind": "reject_once"},
    ]
    ask = {
        "permission": {"toolCall": CALL, "options": options},
        "on_allow": [{"text": "yes"}],
        "on_reject": [{"text": "no"}],
    }
    async with agent_of(fake([ask]), project, permissions="allow") as coder:
        assert (await coder.generate("Go.")).text == "no"
    policy = PermissionPolicy(default="allow", allow_always=True)
    async with agent_of(fake([ask]), project, permissions=policy) as coder:
        assert (await coder.generate("Go.")).text == "yes"


async def test_a_denial_without_an_option_to_reject_is_answered_with_cancelled(fake: MakeFake, project: Path) -> None:
    options = [{"optionId": "a", "name": "Once", "kind": "allow_once"}]
    ask = {"permission": {"toolCall": CALL, "options": options}, "on_cancel": [{"text": "cancelled"}]}
    async with agent_of(fake([ask]), project, permissions="deny") as coder:
        assert (await coder.generate("Go.")).text == "cancelled"


async def test_rules_decide_by_the_kind_of_the_call(fake: MakeFake, project: Path, note: Path) -> None:
    policy = PermissionPolicy(default="deny", kinds={"edit": "allow"})
    turn = [edit(project), {"permission": {"toolCall": OTHER}, "on_reject": [{"text": ", not run"}]}]
    async with agent_of(fake(turn), project, permissions=policy) as coder:
        assert (await coder.generate("Go.")).text == "changed, not run"


def says_always(request: PermissionRequest) -> str:
    return request.options[0].id


async def says_allow(request: PermissionRequest) -> str:
    await anyio.lowlevel.checkpoint()
    return "allow" if request.paths == () and request.args == {"path": "note.txt"} else "deny"


def says_ask(request: PermissionRequest) -> str:
    return "ask"


def says_nonsense(request: PermissionRequest) -> str:
    return "perhaps"


def raises(request: PermissionRequest) -> str:
    raise LookupError(request.tool_name)


@pytest.mark.parametrize(
    ("function", "taken"),
    [(says_always, ["always"]), (says_allow, ["once"]), (says_nonsense, ["no"]), (raises, ["no"]), (says_ask, [])],
)
async def test_a_function_decides_and_one_that_fails_means_no(
    fake: MakeFake, project: Path, note: Path, function: Callable[[PermissionRequest], Any], taken: list[str]
) -> None:
    agent = fake([edit(project)])
    async with agent_of(agent, project, permissions=function) as coder:
        result = await coder.generate("Change it.")
        assert await option_taken(agent) == taken
    assert result.status == ("success" if taken else "suspended")
    if function is raises:
        assert "LookupError" in result.warnings[0]


async def test_a_request_without_title_is_joined_with_the_tracked_call(fake: MakeFake, project: Path) -> None:
    turn = [
        {"update": {"sessionUpdate": "tool_call", **CALL, "status": "pending"}},
        {"permission": {"toolCall": {"toolCallId": "c1", "title": None, "kind": None}}},
    ]
    async with agent_of(fake(turn), project) as coder:
        [call] = (await coder.generate("Go.")).pending
    assert (call.tool_name, call.args) == ("Write note.txt", {"path": "note.txt"})


async def test_a_question_that_the_agent_takes_back_is_gone_and_the_turn_goes_on(fake: MakeFake, project: Path) -> None:
    agent = fake([{"permission": {"toolCall": CALL}, "withdraw": True}, {"text": "never mind"}])
    async with agent_of(agent, project) as coder:
        result = await coder.generate("Go.")
        text = result.text
        with anyio.fail_after(10):  # the agent may read the answer to its question after it has ended its turn
            while not await refused(agent):  # noqa: ASYNC110  # another process has it
                await anyio.sleep(0.01)
        if result.status == "suspended":  # seen before it was taken back
            result = await coder.approve_tool_call(run_id=result.run_id)
            text += result.text
    assert (result.status, text) == ("success", "never mind")


async def refused(fake: FakeAcpAgent) -> bool:
    return any(message.get("error", {}).get("code") == -32800 for message in await fake.received())


ESCAPES = ["../outside.txt", "/etc/passwd", "link/outside.txt", "dangling", "file"]


@pytest.mark.requirement("F38")
@pytest.mark.parametrize("path", ESCAPES)
@pytest.mark.parametrize("action", ["read", "write"])
async def test_files_outside_are_out_of_reach(fake: MakeFake, project: Path, path: str, action: str) -> None:
    outside = project.parent / "outside"
    outside.mkdir()
    (outside / "outside.txt").write_text("secret", encoding="utf-8")
    (project.parent / "outside.txt").write_text("secret", encoding="utf-8")
    (project / "link").symlink_to(outside)
    (project / "file").symlink_to(outside / "outside.txt")
    (project / "dangling").symlink_to(outside / "new.txt")
    absolute = path if path.startswith("/") else f"{project}/{path}"
    request = {action: {"path": absolute, "content": "overwritten", "_meta": {"path": str(project / "ok")}}}
    async with agent_of(fake([request, {"echo": True}]), project, permissions="allow") as coder:
        result = await coder.generate("Go.")
    assert json.loads(result.text)["code"] == -32602
    assert "secret" not in result.text
    assert str(project) in result.text
    assert result.warnings[0].startswith("path_refused")
    assert (outside / "outside.txt").read_text(encoding="utf-8") == "secret"
    assert (project.parent / "outside.txt").read_text(encoding="utf-8") == "secret"
    assert not (outside / "new.txt").exists()


async def test_files_inside_are_read_in_lines_and_written_in_order(fake: MakeFake, project: Path) -> None:
    (project / "a.txt").write_text("1\n2\n3\n", encoding="utf-8")
    turn = [
        {"write": {"path": f"{project}/new/b.txt", "content": "first"}},
        {"write": {"path": f"{project}/new/b.txt", "content": "second", "_meta": {"path": "/etc/x"}}},
        {"read": {"path": f"{project}/a.txt", "line": 2, "limit": 1}},
        {"echo": True},
        {"read": {"path": f"{project}/missing.txt"}},
        {"echo": True},
    ]
    async with agent_of(fake(turn), project, permissions="allow") as coder:
        result = await coder.generate("Go.")
    assert result.text.startswith('{"content": "2\\n"}{"code": -32002')
    assert (project / "new/b.txt").read_text(encoding="utf-8") == "second"


async def test_an_agent_that_creates_only_what_it_can_read_gets_an_empty_file(fake: MakeFake, project: Path) -> None:
    turn = [{"read": {"path": f"{project}/new.txt"}}, {"echo": True}]
    async with AcpAgent("gemini", command=fake(turn).command, cwd=project) as coder:
        assert (await coder.generate("Go.")).text == '{"content": ""}'


async def test_a_file_about_which_a_call_was_declined_is_not_written(fake: MakeFake, project: Path, note: Path) -> None:
    call = {**CALL, "locations": [{"path": str(note)}]}
    write = {"write": {"path": str(note), "content": "after"}}
    agent = fake([{"permission": {"toolCall": call}, "on_reject": [write, {"echo": True}]}])
    async with agent_of(agent, project) as coder:
        waiting = await coder.generate("Go.")
        done = await coder.decline_tool_call(run_id=waiting.run_id)
    assert "declined" in done.text
    assert read(note) == "before"


async def test_without_file_access_requests_for_files_are_unknown(fake: MakeFake, project: Path) -> None:
    agent = fake([{"read": {"path": f"{project}/a"}}, {"echo": True}])
    async with agent_of(agent, project, fs=False) as coder:
        assert json.loads((await coder.generate("Go.")).text)["code"] == -32601
    [start] = await agent.received("initialize")
    assert start["params"]["clientCapabilities"]["fs"] == {"readTextFile": False, "writeTextFile": False}


class AskingChannel(SilentChannel):
    """A caller with a person who always gives the same answer."""

    def __init__(self, approve: bool) -> None:
        self.questions: list[str] = []
        self._approve = approve

    async def ask(self, message: str, schema: JsonObject) -> Answer:
        self.questions.append(message)
        return Answer("accept", {"approve": self._approve})


@pytest.mark.requirement("C03", "F40")
@pytest.mark.parametrize(("approve", "text"), [(True, "changed"), (False, "left")])
async def test_as_a_tool_it_asks_the_person_behind_the_caller(
    fake: MakeFake, project: Path, note: Path, approve: bool, text: str
) -> None:
    coder = agent_of(fake([edit(project)]), project)
    channel = AskingChannel(approve)
    async with coder:
        answer = await coder.as_tool().execute({"task": "Change it."}, ToolContext(channel=channel))
    assert answer == {"output": text, "files_changed": [str(note)] if approve else []}
    assert channel.questions == ["fake asks for permission: Write note.txt"]


async def test_as_a_tool_without_a_person_it_declines_and_says_so(fake: MakeFake, project: Path, note: Path) -> None:
    tool = acp_tool(command=fake([edit(project)]).command, id="coder", cwd=project, permissions="ask")
    answer = await tool.execute({"task": "Change it."})
    assert answer == {
        "output": "left",
        "files_changed": [],
        "warnings": ["permission_denied: Write note.txt: nobody could be asked, which counts as no."],
    }


async def test_as_a_tool_it_fails_with_the_reason(project: Path) -> None:
    tool = acp_tool(command="no-such-agent", cwd=project)
    with pytest.raises(errors.ToolError, match="no-such-agent"):
        await tool.execute({"task": "Go."})
    with pytest.raises(errors.ToolInputInvalid):
        await tool.execute({"tusk": "Go."})


async def test_stopping_the_caller_of_the_tool_stops_the_agent(fake: MakeFake, project: Path) -> None:
    agent = fake([{"text": "half"}, {"wait_cancel": True}])
    context = ToolContext()
    async with agent_of(agent, project) as coder:

        class StoppingChannel(SilentChannel):
            async def emit(self, chunk: Any) -> None:
                if chunk.type == "text-delta":
                    context.cancel.cancel("enough")

        context.channel = StoppingChannel()
        with anyio.fail_after(10), pytest.raises(errors.ToolError, match="was stopped"):
            await coder.as_tool().execute({"task": "Go."}, context)
    assert len(await agent.received("session/cancel")) == 1
