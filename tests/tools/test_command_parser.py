"""A command line is split into its commands, or reported as unknown."""

from __future__ import annotations

import shlex
import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steno.tools.shell.command_parser import split_commands

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
    "gi\\\nt sta\\\ntus": ("git status",),
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
    "PATH=/x; git status": ("PATH=/x", "git status"),
    "X='a b' Y+=c 'cmd' > f": ("X='a b' Y+=c cmd", "cmd", "> f"),
    # Programs that run other programs stay part of the command.
    "sudo rm x": ("sudo rm x",),
    "env X=1 rm x": ("env X=1 rm x",),
    "xargs rm < list": ("xargs rm", "< list"),
    "bash -c 'rm x'": ("bash -c 'rm x'",),
    "timeout 5 nice rm x": ("timeout 5 nice rm x",),
    "exec rm x": ("exec rm x",),
    # A redirection is a subject of its own.
    "echo x > ~/.bashrc": ("echo x", "> ~/.bashrc"),
    "echo x>>'a b'": ("echo x", ">> 'a b'"),
    "echo x >| f": ("echo x", "> f"),
    "echo x &> f": ("echo x", "> f"),
    "echo x >& f": ("echo x", "> f"),
    "echo x &>> f": ("echo x", ">> f"),
    "> f": ("> f",),
    "2>err make": ("make", "> err"),
    "cat <> f": ("cat", "<> f"),
    "make 2>&1 | tail >&2 3<&- 4>&5-": ("make", "tail"),
    "make >/dev/null 2>/dev/null </dev/null &>'/dev/null'": ("make",),
    "echo x > $F": ("echo x", "> $F"),
    "echo 2 >x": ("echo 2", "> x"),
    "[ -f x ] && test -d y": ("[ -f x ]", "test -d y"),
}


@pytest.mark.parametrize(("line", "subjects"), SURE.items(), ids=SURE.keys())
def test_a_line_that_can_be_parsed_is_split_into_commands(
    line: str, subjects: tuple[str, ...]
) -> None:
    assert split_commands(line) == subjects


UNSURE = [
    "echo $(rm x)",
    'echo "$(rm x)"',
    "echo `rm x`",
    'echo "`rm x`"',
    "echo $((1 + 1))",
    "echo $[1]",
    "echo ${X:-$(rm x)}",
    "echo ${X@P}",
    "echo $'a'",
    'echo $"a"',
    "echo $\\\n(rm x)",
    'echo "$\\\n(rm x)"',
    "diff <(rm x) y",
    "tee >(rm x)",
    "cat <\\\n(rm x)",
    "cat << END\nrm x\nEND",
    "cat <<< x",
    "(rm x)",
    "{ rm x; }",
    "f() { rm x; }; f",
    "function f { rm x; }",
    "if true; then rm x; fi",
    "for f in *; do rm $f; done",
    "while true; do rm x; done",
    "case x in x) rm x;; esac",
    "[[ -f x ]]",
    "! rm x",
    "time rm x",
    "coproc rm x",
    "eval rm x",
    "ev''al 'rm x'",
    "\\eval 'rm x'",
    ". ./x",
    "source x",
    "alias ls='rm x'",
    "trap 'rm x' EXIT",
    "command rm x",
    "builtin eval rm x",
    "$X y",
    '"$X" y',
    "r? x",
    "/bin/r[m] x",
    "{rm,x}",
    "a[0]=1",
    "a=(1 2)",
    '"X=1" y',
    "'' x",
    "echo 'x",
    'echo "x',
    "echo x\\",
    "echo x &&",
    "| x",
    "a || && b",
    "a ; ; b",
    "a;;b",
    "> ",
    "echo >",
    "# nothing",
    "ls\r\nrm x",
    "ls \x1b[2K",
    "printf -v 'a[$(rm x)]' y",
    "test -v 'a[`rm x`]'",
    'unset "$X"',
    "export X=$Y",
]


@pytest.mark.parametrize("line", UNSURE)
def test_a_line_that_cannot_be_parsed_is_unknown_as_a_whole(line: str) -> None:
    assert split_commands(line)[0] == "\n" + line


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
    st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=6), max_size=4
)


@settings(max_examples=40)
@given(words, st.data())
def test_words_are_read_as_the_shell_reads_them(values: list[str], data: st.DataObject) -> None:
    line = " ".join(["printf", r"'%s\0'", "x", *[data.draw(spellings(value)) for value in values]])
    told = subprocess.run(["bash", "-c", line], capture_output=True, check=True, timeout=60)
    subjects = split_commands(line.replace("printf", "show", 1))
    if subjects[0].startswith("\n"):
        assert '\\\n"' in line or any("\\\n" in value for value in values)
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
