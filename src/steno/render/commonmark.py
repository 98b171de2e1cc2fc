"""Functions that embed a model's Markdown safely in a Markdown file or an HTML page.

Only this module imports markdown-it, on first use. If markdown-it is not installed, the text is
quoted in Markdown files and plain in HTML pages.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache
from importlib import import_module
from typing import Any, Final

_OWN_HEADING_LEVELS: Final = 2
"""The number of heading levels that the file itself uses, for its title and its entries."""
_LOWEST_HEADING_LEVEL: Final = 6
_MAX_NESTING: Final = 40
"""The depth up to which Markdown is parsed; the parser would drop parts of deeper Markdown."""
_END_MARKER: Final = "end-of-text"
_HTML_TAG: Final = re.compile(r"<(?=[A-Za-z/!?])")
_SAFE_LINK: Final = re.compile(r"(?:https?://|mailto:)", re.IGNORECASE)
_SAFE_IMAGE: Final = re.compile(r"data:image/(?:png|jpeg|gif|webp);base64,", re.IGNORECASE)


# -- Markdown in Markdown ----------------------------------------------------------------------


def contain_markdown(text: str) -> str:
    """Return Markdown that has no HTML or images and cannot affect the text after it.

    Headings are lowered. Other unsafe text is quoted, because the end of a quotation closes all
    open blocks.
    """
    lowered = _lower_headings(text)
    return quote_markdown(text) if lowered is None else lowered


def quote_markdown(text: str) -> str:
    """Return Markdown as a quotation without HTML and images."""
    quotation = _prefix_quotation(text)
    if _HTML_TAG.search(text) is None and "![" not in text:  # nearly always
        return quotation
    tokens = _parse(quotation)
    if tokens is not None and not any(map(_is_active, _with_children(tokens))):
        return quotation
    # These escapes are visible in code, which is better than active HTML outside code.
    return _prefix_quotation(_HTML_TAG.sub("&lt;", text).replace("![", "!\\["))


def _prefix_quotation(text: str) -> str:
    return "\n".join([f"> {line}".rstrip() for line in text.split("\n")])


def _lower_headings(text: str) -> str | None:
    """Return the text with lowered headings; None if it could affect the text that follows."""
    if text[:1].isspace():  # indented text may belong to a list before it
        return None
    lines = text.split("\n")
    for token in _parse(f"{text}\n\n{_END_MARKER}") or ():
        if token.type == "heading_open" and set(token.markup) == {"#"}:
            level = min(len(token.markup) + _OWN_HEADING_LEVELS, _LOWEST_HEADING_LEVEL)
            line = token.map[0]
            lines[line] = lines[line].replace(token.markup, "#" * level, 1)
    changed = "\n".join(lines)
    tokens = _parse(f"{changed}\n\n{_END_MARKER}")
    return changed if tokens and _is_contained(tokens) else None


def _is_contained(tokens: Sequence[Any]) -> bool:
    """Return whether the end marker is a separate paragraph and no token is unsafe.

    A token is unsafe if it is active, or a heading of a level that the file itself uses.
    """
    last = tokens[-2:-1]  # the text token of the last paragraph precedes its closing token
    return (
        [(token.content, token.level) for token in last] == [(_END_MARKER, 1)]
        and tokens[-1].type == "paragraph_close"
        and not any(map(_breaks_out, _with_children(tokens)))
    )


def _breaks_out(token: Any) -> bool:
    is_own_level = token.type == "heading_open" and int(token.tag[1:]) <= _OWN_HEADING_LEVELS
    return is_own_level or _is_active(token)


def _is_active(token: Any) -> bool:
    """Return whether a viewer would interpret a token as HTML or load it as an image."""
    return token.type in ("html_block", "html_inline", "image")


# -- Markdown in HTML --------------------------------------------------------------------------


def markdown_to_html(text: str) -> str | None:
    """Return Markdown as HTML that loads nothing and runs nothing; None if it cannot be parsed.

    Raw HTML becomes text, links are limited to web and mail addresses, images to `data:` URLs.
    """
    tokens = _parse(text, html=False)
    if tokens is None:
        return None
    for token in _with_children(tokens):
        _make_safe(token)
    parser = _parser(html=False)
    html: str = parser.renderer.render(tokens, parser.options, {})
    return html


def _make_safe(token: Any) -> None:
    if token.type in ("heading_open", "heading_close"):
        token.tag = f"h{min(int(token.tag[1:]) + _OWN_HEADING_LEVELS, _LOWEST_HEADING_LEVEL)}"
    elif token.type == "link_open":
        address = str(token.attrs.get("href", ""))
        token.attrs = {"href": address, "rel": "noreferrer"} if _SAFE_LINK.match(address) else {}
    elif token.type == "image" and not _SAFE_IMAGE.match(str(token.attrs.get("src", ""))):
        token.type, token.tag = "text", ""
        token.content = f"[image: {token.content}]"


# -- the parser --------------------------------------------------------------------------------


def _parse(text: str, *, html: bool = True) -> list[Any] | None:
    """Return the tokens of a text; None if there is no parser or the text cannot be parsed."""
    parser = _parser(html=html)
    if parser is None:
        return None
    try:
        tokens: list[Any] = parser.parse(text)
    except (LookupError, ValueError, RecursionError):  # bugs in markdown-it, as with `> * <!--`
        return None
    return None if any(token.level >= _MAX_NESTING for token in tokens) else tokens


def _with_children(tokens: Sequence[Any]) -> Iterator[Any]:
    for token in tokens:
        yield token
        yield from token.children or ()


@cache
def _parser(*, html: bool) -> Any:
    try:
        library = import_module("markdown_it")
    except ImportError:
        return None
    options = {"html": html, "maxNesting": 2 * _MAX_NESTING}
    return library.MarkdownIt("commonmark", options).enable(["table", "strikethrough"])
