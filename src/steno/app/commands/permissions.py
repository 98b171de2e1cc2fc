"""`steno permissions` and `/permissions`: the rules that allow and deny calls.

`allow` adds a permanent rule, and `revoke` removes one. In a terminal, the rules of the session and
of the settings are listed, too. There, `revoke` also removes a rule of the session, on all of its
branches, and `revoke 2` removes the second rule in the list of the session. Changes take effect
with the next decision.
"""

from __future__ import annotations

import argparse
import asyncio
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from steno import app
from steno.agent import AutoRun, EntryRecorded, Permissions
from steno.agent.permissions.rules import MODE_CAPABILITIES, ROLE_CAPABILITIES, PermissionRule
from steno.app.commands.arguments import OneOf, UsageError, add_arguments, argument, flag
from steno.app.commands.context import CommandContext, CommandDefinition
from steno.app.commands.report import Paragraph, Report, Table, bold, code
from steno.app.folders import home_folder
from steno.app.permissions import SCOPE_NAMES, GrantsFile, GrantTable, read_rule, resolve_rule
from steno.errors import InvalidValue, Missing, StenoError
from steno.ports import Capability, GrantScope
from steno.render.quantities import format_count
from steno.render.table_output import Column, StyledText
from steno.render.terminal_text import terminal_line
from steno.values import replace_lone_surrogates

_TITLE: Final = "Permissions"
_GRANT_COLUMNS: Final = (
    Column("for", "cyan", may_shrink=True),
    Column("rule"),
    Column("note", may_shrink=True),
)
_UNCONFIRMED_NOTE: Final = "needs confirmation"
_AUTO_RUN_TEXTS: Final = {
    AutoRun.ROUTINE: ", and in a sandbox commands that only read or are common project work",
    AutoRun.READ: ", and in a sandbox commands that only read",
    AutoRun.NONE: "",
}
_SCOPES_IN_TERMINAL: Final = {GrantScope.SESSION: "this session", **SCOPE_NAMES}
_REVOKE_HINT: Final = (code("/permissions revoke N"), " removes one")
_CHANGE_HINT: Final = Paragraph(
    code("/permissions allow RULE [project|user]"),
    " adds a rule, ",
    code("/permissions revoke RULE"),
    " removes one.",
)


def _add_actions(parser: argparse.ArgumentParser, in_terminal: bool) -> None:
    parser.set_defaults(action="list", all=False, json=False, folder=None)
    actions = parser.add_subparsers(title="commands", metavar="COMMAND")
    rule = argument(
        "rule", metavar="RULE", help="a tool, or a pattern: bash(git log *), write(src/**)"
    )
    folder = argument(
        "--folder", type=Path, help="the folder of the project (default: this folder)"
    )
    in_revoke = _SCOPES_IN_TERMINAL if in_terminal else SCOPE_NAMES
    listing = actions.add_parser(
        "list",
        help="list the permanent allow rules",
        description="List the permanent allow rules.",
    )
    all_projects = flag("--all", help="include the rules of other projects")
    add_arguments(listing, [all_projects, flag("--json", help="print one JSON object"), folder])
    allow = actions.add_parser(
        "allow",
        help="allow calls that match a rule",
        description="From now on, allow calls that match a rule, without asking.",
        epilog="example:\n  steno permissions allow 'bash(git log *)' --project",
    )
    add_arguments(allow, [rule, _scope_options(SCOPE_NAMES, is_required=not in_terminal), folder])
    allow.set_defaults(action="allow")
    revoke = actions.add_parser(
        "revoke",
        help="remove an allow rule",
        description="Remove an allow rule. Without --project or --user, it is removed from the "
        "rules of this project and from your rules for all projects.",
    )
    add_arguments(revoke, [rule, _scope_options(in_revoke), folder])
    revoke.set_defaults(action="revoke")


def _scope_options(names: Mapping[GrantScope, str], *, is_required: bool = False) -> OneOf:
    options = [
        argument(
            f"--{scope}", dest="scope", action="store_const", const=scope, help=f"for {scope_name}"
        )
        for scope, scope_name in names.items()
    ]
    return OneOf(tuple(options), is_required)


def _split_typed(text: str) -> list[str]:
    """Turn `allow RULE [SCOPE]` into arguments; a rule may contain spaces and dashes.

    Raises InvalidValue for `deny`: users expect it beside `allow`, but deny rules are settings.
    """
    action, _, rest = text.partition(" ")
    rest = rest.strip()
    if action == "deny":
        message = (
            'deny rules are settings; add deny = ["RULE"] to a file that steno config path lists, '
            "and restart steno"
        )
        raise InvalidValue(message, code="deny_is_setting", place="permissions")
    if action not in ("allow", "revoke") or not rest:
        return text.split()
    rule, _, last = rest.rpartition(" ")
    scope = last.removeprefix("--")
    if rule and scope in tuple(_SCOPES_IN_TERMINAL):
        return [action, f"--{scope}", "--", rule.strip()]
    return [action, "--", rest]


async def _run_permissions(context: CommandContext, options: argparse.Namespace) -> Report:
    """Run the command; it uses the session on the event loop, and the grants file in a thread."""
    grants = GrantsFile(context.folder if options.folder is None else options.folder)
    match options.action:
        case "allow":
            return await asyncio.to_thread(_allow_rule, grants, options)
        case "revoke":
            return await _revoke(context, grants, options)
        case _ if context.session is not None and not options.json:
            return await _list_in_session(context.session, grants, options)
        case _:
            return await asyncio.to_thread(_list_grants, grants, options)


COMMAND: CommandDefinition = CommandDefinition(
    _run_permissions,
    (),
    _split_typed,
    help="list and change permanent permission rules",
    description="List and change the rules that allow calls without approval, for the project in "
    "this folder, or for all your projects. They are stored in your settings folder, not in the "
    "project. Without a command, the rules are listed.",
    add_actions=_add_actions,
)


# -- permanent rules --------------------------------------------------------------------------


def _list_grants(grants: GrantsFile, options: argparse.Namespace) -> Report:
    stored = grants.read()
    project = stored.table_for(grants.folder)
    others = stored.with_table(grants.folder, GrantTable()).projects if options.all else {}
    tables = {"project": project, "user": stored.user}
    tables |= {terminal_line(folder): table for folder, table in others.items()}
    rows = [
        (name, rule, note)
        for index, note in enumerate(("", _UNCONFIRMED_NOTE))
        for name, table in tables.items()
        for rule in map(terminal_line, table[index])
    ]
    members = {
        "file": str(grants.file),
        "folder": replace_lone_surrogates(grants.folder),
        "project": project.allow,
        "user": stored.user.allow,
        "other_projects": {folder: table.allow for folder, table in others.items()},
        "unconfirmed": {
            "project": project.unconfirmed,
            "user": stored.user.unconfirmed,
            "other_projects": {folder: table.unconfirmed for folder, table in others.items()},
        },
    }
    # The notes have a column only if there is one.
    columns = _GRANT_COLUMNS if any(note for *_, note in rows) else _GRANT_COLUMNS[:2]
    shown = [row[: len(columns)] for row in rows]
    return Report(
        title=_TITLE,
        parts=[Table(columns, shown)] if rows else [],
        when_empty="no rule is allowed permanently",
        data=[members],
    )


def _allow_rule(grants: GrantsFile, options: argparse.Namespace) -> Report:
    if not Path(grants.folder).is_dir():
        raise UsageError(
            f"folder not found: {terminal_line(str(options.folder))}",
            code="folder_missing",
            place="--folder",
        )
    try:
        rule = read_rule(options.rule)
        resolve_rule(rule, grants.folder, home_folder(os.environ))
    except InvalidValue as exc:
        raise UsageError(exc.message, code=exc.code, place=exc.place) from None
    scope = options.scope or GrantScope.PROJECT
    grants.add(str(rule), scope)
    line = f"allowed for {SCOPE_NAMES[scope]}: {terminal_line(options.rule)}"
    return Report(title=_TITLE, notices=(line,))


async def _revoke(
    context: CommandContext, grants: GrantsFile, options: argparse.Namespace
) -> Report:
    """Revoke a rule in the scope that the options name, or in all scopes if they name none.

    A rule of the session can be named by its number. Raises Missing if no rule was revoked.
    """
    rule, scope, scopes = options.rule, options.scope, list[str]()
    if context.session is not None:
        found = _find_rule(context.session, rule)
        rule, scope = str(found), GrantScope.SESSION if rule.isdecimal() else scope
        if scope in (None, GrantScope.SESSION) and _revoke_in_session(context.session, found):
            scopes.append(_SCOPES_IN_TERMINAL[GrantScope.SESSION])
    if scope is not GrantScope.SESSION:
        wanted = SCOPE_NAMES if scope is None else (scope,)
        revoked = [one for one in wanted if await asyncio.to_thread(grants.revoke, rule, one)]
        scopes += [SCOPE_NAMES[one] for one in revoked]
    if not scopes:
        raise _not_granted(context, rule)
    lines = [f"no longer allowed for {scope}: {terminal_line(rule)}" for scope in scopes]
    return Report(title=_TITLE, notices=tuple(lines))


def _not_granted(context: CommandContext, rule: str) -> Missing:
    """Return the error for a rule that is not granted in the scope.

    If the session or the settings grant the rule, the error explains that.
    """
    if context.session is None:
        return Missing(
            "this rule is not allowed here; run `steno permissions list` to list the rules",
            code="rule_not_granted",
            place="revoke",
        )
    state, found = context.session.state, read_rule(rule)
    code, hint = "rule_not_allowed", "/permissions lists the rules"
    if found in (session_rules := _session_rules(context.session)):
        number = session_rules.index(found) + 1
        code, hint = (
            "rule_in_session",
            f"it is allowed in this session: use /permissions revoke {number}",
        )
    elif found in state.environment.settings.allow:
        origins = ", ".join(state.config.loaded_settings.origins.get("allow", ()))
        code, hint = "rule_is_setting", f"it is a setting ({origins})"
    return Missing(f"no such rule in that scope; {hint}", code=code, place="revoke")


# -- rules of the open session ----------------------------------------------------------------


def _session_rules(session: app.AgentSession) -> tuple[PermissionRule, ...]:
    return session.state.environment.gate.session_rules(session.state.conversation)


def _find_rule(session: app.AgentSession, text: str) -> PermissionRule:
    """Return a rule by its text, or a rule of the session by its number.

    Raises InvalidValue if the text is not a valid rule, and Missing if no rule has the number.
    """
    if not text.isdecimal():
        return read_rule(text)
    session_rules, number = _session_rules(session), int(text)
    if not 1 <= number <= len(session_rules):
        count_text = format_count(len(session_rules), "rule is", "rules are")
        raise Missing(
            f"no rule has this number: {count_text} allowed in this session",
            code="no_such_number",
            place="revoke",
        )
    return session_rules[number - 1]


def _revoke_in_session(session: app.AgentSession, rule: PermissionRule) -> bool:
    """Revoke a rule of the session on all branches; return whether any branch had the rule."""
    state, was_allowed = session.state, rule in _session_rules(session)
    with state.explain_conflicts():
        recorded = state.environment.gate.revoke(rule, state.conversation, actor=state.actor)
    for entry in recorded:
        state.emit(EntryRecorded(entry))
    return was_allowed or bool(recorded)


async def _list_in_session(
    session: app.AgentSession, grants: GrantsFile, options: argparse.Namespace
) -> Report:
    """List the limits, and the rules of the settings, the session and the grants file."""
    state, defaults = session.state, Permissions()
    settings, mode = state.environment.settings, state.conversation.mode
    origins = {
        name: _separate(map(code, files))
        for name, files in state.config.loaded_settings.origins.items()
    }
    parts = [
        Paragraph("Rules can allow only what both the mode and the role permit:"),
        _limit_item("mode", mode, MODE_CAPABILITIES[mode]),
        _limit_item("role", settings.role, ROLE_CAPABILITIES[settings.role]),
        *_rule_section("Denied by settings", settings.deny, origins.get("deny", ())),
        *_rule_section("Allowed by settings", settings.allow, origins.get("allow", ())),
        *_rule_section(
            "Allowed in this session", _session_rules(session), _REVOKE_HINT, are_numbered=True
        ),
    ]
    try:
        listed = await asyncio.to_thread(_list_grants, grants, options)
        title = f"Allowed permanently, in {terminal_line(str(grants.file))}"
        tables = [table._replace(title=title) for table in listed.tables]
        notices: tuple[str, ...] = ()
    except StenoError as exc:
        tables, notices = [], (terminal_line(f"No rule is allowed permanently: {exc}"),)
    default_text = Paragraph(
        f"Allowed without a rule: {_capability_list(defaults.default_allow)}, ",
        *_separate([code(str(rule)) for rule in defaults.default_rules]),
        f"{_AUTO_RUN_TEXTS[settings.auto_run]}. All other calls need approval.",
    )
    return Report([*parts, *tables, default_text, _CHANGE_HINT], _TITLE, notices=notices)


def _limit_item(name: str, value: str, capabilities: frozenset[Capability]) -> Paragraph:
    return Paragraph(f"{name} ", code(value), f": {_capability_list(capabilities)}", marker="-")


def _rule_section(
    title: str, rules: Iterable[object], origin: Iterable[StyledText], *, are_numbered: bool = False
) -> list[Paragraph]:
    items = [
        Paragraph(code(str(rule)), marker=f"{number}." if are_numbered else "-")
        for number, rule in enumerate(rules, start=1)
    ]
    return [Paragraph(bold(title), ", ", *origin, ":"), *items] if items else []


def _separate(pieces: Iterable[StyledText]) -> list[StyledText]:
    """Return pieces with commas between them."""
    return [item for piece in pieces for item in (", ", piece)][1:]


def _capability_list(capabilities: frozenset[Capability]) -> str:
    return ", ".join([str(capability) for capability in Capability if capability in capabilities])
