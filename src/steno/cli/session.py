"""Which session a run works on: a new one, the last one of this folder, or one by name."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import count
from pathlib import Path
from typing import Final, NamedTuple

from steno.cli.place import Troubles, find_session, summaries_of
from steno.conversation import Conversation
from steno.entry import Mode
from steno.errors import Conflict, Missing
from steno.message import ChatMessage
from steno.record import Header
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


def open_session(store: Store, start: Start) -> Conversation:
    """Open the session that is meant. Raises Missing."""
    is_named = start.resume is not None
    return store.open(
        find_session(store, start.resume or "") if is_named else _last_of(store, start.folder)
    )


def fork_if_wanted(conversation: Conversation, start: Start) -> None:
    """Let the session go on in a branch of its own, if that is wanted. Raises Conflict."""
    if start.fork is None:
        return
    if start.fork in conversation.branches:
        raise Conflict("--fork: there is a branch of this name; choose another")
    branch = start.fork or _free_name(conversation.branches)
    conversation.fork(branch)
    conversation.switch(branch)


def new_session(store: Store, folder: Path, system_prompt: str, mode: Mode) -> Conversation:
    """Begin a session."""
    first = [ChatMessage.system(system_prompt)] if system_prompt.strip() else []
    conversation = store.new(first, about={FOLDER: str(folder)})
    if conversation.mode is not mode:
        conversation.change_mode(mode)
    return conversation


def folder_of(header: Header) -> str | None:
    """Return the folder that a session was begun in, if it says so."""
    folder = (header.about or {}).get(FOLDER)
    return folder if isinstance(folder, str) else None


def _last_of(store: Store, folder: Path) -> str:
    here = summaries_of(
        store, Troubles(), are_meant=lambda header: folder_of(header) == str(folder)
    )
    if not here:
        raise Missing(
            "session: none was begun in this folder; `steno sessions list` shows all, "
            "and --resume takes any of them"
        )
    return here[0].header.id


def _free_name(taken: Iterable[str]) -> str:
    names = set(taken)
    return next(name for n in count(1) if (name := f"fork-{n}") not in names)
