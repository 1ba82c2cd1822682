"""How tools run: threads, timeouts, cancellation, and what their results become."""

import math
import threading
from datetime import UTC, datetime

import anyio
import pytest
from inline_snapshot import snapshot
from pydantic import BaseModel

from bascule.context import CancelToken
from bascule.errors import ToolError
from bascule.tools import (
    Audio,
    Image,
    ToolContext,
    content_of,
    failure_text,
    json_value,
    model_text,
    redact,
    run_in_daemon_thread,
    tool,
)


@pytest.mark.requirement("F07")
async def test_a_sync_tool_runs_on_a_daemon_thread_and_the_event_loop_goes_on() -> None:
    release = threading.Event()
    started = anyio.Event()

    @tool
    def blocked() -> tuple[bool, bool]:
        """Wait."""
        anyio.from_thread.run_sync(started.set, token=token)
        release.wait(5)
        current = threading.current_thread()
        return current.daemon, current is threading.main_thread()

    token = anyio.lowlevel.current_token()
    results: list[object] = []

    async def call() -> None:
        results.append(await blocked.execute({}))

    with anyio.fail_after(5):
        async with anyio.create_task_group() as group:
            group.start_soon(call)
            await started.wait()  # the loop runs while the tool blocks
            release.set()
    assert results == [(True, False)]


async def test_many_sync_tools_overlap() -> None:
    barrier = threading.Barrier(20)

    @tool
    def meet() -> int:
        """Wait for all others."""
        barrier.wait(10)
        return 1

    with anyio.fail_after(15):
        async with anyio.create_task_group() as group:
            for _ in range(20):
                group.start_soon(meet.execute, dict[str, int]())


async def test_a_sync_tool_that_is_cancelled_is_abandoned() -> None:
    release = threading.Event()
    token = CancelToken()

    @tool
    def stuck(ctx: ToolContext) -> None:
        """Never see the signal."""
        release.wait(10)

    with anyio.fail_after(5):
        with anyio.move_on_after(0.05):
            await stuck.execute({}, ToolContext(cancel=token))
    release.set()


async def test_context_variables_and_errors_cross_the_thread() -> None:
    def fail() -> None:
        raise LookupError("not here")

    with pytest.raises(LookupError, match="not here"):
        await run_in_daemon_thread(fail)


async def test_a_tool_that_takes_too_long_is_stopped_with_an_error_that_says_so() -> None:
    @tool(timeout=0.05)
    async def slow() -> None:
        """Sleep."""
        await anyio.sleep(60)

    with pytest.raises(ToolError, match=r"'slow' did not finish within 0\.05 seconds"):
        await slow.execute({})


async def test_a_tool_without_a_caller_that_listens_says_that_it_cannot_ask() -> None:
    @tool
    async def delete(ctx: ToolContext) -> None:
        """Delete."""
        await ctx.progress(1, 2, "half")
        await ctx.ask("Really?", {"type": "object"})

    with pytest.raises(ToolError, match=r"wants to ask 'Really\?'"):
        await delete.execute({})


class Point(BaseModel):
    x: int


def test_results_become_json_values_and_text() -> None:
    moment = datetime(2026, 1, 2, tzinfo=UTC)
    assert json_value({"p": Point(x=1), "at": moment, "n": math.nan, "s": {1}}) == snapshot(
        {"p": {"x": 1}, "at": "2026-01-02T00:00:00Z", "n": "NaN", "s": [1]}
    )
    assert model_text("plain") == "plain"
    assert model_text([1, "a"]) == '[1,"a"]'
    assert model_text(None) == "null"
    assert model_text(object).startswith("<class")


def test_a_result_that_refers_to_itself_becomes_text() -> None:
    loop: list[object] = []
    loop.append(loop)
    assert json_value(loop) == "[[...]]"


def test_pictures_and_sound_are_kept_apart_from_plain_values() -> None:
    picture = Image(data=b"\x89PNG")
    assert content_of("text") is None
    assert content_of([1, 2]) is None
    assert content_of(picture) == (picture,)
    assert content_of(["look", picture, 3]) == ["look", picture, "3"]
    assert json_value([picture, Audio(data=b"RIFF")]) == snapshot(
        [
            {"type": "image", "mediaType": "image/png", "data": "iVBORw=="},
            {"type": "audio", "mediaType": "audio/wav", "data": "UklGRg=="},
        ]
    )


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Authorization: Bearer abcdefgh12345678", "Authorization: [redacted]"),
        ("got eyJhbGciOi.eyJzdWIiOi.c2lnbmF0dXJl here", "got [redacted] here"),
        ("api_key=supersecret&x=1", "api_key=[redacted]&x=1"),
        ('{"password": "hunter22"}', '{"password": "[redacted]"}'),
        ("postgres://me:pass@host/db", "postgres://[redacted]@host/db"),
        ("sk-abcdefghij0123456789", "[redacted]"),
        ("division by zero", "division by zero"),
    ],
)
def test_secrets_are_taken_out_of_error_texts(text: str, shown: str) -> None:
    assert redact(text) == shown
    assert failure_text(ValueError(text)) == f"ValueError: {shown}"
