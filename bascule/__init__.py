"""Serve agents, workflows, memory and tools over MCP; delegate to coding agents over ACP; secure both."""
