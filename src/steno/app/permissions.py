"""The permission rules of the user, the file of grants, and the key that signs decisions.

The file of grants is in the user's folder, never in a project: a cloned repository must not be able
to grant itself permissions. It is TOML that a user can read and edit; if any part of it is invalid,
the whole file is ignored.

Only the user can read the key. If it cannot be stored, the key is only valid in this process; if
other users could read it, a new key is created. Decisions signed with another key are not trusted,
and the user is asked again.
"""

from __future__ import annotations

import hmac
import os
import secrets
import tomllib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from hashlib import sha256
from itertools import takewhile
from pathlib import Path
from typing import Any, Final, NamedTuple, NoReturn, final

from msgspec.structs import replace

from steno.agent.events import CallEnded, Notice, NoticeKind
from steno.agent.permissions.patterns import escape_pattern, patterns_below
from steno.agent.permissions.rules import (
    PATH_TOOLS,
    PermissionRule,
    check_path_rule,
    find_covering_rules,
)
from steno.agent.permissions.subjects import normalize_subjects
from steno.agent.results import ResultCode
from steno.app.folders import home_folder
from steno.app.user_file import UserFile, quote_toml, unknown_home, user_file
from steno.errors import InvalidDocument, InvalidValue
from steno.log.queries import result_code
from steno.messages.call import (
    BUILTIN_TOOL_NAMES,
    MCP_TOOL_PREFIX,
    ToolCall,
)
from steno.ports import Capability, GrantScope, Tool
from steno.regular_file import open_regular_file
from steno.store.atomic_files import make_folder, open_draft
from steno.suggest import suggest_name
from steno.tools.shell.domain_rules import NETWORK_RULE_NAME, DomainRule
from steno.values import is_utf8_text

GRANTS_FILE_NAME: Final = "grants.toml"
SCOPE_NAMES: Final = {GrantScope.PROJECT: "this project", GrantScope.USER: "all your projects"}
"""The human-readable names of the scopes of stored grants."""
_OTHER_RULE_SUBJECTS: Final = ("fetch", "network")
"""Names in rules that are not tools: `fetch` is the download of an image by steno itself, and
`network` the domains that commands in a sandbox may contact.
"""
_FILE_HEADING: Final = """\
# The permission rules that you have allowed permanently.
# `steno permissions` lists and changes them. You can edit this file, but comments are not kept.
"""
_FILE_VERSION: Final = 2
"""The version of the file. In files without a version, `*` in a command matched any text."""
_UNREPORTED_NAME: Final = "unreported"
"""The member that is true while rules that need a confirmation were not reported yet."""
KEY_FILE_NAME: Final = "seal.key"
_KEY_BYTES: Final = 32
_ACCESSIBLE_TO_OTHERS: Final = 0o077
_REPAIR_ADVICE: Final = "fix or delete the file; until then it is ignored"


# -- rules ------------------------------------------------------------------------------------


def read_rule(text: str) -> PermissionRule:
    """Parse a rule about a known tool.

    Raises InvalidValue with the place `rule` if the rule is invalid or its tool is unknown.
    """
    try:
        return parse_known_rule(text)
    except InvalidValue as exc:
        raise InvalidValue(exc.text_unless_at("rule"), code=exc.code, place="rule") from None


def parse_known_rule(text: str) -> PermissionRule:
    """Parse a rule. Raises InvalidValue if the rule is invalid or its tool is unknown."""
    rule = PermissionRule.parse(text)
    check_rule_tool(rule)
    return rule


def check_rule_tool(rule: PermissionRule) -> None:
    """Raise InvalidValue if the tool of a rule is unknown, because the rule would have no effect.

    Wildcards and the tools of servers cannot be checked here.
    """
    name = rule.tool
    known = (*BUILTIN_TOOL_NAMES, *_OTHER_RULE_SUBJECTS)
    if name not in known and "*" not in name and not name.startswith(MCP_TOOL_PREFIX):
        raise InvalidValue(f"unknown tool {name}; {suggest_name(name, known)}", code="tool_unknown")
    check_domain_rule(rule)


def check_domain_rule(rule: PermissionRule) -> None:
    """Raise InvalidValue if a rule is for domains, and its pattern is no pattern for domains."""
    if rule.tool == NETWORK_RULE_NAME:
        DomainRule.parse(rule.pattern or "*")


def resolve_rule(
    rule: PermissionRule, folder: str, home: Path | None
) -> tuple[PermissionRule, ...]:
    """Return the rules that match, with paths as tools name them, what a user's rule means.

    Paths of tools are real, and relative in the working directory. So `~` is replaced, links in
    front of the first wildcard are resolved, and an absolute path also becomes the relative one.
    Raises InvalidValue for a rule that could never match.
    """
    pattern = rule.pattern
    if pattern is None or not any(map(rule.names_tool, PATH_TOOLS)):
        return (rule,)
    if home is not None and (pattern == "~" or pattern.startswith("~/")):
        pattern = f"{escape_pattern(str(home))}{pattern[1:]}"
    check_path_rule(replace(rule, pattern=pattern))
    root = os.path.realpath(folder)
    pattern = _resolve_links(pattern, root)
    patterns = [pattern]
    if pattern.startswith("/"):
        patterns = [*patterns_below(pattern, root), pattern]
    return tuple([replace(rule, pattern=each) for each in dict.fromkeys(patterns)])


def _resolve_links(pattern: str, root: str) -> str:
    """Resolve the links in the part of a path pattern in front of its first special character."""
    names = pattern.split("/")
    plain = [*takewhile(lambda name: escape_pattern(name) == name, names)]
    prefix = "/".join(plain)
    if not any(plain) or "\0" in prefix:
        return pattern
    real = os.path.realpath(os.path.join(root, prefix))  # noqa: PTH118 - realpath returns a str
    if real == os.path.normpath(os.path.join(root, prefix)):  # noqa: PTH118 - no link
        return pattern
    if not is_utf8_text(real):
        return pattern
    relative = os.path.relpath(real, root) if Path(real).is_relative_to(root) else real
    end = "/" if plain[-1:] == [""] and len(plain) == len(names) else ""
    return "/".join([escape_pattern(relative), *names[len(plain) :]]) + end


def build_rule_hint(
    event: CallEnded, tool: Tool | None, allow: Sequence[PermissionRule]
) -> Notice | None:
    """Return a notice if a call was denied because allow rules for its tool do not cover it.

    Returns None otherwise, also if an approver denied the call.
    """
    call, result = event.call, event.result
    is_unasked = result_code(result) == ResultCode.NO_APPROVER
    if tool is None or not isinstance(call, ToolCall) or not is_unasked:
        return None
    rules = [rule for rule in allow if rule.names_tool(call.name)]
    uncovered = [
        subject.text.strip()
        for subject in normalize_subjects(tool, tool.subjects(call))
        if subject.capability is not Capability.READ
        and not subject.is_routine
        and find_covering_rules(rules, call.name, (subject,)) is None
    ]
    if not rules or not uncovered:
        return None
    text = f"{call.name}: the allow rules do not cover: {', '.join(uncovered)}"
    return Notice(NoticeKind.CONTEXT, text, "allowed_in_part")


# -- the grants file --------------------------------------------------------------------------


class GrantTable(NamedTuple):
    """The stored rules of the user or of a project."""

    allow: tuple[str, ...] = ()
    unconfirmed: tuple[str, ...] = ()
    """Rules of an older version that allow too much; they count only after you confirm them."""


class StoredGrants(NamedTuple):
    """The stored rules: the user's, and those of each project by its folder."""

    user: GrantTable = GrantTable()
    projects: Mapping[str, GrantTable] = {}
    version: int = _FILE_VERSION
    """The version of the file that was read."""
    is_unreported: bool = False
    """Whether rules of an older version need a confirmation, and no one was told yet."""

    def table_for(self, project: str | None) -> GrantTable:
        """Return the rules of a project, or those of the user if `project` is None."""
        return self.user if project is None else self.projects.get(project, GrantTable())

    def with_table(self, project: str | None, table: GrantTable) -> StoredGrants:
        """Return a copy with other rules of a project, or of the user if `project` is None."""
        unique = GrantTable(*[tuple(dict.fromkeys(rules)) for rules in table])
        if project is None:
            return self._replace(user=unique)
        others = {folder: each for folder, each in self.projects.items() if folder != project}
        return self._replace(projects={**others, project: unique} if any(unique) else others)


@final
class GrantsFile:
    """The permanent rules of one project and of the user; a `GrantStore` of `steno.ports`."""

    def __init__(self, folder: Path, *, file: Path | None = None) -> None:
        """Take the folder that the agent works in. `file` replaces the user's file of grants.

        Raises InvalidValue if `file` is None and the home folder is unknown.
        """
        self.folder: Final = os.path.realpath(folder)
        """The folder of the project; paths in its rules are relative to it."""
        file = file or user_file(GRANTS_FILE_NAME)
        if file is None:
            raise unknown_home("grants")
        self._user_file: Final = UserFile(file)
        self.file: Final = self._user_file.path

    def rules(self) -> tuple[str, ...]:
        """Return the rules of the project and of the user. Raises the same errors as `read`."""
        stored, home = self.read(), home_folder(os.environ)
        resolved: list[str] = []
        for text in (*stored.table_for(self.folder).allow, *stored.user.allow):
            try:
                found = resolve_rule(PermissionRule.parse(text), self.folder, home)
            except InvalidValue:  # a rule that never matches does no harm
                continue
            resolved += map(str, found)
        return tuple(dict.fromkeys(resolved))

    def migrate(self) -> tuple[str, ...]:
        """Rewrite a file of an older version; return the rules that now need a confirmation.

        These are rules for several commands, whose patterns have a new meaning. They are reported
        once, also if `add` or `revoke` has rewritten the file before. Raises the same errors
        as `add`.
        """
        if not self._needs_migration(self.read()):
            return ()
        with self._user_file.locked_for_writing():
            stored = self.read()
            if not self._needs_migration(stored):  # another process was faster
                return ()
            self._user_file.write(format_grants(stored._replace(is_unreported=False)))
        tables = (stored.user, *stored.projects.values())
        return tuple(dict.fromkeys([rule for table in tables for rule in table.unconfirmed]))

    @staticmethod
    def _needs_migration(stored: StoredGrants) -> bool:
        return stored.version != _FILE_VERSION or stored.is_unreported

    def read(self) -> StoredGrants:
        """Return all stored rules. There are none if the file does not exist.

        Raises InvalidDocument if the file is invalid, and Unavailable if it cannot be read or
        another user can write to it.
        """
        data = self._user_file.read()
        return StoredGrants() if data is None else parse_grants(data, str(self.file))

    def add(self, rule: str, scope: GrantScope) -> None:
        """Store or confirm a rule, which allows calls from now on.

        Raises InvalidValue if the rule or the scope is invalid, InvalidDocument if the file is
        invalid, and Unavailable if it cannot be read or written.
        """
        parsed, project = PermissionRule.parse(rule), self._project(scope)
        check_domain_rule(parsed)
        text = str(parsed)
        with self._user_file.locked_for_writing():
            stored = self.read()
            table = stored.table_for(project)
            unconfirmed = [each for each in table.unconfirmed if each != text]
            changed = GrantTable((*table.allow, text), tuple(unconfirmed))
            self._user_file.write(format_grants(stored.with_table(project, changed)))

    def revoke(self, rule: str, scope: GrantScope) -> bool:
        """Remove a rule; return whether it was stored. Raises the same errors as `add`."""
        project = self._project(scope)
        with self._user_file.locked_for_writing():
            stored = self.read()
            table = stored.table_for(project)
            remaining = GrantTable(
                *[tuple([text for text in rules if text != rule]) for rules in table]
            )
            if remaining == table:
                return False
            self._user_file.write(format_grants(stored.with_table(project, remaining)))
            return True

    def _project(self, scope: GrantScope) -> str | None:
        if scope is GrantScope.USER:
            return None
        if scope is not GrantScope.PROJECT:
            raise InvalidValue(
                "only grants for the project or the user are stored",
                code="scope_not_stored",
                place="grants",
            )
        if not is_utf8_text(self.folder):
            raise InvalidValue(
                "the path of the project is not UTF-8; allow the rule for the user instead",
                code="path_not_utf8",
                place="grants",
            )
        return self.folder


def parse_grants(data: bytes, place: str) -> StoredGrants:
    """Parse the content of a grants file. Raises InvalidDocument, with the line if it is known."""
    try:
        text = data.decode()
        document = tomllib.loads(text)
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as exc:
        is_utf8 = not isinstance(exc, UnicodeDecodeError)
        reason, code = (str(exc), "file_not_toml") if is_utf8 else ("not UTF-8", "not_utf8")
        raise InvalidDocument(f"{reason}; {_REPAIR_ADVICE}", code=code, place=place) from exc
    version = document.get("version", 1)
    parser = _GrantsParser(place, text, version)
    parser.check_names(document, ("version", _UNREPORTED_NAME, "user", "projects"))
    parser.check_version()
    projects = parser.table(document.get("projects", {}), "projects")
    return StoredGrants(
        user=parser.grants(document.get("user", {}), "user"),
        projects={folder: parser.grants(table, folder) for folder, table in projects.items()},
        version=version,
        is_unreported=version != _FILE_VERSION or document.get(_UNREPORTED_NAME) is True,
    )


def _needs_confirmation(rule: PermissionRule) -> bool:
    """Return whether a rule of a file without a version covers more than one command."""
    return rule.names_tool("bash") and not rule.is_exact


class _GrantsParser(NamedTuple):
    """Checks and reads the values of a grants file; an error names the line of the value."""

    place: str
    text: str
    version: object

    def check_version(self) -> None:
        if isinstance(self.version, bool) or self.version not in (1, _FILE_VERSION):
            problem = "the file is from another version of steno; update steno"
            self._refuse("version", problem, "grants_version")

    def table(self, value: object, name: str) -> Mapping[str, Any]:
        if not isinstance(value, dict):
            self._refuse(name, "must be a table", "not_a_table")
        return value

    def grants(self, value: object, name: str) -> GrantTable:
        table = self.table(value, name)
        self.check_names(table, ("allow", "unconfirmed"))
        allow, unconfirmed = list[str](), [*self._texts(table, "unconfirmed")]
        for text in self._texts(table, "allow"):
            rule = self._rule(text)
            is_kept = rule is not None and (self.version != 1 or not _needs_confirmation(rule))
            (allow if is_kept else unconfirmed).append(text if rule is None else str(rule))
        return GrantTable(tuple(allow), tuple(unconfirmed))

    def _texts(self, table: Mapping[str, Any], name: str) -> list[str]:
        texts = table.get(name, [])
        if not isinstance(texts, list):
            self._refuse(name, "must be a list of rules", "not_a_list")
        for text in texts:
            if not isinstance(text, str):
                self._refuse(str(text), "must be a rule, as a string", "not_a_rule")
        return texts

    def check_names(self, table: Mapping[str, Any], known: tuple[str, ...]) -> None:
        for name in table:
            if name not in known:  # it may be meant to deny something
                problem = f"unknown field {name}; use {' or '.join(known)}"
                self._refuse(name, problem, "field_unknown")

    def _rule(self, text: str) -> PermissionRule | None:
        """Parse a rule; return None for a form that only older versions understand."""
        try:
            return PermissionRule.parse(text)
        except InvalidValue as exc:
            if self.version == 1 and exc.code == "rule_redirection":
                return None
            self._refuse(text, str(exc), exc.code)

    def _refuse(self, text: str, problem: str, code: str) -> NoReturn:
        lines = self.text.split("\n")
        number = next(
            (position for position, line in enumerate(lines, start=1) if text in line), None
        )
        place = self.place if number is None else f"{self.place}, line {number}"
        raise InvalidDocument(f"{problem}; {_REPAIR_ADVICE}", code=code, place=place)


def format_grants(stored: StoredGrants) -> str:
    """Return grants as TOML, in the current version of the file."""
    tables = [("user", stored.user)]
    tables += [(f"projects.{quote_toml(name)}", table) for name, table in stored.projects.items()]
    parts = [f"{_FILE_HEADING}version = {_FILE_VERSION}\n"]
    if stored.is_unreported:
        parts[0] += f"{_UNREPORTED_NAME} = true\n"
    for name, table in tables:
        lists = [
            f"{field} = [\n{''.join([f'    {quote_toml(rule)},{chr(10)}' for rule in rules])}]\n"
            for field, rules in zip(GrantTable._fields, table, strict=True)
            if rules
        ]
        parts += [f"[{name}]\n{''.join(lists)}"] if lists else []
    return "\n".join(parts)


# -- the signing key --------------------------------------------------------------------------


@final
class KeyFileSigner:
    """Signs texts for the user of this process (`steno.agent.permissions.grants.SignText`)."""

    def __init__(self, file: Path | None = None, *, creates_key: bool = True) -> None:
        """Take the file of the key, by default the user's file.

        The file is read when the first text is signed. If it does not exist and `creates_key` is
        false, it is not created, and the signatures are valid in this process only.
        """
        self._file = file or user_file(KEY_FILE_NAME)
        self._creates_key = creates_key
        self._secret: bytes | None = None

    def __call__(self, text: str) -> str:
        """Return the signature of a text."""
        if self._secret is None and self._file is not None:
            with suppress(OSError):
                self._secret = _read_secret(self._file)
                if self._secret is None and self._creates_key:
                    self._secret = _create_secret(self._file)
        if self._secret is None:
            self._secret = secrets.token_bytes(_KEY_BYTES)
        return hmac.new(self._secret, text.encode(), sha256).hexdigest()


def _read_secret(file: Path) -> bytes | None:
    """Return the secret; None if it does not exist, is invalid, or is accessible to other users.

    Raises OSError, also if the file belongs to another user.
    """
    try:
        with open_regular_file(file) as stream:
            status = os.fstat(stream.fileno())
            if status.st_uid != os.geteuid():
                raise PermissionError(f"{file}: belongs to another user")
            is_exposed = bool(status.st_mode & _ACCESSIBLE_TO_OTHERS)
            secret = stream.read(_KEY_BYTES + 1)
    except FileNotFoundError:
        return None
    return secret if len(secret) == _KEY_BYTES and not is_exposed else None


def _create_secret(file: Path) -> bytes:
    """Create and store a new secret, and return it.

    If several processes do this at once, the last stored secret is kept.
    """
    make_folder(file.parent)
    with open_draft(file.parent) as draft:
        draft.stream.write(secrets.token_bytes(_KEY_BYTES))
        draft.sync()
        draft.publish(file)
    secret = _read_secret(file)
    return secrets.token_bytes(_KEY_BYTES) if secret is None else secret
