"""A tour in one minute: a tool, a stream, a history, a repair, two providers, a log, a file."""

import logging
import sys
import tempfile
from pathlib import Path

from steno import (
    Assembler,
    ChatMessage,
    ConversationHistory,
    Event,
    Finished,
    OutOfOrder,
    Request,
    StopReason,
    TextDelta,
    ToolCall,
    ToolCallDelta,
    ToolDefinition,
    ToolResult,
    check_order,
    repair,
)
from steno.codec import Document, decode_document, encode_document
from steno.entry import ApprovalStatus
from steno.store import open_store
from steno.wire import load_wire


def heading(text: str) -> None:
    print(f"\n── {text} " + "─" * (76 - len(text)))


logging.basicConfig(format="  logged: %(message)s", stream=sys.stdout)
print("A chat with a model and its tools: described, streamed, mended, translated, kept for good.")

heading("a tool, described by the function that does the work")


def read_file(path: str, limit: int = 100) -> str:
    """Read the first lines of a text file.

    Args:
        path: Where it is, from the project's root.
        limit: How many lines at most.
    """
    return f"{path}: {limit} lines at most"


tool = ToolDefinition.from_function(read_file)
print(tool.name, "-", tool.description)
for name, schema in tool.parameters["properties"].items():
    print(f"  {name:6} {schema['type']:8} {schema['description']}")

heading("a stream, from a server that numbers both calls 0 and cuts anywhere")
stream: list[Event] = [
    TextDelta(0, "I read "),
    TextDelta(0, "both."),
    ToolCallDelta(0, "call_a", "read_file", '{"path": "REA'),
    ToolCallDelta(0, None, None, 'DME.md"}'),
    ToolCallDelta(0, "call_b", "read_file", '{"path": 7, "depth": 2}'),
    Finished(StopReason.END_TURN, "stop"),
]
assembler = Assembler()
for event in stream:
    for told in assembler.feed(event):
        print(" ", told)
turn = assembler.message()
print(turn.text, [call.arguments for call in turn.tool_calls], turn.stop_reason)

heading("a history, which takes nothing that a provider would refuse")
history = ConversationHistory([ChatMessage.system("You help."), ChatMessage.user("Read both.")])
history.add(turn)
try:
    history.add(ChatMessage.user("Well?"))
except OutOfOrder as refusal:
    print("refused:", refusal)
for call in turn.tool_calls:
    problems = tool.check(call)
    if isinstance(call, ToolCall) and not problems:
        result = ToolResult.success(call.id, read_file(call.get("path", str, "")))
    else:
        result = ToolResult.error(call.id, "; ".join(map(str, problems)))
    history.add(result)
    print(f"{call.id}: {result.text}")

heading("a session that was killed in mid-turn, and what is sent of it")
torn = [*history.messages[:4], ChatMessage.user("Are you still there?")]
for issue in check_order(torn):
    print(f"message {issue.position}: {issue.code} - {issue.remedy}")
for message in repair(torn).messages:
    print(f"  {message.role:9} {message.text}")

heading("the same request, in the words of two providers")
request = Request(model="any", messages=history.messages, tools=(tool,), temperature=0.2)
for name in ("openai_chat", "anthropic_messages"):
    encoded = load_wire(name).encode_request(request)
    roles = [message["role"] for message in encoded.json["messages"]]
    print(f"{name:18} {len(encoded.body):5} bytes, {', '.join(roles)}")
    for loss in encoded.losses:
        print(f"{'':18} {loss}")

heading("a log on disk: decisions, a branch, a proof that all is as it was")
with tempfile.TemporaryDirectory() as folder, open_store(Path(folder) / "demo.db") as store:
    conversation = store.new(history.messages[:2], title="demo")
    conversation.append(turn, decision="tool_call")
    conversation.decide("call_a", ApprovalStatus.APPROVED, actor="ada")
    conversation.decide("call_b", ApprovalStatus.DENIED, rule="depth <= 1")
    for answer in history.messages[3:]:
        conversation.append(answer)
    conversation.fork("second thoughts", at=conversation.entries()[1].id)
    conversation.switch("second thoughts")
    conversation.append(ChatMessage.assistant("Neither is needed."))
    for branch in conversation.branches:
        print(f"{branch:16} {len(conversation.messages(branch))} messages")
    again = store.open(conversation.id)
    print("opened again:", again.messages() == conversation.messages(), "on", again.branch)
    verification = store.verify(conversation.id)
    print(f"{verification.entries} entries, intact: {verification.is_intact}")

heading("a file, in which a newer program left something we have no name for")
stored = encode_document(Document.of(history, id="demo")).decode()
stored = stored.replace('"text":"You help."', '"text":"You help.","mood":"\\u2600"', 1)
document = decode_document(stored)
print(f"{len(document.messages)} messages, the first says: {document.messages[0].text}")
print("written back to the letter:", encode_document(document).decode() == stored)
