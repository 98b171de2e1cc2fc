"""Ask a model, watch it answer, survive its faults: a script stands in for the server.

With `steno.providers.connect("ollama", model="qwen3")` in its place the rest stays as it is.
"""

import asyncio

from steno import ChatMessage, Request, TextDelta, ToolCall, ToolCallEnd
from steno.errors import RateLimited
from steno.ports import Provider
from steno.testing import ScriptedProvider

script = ScriptedProvider(
    [
        ChatMessage.assistant("Let me look.", [ToolCall.create("read", {"path": "a.py"}, id="c1")]),
        RateLimited("slow down", status=429, retryable=True, retry_after_s=2),
    ]
)


async def ask(provider: Provider, request: Request) -> None:
    """Print what the model says while it says it."""
    async with provider.stream(request) as stream:
        try:
            async for event in stream:
                if isinstance(event, TextDelta):
                    print(event.text)
                elif isinstance(event, ToolCallEnd):
                    print(event.call)
        except RateLimited as error:
            print(f"{error}; again in {error.retry_after_s:.0f} s")
    print(stream.message().stop_reason)


request = Request(model="m", messages=(ChatMessage.user("What is in a.py?"),))
asyncio.run(ask(script, request))
asyncio.run(ask(script, request))
