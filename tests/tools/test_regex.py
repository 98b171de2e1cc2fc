"""Regular expressions: what is taken means the same to both engines, and the rest is refused."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from steno import InvalidValue
from steno.tools.regex import translate_regex
from steno.tools.search import PythonEngine
from steno.tools.workspace import Workspace
from tests.raised_errors import raises_code
from tests.tools.search_engines import lines_of, ripgrep, write_files

_TEXT = """abc\nABC\na.c\na+b\nx{y}\nfoo()\n  indented\ntab\there\nüber Übung\nnaïve
日本語\n٣\n²\nK\nſ\nı\nİ\nⒶ\na_b\na-b\n[x]\n😀\ne\u0301\nx\u00a0y\n\x1c\naaa\n\n123\n12:34
$x\n^x\na|b\nend$\nif (x) {\na\\b\na/b\n"""


@pytest.mark.parametrize("ignore_case", [False, True], ids=["exact", "any case"])
@pytest.mark.parametrize(
    "pattern",
    [
        *(
            "abc",
            "a.c",
            r"a\.c",
            "^a",
            "c$",
            "^$",
            "a|b",
            "(a|x)b?c",
            "(?:a)(b)",
            "(?P<n>a)(?<m>b)",
        ),
        *(
            "a{3}",
            "a{2,}",
            "a{0,1}$",
            "a*?b",
            "a+",
            "x{y}",
            "{",
            "}",
            "]",
            r"\{",
            "(x) {",
            "()",
            "a||b",
        ),
        *(
            "[abc]",
            "[^abc]",
            "[a-c]+$",
            "[]x]",
            "[^]x]",
            "[-a]",
            "[a-]",
            r"[\]x]",
            r"[\w-]+",
            "[$^|]",
        ),
        *(
            r"\w+",
            r"^\W$",
            r"\d",
            r"\D",
            r"\s",
            r"^\S+$",
            r"\bnaï",
            r"\b",
            r"[\s\S]",
            r"[^\W\d]",
            "^.$",
        ),
        *(r"\p{Lu}", r"\pL", r"[\p{N}]", "[[:alpha:]]", "[[:space:][:digit:]]", "[^[:ascii:]]"),
        *(
            r"\x41",
            r"\x{e9}",
            r"\u00fc",
            r"\U0001F600",
            r"\t",
            r"[\x00-\x1f]",
            r"\$",
            r"\^",
            r"\\",
            r"\/",
        ),
        *(
            "(?i)ABC",
            "a(?i)B|C",
            "(?i:a)b",
            "(?i)a(?-i)b",
            "(?s).",
            "(?m)^a",
            "K",
            "s",
            "i",
            "I",
            "[i]",
            "[^ı]",
        ),
        *(
            "[^i]",
            "[h-j]",
            "ı",
            "İ",
            "[ı-ı]",
            "übung",
            "é",
            "日.語",
            "[日-本]",
            "[😀-😂]",
            "👍",
            "^...$",
        ),
    ],
)
def test_both_engines_understand_a_pattern_alike(
    pattern: str, ignore_case: bool, folder: Path, workspace: Workspace
) -> None:
    write_files(folder, {"a": _TEXT})
    ours = lines_of(workspace, PythonEngine, pattern, ignore_case=ignore_case)
    assert ours == lines_of(workspace, ripgrep, pattern, ignore_case=ignore_case)


@pytest.mark.parametrize(
    ("pattern", "code"),
    [
        ("(?=a)", "unsupported_group"),
        ("(?<!a)b", "unsupported_group"),
        ("(?>a)", "unsupported_group"),
        (r"(a)\1", "backreference"),
        ("a*+", "nothing_to_repeat"),
        ("a**", "nothing_to_repeat"),
        ("*a", "nothing_to_repeat"),
        ("^*", "nothing_to_repeat"),
        ("a{2}{3}", "nothing_to_repeat"),
        ("a{,3}", "repeat_without_minimum"),
        ("a{3,2}", "repeat_reversed"),
        ("((a{100}){100})", "too_many_repeats"),
        ("(a", "group_not_closed"),
        ("a)", "group_not_open"),
        ("[a", "class_not_closed"),
        ("[", "class_not_closed"),
        ("[z-a]", "invalid_range"),
        (r"[a-\d]", "invalid_range"),
        ("[a&&b]", "set_operation"),
        ("[a--b]", "invalid_range"),
        ("[a-c--b]", "set_operation"),
        ("[--a]", "set_operation"),
        ("[[a]]", "set_operation"),
        ("[[:nope:]]", "unknown_posix_class"),
        (r"\p{Greek}", "unknown_property"),
        (r"(?i)\P{Lu}", "negated_property_ignoring_case"),
        (r"\Aa", "unsupported_anchor"),
        (r"a\z", "unsupported_anchor"),
        (r"\Ba", "unsupported_non_boundary"),
        (r"\b{start}", "unsupported_half_boundary"),
        (r"\<a", "unknown_escape"),
        (r"\q", "unknown_escape"),
        (r"\xg", "invalid_code_point"),
        (r"\uD800", "invalid_code_point"),
        (r"\x{110000}", "invalid_code_point"),
        ("a\\", "trailing_backslash"),
        (r"a\nb", "line_feed_in_pattern"),
        ("a\nb", "line_feed_in_pattern"),
        (r"[\n]", "line_feed_in_pattern"),
        ("(?-u)a", "unicode_disabled"),
        ("(?x)a", "unsupported_group"),
        ("(" * 60 + ")" * 60, "groups_too_deep"),
        ("a" * 2001, "pattern_too_long"),
    ],
)
def test_what_only_one_engine_would_understand_is_refused(pattern: str, code: str) -> None:
    with raises_code(InvalidValue, code):
        translate_regex(pattern)


_ATOMS = r"""
    a b i I k s é É ß x K ſ ı İ 0 ² ٣ - _ { } ] . \. \t \r \x41 \u00e9 \w \W \d \D \s \S \b ^ $
    [a-c] [^a-c] [\w-] [^\s] [i-k] [^i] [ı] [^İ] []a] [^\W_] [^\n] [[:alpha:]] \p{L} \pN
    ( (?: ) | (?i) (?i:a) (?-i:k) * + ? {2} {1,3} {0,} *?
"""
_CHARACTERS = "abiIkK\u212asſéÉßẞıİ0²٣_- \t\r\x1c{}][xA\u0301Ⓐ\u200d\u2028\u00a0日😀\x85½."
_BYTES = [b"\xff", b"\xc3", b"\xed\xa0\x80", b"\n", b"\n", b"\n", b"\r\n"]


@given(
    patterns=st.lists(
        st.lists(st.sampled_from(_ATOMS.split()), min_size=1, max_size=6).map("".join),
        min_size=1,
        max_size=4,
    ),
    text=st.lists(
        st.sampled_from([*map(str.encode, _CHARACTERS), *_BYTES]), min_size=20, max_size=200
    ).map(b"".join),
    ignore_case=st.booleans(),
)
@settings(max_examples=40, deadline=None)
def test_any_pattern_that_is_taken_finds_the_same_lines(
    patterns: list[str], text: bytes, ignore_case: bool
) -> None:
    taken = [pattern for pattern in patterns if _is_taken(pattern, ignore_case)]
    assume(taken)
    with tempfile.TemporaryDirectory() as made:
        (Path(made) / "file").write_bytes(text)
        workspace = Workspace([Path(made)])
        for pattern in taken:
            ours = lines_of(workspace, PythonEngine, pattern, ignore_case=ignore_case)
            assert ours == lines_of(workspace, ripgrep, pattern, ignore_case=ignore_case)


def _is_taken(pattern: str, ignore_case: bool) -> bool:
    try:
        translate_regex(pattern, ignore_case=ignore_case)
    except InvalidValue:
        return False
    return True
