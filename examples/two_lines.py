"""The smallest app: a function under @tool. No Bascule object is needed.

bascule call examples/two_lines.py shout text=hello
"""

from bascule import tool


@tool
def shout(text: str) -> str:
    """Write a text in capitals.

    Args:
        text: What to shout.
    """
    return f"{text.upper()}!"
