"""Text that steno adds to a request: notes, and headings above attachments.

With `messages.framed_text`, which frames foreign content, this module contains all text that the
context builder writes for a model. `ATTACHMENT_START` recognises notes and headings, including
those that older versions recorded.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from msgspec.structs import replace

from steno.messages.content import FileReference, Image, Resource, Text
from steno.messages.framed_text import collapse_whitespace, describe_target
from steno.messages.message import Message, SystemMessage, UserMessage
from steno.records.entry import Mode

MODE_NOTES: Final[Mapping[Mode, str]] = MappingProxyType(
    {
        Mode.PLAN: "You are in plan mode: investigate, and change nothing. Use only tools that "
        "read; calls of other tools are denied. Work out what should be done, and answer with a "
        "plan."
    }
)
"""The note that each mode adds to the system message."""

ATTACHMENT_START: Final = re.compile(
    r"\[|[^\n]*(?:, lines? [\d,]+(?: to [\d,]+)? of [\d,]+"
    r"|/ contains [^\n]* not listed|/ holds [^\n]* ignored):(?:\n|\Z)"
)
"""Matches the start of an attachment: a note, or a file or folder heading of any version."""

_MAX_QUOTE_CHARACTERS: Final = 80
_MAX_REASON_CHARACTERS: Final = 200


def append_system_note(system: SystemMessage | None, note: str) -> SystemMessage:
    """Return the system message with a note appended; only the note if `system` is None."""
    if system is None:
        return SystemMessage((Text(note),))
    return replace(system, content=(*system.content, Text(f"\n\n{note}")))


def summary_message(summary: str) -> UserMessage:
    """Return the message that replaces all messages covered by a summary."""
    text = f"[Summary of the earlier conversation, which is left out here]\n\n{summary}"
    return UserMessage((Text(text),))


def omitted_message(count: int) -> UserMessage:
    """Return the message that replaces `count` messages that do not fit the context window."""
    messages = "1 message" if count == 1 else f"{count:,} messages"
    return UserMessage((Text(f"[{messages} left out here: the conversation became too long]"),))


def explain_over_budget(
    last: Message, tokens: int, *, model: str, context_tokens: int | None
) -> str:
    """Return an error text for a last message that does not fit the context window.

    `tokens` is the approximate size of the message. `context_tokens` is the size of the context
    window; None if the size is not known.
    """
    is_prompt = isinstance(last, UserMessage)
    subject = "your prompt with its attachments" if is_prompt else "the last tool output"
    limit = "" if context_tokens is None else f" ({context_tokens:,} tokens)"
    advice = "shorten it, attach less" if is_prompt else "ask for less output"
    return (
        f"{subject} (about {tokens:,} tokens) does not fit the context window of "
        f"{model or 'the model'}{limit}; {advice}, or choose another model"
    )


def feedback_message(target: Message | None, *, entry_id: str, feedback: str) -> UserMessage:
    """Return feedback on an earlier message as a user message that quotes its beginning."""
    quote = "" if target is None else collapse_whitespace(target.text or "", _MAX_QUOTE_CHARACTERS)
    if target is None or not quote:
        what = f"the message of entry {collapse_whitespace(entry_id, _MAX_QUOTE_CHARACTERS)}"
    else:
        what = f'the {target.role} message that begins "{quote}"'
    return UserMessage((Text(f"[Feedback on {what}]\n{feedback}"),))


def image_omitted_note(image: Image) -> Text:
    """Return the note that replaces an image for a model without vision."""
    kind = image.mime_type or "unknown type"
    return Text(f"[image: {kind}, not shown: this model does not accept images]")


def unreadable_note(block: FileReference | Image | Resource, error: str) -> Text:
    """Return the note that replaces a reference that could not be read."""
    reason = collapse_whitespace(error, _MAX_REASON_CHARACTERS)
    return Text(f"[{describe_target(block)} could not be read: {reason}]")


def file_heading(name: str, first: int, last: int, line_count: int) -> str:
    """Return the heading above the lines of an attached file."""
    lines = f"line {first}" if first == last else f"lines {first} to {last}"
    return f"{name}, {lines} of {line_count}:"


def folder_heading(name: str, counts: str) -> str:
    """Return the heading above the file list of an attached folder."""
    return f"{name}/ contains {counts}; hidden and ignored files are not listed:"


def former_folder_heading(name: str, counts: str) -> str:
    """Return the folder heading that earlier versions wrote.

    The stored digest of an attached folder may cover this heading.
    """
    return f"{name}/ holds {counts}, without what is hidden or ignored:"


def resource_omitted_note(resource: Resource) -> Text:
    """Return the note that replaces a resource that is left out to save room."""
    return Text(
        f"[{describe_target(resource)} left out to save room; refer to it again to include it]"
    )
