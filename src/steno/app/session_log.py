"""All of one session, read once: what its entries are called, and how they hang together.

For people an entry has a number, that of its record: short, and the same for ever.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, final

from steno.app.sessions import count_entries, explain_damage, pick_one
from steno.errors import Damaged, Missing
from steno.log.queries import labels_of, tools_by_call
from steno.messages.message import Message
from steno.records.entry import Entry, Resolution
from steno.records.stored_record import MAIN_BRANCH, Header, Record
from steno.render.describe import EntryDescription, describe_entry, summarize_call
from steno.render.message_text import block_passage, describe_resolution
from steno.render.progress import show_progress
from steno.render.terminal_text import terminal_line, terminal_text
from steno.store import Store
from steno.store.base import BranchHeads

_ENTRY_NUMBER: Final = re.compile(r"#?([1-9][0-9]{0,11})")


@final
class SessionLog:
    """The records of a session, and what follows from them."""

    def __init__(self, header: Header, records: Iterable[Record]) -> None:
        """Take the records of a session in the order they were written."""
        self.header: Final = header
        self.records: Final = tuple(records)
        self.entries: Final[dict[str, Entry]] = {}
        self.numbers: Final[dict[str, int]] = {}
        heads = BranchHeads()
        for record in self.records:
            if record.entry is None:
                heads.begin(record.branch, record.at)
            else:
                heads.write(record.branch, record.entry.id)
                self.entries[record.entry.id] = record.entry
                self.numbers[record.entry.id] = record.seq
        self.heads: Final = heads.all()
        """The last entry of every branch, the branch that was written to last at the end."""
        self._by_number: Final = {self.numbers[id]: entry for id, entry in self.entries.items()}
        self.labels: Final = labels_of(self.entries.values())
        self.tools: Final = tools_by_call(self.entries.values())
        """The name of the tool that each call asks for, by the id of the call."""
        messages = [entry.message for entry in self.entries.values() if entry.message is not None]
        self.calls: Final = {call.id: call for one in messages for call in one.tool_calls}
        """What was called, by the id of the call."""

    @classmethod
    def read(cls, store: Store, session: str) -> SessionLog:
        """Read a session, and show how far that is. Raises Missing, Damaged."""
        length = count_entries(store, session)
        with explain_damage(session), show_progress("reading records", length) as shown:
            return cls(store.header(session), shown.track(store.records(session)))

    @property
    def active(self) -> str:
        """The branch that was written to last."""
        return next(reversed(self.heads), MAIN_BRANCH)

    def number(self, entry_id: str) -> str:
        """Return how an entry is called; a question mark if it is not there."""
        number = self.numbers.get(entry_id)
        return "#?" if number is None else f"#{number}"

    def path(self, branch: str | None = None) -> list[Entry]:
        """Return the entries of a branch from the first to the last. Raises Missing, Damaged."""
        name = self.active if branch is None else branch
        if name not in self.heads and name != MAIN_BRANCH:
            known = ", ".join(map(terminal_text, self.heads))
            raise Missing(f"branch: there is none of this name, but {known or MAIN_BRANCH}")
        path: list[Entry] = []
        wanted, before = self.heads.get(name), len(self.records) + 1
        while wanted is not None:
            number = self.numbers.get(wanted, before)
            if number >= before:
                raise Damaged("session: what came before an entry is not there; see steno verify")
            path.append(self.entries[wanted])
            wanted, before = path[-1].parent, number
        return path[::-1]

    def find_entry(self, name: str) -> Entry:
        """Return the entry that is meant: by its number, id, label, or the beginning of its id.

        A number is what every command prints, so nothing else that reads like one can get in its
        way. Raises Missing if there is none or more than one.
        """
        number = _ENTRY_NUMBER.fullmatch(name)
        if number is not None and int(number[1]) <= len(self.records):
            return self._entry_by_number(int(number[1]))
        if name in self.entries:
            return self.entries[name]
        found: list[str] = []
        if number is None:
            if self.labels.get(name) in self.entries:
                return self.entries[self.labels[name]]
            found = [id for id in self.entries if name and id.startswith(name)]
        what = f"entry {terminal_line(name)}".rstrip()
        return self.entries[pick_one(found, what, "`steno sessions tree` shows them")]

    def _entry_by_number(self, number: int) -> Entry:
        if number not in self._by_number:
            raise Missing(
                f"entry #{number}: there a branch begins, which takes a number and is no entry; "
                "`steno sessions tree` shows the entries"
            )
        return self._by_number[number]


# -- words -----------------------------------------------------------------------------------------
#
# Entries in words: who said it, what was said, called, returned, decided.
#
# Everything here is printable; nothing here prints.


def summarize_entry(entry: Entry, log: SessionLog) -> str:
    """Return what an entry says, on one line."""
    if isinstance(entry.payload, Message):
        passages = map(block_passage, entry.payload.content)
        words = [terminal_line(passage.text) for passage in passages if passage.style != "dim"]
        return " ".join(filter(None, words))
    return terminal_line(describe_log_entry(entry, log))


# -- everything else -------------------------------------------------------------------------


def describe_log_entry(entry: Entry, log: SessionLog) -> str:
    """Return what an entry says that is no message."""

    def call(call_id: str) -> str:
        known = log.calls.get(call_id)
        return terminal_line(call_id) if known is None else summarize_call(known)

    def found(resolution: Resolution) -> EntryDescription:
        target = log.entries.get(resolution.target)
        told = describe_resolution(None if target is None else target.payload, resolution)
        return EntryDescription(f"{log.number(resolution.target)}, {told}")

    return ": ".join(filter(None, describe_entry(entry, number=log.number, call=call, found=found)))
