"""The run loop: what a caller sees of text, tools, errors and limits."""

import threading
from collections.abc import AsyncIterator

import anyio
import pytest
from inline_snapshot import snapshot

from bascule.agents import Agent
from bascule.errors import AgentRunError, InputError, ModelError, NameInvalid, NameTaken, RunIdInUse
from bascule.models import Finish, ModelCall, ModelCapabilities, ModelPart, ScriptedModel, TextDelta
from bascule.stream import Chunk, FullOutput, ToolErrorChunk, ToolOutputChunk, ToolResultChunk, fold
from bascule.tools import ToolContext, tool


@tool
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tool
async def boom() -> None:
    """Fail."""
    raise ValueError("it broke, token=abcdef123456")


def call(name: str, id: str = "call-1", **arguments: object) -> dict[str, object]:
    return {"name": name, "id": id, "arguments": arguments}


async def kinds(chunks: AsyncIterator[Chunk]) -> list[str]:
    found: list[str] = []
    async for chunk in chunks:
        if not found or found[-1] != chunk.type:
            found.append(chunk.type)
    return found


async def test_events_of_a_plain_answer_come_in_order() -> None:
    agent = Agent("a", model=ScriptedModel([{"reasoning": "hm", "text": "Hello there"}]))
    assert await kinds(agent.stream("hi").read()) == snapshot(
        [
            "start",
            "step-start",
            "reasoning-start",
            "reasoning-delta",
            "reasoning-end",
            "text-start",
            "text-delta",
            "text-end",
            "step-finish",
            "finish",
        ]
    )


async def test_events_of_a_tool_call_come_in_order() -> None:
    agent = Agent("a", tools=[add], model=ScriptedModel([{"tool_calls": [call("add", a=1, b=2)]}, {"text": "3"}]))
    output = agent.stream("1 + 2?")
    assert await kinds(output.read()) == snapshot(
        [
            "start",
            "step-start",
            "tool-call-input-streaming-start",
            "tool-call-delta",
            "tool-call-input-streaming-end",
            "tool-call",
            "tool-result",
            "step-finish",
            "step-start",
            "text-start",
            "text-delta",
            "text-end",
            "step-finish",
            "finish",
        ]
    )
    full = await output
    assert (full.text, full.status, full.finish_reason) == ("3", "success", "stop")
    assert [(item.tool_name, item.args, item.result) for item in full.tool_results] == [("add", {"a": 1, "b": 2}, 3)]


@pytest.mark.requirement("F20")
async def test_generate_gives_the_fold_of_stream() -> None:
    def agent() -> Agent:
        turns: list[dict[str, object]] = [
            {"text": "Let me see. ", "tool_calls": [call("add", a=1, b=2)]},
            {"text": "It is 3."},
        ]
        return Agent("a", tools=[add], model=ScriptedModel(turns))

    output = agent().stream("1 + 2?", run_id="run-1")
    folded = fold([chunk async for chunk in output])
    generated = await agent().generate("1 + 2?", run_id="run-1")

    def essence(result: FullOutput) -> tuple[object, ...]:
        return (result.text, result.all_text, result.steps, result.tool_results, result.usage, result.status)

    assert essence(folded) == essence(generated) == essence(await output)
    assert generated.text == "It is 3."
    assert generated.all_text == "Let me see. It is 3."
    assert [step.finish_reason for step in generated.steps] == ["tool-calls", "stop"]


@pytest.mark.requirement("F22")
async def test_a_tool_that_raises_is_told_to_the_model_without_secrets_and_the_run_goes_on() -> None:
    model = ScriptedModel([{"tool_calls": [call("boom")]}, {"text": "Sorry."}])
    full = await Agent("a", tools=[boom], model=model).generate("go")
    assert full.text == "Sorry."
    (result,) = full.tool_results
    assert (result.is_error, result.kind) == (True, "raised")
    assert result.error == "ValueError: it broke, token=[redacted]"
    shown = model.calls[1].messages[-1].parts[0]
    assert getattr(shown, "error", None) == result.error


async def test_an_unknown_tool_is_answered_with_the_tools_there_are() -> None:
    full = await Agent(
        "a", tools=[add, boom], model=ScriptedModel([{"tool_calls": [call("ad")]}, {"text": "ok"}])
    ).generate("go")
    assert (full.tool_results[0].kind, full.tool_results[0].error) == (
        "not_found",
        "There is no tool 'ad'. The tools are: add, boom.",
    )


async def test_arguments_that_do_not_fit_are_told_to_the_model() -> None:
    model = ScriptedModel([{"tool_calls": [call("add", a="x")]}, {"text": "ok"}])
    full = await Agent("a", tools=[add], model=model).generate("go")
    assert full.tool_results[0].kind == "invalid_input"
    assert "b: is required" in (full.tool_results[0].error or "")


async def test_arguments_that_are_not_json_are_told_with_the_place_and_kept() -> None:
    model = ScriptedModel([{"tool_calls": [{"name": "add", "id": "c", "arguments": '{"a": 1,'}]}, {"text": "ok"}])
    full = await Agent("a", tools=[add], model=model).generate("go")
    (result,) = full.tool_results
    assert (result.kind, result.args) == ("invalid_json", '{"a": 1,')
    assert "line 1 column 8" in (result.error or "")


async def test_calls_and_results_always_pair() -> None:
    calls = [call("add", "1", a=1, b=1), call("boom", "2"), call("nope", "3"), call("add", "4", a="x")]
    full = await Agent("a", tools=[add, boom], model=ScriptedModel([{"tool_calls": calls}, {"text": "ok"}])).generate(
        "go"
    )
    assert sorted(item.tool_call_id for item in full.tool_results) == [item.tool_call_id for item in full.tool_calls]


@pytest.mark.requirement("F24")
async def test_the_loop_ends_at_max_steps_and_says_so() -> None:
    model = ScriptedModel([{"tool_calls": [call("add", a=1, b=2)], "times": 99}])
    full = await Agent("a", tools=[add], model=model).generate("go", max_steps=3)
    assert len(model.calls) == 3
    assert (full.finish_reason, full.stopped_by, full.text, full.status) == ("tool-calls", "max_steps", "", "success")
    assert len(full.tool_results) == 3


async def test_five_steps_are_the_default() -> None:
    model = ScriptedModel([{"tool_calls": [call("add", a=1, b=2)], "times": 99}])
    await Agent("a", tools=[add], model=model).generate("go")
    assert len(model.calls) == 5


async def test_a_model_that_fails_ends_the_run_with_an_error_and_keeps_the_text() -> None:
    model = ScriptedModel([{"text": "Half of it", "drop_after": 1}])
    output = Agent("a", model=model).stream("go")
    assert await kinds(output.read()) == [
        "start",
        "step-start",
        "text-start",
        "text-delta",
        "text-end",
        "error",
        "step-finish",
        "finish",
    ]
    with pytest.raises(AgentRunError) as caught:
        await output
    assert isinstance(caught.value.__cause__, ModelError)
    assert caught.value.output is not None
    assert caught.value.output.status == "failed"
    assert caught.value.output.text
    assert await output.text == caught.value.output.text


class Failing:
    """A model with a defect of its own."""

    provider = "test"
    model_id = "failing"
    capabilities = ModelCapabilities()

    async def stream(self, call: ModelCall) -> AsyncIterator[ModelPart]:
        yield TextDelta("a")
        raise KeyError("private detail")


async def test_an_unexpected_error_says_where_to_look_and_not_what_it_was() -> None:
    output = Agent("a", model=Failing()).stream("go")
    errors = [chunk async for chunk in output if chunk.type == "error"]
    payload = errors[0].to_wire()["payload"]
    assert "private detail" not in str(payload)
    assert f"The log has the details under run {output.run_id}" in str(payload)


class Endless:
    """A model that ends its answer without a finish."""

    provider = "test"
    model_id = "endless"
    capabilities = ModelCapabilities()

    async def stream(self, call: ModelCall) -> AsyncIterator[ModelPart]:
        yield TextDelta("all of it")


async def test_an_answer_without_a_finish_is_unknown_and_warned_about() -> None:
    full = await Agent("a", model=Endless()).generate("go")
    assert (full.finish_reason, full.text, full.status) == ("unknown", "all of it", "success")
    assert "without saying why" in full.warnings[0]


@pytest.mark.requirement("F21", "A34")
async def test_tools_of_one_step_run_at_once_and_report_as_they_end() -> None:
    first, second = anyio.Event(), anyio.Event()

    @tool
    async def slow() -> str:
        """Wait for the other."""
        first.set()
        await second.wait()
        return "slow"

    @tool
    async def quick() -> str:
        """Let the other go."""
        await first.wait()
        second.set()
        return "quick"

    model = ScriptedModel([{"tool_calls": [call("slow", "1"), call("quick", "2")]}, {"text": "ok"}])
    with anyio.fail_after(5):
        full = await Agent("a", tools=[slow, quick], model=model).generate("go")
    assert sorted(str(item.result) for item in full.tool_results) == ["quick", "slow"]
    turn = model.calls[1].messages[-1]
    assert [getattr(part, "tool_call_id", None) for part in turn.parts[:2]] == ["1", "2"]


@pytest.mark.requirement("A34")
async def test_concurrency_one_runs_tools_one_after_another() -> None:
    running: list[int] = []
    most: list[int] = []

    @tool
    async def count() -> None:
        """Count who runs."""
        running.append(1)
        most.append(len(running))
        await anyio.lowlevel.checkpoint()
        running.pop()

    model = ScriptedModel([{"tool_calls": [call("count", str(i)) for i in range(4)]}, {"text": "ok"}])
    await Agent("a", tools=[count], model=model).generate("go", tool_call_concurrency=1)
    assert max(most) == 1


async def test_sync_tools_of_one_step_overlap() -> None:
    barrier = threading.Barrier(3)

    @tool
    def meet() -> int:
        """Wait for the others."""
        return barrier.wait(10)

    model = ScriptedModel([{"tool_calls": [call("meet", str(i)) for i in range(3)]}, {"text": "ok"}])
    full = await Agent("a", tools=[meet], model=model).generate("go")
    assert sorted(str(item.result) for item in full.tool_results) == ["0", "1", "2"]


async def test_what_a_tool_says_while_it_runs_is_in_the_stream_before_its_result() -> None:
    @tool
    async def talk(ctx: ToolContext) -> str:
        """Talk."""
        await ctx.write({"note": 1})
        await ctx.progress(1, 2, "half")
        return "done"

    model = ScriptedModel([{"tool_calls": [call("talk")]}, {"text": "ok"}])
    chunks = [chunk async for chunk in Agent("a", tools=[talk], model=model).stream("go")]
    said = [chunk for chunk in chunks if isinstance(chunk, ToolOutputChunk | ToolResultChunk | ToolErrorChunk)]
    assert [getattr(chunk, "output", getattr(chunk, "result", None)) for chunk in said] == [
        {"note": 1},
        {"type": "progress", "progress": 1, "total": 2, "message": "half"},
        "done",
    ]


async def test_a_subagent_is_a_tool_and_its_events_are_in_the_stream() -> None:
    helper = Agent("helper", description="Helps.", model=ScriptedModel([{"text": "the answer"}]))
    boss_model = ScriptedModel([{"tool_calls": [call("agent-helper", prompt="do it")]}, {"text": "done"}])
    output = Agent("boss", agents=[helper], model=boss_model).stream("go")
    inner = [chunk.inner for chunk in [c async for c in output] if isinstance(chunk, ToolOutputChunk)]
    assert [chunk.type for chunk in inner if chunk is not None][-1] == "finish"
    assert (await output.tool_results)[0].result == "the answer"


async def test_the_prompt_holds_instructions_system_context_and_messages_in_this_order() -> None:
    model = ScriptedModel([{"text": "ok"}])
    agent = Agent("a", instructions="Be brief.", model=model)
    await agent.generate("hi", system=["One.", "Two."], context=[{"role": "user", "content": "earlier"}])
    assert [(message.role, message.text) for message in model.calls[0].messages] == [
        ("system", "Be brief."),
        ("system", "One."),
        ("system", "Two."),
        ("user", "earlier"),
        ("user", "hi"),
    ]


async def test_a_forced_tool_choice_holds_for_the_first_step_only() -> None:
    model = ScriptedModel([{"tool_calls": [call("add", a=1, b=2)]}, {"text": "ok"}])
    await Agent("a", tools=[add], model=model).generate("go", tool_choice="required")
    assert [seen.tool_choice for seen in model.calls] == ["required", "auto"]


async def test_two_runs_with_one_id_at_once_are_refused() -> None:
    agent = Agent("a", model=ScriptedModel([{"hang": True}]))
    async with agent.stream("go", run_id="same") as first:
        async for chunk in first:
            if chunk.type == "step-start":
                break
        with pytest.raises(RunIdInUse, match="'same' is going on"):
            agent.stream("go", run_id="same")


async def test_an_id_is_taken_as_soon_as_its_run_is_asked_for_and_free_after_its_end() -> None:
    agent = Agent("a", model=ScriptedModel([{"text": "ok", "times": 3}]))
    first = agent.stream("go", run_id="chosen")
    with pytest.raises(RunIdInUse, match="'chosen' is going on"):
        agent.stream("go", run_id="chosen")
    await first
    assert (await agent.generate("go", run_id="chosen")).text == "ok"


def test_generate_sync_works_in_a_script() -> None:
    assert Agent("a", model=ScriptedModel([{"text": "ok"}])).generate_sync("go").text == "ok"


async def test_generate_sync_is_refused_inside_an_event_loop() -> None:
    with pytest.raises(RuntimeError, match=r"use 'await agent\.generate"):
        Agent("a", model=ScriptedModel([])).generate_sync("go")


def test_bad_options_and_messages_are_refused_before_anything_runs() -> None:
    agent = Agent("a", model=ScriptedModel([]))
    with pytest.raises(InputError, match="Unknown run option 'maxSteps'"):
        agent.stream("go", maxSteps=3)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]  # what is tested
    with pytest.raises(InputError, match="max_steps is 0"):
        agent.stream("go", max_steps=0)
    with pytest.raises(InputError, match="No message was given"):
        agent.stream([])
    with pytest.raises(InputError, match="role 'robot'"):
        agent.stream({"role": "robot", "content": "x"})
    with pytest.raises(InputError, match="keeps no memory"):
        agent.stream("go", memory={"thread": "t", "resource": "r"})
    with pytest.raises(InputError, match="model_settings has no entry heat"):
        agent.stream("go", model_settings={"heat": 1})


def test_names_are_checked_when_the_agent_is_made() -> None:
    with pytest.raises(NameInvalid, match="agent name 'my agent'"):
        Agent("my agent")
    with pytest.raises(NameTaken, match="two tools named 'add'"):
        Agent("a", tools=[add, add])


@pytest.mark.requirement("F18")
async def test_without_any_key_an_agent_answers_and_says_what_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("BASCULE_MODEL", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    full = await Agent("tutor", tools=[add]).generate("add 2 and 3")
    assert "5" in full.text
    assert "not by a language model" in full.text


async def test_finish_carries_the_usage_of_the_whole_run() -> None:
    model = ScriptedModel(
        [
            {"tool_calls": [call("add", a=1, b=2)], "usage": {"input": 10, "output": 5}},
            {"text": "3", "usage": {"input": 20, "output": 1}},
        ]
    )
    full = await Agent("a", tools=[add], model=model).generate("go")
    assert (full.usage.input_tokens, full.usage.output_tokens, full.usage.total_tokens) == (30, 6, 36)
    assert [step.usage.total_tokens for step in full.steps] == [15, 21]


async def test_finish_reason_of_the_provider_goes_through() -> None:
    class Cut(Endless):
        async def stream(self, call: ModelCall) -> AsyncIterator[ModelPart]:
            yield TextDelta("a")
            yield Finish("length")

    assert (await Agent("a", model=Cut()).generate("go")).finish_reason == "length"
