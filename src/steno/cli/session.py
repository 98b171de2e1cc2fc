"""Which session a run works on: a new one, the last one of this folder, or one by name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

from steno.cli.paper import note
from steno.cli.place import (
    UNREADABLE,
    Troubles,
    find_session,
    summaries_of,
    telling_damage,
)
from steno.conversation import Conversation
from steno.entry import Entry, Mode
from steno.errors import Conflict, Missing
from steno.message import ChatMessage
from steno.printable import on_one_line
from steno.record import Header, free_name
from steno.store import Store

FOLDER: Final = "folder"
"""Under which name the header of a session has the folder that it was begun in."""


class Start(NamedTuple):
    """Where to begin: `resume` names a session, `continues` means the last one of the folder."""

    folder: Path
    resume: str | None = None
    continues: bool = False
    fork: str | None = None
    """The name of a branch to begin; empty for one that is made up."""

    @property
    def is_new(self) -> bool:
        """Whether nothing was said before."""
        return self.resume is None and not self.continues


def open_session(
    store: Store,
    start: Start,
    *,
    is_shown: bool = True,
    tell: Callable[[str], object] | None = None,
) -> Conversation:
    """Open the session that is meant, and show how far that is. Raises Missing.

    `tell` hears of sessions of the folder that were passed over because they cannot be read. Where
    things are shown, that is the terminal unless somebody else is named.
    """
    if start.resume is None:
        passes_over = tell or (note if is_shown else _say_nothing)
        return store.open(_last_of(store, start.folder, passes_over, is_shown=is_shown))
    session = find_session(store, start.resume, is_shown=is_shown)
    with telling_damage(session):
        return store.open(session)


def go_on(conversation: Conversation, start: Start, mode: str | None) -> None:
    """Let the session go on as is wanted: in a branch of its own, in a mode. Raises Conflict."""
    if start.fork is not None:
        if start.fork in conversation.branches:
            raise Conflict("--fork: there is a branch of this name; choose another")
        branch = start.fork or free_name("fork", conversation.branches)
        conversation.fork(branch)
        conversation.switch(branch)
    if mode is not None:
        set_mode(conversation, Mode(mode))


def new_session(
    store: Store, folder: Path, system_prompt: str, mode: Mode, *, title: str = ""
) -> Conversation:
    """Begin a session."""
    first = [ChatMessage.system(system_prompt)] if system_prompt.strip() else []
    conversation = store.new(first, title=title or None, about={FOLDER: str(folder)})
    set_mode(conversation, mode)
    return conversation


def set_mode(conversation: Conversation, mode: Mode) -> Entry | None:
    """Change the mode; return the entry that says so, None where it is the same already."""
    return None if conversation.mode is mode else conversation.change_mode(mode)


def folder_of(header: Header) -> str | None:
    """Return the folder that a session was begun in, if it says so."""
    folder = (header.about or {}).get(FOLDER)
    return folder if isinstance(folder, str) else None


def _say_nothing(_: str) -> None:
    """Keep it: nobody may write to the terminal."""


def _last_of(
    store: Store, folder: Path, passes_over: Callable[[str], object], *, is_shown: bool
) -> str:
    troubles = Troubles()
    here = summaries_of(
        store,
        troubles,
        are_meant=lambda header: folder_of(header) == str(folder),
        is_shown=is_shown,
    )
    for id in troubles.sessions:
        passes_over(_why_not(store, id))
    if not here and troubles.sessions:
        raise Missing(
            "session: none of this folder can be read; `steno verify --all` tells why, and "
            "`steno sessions list` shows all others"
        )
    if not here:
        raise Missing(
            "session: none was begun in this folder; `steno sessions list` shows all, "
            "and --resume takes any of them"
        )
    return here[0].header.id


def _why_not(store: Store, id: str) -> str:
    """Say that a session cannot be gone on with, why, and how to look at it."""
    name, why = on_one_line(id), "it could not be read"
    try:
        store.summary(id)
    except UNREADABLE as exc:
        why = on_one_line(str(exc).removeprefix(f"session {id}: "))
    return (
        f"session {name}: passed over, although it may be the latest of this folder: {why}; "
        f"`steno verify {name}` looks at it"
    )
