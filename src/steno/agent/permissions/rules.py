r"""Permission rules, such as `write`, `bash(git log *)`, `write(src/**)` and `mcp__*`.

A rule names a tool, and optionally a pattern for the subjects of a call (`Tool.subjects`). Without
a pattern, or with `*` alone, the rule covers every call of the tool. The capability of the tool
determines how a pattern is matched: subjects of a tool that executes programs are commands, all
others are paths or addresses. Only `*` is special in both; write `\` before `*`, `(`, `)`, `\` or a
space to match it literally. A rule allows writing files that affect later runs, such as `.steno/`
or `.git/`, only if its pattern names them.

`Permissions` combines the mode, the role, rules and grants to allow a call, deny it or leave the
decision to an approver. This module is pure: it asks no approver, runs nothing, and reads neither
log nor disk.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from functools import lru_cache
from typing import ClassVar, Final, final

from steno.agent.permissions.subjects import normalize_subject, normalize_subjects
from steno.agent.results import ResultCode
from steno.errors import InvalidTool, InvalidValue
from steno.messages.call import MAX_TOOL_NAME_LENGTH, MCP_TOOL_PREFIX, ToolCall, map_tool_name
from steno.ports import ApprovalDecision, Capability, Subject, Tool
from steno.records.entry import Mode
from steno.values import RedactedRepr

DENIED_PREFIX: Final = "permission denied"
"""The beginning of every denial that the model reads."""
_RULE_TEXT: Final = re.compile(r"([^()]*)(?:\((.*)\))?", re.DOTALL)
_TOOL_NAME: Final = re.compile(rf"[A-Za-z0-9_*]{{1,{MAX_TOOL_NAME_LENGTH}}}")
_INVALID_IN_NAME: Final = re.compile(r"[^A-Za-z0-9_*]")
_TOKEN: Final = re.compile(r"\\.|.", re.DOTALL)
_SPECIAL: Final = re.compile(r"[\\()*]")
_MUST_BE_ESCAPED: Final = frozenset({"(", ")", "\\"})
_ESCAPES: Final = frozenset({"\\*", "\\(", "\\)", "\\\\", "\\ "})
_PROTECTED_PATH: Final = re.compile(
    r"(?:^|/)(\.steno|\.git|\.config/steno|agents\.md|claude\.md|\.venv|site-packages)(?=/|$)",
    re.IGNORECASE,
)
"""Matches paths of settings, hooks, instructions and programs, which affect later runs."""


@final
class PermissionRule(RedactedRepr, frozen=True, kw_only=True):
    """A rule: a tool name and an optional pattern. `parse` accepts the text of `str(rule)`."""

    shown: ClassVar[frozenset[str]] = frozenset({"tool", "pattern"})

    tool: str
    """The name of a tool; `*` matches any number of characters."""
    pattern: str | None = None

    def __post_init__(self) -> None:
        if _TOOL_NAME.fullmatch(self.tool) is None:
            raise _invalid_rule(
                "rule_tool_name", "invalid tool name; write a rule such as bash or bash(git log *)"
            )
        if self.pattern is not None:
            _check_pattern(self.pattern)

    @classmethod
    def parse(cls, text: str) -> PermissionRule:
        """Parse a rule such as `bash(git log *)`. Raises InvalidValue if the text is not a rule."""
        found = _RULE_TEXT.fullmatch(text)
        if found is None:
            raise _invalid_rule(
                "rule_brackets",
                "misplaced parentheses; write the pattern in one pair at the end, as in "
                "bash(git log *)",
            )
        return cls(tool=_normalize_tool_name(found[1]), pattern=found[2])

    def __str__(self) -> str:
        return self.tool if self.pattern is None else f"{self.tool}({self.pattern})"

    @property
    def covers_everything(self) -> bool:
        """Whether the rule covers every call of its tools."""
        return self.pattern is None or self.pattern == "*"

    def names_tool(self, tool: str) -> bool:
        """Return whether the rule is for a tool; `*` in the tool name of the rule is a wildcard."""
        return _name_matcher(self.tool).fullmatch(tool) is not None

    def covers(self, subject: Subject) -> bool:
        """Return whether the pattern of the rule covers one subject of a call."""
        if self.pattern is None or self.covers_everything:
            return True
        if subject.is_unknown:
            return False
        if subject.words:
            return _command_matcher(self.pattern).fullmatch(subject.text) is not None
        return _path_matcher(self.pattern).fullmatch(f"{subject.text}/") is not None

    def covers_all(self, tool: str, subjects: Sequence[Subject]) -> bool:
        """Return whether this rule alone covers all subjects of a call."""
        return find_covering_rules((self,), tool, subjects) is not None

    def covers_any(self, tool: str, subjects: Sequence[Subject]) -> bool:
        """Return whether the rule covers at least one subject of a call, or every call."""
        if not self.names_tool(tool):
            return False
        return self.covers_everything or any(map(self.covers, subjects))


def find_covering_rules(
    rules: Iterable[PermissionRule], tool: str, subjects: Sequence[Subject]
) -> tuple[PermissionRule, ...] | None:
    """Return the rules that together cover all subjects of a call; None if a subject is uncovered.

    For each subject, the first rule that covers it is returned. A rule covers writing a protected
    path only if its pattern names the protected part. A call without subjects is covered only by a
    rule for every call of the tool.
    """
    candidates = [rule for rule in rules if rule.names_tool(tool)]
    if not subjects:
        return next(((rule,) for rule in candidates if rule.covers_everything), None)
    found: dict[PermissionRule, None] = {}
    for subject in subjects:
        is_write = subject.capability is Capability.WRITE
        names = _protected_names(subject.text) if is_write else frozenset()
        matching = (rule for rule in candidates if rule.covers(subject))
        rule = next(
            (rule for rule in matching if names <= _protected_names(rule.pattern or "")), None
        )
        if rule is None:
            return None
        found[rule] = None
    return tuple(found)


def _protected_names(path: str) -> frozenset[str]:
    """Return the names in a path or a path pattern that `_PROTECTED_PATH` protects."""
    return frozenset([name.lower() for name in _PROTECTED_PATH.findall(path)])


def _check_pattern(pattern: str) -> None:
    if not pattern:
        raise _invalid_rule(
            "rule_pattern_empty",
            "the pattern is empty; remove the parentheses to cover all calls of the tool",
        )
    if not pattern.isprintable():  # the user could not see which calls the rule allows
        raise _invalid_rule(
            "rule_pattern_unprintable",
            "the pattern contains unprintable characters; write * in their place",
        )
    tokens = _TOKEN.findall(pattern)
    if any(
        token in _MUST_BE_ESCAPED or (len(token) > 1 and token not in _ESCAPES) for token in tokens
    ):
        raise _invalid_rule(
            "rule_pattern_escape",
            r"unescaped parenthesis or backslash in the pattern; write \( \) or \\",
        )
    if " " in (tokens[0], tokens[-1]):
        raise _invalid_rule(
            "rule_pattern_blank",
            r"the pattern begins or ends with a space; write \ before the space",
        )


def _invalid_rule(code: str, message: str) -> InvalidValue:
    return InvalidValue(message, place="rule", code=code)


# -- patterns --------------------------------------------------------------------------------------


@lru_cache(maxsize=512)
def _name_matcher(name: str) -> re.Pattern[str]:
    return re.compile(_join_with_wildcards(name.split("*"), "."), re.DOTALL)


@lru_cache(maxsize=512)
def _command_matcher(pattern: str) -> re.Pattern[str]:
    """Compile a pattern in which `*` matches any text.

    A space and a `*` at the end also match a command without arguments.
    """
    tokens = _TOKEN.findall(pattern)
    tail = ""
    if tokens[-2:] == [" ", "*"]:
        tokens, tail = tokens[:-2], "(?: .*)?"
    return re.compile(_join_with_wildcards(_split_at_wildcards(tokens), ".") + tail, re.DOTALL)


@lru_cache(maxsize=512)
def _path_matcher(pattern: str) -> re.Pattern[str]:
    """Compile a pattern in which `*` matches text in one name, and `**` any number of names.

    A `/` at the end means `/**`. The path to match must have a `/` after each name, including the
    last.
    """
    names = [name for name in pattern.split("/") if name != "."] or ["."]
    if len(names) > 1 and not names[-1]:
        names[-1] = "**"
    segments = [""]
    for name in names:
        if name == "**":
            segments.append("")
        else:
            segments[-1] += _name_in_path(name) + "/"
    return re.compile(_join_with_wildcards(segments, "(?:[^/]*/)"), re.DOTALL)


def _name_in_path(name: str) -> str:
    pieces = _split_at_wildcards(_TOKEN.findall(name))
    is_whole_name = len(pieces) > 1 and not any(pieces)
    return "[^/]+" if is_whole_name else _join_with_wildcards(pieces, "[^/]")


def _split_at_wildcards(tokens: Iterable[str]) -> list[str]:
    """Return the pieces of a pattern between its wildcards, as regular expressions."""
    pieces = [""]
    for part in tokens:
        if part == "*":
            pieces.append("")
        else:
            pieces[-1] += re.escape(part[-1])
    return pieces


def _join_with_wildcards(pieces: Sequence[str], filler: str) -> str:
    """Return a regular expression for pieces separated by any number of `filler` matches.

    A piece between two wildcards matches at its first occurrence, without backtracking, so that no
    text from a model can make matching slow.
    """
    if len(pieces) == 1:
        return pieces[0]
    first, *middle, last = pieces
    return first + "".join([f"(?>{filler}*?{piece})" for piece in middle]) + f"{filler}*{last}"


def _normalize_tool_name(tool: str) -> str:
    """Return the name that steno uses for an MCP tool; any other name is returned unchanged."""
    if not tool.startswith(MCP_TOOL_PREFIX):
        return tool
    if "*" in tool:
        return _INVALID_IN_NAME.sub("_", tool)
    try:
        return map_tool_name(tool)
    except InvalidTool:
        return tool  # `PermissionRule` rejects the name


# -- policy ----------------------------------------------------------------------------------------


class AgentRole(StrEnum):
    """The role of an agent, which either only plans or also acts."""

    PLANNER = "planner"
    ACTOR = "actor"


_READ_ONLY: Final = frozenset({Capability.READ})
_ALL_CAPABILITIES: Final = frozenset(Capability)
MODE_CAPABILITIES: Final[Mapping[Mode, frozenset[Capability]]] = {
    Mode.PLAN: _READ_ONLY,
    Mode.ACT: _ALL_CAPABILITIES,
}
ROLE_CAPABILITIES: Final[Mapping[AgentRole, frozenset[Capability]]] = {
    AgentRole.PLANNER: _READ_ONLY,
    AgentRole.ACTOR: _ALL_CAPABILITIES,
}
"""The capabilities that rules can allow, by role; the mode must permit a capability as well."""
_DEFAULT_RULES: Final = (PermissionRule(tool="bash_kill"),)
"""Rules that always apply: `bash_kill` only ends jobs that an allowed call has started."""
_CAPABILITY_NAMES: Final = {
    Capability.READ: "reading",
    Capability.WRITE: "writing",
    Capability.EXECUTE: "running programs",
    Capability.NETWORK: "using the network",
}


class DecisionKind(StrEnum):
    """The kinds of policy decisions; `ASK` leaves the decision to an approver."""

    ALLOW = "allow"
    DENY = "deny"
    ASK = "ask"


@final
class PolicyDecision(RedactedRepr, frozen=True, kw_only=True):
    """A decision about a call, based on the mode, the role, rules and grants."""

    shown: ClassVar[frozenset[str]] = frozenset({"rule"})

    kind: DecisionKind
    rule: str = ""
    """The rule to record, such as `mode plan` or `deny bash(rm *)`; empty if there is none."""
    reason: str = ""
    """The text for the model if the call is denied."""
    subjects: tuple[Subject, ...] = ()
    """The subjects of the call; empty if the mode or the role decided."""
    uncovered: tuple[Subject, ...] = ()
    """The subjects about which to ask; empty if the call has no subjects."""
    code: ResultCode = ResultCode.DENIED
    """The code of a denial; meaningless for other decisions."""


@final
class Permissions(RedactedRepr, frozen=True, kw_only=True):
    """The role, the rules and the defaults that decide about calls before an approver is asked."""

    role: AgentRole = AgentRole.ACTOR
    allow: tuple[PermissionRule, ...] = ()
    deny: tuple[PermissionRule, ...] = ()
    default_allow: frozenset[Capability] = _READ_ONLY
    """Capabilities that need neither a rule nor an approval."""
    default_rules: tuple[PermissionRule, ...] = _DEFAULT_RULES
    """Allow rules that apply in addition to those of the user."""

    @classmethod
    def of(
        cls,
        *,
        role: AgentRole = AgentRole.ACTOR,
        allow: Iterable[str] = (),
        deny: Iterable[str] = (),
    ) -> Permissions:
        """Build permissions from rules as text. Raises InvalidValue if a rule is invalid."""
        return cls(
            role=role,
            allow=tuple([PermissionRule.parse(text) for text in allow]),
            deny=tuple([PermissionRule.parse(text) for text in deny]),
        )

    def find_mode_denial(self, tool: Tool, mode: Mode) -> PolicyDecision | None:
        """Return a denial if the mode or the role forbids every call of a tool; else None."""
        if tool.capability not in (allowed := MODE_CAPABILITIES[mode]):
            advice = "describe what you would do, or ask the user to change the mode"
            text = f"{mode} mode allows {_join_capabilities(allowed)} only; {advice}"
            return _build_denial(ResultCode.DENIED_BY_MODE, mode_denial_rule(mode), text)
        if tool.capability not in (allowed := ROLE_CAPABILITIES[self.role]):
            advice = "describe what should be done, and leave it to other agents"
            text = f"the role {self.role} allows {_join_capabilities(allowed)} only; {advice}"
            return _build_denial(ResultCode.DENIED_BY_ROLE, role_denial_rule(self.role), text)
        return None

    def decide(
        self,
        tool: Tool,
        call: ToolCall,
        *,
        mode: Mode,
        session_rules: Sequence[PermissionRule] = (),
        lasting_rules: Sequence[PermissionRule] = (),
    ) -> PolicyDecision:
        """Decide by mode, role, deny rules, allow rules, grants and defaults, in this order.

        The decision is to ask if none of them applies, or if a deny rule may cover the call but its
        subjects are unknown. `session_rules` are the grants of this session, `lasting_rules` those
        of the project and the user. Raises ToolFailed if the tool cannot read the arguments.
        """
        mode_denial = self.find_mode_denial(tool, mode)
        if mode_denial is not None:
            return mode_denial
        subjects = normalize_subjects(tool, tool.subjects(call))
        denial = self._find_denial(tool, subjects)
        if denial is not None:
            return denial
        sources = {
            "allow": self.allow,
            "session grant": session_rules,
            "standing grant": lasting_rules,
            "default": self.default_rules,
        }
        rules = _describe_allowing_rules(sources, tool, subjects)
        if rules is None and tool.capability in self.default_allow:
            rules = f"default {tool.capability}"
        if rules is None:
            return PolicyDecision(kind=DecisionKind.ASK, subjects=subjects, uncovered=subjects)
        return PolicyDecision(kind=DecisionKind.ALLOW, rule=rules, subjects=subjects)

    def denies(self, tool: Tool, subject: str) -> bool:
        """Return whether a deny rule covers a subject that a running call of the tool finds."""
        return (
            self._find_deny_rule(tool, (normalize_subject(subject, tool.capability),)) is not None
        )

    def _find_denial(self, tool: Tool, subjects: tuple[Subject, ...]) -> PolicyDecision | None:
        """Return the decision of the deny rules; None if they do not affect the call.

        An unknown subject may be a denied one, and a call without subjects cannot be compared with
        a pattern. In both cases, if a deny rule names the tool, an approver has to decide, and no
        other rule may allow the call.
        """
        rule = self._find_deny_rule(tool, subjects)
        if rule is not None:
            explanation = (
                f"the rule {rule} denies this call; choose another approach, or ask the user"
            )
            return _build_denial(ResultCode.DENIED_BY_RULE, f"deny {rule}", explanation, subjects)
        if subjects and not any(subject.is_unknown for subject in subjects):
            return None
        # Without subjects only the tool's own name counts: rules for an alias are about subjects.
        names = _rule_names(tool) if subjects else _rule_names(tool)[:1]
        for rule in self.deny:
            if any(map(rule.names_tool, names)):
                return PolicyDecision(
                    kind=DecisionKind.ASK,
                    rule=f"deny {rule}",
                    subjects=subjects,
                    uncovered=subjects,
                )
        return None

    def _find_deny_rule(self, tool: Tool, subjects: tuple[Subject, ...]) -> PermissionRule | None:
        for rule in self.deny:
            if any(rule.covers_any(name, subjects) for name in _rule_names(tool)):
                return rule
        return None


def _rule_names(tool: Tool) -> tuple[str, ...]:
    """Return the names that deny rules may use for a tool."""
    return (tool.definition.name, *tool.rule_aliases)


def _describe_allowing_rules(
    sources: Mapping[str, Sequence[PermissionRule]], tool: Tool, subjects: tuple[Subject, ...]
) -> str | None:
    """Return a list, as text, of the rules that together allow a call, each with its source.

    Return None if the rules do not allow the call.
    """
    origins: dict[PermissionRule, str] = {}
    for source, rules in sources.items():
        for rule in rules:
            origins.setdefault(rule, source)
    found = find_covering_rules(origins, tool.definition.name, subjects)
    return None if found is None else ", ".join([f"{origins[rule]} {rule}" for rule in found])


def mode_denial_rule(mode: Mode) -> str:
    """Return the rule to record for a call that a mode denies. Never change the stored text."""
    return f"mode {mode}"


def role_denial_rule(role: AgentRole) -> str:
    """Return the rule to record for a call that a role denies. Never change the stored text."""
    return f"role {role}"


def _build_denial(
    code: ResultCode, rule: str, explanation: str, subjects: tuple[Subject, ...] = ()
) -> PolicyDecision:
    return PolicyDecision(
        kind=DecisionKind.DENY,
        rule=rule,
        reason=f"{DENIED_PREFIX}: {explanation}",
        subjects=subjects,
        code=code,
    )


def _join_capabilities(capabilities: frozenset[Capability]) -> str:
    return " and ".join(
        [name for capability, name in _CAPABILITY_NAMES.items() if capability in capabilities]
    )


def build_denial_text(decision: ApprovalDecision) -> str:
    """Return the text that the model reads after an approver denied its call."""
    reason = (
        decision.reason or "the call was not approved; do not repeat it unless you are asked to"
    )
    return f"{DENIED_PREFIX}: {reason}"


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
"""Programs whose arguments name code to run, addresses to contact, or what to change or remove."""
_ARGUMENT_DRIVEN_PROGRAMS: Final = frozenset(_ARGUMENT_DRIVEN.split())
_ARGUMENT_DRIVEN_SUBCOMMANDS: Final = frozenset({"dlx", "eval", "exec", "run", "shell", "x"})
"""Subcommands that run the program named in their arguments, such as `npm exec` and `uv run`."""
_VERSION: Final = re.compile(r"[\d.-]+$")
_WORD: Final = re.compile(r"[A-Za-z0-9_./+:@%-]+")
_SUBCOMMAND: Final = re.compile(r"[a-z][a-z0-9_-]*")
_ADDRESS: Final = re.compile(r"[a-z][a-z0-9+.-]*://[A-Za-z0-9.:-]+(?=/|$)")
_MAX_PATTERN_LENGTH: Final = 200


def suggest_rule(tool: str, subjects: Sequence[Subject]) -> str:
    """Return a rule that covers similar calls, to suggest to the user; empty if none is safe.

    No rule is safe for unknown subjects, or for programs that run, fetch, change or remove the
    targets named in their arguments.
    """
    if any(not subject.text or subject.is_unknown for subject in subjects):
        return ""
    if not subjects:
        return tool
    texts = [subject.text for subject in subjects]
    if any(subject.words for subject in subjects):
        patterns = {_command_pattern(text) for text in texts}
    elif any("://" in text for text in texts):
        patterns = {_address_pattern(text) for text in texts}
    else:
        patterns = {_path_pattern(texts)}
    pattern = patterns.pop()
    if patterns or not pattern or len(pattern) > _MAX_PATTERN_LENGTH:
        return ""
    try:
        rule = PermissionRule(tool=tool, pattern=pattern)
    except InvalidValue:  # no rule can contain this text
        return ""
    return str(rule) if rule.covers_all(tool, subjects) else ""


def _command_pattern(command: str) -> str:
    """Return a pattern for a program and its subcommand, or for exactly this command.

    The pattern is empty if the program is unsafe (see `_ARGUMENT_DRIVEN_PROGRAMS`), or if its name
    contains unusual characters.
    """
    program, *rest = command.split(" ")
    name = program.rpartition("/")[2].lower()  # some file systems ignore case
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
    """Return a pattern for all addresses on the same host; empty if there is no host."""
    found = _ADDRESS.match(address)
    return "" if found is None else f"{_escape_pattern(found[0])}/**"


def _path_pattern(paths: Sequence[str]) -> str:
    """Return a pattern for the common folder of the paths, or for a single path.

    The folder is suggested only if it is not the top level and no path contains a hidden or
    protected name. The pattern is empty if neither form is possible.
    """
    folder, *other_folders = {path.rpartition("/")[0] for path in paths}
    is_hidden = any(name.startswith(".") for path in paths for name in path.split("/"))
    if folder and not other_folders and not is_hidden and not any(map(_protected_names, paths)):
        return f"{_escape_pattern(folder)}/**"
    return _escape_pattern(paths[0]) if len(set(paths)) == 1 else ""


def _escape_pattern(text: str) -> str:
    return _SPECIAL.sub(r"\\\g<0>", text)
