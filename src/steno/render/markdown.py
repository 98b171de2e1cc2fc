"""Export of a branch as Markdown, for a code forge, an editor or a wiki.

The text of a message or a result cannot be mistaken for text of this module: results are inside
fences that they cannot close, user text is quoted, and names are code or escaped.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Iterator, Sequence
from html import escape
from typing import Final, assert_never

from steno.formats.format import ExportedFile
from steno.records.entry import Entry
from steno.records.stored_record import Header
from steno.render import transcript_document as transcript
from steno.render.commonmark import contain_markdown, quote_markdown
from steno.render.markdown_escape import backtick_fence

MAX_INLINE_IMAGE_BYTES: Final = 256 * 1024
"""The size up to which images are embedded; larger images would slow down an editor."""
_MARKDOWN_SIGNS: Final = re.compile(r"[\\`*_\[\]<>&~$]|^[-+=#]|#$|(?<=\d)[.)](?= )")


def encode(
    header: Header, entries: Sequence[Entry], location: transcript.BranchLocation
) -> ExportedFile:
    """Encode a branch as a Markdown document."""
    document = transcript.build_document(
        header, entries, location, max_image_bytes=MAX_INLINE_IMAGE_BYTES
    )
    return ExportedFile("\n\n".join(_paragraphs(document)).encode(), document.losses)


def _paragraphs(document: transcript.TranscriptDocument) -> Iterator[str]:
    yield f"# {_escape_signs(document.title)}"
    yield "\n".join([f"- {name}: {_code_span(value)}" for name, value in document.facts])
    for entry in document.entries:
        yield from _entry_paragraphs(entry)
    if document.usage_by_model:
        yield "## Usage"
        for_models = [
            f"- {_code_span(name) if name else 'unknown model'}: {usage}"
            for name, usage in document.usage_by_model
        ]
        yield "\n".join(for_models)


def _entry_paragraphs(entry: transcript.TranscriptEntry) -> Iterator[str]:
    head = f"#{entry.number} {_escape_signs(entry.title)}"
    facts = _escape_signs(" · ".join(entry.facts))
    if entry.is_message:
        yield f"## {head}"
        if facts:
            yield f"*{facts}*"
    else:
        yield f"**{head}** · {facts}".removesuffix(" · ")
    for section in entry.sections:
        yield from filter(None, _section_paragraphs(section))


def _section_paragraphs(section: transcript.TranscriptSection) -> Iterator[str]:
    match section:
        case transcript.VerbatimSection(text):
            yield quote_markdown(text)
        case transcript.MarkdownSection(text):
            yield contain_markdown(text.strip("\n"))
        case transcript.ThinkingSection(text):
            yield from _details("Thinking", quote_markdown(text))
        case transcript.NoteSection(text):
            yield _escape_signs(text)
        case transcript.CodeSection(title, text):
            if section.is_folded:
                yield from _details(title, _fenced_code(text, section.language))
                return
            yield f"**{_escape_signs(title)}**" if title else ""
            yield _fenced_code(text, section.language)
        case transcript.ImageSection(name, mime_type, data):
            yield _escape_signs(f"image: {name}")
            if data is not None:
                yield f"![image](data:{mime_type};base64,{b64encode(data).decode()})"
        case _:
            assert_never(section)


def _details(title: str, content: str) -> Iterator[str]:
    # The summary is HTML up to the next empty line; Markdown applies after it.
    yield f"<details>\n<summary>{escape(title, quote=False)}</summary>"
    yield content
    yield "</details>"


def _fenced_code(text: str, language: str) -> str:
    """Return a text between fences that are longer than any sequence of backticks in it."""
    fence = backtick_fence(text, min_length=3)
    return f"{fence}{language or 'text'}\n{text}\n{fence}" if text else ""


def _code_span(text: str) -> str:
    """Return a line as a code span, even if the line contains backticks."""
    fence = backtick_fence(text)
    return f"{fence} {text} {fence}" if "`" in text else f"{fence}{text}{fence}"


def _escape_signs(text: str) -> str:
    """Return a line with all special characters of Markdown escaped."""
    return _MARKDOWN_SIGNS.sub(r"\\\g<0>", text)
