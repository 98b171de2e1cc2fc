"""A small MCP server with a tool, a resource and a prompt, for example 19."""

from mcp.server import MCPServer

server = MCPServer("library")


@server.tool()
def find_book(author: str) -> str:
    """Find a book by an author."""
    return {"Woolf": "Orlando", "Shelley": "Frankenstein"}.get(author, "no book found")


@server.resource("library://rules", mime_type="text/plain")
def rules() -> str:
    """Return the rules for readers."""
    return "Books are lent for two weeks."


@server.prompt()
def recommend(mood: str) -> str:
    """Ask for a book that fits a mood."""
    return f"Recommend a book for a reader who is {mood}."


if __name__ == "__main__":
    server.run()
