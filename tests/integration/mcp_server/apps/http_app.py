"""A command that serves over HTTP on a free port and says which."""

import sys
import time

import anyio

from bascule.mcp_server import McpServer, serve_http, serving_process
from bascule.tools import ToolContext, tool


def say(text: str) -> None:
    """Tell the test how far the server is."""
    print(text, file=sys.stderr, flush=True)  # noqa: T201


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tool
def block() -> str:
    """Block a thread."""
    say("blocking")
    time.sleep(60)
    return "never"


@tool
async def block_loop() -> str:
    """Block the event loop."""
    say("blocking")
    time.sleep(60)  # noqa: ASYNC251  # the fault that is shown here
    return "never"


@tool
async def stubborn() -> str:
    """Do not stop when cancelled."""
    say("blocking")
    with anyio.CancelScope(shield=True):
        await anyio.sleep_forever()
    return "never"


@tool
async def finish(context: ToolContext) -> str:
    """Finish soon after the test was told that it runs."""
    say("waiting")
    await context.progress(1, 2, "half way")
    await anyio.sleep(0.5)
    return "done in time"


async def main(grace: float) -> None:
    """Serve until a signal."""
    server = McpServer("http-app", tools=[add, block, block_loop, stubborn, finish])
    app = server.asgi()
    await serve_http(app, port=0, grace=grace, on_listening=lambda host, port: say(f"listening {port}"))


if __name__ == "__main__":
    with serving_process():
        anyio.run(main, float(sys.argv[1]))
