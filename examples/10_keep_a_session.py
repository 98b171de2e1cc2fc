"""Keep a conversation, go on with it later and in two ways, and prove that nobody changed it.

`python examples/10_keep_a_session.py sqlite:work.db` leaves it there for the `steno` command.
"""

import sys
from tempfile import TemporaryDirectory

from steno import ChatMessage, ToolCall, Usage
from steno.log import labels_of
from steno.records import ApprovalStatus
from steno.store import open_store


def keep(address: str) -> None:
    with open_store(address) as store:
        conversation = store.new(id="mend-build", title="Mend the build")
        conversation.append(ChatMessage.system("You mend code."))
        conversation.append(ChatMessage.user("Is it broken?"))
        call = ToolCall(id="c1", name="run_tests", arguments='{"path": "tests"}')
        usage = Usage(input_tokens=412, output_tokens=18)
        conversation.append(ChatMessage.assistant("I look.", [call], usage=usage))
        conversation.decide("c1", ApprovalStatus.APPROVED, actor="ada")
        conversation.append(ChatMessage.tool_result("c1", "1 failed", tool_name="run_tests"))
        found = conversation.append(ChatMessage.assistant("One test fails. Shall I mend it?"))
        conversation.label(found.id, "diagnosis")


def go_on(address: str) -> None:
    with open_store(address) as store:
        conversation = store.open("mend-build")  # another program, another day
        conversation.append(ChatMessage.user("Yes, please."))
        conversation.fork("careful", at=labels_of(conversation.entries())["diagnosis"])
        conversation.append(ChatMessage.user("No, only explain it."), branch="careful")
        for branch in ("main", "careful"):
            print(f"{branch:8}", [message.text for message in conversation.messages(branch)][-2:])


def prove(address: str) -> None:
    with open_store(address) as store:
        store.redact(
            "mend-build", store.open("mend-build").entries()[0].id, actor="ada", reason="x"
        )
        verification = store.verify("mend-build")
        print("intact:", verification.is_intact, "entries:", verification.entries)
        print("taken out:", verification.redacted)
        print("found:", [hit.snippet for hit in store.search("test fails")])


if len(sys.argv) > 1:
    keep(sys.argv[1])
    go_on(sys.argv[1])
else:
    with TemporaryDirectory() as folder:
        keep(f"sqlite:{folder}/work.db")
        go_on(f"sqlite:{folder}/work.db")
        prove(f"sqlite:{folder}/work.db")
