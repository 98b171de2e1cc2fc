"""Somebody else's words in Markdown of ours."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token

from steno.render.markdown_escape import (
    BOLD_STYLE,
    CODE_STYLE,
    escape_markdown,
    inline_code,
    markdown_line,
    markdown_table,
)
from steno.render.table_output import Column
from steno.render.terminal_text import terminal_line

READERS = (MarkdownIt("gfm-like"), MarkdownIt().enable("strikethrough").enable("table"))
"""One that makes links of everything that looks like one, and the one that terminals use."""
COLUMNS = (Column("a"), Column("b", is_number=True))
HOSTILE = (
    *("http://a.b", "www.a.com", "me@a.com", "a.py", "[x](http://y)", "![x](y)", "<b>", "&lt;"),
    *("1. x", "1) x", "- x", "+ x", "# x", "> x", "---", "===", "```", "| a | b |", "a\\|b"),
    *("a\n\n# b", "~~x~~", "**x**", "\x1b[2J", "`", "``x", "\\", "x\\"),
)
words = (
    st.sampled_from(HOSTILE)
    | st.text(st.sampled_from("`*_[]()<>&|~:@.#+=-!\\1 \nahtp/w$\"'{}^;"), max_size=14)
    | st.text(max_size=10)
)


def shown(token: Token) -> str:
    """Return the words of a line; what is more than words is named."""
    plain = ("text", "text_special", "code_inline")
    parts = token.children or ()
    return "".join([one.content if one.type in plain else f"<{one.type}>" for one in parts])


@given(words)
def test_words_and_code_are_one_paragraph_of_just_these_words(text: str) -> None:
    line = terminal_line(text)
    for reader in READERS:
        for made in (escape_markdown(text), inline_code(text)):
            tokens = reader.parse(made)
            assert [token.type for token in tokens if token.level == 0] == (
                ["paragraph_open", "paragraph_close"] if line else []
            )
            assert "".join(map(shown, tokens)) == line


@given(st.lists(st.tuples(words, st.sampled_from(["", CODE_STYLE])), max_size=4))
@example([("", ""), ("1) x", "")])
def test_a_line_of_pieces_is_one_paragraph_of_just_these_words(
    pieces: list[tuple[str, str]],
) -> None:
    styled = [(terminal_line(text), style) for text, style in pieces]
    styled = [piece for pair in styled for piece in ((" ", ""), pair)][1:]
    line = terminal_line("".join([text for text, _ in styled]))
    for reader in READERS:
        tokens = reader.parse(markdown_line(styled))
        assert [token.type for token in tokens if token.level == 0] == (
            ["paragraph_open", "paragraph_close"] if line else []
        )
        assert terminal_line("".join(map(shown, tokens))) == line


def test_a_bold_piece_is_bold() -> None:
    assert markdown_line([("a.b", BOLD_STYLE), (": ", ""), ("c_d", CODE_STYLE)]) == (
        "**a\\.b**\\: `c_d`"
    )


@given(words)
def test_a_cell_of_a_table_holds_just_these_words(text: str) -> None:
    made = markdown_table(COLUMNS, [[escape_markdown(text), inline_code(text)]])
    for reader in READERS:
        cells = [shown(token) for token in reader.parse(made) if token.type == "inline"]
        assert cells == ["a", "b", terminal_line(text), terminal_line(text)]


def test_ordinary_words_stay_readable() -> None:
    assert escape_markdown("the rule says (no), ada's") == "the rule says (no), ada's"
    assert inline_code("bash(git log *)") == "`bash(git log *)`"
    assert inline_code("a`b") == "``a`b``"
    assert inline_code("`") == "`` ` ``"
    assert markdown_table(COLUMNS, [["x|y", "2"]]) == "| a | b |\n| --- | ---: |\n| x\\|y | 2 |"
