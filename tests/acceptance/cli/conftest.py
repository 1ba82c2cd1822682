"""A home and a project of its own for every test, and an app in it."""

from pathlib import Path

import pytest

from tests.acceptance.harness.surroundings import Surroundings

APP = '''\
from bascule import Agent, Bascule, ToolContext, tool

print("the file is imported")


@tool
def add(a: int, b: int) -> int:
    """Add two numbers.

    Args:
        a: The first number.
        b: The second number.
    """
    return a + b


@tool
async def count(to: int, ctx: ToolContext) -> str:
    """Count, and tell how far it is."""
    for number in range(1, to + 1):
        await ctx.progress(number, to, f"at {number}")
    return f"counted to {to}"


@tool
def fail() -> str:
    """Always fail."""
    raise ValueError("there is no milk")


app = Bascule("sums", tools=[add, count, fail], agents=[Agent("tutor", tools=[add])], instructions="Ask for sums.")
'''


@pytest.fixture
def app(surroundings: Surroundings) -> Path:
    """An app's file in the working directory."""
    path = surroundings.project / "app.py"
    path.write_text(APP, encoding="utf-8")
    return path
