"""What foreign clients read is what a foreign server was recorded to send."""

import json
import re
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import anyio
import pytest

from bascule.agents import Agent
from bascule.errors import ModelError
from bascule.memory import Memory
from bascule.messages import JsonObject
from bascule.models import (
    File,
    Finish,
    ScriptedModel,
    Source,
    TextDelta,
)
from bascule.stream import Chunk, Usage, reference_wire
from bascule.tools import Tool, ToolContext, tool
from tests.unit.stream.recordings import FOLDER, Parts, at, kinds, missing_keys, payload_of, recording

CHUNKS: dict[str, dict[str, list[str]]] = json.loads((FOLDER / "reference-chunks.json").read_text(encoding="utf-8"))
USAGE = {"input": 10, "output": 5}


@tool
async def add(a: int, b: int) -> dict[str, int]:
    """Add two numbers."""
    return {"sum": a + b}


@tool
async def boom() -> None:
    """Fail."""
    raise ValueError("tool exploded")


@tool(name="writer-tool")
async def writer(v: str, ctx: ToolContext) -> dict[str, bool]:
    """Tell how it goes."""
    await ctx.write({"progress": v})
    return {"ok": True}


def call(name: str, arguments: object, id: str = "call-1") -> dict[str, object]:
    return {"name": name, "id": id, "arguments": arguments}


def scripted(*turns: dict[str, object]) -> ScriptedModel:
    return ScriptedModel([{"usage": USAGE, "chunk_size": 7, **turn} for turn in turns], model_id="script-v1")


ADD: dict[str, object] = {"tool_calls": [call("add", {"a": 1, "b": 2})]}
TEXT: dict[str, object] = {"text": "done: it is done"}


def calling(tools: Sequence[Tool[..., Any]], *calls: dict[str, object]) -> Agent:
    return Agent("tool-agent", tools=tools, model=scripted({"tool_calls": list(calls)}, TEXT))


SCENARIOS: dict[str, Callable[[], Agent]] = {
    "text": lambda: Agent("plain-agent", model=scripted({"text": "hello big world"})),
    "tool-call": lambda: calling([add], call("add", {"a": 1, "b": 2})),
    "parallel-tools": lambda: calling([add], call("add", {"a": 1, "b": 2}), call("add", {"a": 3, "b": 4}, id="call-2")),
    "reasoning": lambda: Agent("plain-agent", model=scripted({"reasoning": "thinking hard", "text": "deep thought"})),
    "tool-error": lambda: calling([boom], call("boom", "{ }")),
    "unknown-tool": lambda: calling([add], call("nothere", "{ }")),
    "invalid-tool-args": lambda: calling([add], call("add", {"a": "x"})),
    "maxsteps": lambda: Agent("tool-agent", tools=[add], model=scripted(ADD, TEXT), default_options={"max_steps": 1}),
    "model-error": lambda: Agent("plain-agent", model=Parts(error=ModelError("model failure", kind="other"))),
    "source-and-file": lambda: Agent(
        "plain-agent",
        model=Parts(
            Source("s1", "https://example.com/doc", "Doc"),
            File("text/plain", "aGk="),
            TextDelta("with source"),
            Finish("stop", Usage(input_tokens=10, output_tokens=5), response_id="resp-1"),
        ),
    ),
    "tool-writer-data-chunk": lambda: calling([writer], call("writer-tool", {"v": "x"})),
    "supervisor-subagent-tool": lambda: Agent(
        "network-agent",
        agents=[Agent("plain-agent", model=scripted({"text": "from sub"}))],
        model=scripted({"tool_calls": [call("agent-plain-agent", {"prompt": "say from sub"})]}, TEXT),
    ),
}


async def wire_of(chunks: AsyncIterator[Chunk]) -> list[JsonObject]:
    frames = list(reference_wire.frames([chunk async for chunk in chunks]))
    assert frames[-1] == b"data: [DONE]\n\n"
    assert all(frame.startswith(b"data: {") and frame.endswith(b"}\n\n") for frame in frames[:-1])
    assert all(frame.count(b"\n") == 2 for frame in frames)
    return [json.loads(frame[6:]) for frame in frames[:-1]]


def theirs(name: str) -> list[JsonObject]:
    """Return a recording without the one event that our tools cannot send."""
    return [wire for wire in recording(f"reference-{name}") if wire["type"] != "data-note"]


@pytest.mark.requirement("A40")
@pytest.mark.parametrize("name", SCENARIOS)
async def test_a_run_is_told_in_the_order_that_was_recorded(name: str) -> None:
    ours = await wire_of(SCENARIOS[name]().stream("hi").read())
    assert kinds(ours) == kinds(theirs(name))


@pytest.mark.parametrize("name", SCENARIOS)
async def test_every_event_has_what_clients_need(name: str) -> None:
    for wire in await wire_of(SCENARIOS[name]().stream("hi").read()):
        known = CHUNKS[str(wire["type"])]
        assert set(known["required"]) <= set(payload_of(wire)), wire["type"]
        assert set(known["keys"]) <= set(wire), wire["type"]
        assert wire["from"] == ("USER" if wire["type"] == "tool-output" else "AGENT")


NOT_OURS = re.compile(
    r"""
      \b(createdAt|providerOptions|raw|stack)\b                    # rows created-at, usage-raw, stack
    | parts\[\]\.providerMetadata$                                # row created-at
    | \b(modelVersion|modelProvider|details\.model|parts\[\]\.model)\b            # row model-version
    | steps\[\]\.response\.messages\[\d\]                          # row steps-once
    | validationErrors | output\.value$ | parts\[\]\.output$         # row invalid-input
    | metadata\.id$ | metadata\.timestamp$ | response\.(id|timestamp)$  # the scripted model's answers have no id
    | uiMessages\[\]\.parts\[4\]$                                   # the app's own data, which tools cannot send
    """,
    re.VERBOSE,
)


@pytest.mark.parametrize("name", [name for name in SCENARIOS if not name.startswith("supervisor")])
async def test_a_payload_has_at_every_depth_what_was_recorded(name: str) -> None:
    ours = {wire["type"]: wire for wire in await wire_of(SCENARIOS[name]().stream("hi").read())}
    lacking = {
        f"{other['type']}: {key}"
        for other in {wire["type"]: wire for wire in theirs(name)}.values()
        if other["type"] not in ("step-finish", "tool-output")
        for key in missing_keys(payload_of(ours[other["type"]]), payload_of(other))
    }
    assert {key for key in lacking if not NOT_OURS.search(key)} == set()


async def test_a_conversation_with_memory_is_told_as_it_was_recorded() -> None:
    agent = Agent("memory-agent", memory=Memory(), model=scripted({"text": "one"}, {"text": "two"}))
    for message in ("say one", "recall"):
        output = agent.stream(message, memory={"thread": "t", "resource": "r"})
        finish = payload_of((await wire_of(output.read()))[-1])
        messages: dict[str, list[JsonObject]] = at(finish, "messages")
        told = {
            group: [(at(item, "role"), at(item, "content", 0, "text")) for item in items]
            for group, items in messages.items()
        }
    recorded = at(recording("reference-memory")[-1], "payload", "messages")
    assert {key for key in missing_keys(messages, recorded) if not NOT_OURS.search(key)} == set()
    assert told == {
        "all": [("user", "say one"), ("assistant", "one"), ("user", "recall"), ("assistant", "two")],
        "user": [("user", "recall")],
        "nonUser": [("assistant", "two")],
    }


async def test_an_error_in_the_middle_ends_the_text_first() -> None:
    agent = Agent("plain-agent", model=Parts(TextDelta("partial "), error=ModelError("mid-stream", kind="other")))
    ours = kinds(await wire_of(agent.stream("failmid").read()))
    recorded = kinds(recording("reference-model-error-midstream"))
    ours.remove("text-end")  # row blocks-end
    assert ours == recorded


async def test_a_stopped_run_ends_its_text_and_then_says_so() -> None:
    output = Agent("memory-agent", model=ScriptedModel([{"text": "tick", "hang": True}])).stream("slow")
    chunks: list[Chunk] = []
    with anyio.fail_after(5):
        async for chunk in output:
            chunks.append(chunk)
            if chunk.type == "text-delta":
                output.cancel()
    wires = [wire for chunk in chunks if (wire := reference_wire.encode(chunk)) is not None]
    recorded = recording("reference-abort")
    assert kinds(wires) == [*kinds(recorded)[:-1], "text-end", "abort", "step-finish", "finish"]  # row abort-finish
    assert set(wires[-3]) == set(recorded[-1])
