"""One list of invisible characters decides what names, rules, commands and texts may contain."""

from __future__ import annotations

from unicodedata import category

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steno.agent.permissions.rules import PermissionRule
from steno.errors import InvalidValue
from steno.inputs.mcp.untrusted_data import clean_text, has_hidden_characters
from steno.invisible import (
    escape_hidden,
    escape_invisible,
    is_invisible,
    is_readable,
    is_visible,
    remove_hidden,
)
from steno.messages.call import ToolCall
from steno.ports import CallPreview
from steno.render.call_text import describe_call
from steno.render.terminal_text import TerminalTextStream, exact_text, terminal_json, terminal_text
from steno.tools.path_patterns import printable_name
from steno.tools.safe_open import quote_path
from steno.ui.prompt_state import sanitize_pasted

pytestmark = pytest.mark.requirement("P-38")

INVISIBLE = [
    "\u00ad",
    "\u034f",
    "\u061c",
    "\u115f",
    "\u1160",
    "\u17b4",
    "\u180e",
    "\u200b",
    "\u200c",
    "\u200d",
    "\u200e",
    "\u200f",
    "\u2028",
    "\u2029",
    "\u202a",
    "\u202e",
    "\u2060",
    "\u2064",
    "\u2066",
    "\u2069",
    "\u206f",
    "\u2800",
    "\u3164",
    "\ufe00",
    "\ufe0f",
    "\ufeff",
    "\uffa0",
    "\ufff9",
    "\U0001d159",
    "\U0001d173",
    "\U000e0001",
    "\U000e0041",
    "\U000e007f",
    "\U000e0100",
    "\U000e01ef",
]
READABLE = [
    "plain text",
    "café naïve",
    "比较一下",
    "नमस्ते",
    "👩🔬",
    "❤\ufe0f",
    "1\ufe0f\u20e3 and #\ufe0f\u20e3",
    "👩\u200d🔬 👩🏽\u200d💻",
    "❤\ufe0f\u200d🔥",
    "می\u200cخواهم",
    "क्\u200dष",
    "ᠠ\u180b",
]


@pytest.mark.parametrize("character", INVISIBLE)
def test_an_invisible_character_is_seen_everywhere(character: str) -> None:
    text = f"rm -rf a{character}b"
    escaped = text.encode("unicode_escape").decode()
    assert is_invisible(character)
    assert not is_visible(text)
    assert not is_readable(text)
    assert escape_invisible(text) == escape_hidden(text) == escaped
    assert terminal_text(text) == exact_text(text) == escaped
    assert remove_hidden(text) == sanitize_pasted(text).text.replace("\n", "") == "rm -rf ab"
    assert clean_text(text, 100) == "rm -rf ab"
    assert has_hidden_characters(text)
    assert not is_invisible(printable_name(text)[9])
    assert is_visible(quote_path(text))
    assert character.encode() not in terminal_json(f'"{text}"'.encode())


@pytest.mark.parametrize("character", INVISIBLE)
def test_no_rule_contains_an_invisible_character(character: str) -> None:
    with pytest.raises(InvalidValue) as caught:
        PermissionRule.parse(f"bash(git{character} status)")
    assert caught.value.code == "rule_pattern_unprintable"


@pytest.mark.parametrize("text", READABLE)
def test_text_of_people_stays_readable(text: str) -> None:
    assert escape_hidden(text) == remove_hidden(text) == terminal_text(text) == text
    assert sanitize_pasted(text) == (text, 0)
    assert not has_hidden_characters(text)


def test_a_name_with_a_selector_in_its_place_is_shown_as_it_is() -> None:
    assert printable_name("❤\ufe0f.md") == "❤\ufe0f.md"
    assert printable_name("a\ufe0f.md") == "'a\\ufe0f.md'"


@pytest.mark.parametrize(
    "text",
    ["a\ufe0f", " \ufe0f", "\ufe0f", "❤\ufe0f\ufe0f", "❤\u200d\u200d", "❤\u200d\u200c", "a\u200db"],
)
def test_a_selector_or_joiner_out_of_its_place_is_escaped(text: str) -> None:
    assert escape_hidden(text) != text
    assert "\\" in escape_hidden(text)


def test_an_approver_sees_the_selectors_of_emoji() -> None:
    call = ToolCall(id="1", name="bash", arguments='{"command": "echo ❤\ufe0f"}')
    shown = "\n".join([line.text for line in describe_call(call, CallPreview(), request=None)])
    assert "echo ❤\\ufe0f" in shown
    assert "\ufe0f" not in shown


@given(st.text())
def test_the_result_is_visible_and_does_not_change_again(text: str) -> None:
    escaped = escape_invisible(text)
    assert not any(map(is_invisible, escaped))
    assert escape_invisible(escaped) == escaped
    assert escape_hidden(escape_hidden(text)) == escape_hidden(text)
    assert remove_hidden(remove_hidden(text)) in remove_hidden(text)


@given(st.lists(st.sampled_from([*INVISIBLE, "❤", "1", "a", "ᠠ", "\n"]), max_size=12), st.data())
def test_wherever_a_text_is_cut_the_same_characters_are_escaped(
    parts: list[str], data: st.DataObject
) -> None:
    text = rest = "".join(parts)
    stream, shown = TerminalTextStream(), ""
    while rest:
        size = data.draw(st.integers(1, len(rest)))
        shown += stream.feed(rest[:size])
        rest = rest[size:]
    assert shown + stream.close() == terminal_text(text)


def test_the_list_contains_every_format_character_without_a_glyph() -> None:
    """The signs of Arabic, Syriac and Kaithi that enclose numbers are format characters too."""
    visible = {*range(0x600, 0x606), 0x6DD, 0x70F, 0x890, 0x891, 0x8E2, 0x110BD, 0x110CD}
    missing = {
        code
        for code in range(0x110000)
        if category(chr(code)) in ("Cf", "Zl", "Zp") and not is_invisible(chr(code))
    }
    assert missing == visible
