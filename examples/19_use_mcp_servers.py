"""Use the tools, resources and prompts of an MCP server.

Permission rules decide what its tools may do; the server has no influence on them.
"""

import asyncio
import sys
from pathlib import Path

from steno import ChatMessage, Conversation, ToolCall
from steno.agent import Agent, CallEnded, Gate, LoopEvent, Permissions
from steno.inputs import (
    InputResolver,
    McpServers,
    McpServerSpec,
    expand_prompt,
    list_mcp_prompts,
    list_mcp_tools,
    parse_prompt_command,
)
from steno.testing import ScriptedProvider

HERE = Path(__file__).parent
LIBRARY = McpServerSpec(
    name="library", command=sys.executable, args=(str(HERE / "lab" / "library_server.py"),)
)


def show(event: LoopEvent) -> None:
    if isinstance(event, CallEnded):
        print(f"  {event.call.name}: {event.result.outcome}: {event.result.text}")


async def main() -> None:
    async with McpServers([LIBRARY], folder=HERE) as servers:  # starts a server at its first use
        library = servers.get("library")
        found = await list_mcp_tools([library])
        for tool in found.tools:
            print("tool", tool.definition.name, "-", tool.capability)
        for resource in await library.resources():
            print("resource", resource.uri)
        for prompt in (await list_mcp_prompts([library])).prompts:
            print("prompt", prompt.command, [argument.name for argument in prompt.arguments])

        print("a resource and a tool in one run")
        call = ToolCall.create("mcp__library__find_book", {"author": "Woolf"}, id="c1")
        provider = ScriptedProvider(
            [ChatMessage.assistant(None, [call]), "You may keep Orlando for two weeks."]
        )
        inputs = InputResolver(servers=servers)
        agent = Agent(
            provider,
            Conversation(),
            tools=found.tools,
            gate=Gate(Permissions.of(allow=["mcp__library__*"])),
            resolver=inputs,
        )
        prompted = inputs.prompt(
            "Find a book by Woolf. How long may I keep it? See @library:library://rules"
        )
        result = await agent.run(prompted.message, on_event=show)
        print(
            "  the model received:", (provider.requests[0].messages[-1].text or "").split("\n")[3]
        )
        print("  response:", result.text)

        print("a prompt of the server")
        command = parse_prompt_command("/library:recommend mood=sleepy")
        assert command is not None
        print(" ", (await expand_prompt(command, [library])).text)


asyncio.run(main())
