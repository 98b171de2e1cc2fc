"""`steno permissions`, and the file that keeps what a person has allowed beyond one session.

The file lies in the user's own folder, never in a project: what is cloned from somewhere must not
be able to allow itself anything. It is TOML that a person can read and edit, and it counts as a
whole or not at all.
"""

from __future__ import annotations

import argparse
import os
import time
import tomllib
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple, NoReturn, final

import msgspec

from steno.agent.rules import Rule
from steno.cli.commands import Commands, Misused
from steno.cli.folders import config_folder
from steno.cli.paper import Column, Paper, note, print_object
from steno.cli.tool_names import check_tool
from steno.errors import InvalidDocument, InvalidValue, Missing, Unavailable
from steno.ports import Scope
from steno.printable import on_one_line
from steno.store.jsonl.files import drafted, locked, make_folder, reporting
from steno.value import is_text, replace_lone_surrogates

FILE_NAME: Final = "grants.toml"
_HEADING: Final = """\
# What you have allowed steno for good, beside what it asks about each time.
# `steno permissions` shows and changes it. You may edit it, too, but comments do not last.
"""
_PATIENCE_S: Final = 10.0
_WRITABLE_BY_OTHERS: Final = 0o022
_ADVICE: Final = "mend it or remove it; until then nothing in it counts"


class Kept(NamedTuple):
    """What the file says: rules for the user everywhere, and for each project by its folder."""

    user: tuple[str, ...] = ()
    projects: Mapping[str, tuple[str, ...]] = {}

    def rules_for(self, project: str | None) -> tuple[str, ...]:
        """Return the rules of a project, or of the user."""
        return self.user if project is None else self.projects.get(project, ())

    def with_rules(self, project: str | None, rules: Iterable[str]) -> Kept:
        """Return the same with other rules for a project or the user."""
        kept = tuple(dict.fromkeys(rules))
        if project is None:
            return self._replace(user=kept)
        others = {folder: those for folder, those in self.projects.items() if folder != project}
        return self._replace(projects={**others, project: kept} if kept else others)


@final
class GrantsFile:
    """Rules that were allowed for one project and for the user; a `Grants` of `steno.ports`."""

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

    def read(self) -> Kept:
        """Return all that is kept. Raises InvalidDocument, Unavailable."""
        with reporting(str(self.file)):
            try:
                with self.file.open("rb") as stream:
                    _check_rights(os.fstat(stream.fileno()), self.file)
                    data = stream.read()
            except FileNotFoundError:
                return Kept()
        return parse_grants(data, str(self.file))

    def add(self, rule: str, scope: Scope) -> None:
        """Allow a rule from now on. Raises InvalidValue, InvalidDocument, Unavailable."""
        text, project = str(Rule.parse(rule)), self._project(scope)
        with self._locked_for_writing():
            kept = self.read()
            self._write(kept.with_rules(project, (*kept.rules_for(project), text)))

    def revoke(self, rule: str, scope: Scope) -> bool:
        """Allow a rule no longer; tell whether it was there. Raises as `add`."""
        project = self._project(scope)
        with self._locked_for_writing():
            kept = self.read()
            left = [text for text in kept.rules_for(project) if text != rule]
            if len(left) == len(kept.rules_for(project)):
                return False
            self._write(kept.with_rules(project, left))
            return True

    def _project(self, scope: Scope) -> str | None:
        if scope is Scope.USER:
            return None
        if scope is not Scope.PROJECT:
            raise InvalidValue("grants: only what is for the project or for the user is kept here")
        if not is_text(self.folder):
            raise InvalidValue(
                "grants: the path of the project is not UTF-8, allow it for the user"
            )
        return self.folder

    @contextmanager
    def _locked_for_writing(self) -> Generator[None]:
        """Keep other processes from changing the file until it is written."""
        with reporting(str(self.file)):
            make_folder(self.file.parent)
            lock, deadline = (
                self.file.with_name(f"{FILE_NAME}.lock"),
                time.monotonic() + _PATIENCE_S,
            )
            with locked(lock, to_write=True, deadline=deadline, create=True):
                yield

    def _write(self, kept: Kept) -> None:
        with drafted(self.file.parent) as draft:
            draft.stream.write(format_grants(kept).encode())
            draft.sync()
            draft.publish(self.file)


def _default_file() -> Path:
    folder = config_folder(os.environ)
    if folder is None:
        raise InvalidValue("grants: no home folder is known; set HOME or XDG_CONFIG_HOME")
    return folder / FILE_NAME


def _check_rights(status: os.stat_result, file: Path) -> None:
    is_ours = status.st_uid in (0, os.geteuid())
    if not is_ours or status.st_mode & _WRITABLE_BY_OTHERS:
        raise Unavailable(
            f"{file}: others may write to it, so nothing in it counts; look through it, "
            "and make it yours alone (chmod 600)"
        )


# -- the file --------------------------------------------------------------------------------------


def parse_grants(data: bytes, place: str) -> Kept:
    """Read what `format_grants` writes, or a person. Raises InvalidDocument with place and line."""
    try:
        text = data.decode()
        found = tomllib.loads(text)
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as exc:
        reason = "not UTF-8" if isinstance(exc, UnicodeDecodeError) else str(exc)
        raise InvalidDocument(f"{place}: {reason}; {_ADVICE}") from exc
    reading = _Reading(place, text)
    reading.check_names(found, ("user", "projects"))
    projects = reading.table(found.get("projects", {}), "projects")
    return Kept(
        user=reading.rules(found.get("user", {}), "user"),
        projects={folder: reading.rules(table, folder) for folder, table in projects.items()},
    )


class _Reading(NamedTuple):
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
            return str(Rule.parse(rule))
        except InvalidValue as exc:
            self._refuse(rule, str(exc))

    def _refuse(self, what: str, problem: str) -> NoReturn:
        lines = self.text.split("\n")
        number = next((at for at, line in enumerate(lines, start=1) if what in line), None)
        where = self.place if number is None else f"{self.place}, line {number}"
        raise InvalidDocument(f"{where}: {problem}; {_ADVICE}")


def format_grants(kept: Kept) -> str:
    """Write grants as TOML."""
    tables = [("user", kept.user)]
    tables += [(f"projects.{_quoted(name)}", rules) for name, rules in kept.projects.items()]
    return "\n".join([_HEADING, *[_table(name, rules) for name, rules in tables if rules]])


def _table(name: str, rules: Iterable[str]) -> str:
    lines = "".join([f"    {_quoted(rule)},\n" for rule in rules])
    return f"[{name}]\nallow = [\n{lines}]\n"


def _quoted(text: str) -> str:
    """Return a basic string of TOML, in which everything can be seen."""
    return '"' + "".join(map(_escaped, text)) + '"'


def _escaped(character: str) -> str:
    if character in '"\\':
        return f"\\{character}"
    return character if character.isprintable() else f"\\U{ord(character):08x}"


# -- commands --------------------------------------------------------------------------------------

_COLUMNS: Final = (Column("for", "cyan", may_shrink=True), Column("rule"))
SCOPES: Final = {Scope.PROJECT: "this project", Scope.USER: "the user"}
"""For whom something is allowed, in words."""


def add_commands(commands: Commands) -> None:
    """Add the group to the command line."""
    group = commands.add_parser(
        "permissions",
        help="show and change what is allowed for good",
        description="Show and change what the agent may do without asking, for the project in this "
        "folder and for you in all of them. It is kept in your own folder, not in the project.",
        epilog="'steno permissions COMMAND --help' tells more about a command; without one it lists.",
    )
    group.set_defaults(run=_list, all=False, json=False, folder=Path())
    actions = group.add_subparsers(title="commands", metavar="COMMAND")
    listing = actions.add_parser(
        "list", help="list what is allowed", description="List what is allowed for good."
    )
    listing.add_argument("--all", action="store_true", help="that of other projects, too")
    listing.add_argument("--json", action="store_true", help="print it as one JSON object")
    listing.set_defaults(run=_list)
    allow = actions.add_parser(
        "allow",
        help="allow what a rule covers",
        description="Allow what a rule covers from now on, without a question.",
        epilog="example: steno permissions allow 'bash(git log *)' --project",
    )
    _add_rule(allow, is_required=True)
    allow.set_defaults(run=_allow)
    revoke = actions.add_parser(
        "revoke",
        help="ask again about what a rule covers",
        description="Take back what was allowed, for this project and for you unless told which.",
    )
    _add_rule(revoke, is_required=False)
    revoke.set_defaults(run=_revoke)
    for parser in (listing, allow, revoke):
        parser.add_argument(
            "--folder", type=Path, default=Path(), help="the folder of the project; else this one"
        )


def _add_rule(parser: argparse.ArgumentParser, *, is_required: bool) -> None:
    parser.add_argument("rule", metavar="RULE", help="a tool, or bash(git log *), write(src/**)")
    scopes = parser.add_mutually_exclusive_group(required=is_required)
    for scope, whom in SCOPES.items():
        scopes.add_argument(
            f"--{scope}", dest="scope", action="store_const", const=scope, help=f"for {whom}"
        )


def _list(options: argparse.Namespace) -> int:
    grants = GrantsFile(options.folder)
    kept = grants.read()
    here = kept.rules_for(grants.folder)
    others = kept.with_rules(grants.folder, ()).projects if options.all else {}
    if options.json:
        described = {
            "file": str(grants.file),
            "folder": replace_lone_surrogates(grants.folder),
            "project": here,
            "user": kept.user,
            "other_projects": others,
        }
        print_object(msgspec.json.encode(described))
        return 0
    rows = [("project", rule) for rule in here] + [("user", rule) for rule in kept.user]
    rows += [(on_one_line(folder), rule) for folder, rules in others.items() for rule in rules]
    if rows:
        Paper().table(_COLUMNS, rows)
    else:
        note("nothing is allowed for good")
    return 0


def _allow(options: argparse.Namespace) -> int:
    if not options.folder.is_dir():
        raise Misused(f"--folder: there is no folder {on_one_line(str(options.folder))}")
    try:
        rule = read_rule(options.rule)
    except InvalidValue as exc:
        raise Misused(str(exc)) from None
    GrantsFile(options.folder).add(str(rule), options.scope)
    note(f"allowed for {SCOPES[options.scope]}: {on_one_line(options.rule)}")
    return 0


def read_rule(text: str) -> Rule:
    """Read a rule that is about a tool there is. Raises InvalidValue, which says what to write."""
    try:
        rule = Rule.parse(text)
        check_tool(rule)
    except InvalidValue as exc:
        raise InvalidValue(f"rule: {str(exc).removeprefix('rule: ')}") from None
    return rule


def _revoke(options: argparse.Namespace) -> int:
    revoked = revoke_rule(GrantsFile(options.folder), options.rule, options.scope)
    if not revoked:
        raise Missing("revoke: this rule is not allowed here; `steno permissions list` shows which")
    for scope in revoked:
        note(f"no longer allowed for {SCOPES[scope]}: {on_one_line(options.rule)}")
    return 0


def revoke_rule(grants: GrantsFile, text: str, scope: Scope | None = None) -> tuple[Scope, ...]:
    """Allow a rule no longer, wherever it was allowed or for one scope; return for which it was."""
    scopes = SCOPES if scope is None else (scope,)
    return tuple([each for each in scopes if grants.revoke(text, each)])
