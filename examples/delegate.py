"""A coding agent as a tool of ours. This one is scripted, so that the example needs no login.

python examples/delegate.py

With a real one: AcpAgent("claude-code", cwd="path/to/project", permissions="ask")
"""

from tempfile import TemporaryDirectory

import anyio

from bascule import AcpAgent
from bascule.testing import FakeAcpAgent


async def main() -> None:
    """Let a coding agent write a file, and refuse it the next time."""
    with TemporaryDirectory() as folder:
        notes = await anyio.Path(folder, "notes.txt").resolve()
        write = {"write": {"path": str(notes), "content": "done"}}
        ask = {
            "permission": {"title": "Write notes.txt"},
            "on_allow": [write, {"text": "written"}],
            "on_reject": [{"text": "not allowed"}],
        }
        script = FakeAcpAgent([[ask]])
        for permissions in ("allow", "deny"):
            await notes.unlink(missing_ok=True)
            async with AcpAgent(id="coder", command=script.command, cwd=folder, permissions=permissions) as coder:
                answer = await coder.generate("Take a note.")
            print(f"{permissions}: {answer.text}, the file is {'there' if await notes.exists() else 'not there'}")


if __name__ == "__main__":
    anyio.run(main)
