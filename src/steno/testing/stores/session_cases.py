"""Cases about sessions and branches.

The cases create, reopen, list, summarize, clone and remove sessions. They fork, rewind and switch
branches, and check that a writer must know the head of a branch to append to the branch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Final

from msgspec.structs import replace

from steno.codec import decode_header, encode_header
from steno.errors import Conflict, InvalidValue, LogError, Missing, StenoError
from steno.ids import new_id
from steno.log.chain import entry_digest
from steno.log.conversation import Conversation
from steno.messages.message import ChatMessage
from steno.records.entry import BranchSwitch, Entry, Rewind
from steno.records.stored_record import MAIN_BRANCH, Header, Record
from steno.store import Store
from steno.testing.case_results import CaseFailure, expect, require
from steno.testing.stores.store_harness import (
    SAMPLE_MESSAGES,
    START_TIME,
    StoreHarness,
    allow_log_error,
    chain_records,
    expect_intact,
    expect_raises,
    expect_stored,
    new_header,
    new_sample_session,
    read_session,
)

_HOSTILE_SESSION_IDS: Final = (
    *("../../etc/passwd", "/etc/passwd", "..", ".", "a/b", "a\\b", "~", "-rf", "a b", "C:x"),
    *("con", "case", "CASE", "%2e%2e", "x.jsonl", "'; drop table records; --", "日本", "e\u0301"),
    *("\u00e9", "\u2028", "long" * 100, "%", "_", "\n", " ", "null"),
)
_ODD_BRANCH_NAMES: Final = (
    *("a/b", "../x", "MAIN", "main ", "日本", "'", '"', "a\u2028b", "long" * 100, "%s"),
)


# -- sessions ----------------------------------------------------------------------------------


def append_and_read_back(harness: StoreHarness) -> None:
    """Check that entries, digests, messages and heads are read back after reopening."""
    with harness.open() as store:
        conversation = new_sample_session(store)
        session = conversation.id
        entries = conversation.entries()
        digests = [conversation.digest(entry.id) for entry in entries]
    with harness.open() as store:
        records = list(store.records(session))
        expect([record.seq for record in records], [1, 2, 3, 4, 5], "seq of the records")
        expect([record.branch for record in records], [MAIN_BRANCH] * 5, "branches of the records")
        expect([record.entry for record in records], list(entries), "entries")
        expect([record.digest for record in records], digests, "digests")
        expect(dict(store.heads(session)), {MAIN_BRANCH: entries[-1].id}, "heads")
        expect(store.open(session).messages(), SAMPLE_MESSAGES, "messages")
        back = list(store.read_back(session, entries[2].id))
        wanted = list(zip(entries[2::-1], digests[2::-1], strict=True))
        expect(back, wanted, "an entry and its ancestors, read back")
        expect_intact(store, session, entries=5)


def reopen_and_continue(harness: StoreHarness) -> None:
    """Check that a session can be reopened and continued several times."""
    with harness.open() as store:
        session = store.new().id
        expect(dict(store.heads(session)), {}, "heads of a session without records")
        expect(list(store.records(session)), [], "records of a new session")
    for number in range(1, 6):
        with harness.open() as store:
            conversation = store.open(session)
            expect(len(conversation), number - 1, "entries after reopening")
            conversation.append(ChatMessage.user(f"question {number}"))
    with harness.open() as store:
        expect_intact(store, session, entries=5)


def header_round_trip(harness: StoreHarness) -> None:
    """Check that a header is read back byte for byte, including unknown members."""
    session = new_id()
    raw = (
        f'{{"v":2,"id":"{session}","title":"A\\u0000b \u2028 \U0001f600","cloned_from":"other",'
        '"about":{"folder":"/work","n":12345678901234567890},"mood":{"x":1.50,"y":"\\u0041"}}'
    ).encode()
    wanted = encode_header(decode_header(raw))
    with harness.open() as store:
        store.add_session(decode_header(raw))
    with harness.open() as store:
        found = encode_header(store.header(session))
        require(found == wanted, "the header must be read back unchanged")
        listed = [encode_header(header) for header in store.headers() if header.id == session]
        expect(listed, [wanted], "the header in the list")


def rename_changes_only_title(harness: StoreHarness) -> None:
    """Check that `rename` changes or removes only the title of a session."""
    raw = f'{{"v":2,"id":"{new_id()}","title":"old","about":{{"n":1.50}},"mood":[1.50]}}'
    header = decode_header(raw)
    with harness.open() as store, harness.open() as other:
        store.add_session(header, chain_records(SAMPLE_MESSAGES))
        wanted = read_session(store, header.id)
        conversation = other.open(header.id)
        title: str | None = None
        for title in ("A new \0 \u2028 title \U0001f600", "old", None, "long " * 2_000):
            store.rename(header.id, title)
            wanted = wanted._replace(header=encode_header(replace(header, title=title)))
            for opened in (store, other):
                expect_stored(opened, header.id, wanted, "after a rename")
            shown = title or "Is it broken?"
            expect(store.summary(header.id).title, shown, "the title in the summary")
        with expect_raises(InvalidValue, "a title with a lone surrogate"):
            store.rename(header.id, "\ud800")
        expect_stored(store, header.id, wanted, "after a title was rejected")
        conversation.append(ChatMessage.user("Continue."))
    with harness.open() as store:
        expect(store.header(header.id).title, title, "the title after reopening")
        expect_intact(store, header.id, entries=len(SAMPLE_MESSAGES) + 1)


def missing_session(harness: StoreHarness) -> None:
    """Check that every operation on a missing session raises Missing."""
    gone = new_id()
    entry = Entry(id=new_id(), payload=SAMPLE_MESSAGES[1])
    digest = entry_digest(entry, None)
    record = Record(seq=1, branch=MAIN_BRANCH, entry=entry, digest=digest)
    actions: dict[str, Callable[[Store], object]] = {
        "header": lambda store: store.header(gone),
        "heads": lambda store: store.heads(gone),
        "records": lambda store: list(store.records(gone)),
        "read_back": lambda store: list(store.read_back(gone, entry.id)),
        "remove": lambda store: store.remove(gone),
        "rename": lambda store: store.rename(gone, "a title"),
        "open": lambda store: store.open(gone),
        "clone": lambda store: store.clone(gone),
        "summary": lambda store: store.summary(gone),
        "verify": lambda store: store.verify(gone),
        "begin_branch": lambda store: store.begin_branch(gone, "b", None),
        "append": lambda store: store.append(
            gone, entry, branch=MAIN_BRANCH, digest=digest, expected=None
        ),
        "replace": lambda store: store.replace(gone, record),
    }
    with harness.open() as store:
        for name, action in actions.items():
            with expect_raises(Missing, name):
                action(store)
        listed = {header.id for header in store.headers()}
        require(gone not in listed, "reading a missing session must not create it")


def missing_entry(harness: StoreHarness) -> None:
    """Check that operations on a missing entry of an existing session raise Missing."""
    with harness.open() as store:
        session = new_sample_session(store).id
        with expect_raises(Missing, "read_back"):
            list(store.read_back(session, new_id()))
        with expect_raises(Missing, "begin_branch"):
            store.begin_branch(session, "b", new_id())
        expect(list(store.heads(session)), [MAIN_BRANCH], "branches after a failed begin_branch")
        conversation = store.open(session)
        with expect_raises(Missing, "entry"):
            conversation.entry(new_id())


def duplicate_session_id(harness: StoreHarness) -> None:
    """Check that adding a session with an existing id raises Conflict and changes nothing."""
    with harness.open() as store:
        session = new_sample_session(store).id
        before = read_session(store, session)
        again = Header(id=session, title="another")
        with expect_raises(Conflict, "add_session"):
            store.add_session(again)
        with expect_raises(Conflict, "add_session with records"):
            store.add_session(again, chain_records(SAMPLE_MESSAGES))
        expect_stored(store, session, before, "the first session with that id")


def odd_session_ids(harness: StoreHarness) -> None:
    """Check that a session id may look like a path, a pattern or a command."""
    tag = new_id()
    names = [each for name in _HOSTILE_SESSION_IDS for each in (tag + name, name + tag)]
    with harness.open() as store:
        for name in names:
            store.add_session(Header(id=name), chain_records([ChatMessage.user(f"in {name!r}")]))
        try:
            store.add_session(Header(id=f"{tag}\0"))
        except StenoError:
            pass  # a store may reject an id with a NUL
        else:
            expect(store.header(f"{tag}\0").id, f"{tag}\0", "the id with a NUL")
    with harness.open() as store:
        found = {header.id for header in store.headers()}
        require(found.issuperset(names), "every session must be listed with its own id")
        for name in names:
            [message] = store.open(name).messages()
            expect(message.text, f"in {name!r}", "the message of a session with an unusual id")
        store.remove(names[0])
        for name in names[1:]:
            expect(store.header(name).id, name, "a session after another was removed")


def many_sessions(harness: StoreHarness) -> None:
    """Check that each of many sessions is listed once and has its own messages."""
    many = harness.scale.sessions
    with harness.open() as store:
        sessions = [store.new([ChatMessage.user(f"session {n}")]).id for n in range(many)]
    with harness.open() as store:
        listed = [header.id for header in store.headers()]
        expect(len(listed), len(set(listed)), "sessions in the list, each once")
        require(set(sessions) <= set(listed), "every session must be listed")
        for number, session in enumerate(sessions):
            [message] = store.open(session).messages()
            expect(message.text, f"session {number}", "the message of a session")


def hundred_thousand_entries(harness: StoreHarness) -> None:
    """Check that a very long session is stored completely and can be reopened and continued."""
    many = harness.scale.entries
    header = new_header()
    with harness.open() as store:
        messages = (ChatMessage.user(f"entry {n}") for n in range(many))
        store.add_session(header, chain_records(messages))
    with harness.open() as store:
        conversation = store.open(header.id)
        sent = conversation.messages()
        expect(len(sent), many, "messages after reopening")
        expect(
            (sent[0].text, sent[-1].text),
            ("entry 0", f"entry {many - 1}"),
            "the first and the last message",
        )
        conversation.append(ChatMessage.assistant("So many."))
        expect(len(store.open(header.id)), many + 1, "entries after one more")
        expect_intact(store, header.id, entries=many + 1)


def summary(harness: StoreHarness) -> None:
    """Check the title, number of entries, branches and last change in a session's summary."""
    with harness.open() as store:
        header = new_header()
        store.add_session(header, chain_records(SAMPLE_MESSAGES))
        conversation = store.open(header.id)
        conversation.fork("idea")
        found = store.summary(header.id)
        expect(found.title, "Is it broken?", "the summary title of an untitled session")
        expect(found.entries, 5, "entries")
        expect(sorted(found.branches), ["idea", MAIN_BRANCH], "branches")
        expect(found.updated_at, conversation.entries()[-1].time, "the time of the last entry")
        expect(found.header, header, "the header")
        titled = store.new(SAMPLE_MESSAGES, title="Fix the build")
        expect(store.summary(titled.id).title, "Fix the build", "the title of a titled session")
        empty = store.summary(store.new().id)
        times = (empty.updated_at, empty.written_at)
        expect((empty.title, empty.entries, *times), ("", 0, None, None), "an empty session")
        copied = new_header()
        future = START_TIME + timedelta(days=365_000)
        store.add_session(copied, chain_records(SAMPLE_MESSAGES, start=future))
        conversation = store.open(copied.id)
        for number in range(40):
            entry = conversation.label(conversation.entries()[0].id, f"label {number}")
            conversation.fork(f"branch {number}")
            expect(store.summary(copied.id).written_at, entry.time, "the time of the last write")
        latest = future + timedelta(seconds=len(SAMPLE_MESSAGES))
        expect(store.summary(copied.id).updated_at, latest, "the latest time")


def remove_session(harness: StoreHarness) -> None:
    """Check that a removed session is not read, listed or found, and that its id can be reused."""
    word = f"word{new_id().replace('-', '')}"
    with harness.open() as store:
        session = store.new([ChatMessage.user(word)]).id
        other = new_sample_session(store).id
        before = read_session(store, other)
        store.remove(session)
        with expect_raises(Missing, "header after remove"):
            store.header(session)
    with harness.open() as store:
        with expect_raises(Missing, "records after remove"):
            list(store.records(session))
        listed = {header.id for header in store.headers()}
        require(session not in listed, "a removed session must not be listed")
        expect(store.search(word), [], "search hits in a removed session")
        with expect_raises(Missing, "remove after remove"):
            store.remove(session)
        expect_stored(store, other, before, "another session")
        store.new([ChatMessage.user("again")], id=session)
        expect(len(store.open(session)), 1, "entries of a new session with the same id")


def failed_write_changes_nothing(harness: StoreHarness) -> None:
    """Check that a failed add_session and a rejected append leave the store unchanged."""
    header = new_header()

    def breaks_off() -> Iterator[Record]:
        yield from chain_records(SAMPLE_MESSAGES)
        raise CaseFailure("the source of the records failed")

    with harness.open() as store:
        try:
            store.add_session(header, breaks_off())
        except (CaseFailure, LogError):
            pass
        else:
            raise CaseFailure(
                "add_session must raise an error if the iterator of records raises one"
            )
        with expect_raises(Missing, "a session that was only partly added"):
            store.header(header.id)
    with harness.open() as store:
        listed = {found.id for found in store.headers()}
        require(header.id not in listed, "a session that was only partly added must not be listed")
        store.add_session(header, chain_records(SAMPLE_MESSAGES))
        before = read_session(store, header.id)
        late = Entry(id=new_id(), time=START_TIME, payload=SAMPLE_MESSAGES[1])
        digest = entry_digest(late, None)
        for branch, expected in ((MAIN_BRANCH, None), (MAIN_BRANCH, new_id()), ("nowhere", None)):
            with expect_raises(LogError, "an entry on a wrong branch or after a wrong entry"):
                store.append(header.id, late, branch=branch, digest=digest, expected=expected)
        expect_stored(store, header.id, before, "after entries were rejected")


def closed_store(harness: StoreHarness) -> None:
    """Check that a store can be closed twice, after which methods work or raise LogError."""
    with harness.open() as store:
        session = new_sample_session(store).id
        before = read_session(store, session)
        store.close()
        store.close()
        for action in (
            lambda: store.header(session),
            lambda: list(store.records(session)),
            lambda: store.put_blob(b"late"),
            lambda: list(store.blobs()),
        ):
            with allow_log_error("a closed store: expected LogError or no error"):
                action()
    with harness.open() as store:
        expect_stored(store, session, before, "after reopening")


# -- branches ----------------------------------------------------------------------------------


def heads_order(harness: StoreHarness) -> None:
    """Check that `heads` ends with the last written branch, and that a session opens on it."""
    with harness.open() as store:
        conversation = new_sample_session(store)
        session = conversation.id
        for name in ("one", "two", "three"):
            conversation.fork(name)
        order = ["one", "two", "three", MAIN_BRANCH]
        expect(list(store.heads(session)), order, "branches after three forks")
        for name in ("two", MAIN_BRANCH, "one"):
            conversation.append(ChatMessage.user(name), branch=name)
            order.remove(name)
            order.append(name)
            expect(list(store.heads(session)), order, f"branches after a write to {name}")
    with harness.open() as store:
        expect(list(store.heads(session)), order, "branches after reopening")
        expect(store.open(session).branch, "one", "the active branch after reopening")


def conflict_on_lost_race(harness: StoreHarness) -> None:
    """Check that an append raises Conflict if the writer does not know the head of the branch."""
    with harness.open() as store, harness.open() as other:
        first = new_sample_session(store)
        second = other.open(first.id)
        expect(len(second), 5, "entries that both conversations know")
        first.append(ChatMessage.user("first"))
        before = read_session(store, first.id)
        with expect_raises(Conflict, "the second append after the same entry"):
            second.append(ChatMessage.user("second"))
        expect_stored(store, first.id, before, "after a conflict")
        second.refresh()
        second.append(ChatMessage.user("second"))
        texts = [message.text for message in store.open(first.id).messages()[-2:]]
        expect(texts, ["first", "second"], "messages after a refresh")
        expect_intact(store, first.id, entries=7)
        stale = first.branches[MAIN_BRANCH]
        with expect_raises(Conflict, "an append that expects an empty branch"):
            _append_entry(store, first, id=new_id(), branch=MAIN_BRANCH, expected=None)
        with expect_raises(Conflict, "an append that expects an older entry"):
            _append_entry(store, first, id=new_id(), branch=MAIN_BRANCH, expected=stale)


def duplicate_entry_id(harness: StoreHarness) -> None:
    """Check that an existing entry id raises Conflict on every branch of the session."""
    with harness.open() as store:
        conversation = new_sample_session(store)
        conversation.fork("idea")
        before = read_session(store, conversation.id)
        head = conversation.branches[MAIN_BRANCH]
        for branch in (MAIN_BRANCH, "idea"):
            for entry in conversation.entries()[::4]:
                taken = entry.id
                with expect_raises(Conflict, "an entry id that already exists"):
                    _append_entry(store, conversation, id=taken, branch=branch, expected=head)
        expect_stored(store, conversation.id, before, "after an entry was rejected")
        twin = store.clone(conversation.id)
        expect(len(twin), 5, "entries of a clone, which have the same ids")


def missing_branch(harness: StoreHarness) -> None:
    """Check that appending to a branch that does not exist raises Missing."""
    with harness.open() as store:
        conversation = new_sample_session(store)
        before = read_session(store, conversation.id)
        head = conversation.branches[MAIN_BRANCH]
        for expected in (head, None):
            with expect_raises(Missing, "a branch that does not exist"):
                _append_entry(store, conversation, id=new_id(), branch="nowhere", expected=expected)
        expect_stored(store, conversation.id, before, "after an entry was rejected")


def duplicate_branch_name(harness: StoreHarness) -> None:
    """Check that beginning an existing branch, including the main branch, raises Conflict."""
    with harness.open() as store:
        conversation = new_sample_session(store)
        session = conversation.id
        conversation.fork("idea")
        before = read_session(store, session)
        for name in ("idea", MAIN_BRANCH):
            for at in (None, conversation.entries()[0].id):
                with expect_raises(Conflict, "a branch name that already exists"):
                    store.begin_branch(session, name, at)
        expect_stored(store, session, before, "after a branch was rejected")


def branch_in_empty_session(harness: StoreHarness) -> None:
    """Check that a branch can begin in an empty session."""
    with harness.open() as store:
        conversation = store.new()
        session = conversation.id
        conversation.fork("empty")
        expect(dict(store.heads(session)), {"empty": None}, "heads")
        conversation.append(ChatMessage.user("here"), branch="empty")
    with harness.open() as store:
        found = store.open(session)
        expect([message.text for message in found.messages("empty")], ["here"], "the new branch")
        expect(found.messages(MAIN_BRANCH), (), "the main branch")
        expect_intact(store, session, entries=1)


def odd_branch_names(harness: StoreHarness) -> None:
    """Check that a branch may have any name, and that similar names are not confused."""
    with harness.open() as store:
        conversation = new_sample_session(store)
        session = conversation.id
        for name in _ODD_BRANCH_NAMES:
            conversation.fork(name)
            conversation.append(ChatMessage.user(f"on {name!r}"), branch=name)
    with harness.open() as store:
        expect(list(store.heads(session)), [MAIN_BRANCH, *_ODD_BRANCH_NAMES], "branches")
        found = store.open(session)
        for name in _ODD_BRANCH_NAMES:
            expect(found.messages(name)[-1].text, f"on {name!r}", "the last message of a branch")
        expect_intact(store, session)


def fork_shares_entries(harness: StoreHarness) -> None:
    """Check that a fork writes one record, and that both branches share the earlier entries."""
    with harness.open() as store:
        conversation = new_sample_session(store)
        session = conversation.id
        past = conversation.entries()
        conversation.fork("idea", at=past[1].id)
        expect(len(list(store.records(session))), 6, "records after a fork")
        conversation.append(ChatMessage.user("on the fork"), branch="idea")
        conversation.append(ChatMessage.user("on main"), branch=MAIN_BRANCH)
    with harness.open() as store:
        found = store.open(session)
        expect(found.entries("idea")[:-1], past[:2], "the shared entries")
        expect(found.entries(MAIN_BRANCH)[:-1], past, "the earlier entries of the main branch")
        expect(found.messages("idea")[-1].text, "on the fork", "the last message of the fork")
        expect(
            found.messages(MAIN_BRANCH)[-1].text, "on main", "the last message of the main branch"
        )
        expect_intact(store, session, entries=7)


def rewind_keeps_later_entries(harness: StoreHarness) -> None:
    """Check that a branch continues after a rewind, and that the rewound entries are preserved."""
    with harness.open() as store:
        conversation = new_sample_session(store)
        session = conversation.id
        past = conversation.entries()
        conversation.rewind(past[1].id)
        conversation.append(ChatMessage.assistant("Another answer."))
    with harness.open() as store:
        found = store.open(session)
        entries = found.entries()
        expect(entries[:2], past[:2], "the entries before the rewind")
        expect(entries[2].payload, Rewind(left=past[-1].id), "the rewind")
        sent = (*SAMPLE_MESSAGES[:2], ChatMessage.assistant("Another answer."))
        expect(found.messages(), sent, "messages")
        left = [entry for entry, _ in store.read_back(session, past[-1].id)]
        expect(left, list(past[::-1]), "the entries that were rewound")
        expect(found.entry(past[-1].id), past[-1], "an entry that was rewound")
        expect_intact(store, session, entries=7)


def switch_is_recorded(harness: StoreHarness) -> None:
    """Check that a switch is recorded on the new branch, which is active after reopening."""
    with harness.open() as store:
        conversation = new_sample_session(store)
        session = conversation.id
        conversation.fork("idea")
        conversation.switch("idea")
    with harness.open() as store:
        found = store.open(session)
        expect(found.branch, "idea", "the active branch")
        switch = BranchSwitch(old=MAIN_BRANCH, new="idea")
        expect(found.entries()[-1].payload, switch, "the last entry")
        expect(found.messages(), SAMPLE_MESSAGES, "messages, without the switch")
        found.switch(MAIN_BRANCH)
        expect(list(store.heads(session)), ["idea", MAIN_BRANCH], "branches after switching back")
        expect_intact(store, session, entries=7)


def clone_is_independent(harness: StoreHarness) -> None:
    """Check that a clone has the same entries, and that later changes affect only one session."""
    with harness.open() as store:
        original = new_sample_session(store)
        original.fork("idea")
        original.append(ChatMessage.user("idea"), branch="idea")
        before = read_session(store, original.id)
        twin = store.clone(original.id, title="twin")
        expect(read_session(store, twin.id)[1:], before[1:], "records and heads of the clone")
        header = store.header(twin.id)
        expect((header.cloned_from, header.title), (original.id, "twin"), "header of the clone")
        twin.append(ChatMessage.user("only in the clone"))
        expect_stored(store, original.id, before, "the original after a write to the clone")
        original.append(ChatMessage.user("only in the original"), branch=MAIN_BRANCH)
        store.remove(original.id)
        expect_intact(store, twin.id, entries=7)
        expect(
            store.open(twin.id).messages()[-1].text, "only in the clone", "the clone's last message"
        )


def _append_entry(
    store: Store, conversation: Conversation, *, id: str, branch: str, expected: str | None
) -> None:
    """Append an entry to the store directly, bypassing the conversation."""
    parent = conversation.branches.get(MAIN_BRANCH)
    assert parent is not None
    message = ChatMessage.user("not through the conversation")
    entry = Entry(id=id, parent=parent, time=START_TIME, payload=message)
    digest = entry_digest(entry, conversation.digest(parent))
    store.append(conversation.id, entry, branch=branch, digest=digest, expected=expected)
