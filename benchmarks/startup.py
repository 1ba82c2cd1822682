"""What it costs to start: importing, and the way from the command to the first list of tools over stdio.

CPU time, the least of several rounds; the rounds of all candidates are interleaved, because machines are noisy.
"""

import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from _report import Row, cpu_seconds, print_rows

ROUNDS = 7

APP = """
from bascule import tool

@tool
def add(a: int, b: int) -> int:
    "Add two numbers."
    return a + b
"""

PEER = """
from mcp.server.mcpserver import MCPServer

server = MCPServer("peer")

@server.tool()
def add(a: int, b: int) -> int:
    "Add two numbers."
    return a + b

server.run("stdio")
"""

MESSAGES: Sequence[dict[str, object]] = (
    {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "bench", "version": "1"},
        },
    },
    {"jsonrpc": "2.0", "method": "notifications/initialized"},
    {"jsonrpc": "2.0", "id": 2, "method": "tools/list"},
)


def imported(code: str) -> float:
    """Return the CPU seconds that ``code`` takes after pydantic has been imported and used."""
    script = (
        "import time, pydantic\n"
        "class Model(pydantic.BaseModel):\n    x: int\n"
        f"start = time.process_time()\n{code}\nprint(time.process_time() - start)"
    )
    return float(subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout)


def first_list(command: Sequence[str]) -> float:
    """Return the CPU seconds that a stdio server has used when it answers its first ``tools/list``."""
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for message in MESSAGES:
            process.stdin.write(json.dumps(message) + "\n")
        process.stdin.flush()
        for line in process.stdout:
            if json.loads(line).get("id") == 2:
                break
        used = cpu_seconds(process.pid)
        process.stdin.close()
        process.wait(timeout=30)
    return used


def main() -> None:
    """Measure and print."""
    with tempfile.TemporaryDirectory() as folder:
        app, peer = Path(folder) / "app.py", Path(folder) / "peer.py"
        app.write_text(APP, encoding="utf-8")
        peer.write_text(PEER, encoding="utf-8")
        ours, theirs = [sys.executable, "-m", "bascule", "run", str(app)], [sys.executable, str(peer)]
        starts: list[tuple[float, float]] = []
        imports: list[tuple[float, float, float]] = []
        for _ in range(ROUNDS):
            starts.append((first_list(ours), first_list(theirs)))
            imports.append(
                (
                    imported("import bascule"),
                    imported("from bascule import Agent, tool"),
                    imported("from bascule import AcpAgent, Agent, Auth, Bascule, Memory, Workflow, tool"),
                )
            )
    own, sdk = (min(values) for values in zip(*starts, strict=True))
    bare, agent, everything = (min(values) for values in zip(*imports, strict=True))
    print_rows(
        [
            Row(name="import bascule, beyond pydantic", value=bare, unit="s CPU", budget=0.15),
            Row(name="from bascule import Agent, tool", value=agent, unit="s CPU", budget=0.15),
            Row(name="every public name", value=everything, unit="s CPU"),
            Row(name="stdio: start to first tools/list", value=own, unit="s CPU"),
            Row(name="stdio: the SDK's MCPServer", value=sdk, unit="s CPU"),
            Row(name="stdio: ratio to the SDK's MCPServer", value=own / sdk, unit="x"),
        ]
    )


if __name__ == "__main__":
    main()
