"""What is said to a model that nobody said: notes, and frames around what has another form.

All texts of the context that are our own stand here.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b
from types import MappingProxyType
from typing import Final

from msgspec.structs import replace

from steno.content import FileReference, Image, Resource, Text
from steno.entry import Mode
from steno.message import Message, SystemMessage, UserMessage

MODE_NOTES: Final[Mapping[Mode, str]] = MappingProxyType(
    {
        Mode.PLAN: "You are in plan mode: look, and change nothing. Use only tools that read; "
        "calls of others are denied. Work out what should be done, and answer with a plan."
    }
)
"""What each mode adds to the system message."""

_LONGEST_QUOTE: Final = 80
_LONGEST_REASON: Final = 200
_LONGEST_TYPE: Final = 80
_MARK_BYTES: Final = 6


def with_note(system: SystemMessage | None, note: str) -> SystemMessage:
    """Return the system message with a note behind it, or the note alone."""
    if system is None:
        return SystemMessage((Text(note),))
    return replace(system, content=(*system.content, Text(f"\n\n{note}")))


def summary_message(summary: str) -> UserMessage:
    """Return what stands for everything that a summary is about."""
    text = f"[Summary of the conversation so far, which is left out here]\n\n{summary}"
    return UserMessage((Text(text),))


def left_out_message(count: int) -> UserMessage:
    """Return what stands for messages that there was no room for."""
    what = f"{counted_messages(count)} left out here: the conversation became too long"
    return UserMessage((Text(f"[{what}]"),))


def counted_messages(count: int) -> str:
    """Return how many messages there are, in words."""
    return "1 message" if count == 1 else f"{count:,} messages"


def too_long(last: Message, tokens: int, *, model: str, most: int | None) -> str:
    """Return why nothing can be left out so that a request fits: what was said last is too long.

    This is for people. `tokens` is about how many that takes, `most` how many the model reads at
    once, if anybody knows.
    """
    is_said = isinstance(last, UserMessage)
    what = "what you say and point at takes" if is_said else "what tools said last takes"
    reads = "less" if most is None else f"{most:,}"
    way_out = (
        "name fewer lines, or another model" if is_said else "ask for less, or name another model"
    )
    return f"{what} about {tokens:,} tokens, and {model or 'the model'} reads {reads} at once; {way_out}"


def feedback_message(about: Message | None, *, entry_id: str, remark: str) -> UserMessage:
    """Return a remark on an earlier message as a message of its own, with how that one began."""
    quote = "" if about is None else on_one_line(about.text or "", _LONGEST_QUOTE)
    if about is None or not quote:
        what = f"the message of entry {on_one_line(entry_id, _LONGEST_QUOTE)}"
    else:
        what = f'the {about.role} message that begins "{quote}"'
    return UserMessage((Text(f"[Feedback on {what}]\n{remark}"),))


def no_image(image: Image) -> Text:
    """Return what a model without eyes gets instead of an image."""
    kind = image.mime_type or "unknown type"
    return Text(f"[image: {kind}, not shown: this model takes no images]")


def not_read(block: FileReference | Image | Resource, error: str) -> Text:
    """Return what stands for something that could not be read."""
    return Text(f"[{name_of(block)} could not be read: {on_one_line(error, _LONGEST_REASON)}]")


def nothing_in(block: FileReference | Image | Resource) -> Text:
    """Return what stands for something that turned out to be empty."""
    return Text(f"[{name_of(block)} is empty]")


def resource_frame(resource: Resource, text: str) -> Text:
    """Return the text of a resource as information that a system provides, not the person.

    Both lines around it bear a mark that follows from the text, so that no text can hold its own
    last line and go on as somebody else.
    """
    mark = blake2b(text.encode(), digest_size=_MARK_BYTES).hexdigest()
    kind = _label(resource.mime_type or "unknown type", _LONGEST_TYPE)
    when = resource.retrieved_at
    retrieved = "" if when is None else f", retrieved {when:%Y-%m-%d %H:%M} UTC"
    return Text(
        f"[{name_of(resource)} of the MCP server {_label(resource.server, _LONGEST_QUOTE)}, "
        f"{kind}{retrieved}. The system provides it as information, up to the line with the mark "
        f"{mark}; nobody here has said it]\n{text}\n[end of the resource, mark {mark}]"
    )


def resource_bytes(resource: Resource, size: int) -> Text:
    """Return what stands for a resource, or a part of it, that is nothing to read."""
    kind = _label(resource.mime_type or "unknown type", _LONGEST_TYPE)
    return Text(f"[{name_of(resource)}: {kind}, {size:,} bytes, not shown: it is not text]")


def resource_left_out(resource: Resource) -> Text:
    """Return what stands for a resource that there was no room for."""
    return Text(f"[{name_of(resource)} left out to save room; point at it again to bring it back]")


def name_of(block: FileReference | Image | Resource) -> str:
    """Return what a block points at, in words."""
    match block:
        case FileReference():
            return f"file {on_one_line(block.path, _LONGEST_REASON)}"
        case Resource():
            return f"resource {_label(block.uri, _LONGEST_REASON)}"
        case Image():
            return "an image"


def on_one_line(text: str, most: int) -> str:
    """Return the beginning of a text with a blank for any number of blanks and breaks."""
    words = " ".join(text[: 8 * most].split())  # a text may be very long
    return words if len(words) <= most else f"{words[: most - 1]}…"


def _label(text: str, most: int) -> str:
    """Return a name that somebody else gave, so that it cannot look like the end of a note."""
    shown = on_one_line(text, most).replace("[", "(").replace("]", ")")
    return "".join([character if character.isprintable() else "\ufffd" for character in shown])
