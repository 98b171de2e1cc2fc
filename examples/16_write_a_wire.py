"""Speak a protocol that nobody has decoded of: `lab/lines.py` is a wire, and an agent works over it.

A wire goes by the name of its module; a recording stands in for the server.
With `lab/lines_server.py` it takes part in the conformance kit.
"""

import asyncio

from steno import Conversation
from steno.agent import Agent, Capability
from steno.errors import CutShort
from steno.providers import Vendor, connect
from steno.tools import tool
from steno.transport import RecordedResponse, ReplayTransport
from steno.wire import load_wire


@tool(capability=Capability.READ)
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


server = ReplayTransport(
    [
        RecordedResponse((b'say "I add."\ncall c1 add {"a": 1, "b": 2}\ndone\n',)),
        RecordedResponse((b'say "It ', b'is 3."\ndo', b"ne\n")),  # bytes may be cut anywhere
    ]
)
lab = Vendor(
    name="lab", wire="lab.lines", base_url="http://lab.example", path="/say", needs_key=False
)


async def main() -> None:
    async with connect(lab, model="m", transport=server) as provider:
        agent = Agent(provider, Conversation(), tools=[add], model="lab/m")
        result = await agent.run("What is 1 + 2?")
    print(f"{result.end_reason}: {result.text}")
    print("what was sent last, to", server.sent[-1].url)
    print(server.sent[-1].body.decode())


asyncio.run(main())
try:
    load_wire("lab.lines").decode_response(b'say "It is')
except CutShort as fault:
    print("refused:", fault)
