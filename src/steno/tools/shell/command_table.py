r"""The commands that only read, and those that are common work in a project.

The table has one form per program or subcommand: its safe options and the kind of its operands. A
command matches a form only if the form names each of its options in full, so an unknown option, an
abbreviation or a word that may turn out to be an option makes it an ordinary command, which needs a
rule or an approval. The table counts only in a sandbox: a program that "only reads" may still run
what a repository configures, such as a text converter of git, and the sandbox limits that.

How to write a form: `-q` and `--all` take no value; `-n:` takes a value, attached or as the next
word; `-f@` takes a path to read; `--color?` takes a value only after `=` or attached; `--arg::`
takes two values; `-#` is a number such as `-20`. Options that write, run programs, contact hosts or
read their configuration elsewhere are left out. This module runs nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from enum import Enum, StrEnum
from functools import lru_cache
from itertools import chain
from typing import Final, NamedTuple

from steno.tools.shell.command_parser import ShellWord


class Operands(Enum):
    """The meaning of the words that are no options."""

    NONE = "none"
    TEXT = "text"
    """Any words; they name no files whose content is shown."""
    PATHS = "paths"
    """Files and folders to read."""
    PATTERN_AND_PATHS = "pattern and paths"
    """A pattern or filter, unless an option gives it, then files and folders to read."""
    REVISIONS = "revisions"
    """Revisions of git, such as `HEAD:src/a.py`, and paths to read."""
    WRITTEN_PATHS = "written paths"
    """Files to write."""
    CREATED_PATHS = "created paths"
    """Files and folders to create."""


class CommandKind(StrEnum):
    """The kinds of commands in the table."""

    READING = "reading"
    ROUTINE = "routine"


class CommandForm(NamedTuple):
    """The safe options and operands of a program or a subcommand."""

    kind: CommandKind
    options: str = ""
    operands: Operands = Operands.NONE
    max_operands: int | None = None
    first: str = ""
    """An expression that the first operand must match; empty if it may be anything."""
    each: str = ""
    """An expression that every operand must match; empty if they may be anything."""
    needs: str = ""
    """Options of which one must be present; empty if none is needed."""
    any_option: bool = False
    """Whether every option is safe; `options` then only says which of them take values."""
    is_single_dash: bool = False
    """Whether `-name` is one option, as in `find`, and not a group of letters.

    Such programs read options after `--` as well, so no form with it matches.
    """
    is_ended_by_dashes: bool = True
    """Whether `--` ends the options."""
    is_similar_safe: bool = False
    """Whether a person who allows the command can allow all its operands, without options."""


class CommandMatch(NamedTuple):
    """A command of the table, and the paths that it reads and writes."""

    kind: CommandKind
    pattern: str = ""
    """A pattern that safely covers similar commands; empty if there is none."""
    read_paths: tuple[ShellWord, ...] = ()
    written_paths: tuple[ShellWord, ...] = ()
    created_paths: tuple[ShellWord, ...] = ()
    reads_folders: bool = False
    """Whether the command may read files that it does not name, such as those of a folder."""


# -- other spellings ----------------------------------------------------------------------------


def other_spellings(
    assignments: Sequence[ShellWord], words: Sequence[ShellWord]
) -> tuple[str, ...]:
    """Return further texts by which rules that deny may name a command.

    These are the command without assignments, without the folder of its program, without the
    options in front of a subcommand, and, for a program that runs another one, each of its endings.
    They may be more than the command runs.
    """
    texts = [word.text for word in words]
    found = {" ".join(texts): None} if assignments else {}
    starts = [0]
    for start in starts:  # grows
        name = texts[start].rpartition("/")[2] if start < len(texts) else ""
        rest = texts[start + 1 :]
        found[" ".join([name, *rest])] = None
        if name in _WITH_SUBCOMMANDS and rest and rest[0].startswith("-"):
            for at in range(1, min(len(rest), _MAX_SPELLINGS)):
                found[" ".join([name, *rest[at:]])] = None
        if start == 0 and name in _RUNNERS:
            starts += range(1, min(len(texts), _MAX_SPELLINGS))
    found.pop(" ".join([*[word.text for word in assignments], *texts]), None)
    return tuple(found)


_MAX_SPELLINGS: Final = 16
_WITH_SUBCOMMANDS: Final = frozenset(
    {
        *("git", "npm", "pnpm", "yarn", "cargo", "go", "uv", "pip", "pip3", "docker", "kubectl"),
        *("gh", "poetry", "rustup", "ruff"),
    }
)
_RUNNERS: Final = frozenset(
    {
        *("timeout", "xargs", "nice", "ionice", "nohup", "time", "env", "sudo", "doas", "command"),
        *("stdbuf", "setsid", "strace", "uv", "poetry", "pipenv", "pdm", "hatch", "npx", "pnpm"),
        *("yarn", "bunx", "coverage", "python", "python3", "npm", "bun", "busybox", "chroot"),
    }
)
"""Programs that run another program, which their arguments name."""

# -- matching --------------------------------------------------------------------------------------


def match_command(words: Sequence[ShellWord]) -> CommandMatch | None:
    """Return what the table says about a command; None if the command is not in the table."""
    if [word.value for word in words[:1]] == ["timeout"] and len(words) > 2:
        is_limit = _TIME_LIMIT.fullmatch(words[1].value or "") is not None
        is_nested = words[2].value == "timeout"
        found = match_command(words[2:]) if is_limit and not is_nested else None
        return None if found is None else found._replace(pattern="")
    found = _match_program(words)
    if found is None or not _reads_folders(words):
        return found
    return found._replace(reads_folders=True)


def _reads_folders(words: Sequence[ShellWord]) -> bool:
    """Return whether a command of the table may show the content of files that it does not name."""
    name, *arguments = words
    if name.value == "git":
        values = _strip_global_options([word.value for word in words])
        return len(values) > 1 and values[1] not in _GIT_NAMES_ONLY
    if name.value in _SEARCHES:
        return name.value == "rg" or any(map(_may_descend, arguments))
    return name.value in {"diff", "xargs"}


def _may_descend(word: ShellWord) -> bool:
    """Return whether a word may be an option of `grep` that reads folders."""
    if word.value is None:
        return word.may_be_option
    if word.value.startswith("--"):
        return word.value.startswith(("--r", "--d"))
    return word.value.startswith("-") and not {"r", "R", "d"}.isdisjoint(word.value)


def are_harmless_assignments(assignments: Sequence[ShellWord]) -> bool:
    """Return whether assignments in front of a command change nothing but its output."""
    return all(
        word.value is not None and _HARMLESS_ASSIGNMENT.fullmatch(word.value) is not None
        for word in assignments
    )


def _strip_global_options(values: list[str | None]) -> list[str | None]:
    """Return the words from the program on, without its harmless options in front of a subcommand."""
    harmless = _GLOBAL_OPTIONS.get(values[0] or "", frozenset()) if values else frozenset[str]()
    start = 1
    while start < len(values) and values[start] in harmless:
        start += 1
    return values[:1] + values[start:]


def _match_program(words: Sequence[ShellWord]) -> CommandMatch | None:
    if [word.value for word in words[:1]] == ["xargs"]:
        return _match_xargs(words[1:])
    found = _match_forms(words)
    if found is not None:
        return found
    values = tuple([word.value for word in words])
    for wrapper, programs in _WRAPPERS.items():
        if values[: len(wrapper)] == wrapper and values[len(wrapper) :][:1] in programs:
            found = _match_forms(words[len(wrapper) :])
            if found is not None and found.kind is CommandKind.ROUTINE:
                return found._replace(pattern="")
    return None


def _match_xargs(words: Sequence[ShellWord]) -> CommandMatch | None:
    """Return the match of a program of which every argument is safe, with arguments from a pipe."""
    start, options, replaced = 0, _read_options(_XARGS_OPTIONS), ""
    while start < len(words) and (words[start].value or "").startswith("-"):
        name, attached = words[start].value or "", ""
        if name not in options:
            name, attached = name[:2], name[2:]
            if options.get(name) is not _Arity.VALUE:
                return None
        elif options[name] is _Arity.VALUE:
            start += 1
            value = words[start].value if start < len(words) else None
            if not value:  # bash may remove the word, and the next one is the value
                return None
            attached = value
        replaced = attached if name == "-I" else replaced
        start += 1
    program = words[start].value if start < len(words) else None
    if program and replaced and replaced in program:
        return None
    forms = _FORMS.get((program,), ())
    found = _match_forms(words[start:]) if any(form.any_option for form in forms) else None
    if found is None:
        return None
    return found._replace(read_paths=(*found.read_paths, _PIPED_PATHS))


def _match_forms(words: Sequence[ShellWord]) -> CommandMatch | None:
    values = _strip_global_options([word.value for word in words])
    arguments = words[len(words) - len(values) + 1 :]
    for length in range(min(len(values), _MAX_KEY_WORDS), 0, -1):
        key = tuple(values[:length])
        for form in _FORMS.get(key, ()):
            found = _match_form(form, arguments[length - 1 :])
            if found is not None and form.is_similar_safe:
                found = found._replace(pattern=" ".join([*filter(None, key), "*"]))
            if found is not None:
                return found
    return None


class _Arguments(NamedTuple):
    options: set[str]
    operands: list[ShellWord]
    paths: list[ShellWord]
    """The paths to read in the values of options."""


def _match_form(form: CommandForm, following: Sequence[ShellWord]) -> CommandMatch | None:
    arguments = _ArgumentReader(form, following).read()
    if arguments is None or not _has_valid_operands(form, arguments):
        return None
    if form.needs and arguments.options.isdisjoint(form.needs.split()):
        return None
    words = arguments.operands
    match form.operands:
        case Operands.PATHS:
            read = [word for word in words if word.value not in _FIND_OPERATORS]
        case Operands.PATTERN_AND_PATHS:
            read = words[0 if arguments.options & _PATTERN_OPTIONS else 1 :]
        case Operands.REVISIONS:
            read = [*map(_path_of_revision, words)]
        case _:
            read = []
    is_written = form.operands is Operands.WRITTEN_PATHS
    is_created = form.operands is Operands.CREATED_PATHS
    return CommandMatch(
        form.kind,
        read_paths=(*read, *arguments.paths),
        written_paths=tuple(words) if is_written else (),
        created_paths=tuple(words) if is_created else (),
    )


def _path_of_revision(word: ShellWord) -> ShellWord:
    """Return the path in a word such as `HEAD:src/a.py`, or the word itself."""
    return word if word.value is None else _literal(word.value.rpartition(":")[2])


def _literal(value: str) -> ShellWord:
    return ShellWord(value, value, value.startswith("-"))


def _has_valid_operands(form: CommandForm, arguments: _Arguments) -> bool:
    values = [word.value for word in arguments.operands]
    if form.operands is Operands.NONE:
        return not values
    if form.max_operands is not None and (None in values or len(values) > form.max_operands):
        return False
    if form.first and not (values and re.fullmatch(form.first, values[0] or "")):
        return False
    return not form.each or all(
        value is not None and re.fullmatch(form.each, value) for value in values
    )


class _Arity(Enum):
    FLAG = ""
    VALUE = ":"
    PATH = "@"
    OPTIONAL = "?"
    TWO_VALUES = "::"


_OPTION: Final = re.compile(r"(-[^:@?]*)(::|[:@?]?)")


@lru_cache(maxsize=1024)
def _read_options(text: str) -> Mapping[str, _Arity]:
    """Return the options in the text of a form, with the values that they take."""
    found = [_OPTION.fullmatch(option) for option in text.split()]
    return {match[1]: _Arity(match[2]) for match in found if match is not None}


class _ArgumentReader:
    """Reads the arguments of a command as `getopt_long` does, for the options of a form."""

    def __init__(self, form: CommandForm, words: Sequence[ShellWord]) -> None:
        self._form = form
        self._options = _read_options(form.options)
        self._words: Iterator[ShellWord] = iter(words)
        self._found = _Arguments(set(), [], [])

    def read(self) -> _Arguments | None:
        """Return the arguments; None if the form does not have all of the options."""
        for word in self._words:
            value = word.value
            if value == "--":
                if self._form.is_single_dash or not self._form.is_ended_by_dashes:
                    return None
                self._found.operands.extend(self._words)
            elif value is None:
                if word.may_be_option and not self._form.any_option:
                    return None
                if not word.text.startswith("-"):
                    self._found.operands.append(word)
            elif not value.startswith("-") or value == "-":
                self._found.operands.append(word)
            elif not self._read_option(value):
                return None
        return self._found

    def _read_option(self, word: str) -> bool:
        """Read an option or a group of options; return whether the form has all of them."""
        if word[1:].isascii() and word[1:].isdigit() and "-#" in self._options:
            return True
        if word.startswith("--") or self._form.is_single_dash:
            name, separator, attached = word.partition("=")
            return self._take_value(name, attached if separator else None)
        for position, letter in enumerate(word[1:], start=2):
            name, attached = f"-{letter}", word[position:]
            if self._options.get(name, _Arity.FLAG) is not _Arity.FLAG:
                return self._take_value(name, attached or None)
            if not self._take_value(name, None):
                return False
        return True

    def _take_value(self, name: str, attached: str | None) -> bool:
        """Take the values of an option; return whether the form has the option with such a value."""
        self._found.options.add(name)
        arity = self._options.get(name)
        if arity is None:
            if attached is not None:  # any option is safe; this one may name a file
                self._found.paths.append(_literal(attached))
            return self._form.any_option
        if attached is not None:
            if arity is _Arity.PATH:
                self._found.paths.append(_literal(attached))
            return arity in (_Arity.VALUE, _Arity.PATH, _Arity.OPTIONAL)
        for _ in range({_Arity.VALUE: 1, _Arity.PATH: 1, _Arity.TWO_VALUES: 2}.get(arity, 0)):
            word = next(self._words, None)
            if word is None or word.value is None:
                return False
            if arity is _Arity.PATH:
                self._found.paths.append(word)
        return True


# -- how to write a form ---------------------------------------------------------------------------


def _reads(
    options: str = "",
    operands: Operands = Operands.NONE,
    *,
    max_operands: int | None = None,
    first: str = "",
    each: str = "",
    needs: str = "",
    is_single_dash: bool = False,
) -> CommandForm:
    """Return the form of a command that only reads."""
    return CommandForm(
        CommandKind.READING,
        options,
        operands,
        max_operands=max_operands,
        first=first,
        each=each,
        needs=needs,
        is_single_dash=is_single_dash,
    )


def _each(names: str, form: CommandForm) -> dict[str, CommandForm]:
    """Return the same form for several names, which are separated by commas."""
    return dict.fromkeys(names.split(", "), form)


def _only_reads(operands: Operands = Operands.PATHS, values: str = "") -> CommandForm:
    """Return the form of a program of which every option is safe; `values` have values."""
    return CommandForm(CommandKind.READING, values, operands, any_option=True)


def _runs(
    options: str = "",
    operands: Operands = Operands.NONE,
    *,
    max_operands: int | None = None,
    first: str = "",
    each: str = "",
    needs: str = "",
    is_similar_safe: bool = False,
) -> CommandForm:
    """Return the form of a command that is common work in a project."""
    return CommandForm(
        CommandKind.ROUTINE,
        options,
        operands,
        max_operands=max_operands,
        first=first,
        each=each,
        needs=needs,
        is_similar_safe=is_similar_safe,
    )


_TEXT, _PATHS, _REVISIONS = Operands.TEXT, Operands.PATHS, Operands.REVISIONS
_PATTERN = Operands.PATTERN_AND_PATHS
_PATTERN_OPTIONS: Final = frozenset(
    {"-e", "-f", "--regexp", "--file", "--files", "--type-list", "--from-file"}
)
"""Options of `grep`, `rg` and `jq` with which there is no pattern among the operands."""

_FIND_OPERATORS: Final = frozenset({"!", "(", ")", ","})
"""Operands of `find` that are no paths."""

# -- programs that only read -----------------------------------------------------------------------

_PROGRAMS: Final[Mapping[str, CommandForm]] = {
    # Every option of these programs is safe.
    **_each("cat, tac, rev, nl, od, strings, comm, cmp, paste, fold, expand", _only_reads()),
    **_each(
        "md5sum, sha1sum, sha224sum, sha256sum, sha384sum, sha512sum, b2sum, cksum", _only_reads()
    ),
    **_each(
        "basename, dirname, seq, true, false, :, id, whoami, groups, uname, arch, nproc, uptime, "
        "free, ps, printenv, sleep, exit, tty, locale, lscpu",
        _only_reads(_TEXT),
    ),
    "ls": _only_reads(),
    "head": _only_reads(values="-n: -c:"),
    "tail": _only_reads(values="-n: -c: -s:"),
    "wc": _only_reads(),
    "stat": _only_reads(values="-c: -f: --format: --printf:"),
    "du": _only_reads(values="-d: -t: -B:"),
    "df": _only_reads(_TEXT),
    "pwd": _only_reads(_TEXT),
    "echo": _only_reads(_TEXT),
    "realpath": _only_reads(_TEXT),
    "readlink": _only_reads(_TEXT),
    "which": _only_reads(_TEXT),
    "cut": _only_reads(values="-b: -c: -d: -f: --delimiter: --fields: --characters: --bytes:"),
    "tr": _only_reads(_TEXT),
    "column": _only_reads(values="-s: -c: -o: -N: -H: -R:"),
    "grep": _only_reads(_PATTERN, "-e: -f@ -m: -A: -B: -C: -d: -D:"),
    "egrep": _only_reads(_PATTERN, "-e: -f@ -m: -A: -B: -C: -d: -D:"),
    "fgrep": _only_reads(_PATTERN, "-e: -f@ -m: -A: -B: -C: -d: -D:"),
    "diff": _only_reads(values="-U: -C: -W: -x: -X@ -I: -F: -S:"),
    # Of these programs, other options write files or run programs.
    **_each(
        "test, [",
        _reads(
            "-e -f -d -r -w -x -s -L -h -n -z -a -o -eq -ne -lt -le -gt -ge -nt -ot -ef -S -p -b -c -O "
            "-G -N -u -g -k -t",
            _TEXT,
            is_single_dash=True,
        ),
    ),
    "cd": _reads("-L -P", _TEXT, max_operands=1),
    "printf": _reads("", _TEXT),
    "hostname": _reads(),
    "env": _reads(),
    "file": _reads("-b -i -L -h -k -p -s -0 --brief --mime --mime-type --mime-encoding", _PATHS),
    "date": _reads(
        "-d: -u -R -I? -r@ --date: --utc --universal --rfc-3339: --iso-8601?", _TEXT, each=r"\+.*"
    ),
    "sort": _reads(
        "-b -d -f -g -h -i -M -n -R -r -V -c -C -m -s -u -z -k: -t: -S: --reverse "
        "--numeric-sort --unique --key: --field-separator: --human-numeric-sort "
        "--version-sort --ignore-case --stable --check? --parallel:",
        _PATHS,
    ),
    "uniq": _reads(
        "-c -d -D -i -u -z -f: -s: -w: --count --repeated --unique --ignore-case",
        _PATHS,
        max_operands=1,
    ),
    "tree": _reads(
        "-a -d -f -i -l -p -s -h -u -g -t -r -n -C -A -D -F -J -X -L: -I: -P: "
        "--dirsfirst --noreport --prune --gitignore --du --si --filelimit: --charset:",
        _PATHS,
    ),
    "sed": _reads(
        "-n -E -r -s -u -z --quiet --silent --regexp-extended",
        _PATTERN,
        first=r"(?:[0-9]+|\$|/[^/\\\n]*/)(?:,(?:\+?[0-9]+|\$|/[^/\\\n]*/))?p",
    ),
    "find": _reads(
        "-H -L -P -a -o -and -or -not -print -print0 -ls -prune -quit -depth -d -mount -xdev "
        "-daystart -empty -executable -readable -writable -nouser -nogroup -true -false -follow "
        "-noleaf -name: -iname: -path: -ipath: -wholename: -iwholename: -regex: -iregex: -lname: "
        "-ilname: -type: -xtype: -size: -mtime: -atime: -ctime: -mmin: -amin: -cmin: -newer@ "
        "-anewer@ -cnewer@ -newermt: -newerct: -newerat: -user: -group: -uid: -gid: -perm: "
        "-maxdepth: -mindepth: -links: -inum: -samefile@ -fstype: -printf: -regextype: -used:",
        _PATHS,
        is_single_dash=True,
    ),
    "rg": _reads(
        "-a -c -F -H -i -I -l -L -n -N -o -p -P -q -s -S -u -U -v -V -w -x -. -0 -b -h -A: -B: -C: "
        "-e: -f@ -g: -j: -m: -M: -r: -t: -T: -d: -E: --files --hidden --no-ignore --no-ignore-vcs "
        "--no-heading --heading --glob: --iglob: --type: --type-not: --type-list --max-count: "
        "--max-depth: --max-columns: --max-filesize: --context: --after-context: --before-context: "
        "--ignore-case --smart-case --case-sensitive --fixed-strings --word-regexp --line-regexp "
        "--files-with-matches --files-without-match --count --count-matches --only-matching "
        "--invert-match --multiline --multiline-dotall --pcre2 --line-number --no-line-number "
        "--with-filename --no-filename --json --stats --sort: --sortr: --color: --colors: --column "
        "--replace: --regexp: --quiet --text --binary --follow --null --trim --vimgrep --no-messages "
        "--no-config --passthru --unrestricted --version",
        _PATTERN,
    ),
    "fd": _reads(
        "-H -I -u -s -i -g -F -a -L -p -0 -d: -t: -e: -E: -S: -c: -j: --hidden --no-ignore "
        "--unrestricted --case-sensitive --ignore-case --glob --regex --fixed-strings "
        "--absolute-path --follow --full-path --max-depth: --min-depth: --exact-depth: --type: "
        "--extension: --exclude: --size: --color: --changed-within: --changed-before: --max-results: "
        "--version",
        _PATTERN,
    ),
    "jq": _reads(
        "-c -r -j -a -s -n -e -R -S -C -M --compact-output --raw-output --raw-output0 --join-output "
        "--ascii-output --slurp --null-input --exit-status --raw-input --sort-keys --color-output "
        "--monochrome-output --tab --indent: --arg:: --argjson:: --stream --seq --unbuffered",
        _PATTERN,
    )._replace(is_ended_by_dashes=False),
    # Settings of the shell that only stop a line earlier or show more of it.
    **_each(
        "set -e, set -u, set -x, set -eu, set -ex, set -o pipefail, set -eo pipefail, "
        "set -euo pipefail, set -euxo pipefail",
        _reads(),
    ),
    # Programs that write only what they read.
    "tee": _reads("-a --append", Operands.WRITTEN_PATHS),
}

_VERSIONS: Final = (
    "python, python3, pip, pip3, uv, poetry, pipx, pytest, ruff, mypy, black, tox, node, npm, npx, "
    "pnpm, bun, deno, tsc, eslint, prettier, jest, vitest, cargo, rustc, rustup, rustfmt, java, javac, "
    "gcc, g++, clang, cc, make, cmake, ninja, bash, git, docker, ruby, gem, perl, php, rg, fd, jq, gh, "
    "terraform, kubectl, helm"
)
"""Programs that show their version with `--version`."""

_DEVELOPMENT: Final[Mapping[str, CommandForm]] = {
    **{f"{name} --version": _reads() for name in _VERSIONS.split(", ")},
    **{f"{name} -V": _reads() for name in ("python", "python3", "pip", "cargo", "rustc", "uv")},
    **{f"{name} -v": _reads() for name in ("node", "npm", "pnpm", "tsc", "bun")},
    **{
        f"{pip} {form}": spec
        for pip in ("pip", "pip3", "python -m pip", "python3 -m pip", "uv pip")
        for form, spec in {
            "list": _reads("-e --editable --format: --not-required --user -v -q"),
            "show": _reads("-f --files -v -q", _TEXT),
            "freeze": _reads("--all --user --exclude-editable"),
            "check": _reads(),
            "--version": _reads(),
        }.items()
    },
    "poetry show": _reads("-t --tree -T --top-level --only: --with: --no-ansi", _TEXT),
    "uv tree": _reads("--frozen --offline --depth: --no-dedupe"),
    "uv python list": _reads("--only-installed --offline"),
    "npm ls": _reads("-a -g --all --depth: --json --long --parseable --prod --omit:", _TEXT),
    "npm list": _reads("-a -g --all --depth: --json --long --parseable --prod --omit:", _TEXT),
    "npm explain": _reads("--json", _TEXT),
    "npm root": _reads("-g"),
    "npm prefix": _reads("-g"),
    "npm run": _reads("--json --workspaces"),
    "npm pkg get": _reads("", _TEXT),
    "npm config get": _reads("", _TEXT, max_operands=1),
    "pnpm ls": _reads("-r --depth: --json --long --prod --dev", _TEXT),
    "pnpm list": _reads("-r --depth: --json --long --prod --dev", _TEXT),
    "pnpm why": _reads("-r --json", _TEXT),
    "tsc --showConfig": _reads(),
    "cargo tree": _reads(
        "-p: --package: -i: --invert: -d --duplicates -e: --edges: --depth: "
        "--all-features --no-default-features --features: --workspace --locked "
        "--offline --frozen --prefix: --no-dedupe"
    ),
    "cargo metadata": _reads("--no-deps --format-version: --offline --locked --frozen"),
    "cargo locate-project": _reads("--workspace --message-format:"),
    "rustup show": _reads(),
    "rustup toolchain list": _reads("-v"),
    "go version": _reads(),
    "go env": _reads("-json", _TEXT, each=r"[A-Z0-9_]+", is_single_dash=True),
    "go list": _reads("-m -json -f: -deps -test -e", _TEXT, is_single_dash=True),
    "go doc": _reads("-all -short -src -u -c", _TEXT, is_single_dash=True),
}

# -- git -------------------------------------------------------------------------------------------

_DIFF: Final = """
    -p -u -s -U: --patch --no-patch --unified: --stat? --numstat --shortstat --dirstat? --summary
    --name-only --name-status --compact-summary --color? --no-color --color-words? --word-diff?
    --word-diff-regex: --color-moved? --patch-with-stat --raw --minimal --patience --histogram
    --diff-algorithm: --diff-filter: -M? -C? --find-renames? --find-copies? --no-renames -B? -R -a
    --text -b -w --ignore-space-at-eol --ignore-space-change --ignore-all-space --ignore-blank-lines
    -W --function-context --inter-hunk-context: --exit-code --quiet -z --full-index --abbrev?
    --binary --check -S: -G: --pickaxe-all --pickaxe-regex --relative? --no-prefix --cc -c
    --no-ext-diff --no-textconv --submodule? --ignore-submodules? --merge-base --indent-heuristic
"""
_LOG: Final = f"""
    {_DIFF} -# -n: --max-count: --skip: --since: --after: --until: --before: --author: --committer:
    --grep: --all-match --invert-grep -i --regexp-ignore-case -E -F -P --merges --no-merges
    --first-parent --all --branches? --tags? --remotes? --glob: --exclude: --oneline --pretty?
    --format: --abbrev-commit --no-abbrev-commit --decorate? --no-decorate --decorate-refs: --graph
    --no-graph --date: --date-order --author-date-order --topo-order --reverse --follow --full-diff
    -L: -g --walk-reflogs --notes? --no-notes --left-right --cherry-pick --cherry
    --cherry-mark --left-only --right-only --boundary --ancestry-path --simplify-by-decoration
    --full-history --dense --sparse --show-pulls --source --no-walk? --parents --children -t -m
    --no-patch --stdin --log-size --encoding: --expand-tabs? --no-expand-tabs --mailmap --use-mailmap
"""
_LISTING: Final = "--sort: --format: --contains: --no-contains: --merged: --no-merged: --points-at:"

_GIT: Final[Mapping[str, CommandForm]] = {
    "status": _reads(
        "-s -b -v -z -u? --short --branch --verbose --porcelain? --long --show-stash "
        "--untracked-files? --ignored? --ahead-behind --no-ahead-behind --renames "
        "--no-renames --find-renames? --column? --no-column --ignore-submodules?",
        _TEXT,
    ),
    "log": _reads(_LOG, _REVISIONS),
    "whatchanged": _reads(_LOG, _REVISIONS),
    "show": _reads(_LOG, _REVISIONS),
    "shortlog": _reads(f"{_LOG} -s -e --summary --numbered --email --group:", _REVISIONS),
    "reflog": _reads(_LOG),
    "reflog show": _reads(_LOG, _REVISIONS),
    "rev-list": _reads(f"{_LOG} --count --objects --timestamp", _REVISIONS),
    "diff": _reads(f"{_DIFF} --staged --cached -1 -2 -3 --base --ours --theirs -0", _REVISIONS),
    "diff-tree": _reads(
        f"{_DIFF} -r -t --root --no-commit-id -m --stdin --pretty? --format:", _REVISIONS
    ),
    "diff-index": _reads(f"{_DIFF} --cached -m", _REVISIONS),
    "diff-files": _reads(_DIFF, _PATHS),
    "range-diff": _reads("--creation-factor: --no-color --color? --stat?", _REVISIONS),
    "blame": _reads(
        "-L: -b -c -e -f -l -n -p -s -t -w -M? -C? --root --show-stats --porcelain "
        "--line-porcelain --incremental --show-name --show-number --show-email --date: "
        "--since: --abbrev: --color-lines --color-by-age --first-parent --reverse",
        _REVISIONS,
    ),
    "annotate": _reads("-L: -w -M? -C?", _REVISIONS),
    "grep": _reads(
        "-a -i -I -w -v -h -H -E -G -P -F -n -l -L -z -o -c -p -W -q -A: -B: -C: -e: -f@ "
        "-m: --and --or --not --all-match --cached --untracked --no-exclude-standard "
        "--exclude-standard --text --ignore-case --word-regexp --invert-match --full-name "
        "--extended-regexp --basic-regexp --perl-regexp --fixed-strings --line-number "
        "--column --files-with-matches --name-only --files-without-match --only-matching "
        "--count --color? --no-color --break --heading --show-function "
        "--function-context --context: --after-context: --before-context: --max-depth: "
        "--max-count: --threads: --recursive --no-recursive --recurse-submodules --quiet",
        _PATTERN,
    ),
    "rev-parse": _reads(
        "--verify --short? --abbrev-ref? --symbolic --symbolic-full-name --all "
        "--show-toplevel --show-prefix --show-cdup --git-dir --absolute-git-dir "
        "--git-common-dir --is-inside-work-tree --is-inside-git-dir "
        "--is-bare-repository --is-shallow-repository --show-superproject-working-tree "
        "-q --quiet --branches? --tags? --remotes?",
        _TEXT,
    ),
    "ls-files": _reads(
        "-c -d -m -o -i -s -u -k -z -t -v -f --cached --deleted --modified --others "
        "--ignored --stage --unmerged --killed --directory --no-empty-directory "
        "--exclude: -x: --exclude-standard --error-unmatch --full-name --abbrev? "
        "--recurse-submodules --eol --deduplicate --format:",
        _TEXT,
    ),
    "ls-tree": _reads(
        "-d -r -t -l -z --name-only --name-status --object-only --full-name "
        "--full-tree --abbrev? --long --format:",
        _REVISIONS,
    ),
    "cat-file": _reads("-t -s -e -p", _REVISIONS),
    "describe": _reads(
        "--all --tags --contains --abbrev? --candidates: --exact-match --long --match: "
        "--exclude: --always --first-parent --dirty? --broken? --debug",
        _TEXT,
    ),
    "name-rev": _reads(
        "--tags --refs: --exclude: --all --name-only --always --no-undefined", _TEXT
    ),
    "merge-base": _reads("-a --all --octopus --independent --is-ancestor --fork-point", _TEXT),
    "show-ref": _reads(
        "--head --heads --branches --tags -d --dereference -s --hash? --verify "
        "--abbrev? -q --quiet",
        _TEXT,
    ),
    "for-each-ref": _reads(f"--count: {_LISTING} --ignore-case", _TEXT),
    "show-branch": _reads(
        "-a -r --all --remotes --list --topo-order --date-order --sha1-name "
        "--no-name --color? --no-color",
        _TEXT,
    ),
    "cherry": _reads("-v --abbrev?", _TEXT),
    "count-objects": _reads("-v -H --verbose --human-readable"),
    "check-ignore": _reads("-q -v -n -z --quiet --verbose --non-matching --no-index", _TEXT),
    "check-attr": _reads("-a --all --cached -z", _TEXT),
    "branch": _reads(
        f"-a -r -v -l --all --remotes --verbose --list --show-current --color? "
        f"--no-color --column? --no-column --abbrev? --no-abbrev --ignore-case {_LISTING}"
    ),
    "branch --list": _reads(f"-a -r -v --all --remotes --verbose {_LISTING}", _TEXT),
    "tag": _reads(f"-l -n? --list --column? --no-column --color? --ignore-case {_LISTING}"),
    "tag -l": _reads(f"-n? {_LISTING}", _TEXT),
    "tag --list": _reads(f"-n? {_LISTING}", _TEXT),
    "remote": _reads("-v --verbose"),
    "remote get-url": _reads("--all --push", _TEXT),
    "stash list": _reads(_LOG),
    "stash show": _reads(f"{_DIFF} --include-untracked --only-untracked", _TEXT),
    "worktree list": _reads("-v --porcelain -z"),
    "submodule status": _reads("--cached --recursive", _TEXT),
    "config": _reads(
        "-l -z --list --get --get-all --get-regexp --get-urlmatch --name-only "
        "--show-origin --show-scope --local --global --system --worktree --type: --bool "
        "--int --path --null --includes --no-includes",
        _TEXT,
        max_operands=1,
        needs="-l --list --get --get-all --get-regexp",
    ),
    "notes show": _reads("", _TEXT),
    "version": _reads("--build-options"),
    # Changes that are easy to undo.
    "add": _runs(
        "-A -u -v -n -N --all --update --verbose --dry-run --intent-to-add --no-all",
        _TEXT,
        is_similar_safe=True,
    ),
    "commit": _runs(
        "-m: -a -s -q -v --message: --all --signoff --quiet --verbose --amend --no-edit "
        "--allow-empty",
        _TEXT,
    ),
    "switch": _runs("-c: --create: -q --quiet --no-guess", _TEXT, max_operands=1),
    "checkout -b": _runs("-q", _TEXT, max_operands=2),
    "restore --staged": _runs("", _TEXT),
    "stash": _runs("-u -k -q --include-untracked --keep-index --quiet"),
    "stash push": _runs("-u -k -q -m: --include-untracked --keep-index --quiet --message:", _TEXT),
    "stash pop": _runs("--index -q --quiet", _TEXT),
    "stash apply": _runs("--index -q --quiet", _TEXT),
}

# -- common work in a project ----------------------------------------------------------------------

_PYTEST: Final = """
    -v -q -x -s -l --verbose --quiet --exitfirst --showlocals --lf --ff --nf --sw --last-failed
    --failed-first --new-first --stepwise --co --collect-only --no-header --no-summary --strict-markers
    --strict-config --no-cov --maxfail: --tb: --durations: --durations-min: -k: -m: -n: -r: -W: -p:
    --color: --capture: --timeout: --cov? --cov-report: --cov-branch --cov-fail-under: --dist:
    --import-mode: --deselect: --ignore: --doctest-modules --disable-warnings --disable-pytest-warnings
    --setup-show --fixtures --markers --version -h --help --pyargs --runxfail --full-trace --numprocesses:
    --benchmark-only --benchmark-skip --asyncio-mode: --snapshot-update --reruns: --randomly-seed:
"""
_MYPY: Final = """
    --strict -v -p: -m: --package: --module: --ignore-missing-imports --no-error-summary --pretty
    --show-error-codes --show-error-context --show-column-numbers --no-incremental --no-color-output
    --python-version: --platform: --follow-imports: --check-untyped-defs --disallow-untyped-defs
    --warn-unused-ignores --warn-unreachable --no-implicit-optional --explicit-package-bases
    --namespace-packages --non-interactive --version
"""
_RUFF_CHECK: Final = """
    --fix --unsafe-fixes --no-fix --diff -q -v --quiet --verbose --select: --ignore: --extend-select:
    --extend-ignore: --output-format: --statistics --show-fixes --exclude: --no-cache --target-version:
    --preview --no-preview --exit-zero -e --add-noqa --line-length: --force-exclude
"""
_CARGO: Final = """
    -v -q -r -p: -j: --verbose --quiet --release --all --workspace --exclude: --package: --all-targets
    --all-features --features: -F: --no-default-features --lib --bins --bin: --example: --examples
    --tests --test: --benches --bench: --doc --locked --offline --frozen --jobs: --keep-going
    --message-format: --no-run --no-fail-fast --no-deps --profile: --color:
"""
_GO: Final = """
    -v -x -n -race -cover -short -failfast -json -a -i -run: -bench: -benchmem -benchtime: -count:
    -timeout: -tags: -p: -parallel: -cpu: -shuffle: -skip: -list: -vet: -covermode: -coverpkg: -mod:
    -trimpath -buildvcs:
"""
_SCRIPT: Final = (
    r"(?:test|tests|lint|build|typecheck|type-check|types|tsc|format|fmt|check|coverage|compile|unit|"
    r"ci|verify|validate|prettier|eslint|docs|e2e|bench|snapshot)(?:[:.-][\w.:-]+)?"
)
"""The names of scripts of `package.json` that test, check, build or format."""
_TARGET: Final = (
    r"(?:test|tests|check|lint|build|all|fmt|format|typecheck|types|mypy|ruff|coverage|docs|doc|unit|"
    r"compile|bench|verify|help|ci)(?:[-_][\w-]+)?|[0-9]+"
)
"""The targets of `make` and similar programs that test, check, build or format.

A number is the value of `-j` in a word of its own."""
_NPM_OPTIONS: Final = "-s -w: --silent --if-present --workspaces --workspace: --quiet --filter: -r"

_ROUTINE: Final[Mapping[str, CommandForm]] = {
    **_each(
        "pytest, py.test, python -m pytest, python3 -m pytest",
        _runs(_PYTEST, _TEXT, is_similar_safe=True),
    ),
    **_each(
        "python -m unittest, python3 -m unittest",
        _runs("-v -q -f -b -c -k: -s: -t: --verbose --quiet --failfast --buffer", _TEXT),
    ),
    **_each("mypy, python -m mypy, python3 -m mypy", _runs(_MYPY, _TEXT, is_similar_safe=True)),
    **_each("ruff check, python -m ruff check", _runs(_RUFF_CHECK, _TEXT, is_similar_safe=True)),
    **_each(
        "ruff format, python -m ruff format",
        _runs(
            "--check --diff -q -v --quiet --exclude: --line-length: --preview --no-cache "
            "--target-version:",
            _TEXT,
            is_similar_safe=True,
        ),
    ),
    **_each(
        "black, python -m black",
        _runs(
            "--check --diff -q -v -l: --quiet --verbose --color --line-length: "
            "--target-version: -t: --exclude: --fast --safe --preview",
            _TEXT,
            is_similar_safe=True,
        ),
    ),
    **_each(
        "isort, python -m isort",
        _runs("-c --check --check-only --diff -q --profile: --atomic", _TEXT),
    ),
    "flake8": _runs(
        "--max-line-length: --select: --ignore: --extend-ignore: --statistics --count -q", _TEXT
    ),
    "pylint": _runs("--disable: --enable: -E --errors-only --output-format: --score: -j:", _TEXT),
    "pyright": _runs("--stats --verbose --outputjson -p: --project: --warnings", _TEXT)._replace(
        is_ended_by_dashes=False
    ),
    "tox": _runs("-e: -q -v -p -l --listenvs"),
    "nox": _runs("-s: -l -R -r --sessions: --list"),
    "coverage run -m pytest": _runs(_PYTEST, _TEXT),
    "coverage report": _runs("-m --show-missing --skip-covered --fail-under:", _TEXT),
    "python -m build": _runs("--wheel --sdist --no-isolation -n"),
    "python -m compileall": _runs("-q -f", _TEXT),
    "npm test": _runs(_NPM_OPTIONS),
    "npm t": _runs(_NPM_OPTIONS),
    **_each(
        "npm run, npm run-script, pnpm, pnpm run, yarn, yarn run, bun run",
        _runs(_NPM_OPTIONS, _TEXT, max_operands=1, first=_SCRIPT),
    ),
    "bun test": _runs("--watch --coverage --bail -t:", _TEXT),
    "tsc": _runs(
        "-p: -b --noEmit --project: --build --pretty --strict --skipLibCheck --incremental "
        "--listFiles --diagnostics --traceResolution --verbose --force --dry",
        _TEXT,
        each=r"[^@].*",  # `@file` reads options from a file
    )._replace(is_ended_by_dashes=False),
    "eslint": _runs(
        "--fix --fix-dry-run --ext: --quiet --max-warnings: --cache --no-cache --color "
        "--no-color --debug --no-error-on-unmatched-pattern --rule: --env:",
        _TEXT,
        is_similar_safe=True,
    ),
    "prettier": _runs(
        "-c -w -l -u --check --write --list-different --ignore-unknown --log-level: "
        "--loglevel: --no-color --cache",
        _TEXT,
        is_similar_safe=True,
    ),
    "jest": _runs(
        "-t: -i -u -w: --coverage --ci --verbose --silent --runInBand --updateSnapshot --bail? "
        "--testNamePattern: --testPathPattern: --watch? --watchAll? --passWithNoTests "
        "--findRelatedTests --onlyChanged -o --maxWorkers: --no-cache --colors "
        "--detectOpenHandles --forceExit --listTests",
        _TEXT,
        is_similar_safe=True,
    ),
    **_each(
        "vitest, vitest run",
        _runs(
            "-t: -u --run --coverage --reporter: --testNamePattern: --update --bail: "
            "--passWithNoTests --watch? --silent --no-color",
            _TEXT,
            is_similar_safe=True,
        ),
    ),
    **{
        f"cargo {name}": _runs(_CARGO, _TEXT, is_similar_safe=True)
        for name in ("build", "b", "check", "c", "test", "t", "bench", "doc", "nextest run")
    },
    "cargo clippy": _runs(f"{_CARGO} --fix --allow-dirty --allow-staged", _TEXT),
    "cargo fmt": _runs("--all --check -p: --package: -v -q", _TEXT, each=r"--check"),
    "cargo run": _runs(_CARGO),
    "rustfmt": _runs("--check --edition: -v -q", _TEXT, is_similar_safe=True),
    **{
        f"go {name}": CommandForm(
            CommandKind.ROUTINE, _GO, Operands.TEXT, is_single_dash=True, is_similar_safe=True
        )
        for name in ("build", "test", "vet", "fmt")
    },
    "gofmt": _runs("-l -d -w -s -e", _TEXT, is_similar_safe=True),
    "golangci-lint run": _runs("-v --fix --timeout: --new", _TEXT),
    **_each(
        "make, just, task",
        _runs("-j? -k -s -B -n --jobs? --keep-going --silent --always-make", _TEXT, each=_TARGET),
    ),
    "mkdir": _runs("-p -v -m: --parents --verbose", Operands.CREATED_PATHS),
    "touch": _runs("-c -a -m --no-create", Operands.CREATED_PATHS),
}

# -- the table -------------------------------------------------------------------------------------

_TABLES: Final[tuple[Mapping[str, CommandForm], ...]] = (
    _PROGRAMS,
    _DEVELOPMENT,
    _ROUTINE,
    {f"git {key}": form for key, form in _GIT.items()},
)
_FORMS: Final[Mapping[tuple[str | None, ...], tuple[CommandForm, ...]]] = {
    tuple(key.split(" ")): tuple([table[key] for table in _TABLES if key in table])
    for key in dict.fromkeys(chain.from_iterable(_TABLES))
}
"""The forms of each program and subcommand, by its words; the first that matches applies."""
_MAX_KEY_WORDS: Final = max(map(len, _FORMS))
_GLOBAL_OPTIONS: Final = {
    "git": frozenset({"--no-pager", "-P", "--no-optional-locks", "--literal-pathspecs"}),
}
"""Harmless options that stand in front of a subcommand."""
_PYTHON_PROGRAMS: Final = frozenset(
    (name,)
    for name in (
        *("pytest", "py.test", "mypy", "ruff", "black", "isort", "flake8", "pylint", "pyright"),
        *("tox", "nox", "coverage", "python", "python3"),
    )
)
_NODE_PROGRAMS: Final = frozenset(
    (name,) for name in ("tsc", "eslint", "prettier", "jest", "vitest", "pyright")
)
_WRAPPERS: Final[Mapping[tuple[str, ...], frozenset[tuple[str, ...]]]] = {
    **{(name, "run"): _PYTHON_PROGRAMS for name in ("uv", "poetry", "pipenv", "pdm", "hatch")},
    **{
        tuple(wrapper.split(" ")): _NODE_PROGRAMS
        for wrapper in ("npx", "npx --no-install", "pnpm exec", "yarn exec", "bunx")
    },
}
"""Programs that run a program of the project, and the programs that remain routine with them."""
_SEARCHES: Final = frozenset({"grep", "egrep", "fgrep", "rg"})
_GIT_NAMES_ONLY: Final = frozenset(
    {
        *("status", "branch", "tag", "remote", "ls-files", "rev-parse", "describe", "config"),
        *("version", "worktree", "ls-tree", "name-rev", "merge-base", "show-ref", "submodule"),
        *("for-each-ref", "show-branch", "count-objects", "check-ignore", "check-attr"),
    }
)
"""Subcommands of `git` that show names and no content of files."""
_XARGS_OPTIONS: Final = "-0 -r -t -x -n: -L: -P: -I: -d: -s: --null --no-run-if-empty"
_PIPED_PATHS: Final = ShellWord("", None, may_be_option=True)
"""The files that a pipe names."""
_TIME_LIMIT: Final = re.compile(r"[0-9]+(?:\.[0-9]+)?[smh]?")
_HARMLESS_ASSIGNMENT: Final = re.compile(
    r"""
      (?:CI|NO_COLOR|FORCE_COLOR|CLICOLOR|CLICOLOR_FORCE|PY_COLORS|COLUMNS|LINES|TERM|LANG|LC_ALL|TZ
        |PYTHONDONTWRITEBYTECODE|PYTHONUNBUFFERED|PYTHONHASHSEED|RUST_BACKTRACE|CARGO_TERM_COLOR
        |NODE_ENV|GIT_OPTIONAL_LOCKS|GIT_TERMINAL_PROMPT|CGO_ENABLED)=[A-Za-z0-9_.,:+-]*
    | (?:PAGER|GIT_PAGER)=(?:cat)?
    """,
    re.VERBOSE,
)
