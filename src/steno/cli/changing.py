"""`steno sessions fork`, `label`, `redact` and `rm`: the commands that change what is there."""

from __future__ import annotations

import argparse
import getpass
import sys
from typing import Final

from steno.cli.log import Log
from steno.cli.paper import note
from steno.cli.place import existing_store, find_session
from steno.cli.printable import counted, on_one_line
from steno.conversation import Conversation
from steno.errors import Conflict, InvalidValue, LogError
from steno.identity import utc_now
from steno.store import Store

NONSENSE: Final = 2


def fork(options: argparse.Namespace) -> int:
    """Begin a branch, or copy a session."""
    with existing_store(options) as store:
        session = find_session(store, options.session)
        log = Log.read(store, session)
        at = None if options.at is None else log.named(options.at).id
        name = options.name or f"fork-{utc_now():%Y%m%d-%H%M%S}"
        if name in log.heads:
            raise Conflict("fork: there is a branch of this name; choose another with --name")
        if options.clone:
            branch = name if options.at is not None or options.name is not None else None
            print(clone := _clone(store, session, branch, at))
            begun = "" if branch is None else f", with a branch {on_one_line(branch)}"
            note(f"session {clone} is a copy of {on_one_line(session)}{begun}")
        else:
            _branch_off(store.open(session), name, at)
            print(on_one_line(name))
            head = at or log.heads.get(log.active)
            place = "with nothing before it" if head is None else f"behind {log.number(head)}"
            note(f"session {on_one_line(session)} goes on {place}, in branch {on_one_line(name)}")
    return 0


def _clone(store: Store, session: str, branch: str | None, at: str | None) -> str:
    """Copy a session, with a branch that begins where it should go on; all of it, or nothing."""
    clone = store.clone(session)
    if branch is not None:
        try:
            _branch_off(clone, branch, at)
        except BaseException:
            store.remove(clone.id)
            raise
    return clone.id


def label(options: argparse.Namespace) -> int:
    """Give an entry a name."""
    with existing_store(options) as store:
        session = find_session(store, options.session)
        log = Log.read(store, session)
        target = log.named(options.entry)
        store.open(session).label(target.id, options.text)
        note(f"{log.number(target.id)} is called {on_one_line(options.text)}")
    return 0


def redact(options: argparse.Namespace) -> int:
    """Take the content out of an entry for good."""
    actor = options.actor or _user()
    with existing_store(options) as store:
        session = find_session(store, options.session)
        log = Log.read(store, session)
        target = log.named(options.entry)
        store.redact(session, target.id, actor=actor, reason=options.reason)
        note(f"{log.number(target.id)} was taken out, by {on_one_line(actor)}")
    return 0


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):
        raise InvalidValue("redact: nobody knows who you are; say so with --actor") from None


def _branch_off(conversation: Conversation, branch: str, at: str | None) -> None:
    """Let a conversation go on in a branch of its own, which is recorded there."""
    conversation.fork(branch, at=at)
    conversation.switch(branch)


# -- removal ---------------------------------------------------------------------------------


def remove(options: argparse.Namespace) -> int:
    """Remove sessions, and the blobs that no other refers to."""
    with existing_store(options) as store:
        sessions = list(dict.fromkeys([find_session(store, name) for name in options.sessions]))
        if not options.yes:
            if not sys.stdin.isatty():
                note("rm: there is nobody to ask; add --yes to remove without a question")
                return NONSENSE
            if not _is_wanted(store, sessions):
                note("nothing was removed")
                return 1
        for session in sessions:
            store.remove(session)
        note(f"removed: {counted(len(sessions), 'session', 'sessions')}")
        try:
            store.collect_garbage()
        except LogError as exc:
            note(f"its blobs are still there: {exc}")
    return 0


def _is_wanted(store: Store, sessions: list[str]) -> bool:
    for session in sessions:
        print(f"  {on_one_line(session)}  {_title(store, session)}".rstrip(), file=sys.stderr)
    what = counted(len(sessions), "session", "sessions")
    print(f"Remove {what} for good? [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _title(store: Store, session: str) -> str:
    try:
        return on_one_line(store.summary(session).title)
    except LogError:
        return "(damaged)"
