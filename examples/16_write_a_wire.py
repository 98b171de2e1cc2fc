"""Add a protocol: `lab/lines.py` is a wire, and an agent uses it.

A wire is named by its module. Recorded responses replace the server.
The conformance kit tests the wire with the server in `lab/lines_server.py`.
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
        RecordedResponse((b'text "I add the numbers."\ncall c1 add {"a": 1, "b": 2}\ndone\n',)),
        RecordedResponse((b'text "It ', b'is 3."\ndo', b"ne\n")),  # chunks can end anywhere
    ]
)
lab = Vendor(
    name="lab", wire="lab.lines", base_url="http://lab.example", path="/chat", needs_key=False
)


async def main() -> None:
    async with connect(lab, model="m", transport=server) as provider:
        agent = Agent(provider, Conversation(), tools=[add], model="lab/m")
        result = await agent.run("What is 1 + 2?")
    print(f"{result.end_reason}: {result.text}")
    print("last request, to", server.sent[-1].url)
    print(server.sent[-1].body.decode())


asyncio.run(main())
try:
    load_wire("lab.lines").decode_response(b'text "It is')
except CutShort as error:
    print("error:", error)
