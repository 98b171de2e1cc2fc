"""List who decided what in a session, redact entries, and verify that nothing else changed.

The commands `steno audit`, `steno sessions redact` and `steno verify` do the same.
"""

import asyncio
from pathlib import Path
from tempfile import TemporaryDirectory

from steno import ChatMessage, ToolCall
from steno.agent import Agent, Capability, Gate, Permissions
from steno.errors import Damaged
from steno.log import EntryQuery, select_entries
from steno.records import Approval
from steno.store import open_store
from steno.testing import ScriptedProvider
from steno.tools import tool


@tool(capability=Capability.NETWORK, subjects=lambda to, text: [to])
def send(to: str, text: str) -> str:
    """Send a letter."""
    return f"sent {len(text)} characters"


def letter(to: str) -> ToolCall:
    """Return a call that the model makes."""
    return ToolCall.create("send", {"to": to, "text": "The PIN is 4711."}, id=f"to-{to}")


with TemporaryDirectory() as folder, open_store(f"jsonl:{folder}") as store:
    conversation = store.new(id="letters")
    turn = ChatMessage.assistant("I send it to both.", [letter("bob"), letter("eve")])
    provider = ScriptedProvider([turn, "Only bob received it."])
    gate = Gate(Permissions.of(allow=["send(bob)"], deny=["send(eve)"]))
    agent = Agent(provider, conversation, tools=[send], gate=gate, actor="ada")
    asyncio.run(agent.run("Send the PIN to bob and eve."))

    print("decisions")
    for entry in select_entries(conversation.entries(), EntryQuery(tool="send")):
        payload = entry.payload
        if isinstance(payload, Approval):
            print(f"  {payload.call_id}: {payload.status} by rule {payload.rule}")
        elif entry.message is not None and entry.message.tool_call_id:
            print(f"  {entry.message.tool_call_id}: {entry.decision}: {entry.message.text}")

    print("\nafter the redaction of the PIN")
    # The log keeps the actor and the reason of a redaction.
    for hit in store.search("PIN"):
        store.redact("letters", hit.entry.id, actor="ada", reason="a PIN")
    proof = store.verify("letters")
    print(f"  intact: {proof.is_intact}, {proof.redacted} entries redacted")
    print("  search results:", store.search("4711"))

    print("\nafter a change in the file")
    [file] = Path(folder).rglob("letters.jsonl")
    file.write_text(file.read_text().replace("send(bob)", "send(eve)"))
    try:
        store.verify("letters")
    except Damaged as error:
        print(" ", str(error).partition(";")[0])
