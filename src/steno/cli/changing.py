"""`steno sessions fork`, `label`, `rename`, `redact` and `rm`: the commands that change what is there."""

from __future__ import annotations

import argparse
import getpass
import sys
from typing import Final

from steno.captions import check_label, type_of
from steno.cli.log import Log
from steno.cli.paper import note
from steno.cli.place import existing_store, find_session, telling_damage
from steno.cli.words import gist_of
from steno.conversation import Conversation
from steno.entry import Redacted
from steno.errors import Conflict, InvalidDocument, InvalidValue, LogError
from steno.identity import utc_now
from steno.printable import counted, cut, on_one_line
from steno.store import Store

NONSENSE: Final = 2
_NOT_DONE: Final = 1
_GIST: Final = 60


def fork(options: argparse.Namespace) -> int:
    """Begin a branch, or copy a session."""
    if options.name is not None and not options.name.strip():
        raise InvalidValue("--name: it is blank; give the branch a name, or leave it out")
    with existing_store(options) as store:
        session = find_session(store, options.session)
        log = Log.read(store, session)
        at = None if options.at is None else log.find_entry(options.at).id
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
    check_label(options.text)
    with existing_store(options) as store:
        session = find_session(store, options.session)
        log = Log.read(store, session)
        target = log.find_entry(options.entry)
        store.open(session).label(target.id, options.text)
        note(f"{log.number(target.id)} is called {on_one_line(options.text)}")
    return 0


def rename(options: argparse.Namespace) -> int:
    """Give a session another title."""
    if not options.title.strip():
        raise InvalidValue("rename: the title is blank; say what the session is about")
    with existing_store(options) as store:
        session = find_session(store, options.session)
        with telling_damage(session):
            store.rename(session, options.title)
        note(f"session {on_one_line(session)} is called {on_one_line(options.title)}")
    return 0


def redact(options: argparse.Namespace) -> int:
    """Take the content out of an entry for good."""
    if not options.reason.strip():
        raise InvalidValue("--reason: it is blank; say why")
    actor = options.actor or _user()
    with existing_store(options) as store:
        session = find_session(store, options.session)
        log = Log.read(store, session)
        target = log.find_entry(options.entry)
        number = log.number(target.id)
        what = f"{number} {type_of(target)}  {cut(gist_of(target, log), _GIST)}"
        question = f"Take the content of {number} out for good?"
        status = _unwanted("redact", question, [what], is_sure=options.yes)
        if status is not None:
            return status
        store.redact(session, target.id, actor=actor, reason=options.reason)
        if isinstance(target.payload, Redacted):
            note(f"{number} had been taken out before; it was erased once more")
        else:
            note(f"{number} was taken out, by {on_one_line(actor)}")
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


# -- what cannot be undone -------------------------------------------------------------------


def _unwanted(command: str, question: str, lines: list[str], *, is_sure: bool) -> int | None:
    """Ask before something is gone for good; return the exit status if it is to stay."""
    if is_sure:
        return None
    if not sys.stdin.isatty():
        note(f"{command}: there is nobody to ask; add --yes to do it without a question")
        return NONSENSE
    for line in lines:
        print(f"  {line}".rstrip(), file=sys.stderr)
    print(f"{question} [y/N] ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() in ("y", "yes"):
        return None
    note("nothing was changed")
    return _NOT_DONE


def remove(options: argparse.Namespace) -> int:
    """Remove sessions, and the blobs that no other refers to."""
    with existing_store(options) as store:
        sessions = list(dict.fromkeys([find_session(store, name) for name in options.sessions]))
        question = f"Remove {counted(len(sessions), 'session', 'sessions')} for good?"
        lines = [f"{on_one_line(session)}  {_title(store, session)}" for session in sessions]
        status = _unwanted("rm", question, lines, is_sure=options.yes)
        if status is not None:
            return status
        for session in sessions:
            store.remove(session)
        note(f"removed: {counted(len(sessions), 'session', 'sessions')}")
        try:
            store.collect_garbage()
        except (LogError, InvalidDocument) as exc:
            note(f"its blobs are still there: {exc}")
    return 0


def _title(store: Store, session: str) -> str:
    try:
        return on_one_line(store.summary(session).title)
    except (LogError, InvalidDocument):
        return "(damaged)"
