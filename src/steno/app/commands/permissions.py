"""`steno permissions` and `/permissions`: the rules that allow and deny calls.

`allow` adds a lasting rule, `revoke` removes one. In a terminal the rules of the session and those
of the settings are listed, too; there `revoke` also removes a rule of the session, on all of its
branches, and `revoke 2` the second one, as listed. It counts from the next decision on.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Awaitable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from steno.agent import EntryRecorded, Permissions
from steno.agent.permissions.rules import MODE_CAPABILITIES, ROLE_CAPABILITIES, PermissionRule
from steno.app.commands.arguments import OneOf, add_arguments, argument, flag
from steno.app.commands.context import CommandContext, CommandDefinition
from steno.app.commands.report import Report, Table
from steno.app.errors import UsageError
from steno.app.permissions import SCOPE_NAMES, GrantsFile, read_rule, revoke_rule
from steno.errors import InvalidValue, Missing, StenoError
from steno.ports import Capability, GrantScope
from steno.render.markdown_escape import inline_code
from steno.render.quantities import format_count
from steno.render.table_output import Column
from steno.render.terminal_text import terminal_line
from steno.values import replace_lone_surrogates

_TITLE: Final = "Permissions"
_GRANT_COLUMNS: Final = (Column("for", "cyan", may_shrink=True), Column("rule"))
_SCOPES_IN_TERMINAL: Final = {GrantScope.SESSION: "this session", **SCOPE_NAMES}
_DENY_HINT: Final = (
    'deny rules are settings, and count from the next start: write deny = ["RULE"] into'
)
_REVOKE_HINT: Final = "`/permissions revoke N` takes one back"
_CHANGE_HINT: Final = (
    "`/permissions allow RULE [project|user]` allows more, "
    "`/permissions revoke RULE` takes back what you have allowed."
)


def _add_actions(parser: argparse.ArgumentParser, in_terminal: bool) -> None:
    parser.set_defaults(action="list", all=False, json=False, folder=None)
    actions = parser.add_subparsers(title="commands", metavar="COMMAND")
    rule = argument("rule", metavar="RULE", help="a tool, or bash(git log *), write(src/**)")
    folder = argument("--folder", type=Path, help="the folder of the project; else this one")
    in_revoke = _SCOPES_IN_TERMINAL if in_terminal else SCOPE_NAMES
    listing = actions.add_parser(
        "list", help="list what is allowed", description="List what is allowed for good."
    )
    all_projects = flag("--all", help="that of other projects, too")
    add_arguments(
        listing, [all_projects, flag("--json", help="print it as one JSON object"), folder]
    )
    allow = actions.add_parser(
        "allow",
        help="allow what a rule covers",
        description="Allow what a rule covers from now on, without a question.",
        epilog="example: steno permissions allow 'bash(git log *)' --project",
    )
    add_arguments(allow, [rule, _scope_options(SCOPE_NAMES, is_required=not in_terminal), folder])
    allow.set_defaults(action="allow")
    revoke = actions.add_parser(
        "revoke",
        help="ask again about what a rule covers",
        description="Take back what was allowed, for this project and for you unless told which.",
    )
    add_arguments(revoke, [rule, _scope_options(in_revoke), folder])
    revoke.set_defaults(action="revoke")
    if in_terminal:
        deny = actions.add_parser("deny", add_help=False)
        deny.add_argument("rule", nargs="?")
        deny.set_defaults(action="deny")


def _scope_options(names: Mapping[GrantScope, str], *, is_required: bool = False) -> OneOf:
    options = [
        argument(
            f"--{scope}", dest="scope", action="store_const", const=scope, help=f"for {scope_name}"
        )
        for scope, scope_name in names.items()
    ]
    return OneOf(tuple(options), is_required)


def _split_typed(text: str) -> list[str]:
    """Turn `allow RULE [SCOPE]` into arguments; a rule may contain blanks and dashes."""
    action, _, rest = text.partition(" ")
    rest = rest.strip()
    if action not in ("allow", "revoke", "deny") or not rest:
        return text.split()
    rule, _, last = rest.rpartition(" ")
    scope = last.removeprefix("--")
    if rule and scope in tuple(_SCOPES_IN_TERMINAL):
        return [action, f"--{scope}", "--", rule.strip()]
    return [action, "--", rest]


def _run_permissions(
    context: CommandContext, options: argparse.Namespace
) -> Report | Awaitable[Report]:
    grants = GrantsFile(context.folder if options.folder is None else options.folder)
    match options.action:
        case "allow":
            return _allow_rule(grants, options)
        case "revoke" if context.session is not None:
            return _revoke_in_session(context, grants, options)
        case "revoke":
            return _revoke_grant(grants, options)
        case "deny":
            raise InvalidValue(
                f"{_DENY_HINT} {_settings_file(context)}",
                code="deny_is_setting",
                place="permissions",
            )
        case _ if context.session is not None and not options.json:
            return _list_in_session(context, grants, options)
        case _:
            return _list_grants(grants, options)


COMMAND: CommandDefinition = CommandDefinition(
    _run_permissions,
    (),
    _split_typed,
    help="show and change what is allowed for good",
    description="Show and change what the agent may do without asking, for the project in this "
    "folder and for you in all of them. It is kept in your own folder, not in the project.",
    epilog="'steno permissions COMMAND --help' tells more about a command; without one it lists.",
    add_actions=_add_actions,
)


# -- lasting rules ----------------------------------------------------------------------------


def _list_grants(grants: GrantsFile, options: argparse.Namespace) -> Report:
    stored = grants.read()
    project_rules = stored.rules_for(grants.folder)
    others = stored.with_rules(grants.folder, ()).projects if options.all else {}
    rows = [("project", rule) for rule in project_rules] + [("user", rule) for rule in stored.user]
    rows += [(terminal_line(folder), rule) for folder, rules in others.items() for rule in rules]
    members = {
        "file": str(grants.file),
        "folder": replace_lone_surrogates(grants.folder),
        "project": project_rules,
        "user": stored.user,
        "other_projects": others,
    }
    return Report(
        title=_TITLE,
        tables=(Table(_GRANT_COLUMNS, rows),) if rows else (),
        when_empty="nothing is allowed for good",
        data=[members],
    )


def _allow_rule(grants: GrantsFile, options: argparse.Namespace) -> Report:
    if not Path(grants.folder).is_dir():
        raise UsageError(
            f"there is no folder {terminal_line(str(options.folder))}",
            code="folder_missing",
            place="--folder",
        )
    try:
        rule = read_rule(options.rule)
    except InvalidValue as exc:
        raise UsageError(exc.message, code=exc.code, place=exc.place) from None
    scope = options.scope or GrantScope.PROJECT
    grants.add(str(rule), scope)
    return Report(
        title=_TITLE,
        notices=(f"allowed for {SCOPE_NAMES[scope]}: {terminal_line(options.rule)}",),
    )


def _revoke_grant(grants: GrantsFile, options: argparse.Namespace) -> Report:
    revoked = revoke_rule(grants, options.rule, options.scope)
    if not revoked:
        raise Missing(
            "this rule is not allowed here; `steno permissions list` shows which",
            code="rule_not_granted",
            place="revoke",
        )
    return _revoked_report(options.rule, [SCOPE_NAMES[scope] for scope in revoked])


def _revoked_report(rule: str, scopes: Iterable[str]) -> Report:
    shown = terminal_line(rule)
    return Report(
        title=_TITLE,
        notices=tuple([f"no longer allowed for {scope}: {shown}" for scope in scopes]),
    )


# -- rules of the open session ----------------------------------------------------------------


async def _revoke_in_session(
    context: CommandContext, grants: GrantsFile, options: argparse.Namespace
) -> Report:
    """Revoke a rule: by number from the session alone, else from every scope that allows it."""
    assert context.session is not None
    state, scope, scopes = context.session.state, options.scope, list[str]()
    session_rules = _session_rules(context)
    if options.rule.isdecimal():
        rule, scope = _rule_by_number(options.rule, session_rules), GrantScope.SESSION
    else:
        rule = read_rule(options.rule)
    if scope in (None, GrantScope.SESSION):
        with context.session.explain_conflicts():
            recorded = state.environment.gate.revoke(rule, state.conversation, actor=state.actor)
        for entry in recorded:
            state.emit(EntryRecorded(entry))
        if recorded or rule in session_rules:
            scopes.append(_SCOPES_IN_TERMINAL[GrantScope.SESSION])
    if scope is not GrantScope.SESSION:
        revoked = await asyncio.to_thread(revoke_rule, grants, str(rule), scope)
        scopes += [SCOPE_NAMES[scope] for scope in revoked]
    if not scopes:
        code, hint = _rule_location(context, rule)
        raise Missing(f"this rule is not allowed there; {hint}", code=code, place="revoke")
    return _revoked_report(str(rule), scopes)


def _rule_by_number(text: str, session_rules: Sequence[PermissionRule]) -> PermissionRule:
    """Return the rule of the session with a number of the list. Raises Missing."""
    number = int(text)
    if not 1 <= number <= len(session_rules):
        count_text = format_count(len(session_rules), "rule is", "rules are")
        raise Missing(
            f"{count_text} allowed in this session; /permissions lists them",
            code="no_such_number",
            place="revoke",
        )
    return session_rules[number - 1]


def _rule_location(context: CommandContext, rule: PermissionRule) -> tuple[str, str]:
    """Return a code and a hint: where a rule is allowed that is not allowed in the wanted scope."""
    assert context.session is not None
    state = context.session.state
    if rule in (session_rules := _session_rules(context)):
        number = session_rules.index(rule) + 1
        return "rule_in_session", f"it is in this session: /permissions revoke {number}"
    if rule in state.environment.settings.allow:
        origins = ", ".join(state.config.loaded_settings.origins.get("allow", ()))
        return "rule_is_setting", f"it is a setting ({origins})"
    return "rule_not_allowed", "/permissions shows which are"


def _settings_file(context: CommandContext) -> str:
    """Return where rules can be written down: for all projects, or for this one."""
    assert context.session is not None
    loaded = context.session.state.config.loaded_settings
    return terminal_line(str(loaded.user_file or loaded.project_file))


def _session_rules(context: CommandContext) -> tuple[PermissionRule, ...]:
    assert context.session is not None
    state = context.session.state
    return state.environment.gate.session_rules(state.conversation)


def _list_in_session(
    context: CommandContext, grants: GrantsFile, options: argparse.Namespace
) -> Report:
    """List everything that decides about calls: limits, settings, the session, lasting rules."""
    assert context.session is not None
    state = context.session.state
    settings, mode = state.environment.settings, state.conversation.mode
    origins = {
        name: ", ".join(map(inline_code, files))
        for name, files in state.config.loaded_settings.origins.items()
    }
    limits = (
        "No rule allows more than both of these do:\n\n"
        f"- mode {inline_code(mode)}: {_capability_list(MODE_CAPABILITIES[mode])}\n"
        f"- role {inline_code(settings.role)}: {_capability_list(ROLE_CAPABILITIES[settings.role])}"
    )
    defaults = Permissions()
    rules = ", ".join([inline_code(str(rule)) for rule in defaults.default_rules])
    parts = [
        limits,
        _rule_section("Denied by settings", settings.deny, origins.get("deny", "")),
        _rule_section("Allowed by settings", settings.allow, origins.get("allow", "")),
        _rule_section(
            "Allowed in this session", _session_rules(context), _REVOKE_HINT, are_numbered=True
        ),
    ]
    footer = (
        f"Without any rule: {_capability_list(defaults.default_allow)}, {rules}; "
        f"the rest is asked about.\n\n{_CHANGE_HINT}"
    )
    report = Report("\n\n".join(filter(None, parts)), _TITLE, footer=footer)
    try:
        tables = _list_grants(grants, options).tables
    except StenoError as exc:
        return report._replace(notices=(terminal_line(f"Nothing is allowed for good: {exc}"),))
    title = f"Allowed for good, in {terminal_line(str(grants.file))}"
    return report._replace(tables=tuple([table._replace(title=title) for table in tables]))


def _rule_section(
    title: str, rules: Iterable[object], origin: str, *, are_numbered: bool = False
) -> str:
    items = [
        f"{f'{number}.' if are_numbered else '-'} {inline_code(str(rule))}"
        for number, rule in enumerate(rules, start=1)
    ]
    return "\n".join([f"**{title}**, {origin}:", "", *items]) if items else ""


def _capability_list(capabilities: frozenset[Capability]) -> str:
    return ", ".join([str(capability) for capability in Capability if capability in capabilities])
