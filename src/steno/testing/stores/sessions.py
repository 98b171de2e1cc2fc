"""Cases about sessions: begun, gone on with, listed, summed up, removed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Final

from msgspec.structs import replace

from steno.chain import digest_of
from steno.codec import decode_header, encode_header
from steno.entry import Entry
from steno.errors import Conflict, InvalidValue, LogError, Missing, StenoError
from steno.identity import new_id
from steno.message import ChatMessage
from steno.record import MAIN, Header, Record
from steno.testing.stores.expecting import (
    MORNING,
    TALK,
    Unmet,
    expect,
    expect_intact,
    expect_kept,
    expect_refusal,
    fresh_header,
    kept,
    linked,
    require,
    talked,
)
from steno.testing.stores.subject import Subject

_HOSTILE: Final = (
    *("../../etc/passwd", "/etc/passwd", "..", ".", "a/b", "a\\b", "~", "-rf", "a b", "C:x"),
    *("con", "case", "CASE", "%2e%2e", "x.jsonl", "'; drop table records; --", "日本", "e\u0301"),
    *("\u00e9", "\u2028", "long" * 100, "%", "_", "\n", " ", "null"),
)


def append_and_read_back(subject: Subject) -> None:
    """What was appended is there: entries, digests, messages and heads, for whoever opens it."""
    with subject.open() as store:
        conversation = talked(store)
        session = conversation.id
        entries = conversation.entries()
        digests = [conversation.digest(entry.id) for entry in entries]
    with subject.open() as store:
        records = list(store.records(session))
        expect([record.seq for record in records], [1, 2, 3, 4, 5], "seq of the records")
        expect([record.branch for record in records], [MAIN] * 5, "branches of the records")
        expect([record.entry for record in records], list(entries), "entries")
        expect([record.digest for record in records], digests, "digests")
        expect(dict(store.heads(session)), {MAIN: entries[-1].id}, "heads")
        expect(store.open(session).messages(), TALK, "messages")
        back = list(store.read_back(session, entries[2].id))
        wanted = list(zip(entries[2::-1], digests[2::-1], strict=True))
        expect(back, wanted, "an entry and what came before it, read back")
        expect_intact(store, session, entries=5)


def reopen_goes_on(subject: Subject) -> None:
    """A session that is opened again goes on where it ended, as often as one likes."""
    with subject.open() as store:
        session = store.new().id
        expect(dict(store.heads(session)), {}, "heads of a session without records")
        expect(list(store.records(session)), [], "records of a new session")
    for number in range(1, 6):
        with subject.open() as store:
            conversation = store.open(session)
            expect(len(conversation), number - 1, "entries after it was opened again")
            conversation.append(ChatMessage.user(f"question {number}"))
    with subject.open() as store:
        expect_intact(store, session, entries=5)


def header_is_kept(subject: Subject) -> None:
    """A header comes back byte for byte, with what a newer steno put into it."""
    session = new_id()
    raw = (
        f'{{"v":2,"id":"{session}","title":"A\\u0000b \u2028 \U0001f600","cloned_from":"other",'
        '"about":{"folder":"/work","n":12345678901234567890},"mood":{"x":1.50,"y":"\\u0041"}}'
    ).encode()
    wanted = encode_header(decode_header(raw))
    with subject.open() as store:
        store.add_session(decode_header(raw))
    with subject.open() as store:
        require(
            encode_header(store.header(session)) == wanted, "the header must come back as it was"
        )
        listed = [header for header in store.headers() if header.id == session]
        expect([encode_header(header) for header in listed], [wanted], "the header in the list")


def rename_changes_the_title_only(subject: Subject) -> None:
    """A session gets another title, or none; the rest of its header, and all records, stay."""
    raw = f'{{"v":2,"id":"{new_id()}","title":"old","about":{{"n":1.50}},"mood":[1.50]}}'
    header = decode_header(raw)
    with subject.open() as store, subject.open() as other:
        store.add_session(header, linked(TALK))
        wanted = kept(store, header.id)
        conversation = other.open(header.id)
        title: str | None = None
        for title in ("A new \0 \u2028 title \U0001f600", "old", None, "long " * 2_000):
            store.rename(header.id, title)
            wanted = wanted._replace(header=encode_header(replace(header, title=title)))
            for opened in (store, other):
                expect_kept(opened, header.id, wanted, "after it was given another title")
            shown = title or "Is it broken?"
            expect(store.summary(header.id).title, shown, "the title that a list shows")
        expect_refusal(InvalidValue, "half a character", lambda: store.rename(header.id, "\ud800"))
        expect_kept(store, header.id, wanted, "after a title was refused")
        conversation.append(ChatMessage.user("Going on."))
    with subject.open() as store:
        expect(store.header(header.id).title, title, "the title, after all was opened again")
        expect_intact(store, header.id, entries=len(TALK) + 1)


def missing_session(subject: Subject) -> None:
    """Whatever is asked of a session that is not there is Missing."""
    gone = new_id()
    entry = Entry(id=new_id(), payload=TALK[1])
    digest = digest_of(entry, None)
    with subject.open() as store:
        expect_refusal(Missing, "header", lambda: store.header(gone))
        expect_refusal(Missing, "heads", lambda: store.heads(gone))
        expect_refusal(Missing, "records", lambda: store.records(gone))
        expect_refusal(Missing, "read_back", lambda: store.read_back(gone, entry.id))
        expect_refusal(Missing, "remove", lambda: store.remove(gone))
        expect_refusal(Missing, "rename", lambda: store.rename(gone, "a title"))
        expect_refusal(Missing, "open", lambda: store.open(gone))
        expect_refusal(Missing, "clone", lambda: store.clone(gone))
        expect_refusal(Missing, "summary", lambda: store.summary(gone))
        expect_refusal(Missing, "verify", lambda: store.verify(gone))
        expect_refusal(Missing, "begin_branch", lambda: store.begin_branch(gone, "b", None))
        expect_refusal(
            Missing,
            "append",
            lambda: store.append(gone, entry, branch=MAIN, digest=digest, expected=None),
        )
        record = Record(seq=1, branch=MAIN, entry=entry, digest=digest)
        expect_refusal(Missing, "replace", lambda: store.replace(gone, record))
        require(
            gone not in {header.id for header in store.headers()},
            "asking for a session must not begin it",
        )


def missing_entry(subject: Subject) -> None:
    """An entry that is not there is Missing, in a session that is."""
    with subject.open() as store:
        session = talked(store).id
        expect_refusal(Missing, "read_back", lambda: store.read_back(session, new_id()))
        expect_refusal(Missing, "begin_branch", lambda: store.begin_branch(session, "b", new_id()))
        expect(list(store.heads(session)), [MAIN], "branches after one could not begin")
        conversation = store.open(session)
        expect_refusal(Missing, "entry", lambda: conversation.entry(new_id()))


def session_taken(subject: Subject) -> None:
    """A second session of an id is a Conflict, and the first stays as it was."""
    with subject.open() as store:
        session = talked(store).id
        before = kept(store, session)
        again = Header(id=session, title="another")
        expect_refusal(Conflict, "add_session", lambda: store.add_session(again))
        expect_refusal(
            Conflict, "add_session with records", lambda: store.add_session(again, linked(TALK))
        )
        expect_kept(store, session, before, "the session of that id")


def odd_session_names(subject: Subject) -> None:
    """A session may have any id: it is no path, no pattern and no command, and no two are one."""
    tag = new_id()
    names = [tag + name for name in _HOSTILE] + [f"{name}{tag}" for name in _HOSTILE]
    with subject.open() as store:
        for name in names:
            store.add_session(Header(id=name), linked([ChatMessage.user(f"in {name!r}")]))
        try:
            store.add_session(Header(id=f"{tag}\0"))
        except StenoError:
            pass  # a database need not have a place for NUL
        else:
            expect(store.header(f"{tag}\0").id, f"{tag}\0", "the id with a NUL")
    with subject.open() as store:
        found = {header.id for header in store.headers()}
        require(found.issuperset(names), "every session must be listed under its own id")
        for name in names:
            [message] = store.open(name).messages()
            expect(message.text, f"in {name!r}", "what was said in a session with an odd id")
        store.remove(names[0])
        for name in names[1:]:
            expect(store.header(name).id, name, "a session, after another was removed")


def many_sessions(subject: Subject) -> None:
    """Sessions do not get in each other's way."""
    many = subject.scale.sessions
    with subject.open() as store:
        sessions = [store.new([ChatMessage.user(f"session {n}")]).id for n in range(many)]
    with subject.open() as store:
        listed = [header.id for header in store.headers()]
        expect(len(listed), len(set(listed)), "sessions that are listed, each once")
        require(set(sessions) <= set(listed), "every session must be listed")
        for number, session in enumerate(sessions):
            [message] = store.open(session).messages()
            expect(message.text, f"session {number}", "what was said in a session")


def hundred_thousand_entries(subject: Subject) -> None:
    """A long session arrives whole, opens ready to send, and goes on."""
    many = subject.scale.entries
    header = fresh_header()
    with subject.open() as store:
        store.add_session(header, linked(ChatMessage.user(f"entry {n}") for n in range(many)))
    with subject.open() as store:
        conversation = store.open(header.id)
        messages = conversation.messages()
        expect(len(messages), many, "messages after it was opened")
        expect((messages[0].text, messages[-1].text), ("entry 0", f"entry {many - 1}"), "both ends")
        conversation.append(ChatMessage.assistant("So many."))
        expect(len(store.open(header.id)), many + 1, "entries after one more")
        expect_intact(store, header.id, entries=many + 1)


def summary(subject: Subject) -> None:
    """A list can show title, size, branches and age of a session."""
    with subject.open() as store:
        header = fresh_header()
        store.add_session(header, linked(TALK))
        conversation = store.open(header.id)
        conversation.fork("idea")
        found = store.summary(header.id)
        expect(found.title, "Is it broken?", "the title, where there is only a question")
        expect(found.entries, 5, "entries")
        expect(sorted(found.branches), ["idea", MAIN], "branches")
        expect(found.updated_at, conversation.entries()[-1].time, "when the last entry was written")
        expect(found.header, header, "the header")
        titled = store.new(TALK, title="Mending")
        expect(store.summary(titled.id).title, "Mending", "the title, where there is one")
        empty = store.summary(store.new().id)
        expect((empty.title, empty.entries, empty.updated_at), ("", 0, None), "an empty session")


def remove_forgets(subject: Subject) -> None:
    """A session that was removed is nowhere any more, and its id can be used again."""
    word = f"word{new_id().replace('-', '')}"
    with subject.open() as store:
        session = store.new([ChatMessage.user(word)]).id
        other = talked(store).id
        before = kept(store, other)
        store.remove(session)
        expect_refusal(Missing, "header after remove", lambda: store.header(session))
    with subject.open() as store:
        expect_refusal(Missing, "records after remove", lambda: store.records(session))
        require(session not in {header.id for header in store.headers()}, "it must not be listed")
        expect(store.search(word), [], "what a search finds of it")
        expect_refusal(Missing, "remove after remove", lambda: store.remove(session))
        expect_kept(store, other, before, "another session")
        store.new([ChatMessage.user("anew")], id=session)
        expect(len(store.open(session)), 1, "entries of a new session of the same id")


def failed_write_leaves_nothing(subject: Subject) -> None:
    """A session that cannot be added as a whole is not there at all; nor is a refused entry."""
    header = fresh_header()

    def breaks_off() -> Iterator[Record]:
        yield from linked(TALK)
        raise Unmet("the source of the records broke off")

    with subject.open() as store:
        _expect_broken_off(lambda: store.add_session(header, breaks_off()))
        expect_refusal(Missing, "a session that was half added", lambda: store.header(header.id))
    with subject.open() as store:
        require(header.id not in {one.id for one in store.headers()}, "it must not be listed")
        store.add_session(header, linked(TALK))
        before = kept(store, header.id)
        late = Entry(id=new_id(), time=MORNING, payload=TALK[1])
        digest = digest_of(late, None)
        for branch, expected in ((MAIN, None), (MAIN, new_id()), ("nowhere", None)):
            expect_refusal(
                LogError,
                "an entry at the wrong place",
                partial(
                    store.append, header.id, late, branch=branch, digest=digest, expected=expected
                ),
            )
        expect_kept(store, header.id, before, "after entries were refused")


def _expect_broken_off(act: Callable[[], None]) -> None:
    """Let the records break off; whatever comes of it is fine, but not silence."""
    try:
        act()
    except (Unmet, LogError):
        return
    raise Unmet("add_session must not pass over records that cannot be read")


def closed_store(subject: Subject) -> None:
    """A store can be closed twice; after that it works, or says that it is closed in our words."""
    with subject.open() as store:
        session = talked(store).id
        before = kept(store, session)
        store.close()
        store.close()
        for act in (
            lambda: store.header(session),
            lambda: list(store.records(session)),
            lambda: store.put_blob(b"late"),
            lambda: list(store.blobs()),
        ):
            try:
                act()
            except LogError:
                continue
            except Exception as exc:
                kind = type(exc).__name__
                raise Unmet(f"a closed store: expected LogError if anything, got {kind}") from exc
    with subject.open() as store:
        expect_kept(store, session, before, "after the store was closed and opened again")
