"""A branch as Markdown, for people: on a forge, in an editor, in a wiki.

Nothing that was said or returned can pass for what this file writes around it: results stand in
fences that they cannot close, words of people in quotations, names in code or escaped.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Iterator, Sequence
from typing import Final, assert_never

from steno.entry import Entry
from steno.formats.format import Exported, Place
from steno.formats.papers.commonmark import contained, quoted
from steno.formats.papers.story import (
    Answer,
    Listing,
    Part,
    Passage,
    Picture,
    Remark,
    Said,
    Story,
    Thoughts,
)
from steno.formats.papers.telling import tell
from steno.record import Header

MOST_IMAGE_BYTES: Final = 256 * 1024
"""Larger images are only named: an editor has to carry them along with the text."""
_SIGNS: Final = re.compile(r"[\\`*_\[\]<>&~$]|^[-+=#]|#$|(?<=\d)[.)](?= )")
_BACKTICKS: Final = re.compile(r"`+")


def encode(header: Header, entries: Sequence[Entry], place: Place) -> Exported:
    """Write a branch as Markdown."""
    story = tell(header, entries, place, most_image_bytes=MOST_IMAGE_BYTES)
    return Exported("\n\n".join(_paragraphs(story)).encode(), story.losses)


def _paragraphs(story: Story) -> Iterator[str]:
    yield f"# {_plain(story.title)}"
    yield "\n".join([f"- {name}: {_code(value)}" for name, value in story.facts])
    for part in story.entries:
        yield from _part(part)
    if story.usage_by_model:
        yield "## Usage"
        yield "\n".join([f"- {_model(name)}: {words}" for name, words in story.usage_by_model])


def _part(part: Part) -> Iterator[str]:
    head = f"#{part.number} {_plain(part.title)}"
    facts = _plain(" · ".join(part.facts))
    if part.is_message:
        yield f"## {head}"
        if facts:
            yield f"*{facts}*"
    else:
        yield f"**{head}** · {facts}".removesuffix(" · ")
    for passage in part.sections:
        yield from filter(None, _passage(passage))


def _passage(passage: Passage) -> Iterator[str]:
    match passage:
        case Said(text):
            yield quoted(text)
        case Answer(text):
            yield contained(text.strip("\n"))
        case Thoughts(text):
            yield from _folded("Thinking", quoted(text))
        case Remark(text):
            yield _plain(text)
        case Listing(title, text):
            if passage.is_folded:
                yield from _folded(title, _fenced(text, passage.language))
                return
            yield f"**{_plain(title)}**" if title else ""
            yield _fenced(text, passage.language)
        case Picture(name, mime_type, data):
            yield _plain(f"image: {name}")
            if data is not None:
                yield f"![image](data:{mime_type};base64,{b64encode(data).decode()})"
        case _:
            assert_never(passage)


def _folded(title: str, content: str) -> Iterator[str]:
    # Markdown counts again behind an empty line; a summary is HTML until then.
    yield f"<details>\n<summary>{_in_html(title)}</summary>"
    yield content
    yield "</details>"


def _fenced(text: str, language: str) -> str:
    """Return a text between fences that are longer than any in it."""
    longest = max(map(len, _BACKTICKS.findall(text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language or 'text'}\n{text}\n{fence}" if text else ""


def _code(text: str) -> str:
    """Return a line as code, whatever is in it."""
    longest = max(map(len, _BACKTICKS.findall(text)), default=0)
    if not longest:
        return f"`{text}`"
    fence = "`" * (longest + 1)
    return f"{fence} {text} {fence}"


def _model(name: str) -> str:
    return _code(name) if name else "unknown model"


def _plain(text: str) -> str:
    """Return a line in which no sign means anything."""
    return _SIGNS.sub(r"\\\g<0>", text)


def _in_html(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
