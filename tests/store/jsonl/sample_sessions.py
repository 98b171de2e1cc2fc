"""Small sessions in a folder, made without waiting for a disk."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path

from steno import ChatMessage
from steno.log.chain import entry_digest
from steno.messages.message import UserMessage
from steno.records.entry import Entry
from steno.records.stored_record import MAIN_BRANCH, Header, Record
from steno.store.jsonl import JsonlStore
from steno.store.jsonl.session_file import encode_line


def user_message(text: str) -> UserMessage:
    message = ChatMessage.user(text)
    assert isinstance(message, UserMessage)
    return message


def chained_records(texts: Iterable[str]) -> list[Record]:
    """Return records of one branch whose chain is intact, with short ids: e1, e2, ..."""
    records: list[Record] = []
    for number, text in enumerate(texts, 1):
        parent = f"e{number - 1}" if records else None
        entry = Entry(id=f"e{number}", parent=parent, payload=user_message(text))
        digest = entry_digest(entry, records[-1].digest if records else None)
        records.append(Record(seq=number, branch=MAIN_BRANCH, entry=entry, digest=digest))
    return records


def lines_of(records: Iterable[Record], id: str = "s") -> list[bytes]:
    return [encode_line(Header(id=id)), *map(encode_line, records)]


def put_lines(folder: Path, lines: Iterable[bytes], id: str = "s") -> Path:
    """Write the file of a session as it is given."""
    folder.mkdir(exist_ok=True)
    path = folder / f"{id}.jsonl"
    path.write_bytes(b"".join(lines))
    return path


def ids_in(store: JsonlStore, session: str = "s") -> list[str]:
    """Return the ids of the entries on the way to the end of the main branch."""
    head = store.heads(session)[MAIN_BRANCH]
    assert head is not None
    found = [entry for entry, _ in store.read_back(session, head)][::-1]
    assert all(later.parent == earlier.id for earlier, later in pairwise(found))
    return [entry.id for entry in found]
