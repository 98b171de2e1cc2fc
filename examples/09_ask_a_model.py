"""Send a request to a model, print the stream, and handle an error.

A scripted provider replaces the server. With `steno.providers.connect("ollama", model="qwen3")` in
its place the rest of the program stays the same.
"""

import asyncio

from steno import ChatMessage, Request, TextDelta, ToolCall, ToolCallEnd
from steno.errors import RateLimited
from steno.ports import Provider
from steno.testing import ScriptedProvider

script = ScriptedProvider(
    [
        ChatMessage.assistant(
            "I will read it.", [ToolCall.create("read", {"path": "a.py"}, id="c1")]
        ),
        RateLimited("slow down", status=429, retryable=True, retry_after_s=2),
    ]
)


async def ask(provider: Provider, request: Request) -> None:
    """Print the response while it arrives."""
    async with provider.stream(request) as stream:
        try:
            async for event in stream:
                if isinstance(event, TextDelta):
                    print(event.text)
                elif isinstance(event, ToolCallEnd):
                    print(event.call)
        except RateLimited as error:
            print(f"{error}; retry in {error.retry_after_s:.0f} s")
    print("stop reason:", stream.message().stop_reason)


request = Request(model="m", messages=(ChatMessage.user("What is in a.py?"),))
asyncio.run(ask(script, request))
asyncio.run(ask(script, request))
