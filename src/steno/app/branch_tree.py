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
    """The branches of the open session. Every change is reported to the session's listeners."""

    def __init__(self, state: SessionState) -> None:
        self._state = state

    def names(self) -> Sequence[str]:
        """Return the names of all branches, starting with the active branch."""
        conversation = self._state.conversation
        others = [name for name in conversation.branches if name != conversation.branch]
        return [conversation.branch, *others]

    async def rows(self) -> Sequence[BranchTreeRow]:
        """Read the tree in a worker thread and return its rows from top to bottom.

        There are no rows before the session is recorded.
        """
        state = self._state
        if not state.is_recorded:
            return []
        return await asyncio.to_thread(_read_rows, state.store, state.conversation.id)

    def fork(self, name: str = "", *, at: str | None = None) -> str:
        """Start a branch after the entry `at`, switch to the branch and return its name.

        If `at` is None, the branch starts after the last entry. If `name` is blank, a name is
        generated.
        """
        name = self._new_branch_name(name)
        with self._state.explain_conflicts():
            start_branch(self._state.conversation, name, at)
        self._state.emit_branch_changed()
        return name

    def fork_before(self, entry: str, name: str = "") -> PromptInput:
        """Start a branch before a user message, switch to it, and return the prompt of the message.

        Raises InvalidValue if the entry is not a user message, and Missing if one of its images is
        missing.
        """
        name = self._new_branch_name(name)
        conversation = self._state.conversation
        found = conversation.entry(entry)
        message = conversation.restore_blobs(editable_message(found))
        images = [block for block in message.content if isinstance(block, Image)]
        if any(isinstance(image.source, ImageBlob) for image in images):
            raise Missing(
                "an image of this message is missing; fork after the message and resend the image",
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
        """Switch to the branch `name`. Raises Missing if there is no such branch."""
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
        """Record a label for an entry."""
        self._state.check_can_move()
        self._check_recorded()
        label = clean_label(text)
        with self._state.explain_conflicts():
            labelled = self._state.conversation.label(entry, label)
        self._state.emit(EntryRecorded(labelled))

    def _new_branch_name(self, name: str) -> str:
        """Return the name for a new branch. Raises StenoError if no branch can be started now."""
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
    """Return the user message of an entry. Raises InvalidValue if it is not a user message."""
    message = entry.message
    if not isinstance(message, UserMessage):
        raise InvalidValue(
            "only your own messages can be edited", code="not_user_message", place="fork"
        )
    return message


def _read_rows(store: Store, session: str) -> list[BranchTreeRow]:
    return tree_rows(SessionLog(store.header(session), store.records(session)))


def prompt_from_message(message: UserMessage, audit: Mapping[str, Any]) -> PromptInput:
    """Return the prompt of a message as the user typed it.

    `audit` is the audit data of the message's entry.
    """
    origin = audit.get("origin")
    # An MCP server expanded the prompt; attached images follow the expanded text.
    if isinstance(origin, str):
        attached = list(
            takewhile(lambda block: isinstance(block, Image), reversed(message.content))
        )
        return PromptInput(origin, _attached_images(reversed(attached), origin))
    text = message.text or ""
    return PromptInput(text, _attached_images(message.content, text))


def _attached_images(blocks: Iterable[Block], text: str) -> tuple[str | bytes, ...]:
    """Return the data, path or URL of each image, except images that `text` references with @."""
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
