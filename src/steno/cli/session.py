"""Which session a run works on: a new one, the last one of this folder, or one by name."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import count
from pathlib import Path
from typing import Final, NamedTuple

from steno.cli.place import Troubles, changed_at, find_session, headers_of
from steno.conversation import Conversation
from steno.entry import Mode
from steno.errors import Missing
from steno.message import ChatMessage
from steno.record import Header
from steno.store import Store

_FOLDER: Final = "folder"


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
    """Open the session that is meant, on a branch of its own if wanted. Raises Missing."""
    name = find_session(store, start.resume) if start.resume else _last_of(store, start.folder)
    conversation = store.open(name)
    if start.fork is not None:
        branch = start.fork or _free_name(conversation.branches)
        conversation.fork(branch)
        conversation.switch(branch)
    return conversation


def new_session(store: Store, folder: Path, system_prompt: str, mode: Mode) -> Conversation:
    """Begin a session."""
    first = [ChatMessage.system(system_prompt)] if system_prompt.strip() else []
    conversation = store.new(first, about={_FOLDER: str(folder)})
    if conversation.mode is not mode:
        conversation.change_mode(mode)
    return conversation


def _last_of(store: Store, folder: Path) -> str:
    here = [header for header in headers_of(store, Troubles()) if _folder_of(header) == str(folder)]
    summaries = [store.summary(header.id) for header in here]
    if not summaries:
        raise Missing(
            "session: none was begun in this folder; `steno sessions list` shows all, "
            "and --resume takes any of them"
        )
    return max(summaries, key=lambda each: (str(changed_at(each) or ""), each.header.id)).header.id


def _folder_of(header: Header) -> object:
    return (header.about or {}).get(_FOLDER)


def _free_name(taken: Iterable[str]) -> str:
    names = set(taken)
    return next(name for n in count(1) if (name := f"fork-{n}") not in names)
