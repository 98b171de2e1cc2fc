"""Patterns of commands and folders match as a slow and obvious matcher does."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steno.agent.permissions.patterns import (
    escape_pattern,
    has_wildcard,
    matches_command,
    matches_path,
    patterns_below,
    strip_assignments,
)
from steno.agent.permissions.subjects import find_blanks, split_words

pytestmark = pytest.mark.requirement("P-33")

WORDS = st.lists(st.sampled_from(["a", "b", "-a", "ab", "-ab", "A=b", "$x"]), max_size=6)
PATTERNS = st.lists(
    st.sampled_from(["a", "b", "-a", "*", "*", "-*", "a*", "*b", "-*b"]), min_size=1, max_size=5
)


def fits(pattern: str, text: str) -> bool:
    if not pattern:
        return not text
    if pattern[0] == "*":
        return any(fits(pattern[1:], text[skipped:]) for skipped in range(len(text) + 1))
    return text[:1] == pattern[0] and fits(pattern[1:], text[1:])


def leads(pattern: list[str], words: list[str]) -> bool:
    """Match word by word, the slow and obvious way."""
    if not pattern:
        return not words
    if pattern == ["-*"] and not words:
        return True
    first = pattern[0]
    if first == "*" and leads(pattern[1:], words):
        return True
    if not words:
        return False
    may_be_option = words[0][0] in "-$"
    if words[0] == "A=b":  # no wildcard matches an assignment
        return first == words[0] and leads(pattern[1:], words[1:])
    if pattern == ["-*"]:
        return leads(pattern, words[1:]) or not words[1:]
    if first == "*":
        return not may_be_option and leads(pattern, words[1:])
    if "*" in first and may_be_option and not first.startswith("-"):
        return False
    return fits(first, words[0]) and leads(pattern[1:], words[1:])


@given(PATTERNS, WORDS)
def test_commands_match_as_the_reference_matcher_does(pattern: list[str], words: list[str]) -> None:
    assignments = 0
    while assignments < len(words) and words[assignments] == "A=b":
        assignments += 1
    words = [*words[:assignments], *[word for word in words[assignments:] if word != "A=b"]]
    text = " ".join(words)
    if not words or pattern == ["*"]:
        return
    assert matches_command(" ".join(pattern), text, split_words(text)) == leads(pattern, words)


@given(st.text())
def test_an_escaped_text_matches_only_itself(text: str) -> None:
    pattern = escape_pattern(text)
    assert not has_wildcard(pattern)
    assert matches_command(pattern, text, split_words(text))
    assert not matches_command(pattern, f"{text}x", split_words(f"{text}x"))


def test_a_long_command_is_matched_in_linear_time() -> None:
    """With backtracking this would never end."""
    text = " ".join(["a"] * 50_000)
    assert not matches_command("* a " * 20 + "* b", text, split_words(text))
    assert matches_command("* a " * 20 + "*", text, split_words(text))
    text = "a" * 100_000
    assert not matches_command("*a" * 30 + "*b", text, split_words(text))
    assert strip_assignments("A=1 " * 20_000 + "rm") == "rm"


@pytest.mark.parametrize(
    ("text", "blanks"),
    [
        ("a b", [1]),
        ("a 'b c' d", [1, 7]),
        ('a "b \\" c" d', [1, 10]),
        ("a\\ b c", [4]),
        ("a 'b c", [1, 4]),  # an open quote quotes nothing
        ("a '\\' b", [1, 5]),
    ],
)
def test_blanks_in_quotes_do_not_split(text: str, blanks: list[int]) -> None:
    assert find_blanks(text) == blanks


@pytest.mark.parametrize(
    ("word", "may_be_option"),
    [
        *[(word, True) for word in ("-a", "'-a'", "\\-a", "$x", "*", "[a]", "{-a,b}", "a\nb")],
        *[(word, False) for word in ("a", "a-b", "'a\nb'", "./-a", "a*", "~")],
    ],
)
def test_a_word_may_be_an_option(word: str, *, may_be_option: bool) -> None:
    assert split_words(word)[0].may_be_option == may_be_option


@pytest.mark.parametrize(
    ("pattern", "below"),
    [
        ("/srv/shop/src/**", ("src/**",)),
        ("/srv/shop/", ("**",)),
        ("/srv/shop", (".",)),
        ("/srv/**", ("**",)),
        ("/**", ("**",)),
        ("/", ("**",)),
        ("/srv/*/a", ("a",)),
        ("/s*/shop/a", ("a",)),
        ("/**/shop/**", ("**/shop/**", "**")),
        ("/**/a", ("**/a",)),
        ("/other/**", ()),
        ("/srv/shopping/**", ()),
        ("/srv", ()),
    ],
)
def test_an_absolute_pattern_is_applied_below_a_folder(
    pattern: str, below: tuple[str, ...]
) -> None:
    assert patterns_below(pattern, "/srv/shop") == below


@given(
    st.lists(st.sampled_from(["a", "b", "*", "**", "a*"]), min_size=1, max_size=5),
    st.lists(st.sampled_from(["a", "b", "ab"]), min_size=1, max_size=3),
    st.lists(st.sampled_from(["a", "b", "ab"]), min_size=1, max_size=3),
)
def test_a_pattern_below_a_folder_matches_what_the_absolute_one_matches(
    pattern: list[str], folder: list[str], names: list[str]
) -> None:
    absolute = "/" + "/".join(pattern)
    below = patterns_below(absolute, "/" + "/".join(folder))
    path = "/".join(names)
    found = any(matches_path(each, path) for each in below)
    assert found == matches_path(absolute, "/" + "/".join([*folder, *names]))
