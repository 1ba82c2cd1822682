"""A command that serves over stdio and prints where it should not."""

import atexit
import subprocess
import sys
import time

from bascule.mcp_server import protect_stdout, serving_process

protect_stdout()
print("printed at import")  # noqa: T201  # what must not reach stdout
subprocess.run(["echo", "printed by a child"], check=True)

import anyio  # noqa: E402  # an app is imported after stdout is safe

from bascule.mcp_server import McpServer  # noqa: E402
from bascule.tools import ToolContext, tool  # noqa: E402


def say(text: str) -> None:
    """Tell the test how far a tool is."""
    print(text, file=sys.stderr, flush=True)  # noqa: T201


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    print("printed by a tool")  # noqa: T201  # what must not reach stdout
    subprocess.run(["echo", "printed by a child of a tool"], check=True)
    return a + b


@tool
def half() -> str:
    """Return the name of a file that is not UTF-8."""
    return "caf\udce9.txt"


@tool
def whoami(context: ToolContext) -> str:
    """Say who calls."""
    return context.principal.id


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
async def wait(context: ToolContext) -> str:
    """Wait until cancelled."""
    say("waiting")
    try:
        await anyio.sleep_forever()
    finally:
        say("cancelled")
    return "never"


server = McpServer("stdio-app", tools=[add, half, whoami, block, block_loop, wait])

if __name__ == "__main__":
    atexit.register(say, "left in order")
    with serving_process():
        anyio.run(server.run_stdio)
