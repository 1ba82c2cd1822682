"""An app inside another web app, under a prefix, beside its own pages. No lifespan has to be wired.

uvicorn examples.mounted:site --port 8000      MCP is at http://127.0.0.1:8000/ai/mcp
"""

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Mount, Route

from bascule import Bascule, tool


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


async def home(request: Request) -> PlainTextResponse:
    """Say hello."""
    return PlainTextResponse("hello")


app = Bascule("mounted", tools=[add])
site = Starlette(routes=[Route("/", home), Mount("/ai", app.asgi())])
