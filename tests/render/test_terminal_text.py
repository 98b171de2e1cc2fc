"""Text that comes in pieces looks on a terminal like the whole."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steno.render.terminal_text import TerminalTextStream, terminal_text

TROUBLE = ["\x1b", "[", "\x9b", "31", ";", "m", "\r", "\n", "\x1b[0m", "\x1b]0;", "\x07", "é", "a"]


@given(st.lists(st.sampled_from(TROUBLE) | st.text(max_size=5), max_size=12), st.data())
def test_wherever_a_text_is_cut_it_looks_the_same(parts: list[str], data: st.DataObject) -> None:
    text = "".join(parts)
    flow, shown, rest = TerminalTextStream(), "", text
    while rest:
        size = data.draw(st.integers(1, len(rest)))
        shown += flow.feed(rest[:size])
        rest = rest[size:]
        assert "\x1b" not in shown
    assert shown + flow.close() == terminal_text(text)


def test_plain_text_is_shown_at_once() -> None:
    flow = TerminalTextStream()
    assert flow.feed("Half") == "Half"
    assert flow.feed(" of [31m it") == " of [31m it"
    assert flow.close() == ""


@pytest.mark.parametrize("start", ["\x1b[", "\x9b"])
def test_an_escape_sequence_without_an_end_is_shown_eventually(start: str) -> None:
    flow = TerminalTextStream()
    assert flow.feed(start) == ""
    shown = "".join([flow.feed("1" * 50) for _ in range(10)])
    assert shown.startswith(("\\x1b[1", "\\x9b1"))
