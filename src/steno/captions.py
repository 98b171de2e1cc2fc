"""What is on record, in a line for people: what things are called, what was decided and changed.

A thing is called the same wherever it is read: on a terminal, on a page, in a list. Everything
here is printable, and no address shows a password. How it looks is none of our business.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, NamedTuple, assert_never

from steno.content import (
    FileReference,
    Image,
    ImageBlob,
    ImageData,
    ImageFile,
    ImageUrl,
    Opaque,
    Resource,
    Thinking,
)
from steno.entry import (
    Approval,
    BranchSwitch,
    Compaction,
    Entry,
    Feedback,
    Label,
    ModeChange,
    ModelChange,
    Payload,
    Redacted,
    Redaction,
    Repair,
    Resolution,
    Rewind,
)
from steno.errors import InvalidValue
from steno.message import AssistantMessage, SystemMessage, ToolResultMessage, UserMessage
from steno.ports.carrier import without_secrets
from steno.printable import on_one_line, printable
from steno.usage import StopReason

TOLD_AUDIT: Final = (("by", "actor"), ("from", "origin"))
"""What is told of how an entry came about, and under which name its audit has that."""
_USUAL_STOPS: Final = (None, StopReason.END_TURN, StopReason.TOOL_USE)
_ON_THE_WEB: Final = re.compile(r"https?:", re.IGNORECASE)
_USER: Final = re.compile(r"(?<=://)[^/?#\s]*@")


# -- parts of a message ------------------------------------------------------------------------


def name_of(pointer: FileReference | Image | Resource, *, is_sized: bool = True) -> str:
    """Return what something is called that a message points at.

    An image that has no name is known by its size, unless that is told elsewhere.
    """
    match pointer:
        case FileReference(path=path, start_line=first, end_line=last):
            end = "" if last is None or last == first else f"-{last}"
            return on_one_line(path) + ("" if first is None else f":{first}{end}")
        case Resource(server=server, uri=uri):
            is_web = _ON_THE_WEB.match(uri) is not None
            shown = _address(uri) if is_web else on_one_line(without_user(uri))
            return f"{on_one_line(server)}:{shown}"
        case Image():
            return _name_of_image(pointer, is_sized=is_sized)
        case _:
            assert_never(pointer)


def without_user(uri: str) -> str:
    """Return an address without who reads it, which may come with a password."""
    return _USER.sub("", uri)


def _address(url: str) -> str:
    """Return where something is on the web; what is asked for behind that may be a secret."""
    return without_secrets(url) or "an address"


def _name_of_image(image: Image, *, is_sized: bool) -> str:
    source = image.source
    match source:
        case ImageFile(path):
            return on_one_line(path)
        case ImageUrl(url):
            return _address(url)
        case ImageData() | ImageBlob():
            size = len(source.data) if isinstance(source, ImageData) else source.size
            kind = on_one_line(image.mime_type or "image")
            return f"{kind}, {size:,} bytes" if is_sized else kind
        case _:
            assert_never(source)


def called(pointer: FileReference | Image | Resource) -> str:
    """Return what it is that a message points at, and its name."""
    match pointer:
        case FileReference():
            return f"file {name_of(pointer)}"
        case Resource():
            return f"resource {name_of(pointer)}"
        case Image(source=ImageFile() | ImageUrl()):
            return f"image {name_of(pointer)}"
        case Image():  # without a name, which says so itself
            return name_of(pointer)


def thoughts_of(thinking: Thinking) -> str:
    """Return what a model thought, as far as that may be known."""
    return "(taken out by the provider)" if thinking.redacted else printable(thinking.text)


def not_understood(opaque: Opaque) -> str:
    """Return what is said of something that this version does not know."""
    kind = on_one_line(opaque.kind)
    return f"not understood: {kind}" if kind else "not understood"


def unusual_stop(message: AssistantMessage) -> str:
    """Return why a model stopped where nobody would expect it; empty where all is well."""
    usual = message.stop_reason in _USUAL_STOPS
    return "" if usual else f"stopped: {message.stop_reason}"


# -- entries -----------------------------------------------------------------------------------


def type_of(entry: Entry) -> str:
    """Return what an entry is, in one word."""
    payload = entry.payload
    if isinstance(payload, Opaque):
        return on_one_line(payload.kind) or "unknown"
    return str(payload.__struct_config__.tag)


def check_label(text: str) -> None:
    """Refuse what no entry can be called: it would be taken for a number. Raises InvalidValue."""
    name = text.strip()
    if not name:
        raise InvalidValue("label: it is blank; say what the entry is to be called")
    if name.startswith("#") or name.isdigit():
        raise InvalidValue("label: it reads like the number of an entry; call it otherwise")


def decided_by(payload: Payload) -> str:
    """Return who or which rule decided; empty where a payload does not say so."""
    actor, rule = getattr(payload, "actor", None), getattr(payload, "rule", None)
    if actor is not None:
        return on_one_line(str(actor))
    return "" if rule is None else f"rule {on_one_line(str(rule))}"


def noted_of(entry: Entry) -> list[str]:
    """Return how an entry came about, as far as its audit tells: `by ada`, `from steno-0.1`."""
    audit = entry.audit or {}
    noted = [(word, audit.get(name)) for word, name in TOLD_AUDIT]
    return [f"{word} {on_one_line(who)}" for word, who in noted if isinstance(who, str)]


class Told(NamedTuple):
    """A line about an entry, and words that somebody put at length; either may be empty."""

    summary: str
    text: str = ""


def told_of(
    entry: Entry,
    *,
    number: Callable[[str], str],
    call: Callable[[str], str],
    found: Callable[[Resolution], Told],
) -> Told:
    """Return what an entry says that is no message.

    By their ids `number` and `call` return what other entries and calls are called; `found` tells
    what became of something that a message points at.
    """
    payload = entry.payload
    match payload:
        case ModeChange():
            return Told(f"{payload.old} → {payload.new}")
        case BranchSwitch() | ModelChange():
            return Told(f"{on_one_line(payload.old) or '?'} → {on_one_line(payload.new)}")
        case Rewind():
            place = "the beginning" if entry.parent is None else number(entry.parent)
            return Told(f"goes on from {place}; {number(payload.left)} was the last")
        case Label():
            return Told(f"{number(payload.target)} is {on_one_line(payload.text)}")
        case Compaction():
            line = f"stands for everything up to {number(payload.through)}"
            return Told(line, printable(payload.summary))
        case Approval():
            by = f" by {name}" if (name := decided_by(payload)) else ""
            line = f"{call(payload.call_id)}: {payload.status}{by}"
            return Told(line, printable(payload.reason or ""))
        case Resolution():
            return found(payload)
        case Feedback():
            return Told(f"on {number(payload.target)}", printable(payload.text))
        case Repair():
            return Told(on_one_line(payload.code), printable(payload.explanation))
        case Redacted():
            return Told(f"taken out: {on_one_line(payload.kind)}")
        case Redaction():
            target, actor = number(payload.target), on_one_line(payload.actor)
            return Told(f"{target} was taken out by {actor}", printable(payload.reason))
        case Opaque():
            return Told(not_understood(payload))
        case SystemMessage() | UserMessage() | AssistantMessage() | ToolResultMessage():
            return Told("", printable(payload.text or ""))
        case _:
            assert_never(payload)
