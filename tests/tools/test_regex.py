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
    ("pattern", "reason"),
    [
        ("(?=a)", "look-around"),
        ("(?<!a)b", "look-around"),
        ("(?>a)", "atomic"),
        (r"(a)\1", "backreferences"),
        ("a*+", r"nothing that \+ could repeat"),
        ("a**", "nothing that"),
        ("*a", "nothing that"),
        ("^*", "nothing that"),
        ("a{2}{3}", "nothing that"),
        ("a{,3}", "write {0,3}"),
        ("a{3,2}", "backwards"),
        ("((a{100}){100})", "more than 1,000 times"),
        ("(a", r"a \( is not closed"),
        ("a)", r"a \) closes nothing"),
        ("[a", r"a \[ is not closed"),
        ("[", r"a \[ is not closed"),
        ("[z-a]", "range"),
        (r"[a-\d]", "range"),
        ("[a&&b]", "&&"),
        ("[a--b]", "range"),
        ("[a-c--b]", "--"),
        ("[--a]", "--"),
        ("[[a]]", r"write \\\["),
        ("[[:nope:]]", "no such class"),
        (r"\p{Greek}", "general categories"),
        (r"(?i)\P{Lu}", r"\\P cannot"),
        (r"\Aa", "use \\^ and \\$"),
        (r"a\z", "use \\^ and \\$"),
        (r"\Ba", r"\\B is not supported"),
        (r"\b{start}", "use"),
        (r"\<a", "no escape"),
        (r"\q", "no escape"),
        (r"\xg", "names no character"),
        (r"\uD800", "names no character"),
        (r"\x{110000}", "names no character"),
        ("a\\", "last backslash"),
        (r"a\nb", "one by one"),
        ("a\nb", "one by one"),
        (r"[\n]", "one by one"),
        ("(?-u)a", "Unicode"),
        ("(?x)a", "not supported"),
        ("(" * 60 + ")" * 60, "nested"),
        ("a" * 2001, "2,000 characters"),
    ],
)
def test_what_only_one_engine_would_understand_is_refused(pattern: str, reason: str) -> None:
    with pytest.raises(InvalidValue, match=reason):
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
