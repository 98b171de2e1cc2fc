"""The session that most cases store, and checks of stored sessions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

from steno.codec import encode_header, encode_record
from steno.errors import StenoError
from steno.ids import new_id
from steno.log.chain import entry_digest
from steno.log.conversation import Conversation
from steno.messages.call import ToolCall
from steno.messages.message import ChatMessage, Message
from steno.records.entry import Entry, Payload
from steno.records.stored_record import MAIN_BRANCH, Header, Record
from steno.store import Store
from steno.testing.case_results import CaseFailure, expect, require

__all__ = ["CaseFailure", "expect", "require"]

START_TIME: Final = datetime(2024, 5, 17, 6, 30, tzinfo=UTC)
SAMPLE_MESSAGES: Final[tuple[Message, ...]] = (
    ChatMessage.system("You mend code."),
    ChatMessage.user("Is it broken?"),
    ChatMessage.assistant("I look.", [ToolCall(id="c1", name="run_tests", arguments="{}")]),
    ChatMessage.tool_result("c1", "3 passed", details={"passed": 3, "seconds": 1.50}),
    ChatMessage.assistant("All green."),
)


def expect_raises(kind: type[StenoError], subject: str, action: Callable[[], object]) -> None:
    """Raise CaseFailure unless `action`, read to its end if an iterator, raises this kind."""
    try:
        found = action()
        if isinstance(found, Iterator):
            for _ in found:
                pass
    except kind:
        return
    except Exception as exc:
        raise CaseFailure(f"{subject}: expected {kind.__name__}, got {type(exc).__name__}") from exc
    raise CaseFailure(f"{subject}: expected {kind.__name__}, nothing was raised")


class StoredSession(NamedTuple):
    """Header, records and heads of a stored session, in a form that can be compared."""

    header: bytes
    records: tuple[bytes, ...]
    heads: tuple[tuple[str, str | None], ...]


def read_session(store: Store, session: str) -> StoredSession:
    """Read all of a session."""
    return StoredSession(
        encode_header(store.header(session)),
        tuple(map(encode_record, store.records(session))),
        tuple(store.heads(session).items()),
    )


def expect_stored(store: Store, session: str, expected: StoredSession, subject: str) -> None:
    """Raise CaseFailure, with the first place that differs, unless a session is unchanged."""
    found = read_session(store, session)
    expect(len(found.records), len(expected.records), f"{subject}: records")
    for number, (record, expected_record) in enumerate(
        zip(found.records, expected.records, strict=True), 1
    ):
        require(
            record == expected_record,
            f"{subject}: record {number} is not, byte for byte, what was written",
        )
    expect(found.heads, expected.heads, f"{subject}: heads")
    require(found.header == expected.header, f"{subject}: the header is not what was written")


def expect_intact(store: Store, session: str, *, entries: int | None = None) -> None:
    """Raise CaseFailure unless a session is intact and has this number of entries."""
    found = store.verify(session)
    require(found.is_intact, f"the chain must hold: {found.bad}")
    if entries is not None:
        expect(found.entries, entries, "entries that the chain holds")


def chain_records(
    payloads: Iterable[Payload], *, branch: str = MAIN_BRANCH, start: datetime = START_TIME
) -> Iterator[Record]:
    """Yield the records of a session without a conversation: each entry follows the one before."""
    parent: str | None = None
    digest: str | None = None
    for number, payload in enumerate(payloads, 1):
        entry = Entry(
            id=new_id(),
            parent=parent,
            time=start + timedelta(seconds=number),
            payload=payload,
        )
        digest = entry_digest(entry, digest)
        parent = entry.id
        yield Record(seq=number, branch=branch, entry=entry, digest=digest)


def new_header() -> Header:
    """Return the header of a session that no store has yet."""
    return Header(id=new_id(), created_at=START_TIME)


def new_sample_session(store: Store) -> Conversation:
    """Create a session with the sample messages."""
    return store.new(SAMPLE_MESSAGES)
