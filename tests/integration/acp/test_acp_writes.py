"""Writes through the bridge: a denial holds for the file and not for its spelling, and nothing is written unasked."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bascule.acp import AcpAgent, PermissionPolicy, PermissionRequest
from bascule.stream import AcpNoticeChunk
from bascule.testing import FakeAcpAgent
from bascule.tools import MemoryOption

MakeFake = Callable[..., FakeAcpAgent]
MEMORY: MemoryOption = {"thread": "t", "resource": "r"}


@pytest.fixture
def note(project: Path) -> Path:
    """A file, with a folder and links beside it."""
    path = project / "note.txt"
    path.write_text("before", encoding="utf-8")
    (project / "folder").mkdir()
    (project / "link.txt").symlink_to("note.txt")
    (project / "here").symlink_to(".")
    os.link(path, project / "twin.txt")
    return path


def read(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def agent_of(fake: FakeAcpAgent, project: Path, **settings: Any) -> AcpAgent:
    return AcpAgent(id="fake", command=fake.command, cwd=project, **settings)


def write(path: object, content: str = "after") -> dict[str, Any]:
    return {"write": {"path": str(path), "content": content}}


def ask(path: object, *then: dict[str, Any], kind: str = "edit", **more: Any) -> dict[str, Any]:
    """Ask for an edit of a file, and do the same whatever the answer is."""
    call = {"toolCallId": "c1", "title": "Edit", "kind": kind, "locations": [{"path": str(path)}], **more}
    return {"permission": {"toolCall": call}, "on_allow": [*then], "on_reject": [*then], "on_cancel": [*then]}


def denies(request: PermissionRequest) -> str:
    return "deny"


def codes(warnings: tuple[str, ...]) -> list[str]:
    return [warning.partition(":")[0] for warning in warnings]


SPELLINGS = [
    "{project}/note.txt",
    "{project}/./note.txt",
    "{project}//note.txt",
    "{project}/folder/../note.txt",
    "{project}/link.txt",
    "{project}/here/note.txt",
    "{project}/here/here/link.txt",
    "{project}/twin.txt",
    "note.txt",
    "./note.txt",
    "folder/../note.txt",
    "link.txt",
]


@pytest.mark.parametrize("denied", ["{project}/note.txt", "note.txt", "{project}/here/link.txt"])
@pytest.mark.parametrize("written", SPELLINGS)
async def test_after_a_denial_no_spelling_of_the_file_can_be_written(
    fake: MakeFake, project: Path, note: Path, denied: str, written: str
) -> None:
    turn = ask(denied.format(project=project), write(written.format(project=project)), {"echo": True})
    async with agent_of(fake([turn]), project, permissions=denies) as coder:
        result = await coder.generate("Go.")
    assert "declined" in json.loads(result.text)["message"]
    assert (read(note), read(project / "link.txt"), read(project / "twin.txt")) == ("before", "before", "before")


@pytest.mark.parametrize("named", ["rawInput", "content"])
async def test_a_denial_holds_for_the_file_in_the_arguments_and_in_the_changes(
    fake: MakeFake, project: Path, note: Path, named: str
) -> None:
    told: dict[str, Any] = {
        "rawInput": {"file_path": str(note)},
        "content": [{"type": "diff", "path": str(note), "newText": "after"}],
    }
    more: dict[str, Any] = {named: told[named]}
    turn = ask(project / "other.txt", write(project / "link.txt"), {"echo": True}, **more)
    async with agent_of(fake([turn]), project, permissions=denies) as coder:
        assert "declined" in json.loads((await coder.generate("Go.")).text)["message"]
    assert read(note) == "before"


async def test_a_denial_of_a_new_file_holds_in_a_folder_reached_through_a_link(fake: MakeFake, project: Path) -> None:
    (project / "folder").mkdir()
    (project / "way").symlink_to("folder")
    turn = ask(project / "folder/new.txt", write(project / "way/new.txt"), {"echo": True})
    async with agent_of(fake([turn]), project, permissions=denies) as coder:
        assert "declined" in json.loads((await coder.generate("Go.")).text)["message"]
    assert not (project / "folder/new.txt").exists()


async def test_a_denial_of_one_file_leaves_the_others_and_the_next_turn_alone(
    fake: MakeFake, project: Path, note: Path
) -> None:
    policy = PermissionPolicy(default="allow", kinds={"execute": "deny"})
    first = ask(note, write(project / "other.txt"), write(note), {"echo": True}, kind="execute")
    async with agent_of(fake([first], [write(note, "later"), {"echo": True}]), project, permissions=policy) as coder:
        assert "declined" in (await coder.generate("Go.", memory=MEMORY)).text
        assert (read(note), read(project / "other.txt")) == ("before", "after")
        await coder.generate("Go.", memory=MEMORY)
    assert read(note) == "later"


# --- writes that nobody was asked about ---


async def test_a_write_without_a_question_is_put_to_the_person_and_an_approval_lets_it_happen(
    fake: MakeFake, project: Path, note: Path
) -> None:
    agent = fake([{"text": "I write. "}, write(note), {"echo": True}])
    async with agent_of(agent, project) as coder:
        output = coder.stream("Go.")
        chunks = [chunk async for chunk in output]
        waiting = output.snapshot()
        assert (waiting.status, read(note)) == ("suspended", "before")
        [notice] = [chunk for chunk in chunks if isinstance(chunk, AcpNoticeChunk)]
        assert (notice.code, notice.data) == ("unapproved_tool_call", {"path": str(note)})
        assert str(note) in notice.message
        assert codes(waiting.warnings) == ["unapproved_tool_call"]
        [call] = waiting.pending
        assert (call.tool_name, call.args) == (f"Write {note}", {"path": str(note)})
        done = await coder.approve_tool_call(run_id=waiting.run_id)
    assert (done.status, done.text, read(note)) == ("success", "null", "after")
    assert await agent.violations() == []


async def test_a_write_without_a_question_that_the_person_declines_does_not_happen(
    fake: MakeFake, project: Path, note: Path
) -> None:
    async with agent_of(fake([write(note), {"echo": True}, write("./note.txt"), {"echo": True}]), project) as coder:
        waiting = await coder.generate("Go.")
        done = await coder.decline_tool_call(run_id=waiting.run_id, reason="no")
    assert (done.status, done.text.count("declined"), read(note)) == ("success", 2, "before")
    assert [(item.kind, item.error) for item in done.tool_results] == [("denied", "no")]


@pytest.mark.parametrize("answer", ["allow", "deny"])
async def test_a_function_decides_about_a_write_without_a_question(
    fake: MakeFake, project: Path, note: Path, answer: str
) -> None:
    seen: list[PermissionRequest] = []

    async def decides(request: PermissionRequest) -> str:
        seen.append(request)
        return answer

    async with agent_of(fake([write(note), {"echo": True}]), project, permissions=decides) as coder:
        result = await coder.generate("Go.")
    [request] = seen
    assert (request.kind, request.paths) == ("edit", (str(note),))
    assert read(note) == ("after" if answer == "allow" else "before")
    assert codes(result.warnings)[0] == "unapproved_tool_call"


async def test_where_nobody_can_be_asked_a_write_without_a_question_does_not_happen(
    fake: MakeFake, project: Path, note: Path
) -> None:
    async with agent_of(fake([write(note)]), project) as coder:
        output: Any = await coder.as_tool().execute({"task": "Go."})
    assert read(note) == "before"
    assert codes(output["warnings"])[0] == "unapproved_tool_call"


@pytest.mark.parametrize("written", ["{project}/note.txt", "{project}/./note.txt", "note.txt", "{project}/link.txt"])
async def test_an_agent_that_asks_first_writes_without_another_question(
    fake: MakeFake, project: Path, note: Path, written: str
) -> None:
    path = written.format(project=project)
    async with agent_of(fake([ask(note, write(path), write(path, "again"))]), project) as coder:
        waiting = await coder.generate("Go.")
        done = await coder.approve_tool_call(run_id=waiting.run_id)
    assert (done.status, done.warnings) == ("success", ())
    assert read(note) == "again"


@pytest.mark.parametrize(("kind", "named"), [("edit", "other.txt"), ("edit", "twin.txt"), ("read", "note.txt")])
async def test_an_approval_of_something_else_covers_no_write(
    fake: MakeFake, project: Path, note: Path, kind: str, named: str
) -> None:
    async with agent_of(fake([ask(project / named, write(note), kind=kind)]), project) as coder:
        first = await coder.generate("Go.")
        second = await coder.approve_tool_call(run_id=first.run_id)
        assert (second.status, read(note)) == ("suspended", "before")
        assert codes(second.warnings) == ["unapproved_tool_call"]


async def test_edits_that_were_allowed_for_good_are_only_noted_and_a_denial_still_holds(
    fake: MakeFake, project: Path, note: Path
) -> None:
    other = project / "other.txt"
    turns = [ask(other, write(note), {"text": "wrote"})], [ask(note, write("./note.txt", "denied"), write(other))]
    async with agent_of(fake(*turns), project) as coder:
        waiting = await coder.generate("Go.", memory=MEMORY)
        done = await coder.resume_generate({"optionId": "always"}, run_id=waiting.run_id)
        assert (done.status, codes(done.warnings), read(note)) == ("success", ["unapproved_tool_call"], "after")
        waiting = await coder.generate("Go.", memory=MEMORY)
        done = await coder.decline_tool_call(run_id=waiting.run_id)
    assert codes(done.warnings) == ["path_refused", "unapproved_tool_call"]
    assert (read(note), read(other)) == ("after", "after")


async def test_a_policy_that_allows_edits_takes_a_write_as_allowed(fake: MakeFake, project: Path, note: Path) -> None:
    policy = PermissionPolicy(default="ask", kinds={"edit": "allow"})
    async with agent_of(fake([write(note)]), project, permissions=policy) as coder:
        result = await coder.generate("Go.")
    assert (result.status, result.warnings, read(note)) == ("success", (), "after")


async def test_stopping_the_run_ends_the_question_about_a_write(fake: MakeFake, project: Path, note: Path) -> None:
    agent = fake(
        [write(note), {"wait_cancel": True}], [{"text": "next"}, {"read": {"path": str(note)}}, {"echo": True}]
    )
    async with agent_of(agent, project) as coder:
        waiting = await coder.generate("Go.", memory=MEMORY)
        await coder.abort_run(waiting.run_id)
        result = await coder.generate("Go.", memory=MEMORY)
    assert result.text == 'next{"content": "before"}'
    assert await agent.violations() == []
