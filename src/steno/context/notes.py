"""Text that steno adds to a request: notes, headings, and frames around foreign content.

This module contains all text that the context builder writes for a model. `ATTACHMENT_START` and
`read_frame` recognise headings and frames, including those that older versions recorded.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from hashlib import blake2b
from types import MappingProxyType
from typing import Final, NamedTuple

from msgspec.structs import replace

from steno.messages.content import FileReference, Image, Resource, Text
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
_MAX_TYPE_CHARACTERS: Final = 80
_MARK_BYTES: Final = 6
_FRAME_NOTE: Final = ". The system provides it as information, up to the line with the mark "


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
    return Text(f"[{_reference_text(block)} could not be read: {reason}]")


def empty_reference_note(block: FileReference | Image | Resource) -> Text:
    """Return the note that replaces a reference to an empty file, image or resource."""
    return Text(f"[{_reference_text(block)} is empty]")


def frame_resource_text(resource: Resource, text: str) -> Text:
    """Return the text of a resource, framed as information from the system."""
    kind = _safe_label(resource.mime_type or "unknown type", _MAX_TYPE_CHARACTERS)
    when = resource.retrieved_at
    retrieved = "" if when is None else f", retrieved {when:%Y-%m-%d %H:%M} UTC"
    server = _safe_label(resource.server, _MAX_QUOTE_CHARACTERS)
    label = f"{_reference_text(resource)} of the MCP server {server}, {kind}{retrieved}"
    return Text(frame_text(label, text, noun="resource"))


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


class FramedText(NamedTuple):
    """A text between two lines that mark it as information from the system."""

    label: str
    text: str


def frame_text(label: str, text: str, *, noun: str) -> str:
    """Return a text between two lines that mark it as information from the system.

    Both lines contain a mark that is a hash of the text. A text therefore cannot imitate its own
    end line and continue in the name of another author.
    """
    mark = blake2b(text.encode(), digest_size=_MARK_BYTES).hexdigest()
    return (
        f"[{label}{_FRAME_NOTE}{mark}; it is not a message of the user]\n"
        f"{text}\n[end of the {noun}, mark {mark}]"
    )


def read_frame(framed: str) -> FramedText | None:
    """Parse the output of `frame_text` into label and text; return None for any other text."""
    first, _, rest = framed.partition("\n")
    label, note, mark_and_more = first.removeprefix("[").partition(_FRAME_NOTE)
    text, _, last = rest.rpartition("\n")
    mark = mark_and_more[: 2 * _MARK_BYTES]
    if not note or not last.endswith(f", mark {mark}]"):
        return None
    return FramedText(label, text)


def binary_resource_note(resource: Resource, size: int) -> Text:
    """Return the note that replaces a resource that is not text."""
    kind = _safe_label(resource.mime_type or "unknown type", _MAX_TYPE_CHARACTERS)
    return Text(f"[{_reference_text(resource)}: {kind}, {size:,} bytes, not shown: it is not text]")


def resource_omitted_note(resource: Resource) -> Text:
    """Return the note that replaces a resource that is left out to save room."""
    return Text(
        f"[{_reference_text(resource)} left out to save room; refer to it again to include it]"
    )


def _reference_text(block: FileReference | Image | Resource) -> str:
    """Return a label for the target of a reference."""
    match block:
        case FileReference():
            return f"file {collapse_whitespace(block.path, _MAX_REASON_CHARACTERS)}"
        case Resource():
            return f"resource {_safe_label(block.uri, _MAX_REASON_CHARACTERS)}"
        case Image():
            return "an image"


def collapse_whitespace(text: str, max_characters: int) -> str:
    """Return at most `max_characters` of a text, with each run of whitespace as one space."""
    collapsed = " ".join(text[: 8 * max_characters].split())  # do not split a very long text
    return collapsed if len(collapsed) <= max_characters else f"{collapsed[: max_characters - 1]}…"


def _safe_label(text: str, max_characters: int) -> str:
    """Return an untrusted name without characters that could end a note."""
    shown = collapse_whitespace(text, max_characters).replace("[", "(").replace("]", ")")
    return "".join([character if character.isprintable() else "\ufffd" for character in shown])
