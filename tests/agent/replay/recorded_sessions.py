"""A recorded session with everything in it, its replay, and forged copies of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from msgspec.structs import replace

from steno import ChatMessage
from steno.agent import CallbackApprover, Gate, Permissions
from steno.agent.replay.verify import ReplayResult, replay
from steno.errors import CutShort
from steno.log.chain import entry_digest
from steno.messages.call import InvalidToolCall
from steno.messages.event import TextDelta
from steno.messages.message import ToolResultMessage
from steno.records.entry import Entry
from steno.records.stored_record import Record
from tests.agent.agent_setup import AgentHarness, call, read_tool, run, turn_with_calls, write_tool


def asking(*, allowed: Callable[[str], bool]) -> Gate:
    approver = CallbackApprover(lambda question: allowed(question.call.name), actor="ada")
    return Gate(Permissions.of(), approver)


def full_session() -> list[Record]:
    """Make a session with parallel calls, verdicts, a denial, a refusal, faults and a retry."""
    broken = InvalidToolCall(id="c6", name="read", arguments="{", reason="no JSON")
    harness = AgentHarness(
        [
            turn_with_calls(
                call("c1", "read", path="a"), call("c2", "read", path="b"), text="I look."
            ),
            [TextDelta(0, "Half a th"), CutShort("gone")],
            ChatMessage.assistant(
                None, [call("c3", "write"), call("c4", "run"), call("c5", "nobody"), broken]
            ),
            "Done.",
            "You are welcome.",
        ],
        read_tool("read", "A.", "B."),
        write_tool("write", "Written."),
        write_tool("run", "Ran."),
        gate=asking(allowed=lambda name: name == "write"),
        model="lab/small",
        actor="ada",
        sleep=at_once,
    )

    async def talk() -> None:
        await harness.run("Is it broken?")
        harness.conversation.label(harness.conversation.entries()[2].id, "start")
        await harness.run("Thank you.")

    run(talk())
    harness.check()
    return list(harness.store.records(harness.conversation.id))


async def at_once(_: float) -> None:
    pass


def replayed(records: Sequence[Record], **settings: Any) -> ReplayResult:
    return run(replay(records, **settings))


def forged(records: Sequence[Record], change: Callable[[Entry], Entry]) -> list[Record]:
    """Change entries, and compute all digests again, as a forger would."""
    digests: dict[str | None, str | None] = {None: None}
    made: list[Record] = []
    for record in records:
        if record.entry is None:
            made.append(record)
            continue
        entry = change(record.entry)
        digests[entry.id] = entry_digest(entry, digests[entry.parent])
        made.append(replace(record, entry=entry, digest=digests[entry.id]))
    return made


def of_call(call_id: str, **changes: Any) -> Callable[[Entry], Entry]:
    def change(entry: Entry) -> Entry:
        if (
            not isinstance(entry.payload, ToolResultMessage)
            or entry.payload.tool_call_id != call_id
        ):
            return entry
        return replace(entry, **changes)

    return change
