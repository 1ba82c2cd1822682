"""The MCP server: tools, agents, prompts and resources for MCP clients, over stdio and HTTP."""

from bascule.mcp_server._clients import ClientSeen, OnClient
from bascule.mcp_server._prompts import Prompt, prompt
from bascule.mcp_server._resources import Resource, resource
from bascule.mcp_server._server import McpServer
from bascule.mcp_server._stdout import protect_stdout

__all__ = ["ClientSeen", "McpServer", "OnClient", "Prompt", "Resource", "prompt", "protect_stdout", "resource"]
