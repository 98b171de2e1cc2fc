"""Code blocks and quotations in Markdown."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

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
    ],
)
def test_quotations_are_separated_from_prose(text: str, prose: str, quotations: str) -> None:
    assert split_quotations(text) == (prose, quotations)


@given(st.text(st.sampled_from("`~> a\n\r\t")))
def test_every_line_has_one_kind(text: str) -> None:
    lines = [*classify_lines(text)]
    assert "".join(line for _, line in lines) == text
    fences = [kind for kind, _ in lines if kind in (LineKind.OPENING_FENCE, LineKind.CLOSING_FENCE)]
    assert all(kind is LineKind.OPENING_FENCE for kind in fences[::2])
    assert all(kind is LineKind.CLOSING_FENCE for kind in fences[1::2])
    split_quotations(text)
