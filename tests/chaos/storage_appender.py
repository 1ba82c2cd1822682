"""Saves turns for as long as it lives, and says on stdout which ones were acknowledged.

Run as a script with a storage URL and a word that makes the message ids of this run unique.
"""

import os
import sys

import anyio

from bascule.memory import Memory
from bascule.messages import Message, TextPart

TASKS = 4


async def append(memory: Memory, thread: str, run: str) -> None:
    number = 0
    while True:
        question = Message(role="user", parts=(TextPart("q" * (number % 900)),), id=f"{run}-{number}-q")
        answer = Message(role="assistant", parts=(TextPart("a" * (number * 37 % 9000)),), id=f"{run}-{number}-a")
        await memory.save_turn([question, answer], thread=thread, resource_id="r")
        os.write(1, f"{thread} {number}\n".encode())  # one call, so that a kill cannot tear the line
        number += 1


async def main(url: str, run: str) -> None:
    async with Memory(storage=url) as memory, anyio.create_task_group() as group:
        os.write(1, b"open\n")
        for task in range(TASKS):
            group.start_soon(append, memory, f"thread-{task}", run)


if __name__ == "__main__":
    anyio.run(main, sys.argv[1], sys.argv[2])
