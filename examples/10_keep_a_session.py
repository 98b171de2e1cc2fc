"""Store a conversation, continue it in two branches, and verify that it was not changed.

`python examples/10_keep_a_session.py sqlite:work.db` keeps it in that file for the command `steno`.
"""

import sys
from tempfile import TemporaryDirectory

from steno import ChatMessage, ToolCall, Usage
from steno.log import labels_of
from steno.records import ApprovalStatus
from steno.store import open_store


def record(address: str) -> None:
    with open_store(address) as store:
        conversation = store.new(id="fix-build", title="Fix the build")
        conversation.append(ChatMessage.system("You fix code."))
        conversation.append(ChatMessage.user("Is it broken?"))
        call = ToolCall(id="c1", name="run_tests", arguments='{"path": "tests"}')
        usage = Usage(input_tokens=412, output_tokens=18)
        conversation.append(ChatMessage.assistant("I run the tests.", [call], usage=usage))
        conversation.decide("c1", ApprovalStatus.APPROVED, actor="ada")
        conversation.append(ChatMessage.tool_result("c1", "1 failed", tool_name="run_tests"))
        diagnosis = conversation.append(ChatMessage.assistant("One test fails. Shall I fix it?"))
        conversation.label(diagnosis.id, "diagnosis")


def resume(address: str) -> None:
    with open_store(address) as store:
        conversation = store.open("fix-build")  # later, in another program
        conversation.append(ChatMessage.user("Yes, please."))
        conversation.fork("careful", at=labels_of(conversation.entries())["diagnosis"])
        conversation.append(ChatMessage.user("No, only explain it."), branch="careful")
        for branch in ("main", "careful"):
            print(f"{branch:8}", [message.text for message in conversation.messages(branch)][-2:])


def verify(address: str) -> None:
    with open_store(address) as store:
        first = store.open("fix-build").entries()[0]
        store.redact("fix-build", first.id, actor="ada", reason="not for others")
        verification = store.verify("fix-build")
        print("intact:", verification.is_intact, "entries:", verification.entries)
        print("redacted:", verification.redacted)
        print("found:", [hit.snippet for hit in store.search("test fails")])


if len(sys.argv) > 1:
    record(sys.argv[1])
    resume(sys.argv[1])
else:
    with TemporaryDirectory() as folder:
        record(f"sqlite:{folder}/work.db")
        resume(f"sqlite:{folder}/work.db")
        verify(f"sqlite:{folder}/work.db")
