"""`/permissions`: the rules that allow and deny calls, and where they come from.

`/permissions allow RULE [project|user]` adds a lasting rule. `/permissions revoke RULE` removes a
lasting rule or one of the session, on all of its branches, and `/permissions revoke 2` the second
rule of the session, as listed. It counts from the next decision on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple

from steno.agent import Permissions
from steno.agent.permissions.rules import MODE_CAPABILITIES, ROLE_CAPABILITIES, PermissionRule
from steno.app.permissions import SCOPE_NAMES, GrantsFile, StoredGrants, read_rule, revoke_rule
from steno.app.session_state import CommandContext
from steno.errors import InvalidValue, Missing, StenoError
from steno.ports import Capability, GrantScope
from steno.records.entry import Entry
from steno.render.markdown_escape import escape_markdown, inline_code
from steno.render.quantities import format_count
from steno.render.session_events import CommandReply
from steno.render.terminal_text import terminal_line

_PERMISSIONS_TITLE: Final = "Permissions"
_USAGE_HINT: Final = (
    "write allow RULE [project|user], or revoke RULE [session|project|user], "
    "or revoke N for one of this session's"
)
_DENY_HINT: Final = (
    'deny rules are settings, and count from the next start: write deny = ["RULE"] into'
)
_SCOPE_BY_NAME: Final = {str(scope): scope for scope in (GrantScope.SESSION, *SCOPE_NAMES)}
_THIS_SESSION: Final = "this session"
_REVOKE_HINT: Final = "`/permissions revoke N` takes one back"
_CHANGE_HINT: Final = (
    "`/permissions allow RULE [project|user]` allows more, "
    "`/permissions revoke RULE` takes back what you have allowed."
)


async def run_permissions(
    context: CommandContext, argument: str, on_entry: Callable[[Entry], object] = lambda _: None
) -> CommandReply:
    """List the rules, or change them; `on_entry` receives each recorded entry.

    Raises StenoError.
    """
    verb, _, rest = argument.strip().partition(" ")
    rest = rest.strip()
    if verb == "deny":
        raise InvalidValue(
            f"{_DENY_HINT} {_settings_file(context)}", code="deny_is_setting", place="permissions"
        )
    # Files are read, and locked against other processes, in a thread.
    match verb:
        case "":
            text = await asyncio.to_thread(_permissions_text, context, _session_rules(context))
        case "allow" if rest:
            text = await asyncio.to_thread(_allow_rule, context, rest)
        case "revoke" if rest:
            text = await _revoke_rule(context, rest, on_entry)
        case _:
            raise InvalidValue(_USAGE_HINT, code="invalid_usage", place="permissions")
    return CommandReply(text, _PERMISSIONS_TITLE)


# -- changing --------------------------------------------------------------------------------


class _RuleRequest(NamedTuple):
    rule: PermissionRule
    scope: GrantScope | None


def _parse_rule_request(text: str) -> _RuleRequest:
    """Split a rule and its scope; a rule may contain blanks. Raises InvalidValue."""
    rule, _, last = text.rpartition(" ")
    if rule and last in _SCOPE_BY_NAME:
        return _RuleRequest(read_rule(rule.strip()), _SCOPE_BY_NAME[last])
    return _RuleRequest(read_rule(text), None)


def _allow_rule(context: CommandContext, text: str) -> str:
    wanted = _parse_rule_request(text)
    rule, scope = str(wanted.rule), wanted.scope or GrantScope.PROJECT
    GrantsFile(context.folder).add(rule, scope)
    return f"Allowed for {SCOPE_NAMES[scope]}: {inline_code(rule)}"


async def _revoke_rule(
    context: CommandContext, text: str, on_entry: Callable[[Entry], object]
) -> str:
    """Revoke a rule: by number from the session alone, else from every scope that allows it."""
    session_rules = _session_rules(context)
    wanted = _rule_by_number(text, session_rules) if text.isdecimal() else _parse_rule_request(text)
    rule, scope = wanted
    revoked_scopes: list[str] = []
    if scope in (None, GrantScope.SESSION):
        recorded = context.environment.gate.revoke(rule, context.conversation, actor=context.actor)
        for entry in recorded:
            on_entry(entry)
        if recorded or rule in session_rules:
            revoked_scopes.append(_THIS_SESSION)
    if scope is not GrantScope.SESSION:
        revoke = asyncio.to_thread(revoke_rule, GrantsFile(context.folder), str(rule), scope)
        revoked_scopes += [SCOPE_NAMES[scope] for scope in await revoke]
    if not revoked_scopes:
        code, hint = _rule_location(context, rule)
        raise Missing(f"this rule is not allowed there; {hint}", code=code, place="revoke")
    return f"No longer allowed for {' and '.join(revoked_scopes)}: {inline_code(str(rule))}"


def _rule_by_number(text: str, session_rules: Sequence[PermissionRule]) -> _RuleRequest:
    """Return the rule of the session with a number of the list. Raises Missing."""
    number = int(text)
    if not 1 <= number <= len(session_rules):
        count_text = format_count(len(session_rules), "rule is", "rules are")
        raise Missing(
            f"{count_text} allowed in this session; /permissions lists them",
            code="no_such_number",
            place="revoke",
        )
    return _RuleRequest(session_rules[number - 1], GrantScope.SESSION)


def _rule_location(context: CommandContext, rule: PermissionRule) -> tuple[str, str]:
    """Return a code and a hint: where a rule is allowed that is not allowed in the wanted scope."""
    if rule in (session_rules := _session_rules(context)):
        number = session_rules.index(rule) + 1
        return "rule_in_session", f"it is in this session: /permissions revoke {number}"
    if rule in context.environment.settings.allow:
        origins = ", ".join(context.loaded_settings.origins.get("allow", ()))
        return "rule_is_setting", f"it is a setting ({origins})"
    return "rule_not_allowed", "/permissions shows which are"


def _settings_file(context: CommandContext) -> str:
    """Return where rules can be written down: for all projects, or for this one."""
    return terminal_line(
        str(context.loaded_settings.user_file or context.loaded_settings.project_file)
    )


# -- listing ----------------------------------------------------------------------------------


def _permissions_text(context: CommandContext, of_session: Sequence[PermissionRule]) -> str:
    settings, mode = context.environment.settings, context.conversation.mode
    limits = (
        "No rule allows more than both of these do:\n\n"
        f"- mode {inline_code(mode)}: {_capability_list(MODE_CAPABILITIES[mode])}\n"
        f"- role {inline_code(settings.role)}: {_capability_list(ROLE_CAPABILITIES[settings.role])}"
    )
    parts = [
        limits,
        _rule_section("Denied by settings", settings.deny, _setting_origins(context, "deny")),
        _rule_section("Allowed by settings", settings.allow, _setting_origins(context, "allow")),
        _rule_section("Allowed in this session", of_session, _REVOKE_HINT, are_numbered=True),
        *_grant_sections(context),
        _defaults_text(),
        _CHANGE_HINT,
    ]
    return "\n\n".join(filter(None, parts))


def _grant_sections(context: CommandContext) -> list[str]:
    """Return the rules that outlast the session, or why they cannot be read."""
    try:
        grants = GrantsFile(context.folder)
        stored: StoredGrants = grants.read()
    except StenoError as exc:
        return [f"Nothing is allowed for good: {escape_markdown(str(exc))}"]
    origin = f"in {inline_code(str(grants.file))}"
    return [
        _rule_section(
            f"Allowed for {SCOPE_NAMES[GrantScope.PROJECT]}",
            stored.rules_for(grants.folder),
            origin,
        ),
        _rule_section(f"Allowed for {SCOPE_NAMES[GrantScope.USER]}", stored.user, origin),
    ]


def _session_rules(context: CommandContext) -> tuple[PermissionRule, ...]:
    return context.environment.gate.session_rules(context.conversation)


def _setting_origins(context: CommandContext, setting: str) -> str:
    return ", ".join(map(inline_code, context.loaded_settings.origins.get(setting, ())))


def _rule_section(
    title: str, rules: Iterable[object], origin: str, *, are_numbered: bool = False
) -> str:
    items = [
        f"{f'{number}.' if are_numbered else '-'} {inline_code(str(rule))}"
        for number, rule in enumerate(rules, start=1)
    ]
    return "\n".join([f"**{title}**, {origin}:", "", *items]) if items else ""


def _defaults_text() -> str:
    defaults = Permissions()
    rules = ", ".join([inline_code(str(rule)) for rule in defaults.default_rules])
    return f"Without any rule: {_capability_list(defaults.default_allow)}, {rules}; the rest is asked about."


def _capability_list(capabilities: frozenset[Capability]) -> str:
    return ", ".join([str(capability) for capability in Capability if capability in capabilities])
