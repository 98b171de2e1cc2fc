"""Make Markdown of models safe inside a Markdown file, and convert it to HTML.

Only this module imports markdown-it, when it is first needed. If markdown-it is not installed, text
is quoted in Markdown and shown as plain text in HTML.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache
from importlib import import_module
from typing import Any, Final

_OWN_HEADING_LEVELS: Final = 2
"""The number of heading levels of the file itself: its title, and one for every entry."""
_LOWEST_HEADING_LEVEL: Final = 6
_MAX_NESTING: Final = 40
"""The depth up to which Markdown is parsed; of deeper Markdown the parser would drop a part."""
_END_MARKER: Final = "end-of-text"
_HTML_TAG: Final = re.compile(r"<(?=[A-Za-z/!?])")
_SAFE_LINK: Final = re.compile(r"(?:https?://|mailto:)", re.IGNORECASE)
_SAFE_IMAGE: Final = re.compile(r"data:image/(?:png|jpeg|gif|webp);base64,", re.IGNORECASE)


# -- Markdown in Markdown ----------------------------------------------------------------------


def contain_markdown(text: str) -> str:
    """Return Markdown that cannot affect the text after it: lower headings, no HTML, no images.

    Text for which this is not possible is quoted: a quotation closes all that is open in it.
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
    # Inside of code these escapes are visible, which is better than active HTML elsewhere.
    return _prefix_quotation(_HTML_TAG.sub("&lt;", text).replace("![", "!\\["))


def _prefix_quotation(text: str) -> str:
    return "\n".join([f"> {line}".rstrip() for line in text.split("\n")])


def _lower_headings(text: str) -> str | None:
    """Return the text with its headings lowered; None if it could affect the text after it."""
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
    """Return whether the end marker is a separate paragraph and no token is active."""
    last = tokens[-2:-1]  # the text of the last paragraph comes before its end
    return (
        [(token.content, token.level) for token in last] == [(_END_MARKER, 1)]
        and tokens[-1].type == "paragraph_close"
        and not any(map(_breaks_out, _with_children(tokens)))
    )


def _breaks_out(token: Any) -> bool:
    is_own_level = token.type == "heading_open" and int(token.tag[1:]) <= _OWN_HEADING_LEVELS
    return is_own_level or _is_active(token)


def _is_active(token: Any) -> bool:
    """Return whether a viewer would do more than show a token."""
    return token.type in ("html_block", "html_inline", "image")


# -- Markdown in HTML --------------------------------------------------------------------------


def markdown_to_html(text: str) -> str | None:
    """Return Markdown as HTML that loads nothing and runs nothing; None if that is not possible.

    Raw HTML is shown as text, links lead to the web or to a mailbox, images are data in the text.
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
    """Return the tokens of a text; None without a parser, or if the parser would drop a part."""
    parser = _parser(html=html)
    if parser is None:
        return None
    try:
        tokens: list[Any] = parser.parse(text)
    except (LookupError, ValueError, RecursionError):  # markdown-it has bugs, as for `> * <!--`
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
