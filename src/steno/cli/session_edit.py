"""`steno sessions fork`, `label`, `rename`, `redact` and `rm`: change and remove sessions."""

from __future__ import annotations

import argparse
import sys
from typing import Final

from steno.app.folders import user_name
from steno.app.session_log import summarize_entry
from steno.app.session_lookup import explain_damage
from steno.cli.arguments import ExitStatus
from steno.cli.store_options import find_named_session, open_existing_store, read_named_log
from steno.errors import Conflict, InvalidDocument, InvalidValue, LogError
from steno.ids import utc_now
from steno.log.conversation import Conversation
from steno.log.queries import check_label_text
from steno.records.entry import Redacted
from steno.render.describe import entry_type
from steno.render.quantities import format_count
from steno.render.table_output import print_notice
from steno.render.terminal_text import terminal_line, truncate_to_width
from steno.store import Store

_MAX_SUMMARY_LENGTH: Final = 60


def fork_session(options: argparse.Namespace) -> int:
    """Begin a branch, or copy a session."""
    if options.name is not None and not options.name.strip():
        raise InvalidValue(
            "it is blank; give the branch a name, or leave it out",
            code="blank_name",
            place="--name",
        )
    with open_existing_store(options) as store:
        log = read_named_log(store, options.session)
        session = log.header.id
        at = None if options.at is None else log.find_entry(options.at).id
        name = options.name or f"fork-{utc_now():%Y%m%d-%H%M%S}"
        if name in log.heads:
            raise Conflict(
                "there is a branch of this name; choose another with --name",
                code="branch_exists",
                place="fork",
            )
        if options.clone:
            branch = name if options.at is not None or options.name is not None else None
            print(clone := _clone_session(store, session, branch, at))
            begun = "" if branch is None else f", with a branch {terminal_line(branch)}"
            print_notice(f"session {clone} is a copy of {terminal_line(session)}{begun}")
        else:
            _start_branch(store.open(session), name, at)
            print(terminal_line(name))
            head = at or log.heads.get(log.active)
            place = "with nothing before it" if head is None else f"behind {log.number(head)}"
            print_notice(
                f"session {terminal_line(session)} goes on {place}, in branch {terminal_line(name)}"
            )
    return ExitStatus.OK


def _clone_session(store: Store, session: str, branch: str | None, at: str | None) -> str:
    """Copy a session, and begin a branch in the copy; all of it, or nothing."""
    clone = store.clone(session)
    if branch is not None:
        try:
            _start_branch(clone, branch, at)
        except BaseException:
            store.remove(clone.id)
            raise
    return clone.id


def label_entry(options: argparse.Namespace) -> int:
    """Give an entry a name."""
    check_label_text(options.text)
    with open_existing_store(options) as store:
        log = read_named_log(store, options.session)
        session = log.header.id
        target = log.find_entry(options.entry)
        store.open(session).label(target.id, options.text)
        print_notice(f"{log.number(target.id)} is called {terminal_line(options.text)}")
    return ExitStatus.OK


def rename_session(options: argparse.Namespace) -> int:
    """Give a session another title."""
    if not options.title.strip():
        raise InvalidValue(
            "the title is blank; say what the session is about", code="blank_title", place="rename"
        )
    with open_existing_store(options) as store:
        session = find_named_session(store, options.session)
        with explain_damage(session):
            store.rename(session, options.title)
        print_notice(f"session {terminal_line(session)} is called {terminal_line(options.title)}")
    return ExitStatus.OK


def redact_entry(options: argparse.Namespace) -> int:
    """Remove the content of an entry permanently."""
    if not options.reason.strip():
        raise InvalidValue("it is blank; say why", code="reason_blank", place="--reason")
    actor = options.actor or user_name()
    if actor is None:
        raise InvalidValue(
            "nobody knows who you are; say so with --actor", code="user_unknown", place="redact"
        )
    with open_existing_store(options) as store:
        log = read_named_log(store, options.session)
        session = log.header.id
        target = log.find_entry(options.entry)
        number = log.number(target.id)
        summary = truncate_to_width(summarize_entry(target, log), _MAX_SUMMARY_LENGTH)
        entry_line = f"{number} {entry_type(target)}  {summary}"
        question = f"Take the content of {number} out for good?"
        status = _confirm("redact", question, [entry_line], is_sure=options.yes)
        if status is not None:
            return status
        store.redact(session, target.id, actor=actor, reason=options.reason)
        if isinstance(target.payload, Redacted):
            print_notice(f"{number} had been taken out before; it was erased once more")
        else:
            print_notice(f"{number} was taken out, by {terminal_line(actor)}")
    return ExitStatus.OK


def _start_branch(conversation: Conversation, branch: str, at: str | None) -> None:
    """Create a branch and switch to it; both are recorded."""
    conversation.fork(branch, at=at)
    conversation.switch(branch)


# -- permanent changes -------------------------------------------------------------------


def _confirm(command: str, question: str, lines: list[str], *, is_sure: bool) -> ExitStatus | None:
    """Ask before a permanent change; return the exit status if the user declines."""
    if is_sure:
        return None
    if not sys.stdin.isatty():
        print_notice(f"{command}: there is nobody to ask; add --yes to do it without a question")
        return ExitStatus.USAGE
    for line in lines:
        print(f"  {line}".rstrip(), file=sys.stderr)
    print(f"{question} [y/N] ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() in ("y", "yes"):
        return None
    print_notice("nothing was changed")
    return ExitStatus.FAILED


def remove_sessions(options: argparse.Namespace) -> int:
    """Remove sessions, and the blobs that no other refers to."""
    with open_existing_store(options) as store:
        sessions = list(
            dict.fromkeys([find_named_session(store, name) for name in options.sessions])
        )
        question = f"Remove {format_count(len(sessions), 'session', 'sessions')} for good?"
        lines = [
            f"{terminal_line(session)}  {_session_title(store, session)}" for session in sessions
        ]
        status = _confirm("rm", question, lines, is_sure=options.yes)
        if status is not None:
            return status
        for session in sessions:
            store.remove(session)
        print_notice(f"removed: {format_count(len(sessions), 'session', 'sessions')}")
        try:
            store.collect_garbage()
        except (LogError, InvalidDocument) as exc:
            print_notice(f"its blobs are still there: {exc}")
    return ExitStatus.OK


def _session_title(store: Store, session: str) -> str:
    try:
        return terminal_line(store.summary(session).title)
    except (LogError, InvalidDocument):
        return "(damaged)"
