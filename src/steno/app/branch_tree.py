"""The branch tree of the open session."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from itertools import takewhile
from typing import Any

from steno.agent import EntryRecorded, PromptInput
from steno.app.session_edit import clean_label, new_branch_name, start_branch
from steno.app.session_log import BranchTreeRow, SessionLog, tree_rows
from steno.app.session_state import SessionState
from steno.errors import InvalidValue, Missing
from steno.log.queries import shell_command_of
from steno.messages.content import Block, Image, ImageBlob, ImageData, ImageFile, ImageUrl
from steno.messages.message import UserMessage
from steno.records.entry import Entry
from steno.store import Store


class BranchTree:
    """The branches of the open session; changes are reported to listeners."""

    def __init__(self, state: SessionState) -> None:
        self._state = state

    def names(self) -> Sequence[str]:
        """Return the branches, the active one first."""
        conversation = self._state.conversation
        others = [name for name in conversation.branches if name != conversation.branch]
        return [conversation.branch, *others]

    async def rows(self) -> Sequence[BranchTreeRow]:
        """Return the whole tree from top to bottom; it is read in a thread."""
        state = self._state
        if not state.is_recorded:
            return []
        return await asyncio.to_thread(_read_rows, state.store, state.conversation.id)

    def fork(self, name: str = "", *, at: str | None = None) -> str:
        """Start a branch after an entry or after the last one, and switch to it; return its name."""
        name = self._new_branch_name(name)
        with self._state.explain_conflicts():
            start_branch(self._state.conversation, name, at)
        self._state.emit_branch_changed()
        return name

    def fork_before(self, entry: str, name: str = "") -> PromptInput:
        """Switch to a new branch just before a user message; return its prompt."""
        name = self._new_branch_name(name)
        conversation = self._state.conversation
        found = conversation.entry(entry)
        message = conversation.restore_blobs(editable_message(found))
        images = [block for block in message.content if isinstance(block, Image)]
        if any(isinstance(image.source, ImageBlob) for image in images):
            raise Missing(
                "an image of this message is missing; fork after the message and send it again",
                code="image_missing",
                place="fork",
            )
        prompt = prompt_from_message(message, found.audit or {})
        if (shell := shell_command_of(found)) is not None:
            prompt = PromptInput(f"!{shell.command}")
        with self._state.explain_conflicts():
            if found.parent is not None:
                conversation.fork(name, at=found.parent)
            else:  # the first entry: Conversation.fork needs an entry to fork after
                self._state.store.begin_branch(conversation.id, name, None)
                conversation.refresh()
        self._switch_to(name)
        return prompt

    def switch(self, name: str) -> None:
        """Switch to another branch."""
        self._state.check_can_move()
        conversation = self._state.conversation
        if name not in conversation.branches:
            raise Missing(
                f"not found; use one of {', '.join(self.names())}",
                code="branch_missing",
                place="branch",
            )
        if name != conversation.branch:
            self._switch_to(name)

    def label(self, entry: str, text: str) -> None:
        """Label an entry."""
        self._state.check_can_move()
        self._check_recorded()
        label = clean_label(text)
        with self._state.explain_conflicts():
            labelled = self._state.conversation.label(entry, label)
        self._state.emit(EntryRecorded(labelled))

    def _new_branch_name(self, name: str) -> str:
        """Return the name of the new branch, if one can be started now. Raises StenoError, Conflict."""
        self._state.check_can_move()
        self._check_recorded()
        return new_branch_name(name, self._state.conversation.branches)

    def _check_recorded(self) -> None:
        if not self._state.is_recorded:
            raise Missing("this session has no messages yet", code="empty_session", place="session")

    def _switch_to(self, name: str) -> None:
        with self._state.explain_conflicts():
            self._state.conversation.switch(name)
        self._state.emit_branch_changed()


def editable_message(entry: Entry) -> UserMessage:
    """Return the message of the user that an entry records. Raises InvalidValue for any other."""
    message = entry.message
    if not isinstance(message, UserMessage):
        raise InvalidValue(
            "only your own messages can be edited", code="not_user_message", place="fork"
        )
    return message


def _read_rows(store: Store, session: str) -> list[BranchTreeRow]:
    return tree_rows(SessionLog(store.header(session), store.records(session)))


def prompt_from_message(message: UserMessage, audit: Mapping[str, Any]) -> PromptInput:
    """Return the prompt of a message as it was typed; `audit` is the audit of its entry."""
    origin = audit.get("origin")
    # A server expanded the prompt; attachments follow its text.
    if isinstance(origin, str):
        attached = list(
            takewhile(lambda block: isinstance(block, Image), reversed(message.content))
        )
        return PromptInput(origin, _attached_images(reversed(attached), origin))
    text = message.text or ""
    return PromptInput(text, _attached_images(message.content, text))


def _attached_images(blocks: Iterable[Block], text: str) -> tuple[str | bytes, ...]:
    """Return the images among blocks, except those that the text refers to."""
    images: list[str | bytes] = []
    for block in blocks:
        source = block.source if isinstance(block, Image) else None
        if isinstance(source, ImageData):
            images.append(source.data)
        elif isinstance(source, (ImageFile, ImageUrl)):
            name = source.path if isinstance(source, ImageFile) else source.url
            if f"@{name}" not in text:
                images.append(name)
    return tuple(images)
