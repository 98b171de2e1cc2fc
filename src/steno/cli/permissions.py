"""`steno permissions`: list, add and revoke the rules that are allowed beyond one session."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Final

import msgspec

from steno.app.errors import UsageError
from steno.app.permissions import SCOPE_NAMES, GrantsFile, read_rule, revoke_rule
from steno.cli.arguments import ExitStatus, Subparsers
from steno.errors import InvalidValue, Missing
from steno.render.output import print_json
from steno.render.table_output import Column, StdoutPrinter, print_notice
from steno.render.terminal_text import terminal_line
from steno.values import replace_lone_surrogates

_GRANT_COLUMNS: Final = (Column("for", "cyan", may_shrink=True), Column("rule"))


def add_commands(commands: Subparsers) -> None:
    """Add the group to the command line."""
    group = commands.add_parser(
        "permissions",
        help="show and change what is allowed for good",
        description="Show and change what the agent may do without asking, for the project in this "
        "folder and for you in all of them. It is kept in your own folder, not in the project.",
        epilog="'steno permissions COMMAND --help' tells more about a command; without one it lists.",
    )
    group.set_defaults(run=_run_list, all=False, json=False, folder=Path())
    actions = group.add_subparsers(title="commands", metavar="COMMAND")
    listing = actions.add_parser(
        "list", help="list what is allowed", description="List what is allowed for good."
    )
    listing.add_argument("--all", action="store_true", help="that of other projects, too")
    listing.add_argument("--json", action="store_true", help="print it as one JSON object")
    listing.set_defaults(run=_run_list)
    allow = actions.add_parser(
        "allow",
        help="allow what a rule covers",
        description="Allow what a rule covers from now on, without a question.",
        epilog="example: steno permissions allow 'bash(git log *)' --project",
    )
    _add_rule_arguments(allow, is_required=True)
    allow.set_defaults(run=_run_allow)
    revoke = actions.add_parser(
        "revoke",
        help="ask again about what a rule covers",
        description="Take back what was allowed, for this project and for you unless told which.",
    )
    _add_rule_arguments(revoke, is_required=False)
    revoke.set_defaults(run=_run_revoke)
    for parser in (listing, allow, revoke):
        parser.add_argument(
            "--folder", type=Path, default=Path(), help="the folder of the project; else this one"
        )


def _add_rule_arguments(parser: argparse.ArgumentParser, *, is_required: bool) -> None:
    parser.add_argument("rule", metavar="RULE", help="a tool, or bash(git log *), write(src/**)")
    scopes = parser.add_mutually_exclusive_group(required=is_required)
    for scope, scope_name in SCOPE_NAMES.items():
        scopes.add_argument(
            f"--{scope}", dest="scope", action="store_const", const=scope, help=f"for {scope_name}"
        )


def _run_list(options: argparse.Namespace) -> int:
    grants = GrantsFile(options.folder)
    stored = grants.read()
    project_rules = stored.rules_for(grants.folder)
    others = stored.with_rules(grants.folder, ()).projects if options.all else {}
    if options.json:
        members = {
            "file": str(grants.file),
            "folder": replace_lone_surrogates(grants.folder),
            "project": project_rules,
            "user": stored.user,
            "other_projects": others,
        }
        print_json(msgspec.json.encode(members))
        return ExitStatus.OK
    rows = [("project", rule) for rule in project_rules] + [("user", rule) for rule in stored.user]
    rows += [(terminal_line(folder), rule) for folder, rules in others.items() for rule in rules]
    if rows:
        StdoutPrinter().table(_GRANT_COLUMNS, rows)
    else:
        print_notice("nothing is allowed for good")
    return ExitStatus.OK


def _run_allow(options: argparse.Namespace) -> int:
    if not options.folder.is_dir():
        raise UsageError(
            f"there is no folder {terminal_line(str(options.folder))}",
            code="folder_missing",
            place="--folder",
        )
    try:
        rule = read_rule(options.rule)
    except InvalidValue as exc:
        raise UsageError(exc.message, code=exc.code, place=exc.place) from None
    GrantsFile(options.folder).add(str(rule), options.scope)
    print_notice(f"allowed for {SCOPE_NAMES[options.scope]}: {terminal_line(options.rule)}")
    return ExitStatus.OK


def _run_revoke(options: argparse.Namespace) -> int:
    revoked = revoke_rule(GrantsFile(options.folder), options.rule, options.scope)
    if not revoked:
        raise Missing(
            "this rule is not allowed here; `steno permissions list` shows which",
            code="rule_not_granted",
            place="revoke",
        )
    for scope in revoked:
        print_notice(f"no longer allowed for {SCOPE_NAMES[scope]}: {terminal_line(options.rule)}")
    return ExitStatus.OK
