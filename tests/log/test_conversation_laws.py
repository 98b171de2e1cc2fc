"""Laws: a stored conversation is a plain one that lasts, and no byte of it changes unseen."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count, takewhile
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from steno import ChatMessage, Message, SystemMessage, ToolCall, ToolResult
from steno.codec import decode_record, encode_record
from steno.errors import InvalidDocument, StenoError
from steno.log.blobs import blob_digests
from steno.log.chain import entry_digest, verify_records
from steno.log.conversation import Conversation
from steno.records.entry import ApprovalStatus, Entry, Mode, Redacted
from steno.records.stored_record import MAIN_BRANCH, Record
from steno.store import MemoryStore
from steno.testing import conversations, entries, json_objects, payloads, texts
from steno.testing.stores.store_harness import START_TIME
from tests.log.journals import Journal

# -- operations --------------------------------------------------------------------------------


class Operation(NamedTuple):
    """An operation on a conversation; numbers are taken modulo the number of entries or branches."""

    name: str
    act: Callable[[Conversation], object]

    def __repr__(self) -> str:
        return self.name


def pick(options: Any, number: int) -> Any:
    found = list(options)
    return found[number % len(found)] if found else "nothing"


def on_branch(conversation: Conversation, number: int) -> str:
    return str(pick(conversation.branches, number))


NUMBERS = st.integers(0, 50)
SMALL = st.sampled_from(("a", "b", "idea", "", "main"))
# A payload that names a blob which was never stored is reported as incomplete.
PAYLOADS = payloads().filter(
    lambda payload: not isinstance(payload, Redacted) and not blob_digests(payload)
)
CALLS = st.lists(st.sampled_from(("c1", "c2", "c3")), max_size=3)


KINDS = (
    *("say", "turn", "turn", "answer", "answer", "other", "fork", "fork here", "switch"),
    *("rewind", "clear", "mode", "model", "label", "ask", "deny", "refresh"),
)


def entry_id(conversation: Conversation, number: int) -> str:
    return str(pick([entry.id for entry in conversation.entries()], number))


def make_result(conversation: Conversation, number: int) -> ToolResult:
    return ToolResult.success(pick(conversation.outstanding or ("c9",), number), "done")


def make_turn(ids: list[str]) -> Any:
    return ChatMessage.assistant("t", [ToolCall(id=id, name="read") for id in ids])


@st.composite
def operations(draw: st.DrawFn) -> Operation:
    """Draw one operation of a program, valid or not."""
    kind = draw(st.sampled_from(KINDS))
    number, second, name, ids = draw(NUMBERS), draw(NUMBERS), draw(SMALL), draw(CALLS)
    label = f"{kind}({number}, {second}, {name!r}, {ids})"
    match kind:
        case "say":
            said = draw(texts().map("<{}>".format).map(ChatMessage.user))
            return Operation(label, lambda c: c.append(said, branch=on_branch(c, number)))
        case "turn":
            return Operation(label, lambda c: c.append(make_turn(ids), decision=name or None))
        case "answer":
            return Operation(label, lambda c: c.append(make_result(c, number)))
        case "other":
            payload, audit = draw(PAYLOADS), draw(st.none() | json_objects())
            return Operation(label, lambda c: c.append(payload, audit=audit))
        case "fork":
            return Operation(label, lambda c: c.fork(name, at=entry_id(c, second)))
        case "fork here":
            return Operation(label, lambda c: c.fork(name))
        case "switch":
            return Operation(label, lambda c: c.switch(on_branch(c, number)))
        case "rewind":
            return Operation(label, lambda c: c.rewind(entry_id(c, number)))
        case "clear":
            return Operation(label, lambda c: c.clear())
        case "mode":
            mode = draw(st.sampled_from(Mode))
            return Operation(label, lambda c: c.change_mode(mode))
        case "model":
            return Operation(label, lambda c: c.change_model(name))
        case "label":
            return Operation(label, lambda c: c.label(entry_id(c, second), name))
        case "ask":
            return Operation(label, lambda c: c.decide("c1", ApprovalStatus.PENDING))
        case "deny":
            return Operation(label, lambda c: c.decide("c2", ApprovalStatus.DENIED, rule=name))
        case _:
            return Operation(label, lambda c: c.refresh())


def outcome_of(act: Callable[[Conversation], object], conversation: Conversation) -> object:
    """Run the operation; return its result in a form that can be compared."""
    try:
        return act(conversation)
    except StenoError as exc:
        return type(exc)


def all_of(conversation: Conversation) -> dict[str, Any]:
    return {
        name: (
            conversation.entries(name),
            conversation.messages(name),
            [conversation.digest(entry.id) for entry in conversation.entries(name)],
        )
        for name in sorted(conversation.branches)
    }


def messages_in_context(found: Sequence[Entry]) -> list[Message]:
    """Return the messages of a branch without those that were cleared."""
    kept: list[Message] = []
    for entry in found:
        if entry.clears_context:
            kept = list(takewhile(lambda message: isinstance(message, SystemMessage), kept))
        elif entry.message is not None:
            kept.append(entry.message)
    return kept


def foretold() -> dict[str, Any]:
    numbers = count(1)
    return {"new_id": lambda: f"e{next(numbers)}", "now": lambda: START_TIME}


def act_out(steps: list[Operation]) -> tuple[Journal, Conversation]:
    journal = Journal()
    conversation = Conversation(id="talk", journal=journal, **foretold())
    for step in steps:
        outcome_of(step.act, conversation)
    return journal, conversation


STEPS = st.lists(operations(), max_size=25)


@pytest.mark.requirement("S3-05", "S3-06")
@given(STEPS)
def test_a_stored_conversation_behaves_like_one_in_memory(steps: list[Operation]) -> None:
    plain = Conversation(id="talk", **foretold())
    stored = Conversation(id="talk", journal=Journal(), **foretold())
    for step in steps:
        assert outcome_of(step.act, stored) == outcome_of(step.act, plain)
        assert (stored.branch, stored.branches) == (plain.branch, plain.branches)
        assert stored.outstanding == plain.outstanding
    assert all_of(stored) == all_of(plain)


@pytest.mark.requirement("S1-09")
@given(STEPS)
def test_a_reopened_conversation_is_the_one_that_was_left(steps: list[Operation]) -> None:
    journal, conversation = act_out(steps)
    found = journal.open()
    everything = all_of(found)
    if not conversation.branches["main"]:  # a main branch without entries leaves no trace
        everything.setdefault("main", ((), (), []))
    assert everything == all_of(conversation)
    records = list(journal.store.records(journal.session))
    written = [record.branch for record in records if record.entry is not None]
    begun = [record.branch for record in records if record.entry is None]
    assert found.branch == ["main", *begun, *written][-1]
    if found.branch == conversation.branch:
        assert found.outstanding == conversation.outstanding
    assert journal.store.verify(journal.session).is_intact


@given(STEPS)
def test_a_clone_is_equal_and_stays_what_it_was(steps: list[Operation]) -> None:
    half = len(steps) // 2
    _, conversation = act_out(steps[:half])
    twin = conversation.clone()
    before = all_of(conversation)
    assert all_of(twin) == before
    for step in steps[half:]:
        outcome_of(step.act, twin)
    assert all_of(conversation) == before


@given(STEPS)
def test_every_branch_is_in_order_and_its_path_is_whole(steps: list[Operation]) -> None:
    _, conversation = act_out(steps)
    for name, head in conversation.branches.items():
        found = conversation.entries(name)
        assert [entry.parent for entry in found] == [None, *[entry.id for entry in found]][
            : len(found)
        ]
        assert (found[-1].id if found else None) == head
        assert list(conversation.messages(name)) == messages_in_context(found)


@given(conversations(alternating=False))
def test_any_conversation_in_order_can_be_appended(messages: tuple[Any, ...]) -> None:
    journal = Journal()
    assert Conversation(messages, journal=journal).messages() == messages
    assert journal.open().messages() == messages


# -- bytes -------------------------------------------------------------------------------------


@given(st.lists(entries(), min_size=1, max_size=4))
def test_an_entry_has_the_same_digest_after_writing_and_reading(found: list[Entry]) -> None:
    records: list[Record] = []
    for seq, drawn in enumerate(found, 1):
        before = records[-1] if records else None
        parent = None if before is None or before.entry is None else before.entry.id
        entry = replace(drawn, id=f"e{seq}", parent=parent)
        digest = entry_digest(entry, None if before is None else before.digest)
        records.append(Record(seq=seq, branch=MAIN_BRANCH, entry=entry, digest=digest))
    read = [decode_record(encode_record(record)) for record in records]
    assert read == records
    assert verify_records(read) == verify_records(records)
    bad = verify_records(read).bad
    assert bad is None or bad.code == "unexplained_redaction"


LINES = 8


def some_lines() -> list[bytes]:
    journal = Journal()
    conversation = Conversation(id="talk", journal=journal, **foretold())
    conversation.append(ChatMessage.user("Is it \u2028 broken?"), audit={"by": "ann", "n": 1.5})
    conversation.append(make_turn(["c1"]), decision="asked")
    conversation.decide("c1", ApprovalStatus.APPROVED, actor="ann", reason="fine")
    conversation.append(ToolResult.error("c1", "no"))
    conversation.fork("idea")
    conversation.switch("idea")
    conversation.change_mode(Mode.PLAN)
    conversation.append(ChatMessage.assistant("So be it."), branch="main")
    return [encode_record(record) for record in journal.store.records(journal.session)]


ORIGINAL = some_lines()
RECORDS = [decode_record(line) for line in ORIGINAL]
REPLACEMENTS = b'0129afxAZ"\\{}[],: \n\x00\x7f\x80\xc3\xff'


def examine(number: int, line: bytes) -> object:
    """Return the verification after one line was replaced; None if it cannot be read."""
    try:
        record = decode_record(line)
    except InvalidDocument:
        return None
    return verify_records([*RECORDS[:number], record, *RECORDS[number + 1 :]])


def test_the_lines_are_intact() -> None:
    assert len(ORIGINAL) == LINES
    assert verify_records(RECORDS).is_intact


@pytest.mark.parametrize("number", range(LINES))
def test_any_byte_that_is_changed_shows(number: int) -> None:
    """By an error, by a bad record, or by another head than the one that was kept elsewhere."""
    line = ORIGINAL[number]
    changes = {
        line[:place] + bytes([byte]) + line[place + 1 :]
        for place in range(len(line))
        for byte in (*REPLACEMENTS, line[place] ^ 1, line[place] ^ 0x20)
    } - {line}
    wanted = verify_records(RECORDS)
    unseen = [changed for changed in changes if examine(number, changed) == wanted]
    # A blank for a blank, or the same letter in other words, is the same record.
    assert [changed for changed in unseen if decode_record(changed) != RECORDS[number]] == []


@settings(max_examples=300)
@given(st.data())
def test_bytes_that_are_lost_added_or_swapped_show(data: st.DataObject) -> None:
    number = data.draw(st.integers(0, LINES - 1))
    line = ORIGINAL[number]
    start = data.draw(st.integers(0, len(line) - 1))
    end = data.draw(st.integers(start, min(len(line), start + 20)))
    changed = line[:start] + data.draw(st.binary(max_size=20)) + line[end:]
    if examine(number, changed) == verify_records(RECORDS):
        known = decode_record(changed)
        assert replace(known, unknown=decode_record(line).unknown) == decode_record(line)


@settings(max_examples=50)
@given(STEPS, st.data())
def test_a_record_that_is_missing_doubled_or_moved_shows(steps: list[Operation], data: Any) -> None:
    journal, _ = act_out(steps)
    records = list(journal.store.records(journal.session))
    if len(records) < 2:
        return
    wanted = verify_records(records)
    number = data.draw(st.integers(0, len(records) - 1))
    other = data.draw(st.integers(0, len(records) - 1).filter(lambda n: n != number))
    swapped = list(records)
    swapped[number], swapped[other] = swapped[other], swapped[number]
    for changed in (
        records[:number] + records[number + 1 :],
        [*records[: number + 1], *records[number:]],
        swapped,
    ):
        assert verify_records(changed) != wanted


def test_a_changed_record_is_found_by_verify() -> None:
    store = MemoryStore()
    conversation = store.new([ChatMessage.user("a"), ChatMessage.assistant("b")])
    record = next(store.records(conversation.id))
    assert record.entry is not None
    store.replace(conversation.id, replace(record, entry=replace(record.entry, decision="x")))
    assert not store.verify(conversation.id).is_intact
