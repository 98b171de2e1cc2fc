r"""Rules about calls: `write`, `bash(git log *)`, `write(src/**)`, `mcp__*`.

A rule names a tool, and maybe a pattern for what a call is about (`Tool.subjects`). Without a
pattern, or with `*` alone, it covers every call of the tool. How a pattern is read depends on
what the tool can do: where it executes something, subjects are commands, else paths or addresses.
Only `*` has a meaning in either; a `\` before it, before `(`, `)`, `\` or a blank takes that away.
To allow writing what later runs act upon, such as `.steno/` or `.git/`, a rule has to spell it out.

Nothing here knows who allows or denies, and nothing looks at the disk.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import ClassVar, Final, final

from steno.errors import InvalidTool, InvalidValue
from steno.messages.call import MAX_TOOL_NAME_LENGTH, map_tool_name
from steno.ports import UNKNOWN_SUBJECT_PREFIX, Capability
from steno.values import RedactedRepr

_RULE_TEXT: Final = re.compile(r"([^()]*)(?:\((.*)\))?", re.DOTALL)
_TOOL_NAME: Final = re.compile(rf"[A-Za-z0-9_*]{{1,{MAX_TOOL_NAME_LENGTH}}}")
_MCP_PREFIX: Final = "mcp__"
"""How the names of tools begin that servers bring."""
_INVALID_IN_NAME: Final = re.compile(r"[^A-Za-z0-9_*]")
_TOKEN: Final = re.compile(r"\\.|.", re.DOTALL)
_SPECIAL: Final = re.compile(r"[\\()*]")
_MUST_BE_ESCAPED: Final = frozenset({"(", ")", "\\"})
_ESCAPES: Final = frozenset({"\\*", "\\(", "\\)", "\\\\", "\\ "})
_DOT_NAMES: Final = frozenset({".", ".."})
"""What a path in its one spelling does not lead through."""
_PROTECTED_PATH: Final = re.compile(
    r"(?:^|/)(\.steno|\.git|\.config/steno|agents\.md|claude\.md|\.venv|site-packages)(?=/|$)",
    re.IGNORECASE,
)
"""What is settings, hooks, instructions or a program, maybe this one, and no work of the user's:
who may write it decides what happens later."""


@final
class PermissionRule(RedactedRepr, frozen=True, kw_only=True):
    """Which calls are meant. `str` gives the text that `parse` reads."""

    shown: ClassVar[frozenset[str]] = frozenset({"tool", "pattern"})

    tool: str
    """The name of a tool; `*` stands for any number of characters."""
    pattern: str | None = None

    def __post_init__(self) -> None:
        if _TOOL_NAME.fullmatch(self.tool) is None:
            raise InvalidValue(
                "write the name of a tool, as in bash or bash(git log *)",
                code="rule_tool_name",
                place="rule",
            )
        if self.pattern is not None:
            _check_pattern(self.pattern)

    @classmethod
    def parse(cls, text: str) -> PermissionRule:
        """Read a rule. Raises InvalidValue, which says what to write."""
        found = _RULE_TEXT.fullmatch(text)
        if found is None:
            raise InvalidValue(
                "write the pattern in one pair of brackets, at the end",
                code="rule_brackets",
                place="rule",
            )
        return cls(tool=_normalise_tool_name(found[1]), pattern=found[2])

    def __str__(self) -> str:
        return self.tool if self.pattern is None else f"{self.tool}({self.pattern})"

    @property
    def covers_everything(self) -> bool:
        """Whether every call of its tools is meant."""
        return self.pattern is None or self.pattern == "*"

    def names_tool(self, tool: str) -> bool:
        """Tell whether it names this tool."""
        return _name_matcher(self.tool).fullmatch(tool) is not None

    def covers(self, subject: str, capability: Capability) -> bool:
        """Tell whether it covers one thing that a call of its tools is about."""
        if self.pattern is None or self.covers_everything:
            return True
        if is_unknown_subject(subject, capability):
            return False
        if capability is Capability.EXECUTE:
            return _command_matcher(self.pattern).fullmatch(subject) is not None
        return _path_matcher(self.pattern).fullmatch(f"{subject}/") is not None

    def covers_all(self, tool: str, capability: Capability, subjects: Sequence[str]) -> bool:
        """Tell whether it covers a whole call alone."""
        return (
            find_covering_rules((self,), tool, capability=capability, subjects=subjects) is not None
        )

    def covers_any(self, tool: str, capability: Capability, subjects: Sequence[str]) -> bool:
        """Tell whether it covers some of what a call is about, or every call of the tool."""
        if not self.names_tool(tool):
            return False
        return self.covers_everything or any(self.covers(one, capability) for one in subjects)


def find_covering_rules(
    rules: Iterable[PermissionRule], tool: str, *, capability: Capability, subjects: Sequence[str]
) -> tuple[PermissionRule, ...] | None:
    """Return the first rules that together cover all that a call is about; None if they do not.

    A call that is about nothing in particular is covered by what covers every call of the tool.
    """
    about = [rule for rule in rules if rule.names_tool(tool)]
    if not subjects:
        return next(((rule,) for rule in about if rule.covers_everything), None)
    found: dict[PermissionRule, None] = {}
    for subject in subjects:
        names = _protected_names(subject) if capability is Capability.WRITE else frozenset()
        fitting = (rule for rule in about if rule.covers(subject, capability))
        rule = next(
            (rule for rule in fitting if names <= _protected_names(rule.pattern or "")), None
        )
        if rule is None:
            return None
        found[rule] = None
    return tuple(found)


def _protected_names(path: str) -> frozenset[str]:
    """Return the names in a path, or a pattern for one, that stand for more than a file."""
    return frozenset([name.lower() for name in _PROTECTED_PATH.findall(path)])


def is_unknown_subject(subject: str, capability: Capability) -> bool:
    """Tell whether a subject may turn out to be something else than it reads like.

    That is what its tool was not sure about, and a path that is not in its one spelling.
    """
    if subject.startswith(UNKNOWN_SUBJECT_PREFIX):
        return True
    if capability is Capability.EXECUTE or subject == ".":
        return False
    return not _DOT_NAMES.isdisjoint(subject.split("/"))


def _check_pattern(pattern: str) -> None:
    if not pattern:
        raise InvalidValue(
            "the pattern is empty; without brackets all calls are meant",
            code="rule_pattern_empty",
            place="rule",
        )
    if not pattern.isprintable():  # nobody should allow what nobody can see
        raise InvalidValue(
            "the pattern holds what cannot be seen; write * instead of it",
            code="rule_pattern_unprintable",
            place="rule",
        )
    tokens = _TOKEN.findall(pattern)
    if any(
        token in _MUST_BE_ESCAPED or (len(token) > 1 and token not in _ESCAPES) for token in tokens
    ):
        raise InvalidValue(
            r"write \( \) \\ for brackets and backslashes of the pattern",
            code="rule_pattern_escape",
            place="rule",
        )
    if " " in (tokens[0], tokens[-1]):
        raise InvalidValue(
            r"the pattern begins or ends with a blank; write \ before it",
            code="rule_pattern_blank",
            place="rule",
        )


# -- patterns --------------------------------------------------------------------------------------


@lru_cache(maxsize=512)
def _name_matcher(name: str) -> re.Pattern[str]:
    return re.compile(_join_with_wildcards(name.split("*"), "."), re.DOTALL)


@lru_cache(maxsize=512)
def _command_matcher(pattern: str) -> re.Pattern[str]:
    """`*` stands for any text; with a blank before it at the end, for any arguments or none."""
    tokens = _TOKEN.findall(pattern)
    tail = ""
    if tokens[-2:] == [" ", "*"]:
        tokens, tail = tokens[:-2], "(?: .*)?"
    return re.compile(_join_with_wildcards(_split_at_wildcards(tokens), ".") + tail, re.DOTALL)


@lru_cache(maxsize=512)
def _path_matcher(pattern: str) -> re.Pattern[str]:
    """`*` stands for text in one name, `**` for any number of names, as does a `/` at the end.

    A path is matched with a `/` behind each name, also the last.
    """
    names = [name for name in pattern.split("/") if name != "."] or ["."]
    if len(names) > 1 and not names[-1]:
        names[-1] = "**"
    runs = [""]
    for name in names:
        if name == "**":
            runs.append("")
        else:
            runs[-1] += _name_in_path(name) + "/"
    return re.compile(_join_with_wildcards(runs, "(?:[^/]*/)"), re.DOTALL)


def _name_in_path(name: str) -> str:
    pieces = _split_at_wildcards(_TOKEN.findall(name))
    stands_for_a_whole_name = len(pieces) > 1 and not any(pieces)
    return "[^/]+" if stands_for_a_whole_name else _join_with_wildcards(pieces, "[^/]")


def _split_at_wildcards(tokens: Iterable[str]) -> list[str]:
    """Return expressions for what stands between the stars."""
    pieces = [""]
    for one in tokens:
        if one == "*":
            pieces.append("")
        else:
            pieces[-1] += re.escape(one[-1])
    return pieces


def _join_with_wildcards(pieces: Sequence[str], filler: str) -> str:
    """Return an expression for pieces with any number of fillers between them.

    Each piece is taken where it comes first, and never looked for again: what a model writes
    cannot make this slow.
    """
    if len(pieces) == 1:
        return pieces[0]
    first, *middle, last = pieces
    return first + "".join([f"(?>{filler}*?{piece})" for piece in middle]) + f"{filler}*{last}"


def _normalise_tool_name(tool: str) -> str:
    """Return the name of a server's tool as it is here, where somebody writes the server's own."""
    if not tool.startswith(_MCP_PREFIX):
        return tool
    if "*" in tool:
        return _INVALID_IN_NAME.sub("_", tool)
    try:
        return map_tool_name(tool)
    except InvalidTool:
        return tool  # and it is refused with the words for all names


# -- suggestions -----------------------------------------------------------------------------------

_ARGUMENT_DRIVEN: Final = """
    ash bash busybox cmd csh dash fish ksh mksh powershell pwsh sh tcsh zsh
    awk bun deno expect gawk java lua mawk nawk node nodejs osascript perl php python ruby rscript
    sed tclsh ts-node
    . builtin command doas env eval exec fd find nice nohup parallel pkexec setsid source stdbuf
    strace su sudo time timeout trap watch xargs
    bunx docker kubectl npx pipx podman uvx
    curl nc ncat netcat rsync scp sftp socat ssh wget
    chmod chown dd kill killall mkfs pkill rm rmdir shred systemctl tee unlink
"""
"""Programs that run, remove or fetch whatever they are told to: it is their arguments that matter."""
_ARGUMENT_DRIVEN_PROGRAMS: Final = frozenset(_ARGUMENT_DRIVEN.split())
_ARGUMENT_DRIVEN_SUBCOMMANDS: Final = frozenset({"dlx", "eval", "exec", "run", "shell", "x"})
"""Likewise: `npm exec`, `uv run`."""
_VERSION: Final = re.compile(r"[\d.-]+$")
_WORD: Final = re.compile(r"[A-Za-z0-9_./+:@%-]+")
_SUBCOMMAND: Final = re.compile(r"[a-z][a-z0-9_-]*")
_ADDRESS: Final = re.compile(r"[a-z][a-z0-9+.-]*://[A-Za-z0-9.:-]+(?=/|$)")
_MAX_PATTERN_LENGTH: Final = 200


def suggest_rule(tool: str, capability: Capability, subjects: Sequence[str]) -> str:
    """Return a rule that covers a call and its like, for a person to allow; empty if none should.

    It is never offered for what may turn out to be anything, nor for programs that do whatever
    their arguments say.
    """
    if any(not subject or is_unknown_subject(subject, capability) for subject in subjects):
        return ""
    if not subjects:
        return tool
    if capability is Capability.EXECUTE:
        patterns = {_command_pattern(subject) for subject in subjects}
    elif any("://" in subject for subject in subjects):
        patterns = {_address_pattern(subject) for subject in subjects}
    else:
        patterns = {_path_pattern(subjects)}
    pattern = patterns.pop()
    if patterns or not pattern or len(pattern) > _MAX_PATTERN_LENGTH:
        return ""
    try:
        rule = PermissionRule(tool=tool, pattern=pattern)
    except InvalidValue:  # it holds what no rule can
        return ""
    return str(rule) if rule.covers_all(tool, capability, subjects) else ""


def _command_pattern(command: str) -> str:
    """Return a program and its subcommand with any arguments, else exactly this command."""
    program, *rest = command.split(" ")
    name = program.rpartition("/")[2].lower()  # some disks do not tell cases apart
    if (
        _WORD.fullmatch(program) is None
        or {name, _VERSION.sub("", name)} & _ARGUMENT_DRIVEN_PROGRAMS
    ):
        return ""
    has_arguments = len(rest) > 1 and _SUBCOMMAND.fullmatch(rest[0]) is not None
    if has_arguments and rest[0] not in _ARGUMENT_DRIVEN_SUBCOMMANDS:
        return f"{_escape_pattern(program)} {rest[0]} *"
    return _escape_pattern(command)


def _address_pattern(address: str) -> str:
    """Return everything on the same host."""
    found = _ADDRESS.match(address)
    return "" if found is None else f"{_escape_pattern(found[0])}/**"


def _path_pattern(paths: Sequence[str]) -> str:
    """Return everything in the folder of the paths; at the top or if hidden, only the path itself."""
    folder, *others = {path.rpartition("/")[0] for path in paths}
    is_hidden = any(name.startswith(".") for path in paths for name in path.split("/"))
    if folder and not others and not is_hidden and not any(map(_protected_names, paths)):
        return f"{_escape_pattern(folder)}/**"
    return _escape_pattern(paths[0]) if len(set(paths)) == 1 else ""


def _escape_pattern(text: str) -> str:
    return _SPECIAL.sub(r"\\\g<0>", text)
