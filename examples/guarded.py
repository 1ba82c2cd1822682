"""A server that knows who is calling. Tokens are made on this machine; see docs/how-to/auth.md for identity providers.

bascule serve examples/guarded.py
bascule auth token --sub me
"""

from bascule import Bascule, ToolContext, tool
from bascule.auth import DevAuth


@tool
def whoami(ctx: ToolContext) -> str:
    """Say who is calling."""
    return f"You are {ctx.principal.subject}, and may {' '.join(sorted(ctx.principal.scopes))}."


app = Bascule("guarded", tools=[whoami], auth=DevAuth())
