r"""Permission rules, such as `write`, `bash(git log -*)`, `write(src/**)` and `mcp__*`.

A rule names a tool, and optionally a pattern for the subjects of a call (`Tool.subjects`). Without
a pattern, or with `*` alone, the rule covers every call of the tool. A subject with words is a
command, any other is a path or an address; `permissions.patterns` matches both. No rule covers a
protected subject. Rules that were granted by an approval and cover more than one command count only
for commands in a sandbox.

`Permissions` combines the mode, the role, rules, grants and defaults to allow a call, deny it or
leave the decision to an approver. This module is pure: it asks no approver, runs nothing, and reads
neither log nor disk.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import ClassVar, Final, NamedTuple, final

from steno.agent.permissions.patterns import (
    check_pattern,
    escape_pattern,
    has_wildcard,
    matches_command,
    matches_command_text,
    matches_name,
    matches_path,
)
from steno.agent.permissions.subjects import normalize_subject, normalize_subjects
from steno.agent.results import ResultCode
from steno.errors import InvalidTool, InvalidValue
from steno.messages.call import MAX_TOOL_NAME_LENGTH, MCP_TOOL_PREFIX, ToolCall, map_tool_name
from steno.ports import ApprovalDecision, Capability, Subject, Tool
from steno.records.entry import Mode
from steno.values import RedactedRepr

DENIED_PREFIX: Final = "permission denied"
"""The beginning of every denial that the model reads."""
PATH_TOOLS: Final = ("read", "write", "edit", "glob", "grep")
"""The built-in tools whose subjects are paths."""
_WRITING_TOOLS: Final = ("write", "edit")
_READING_TOOLS: Final = ("read", "glob", "grep")
_RULE_TEXT: Final = re.compile(r"([^()]*)(?:\((.*)\))?", re.DOTALL)
_TOOL_NAME: Final = re.compile(rf"[A-Za-z0-9_*]{{1,{MAX_TOOL_NAME_LENGTH}}}")
_INVALID_IN_NAME: Final = re.compile(r"[^A-Za-z0-9_*]")
_REDIRECTION: Final = re.compile(r"[0-9]*(?:[<>]|&>)")
_COMMAND_TOOL: Final = "bash"


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
            check_pattern(self.pattern)
            if self.tool == _COMMAND_TOOL and _REDIRECTION.match(self.pattern):
                raise _invalid_rule(
                    "rule_redirection",
                    "a redirection is matched by rules for files; write a rule such as write(log)",
                )

    @classmethod
    def parse(cls, text: str) -> PermissionRule:
        """Parse a rule such as `bash(git log -*)`. Raises InvalidValue if the text is not a rule."""
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

    @property
    def is_exact(self) -> bool:
        """Whether the rule covers only one command, path or address."""
        return self.pattern is not None and not has_wildcard(self.pattern)

    def names_tool(self, tool: str) -> bool:
        """Return whether the rule is for a tool; `*` in the tool name of the rule is a wildcard."""
        return matches_name(self.tool, tool)

    def covers(self, tool: str, subject: Subject) -> bool:
        """Return whether the rule, as an allow rule, covers one subject of a call of a tool."""
        if subject.is_protected:
            return False
        if self.names_tool(subject.rule_tool or tool):
            if self.pattern is None or self.covers_everything:
                return True
            if subject.is_unknown:
                return False
            if subject.words:
                return matches_command(self.pattern, subject.text, subject.words)
            return matches_path(self.pattern, subject.text)
        return self.covers_everything and self.names_tool(tool)

    def denies(self, tools: Sequence[str], subjects: Sequence[Subject]) -> bool:
        """Return whether the rule, as a deny rule, covers a subject of a call, or every call.

        `tools` are the name of the tool and its aliases. In a command, `*` covers options as well.
        """
        if any(map(self.names_tool, tools)) and self.covers_everything:
            return True
        return any(self._denies_subject(tools, subject) for subject in subjects)

    def _denies_subject(self, tools: Sequence[str], subject: Subject) -> bool:
        if not any(map(self.names_tool, _deny_names(subject, tools))):
            return False
        if self.pattern is None or self.covers_everything:
            return True
        if subject.words:
            texts = (subject.text, *subject.other_texts)
            return any(matches_command_text(self.pattern, text) for text in texts)
        if subject.is_unknown:
            return False
        return matches_path(self.pattern, subject.text)


def _deny_names(subject: Subject, tools: Sequence[str]) -> Sequence[str]:
    """Return the tools whose deny rules are about a subject: for writing a file, all that write."""
    if not subject.rule_tool:
        return tools
    return _WRITING_TOOLS if subject.rule_tool in _WRITING_TOOLS else (subject.rule_tool,)


def find_covering_rules(
    rules: Iterable[PermissionRule], tool: str, subjects: Sequence[Subject]
) -> tuple[PermissionRule, ...] | None:
    """Return the rules that together cover all subjects of a call; None if a subject is uncovered.

    For each subject, the first rule that covers it is returned. A call without subjects is covered
    only by a rule for every call of the tool.
    """
    candidates = tuple(rules)
    if not subjects:
        found = _find_rule_for_every_call(candidates, tool)
        return None if found is None else (found,)
    covering: dict[PermissionRule, None] = {}
    for subject in subjects:
        rule = next((rule for rule in candidates if rule.covers(tool, subject)), None)
        if rule is None:
            return None
        covering[rule] = None
    return tuple(covering)


def _find_rule_for_every_call(rules: Iterable[PermissionRule], tool: str) -> PermissionRule | None:
    return next((rule for rule in rules if rule.covers_everything and rule.names_tool(tool)), None)


def counts_as_grant(rule: PermissionRule, subject: Subject) -> bool:
    """Return whether a rule that an approval granted may allow a subject.

    A rule for more than one command counts only for a command in a sandbox: a person who allows
    similar commands cannot foresee all of them. A rule for a command does not show what the command
    reads as its input.
    """
    if subject.has_input and not rule.covers_everything:
        return False
    if rule.is_exact or subject.is_confined:
        return True
    if subject.rule_tool and not rule.names_tool(subject.rule_tool):
        return False
    return subject.capability is not Capability.EXECUTE


def _invalid_rule(code: str, message: str) -> InvalidValue:
    return InvalidValue(message, place="rule", code=code)


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


def check_path_rule(rule: PermissionRule) -> None:
    """Raise InvalidValue if a rule for files can never match, because no file has such a path."""
    if rule.pattern is None or rule.tool not in PATH_TOOLS:
        return
    names = rule.pattern.split("/")
    if ".." in names:
        raise _invalid_rule(
            "rule_path_parent",
            "the pattern contains .., which no resolved path contains; write the real path, "
            "absolute if it is outside of the working directory",
        )
    if names[0].startswith("~"):
        raise _invalid_rule(
            "rule_path_home", "~ has no meaning in this rule; write the absolute path"
        )
    if "" in names[1:-1]:
        raise _invalid_rule(
            "rule_path_empty_name", "the pattern contains //, which no path contains; write one /"
        )


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


class AutoRun(StrEnum):
    """The commands that need no approval while a sandbox limits their effects."""

    ROUTINE = "routine"
    """Commands that only read, and common work in a project."""
    READ = "read"
    """Commands that only read."""
    NONE = "none"


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
    auto_run: AutoRun = AutoRun.ROUTINE
    """The commands in a sandbox that need neither a rule nor an approval."""

    def __post_init__(self) -> None:
        _check_type("role", self.role, AgentRole)
        _check_type("auto_run", self.auto_run, AutoRun)
        for name in ("allow", "deny", "default_rules"):
            rules = getattr(self, name)
            _check_type(name, rules, tuple)
            for number, rule in enumerate(rules):
                _check_type(f"{name}[{number}]", rule, PermissionRule)
                check_path_rule(rule)
        _check_type("default_allow", self.default_allow, frozenset)
        for capability in self.default_allow:
            _check_type("default_allow", capability, Capability)

    @classmethod
    def of(
        cls,
        *,
        role: AgentRole = AgentRole.ACTOR,
        allow: Iterable[str] = (),
        deny: Iterable[str] = (),
        auto_run: AutoRun = AutoRun.ROUTINE,
    ) -> Permissions:
        """Build permissions from rules as text. Raises InvalidValue if a rule is invalid."""
        return cls(
            role=role,
            allow=_parse_rules("allow", allow),
            deny=_parse_rules("deny", deny),
            auto_run=auto_run,
        )

    def find_mode_denial(
        self, tool: Tool, mode: Mode, subjects: Sequence[Subject] | None = None
    ) -> PolicyDecision | None:
        """Return a denial if the mode or the role forbids a call with these subjects; else None.

        Without `subjects`, return a denial if the mode or the role forbids every call of the tool.
        """
        needed = self._needed_capabilities(tool, subjects)
        if not needed <= (allowed := MODE_CAPABILITIES[mode]):
            advice = "describe what you would do, or ask the user to change the mode"
            text = f"{mode} mode allows {_join_capabilities(allowed)} only; {advice}"
            return _build_denial(ResultCode.DENIED_BY_MODE, mode_denial_rule(mode), text)
        if not needed <= (allowed := ROLE_CAPABILITIES[self.role]):
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
        denial = self.find_mode_denial(tool, mode, subjects) or self._find_denial(tool, subjects)
        if denial is not None:
            return denial
        sources = _RuleSources(
            {"allow": self.allow, "default": self.default_rules},
            {"session grant": session_rules, "standing grant": lasting_rules},
        )
        if not subjects:
            origin = sources.find_for_every_call(tool) or self._default_for(tool, None)
            uncovered: list[Subject] = []
            origins = {origin: None}
        else:
            found = {
                subject: sources.find(tool, subject) or self._default_for(tool, subject)
                for subject in subjects
            }
            uncovered = [subject for subject, origin in found.items() if origin is None]
            origins = dict.fromkeys(found.values())
        if None in origins:
            return PolicyDecision(
                kind=DecisionKind.ASK, subjects=subjects, uncovered=tuple(uncovered)
            )
        rules = ", ".join([origin for origin in origins if origin is not None])
        return PolicyDecision(kind=DecisionKind.ALLOW, rule=rules, subjects=subjects)

    def denies(self, tool: Tool, subject: str) -> bool:
        """Return whether a deny rule covers a subject that a running call of the tool finds."""
        found = normalize_subject(subject, tool.capability)
        return self._find_deny_rule(tool, (found,)) is not None

    def _needed_capabilities(
        self, tool: Tool, subjects: Sequence[Subject] | None
    ) -> frozenset[Capability]:
        """Return the capabilities that a call needs, or at least needs if its subjects are None."""
        if subjects:
            return frozenset([self._needed_capability(tool, subject) for subject in subjects])
        has_reading_calls = subjects is None and self.auto_run is not AutoRun.NONE
        if has_reading_calls and getattr(tool, "has_reading_calls", False) is True:
            return _READ_ONLY
        return frozenset({tool.capability})

    def _needed_capability(self, tool: Tool, subject: Subject) -> Capability:
        if subject.words and self.auto_run is AutoRun.NONE:
            return tool.capability
        return subject.capability

    def _default_for(self, tool: Tool, subject: Subject | None) -> str | None:
        """Return the default that allows a subject, or a call without subjects; None if none does.

        The text is recorded; never change it.
        """
        if subject is None:
            capability = tool.capability
        elif subject.is_protected:
            return None
        else:
            capability = self._needed_capability(tool, subject)
        if subject is not None and self._may_reach_denied_files(subject):
            return None
        if capability in self.default_allow:
            return f"default {capability}"
        is_routine = subject is not None and subject.is_routine and subject.is_confined
        return "default routine" if is_routine and self.auto_run is AutoRun.ROUTINE else None

    def _may_reach_denied_files(self, subject: Subject) -> bool:
        """Return whether a command may use files that it does not name and a deny rule does."""
        if subject.unnamed_access is None:
            return False
        is_writing = subject.unnamed_access is not Capability.READ
        names = _READING_TOOLS + (_WRITING_TOOLS if is_writing else ())
        return any(rule.names_tool(name) for rule in self.deny for name in names)

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
        unknown = tuple([subject for subject in subjects if subject.is_unknown])
        # Without subjects only the tool's own name counts: rules for an alias are about subjects.
        names = [] if subjects else [tool.definition.name]
        for subject in unknown:
            names += _deny_names(subject, _rule_names(tool))
        for rule in self.deny:
            if any(map(rule.names_tool, names)):
                return PolicyDecision(
                    kind=DecisionKind.ASK, rule=f"deny {rule}", subjects=subjects, uncovered=unknown
                )
        return None

    def _find_deny_rule(self, tool: Tool, subjects: tuple[Subject, ...]) -> PermissionRule | None:
        names = _rule_names(tool)
        return next((rule for rule in self.deny if rule.denies(names, subjects)), None)


def _check_type(name: str, value: object, kind: type) -> None:
    if not isinstance(value, kind):
        raise InvalidValue(
            f"must be a {kind.__name__}, not {type(value).__name__}",
            code="wrong_type",
            place=f"permissions.{name}",
        )


def _parse_rules(name: str, texts: Iterable[str]) -> tuple[PermissionRule, ...]:
    """Parse rules. Raises InvalidValue for a string, which is an iterable of characters."""
    if isinstance(texts, str) or not isinstance(texts, Iterable):
        raise InvalidValue(
            f'must be a list of rules, such as ["bash"], not {type(texts).__name__}',
            code="wrong_type",
            place=f"permissions.{name}",
        )
    found = list(texts)
    for number, text in enumerate(found):
        _check_type(f"{name}[{number}]", text, str)
    return tuple(map(PermissionRule.parse, found))


def _rule_names(tool: Tool) -> tuple[str, ...]:
    """Return the names that deny rules may use for a tool."""
    return (tool.definition.name, *tool.rule_aliases)


class _RuleSources(NamedTuple):
    """The rules that may allow a call, by their source."""

    rules: Mapping[str, Sequence[PermissionRule]]
    """Rules that always count."""
    grants: Mapping[str, Sequence[PermissionRule]]
    """Rules from approvals; see `counts_as_grant`."""

    def find(self, tool: Tool, subject: Subject) -> str | None:
        """Return the first rule that covers a subject, with its source; None if none does."""
        name = tool.definition.name
        for source, rules, is_grant in self._sources():
            for rule in rules:
                if rule.covers(name, subject) and (not is_grant or counts_as_grant(rule, subject)):
                    return f"{source} {rule}"
        return None

    def find_for_every_call(self, tool: Tool) -> str | None:
        """Return the first rule that covers every call of a tool; None if none does."""
        for source, rules, _ in self._sources():
            rule = _find_rule_for_every_call(rules, tool.definition.name)
            if rule is not None:
                return f"{source} {rule}"
        return None

    def _sources(self) -> list[tuple[str, Sequence[PermissionRule], bool]]:
        user, *others = [(source, rules, False) for source, rules in self.rules.items()]
        granted = [(source, rules, True) for source, rules in self.grants.items()]
        return [user, *granted, *others]


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

_READS_CODE: Final = frozenset(
    """
    ash awk bash bun busybox cmd csh dash deno elixir expect fish gawk ghci irb java julia ksh lua
    mawk mksh mysql nawk node nodejs octave osascript perl php powershell psql pwsh python r rscript
    ruby scala sed sh sqlite3 tclsh tcsh ts-node zsh
    """.split()  # noqa: SIM905 - words
)
"""Programs that may read code from the output of another command."""
_RUNS_PROGRAMS: Final = frozenset(
    """
    . at batch builtin chroot command crontab doas docker env eval exec flatpak kubectl nice nohup
    nsenter parallel pkexec podman setsid source ssh stdbuf strace su sudo systemd-run time timeout
    trap unshare watch xargs
    """.split()  # noqa: SIM905 - words
)
"""Programs that run another program, which may read code from the output of another command."""
_STANDARD_INPUT: Final = frozenset({"-", "-s", "/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"})
"""Arguments with which such a program reads its code from another command."""
_VERSION: Final = re.compile(r"[\d.-]+$")
_ADDRESS: Final = re.compile(r"[a-z][a-z0-9+.-]*://[A-Za-z0-9.:-]+(?=/|$)")
_MAX_PATTERN_LENGTH: Final = 200


def suggest_rule(tool: str, subjects: Sequence[Subject]) -> str:
    """Return a rule that covers these subjects, to suggest to the user; empty if none is safe.

    For a command, the rule covers exactly this command, or those that the tool says are safe to
    allow together. No rule is safe for unknown or protected subjects, or for a program that reads
    its instructions from another command.
    """
    if not subjects:
        return tool
    if any(not subject.text or subject.is_unknown or subject.is_protected for subject in subjects):
        return ""
    if any(subject.has_input for subject in subjects):
        return ""
    tools = {subject.rule_tool or tool for subject in subjects}
    texts = [subject.text for subject in subjects]
    if all(subject.words for subject in subjects):
        patterns = {_command_pattern(subject) for subject in subjects}
    elif any(subject.words for subject in subjects):
        return ""
    elif any("://" in text for text in texts):
        patterns = {_address_pattern(text) for text in texts}
    elif any(subject.rule_tool for subject in subjects):  # the files that a command names
        patterns = {escape_pattern(text) for text in texts}
    else:
        patterns = {_path_pattern(texts)}
    pattern = patterns.pop()
    if len(tools) > 1 or patterns or not pattern or len(pattern) > _MAX_PATTERN_LENGTH:
        return ""
    try:
        rule = PermissionRule(tool=tools.pop(), pattern=pattern)
    except InvalidValue:  # no rule can contain this text
        return ""
    return str(rule) if find_covering_rules((rule,), tool, subjects) is not None else ""


def _command_pattern(subject: Subject) -> str:
    """Return the pattern that the tool offers for a command, or a pattern for exactly this command.

    The pattern is empty if the command does not determine what runs.
    """
    if subject.pattern and subject.is_confined:
        return subject.pattern
    words = [word.text for word in subject.words]
    program, *arguments = words[1:] if words[0].endswith(" &&") else words  # after its folder
    name = program.rpartition("/")[2].lower()  # some file systems ignore case
    names = {name, _VERSION.sub("", name)}
    operands = [word for word in arguments if not word.startswith("-")]
    if names & _RUNS_PROGRAMS:
        return ""
    if names & _READS_CODE and (not operands or _STANDARD_INPUT.intersection(arguments)):
        return ""
    return escape_pattern(subject.text)


def _address_pattern(address: str) -> str:
    """Return a pattern for all addresses on the same host; empty if there is no host."""
    found = _ADDRESS.match(address)
    return "" if found is None else f"{escape_pattern(found[0])}/**"


def _path_pattern(paths: Sequence[str]) -> str:
    """Return a pattern for the common folder of the paths, or for a single path.

    The folder is suggested only if it is not the top level and no path contains a hidden name. The
    pattern is empty if neither form is possible.
    """
    folder, *other_folders = {path.rpartition("/")[0] for path in paths}
    is_hidden = any(name.startswith(".") for path in paths for name in path.split("/"))
    if folder and not other_folders and not is_hidden:
        return f"{escape_pattern(folder)}/**"
    return escape_pattern(paths[0]) if len(set(paths)) == 1 else ""
