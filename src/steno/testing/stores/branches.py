"""Cases about branches: who may write behind what, and what is kept of where they went."""

from __future__ import annotations

from functools import partial

from steno.chain import digest_of
from steno.conversation import Conversation
from steno.entry import BranchSwitch, Entry, Rewind
from steno.errors import Conflict, Missing
from steno.identity import new_id
from steno.message import ChatMessage
from steno.record import MAIN
from steno.store import Store
from steno.testing.stores.expecting import (
    MORNING,
    TALK,
    expect,
    expect_intact,
    expect_kept,
    expect_refusal,
    kept,
    talked,
)
from steno.testing.stores.subject import Subject

_ODD_BRANCHES = ("a/b", "../x", "MAIN", "main ", "日本", "'", '"', "a\u2028b", "long" * 100, "%s")


def _append(
    store: Store, conversation: Conversation, *, id: str, branch: str, expected: str | None
) -> None:
    """Append to the store itself, behind the conversation's back."""
    parent = conversation.branches.get(MAIN)
    assert parent is not None
    entry = Entry(id=id, parent=parent, time=MORNING, payload=ChatMessage.user("behind its back"))
    digest = digest_of(entry, conversation.digest(parent))
    store.append(conversation.id, entry, branch=branch, digest=digest, expected=expected)


def heads_order(subject: Subject) -> None:
    """Heads name the branch whose entry came last at the end, and it is the one that opens."""
    with subject.open() as store:
        conversation = talked(store)
        session = conversation.id
        for name in ("one", "two", "three"):
            conversation.fork(name)
        order = ["one", "two", "three", MAIN]
        expect(list(store.heads(session)), order, "branches that nothing was written to yet")
        for name in ("two", MAIN, "one"):
            conversation.append(ChatMessage.user(name), branch=name)
            order.remove(name)
            order.append(name)
            expect(list(store.heads(session)), order, f"branches after {name} was written to")
    with subject.open() as store:
        expect(list(store.heads(session)), order, "branches after it was opened again")
        expect(store.open(session).branch, "one", "the branch that is active then")


def conflict_on_lost_race(subject: Subject) -> None:
    """Who does not know the last entry of a branch may not write behind it."""
    with subject.open() as store, subject.open() as other:
        first = talked(store)
        second = other.open(first.id)
        expect(len(second), 5, "entries that both know")
        first.append(ChatMessage.user("first"))
        before = kept(store, first.id)
        expect_refusal(
            Conflict, "the one that came second", lambda: second.append(ChatMessage.user("second"))
        )
        expect_kept(store, first.id, before, "after a lost race")
        second.refresh()
        second.append(ChatMessage.user("second"))
        texts = [message.text for message in store.open(first.id).messages()[-2:]]
        expect(texts, ["first", "second"], "what was said, after a refresh")
        expect_intact(store, first.id, entries=7)
        stale = first.branches[MAIN]
        expect_refusal(
            Conflict,
            "an entry that expects nothing before it",
            lambda: _append(store, first, id=new_id(), branch=MAIN, expected=None),
        )
        expect_refusal(
            Conflict,
            "an entry that expects an older one",
            lambda: _append(store, first, id=new_id(), branch=MAIN, expected=stale),
        )


def id_taken(subject: Subject) -> None:
    """No two entries of a session have one id, on whichever branch."""
    with subject.open() as store:
        conversation = talked(store)
        conversation.fork("idea")
        before = kept(store, conversation.id)
        head = conversation.branches[MAIN]
        for branch in (MAIN, "idea"):
            for entry in conversation.entries()[::4]:
                taken = entry.id
                expect_refusal(
                    Conflict,
                    "an id that is taken",
                    partial(_append, store, conversation, id=taken, branch=branch, expected=head),
                )
        expect_kept(store, conversation.id, before, "after an id was refused")
        twin = store.clone(conversation.id)
        expect(len(twin), 5, "entries of another session, which may have the same ids")


def missing_branch(subject: Subject) -> None:
    """Only the main branch need not be begun."""
    with subject.open() as store:
        conversation = talked(store)
        before = kept(store, conversation.id)
        head = conversation.branches[MAIN]
        for expected in (head, None):
            expect_refusal(
                Missing,
                "a branch that was not begun",
                partial(
                    _append, store, conversation, id=new_id(), branch="nowhere", expected=expected
                ),
            )
        expect_kept(store, conversation.id, before, "after that was refused")


def begin_branch_taken(subject: Subject) -> None:
    """Two branches of one name are a Conflict, also with the main branch."""
    with subject.open() as store:
        conversation = talked(store)
        session = conversation.id
        conversation.fork("idea")
        before = kept(store, session)
        for name in ("idea", MAIN):
            for at in (None, conversation.entries()[0].id):
                expect_refusal(
                    Conflict,
                    "a name that is taken",
                    partial(store.begin_branch, session, name, at),
                )
        expect_kept(store, session, before, "after a name was refused")


def branch_begins_with_nothing(subject: Subject) -> None:
    """A branch may begin before anything was said."""
    with subject.open() as store:
        conversation = store.new()
        session = conversation.id
        conversation.fork("empty")
        expect(dict(store.heads(session)), {"empty": None}, "heads")
        conversation.append(ChatMessage.user("here"), branch="empty")
    with subject.open() as store:
        found = store.open(session)
        expect([message.text for message in found.messages("empty")], ["here"], "the new branch")
        expect(found.messages(MAIN), (), "the main branch")
        expect_intact(store, session, entries=1)


def odd_branch_names(subject: Subject) -> None:
    """A branch may have any name, and no two names are one."""
    with subject.open() as store:
        conversation = talked(store)
        session = conversation.id
        for name in _ODD_BRANCHES:
            conversation.fork(name)
            conversation.append(ChatMessage.user(f"on {name!r}"), branch=name)
    with subject.open() as store:
        expect(list(store.heads(session)), [MAIN, *_ODD_BRANCHES], "branches")
        found = store.open(session)
        for name in _ODD_BRANCHES:
            expect(found.messages(name)[-1].text, f"on {name!r}", "what was said on a branch")
        expect_intact(store, session)


def fork_shares_the_past(subject: Subject) -> None:
    """A fork writes one record; both branches then go their own way behind the same entries."""
    with subject.open() as store:
        conversation = talked(store)
        session = conversation.id
        past = conversation.entries()
        conversation.fork("idea", at=past[1].id)
        expect(len(list(store.records(session))), 6, "records after a fork")
        conversation.append(ChatMessage.user("on the fork"), branch="idea")
        conversation.append(ChatMessage.user("on main"), branch=MAIN)
    with subject.open() as store:
        found = store.open(session)
        expect(found.entries("idea")[:-1], past[:2], "the shared past")
        expect(found.entries(MAIN)[:-1], past, "the past of the main branch")
        expect(found.messages("idea")[-1].text, "on the fork", "the last word on the fork")
        expect(found.messages(MAIN)[-1].text, "on main", "the last word on the main branch")
        expect_intact(store, session, entries=7)


def rewind_keeps_what_was_left(subject: Subject) -> None:
    """After a rewind the branch goes on from before, and what was left can still be read."""
    with subject.open() as store:
        conversation = talked(store)
        session = conversation.id
        past = conversation.entries()
        conversation.rewind(past[1].id)
        conversation.append(ChatMessage.assistant("Another answer."))
    with subject.open() as store:
        found = store.open(session)
        entries = found.entries()
        expect(entries[:2], past[:2], "what stands before the rewind")
        expect(entries[2].payload, Rewind(left=past[-1].id), "the rewind")
        expect(found.messages(), (*TALK[:2], ChatMessage.assistant("Another answer.")), "messages")
        expect(
            [e for e, _ in store.read_back(session, past[-1].id)], list(past[::-1]), "what was left"
        )
        expect(found.entry(past[-1].id), past[-1], "the entry that was left")
        expect_intact(store, session, entries=7)


def switch_is_recorded(subject: Subject) -> None:
    """Going to another branch is on record there, and holds when it is opened again."""
    with subject.open() as store:
        conversation = talked(store)
        session = conversation.id
        conversation.fork("idea")
        conversation.switch("idea")
    with subject.open() as store:
        found = store.open(session)
        expect(found.branch, "idea", "the active branch")
        expect(found.entries()[-1].payload, BranchSwitch(old=MAIN, new="idea"), "the last entry")
        expect(found.messages(), TALK, "messages: a switch is none")
        found.switch(MAIN)
        expect(list(store.heads(session)), ["idea", MAIN], "branches after going back")
        expect_intact(store, session, entries=7)


def clone_is_independent(subject: Subject) -> None:
    """A clone has the same past, digests included, and neither sees what the other does."""
    with subject.open() as store:
        original = talked(store)
        original.fork("idea")
        original.append(ChatMessage.user("idea"), branch="idea")
        before = kept(store, original.id)
        twin = store.clone(original.id, title="twin")
        expect(kept(store, twin.id)[1:], before[1:], "records and heads of the clone")
        header = store.header(twin.id)
        expect((header.cloned_from, header.title), (original.id, "twin"), "header of the clone")
        twin.append(ChatMessage.user("only in the clone"))
        expect_kept(store, original.id, before, "the original, after the clone was written to")
        original.append(ChatMessage.user("only in the original"), branch=MAIN)
        store.remove(original.id)
        expect_intact(store, twin.id, entries=7)
        expect(store.open(twin.id).messages()[-1].text, "only in the clone", "its last word")
