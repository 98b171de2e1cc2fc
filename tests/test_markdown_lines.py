"""Code blocks and quotations in Markdown."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from steno.markdown_lines import LineKind, classify_lines, split_quotations


@pytest.mark.parametrize(
    ("text", "prose", "quotations"),
    [
        ("", "", ""),
        ("A red square.", "A red square.", ""),
        (
            "A sign:\n\n```\nSTOP\n\n  now\n```\n\nIt is red.",
            "A sign:\n\nIt is red.",
            "STOP\n\n  now",
        ),
        ("It says:\n> STOP\n> now\nIn red.", "It says:\n\nIn red.", "STOP\nnow"),
        ("> one\n\n> two", "", "one\n\ntwo"),
        ("```text\none\n```\n```\ntwo\n```", "", "one\n\ntwo"),
        ("~~~~\n```\n~~~\n~~~~", "", "```\n~~~"),
        ("> ```\n> STOP\n> ```", "", "STOP"),
        ("```\n> a\n```", "", "> a"),
        ("a\r\n> b\r\n", "a", "b"),
        ("```\nnever closed\n> end", "", "never closed\n> end"),
        ("`STOP` and 1 > 0", "`STOP` and 1 > 0", ""),
        ("a\u2028b\nc", "a\u2028b\nc", ""),
        ("```\ncode\u2028```\nstill code\n```\nafter", "after", "code\u2028```\nstill code"),
        ("a\r> b\rc", "a\n\nc", "b"),
        ("> quote\n> ```\n> code\n\nprose after", "prose after", "quote\n\ncode"),
        ("> ```\n> code\nprose\n```\nmore\n```", "prose", "code\n\nmore"),
        ("> > ```\n> > code\n> > > more\n> > ```\nprose", "prose", "code\n> more"),
        ("> > ```\n> > code\n> quote", "", "code\nquote"),
        ("```\ncode\n> ```\n```\nprose", "prose", "code\n> ```"),
        ("~~~\ncode\n~~~ ~\n~~~\x0b\n~~~ \t\nprose", "prose", "code\n~~~ ~\n~~~\x0b"),
        ("> ```\n>  code\n>more\n>", "", " code\nmore"),
        # Lists indent fences and quotes.
        ("- item\n\n      > quoted", "- item", "quoted"),
        ("\t> quoted\n\t>  more", "", "quoted\n more"),
        ("> > one\n>> two\n>  > three\n> four", "", "one\ntwo\nthree\nfour"),
        ("1. x\n   ```\n   a\n     b\n c\n   \td\n\n\te\n   ```", "1. x", "a\n  b\nc\n\td\n\n\te"),
        ("- x\n\n\t~~~\n\ta\n\t\tb\n\t~~~\n```\n c\n```", "- x", "a\n\tb\n\n c"),
        ("> - x\n>   ```\n>   a\n>     b\n>   ```", "", "- x\n\na\n  b"),
        ("- x\n  > ```\n  > a\n  >  b\n  > ```\n", "- x", "a\n b"),
    ],
)
def test_quotations_are_separated_from_prose(text: str, prose: str, quotations: str) -> None:
    assert split_quotations(text) == (prose, quotations)


# Python's `str.splitlines` also splits at these characters.
_NO_LINE_BREAKS = ("\u2028", "\u2029", "\x0b", "\x0c", "\x1c", "\x1d", "\x1e", "\x85")
_FENCES = ("```", "~~~", "`", "~", ">", "a", "\n", "\n")


def texts_of(*pieces: str) -> st.SearchStrategy[str]:
    return st.lists(st.sampled_from([*pieces, *_NO_LINE_BREAKS[::3]]), max_size=30).map("".join)


@given(texts_of(*_FENCES, *_NO_LINE_BREAKS, "> ", "\r", "\r\n", "\t", " "))
def test_every_line_has_one_kind(text: str) -> None:
    lines = [*classify_lines(text)]
    assert "".join(line.text for line in lines) == text
    assert [line.text for line in lines] == re.findall(r"[^\r\n]*(?:\r\n?|\n)|[^\r\n]+", text)
    is_open = False
    for line in lines:
        if line.kind in (LineKind.CODE, LineKind.CLOSING_FENCE):
            assert is_open
        is_open = line.kind in (LineKind.OPENING_FENCE, LineKind.CODE)
        assert line.quote_depth <= line.text.count(">")
    split_quotations(text)


@given(st.text(st.sampled_from("```~~~>>a\n\n\u2028\x0b\x85")))
def test_the_code_blocks_are_those_of_a_parser(text: str) -> None:
    """Without indentation, where the rules differ on purpose."""
    fences = [token for token in MarkdownIt("commonmark").parse(text) if token.type == "fence"]
    numbers = {number for fence in fences for number in range(*(fence.map or ()))}
    lines = [*classify_lines(text)]
    assert {n for n, line in enumerate(lines) if line.kind is not LineKind.PROSE} == numbers


@given(st.text(st.sampled_from("a>\n\u2028\x0b\x1c\x85")))
def test_no_character_of_a_text_is_added_or_lost(text: str) -> None:
    """Except for marks, blank lines, and white space around the prose."""
    prose, quotations = split_quotations(f"a{text}")
    for line in f"a{text}".split("\n"):
        content = line.lstrip(">")
        assert content.strip() in (prose if content == line else quotations)


@pytest.mark.parametrize(
    "piece",
    ["```", "`", "~", ">", "> ", "\u2028", "\r", "\r\n", "> ```\n", "> > ```\n", ">```a`\n", "\t"],
)
def test_a_long_text_takes_linear_time(piece: str) -> None:
    text = piece * 100_000
    assert sum(len(line.text) for line in classify_lines(text)) == len(text)
    split_quotations(text)
