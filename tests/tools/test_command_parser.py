"""A command line is split into its commands, or reported as unknown."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steno.tools.shell import command_tree
from steno.tools.shell.command_lexer import UnsureReason
from steno.tools.shell.command_parser import (
    Redirection,
    ShellWord,
    parse_command_line,
)
from tests.shell_fuzz import fuzz

pytestmark = pytest.mark.requirement("P-31")


def split_commands(line: str) -> tuple[str, ...]:
    """Return commands, with and without assignments, and redirections in canonical spelling.

    If the line is unsure, return it after a line break, and the guesses.
    """
    parsed = parse_command_line(line)
    if parsed.unsure:
        return ("\n" + line, *parsed.guesses)
    found: list[str] = []
    for command in parsed.commands:
        words = [word.text for word in command.words]
        assignments = [word.text for word in command.assignments]
        found += [" ".join([*assignments, *words])] * bool(assignments or words)
        found += [" ".join(words)] * bool(assignments and words)
        found += [f"{one.operator} {one.target.text}" for one in command.redirections]
    return tuple(found)


SURE = {
    "git status": ("git status",),
    "git status && rm -rf x | cat": ("git status", "rm -rf x", "cat"),
    "a;b\nc & d||e |& f": ("a", "b", "c", "d", "e", "f"),
    "  ls   -la\t x  ": ("ls -la x",),
    "a &&\n\n b": ("a", "b"),
    "ls # what follows is nothing; rm x\ncat y": ("ls", "cat y"),
    "echo a#b": ("echo a#b",),
    "ls;": ("ls",),
    "sleep 1 &": ("sleep 1",),
    # Quotes protect blanks and operators, and are removed where they have no effect.
    "echo 'a  b;c' \"d && e\"": ("echo 'a  b;c' 'd && e'",),
    "\"rm\" -r'f' \\x": ("rm -rf x",),
    "\\rm x": ("rm x",),
    "echo '' \"\"": ("echo '' ''",),
    "git \\\n  status\\\n  -s": ("git status -s",),
    'grep "it\'s" f': ("grep 'it'\"'\"'s' f",),
    "echo '$(rm x)' '`rm x`'": ("echo '$(rm x)' '`rm x`'",),
    # Words that expand to arguments stay as written.
    "rm *.txt": ("rm *.txt",),
    "rm '*.txt'": ("rm '*.txt'",),
    'echo $HOME ${X} $1 "$? $X" {a,b} ~': ('echo $HOME ${X} $1 "$? $X" {a,b} ~',),
    "~/bin/run 'x'": ("~/bin/run x",),
    'echo 1$ "$"': ("echo 1$ '$'",),
    # A command with assignments is two subjects: with and without them.
    "A=1 rm -rf x": ("A=1 rm -rf x", "rm -rf x"),
    "LD_PRELOAD=x.so git status": ("LD_PRELOAD=x.so git status", "git status"),
    "X=/x; git status": ("X=/x", "git status"),
    "X='a b' Y=c 'cmd' > f": ("X='a b' Y=c cmd", "cmd", "> f"),
    # Programs that run other programs stay part of the command.
    "sudo rm x": ("sudo rm x",),
    "env X=1 rm x": ("env X=1 rm x",),
    "xargs rm < list": ("xargs rm", "< list"),
    "bash -c 'rm x'": ("bash -c 'rm x'",),
    "timeout 5 nice rm x": ("timeout 5 nice rm x",),
    # A redirection is a subject of its own.
    "echo x > ~/.bashrc": ("echo x", "> ~/.bashrc"),
    "echo x>>'a b'": ("echo x", ">> 'a b'"),
    "echo x >| f": ("echo x", "> f"),
    "echo x &> f": ("echo x", "> f"),
    "echo x >& f": ("echo x", "> f"),
    "echo x &>> f": ("echo x", ">> f"),
    "> f": ("> f",),
    "2>err make": ("make", "> err"),
    "make 2>&1 | tail >&2 3<&1": ("make", "tail"),
    "make >/dev/null 2>/dev/null </dev/null &>'/dev/null'": ("make",),
    "echo x > $F": ("echo x", "> $F"),
    "echo 2 >x": ("echo 2", "> x"),
    "[ -f x ] && test -d y": ("[ -f x ]", "test -d y"),
    "cat <<< x": ("cat",),
    # Groups, subshells and negations.
    "(rm x)": ("rm x",),
    "{ rm x; }": ("rm x",),
    "(a; { b | c; } > f) & ! d": ("a", "> f", "b", "c", "d"),
    # Builtins with arguments that they do not evaluate.
    "export X=1 Y": ("export X=1 Y",),
    "command -v rm": ("command -v rm",),
    "set -euo pipefail; x": ("set -euo pipefail", "x"),
    "printf -- '-v %s' $X": ("printf -- '-v %s' $X",),
    "[ 1 -eq 2 ] || [ -v HOME ]": ("[ 1 -eq 2 ]", "[ -v HOME ]"),
}


@pytest.mark.parametrize(("line", "subjects"), SURE.items(), ids=SURE.keys())
def test_a_line_that_can_be_parsed_is_split_into_commands(
    line: str, subjects: tuple[str, ...]
) -> None:
    assert split_commands(line) == subjects


UNSURE = {
    UnsureReason.SUBSTITUTION: [
        *("echo $(rm x)", 'echo "$(rm x)"', "echo `rm x`", 'echo "`rm x`"', "echo $((1 + 1))"),
        *("echo $[1]", "diff <(rm x) y", "tee >(rm x)", "((rm x))"),
    ],
    UnsureReason.PARAMETER: ["echo ${X:-$(rm x)}", "echo ${X@P}", "echo ${!X}", "echo $X\u00e9"],
    UnsureReason.QUOTING: ["echo $'a'", 'echo $"a"', "echo $\\\n(rm x)", 'echo "$\\\n(rm x)"'],
    UnsureReason.CONTINUATION: [
        "gi\\\nt",
        "cat <\\\n(rm x)",
        "a &\\\n& b",
        '"a\\\nb"',
        "a\\\n&& b",
        "a\\ \\\nb",
    ],
    UnsureReason.HEREDOC: ["cat << END\nrm x\nEND", "cat <<- x"],
    UnsureReason.CONTROL_FLOW: [
        *("f() { rm x; }; f", "function f { rm x; }", "if true; then rm x; fi", "[[ -f x ]]"),
        *(
            "for f in *; do rm $f; done",
            "while true; do rm x; done",
            "time rm x",
            "coproc rm x",
            "a | ! b",
        ),
        *("a=(1 2)", "echo a@(b)"),
    ],
    UnsureReason.EVALUATING_BUILTIN: [
        *("eval rm x", "ev''al 'rm x'", "\\eval 'rm x'", ". ./x", "source x", "alias ls='rm x'"),
        *(
            "trap 'rm x' EXIT",
            "command rm x",
            "builtin eval rm x",
            "exec rm x",
            "read x",
            "let x=1",
        ),
        *("printf -v 'a[$(rm x)]' y", "printf '%n' 'a[$(rm x)]'", 'printf "$X"', "printf $X y"),
        *("test -v 'a[`rm x`]'", "[ 'a[$(rm x)]' -eq 1 ]", "[ a -eq 1 ]", '[ -n "$X" ]'),
        *('unset "$X"', "unset 'a[$(rm x)]'", "export X=$Y", "declare -n X=Y", "mapfile -C x y"),
        *(
            "jobs -x rm x",
            "hash -p /x ls",
            "wait -p x",
            "set -x",
            "shopt -s extglob",
            "set -o posix",
        ),
    ],
    UnsureReason.ASSIGNMENT: [
        *("PATH=/x; git status", "X=1; rm $X", "X=$Y", "IFS=x; a", "export PATH=/x", "unset PATH"),
        *("HOME=/x; cd", "RANDOM='a[$(rm x)]' y", "LD_PRELOAD=x; y", "LC_ALL=x; y", "BASH_ENV=x"),
    ],
    UnsureReason.UNKNOWN_COMMAND: [
        *("$X y", '"$X" y', "r? x", "/bin/r[m] x", "{rm,x}", "a[0]=1", '"X=1" y', "'' x", "X+=c y"),
        *("\u00e9=1 y", "%1"),
    ],
    UnsureReason.SYNTAX: [
        *(
            "echo 'x",
            'echo "x',
            "echo x\\",
            "echo x &&",
            "| x",
            "a || && b",
            "a ; ; b",
            "a;;b",
            "> ",
        ),
        *("echo >", "(a", "{ a }", "{ a; } b", "(a) b", "a )", "() ", "!"),
    ],
    UnsureReason.REDIRECTION: [
        "a {fd}> x",
        "a >&$X",
        "a 2>&x",
        "a <&x",
        "a >&-x",
        "a >&-",
        "a >&b-",
        "a 2<&-",
        "a 3>&1-",
        "a 1234>x",
        "a >&'$(x)'",
    ],
    UnsureReason.EMPTY: ["# nothing", "", " \t", "\n"],
    UnsureReason.CONTROL_CHARACTER: ["ls\r\nrm x", "ls \x1b[2K", "a\0b", "a '\x7f'", "a\vb"],
    UnsureReason.NOT_ASCII_BLANK: [
        "a\u00a0b",
        "a\u0085b",
        "a\u2003b",
        "a\u200bb",
        "a\u00e0b",
        "\\\u00a0",
    ],
    UnsureReason.NOT_UNICODE: ["a '\ud800'"],
    UnsureReason.TOO_LONG: ["a " * 50_001, "a;" * 10_000],
    UnsureReason.TOO_DEEP: ["( " * 17 + "a" + " )" * 17, "{ " * 100_00],
    # The grammar of tree-sitter-bash reads these differently than bash.
    UnsureReason.DISAGREEMENT: ["a > f b", "cat <> f", "a 'b'\"c\"\\d", "[ 1 -eq -1 ]"],
}


@pytest.mark.parametrize(
    ("reason", "line"),
    [
        pytest.param(reason, line, id=f"{reason}-{line[:20]!a}")
        for reason, lines in UNSURE.items()
        for line in lines
    ],
)
def test_a_line_that_cannot_be_parsed_is_unknown_as_a_whole(
    reason: UnsureReason, line: str
) -> None:
    parsed = parse_command_line(line)
    assert (parsed.unsure, parsed.commands) == (reason, ())
    assert split_commands(line)[0] == "\n" + line


def test_every_reason_has_an_example() -> None:
    assert {*UNSURE, UnsureReason.NONE, UnsureReason.PARSER_MISSING} == {*UnsureReason}


def test_without_the_grammar_every_line_is_unsure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tree_sitter_bash", None)
    command_tree.find_language.cache_clear()
    try:
        assert parse_command_line("ls").unsure is UnsureReason.PARSER_MISSING
    finally:
        command_tree.find_language.cache_clear()


def test_the_grammar_is_loaded_with_the_first_line() -> None:
    code = """if True:
        import sys
        from steno.tools.shell.command_parser import parse_command_line
        assert "tree_sitter" not in sys.modules
        parse_command_line("ls")
        assert "tree_sitter" in sys.modules
    """
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


DAILY_LINES = (Path(__file__).parents[1] / "data/shell/daily_lines.txt").read_text().splitlines()


def test_lines_of_daily_work_are_understood() -> None:
    assert len(set(DAILY_LINES)) >= 200
    unsure = [line for line in DAILY_LINES if parse_command_line(line).unsure]
    assert not unsure


FOLDERS = {
    "X": [(".",)],
    "cd src && X": [(".",), ("src",)],
    "cd src; X": [(".",), (".", "src")],
    "cd src || X": [(".",), (".",)],
    "cd src || Y; X": [(".",), (".",), (".", "src")],
    "! cd src && X": [(".",), (".",)],
    "! cd src || X": [(".",), ("src",)],
    "cd src && cd -- 'a b' && X": [(".",), ("src",), ("src/a b",)],
    "cd src | cd lib && X": [(".",), (".",), (".",)],
    "(cd src && X) && Y": [(".",), ("src",), (".",)],
    "{ cd src && X; } && Y": [(".",), ("src",), ("src",)],
    "cd src && X & Y": [(".",), ("src",), (".",)],
    "cd .. && cd ../lib && X": [(".",), ("..",), ("../../lib",)],
    "cd /usr && cd lib && X": [(".",), ("/usr",), ("/usr/lib",)],
    # A link makes the folder above another one than bash returns to.
    "cd src && cd .. && X": [(".",), ("src",), None],
    "cd src/.. && X": [(".",), None],
    "cd /usr/.. && X": [(".",), None],
    "cd && X": [(".",), None],
    "cd - && X": [(".",), None],
    "cd $D && X": [(".",), None],
    "cd ~ && X": [(".",), None],
    "cd -P src && X": [(".",), None],
    "cd '' && X": [(".",), None],
    "cd a b && X": [(".",), None],
    "CDPATH=/usr cd src && X": [(".",), None],
    "pushd src && X": [(".",), None],
    "cd $D && cd /usr && X": [(".",), None, ("/usr",)],
    "cd a; cd b; cd c; cd d; X": [
        (".",),
        (".", "a"),
        (".", "a", "a/b", "b"),
        (".", "a", "a/b", "a/b/c", "a/c", "b", "b/c", "c"),
        None,
    ],
}


@pytest.mark.parametrize(("line", "folders"), FOLDERS.items(), ids=FOLDERS.keys())
def test_a_command_knows_the_folders_that_it_may_run_in(
    line: str, folders: list[tuple[str, ...] | None]
) -> None:
    assert [command.folders for command in parse_command_line(line).commands] == folders


OPTIONS = {
    "-x": True,
    "'-x'": True,
    "x-": False,
    "": None,
    "''": False,
    "$X": True,
    "src/$X": True,  # a blank in the variable begins another word
    '"$X"': True,
    '"src/$X"': False,
    '"src/$@"': True,
    "''\"$X\"": True,
    "*.py": True,
    "[a-z]": True,
    "?x": True,
    "./*": False,
    "src/*.py": False,
    '"*"*': False,
    "''*": True,
    "{-x,y}": True,
    "''{-x,y}": True,
    "src/{a,b}": False,
    "{}": False,
    "@{u}": False,
    "~/x": False,
    "HEAD~1": False,
}


@pytest.mark.parametrize(("word", "may_be_option"), OPTIONS.items(), ids=OPTIONS.keys())
def test_a_word_knows_whether_it_may_become_an_option(
    word: str, may_be_option: bool | None
) -> None:
    (command,) = parse_command_line(f"show {word}").commands
    assert [word.may_be_option for word in command.words[1:]] == (
        [] if may_be_option is None else [may_be_option]
    )


VALUES = {
    "a": "a",
    "'a b'\"c\"d\\e": "a bcde",
    "HEAD~1": "HEAD~1",
    "stash@{0}": "stash@{0}",
    "{}": "{}",
    "''~/x": "~/x",
    '"*"': "*",
    "of=~/x": None,
    "a:~": None,
    "~": None,
    "*": None,
    "a[1]": None,
    "{a,b}": None,
    "{1..3}": None,
    '"$X"': None,
}


@pytest.mark.parametrize(("word", "value"), VALUES.items(), ids=VALUES.keys())
def test_a_word_has_a_value_unless_bash_expands_it(word: str, value: str | None) -> None:
    (command,) = parse_command_line(f"show {word}").commands
    assert command.words[1].value == value


def test_a_redirection_belongs_to_its_command() -> None:
    line = parse_command_line("a && A=1 b 2>> 'x y' < in | c 2>&1 > /dev/null; { d; } &> $X")
    assert [command.redirections for command in line.commands] == [
        (),
        (
            Redirection(">>", ShellWord("'x y'", "x y", False), 2),
            Redirection("<", ShellWord("in", "in", False), None),
        ),
        (),
        (Redirection(">", ShellWord("$X", None, True), None),),
        (),
    ]
    assert line.commands[1].assignments == (ShellWord("A=1", "A=1", False),)


@pytest.mark.parametrize(
    "piece",
    [
        "a;",
        "a|",
        "a&&",
        "''",
        '"',
        "\\",
        "( ",
        "{ ",
        "$X",
        ">f ",
        "!",
        "~",
        "*",
        "# ",
        "a\n",
        "\u3042",
    ],
)
def test_long_and_hostile_lines_have_a_result(piece: str) -> None:
    line = piece * (90_000 // len(piece))
    for text in (line, line + "a", f"({line}a)"):
        parsed = parse_command_line(text)
        assert bool(parsed.commands) != bool(parsed.unsure)


@pytest.mark.parametrize(
    "line",
    [
        "echo $(rm x)",
        "true `rm x`",
        "if true; then rm x; fi",
        "(cd y && rm x)",
        "eval 'rm x'",
        "command rm x",
        "x='y\nrm x",
        "f() { rm x; }; f",
    ],
)
def test_a_rule_that_denies_still_sees_commands_in_an_unsure_line(line: str) -> None:
    assert "rm x" in split_commands(line)


# -- laws ----------------------------------------------------------------------------------------

names = st.sampled_from(["git", "rm", "ls", "make", "python3", "./run.sh", "npm"])
plain = st.text("abcxyz0123456789_-./@%+:,", min_size=1, max_size=8)
simple = st.builds(lambda name, words: " ".join([name, *words]), names, st.lists(plain, max_size=4))
operators = st.sampled_from(["&&", "||", ";", "|", "&", "\n", "|&", " ; ", " &&\n"])


@given(st.lists(simple, min_size=1, max_size=6), st.data())
def test_commands_that_are_joined_are_found_again(pieces: list[str], data: st.DataObject) -> None:
    line = pieces[0]
    for piece in pieces[1:]:
        line += data.draw(operators) + piece
    assert split_commands(line) == tuple(pieces)


@given(
    st.lists(
        # Text after a number sign is a comment, and a backslash makes an operator literal.
        st.one_of(simple, st.text(st.characters(exclude_characters="#\\"), max_size=12)),
        min_size=1,
        max_size=6,
    ),
    st.data(),
)
def test_every_piece_is_found_or_the_whole_is_unsure(
    pieces: list[str], data: st.DataObject
) -> None:
    line = "".join([piece + data.draw(operators) for piece in pieces]) + "rm -rf x"
    subjects = split_commands(line)
    assert subjects[0] == "\n" + line or "rm -rf x" in subjects


@given(st.text("ab '\"\\$`(){}<>|&;\n#=*~[]!-2", max_size=24))
def test_any_text_gives_subjects_and_only_the_first_can_be_unsure(line: str) -> None:
    subjects = split_commands(line)
    assert subjects
    assert not any(subject.startswith("\n") or not subject for subject in subjects[1:])
    assert subjects[0] == "\n" + line or not subjects[0].startswith("\n")


def spellings(word: str) -> st.SearchStrategy[str]:
    """Return ways to write one word."""
    in_doubles = "".join("\\" + char if char in '$`"\\' else char for char in word)
    return st.sampled_from(
        [
            shlex.quote(word),
            f'"{in_doubles}"',
            "".join(["\\" + char if char != "\n" else "'\n'" for char in word]) or "''",
            f"''{shlex.quote(word)}\"\"",
        ]
    )


words = st.lists(
    # All but control characters, which make a line unsure.
    st.text(
        st.characters(codec="utf-8", exclude_categories={"Cc"}) | st.sampled_from("\t\n"),
        max_size=6,
    ),
    max_size=4,
)


@settings(max_examples=40)
@given(words, st.data())
def test_words_are_read_as_the_shell_reads_them(values: list[str], data: st.DataObject) -> None:
    line = " ".join(["printf", r"'%s\0'", "x", *[data.draw(spellings(value)) for value in values]])
    told = subprocess.run(["bash", "-c", line], capture_output=True, check=True, timeout=60)
    subjects = split_commands(line.replace("printf", "show", 1))
    if subjects[0].startswith("\n"):
        assert "\\" in line  # a continuation in double quotes, or an escaped character
        return
    read = shlex.split(subjects[0])
    assert [word.encode() for word in read[2:]] == told.stdout.split(b"\0")[:-1]
    assert read[2:] == ["x", *values]


@given(words, st.data())
def test_a_command_has_one_spelling_however_it_is_quoted(
    values: list[str], data: st.DataObject
) -> None:
    first, second = (
        split_commands(" ".join(["show", *[data.draw(spellings(value)) for value in values]]))
        for _ in range(2)
    )
    if not (first[0].startswith("\n") or second[0].startswith("\n")):
        assert first == second


@pytest.mark.parametrize("seed", [1, 2])
def test_bash_runs_the_commands_that_the_parser_finds(seed: int) -> None:
    """`make shellfuzz` compares many more lines."""
    outcome = fuzz(seed, lines=150)
    assert outcome.compared == 150
    assert not outcome.differences


@pytest.mark.parametrize(
    "pair",
    [
        *(('~"/x"', "~/x"), ('[a"-"z]', "[a-z]"), ('{a","b}', "{a,b}"), ('{1".."3}', "{1..3}")),
        *(('~r"oo"t/x', "~root/x"), ("*'.py'", "*.py"), ("a\\{1,2}", "a{1,2}"), ("'a'b", "ab")),
        *(("'~/x'", "\\~/x"), ('"a b"', "a\\ b"), ('"*"', "'*'"), ('-"x"', "-x"), ("''", '""')),
    ],
)
def test_words_with_the_same_text_are_the_same_arguments_in_bash(
    tmp_path: Path, pair: tuple[str, str]
) -> None:
    for name in ("a", "b", "-", "x.py"):
        (tmp_path / name).touch()
    texts, arguments = set(), set()
    for word in pair:
        (command,) = parse_command_line(f"printf '<%s>' {word}").commands
        texts.add(command.words[-1].text)
        done = subprocess.run(
            ["bash", "-c", f"printf '<%s>' {word}"], cwd=tmp_path, capture_output=True, check=True
        )
        arguments.add(done.stdout)
    assert len(texts) == 2 or len(arguments) == 1
