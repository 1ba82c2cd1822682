"""What a tool cannot do to those who call it: end the process, cancel its caller, or run without the right to."""

import sys
import threading

import anyio
import pytest

from bascule.agents import Agent
from bascule.context import Principal, RequestContext, missing_scopes
from bascule.errors import ScopeMissing, ToolError
from bascule.models import ScriptedModel
from bascule.tools import Tool, ToolContext, _threads, run_in_daemon_thread, tool


@tool
def quits() -> None:
    """Call sys.exit, as command-line libraries do."""
    sys.exit(3)


@tool
async def quits_async() -> None:
    """Call sys.exit in a coroutine."""
    sys.exit(3)


@tool
async def cancels_itself() -> None:
    """Raise what only a caller may raise."""
    raise anyio.get_cancelled_exc_class()


def asking_for(name: str) -> ScriptedModel:
    return ScriptedModel([{"tool_calls": [{"name": name, "id": "c", "arguments": dict[str, int]()}]}, {"text": "done"}])


@pytest.mark.parametrize("quitting", [quits, quits_async])
async def test_a_tool_that_ends_the_process_is_a_tool_that_failed(quitting: Tool) -> None:
    with pytest.raises(ToolError, match=r"tried to end the process \(SystemExit: 3\)"):
        await quitting.execute({})
    full = await Agent("a", tools=[quitting], model=asking_for(quitting.id)).generate("go")
    assert (full.text, full.tool_results[0].kind) == ("done", "raised")


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_tool_that_cancels_itself_is_a_tool_that_failed() -> None:
    with pytest.raises(ToolError, match="'cancels_itself' cancelled itself"):
        await cancels_itself.execute({})
    full = await Agent("a", tools=[cancels_itself], model=asking_for("cancels_itself")).generate("go")
    assert (full.text, full.tool_results[0].kind) == ("done", "raised")


ran: list[str] = []


@tool(scopes=["secret:use"])
async def secret() -> str:
    """Do what not everybody may do."""
    ran.append("secret")
    return "done it"


def context_of(*scopes: str) -> RequestContext:
    return RequestContext(principal=Principal(id="issuer|ann", scopes=frozenset(scopes)))


@pytest.mark.parametrize("scopes", [("secret:use",), ("secret:*",), ("admin:*",)])
async def test_a_scope_is_checked_at_the_tool_and_a_broad_one_includes_it(scopes: tuple[str, ...]) -> None:
    assert await secret.execute({}, ToolContext(request_context=context_of(*scopes))) == "done it"


async def test_an_agent_is_no_way_around_a_scope() -> None:
    ran.clear()
    with pytest.raises(ScopeMissing) as caught:
        await secret.execute({}, ToolContext(request_context=context_of("other")))
    assert caught.value.scopes == ("secret:use",)
    agent = Agent("a", tools=[secret], model=asking_for("secret"))
    full = await agent.generate("go", request_context=context_of("other"))
    assert full.tool_results[0].kind == "denied"
    assert ran == []


def test_broad_scopes_include_narrow_ones_and_nothing_else() -> None:
    granted = frozenset({"agents:run", "memory:*"})
    assert missing_scopes(granted, ["agents:run:tutor", "memory:read"]) == ()
    assert missing_scopes(granted, ["agents:read", "memories:read", "memory"]) == (
        "agents:read",
        "memories:read",
        "memory",
    )


async def test_a_call_that_waits_for_a_thread_and_is_given_up_never_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bascule.tools._threads._pool", _threads.Pool())
    monkeypatch.setattr("bascule.tools._threads.MAX_THREADS", 1)
    release = threading.Event()
    begun: list[int] = []
    token = anyio.lowlevel.current_token()
    blocked = anyio.Event()

    def block() -> None:
        anyio.from_thread.run_sync(blocked.set, token=token)
        release.wait(10)

    with anyio.fail_after(10):
        async with anyio.create_task_group() as group:
            group.start_soon(run_in_daemon_thread, block)
            await blocked.wait()
            with anyio.move_on_after(0.05):
                await run_in_daemon_thread(lambda: begun.append(1))
            release.set()
        await run_in_daemon_thread(lambda: begun.append(2))
    assert begun == [2]


async def test_a_call_that_gets_no_thread_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bascule.tools._threads._pool", _threads.Pool())
    monkeypatch.setattr("bascule.tools._threads.MAX_THREADS", 1)
    monkeypatch.setattr("bascule.tools._threads.QUEUE_TIMEOUT", 0.05)
    release = threading.Event()
    with anyio.fail_after(10):
        async with anyio.create_task_group() as group:
            group.start_soon(run_in_daemon_thread, lambda: release.wait(10))
            await anyio.wait_all_tasks_blocked()
            with pytest.raises(ToolError, match="All 1 threads for blocking functions have been busy"):
                await run_in_daemon_thread(lambda: None)
            release.set()
