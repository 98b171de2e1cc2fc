"""Export of a branch as a single HTML page that loads nothing and runs no scripts.

All text of messages is escaped here, or is Markdown that `commonmark` converts to a few safe HTML
tags. If this code has a bug, the content security policy of the page blocks scripts and requests.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator, Sequence
from html import escape
from typing import Final, assert_never

from steno.formats.format import ExportedFile
from steno.records.entry import Entry
from steno.records.stored_record import Header
from steno.render import transcript_document as transcript
from steno.render.commonmark import markdown_to_html

_POLICY: Final = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; "
    "base-uri 'none'; form-action 'none'"
)
_STYLE: Final = """\
:root { color-scheme: light dark; --text: #1c1e21; --page: #fff; --dim: #5b6068; --line: #d9dce1;
  --panel: #f4f5f7; --accent: #0b57d0; --added: #0a6b2d; --removed: #b3261e; }
@media (prefers-color-scheme: dark) { :root { --text: #e3e5e8; --page: #16181c; --dim: #9aa1ab;
  --line: #343840; --panel: #1f2227; --accent: #8ab4f8; --added: #7ddc98; --removed: #ff9a92; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1rem; max-width: 52rem; background: var(--page);
  color: var(--text); font: 1rem/1.5 system-ui, sans-serif; overflow-wrap: anywhere; }
h1 { font-size: 1.5rem; line-height: 1.25; }
h2 { font-size: 1rem; margin: 0; }
h3, h4, h5, h6 { font-size: 1rem; margin: 1rem 0 .25rem; }
a { color: var(--accent); }
dl { display: grid; grid-template-columns: max-content 1fr; gap: 0 1rem; margin: 0; }
dt, .facts { color: var(--dim); }
dd { margin: 0; }
.facts { margin: 0; font-size: .85rem; }
article { margin: 1rem 0; padding: .5rem 0 .5rem .75rem; border-left: 3px solid var(--line); }
article:target { background: var(--panel); }
.user { border-color: var(--accent); }
.event { padding-block: 0; color: var(--dim); font-size: .9rem; }
.event h2 { display: inline; font-weight: normal; }
.text { white-space: pre-wrap; margin: .5rem 0; }
.title, .note { margin: .25rem 0; }
.title { font-weight: 600; }
pre { margin: .5rem 0; padding: .5rem .75rem; overflow-x: auto; background: var(--panel);
  border-radius: 4px; font: .85rem/1.45 ui-monospace, monospace; overflow-wrap: normal; }
code { font-family: ui-monospace, monospace; }
blockquote { margin: .5rem 0; padding-left: .75rem; border-left: 2px solid var(--line); }
summary { cursor: pointer; color: var(--dim); }
img { max-width: 100%; height: auto; }
ins { color: var(--added); text-decoration: none; }
del { color: var(--removed); text-decoration: none; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; }
th, td { padding: .2rem .6rem .2rem 0; text-align: left; vertical-align: top;
  border-bottom: 1px solid var(--line); }
"""
_DECISION_COLUMNS: Final = ("entry", "time", "tool", "decision", "by", "reason")


def encode(
    header: Header, entries: Sequence[Entry], location: transcript.BranchLocation
) -> ExportedFile:
    """Encode a branch as an HTML page."""
    document = transcript.build_document(header, entries, location, max_image_bytes=None)
    return ExportedFile("\n".join(_page_lines(document)).encode(), document.losses)


def _page_lines(document: transcript.TranscriptDocument) -> Iterator[str]:
    title = escape(document.title)
    yield "<!DOCTYPE html>"
    yield '<html lang="en">\n<head>\n<meta charset="utf-8">'
    yield f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
    yield '<meta name="referrer" content="no-referrer">'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">'
    yield f"<title>{title}</title>\n<style>\n{_STYLE}</style>\n</head>\n<body>"
    yield f"<header>\n<h1>{title}</h1>"
    yield from _definition_list(document.facts)
    yield "</header>\n<main>"
    for entry in document.entries:
        yield from _entry_html(entry)
    yield "</main>\n<footer>"
    if document.decisions:
        yield from _decision_table(document.decisions)
    if document.usage_by_model:
        yield "<section>\n<h2>Usage</h2>"
        yield from _definition_list(
            [(name or "unknown model", usage) for name, usage in document.usage_by_model]
        )
        yield "</section>"
    yield "</footer>\n</body>\n</html>"


def _definition_list(pairs: Sequence[tuple[str, str]]) -> Iterator[str]:
    yield "<dl>"
    for name, value in pairs:
        yield f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>"
    yield "</dl>"


def _entry_html(entry: transcript.TranscriptEntry) -> Iterator[str]:
    # The kind of an opaque entry is untrusted text, so only known kinds become class names.
    kind = entry.kind if entry.is_message else "event"
    anchor = f"e{entry.number}"
    yield f'<article class="{kind}" id="{anchor}">'
    yield f'<h2><a href="#{anchor}">#{entry.number}</a> {escape(entry.title)}</h2>'
    if entry.facts:
        yield f'<p class="facts">{escape(" · ".join(entry.facts))}</p>'
    for section in entry.sections:
        yield from _section_html(section)
    yield "</article>"


def _section_html(section: transcript.TranscriptSection) -> Iterator[str]:
    match section:
        case transcript.VerbatimSection(text):
            yield f'<div class="text">{escape(text)}</div>'
        case transcript.MarkdownSection(text):
            yield _markdown_html(text)
        case transcript.ThinkingSection(text):
            yield from _details("Thinking", _markdown_html(text))
        case transcript.NoteSection(text):
            yield f'<p class="note">{escape(text)}</p>'
        case transcript.CodeSection(title, text):
            if section.is_folded:
                yield from _details(title, _code_html(section))
                return
            if title:
                yield f'<p class="title">{escape(title)}</p>'
            if text:
                yield _code_html(section)
        case transcript.ImageSection(name, mime_type, data):
            yield f'<p class="note">image: {escape(name)}</p>'
            if data is not None:
                address = f"data:{escape(mime_type)};base64,{b64encode(data).decode()}"
                yield f'<p><img alt="{escape(name)}" src="{address}"></p>'
        case _:
            assert_never(section)


def _markdown_html(text: str) -> str:
    html = markdown_to_html(text)
    if html is None:
        return f'<div class="text">{escape(text)}</div>'
    return f'<div class="markdown">\n{html}</div>'


def _details(title: str, content: str) -> Iterator[str]:
    yield f"<details>\n<summary>{escape(title)}</summary>"
    yield content
    yield "</details>"


def _code_html(section: transcript.CodeSection) -> str:
    lines = map(_diff_line_html, section.text.split("\n")) if section.language == "diff" else None
    # Browsers ignore a line break directly after the tag, so the text may begin with one.
    return f"<pre>\n{escape(section.text) if lines is None else chr(10).join(lines)}</pre>"


def _diff_line_html(line: str) -> str:
    tag = {"+": "ins", "-": "del"}.get(line[:1])
    return escape(line) if tag is None else f"<{tag}>{escape(line)}</{tag}>"


def _decision_table(decisions: Sequence[transcript.ApprovalRow]) -> Iterator[str]:
    yield '<section id="decisions">\n<h2>Decisions</h2>\n<div class="wide">\n<table>'
    yield f"<tr>{''.join([f'<th>{name}</th>' for name in _DECISION_COLUMNS])}</tr>"
    for number, *cells in decisions:
        link = f'<td><a href="#e{number}">#{number}</a></td>'
        yield f"<tr>{link}{''.join([f'<td>{escape(cell)}</td>' for cell in cells])}</tr>"
    yield "</table>\n</div>\n</section>"
