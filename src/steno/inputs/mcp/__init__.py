"""Connections to MCP servers, and access to their tools, resources and prompts."""
