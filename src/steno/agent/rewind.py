"""Let a branch go on from an earlier entry, and keep what a person has settled since.

Words and answers are left behind. What was set meanwhile is not among them: the mode, and what
commands of the person have printed. Grants that were taken back need nothing here: that counts
wherever it stands.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import takewhile
from typing import Any, NamedTuple

from steno.errors import LogError, Unavailable
from steno.log.conversation import Conversation
from steno.log.queries import SHELL_AUDIT_KEY
from steno.messages.message import AssistantMessage, UserMessage
from steno.records.entry import Entry, Mode, Resolution, Rewind


def rewind_branch(conversation: Conversation, to: str) -> list[Entry]:
    """Rewind the active branch, and record again what stays; return what was written.

    Raises LogError if it cannot be recorded; where it went back and the mode did not stay, that
    says so.
    """
    mode = conversation.mode
    behind = takewhile(lambda entry: entry.id != to, reversed(conversation.entries_view()))
    staying = [entry for entry in behind if _is_shell_command(entry)]
    written = [conversation.rewind(to)]
    if conversation.mode is not mode:
        written.append(_restore_mode(conversation, mode))
    for entry in reversed(staying):
        again = conversation.append(entry.payload, decision=entry.decision, audit=entry.audit)
        written.append(again)
    return written


def is_side_entry(entry: Entry) -> bool:
    """Tell whether an entry is nothing that anybody said to the model."""
    return entry.message is None or _is_shell_command(entry)


def _is_shell_command(entry: Entry) -> bool:
    """Tell whether an entry is a command of the person, with what it printed."""
    return isinstance(entry.payload, UserMessage) and SHELL_AUDIT_KEY in (entry.audit or {})


def _restore_mode(conversation: Conversation, mode: Mode) -> Entry:
    try:
        return conversation.change_mode(mode)
    except LogError as exc:
        # Not as what it was: who goes on after a conflict would do so in a mode that nobody set.
        raise Unavailable(
            f"mode: {mode} could not be recorded again, and it is {conversation.mode} here; "
            f"set it before you go on ({exc})"
        ) from exc


# -- lookup ----------------------------------------------------------------------------------------
#
# Find out what messages point at before a model is asked, and put what was found on record.
#
# What a prompt points at and cannot be opened ends the run before anything is sent. What was found
# in earlier messages is looked at again where it no longer serves; if that fails, it stays as it is.


class UnsentPrompt(NamedTuple):
    """A prompt that the branch went back behind, since it could not be opened."""

    message: UserMessage
    audit: Mapping[str, Any]
    """What stands beside it in the record."""


def find_unsent_prompt(conversation: Conversation) -> UnsentPrompt | None:
    """Return the prompt that could not be opened last, if nothing has been said since."""
    last = _last_main_entry(conversation)
    if last is None or not isinstance(last.payload, Rewind):
        return None
    entry, failed = conversation.entry(last.payload.left), set[str]()
    while entry.parent is not None and entry.parent != last.parent:
        if isinstance(entry.payload, AssistantMessage):
            return None  # somebody went back behind what was answered
        if isinstance(entry.payload, Resolution) and entry.payload.error is not None:
            failed.add(entry.payload.target)
        entry = conversation.entry(entry.parent)
    if entry.id not in failed or not isinstance(entry.payload, UserMessage):
        return None
    return UnsentPrompt(conversation.restore_blobs(entry.payload), entry.audit or {})


def _last_main_entry(conversation: Conversation) -> Entry | None:
    """Return the last entry of the branch, but for what was only set or printed behind it."""
    return next(
        (
            entry
            for entry in reversed(conversation.entries_view())
            if isinstance(entry.payload, Rewind) or not is_side_entry(entry)
        ),
        None,
    )


def is_unanswered(conversation: Conversation) -> bool:
    """Tell whether the last that was said on the branch is a person's, so that a run can go on."""
    said = (entry.message for entry in reversed(conversation.entries_view()))
    last = next((message for message in said if message is not None), None)
    return isinstance(last, UserMessage)
