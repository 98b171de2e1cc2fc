"""Servers of the Model Context Protocol: their tools, resources and prompts."""
