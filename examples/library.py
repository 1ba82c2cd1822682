"""An agent and a workflow from a script, without a server and without a key.

python examples/library.py
"""

import anyio

from bascule import Agent, Memory, Workflow, step, tool
from bascule.stream import ToolCallChunk
from bascule.tools import MemoryOption


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@step
def double(number: int) -> int:
    """Double a number."""
    return 2 * number


# A real app leaves `model` out, or names one: "openai/gpt-4o-mini". The built-in rules need no key.
tutor = Agent("tutor", instructions="Be brief.", model="scripted/rules", tools=[add])
twice = Workflow("twice").then(double).then(double, id="again")


async def main() -> None:
    """Ask, watch, remember, run."""
    print("whole:", (await tutor.generate("add 2 and 3")).text.splitlines()[0])

    output = tutor.stream("add 20 and 22")
    async for chunk in output:
        if isinstance(chunk, ToolCallChunk):
            print("calls:", chunk.tool_name, chunk.args)
    print("piece by piece:", (await output.text).splitlines()[0])

    async with Memory(storage="sqlite://") as memory:
        pupil = Agent("pupil", model="scripted/rules", memory=memory)
        conversation: MemoryOption = {"thread": "homework", "resource": "me"}
        await pupil.generate("My name is Ada.", memory=conversation)
        await pupil.generate("What did I say?", memory=conversation)
        page = await memory.recall("homework", resource_id="me")
        print("remembered:", [message.text for message in page.messages if message.role == "user"])

    run = await twice.create_run()
    print("workflow:", (await run.start({"number": 3})).result)


if __name__ == "__main__":
    anyio.run(main)
