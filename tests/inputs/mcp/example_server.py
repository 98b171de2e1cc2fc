"""Our own server, with features that the others lack: pages, TTLs, requests, sudden exit.

Run it for stdio, or with `--fd=N` for HTTP on a socket that listens already.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from typing import Any

import mcp_types as types
from mcp.server import Server
from mcp.server.stdio import stdio_server

PAGES = 5
PER_PAGE = 10


def tool(name: str, *properties: str) -> types.Tool:
    schema = {"type": "object", "properties": {key: {} for key in properties}}
    return types.Tool(name=name, description=f"Does {name}.", input_schema=schema)


HEADED = types.Tool(
    name="headed",
    description="Gets an argument in a header too.",
    input_schema={
        "type": "object",
        "properties": {"region": {"type": "string", "x-mcp-header": "Region"}},
    },
)
_TOOLS = [
    tool("add", "a", "b"),
    tool("ask"),
    tool("count", "to"),
    tool("die"),
    tool("environment"),
    HEADED,
    tool("headers"),
    tool("huge", "bytes"),
    tool("pid"),
    tool("refuse"),
    tool("wait", "file"),
]
_EXTRA = [tool(f"extra_{number:02}") for number in range(PAGES * PER_PAGE - len(_TOOLS))]
TOOLS = [*_TOOLS, *_EXTRA]
SCHEMAS = {tool.name: tool.input_schema for tool in TOOLS}


async def list_tools(_: Any, params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
    page = int((params and params.cursor) or "0")
    following = str(page + 1) if page + 1 < PAGES else None
    part = TOOLS[page * PER_PAGE : (page + 1) * PER_PAGE]
    return types.ListToolsResult(tools=part, next_cursor=following)


async def call_tool(context: Any, params: types.CallToolRequestParams) -> Any:
    arguments: dict[str, Any] = params.arguments or {}
    match params.name:
        case "add":
            return said(
                str(arguments["a"] + arguments["b"]), {"sum": arguments["a"] + arguments["b"]}
            )
        case "ask":
            question = types.ElicitRequestFormParams(
                message="Your name?", requested_schema={"type": "object", "properties": {}}
            )
            request = types.ElicitRequest(params=question)
            return types.InputRequiredResult(input_requests={"name": request})
        case "count":
            for number in range(1, arguments["to"] + 1):
                await context.session.report_progress(number, arguments["to"], f"at {number}")
            return said("counted")
        case "die":
            database = os.environ.get("DATABASE_URL", "none")
            sys.stderr.write(f"these are my last words: \x1b[31m\nno database: {database}\n")
            sys.stderr.flush()
            os._exit(7)
        case "environment":
            return said("", dict(os.environ))
        case "headed" | "headers":
            return said("", dict(context.request.headers))
        case "huge":
            return said("x" * arguments["bytes"])
        case "pid":
            return said(str(os.getpid()))
        case "wait":
            return await wait(context, arguments["file"])
        case _:
            raise ValueError("no such tool")


async def wait(context: Any, file: str) -> types.CallToolResult:
    """Never return; record the start and the cancellation."""
    await context.session.report_progress(0, None, "waiting")
    try:
        await asyncio.Event().wait()
    finally:
        with open(file, "a") as written:  # noqa: ASYNC230, PTH123 - it is about to be over
            written.write("cancelled")
    return said("never")


def said(text: str, structured: Any = None) -> types.CallToolResult:
    content: list[Any] = [types.TextContent(type="text", text=text)]
    return types.CallToolResult(content=content, structured_content=structured)


async def list_resources(_: Any, __: object) -> types.ListResourcesResult:
    return types.ListResourcesResult(resources=[types.Resource(uri="own://note", name="note")])


async def read_resource(
    _: Any, params: types.ReadResourceRequestParams
) -> types.ReadResourceResult:
    contents: list[Any] = [
        types.TextResourceContents(uri=params.uri, mime_type="text/plain", text="noted")
    ]
    if params.uri == "own://mixed":
        contents.append(types.BlobResourceContents(uri=params.uri, blob="AAAA"))
    return types.ReadResourceResult(contents=contents, ttl_ms=90_000)


SERVER = Server(
    "own",
    get_tool_input_schema=SCHEMAS.get,
    on_list_tools=list_tools,
    on_call_tool=call_tool,
    on_list_resources=list_resources,
    on_read_resource=read_resource,
)


async def over_stdio() -> None:
    async with stdio_server() as (incoming, outgoing):
        await SERVER.run(incoming, outgoing, SERVER.create_initialization_options())


def over_http(fd: int) -> None:
    import uvicorn

    app = SERVER.streamable_http_app()
    uvicorn.run(app, fd=fd, log_level="error")


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    found = [argument for argument in sys.argv if argument.startswith("--fd=")]
    if found:
        over_http(int(found[0].removeprefix("--fd=")))
    else:
        asyncio.run(over_stdio())
