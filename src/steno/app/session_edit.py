"""Begin and change sessions: branches, titles, labels and removal, with one function for each rule.

Commands and interfaces use the same functions. What an open session reports to its listeners is
not known here.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable
from pathlib import Path

from steno.app.session_lookup import FOLDER_KEY, SessionStart, explain_damage
from steno.errors import Conflict, InvalidDocument, InvalidValue, LogError, StenoError
from steno.log.conversation import Conversation
from steno.log.queries import check_label_text
from steno.messages.message import ChatMessage
from steno.records.entry import Entry, Mode
from steno.records.stored_record import unused_branch_name
from steno.store import Store


def begin_session(
    store: Store, folder: Path, system_prompt: str, mode: Mode, *, title: str = ""
) -> Conversation:
    """Begin a session in a folder."""
    messages = [ChatMessage.system(system_prompt)] if system_prompt.strip() else []
    conversation = store.new(messages, title=title or None, about={FOLDER_KEY: str(folder)})
    set_mode(conversation, mode)
    return conversation


def apply_start(conversation: Conversation, start: SessionStart, mode: str | None) -> None:
    """Begin the branch and set the mode that a run asks for. Raises Conflict."""
    if start.fork is not None:
        name = new_branch_name(start.fork, conversation.branches, place="--fork")
        start_branch(conversation, name)
    if mode is not None:
        set_mode(conversation, Mode(mode))


def set_mode(conversation: Conversation, mode: Mode) -> Entry | None:
    """Change the mode; return the new entry, or None where the mode is the same already."""
    return None if conversation.mode is mode else conversation.change_mode(mode)


# -- branches --------------------------------------------------------------------------------


def new_branch_name(name: str, taken: Container[str], *, place: str = "fork") -> str:
    """Return the name of a new branch: `fork-1`, or the next free number, if it is blank.

    Raises Conflict if there is a branch of this name.
    """
    name = name.strip()
    if name in taken:
        raise Conflict(
            "there is a branch of this name; choose another", code="branch_exists", place=place
        )
    return name or unused_branch_name("fork", taken)


def start_branch(conversation: Conversation, name: str, at: str | None = None) -> None:
    """Start a branch after an entry, or after the last one, and switch to it; both are recorded."""
    conversation.fork(name, at=at)
    conversation.switch(name)


def clone_session(store: Store, session: str, branch: str | None, at: str | None) -> str:
    """Copy a session, and start a branch in the copy: all of it, or nothing. Return the new id."""
    clone = store.clone(session)
    if branch is not None:
        try:
            start_branch(clone, branch, at)
        except BaseException:
            store.remove(clone.id)
            raise
    return clone.id


# -- labels and titles -----------------------------------------------------------------------


def clean_label(text: str) -> str:
    """Return a label without blanks around it. Raises InvalidValue if it cannot be one."""
    check_label_text(text)
    return text.strip()


def clean_title(title: str, *, place: str = "rename") -> str:
    """Return a title without blanks around it. Raises InvalidValue if nothing is left."""
    title = title.strip()
    if not title:
        raise InvalidValue(
            "the title is blank; say what the session is about", code="blank_title", place=place
        )
    return title


def rename_session(store: Store, session: str, title: str) -> str:
    """Change the title of a session; return the stored title. Raises InvalidValue, Damaged."""
    title = clean_title(title)
    with explain_damage(session):
        store.rename(session, title)
    return title


# -- removal ---------------------------------------------------------------------------------


def check_not_open(sessions: Collection[str], open_session: str | None) -> None:
    """Refuse to remove the open session. Raises StenoError."""
    if open_session in sessions:
        raise StenoError(
            "it is the one at hand; /new or /resume another one before",
            code="session_in_use",
            place="session",
        )


def remove_sessions(store: Store, sessions: Iterable[str]) -> StenoError | None:
    """Remove sessions with the blobs that only they use.

    Returns the error if blobs could not be collected; they are collected another time.
    """
    for session in sessions:
        store.remove(session)
    try:
        store.collect_garbage()
    except (LogError, InvalidDocument) as exc:
        return exc
    return None
