"""`steno permissions`, and the file that keeps what a person has allowed beyond one session.

The file lies in the user's own folder, never in a project: what is cloned from somewhere must not
be able to allow itself anything. It is TOML that a person can read and edit, and it counts as a
whole or not at all.
"""

from __future__ import annotations

import hmac
import os
import secrets
import stat
import time
import tomllib
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, NamedTuple, NoReturn, final

from steno.agent.events import CallEnded, Notice, NoticeCode
from steno.agent.permissions.gate import NO_APPROVER
from steno.agent.permissions.rules import PermissionRule, find_covering_rules
from steno.app.errors import suggest_name
from steno.app.folders import config_folder
from steno.errors import InvalidDocument, InvalidValue, Unavailable
from steno.messages.call import ToolCall
from steno.messages.outcome import Outcome
from steno.ports import GrantScope, Tool
from steno.store.atomic_files import make_folder, open_draft, open_locked, translate_os_errors
from steno.values import is_utf8_text

# -- tool names ------------------------------------------------------------------------------------
#
# The tools that a rule can be about: a rule about no tool protects and allows nothing.


BUILTIN_TOOL_NAMES: Final = (
    *("read", "write", "edit", "glob", "grep"),
    *("bash", "bash_output", "bash_kill"),
)
"""Those that come with the program."""


_OTHER_RULE_SUBJECTS: Final = ("fetch",)
"""What is done for a person and not for a model, by rules all the same: images are fetched."""


MCP_TOOL_PREFIX: Final = "mcp__"
"""How the names of tools begin that servers bring."""


def check_rule_tool(rule: PermissionRule) -> None:
    """Refuse a rule about a tool that there is not. Raises InvalidValue.

    What a wildcard stands for, and what servers bring, cannot be known here.
    """
    name = rule.tool
    known = (*BUILTIN_TOOL_NAMES, *_OTHER_RULE_SUBJECTS)
    if name not in known and "*" not in name and not name.startswith(MCP_TOOL_PREFIX):
        raise InvalidValue(f"there is no tool {name}; {suggest_name(name, known)}")


GRANTS_FILE_NAME: Final = "grants.toml"


_FILE_HEADING: Final = """\
# What you have allowed steno for good, beside what it asks about each time.
# `steno permissions` shows and changes it. You may edit it, too, but comments do not last.
"""


_LOCK_TIMEOUT_S: Final = 10.0


_WRITABLE_BY_OTHERS: Final = 0o022


_REPAIR_ADVICE: Final = "mend it or remove it; until then nothing in it counts"


class StoredGrants(NamedTuple):
    """What the file says: rules for the user everywhere, and for each project by its folder."""

    user: tuple[str, ...] = ()
    projects: Mapping[str, tuple[str, ...]] = {}

    def rules_for(self, project: str | None) -> tuple[str, ...]:
        """Return the rules of a project, or of the user."""
        return self.user if project is None else self.projects.get(project, ())

    def with_rules(self, project: str | None, rules: Iterable[str]) -> StoredGrants:
        """Return the same with other rules for a project or the user."""
        kept = tuple(dict.fromkeys(rules))
        if project is None:
            return self._replace(user=kept)
        others = {folder: those for folder, those in self.projects.items() if folder != project}
        return self._replace(projects={**others, project: kept} if kept else others)


@final
class GrantsFile:
    """Rules that were allowed for one project and for the user; a `GrantStore` of `steno.ports`."""

    def __init__(self, folder: Path, *, file: Path | None = None) -> None:
        """Take the folder that the agent works in, and another file than the user's own if wanted.

        Raises InvalidValue where no folder of the user is known.
        """
        self.folder: Final = os.path.realpath(folder)
        """What the rules of the project are kept under; paths in them are relative to it."""
        self.file: Final = Path(os.path.realpath(_default_file() if file is None else file))

    def rules(self) -> tuple[str, ...]:
        """Return what is allowed here. Raises InvalidDocument, Unavailable."""
        kept = self.read()
        return tuple(dict.fromkeys((*kept.rules_for(self.folder), *kept.user)))

    def read(self) -> StoredGrants:
        """Return all that is kept. Raises InvalidDocument, Unavailable."""
        with translate_os_errors(str(self.file)):
            try:
                with self.file.open("rb") as stream:
                    _check_file_permissions(os.fstat(stream.fileno()), self.file)
                    data = stream.read()
            except FileNotFoundError:
                return StoredGrants()
        return parse_grants(data, str(self.file))

    def add(self, rule: str, scope: GrantScope) -> None:
        """Allow a rule from now on. Raises InvalidValue, InvalidDocument, Unavailable."""
        text, project = str(PermissionRule.parse(rule)), self._project(scope)
        with self._locked_for_writing():
            kept = self.read()
            self._write(kept.with_rules(project, (*kept.rules_for(project), text)))

    def revoke(self, rule: str, scope: GrantScope) -> bool:
        """Allow a rule no longer; tell whether it was there. Raises as `add`."""
        project = self._project(scope)
        with self._locked_for_writing():
            kept = self.read()
            left = [text for text in kept.rules_for(project) if text != rule]
            if len(left) == len(kept.rules_for(project)):
                return False
            self._write(kept.with_rules(project, left))
            return True

    def _project(self, scope: GrantScope) -> str | None:
        if scope is GrantScope.USER:
            return None
        if scope is not GrantScope.PROJECT:
            raise InvalidValue("grants: only what is for the project or for the user is kept here")
        if not is_utf8_text(self.folder):
            raise InvalidValue(
                "grants: the path of the project is not UTF-8, allow it for the user"
            )
        return self.folder

    @contextmanager
    def _locked_for_writing(self) -> Generator[None]:
        """Keep other processes from changing the file until it is written."""
        with translate_os_errors(str(self.file)):
            make_folder(self.file.parent)
            lock, deadline = (
                self.file.with_name(f"{GRANTS_FILE_NAME}.lock"),
                time.monotonic() + _LOCK_TIMEOUT_S,
            )
            with open_locked(lock, to_write=True, deadline=deadline, create=True):
                yield

    def _write(self, kept: StoredGrants) -> None:
        with open_draft(self.file.parent) as draft:
            draft.stream.write(format_grants(kept).encode())
            draft.sync()
            draft.publish(self.file)


def _default_file() -> Path:
    folder = config_folder(os.environ)
    if folder is None:
        raise InvalidValue("grants: no home folder is known; set HOME or XDG_CONFIG_HOME")
    return folder / GRANTS_FILE_NAME


def _check_file_permissions(status: os.stat_result, file: Path) -> None:
    is_ours = status.st_uid in (0, os.geteuid())
    if not is_ours or status.st_mode & _WRITABLE_BY_OTHERS:
        raise Unavailable(
            f"{file}: others may write to it, so nothing in it counts; look through it, "
            "and make it yours alone (chmod 600)"
        )


# -- the file --------------------------------------------------------------------------------------


def parse_grants(data: bytes, place: str) -> StoredGrants:
    """Read what `format_grants` writes, or a person. Raises InvalidDocument with place and line."""
    try:
        text = data.decode()
        found = tomllib.loads(text)
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as exc:
        reason = "not UTF-8" if isinstance(exc, UnicodeDecodeError) else str(exc)
        raise InvalidDocument(f"{place}: {reason}; {_REPAIR_ADVICE}") from exc
    reading = _GrantsParser(place, text)
    reading.check_names(found, ("user", "projects"))
    projects = reading.table(found.get("projects", {}), "projects")
    return StoredGrants(
        user=reading.rules(found.get("user", {}), "user"),
        projects={folder: reading.rules(table, folder) for folder, table in projects.items()},
    )


class _GrantsParser(NamedTuple):
    """Takes values out of a file, and says where something else stands than belongs there."""

    place: str
    text: str

    def table(self, value: object, name: str) -> Mapping[str, Any]:
        if not isinstance(value, dict):
            self._refuse(name, "must be a table")
        return value

    def rules(self, value: object, name: str) -> tuple[str, ...]:
        table = self.table(value, name)
        self.check_names(table, ("allow",))
        rules = table.get("allow", [])
        if not isinstance(rules, list):
            self._refuse("allow", "must be a list of rules")
        return tuple([self._rule(rule) for rule in rules])

    def check_names(self, table: Mapping[str, Any], known: tuple[str, ...]) -> None:
        for name in table:
            if name not in known:  # somebody may have meant to deny something
                self._refuse(name, f"is not known here, only {' and '.join(known)}")

    def _rule(self, rule: object) -> str:
        if not isinstance(rule, str):
            self._refuse(str(rule), "must be a rule in quotes")
        try:
            return str(PermissionRule.parse(rule))
        except InvalidValue as exc:
            self._refuse(rule, str(exc))

    def _refuse(self, what: str, problem: str) -> NoReturn:
        lines = self.text.split("\n")
        number = next((at for at, line in enumerate(lines, start=1) if what in line), None)
        where = self.place if number is None else f"{self.place}, line {number}"
        raise InvalidDocument(f"{where}: {problem}; {_REPAIR_ADVICE}")


def format_grants(kept: StoredGrants) -> str:
    """Write grants as TOML."""
    tables = [("user", kept.user)]
    tables += [(f"projects.{_quote_toml(name)}", rules) for name, rules in kept.projects.items()]
    return "\n".join(
        [_FILE_HEADING, *[_format_table(name, rules) for name, rules in tables if rules]]
    )


def _format_table(name: str, rules: Iterable[str]) -> str:
    lines = "".join([f"    {_quote_toml(rule)},\n" for rule in rules])
    return f"[{name}]\nallow = [\n{lines}]\n"


def _quote_toml(text: str) -> str:
    """Return a basic string of TOML, in which everything can be seen."""
    return '"' + "".join(map(_escape_toml, text)) + '"'


def _escape_toml(character: str) -> str:
    if character in '"\\':
        return f"\\{character}"
    return character if character.isprintable() else f"\\U{ord(character):08x}"


SCOPE_NAMES: Final = {GrantScope.PROJECT: "this project", GrantScope.USER: "the user"}
"""For whom something is allowed, in words."""


def read_rule(text: str) -> PermissionRule:
    """Read a rule that is about a tool there is. Raises InvalidValue, which says what to write."""
    try:
        rule = PermissionRule.parse(text)
        check_rule_tool(rule)
    except InvalidValue as exc:
        raise InvalidValue(f"rule: {str(exc).removeprefix('rule: ')}") from None
    return rule


def revoke_rule(
    grants: GrantsFile, text: str, scope: GrantScope | None = None
) -> tuple[GrantScope, ...]:
    """Allow a rule no longer, wherever it was allowed or for one scope; return for which it was."""
    scopes = SCOPE_NAMES if scope is None else (scope,)
    return tuple([each for each in scopes if grants.revoke(text, each)])


# -- seal ------------------------------------------------------------------------------------------
#
# The user's own seal, by which decisions of this user are known in any record.
#
# Its secret lies in the user's folder of settings, for nobody else to read. Where it cannot be kept
# there is one for this process, and where it was open to others there is a new one: what was sealed
# by another is asked about again. This file knows nothing of what is sealed.


KEY_FILE_NAME: Final = "seal.key"


_KEY_BYTES: Final = 32


_FORBIDDEN_MODE_BITS: Final = 0o077


@final
class KeyFileSigner:
    """Seals texts for the user of this process (`steno.agent.permissions.grants.SignText`)."""

    def __init__(self, file: Path | None = None) -> None:
        """Take another file than the user's own if wanted; it is looked at when it is needed."""
        self._file = _default_key_file() if file is None else file
        self._secret: bytes | None = None

    def __call__(self, text: str) -> str:
        """Return the seal of a text."""
        if self._secret is None:
            self._secret = _load_secret(self._file)
        return hmac.new(self._secret, text.encode(), sha256).hexdigest()


def _default_key_file() -> Path | None:
    folder = config_folder(os.environ)
    return None if folder is None else folder / KEY_FILE_NAME


def _load_secret(file: Path | None) -> bytes:
    if file is not None:
        with suppress(OSError):
            return _read_secret(file) or _create_secret(file)
    return secrets.token_bytes(_KEY_BYTES)


def _read_secret(file: Path) -> bytes | None:
    """Return the secret; None if there is none, or ours is no good. Raises OSError."""
    try:
        with file.open("rb") as stream:
            found = os.fstat(stream.fileno())
            if found.st_uid != os.geteuid():
                raise PermissionError(f"{file}: belongs to somebody else")
            is_open = not stat.S_ISREG(found.st_mode) or bool(found.st_mode & _FORBIDDEN_MODE_BITS)
            secret = stream.read(_KEY_BYTES + 1)
    except FileNotFoundError:
        return None
    return secret if len(secret) == _KEY_BYTES and not is_open else None


def _create_secret(file: Path) -> bytes:
    """Keep a new secret. If two processes do so at once, that of the last one stays."""
    make_folder(file.parent)
    with open_draft(file.parent) as draft:
        draft.stream.write(secrets.token_bytes(_KEY_BYTES))
        draft.sync()
        draft.publish(file)
    secret = _read_secret(file)
    return secrets.token_bytes(_KEY_BYTES) if secret is None else secret


# -- uncovered -------------------------------------------------------------------------------------
#
# Say what was missing where rules allow a tool something, and not all that a call is about.


def build_rule_hint(
    event: CallEnded, tools: Mapping[str, Tool], allow: Sequence[PermissionRule]
) -> Notice | None:
    """Return what to tell of a call that nobody could be asked about; None if there is nothing."""
    call, result = event.call, event.result
    tool = tools.get(call.name)
    is_unasked = result.outcome is Outcome.DENIED and NO_APPROVER in result.text
    if tool is None or not isinstance(call, ToolCall) or not is_unasked:
        return None
    about = [rule for rule in allow if rule.names_tool(call.name)]
    left = [
        subject.strip()
        for subject in tool.subjects(call)
        if find_covering_rules(about, call.name, capability=tool.capability, subjects=(subject,))
        is None
    ]
    if not about or not left:
        return None
    return Notice(
        NoticeCode.CONTEXT, f"{call.name}: what the rules allow does not cover: {', '.join(left)}"
    )
