"""A program that keeps MCP servers as Claude Code does; the real one is driven by the acceptance tests."""

import sys
from pathlib import Path

PROGRAM = f"""#!{sys.executable}
import json, os, sys
from pathlib import Path

path = Path(os.environ["HOME"]) / ".claude.json"
state = json.loads(path.read_text()) if path.exists() else {{"state": 1}}
servers = state.setdefault("mcpServers", {{}})
mcp, command, scope, user, name, *rest = sys.argv[1:]
assert (mcp, scope, user) == ("mcp", "--scope", "user")
if command == "add-json" and name not in servers:
    servers[name] = json.loads(rest[0])
elif command == "remove" and name in servers:
    del servers[name]
else:
    sys.exit(f"MCP server {{name}} already exists, or does not")
if os.environ.get("CLAUDE_FAILS") == command:
    sys.exit("out of order")
path.write_text(json.dumps(state))
"""


def claude_in(folder: Path) -> Path:
    """Put the program `claude` into a folder."""
    folder.mkdir(exist_ok=True)
    (folder / "claude").write_text(PROGRAM, encoding="utf-8")
    (folder / "claude").chmod(0o755)
    return folder
