"""The MCP server: tools, agents, prompts and resources for MCP clients, over stdio and HTTP."""

from bascule.mcp_server._clients import ClientSeen, OnClient
from bascule.mcp_server._http import HttpParser, serve_http
from bascule.mcp_server._process import serving_process
from bascule.mcp_server._prompts import Prompt, prompt
from bascule.mcp_server._resources import Resource, resource
from bascule.mcp_server._server import McpServer, Protector
from bascule.mcp_server._stdout import protect_stdout

__all__ = [
    "ClientSeen",
    "HttpParser",
    "McpServer",
    "OnClient",
    "Prompt",
    "Protector",
    "Resource",
    "prompt",
    "protect_stdout",
    "resource",
    "serve_http",
    "serving_process",
]
