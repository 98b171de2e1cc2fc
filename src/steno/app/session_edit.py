"""Functions that start and change sessions: branches, titles, labels and deletion.

Commands and interfaces share them, so that the same rules apply everywhere. They do not notify the
listeners of an open session.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable
from pathlib import Path
from typing import Final

from steno.app.session_lookup import FOLDER_KEY, LAST_SESSION, SessionStart, explain_damage
from steno.errors import Conflict, InvalidDocument, InvalidValue, LogError, StenoError
from steno.invisible import is_visible
from steno.log.conversation import Conversation
from steno.log.queries import check_label_text
from steno.messages.message import ChatMessage
from steno.records.entry import Entry, Mode
from steno.records.stored_record import unused_branch_name
from steno.store import Store

_MAX_ID_LENGTH: Final = 200


def begin_session(
    store: Store, folder: Path, system_prompt: str, mode: Mode, *, title: str = ""
) -> Conversation:
    """Store a new session with its folder, system prompt and mode; return its conversation."""
    messages = [ChatMessage.system(system_prompt)] if system_prompt.strip() else []
    conversation = store.new(messages, title=title or None, about={FOLDER_KEY: str(folder)})
    set_mode(conversation, mode)
    return conversation


def apply_start(conversation: Conversation, start: SessionStart, mode: str | None) -> None:
    """Start the branch `start.fork` and set the mode, unless they are None.

    Raises Conflict if the branch already exists.
    """
    if start.fork is not None:
        name = new_branch_name(start.fork, conversation.branches, place="--fork")
        start_branch(conversation, name)
    if mode is not None:
        set_mode(conversation, Mode(mode))


def set_mode(conversation: Conversation, mode: Mode) -> Entry | None:
    """Change the mode; return the new entry, or None if the mode is already set."""
    return None if conversation.mode is mode else conversation.change_mode(mode)


# -- branches --------------------------------------------------------------------------------


def new_branch_name(name: str, taken: Container[str], *, place: str = "fork") -> str:
    """Return the name of a new branch without surrounding whitespace.

    A blank name is replaced with `fork-1`, `fork-2` and so on. Raises Conflict if a branch with
    this name exists.
    """
    name = name.strip()
    if name in taken:
        raise Conflict(
            "a branch with this name already exists; choose another",
            code="branch_exists",
            place=place,
        )
    return name or unused_branch_name("fork", taken)


def start_branch(conversation: Conversation, name: str, at: str | None = None) -> None:
    """Start a branch after the entry `at`, by default the last one, and switch to the branch."""
    conversation.fork(name, at=at)
    conversation.switch(name)


def clone_session(store: Store, session: str, branch: str | None, at: str | None) -> str:
    """Copy a session, start a branch in the copy unless `branch` is None, and return the new ID.

    If the branch cannot be started, the copy is removed.
    """
    clone = store.clone(session)
    if branch is not None:
        try:
            start_branch(clone, branch, at)
        except BaseException:
            store.remove(clone.id)
            raise
    return clone.id


# -- IDs, labels and titles -------------------------------------------------------------------


def check_session_id(id: str) -> None:
    """Raise InvalidValue if an ID cannot name a session on the command line and in lists."""
    if id == LAST_SESSION:
        problem = f'"{LAST_SESSION}" means the last session; choose another ID'
    elif not id or len(id) > _MAX_ID_LENGTH:
        problem = f"must have 1 to {_MAX_ID_LENGTH} characters"
    elif not is_visible(id) or id != id.strip():
        problem = "must be one line, without control characters and surrounding blanks"
    elif id.startswith("-"):
        problem = "must not start with -, like an option"
    else:
        return
    raise InvalidValue(problem, code="invalid_session_id", place="session")


def clean_label(text: str) -> str:
    """Return a label without surrounding whitespace. Raises InvalidValue if it is not a valid label."""
    check_label_text(text)
    return text.strip()


def clean_title(title: str, *, place: str = "rename") -> str:
    """Return a title without surrounding whitespace. Raises InvalidValue if the title is blank."""
    title = title.strip()
    if not title:
        raise InvalidValue(
            "the title is blank; give the session a title", code="blank_title", place=place
        )
    return title


def rename_session(store: Store, session: str, title: str) -> str:
    """Change the title of a session; return the stored title.

    Raises InvalidValue if the title is blank, and Damaged if the session is damaged.
    """
    title = clean_title(title)
    with explain_damage(session):
        store.rename(session, title)
    return title


# -- deletion --------------------------------------------------------------------------------


def check_not_open(sessions: Collection[str], open_session: str | None) -> None:
    """Raise StenoError if the open session is one of those to delete or redact."""
    if open_session in sessions:
        raise StenoError(
            "this session is open; first switch to another with /new or /resume",
            code="session_in_use",
            place="session",
        )


def remove_sessions(store: Store, sessions: Iterable[str]) -> StenoError | None:
    """Delete sessions, and the blobs older than one hour that no session refers to.

    Returns the error if the blobs could not be deleted, else None. A later call deletes the
    remaining blobs.
    """
    for session in sessions:
        store.remove(session)
    try:
        store.collect_garbage()
    except (LogError, InvalidDocument) as exc:
        return exc
    return None
