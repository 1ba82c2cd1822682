"""The door to the MCP SDK: everything here imports it, and is itself imported by the function that first needs it."""
