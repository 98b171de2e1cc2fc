"""Text for a model that is framed, so that the model does not take it for text of the user.

The content of a resource reaches a model as text in a user message. Two lines around it state that
the system provides it, and contain a mark that the text cannot imitate. The context builder frames
resources, and so does the request encoder of a wire, for messages that no builder has seen.
`read_frame` parses a frame.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from hashlib import blake2b
from typing import Final, NamedTuple
from urllib.parse import quote

from msgspec.structs import replace

from steno.invisible import is_visible
from steno.messages.content import Block, FileReference, Image, Resource, Text

_MAX_SERVER_CHARACTERS: Final = 80
_MAX_TYPE_CHARACTERS: Final = 80
_MAX_NAME_CHARACTERS: Final = 200
_MAX_LINK_CHARACTERS: Final = 8_000
_MARK_BYTES: Final = 6
_FRAME_NOTE: Final = ". The system provides it as information, up to the line with the mark "


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
    label, note, mark_and_more = first.removeprefix("[").rpartition(_FRAME_NOTE)
    text, _, last = rest.rpartition("\n")
    mark = mark_and_more[: 2 * _MARK_BYTES]
    if not note or not last.endswith(f", mark {mark}]"):
        return None
    return FramedText(label, text)


# -- resources -----------------------------------------------------------------------------------


def frame_resource(resource: Resource) -> Block:
    """Return the text of a resource as framed text; return bytes and links unchanged."""
    text = resource.text
    if text is None:
        return resource
    if not text.strip():
        return replace(empty_reference_note(resource), extras=resource.extras)
    kind = _safe_label(resource.mime_type or "unknown type", _MAX_TYPE_CHARACTERS)
    when = resource.retrieved_at
    retrieved = "" if when is None else f", retrieved {when:%Y-%m-%d %H:%M} UTC"
    server = _safe_label(resource.server, _MAX_SERVER_CHARACTERS)
    label = f"{describe_target(resource)} of the MCP server {server}, {kind}{retrieved}"
    return Text(frame_text(label, text, noun="resource"), extras=resource.extras)


def empty_reference_note(block: FileReference | Image | Resource) -> Text:
    """Return the note that replaces a reference to an empty file, image or resource."""
    return Text(f"[{describe_target(block)} is empty]")


def binary_resource_note(resource: Resource, size: int) -> Text:
    """Return the note that replaces a resource that is not text."""
    kind = _safe_label(resource.mime_type or "unknown type", _MAX_TYPE_CHARACTERS)
    note = f"[{describe_target(resource)}: {kind}, {size:,} bytes, not shown: it is not text]"
    return Text(note, extras=resource.extras)


def link_note(resource: Resource) -> Text:
    """Return the note that replaces a resource without content.

    It contains the whole address, so that a model can pass it to a tool. An address of more than
    8,000 characters is shortened.
    """
    uri = _quoted_address(resource.uri)
    server = _safe_label(resource.server, _MAX_SERVER_CHARACTERS)
    note = f"[resource {uri} of the MCP server {server}: only its address is known]"
    return Text(note, extras=resource.extras)


class ShownBlocks(NamedTuple):
    """The blocks that a model receives for one recorded block."""

    blocks: tuple[Block, ...]
    is_replaced: bool
    """Whether the blocks differ from the recorded block."""


def join_shown_blocks(shown: Iterable[ShownBlocks]) -> Iterator[Block]:
    """Yield the blocks of a message, with an empty line around each inserted text.

    Some APIs join texts without a separator, so that text of the user would follow on the last line
    of a frame.
    """
    follows_text = follows_replaced = False
    for blocks, is_replaced in shown:
        for block in blocks:
            if isinstance(block, Text) and follows_text and (is_replaced or follows_replaced):
                yield replace(block, text=f"\n\n{block.text}")
            else:
                yield block
            follows_text, follows_replaced = isinstance(block, Text), is_replaced


# -- names ---------------------------------------------------------------------------------------


def describe_target(block: FileReference | Image | Resource) -> str:
    """Return a label for the target of a reference, for a note to a model.

    A path keeps its brackets, because they are part of names such as `[id].tsx`.
    """
    match block:
        case FileReference():
            return f"file {collapse_whitespace(block.path, _MAX_NAME_CHARACTERS)}"
        case Resource():
            return f"resource {_safe_label(block.uri, _MAX_NAME_CHARACTERS)}"
        case Image():
            return "an image"


def collapse_whitespace(text: str, max_characters: int) -> str:
    """Return at most `max_characters` of a text, with each run of whitespace as one space."""
    collapsed = " ".join(text[: 8 * max_characters].split())  # do not split a very long text
    return collapsed if len(collapsed) <= max_characters else f"{collapsed[: max_characters - 1]}…"


def _quoted_address(uri: str) -> str:
    """Return an address in double quotes, which it cannot close.

    Double quotes, line breaks and other unprintable characters are percent-encoded. No valid URI
    contains any of them, so a valid URI is unchanged.
    """
    beginning = uri[: _MAX_LINK_CHARACTERS + 1]
    encoded = "".join([c if is_visible(c) and c != '"' else quote(c, safe="") for c in beginning])
    if len(encoded) > _MAX_LINK_CHARACTERS:
        encoded = f"{encoded[: _MAX_LINK_CHARACTERS - 1]}…"
    return f'"{encoded}"'


def _safe_label(text: str, max_characters: int) -> str:
    """Return an untrusted name without characters that could end a note."""
    shown = collapse_whitespace(text, max_characters).replace("[", "(").replace("]", ")")
    return "".join([character if is_visible(character) else "\ufffd" for character in shown])
