"""A server that knows who is calling. Tokens are made on this machine; see docs/how-to/auth.md for identity providers.

bascule serve examples/guarded.py
bascule auth token --sub me
"""

from bascule import Bascule, ToolContext, tool
from bascule.auth import DevAuth


@tool
def whoami(ctx: ToolContext) -> str:
    """Say who is calling."""
    who = ctx.principal
    return f"You are {who.subject or who.id}, and may {' '.join(sorted(who.scopes)) or 'do everything'}."


app = Bascule("guarded", tools=[whoami], auth=DevAuth())
