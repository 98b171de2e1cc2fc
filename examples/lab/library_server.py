"""A small MCP server with a tool, a resource and a prompt, for the example that talks to it."""

from mcp.server import MCPServer

server = MCPServer("library")


@server.tool()
def find_book(author: str) -> str:
    """Name a book of an author."""
    return {"Woolf": "Orlando", "Shelley": "Frankenstein"}.get(author, "none that we have")


@server.resource("library://rules", mime_type="text/plain")
def rules() -> str:
    """Tell what readers have to know."""
    return "Books are lent for two weeks."


@server.prompt()
def recommend(mood: str) -> str:
    """Ask for a book that suits a mood."""
    return f"Recommend a book for somebody who is {mood}."


if __name__ == "__main__":
    server.run()
