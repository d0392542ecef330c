"""The MCP door: twelve tools, two prompts and the memories as resources, over stdio and streamable HTTP.

Its modules need the official SDK, which the extra ``lethelog[mcp]`` brings; importing this package alone does not.
"""
