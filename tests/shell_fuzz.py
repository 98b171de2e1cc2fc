"""Compare the parser of command lines with bash.

    python -m tests.shell_fuzz [number of lines] [seed]

Lines are generated from a grammar and mutated. Each line that the parser is sure about runs in bash,
in an empty folder, with every command replaced by a function that records its words, its working
directory, its variables and the files that are open. Each line runs with all commands succeeding,
with all failing, and with random results until every parsed command has run. Anything that bash did
and the parser did not announce is a difference, and so is a command that never runs.

bash runs inside bubblewrap if that works. Otherwise lines that name paths elsewhere are left out.
"""

from __future__ import annotations

import os
import random
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from pathlib import Path
from posixpath import dirname, join, normpath
from typing import Final, NamedTuple

from steno.tools.shell.command_lexer import read_tokens
from steno.tools.shell.command_parser import (
    CommandLine,
    Redirection,
    ShellWord,
    SimpleCommand,
    parse_command_line,
)

BATCH: Final = 400
"""The number of lines for one process."""
ROUNDS: Final = 60
"""How often a line runs at most until every command has run."""

# -- generated lines ------------------------------------------------------------------------------

_NAMES: Final = (
    *("git", "ls", "rm", "make", "npm", "x", "a-b", "é", "./run.sh", "bin/tool", "g++", "{}", "]"),
    *("echo", "true", "false", ":", "pwd", "test", "[", "printf", "kill", "type", "umask", "times"),
    *("export", "unset", "set", "hash", "jobs", "wait", "command", "cd", "pushd", "popd", "read"),
    *('"if"', "\\for", "'!'", "ev''al", "time", "if", "in", "{", "}", "!", "[[", "$X", "~/x", "%1"),
)
_ATOMS: Final = (
    *("a", "b", "x", "-x", "--long=1", "1", "2", "22", "src", "a.py", "x/y", "f", "in", "if", "do"),
    *(
        "=",
        "a=b",
        "A=1",
        "a:b",
        "@",
        "%",
        "^",
        "!",
        "{",
        "}",
        "[",
        "]",
        "{}",
        "#",
        "a#b",
        "-",
        "--",
    ),
    *("é", "日本", "à", "\u3164", "é=1", "\u00a0", "\u0085", "\u2003", "\u200b", "\u2028"),
    *("$X", "$Y", "$W", "${X}", "$1", "$@", "$#", "$?", "$$", "$", "$.", "$é", "${X:-a}", "$(a)"),
    *("*", "?", "*.py", "[a-z]", "[!a]", "src/*", "./*", "**", "{a,b}", "{1..3}", "{a", "a,b}"),
    *(
        "~",
        "~/x",
        "~root",
        "HEAD~1",
        "a=~",
        "x:~",
        "`a`",
        "\\",
        "'",
        '"',
        "\\\n",
        "\r",
        "\0",
        "\x01",
    ),
)
_QUOTABLE: Final = (
    *("a", "b c", " ", "", "*", "$", "$X", "~", "#", ";", "&&", "|", ">", "\\", "!", "{a,b}", "-x"),
    *(
        "\n",
        "\t",
        "é",
        "\u00a0",
        "(",
        ")",
        "`",
        '"',
        "'",
        "a\nb",
        "=",
        "A=1",
        "[",
        "]",
        "$@",
        "\\a",
    ),
)
_BLANKS: Final = (" ",) * 12 + ("  ", "\t", " \\\n", " \\\n ", "\\\n ", "\\\n", "\u00a0")
_OPERATORS: Final = ("&&", "||", ";", "|", "&", "\n", "|&", " # c\n", ";\n", "&&\n", "|\n \n", ";;")
_REDIRECTIONS: Final = (
    *(">", ">>", "<", "2>", "2>>", "&>", "&>>", ">|", ">&", "<>", "<<<", "1>", "0<", "3>", "12>"),
    *("2>&1", ">&2", "1>&2", "2>&-", "<&-", "<&0", "3>&1-", "<<", "{v}>", "2 >"),
)
_TARGETS: Final = ("out", "out", "err", "in", "in", "'a b'", "/dev/null", "src/o", "$Y", "1", '"q"')
_FOLDERS: Final = (
    "src",
    "lib",
    "src/lib",
    "./src",
    "'a b'",
    "..",
    "src/..",
    "-",
    "$Y",
    "/",
    "-P src",
)
_BUILTIN_LINES: Final = (
    *(
        "test -f in",
        "[ -d src ]",
        "[ a = b ]",
        "[ 1 -eq 2 ]",
        "test -v A",
        "[ -n '' ]",
        "[ ! -f x ]",
    ),
    *(
        "printf '%s\\n' a",
        "printf -- -v a",
        'printf "%s" "$X"',
        "export A=1",
        "export B",
        "unset A",
    ),
    *(
        "set -e",
        "set -euo pipefail",
        "command -v git",
        "A=1",
        "B='x y'",
        "FOO=",
        "hash git",
        "wait",
    ),
    *(
        "printf -v a b",
        "test -v 'a[1]'",
        "set -x",
        "export PATH=a",
        "export A='b c'",
        "[ a -eq b ]",
    ),
)
_NOISE: Final = " \t\n;&|<>(){}[]!#$`'\"\\=*?~-+,.:/@%^0129aX\u00a0é"


class LineGenerator:
    """Generates command lines, most of which are understood."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def line(self) -> str:
        """Return an ordinary line in half of all cases, else a mutated one."""
        line = self._list(depth=0)
        for _ in range(self._random.choice((0, 0, 0, 0, 1, 1, 2, 5))):
            line = self._mutate(line)
        return line

    def _chance(self, share: float) -> bool:
        return self._random.random() < share

    def _list(self, depth: int) -> str:
        pick = self._random.choice
        parts = [self._pipeline_part(depth)]
        for _ in range(pick((0, 0, 1, 1, 2, 3))):
            gap = pick(("", " ", " "))
            parts += [gap, pick(_OPERATORS[: -1 if self._chance(0.95) else None]), gap]
            parts.append(self._pipeline_part(depth))
        if self._chance(0.1):
            parts.append(pick((";", " &", "\n", " # end", "#x", " \\\n")))
        return "".join(parts)

    def _pipeline_part(self, depth: int) -> str:
        negation = "! " if self._chance(0.06) else ""
        if depth < 3 and self._chance(0.12):
            inner = self._list(depth + 1)
            form = self._random.choice(("({})", "( {} )", "{{ {}; }}", "{{ {}\n}}", "{{ {}}}"))
            group = form.format(inner)
            return negation + group + (" " + self._redirection() if self._chance(0.2) else "")
        return negation + self._command()

    def _command(self) -> str:
        pick = self._random.choice
        kind = self._random.random()
        if kind < 0.12:
            return f"cd {pick(_FOLDERS)}"
        if kind < 0.24:
            return pick(_BUILTIN_LINES)
        pieces: list[str] = []
        while self._chance(0.12):
            pieces.append(f"{pick(('A', 'B', 'FOO', 'A', 'PATH', 'é', 'A+'))}={self._word()}")
        if self._chance(0.05):
            pieces.append(self._redirection())
        if self._chance(0.97):
            pieces.append(pick(_NAMES) if self._chance(0.4) else pick(_NAMES[:9]))
        pieces += [self._word() for _ in range(pick((0, 1, 1, 2, 3)))]
        while self._chance(0.15):
            pieces.append(self._redirection())
        if self._chance(0.02):
            pieces.append(self._word())
        text = pieces[0] if pieces else "x"
        for piece in pieces[1:]:
            text += pick(_BLANKS) + piece
        return text

    def _redirection(self) -> str:
        operator = self._random.choice(_REDIRECTIONS)
        if operator[-1] in "<>&|" and "&-" not in operator:
            target = self._random.choice(_TARGETS) if self._chance(0.9) else self._word()
            return operator + self._random.choice(("", " ")) + target
        return operator

    def _word(self) -> str:
        """Return a word of one to three parts."""
        pick = self._random.choice
        parts: list[str] = []
        for _ in range(pick((1, 1, 1, 2, 3))):
            kind = self._random.random()
            if kind < 0.45:
                parts.append(pick(_ATOMS[:21]))
            elif kind < 0.6:
                parts.append(pick(_ATOMS))
            elif kind < 0.75:
                parts.append("'" + pick(_QUOTABLE).replace("'", "") + "'")
            elif kind < 0.9:
                parts.append('"' + re.sub(r'(["`\\])', r"\\\1", pick(_QUOTABLE)) + '"')
            else:
                parts.append("\\" + (pick(_QUOTABLE)[:1] or "a"))
        return "".join(parts)

    def _mutate(self, line: str) -> str:
        place = self._random.randrange(len(line) + 1)
        other = self._random.randrange(len(line) + 1)
        start, end = sorted((place, other))
        end = min(end, start + 6)
        match self._random.randrange(6):
            case 0:
                return line[:start] + line[start + 1 :]
            case 1 | 2:
                return line[:place] + self._random.choice(_NOISE) + line[place:]
            case 3:
                return line[:place] + self._random.choice(_ATOMS + _REDIRECTIONS) + line[place:]
            case 4:
                return line[:start] + line[start:end] * 2 + line[end:]
            case _:
                return line[:start] + line[end:]


# -- bash -----------------------------------------------------------------------------------------

_VARIABLES: Final = ("A", "B", "FOO")
"""Variables whose values are recorded."""
_OWN_NAMES: Final = frozenset({"builtin", "return", "exit", "break", "continue", "logout", "eval"})
"""Builtins that the recorder needs. No generated line uses them."""
_PATH_NAMES: Final = ("./run.sh", "bin/tool")
_RECORDER: Final = r"""
PATH=/nonexistent
__record() {
  __open=
  if [[ $__has_files ]]; then
    for __file in "$__root"/* "$__root"/.[!.]* "$__root"/*/* "$__root"/*/*/*; do
      for __fd in 0 1 2 3 12; do
        [[ -f $__file && /proc/self/fd/$__fd -ef $__file ]] && __open+=${__file#"$__root"/}$'\003'
      done
    done
  fi
  case $__mode in *ok) __status=0 ;; fail) __status=1 ;; *) __status=$((RANDOM % 2)) ;; esac
  __fields=("$PWD" "$__open" "${A-?}" "${B-?}" "${FOO-?}" $# "$@")
  # A line break would split the output into two writes, and pipelines write at the same time.
  builtin printf '%s\001' "${__fields[@]//$'\n'/$'\002'}" >> "$__log"
  return $__status
}
command_not_found_handle() { __record "$@"; }
# Functions save the process that the handler costs. A process of its own leaves them out.
case $__mode in c*) __names= ;; *) __names='git ls rm make npm x a-b g++' ;; esac
for __name in $(builtin compgen -b) ./run.sh bin/tool $__names; do
  case $__name in
    builtin | return | exit | break | continue | logout | eval) ;;
    cd | pushd | popd)
      builtin eval "function $__name {
        __record $__name \"\$@\" || return
        builtin $__name \"\$@\" 2> /dev/null || { builtin printf 'failed\1' >> \"\$__log\"; return 1; }
      }" ;;
    *) builtin eval "function $__name { __record '$__name' \"\$@\"; }" ;;
  esac
done
X='-x y' Y=out W=
"""
_DRIVER: Final = r"""
. "$1/recorder"
while IFS= builtin read -r -d '' __root && IFS= builtin read -r -d '' __mode &&
  IFS= builtin read -r -d '' __has_files && IFS= builtin read -r -d '' __line; do
  __log=$__root.log
  HOME=$__root
  builtin cd "$__root"
  builtin unset OLDPWD
  if [[ $__mode == c* ]]; then
    builtin export __root __mode __has_files __log HOME BASH_ENV="$1/recorder"
    "$BASH" --noprofile --norc -c "$__line" < /dev/null > /dev/null 2>&1
    builtin unset BASH_ENV
  else
    ( builtin eval -- "$__line"; builtin wait ) < /dev/null > /dev/null 2>&1
  fi
done < "$1/jobs"
"""


class Job(NamedTuple):
    """A line and how it runs."""

    number: int
    line: str
    mode: str
    """`ok`, `fail`, `random`, or `cok` for a process of its own."""


class Record(NamedTuple):
    """A command that bash ran."""

    folder: str
    open_files: frozenset[str]
    variables: tuple[str, ...]
    words: tuple[str, ...]
    has_failed: bool
    """Whether the folder could not be changed."""


class Run(NamedTuple):
    """What a line did."""

    records: tuple[Record, ...]
    root: str
    folders: frozenset[str]
    given: frozenset[str]
    """The files that existed before."""
    files: frozenset[str]
    """The files that exist afterwards and did not exist before."""


@cache
def has_bubblewrap() -> bool:
    """Return whether bubblewrap works here."""
    program = shutil.which("bwrap")
    command = [program or "", "--ro-bind", "/", "/", "--unshare-all", "true"]
    return program is not None and not subprocess.run(command, capture_output=True).returncode


def run_lines(jobs: Sequence[Job], locale: str) -> list[Run]:
    """Run all jobs in one bash."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        given: list[frozenset[str]] = []
        queue: list[str] = []
        for place, job in enumerate(jobs):
            root = folder / str(place)
            given.append(_prepare(root, job.line))
            has_files = "1" if re.search("[<>]", job.line) else ""
            queue += [str(root), job.mode, has_files, job.line]
        (folder / "jobs").write_bytes(b"".join(part.encode() + b"\0" for part in queue))
        (folder / "recorder").write_text(_RECORDER)
        (folder / "driver").write_text(_DRIVER)
        bash = ["bash", "--noprofile", "--norc", str(folder / "driver"), str(folder)]
        if has_bubblewrap():
            protection = ["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"]
            protection += ["--bind", name, name, "--unshare-all", "--die-with-parent"]
            bash = ["bwrap", *protection, *bash]
        environ = {"PATH": os.environ["PATH"], "LC_ALL": locale}
        subprocess.run(bash, env=environ, stdin=subprocess.DEVNULL, check=False, timeout=300)
        return [_read_run(folder / str(place), given[place]) for place in range(len(jobs))]


def _prepare(root: Path, line: str) -> frozenset[str]:
    """Create the folder of a line with what its words may refer to; return the files."""
    root.mkdir()
    files: list[str] = []
    if re.search("cd|pushd|popd|src|lib", line):
        for folder in ("src", "src/lib", "lib", "a b", "src/src", "lib/src"):
            (root / folder).mkdir()
    if "<" in line:
        files += ["in", "out", "err", "q", "1"]
    if re.search(r"[*?[]", line):
        files += ["-f", "x.py"]
    for file in files:
        if not (root / file).exists():
            (root / file).touch()
    return frozenset(files)


def _read_run(root: Path, given: frozenset[str]) -> Run:
    log = Path(f"{root}.log")
    data = log.read_bytes().decode("utf-8", "surrogateescape") if log.exists() else ""
    fields = data.replace("\2", "\n").split("\1")[:-1]
    records: list[Record] = []
    at = 0
    while at < len(fields):
        if fields[at] == "failed":
            records[-1] = records[-1]._replace(has_failed=True)
            at += 1
            continue
        folder, opened, *variables = fields[at : at + 2 + len(_VARIABLES)]
        at += 2 + len(_VARIABLES)
        end = at + 1 + int(fields[at])
        files = frozenset(opened.split("\3")[:-1])
        words = tuple(fields[at + 1 : end])
        records.append(Record(folder, files, tuple(variables), words, has_failed=False))
        at = end
    found = {str(path.relative_to(root)): path.is_dir() for path in root.rglob("*")}
    folders = frozenset({".", *(name for name, is_folder in found.items() if is_folder)})
    return Run(tuple(records), str(root), folders, given, frozenset(found) - folders - given)


# -- the comparison -------------------------------------------------------------------------------


class Difference(NamedTuple):
    """Something that the parser did not expect."""

    line: str
    problem: str


class _Comparison:
    """Compares the runs of one line with its parsed commands."""

    def __init__(self, line: str, parsed: CommandLine) -> None:
        self.line: Final = line
        self.is_complete = False
        self.has_choice: Final = len(parsed.commands) > 1
        self._commands = parsed.commands
        self._is_sequence = not any(token.text in {"&", "|", "|&"} for token in read_tokens(line))
        self._has_duplicates = re.search(r"[<>]&|&>|\|&|/dev/null", line) is not None
        self._shared = [
            redirection
            for command in parsed.commands
            if not command.words
            for redirection in command.redirections
        ]
        self._seen: set[int] = set()
        # Bare assignments and background commands always succeed, so what follows `||` may not run.
        always_succeeds = not self._is_sequence or any(not one.words for one in parsed.commands)
        # A closed descriptor cannot be duplicated, and no handler is called without PATH.
        self._has_failed = (always_succeeds and re.search(r"\|\||!", line) is not None) or (
            re.search(r"[<>]&\s*(-|\d-|[3-9]|\d\d)|PATH=", line) is not None
        )

    def check(self, run: Run) -> Iterator[Difference]:
        """Yield what differs in a run."""
        places = self._match(run)
        if places is None:
            shown = [(record.words, record.folder, [*record.open_files]) for record in run.records]
            yield Difference(self.line, f"bash ran {shown}")
            return
        for place, record in zip(places, run.records, strict=True):
            self._seen.add(place)
            self._has_failed |= record.has_failed
        self._has_failed |= not all(
            _can_open(redirection, command, run)
            for command in self._commands
            for redirection in command.redirections
        )
        written = [
            (redirection, command.folders)
            for command in self._commands
            for redirection in command.redirections
            if redirection.operator != "<"
        ]
        for file in run.files:
            if not any(_is_target(*target, run.root, file) for target in written):
                yield Difference(self.line, f"bash wrote {file!r}")
        for place, command in enumerate(self._commands):
            if not command.words and (
                not command.redirections or self._has_written(command, run) or self._has_failed
            ):
                self._seen.add(place)
        self.is_complete = self._has_failed or len(self._seen) == len(self._commands)

    def missing(self) -> Difference:
        """Return the difference that some commands never ran."""
        unseen = [
            command.words or command.redirections
            for place, command in enumerate(self._commands)
            if place not in self._seen
        ]
        return Difference(self.line, f"bash never ran {unseen}")

    def _has_written(self, command: SimpleCommand, run: Run) -> bool:
        """Return whether the files of a group or of a bare redirection exist."""
        return all(
            redirection.operator == "<"
            or redirection.target.value is None
            or any(
                _is_target(redirection, command.folders, run.root, file)
                for file in run.files | run.given
            )
            or "/dev/" in redirection.target.value
            for redirection in command.redirections
        )

    def _match(self, run: Run) -> list[int] | None:
        """Return the parsed command of every record, or None if there is none for a record."""
        fitting = [
            [
                place
                for place, command in enumerate(self._commands)
                if self._fits(command, record, run)
            ]
            for record in run.records
        ]
        if self._is_sequence:
            places: list[int] = []
            last = -1
            for choices in fitting:
                last = next((place for place in choices if place > last), len(self._commands))
                places.append(last)
            return None if last == len(self._commands) else places
        owners: dict[int, int] = {}

        def assign(number: int, tried: set[int]) -> bool:
            for place in fitting[number]:
                if place not in tried:
                    tried.add(place)
                    if place not in owners or assign(owners[place], tried):
                        owners[place] = number
                        return True
            return False

        if not all(assign(number, set()) for number in range(len(run.records))):
            return None
        return sorted(owners, key=owners.__getitem__)

    def _fits(self, command: SimpleCommand, record: Record, run: Run) -> bool:
        return (
            bool(command.words)
            and _is_folder_of(record.folder, command, run.root)
            and _matches_words(command.words, record.words)
            and _matches_variables(command, record)
            and self._matches_files(command, record, run)
        )

    def _matches_files(self, command: SimpleCommand, record: Record, run: Run) -> bool:
        own = [(one, command.folders) for one in command.redirections]
        possible = own + [(one, None) for one in self._shared]
        for file in record.open_files:
            if not any(_is_target(*target, run.root, file) for target in possible):
                return False
        if self._has_duplicates or len(own) != 1:
            return True
        if command.redirections[0].descriptor not in {None, 0, 1, 2, 3, 12}:
            return True  # the recorder does not look at others
        can_open = _can_open(command.redirections[0], command, run)
        return not can_open or any(
            _is_target(*own[0], run.root, file) for file in record.open_files
        )


def _can_open(redirection: Redirection, command: SimpleCommand, run: Run) -> bool:
    """Return whether a redirection succeeds wherever its command runs."""
    value = redirection.target.value
    if not value or value.endswith("/") or ".." in value or command.folders is None:
        return False
    for folder in command.folders:
        path = normpath(join(folder, value))
        if redirection.operator == "<" and path not in run.given:
            return False
        if (
            path.startswith("..")
            or path in run.folders
            or (dirname(path) or ".") not in run.folders
        ):
            return False
    return True


def _is_folder_of(folder: str, command: SimpleCommand, root: str) -> bool:
    return command.folders is None or any(
        normpath(join(root, one)) == folder for one in command.folders
    )


def _is_target(
    redirection: Redirection, folders: Sequence[str] | None, root: str, file: str
) -> bool:
    """Return whether a redirection in one of the folders opens a file, relative to the root."""
    value = redirection.target.value
    if value is None:
        return True
    path = join(root, file)
    if folders is None:
        return path.endswith(normpath(value))
    return any(normpath(join(root, folder, value)) == path for folder in folders)


def _matches_words(words: Sequence[ShellWord], values: Sequence[str]) -> bool:
    """Return whether literal words are equal, and others stand for any number of words."""
    reached = {0}
    for word in words:
        if word.value is not None:
            reached = {at + 1 for at in reached if at < len(values) and values[at] == word.value}
            continue
        following = set(reached)
        for at in reached:
            end = at
            while end < len(values) and (word.may_be_option or not values[end].startswith("-")):
                end += 1
                following.add(end)
        reached = following
    return len(values) in reached


def _matches_variables(command: SimpleCommand, record: Record) -> bool:
    expected: dict[str, str | None] = {}
    for word in command.assignments:
        name = word.text.partition("=")[0]
        expected[name] = None if word.value is None else word.value.partition("=")[2]
    return all(
        expected.get(name) is None or expected[name] == value
        for name, value in zip(_VARIABLES, record.variables, strict=True)
    )


# -- the program ----------------------------------------------------------------------------------


class Outcome(NamedTuple):
    """The result of some lines."""

    generated: int
    reasons: Counter[str]
    compared: int
    runs: int
    differences: tuple[Difference, ...]


def fuzz(seed: int, lines: int = BATCH) -> Outcome:
    """Generate lines until some are sure, and compare these with bash."""
    generator = LineGenerator(seed)
    reasons: Counter[str] = Counter()
    chosen: dict[str, _Comparison] = {}
    differences: list[Difference] = []
    generated = 0
    while len(chosen) < lines:
        line = generator.line()
        generated += 1
        parsed = parse_command_line(line)
        reasons[parsed.unsure.value] += 1
        if not parsed.unsure and line not in chosen and _is_runnable(line, parsed):
            chosen[line] = _Comparison(line, parsed)
            differences += _check_spellings(line, parsed)
    runs, found = compare(list(chosen.values()), locale=("C.UTF-8", "C")[seed % 2])
    return Outcome(generated, reasons, len(chosen), runs, (*differences, *found))


def compare(comparisons: list[_Comparison], locale: str) -> tuple[int, list[Difference]]:
    """Run the lines until all of their commands have run; return the number of runs."""
    runs = 0
    differences: list[Difference] = []
    wrong: set[str] = set()
    for mode in ("ok", "fail", *["random"] * ROUNDS):
        open_ones = [one for one in comparisons if not one.is_complete and one.line not in wrong]
        if mode == "fail":
            open_ones = [one for one in comparisons if one.has_choice or not one.is_complete]
        jobs = [
            Job(place, one.line, "cok" if mode == "ok" and place % 20 == 0 else mode)
            for place, one in enumerate(open_ones)
        ]
        for one, run in zip(open_ones, run_lines(jobs, locale), strict=True):
            runs += 1
            for difference in one.check(run):
                differences.append(difference)
                wrong.add(one.line)
    differences += [
        one.missing() for one in comparisons if not one.is_complete and one.line not in wrong
    ]
    return runs, differences


def _is_runnable(line: str, parsed: CommandLine) -> bool:
    """Return whether the recorder sees all commands of the line, and nothing else is reached."""
    for command in parsed.commands:
        name = command.words[0].value if command.words else ""
        if name is None or name in _OWN_NAMES or ("/" in name and name not in _PATH_NAMES):
            return False
    if has_bubblewrap():
        return True
    for harmless in (*_PATH_NAMES, "/dev/null", "src/", "lib/", "x/y"):
        line = line.replace(harmless, "")
    return not re.search(r"[/~]|\.\.", line)


def _check_spellings(line: str, parsed: CommandLine) -> Iterator[Difference]:
    """Check that the canonical spelling of a literal word means the same word."""
    for word in (word for command in parsed.commands for word in command.words):
        if word.value is not None and shlex.split(word.text) != [word.value]:
            yield Difference(line, f"{word.text!r} is not {word.value!r}")


def main() -> int:
    """Fuzz in parallel, and print the differences and a summary."""
    total = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    first = int(sys.argv[2]) if len(sys.argv) > 2 else random.randrange(10**9)
    started = time.monotonic()
    generated = compared = runs = wrong = 0
    reasons: Counter[str] = Counter()
    with ProcessPoolExecutor(max_workers=os.cpu_count()) as pool:
        for outcome in pool.map(fuzz, range(first, first + -(-total // BATCH))):
            generated += outcome.generated
            compared += outcome.compared
            runs += outcome.runs
            reasons += outcome.reasons
            for difference in outcome.differences:
                wrong += 1
                print(f"{difference.line!r}\n    {difference.problem}", flush=True)
    sure = reasons.pop("", 0)
    print(f"seed {first}, bubblewrap: {has_bubblewrap()}, {time.monotonic() - started:.0f} s")
    print(f"{generated:,} lines, {sure:,} sure; unsure: {dict(reasons.most_common())}")
    print(f"{compared:,} different sure lines compared in {runs:,} runs: {wrong} differences")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
