"""`/permissions`: what is allowed and denied here, by which rule, and who said so.

`/permissions allow RULE [project|user]` allows something for good. `/permissions revoke RULE` takes
back what is allowed for good or for the session, on all of its branches, and `/permissions revoke 2`
the second of the session's, as they are listed. It counts from the next decision on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple

from steno.agent import Permissions
from steno.agent.permission import MODES, ROLES
from steno.agent.rules import Rule
from steno.cli.desk.markdown_words import code, escaped
from steno.cli.desk.scene import Scene
from steno.cli.grants import SCOPES, GrantsFile, Kept, read_rule, revoke_rule
from steno.entry import Entry
from steno.errors import InvalidValue, Missing, StenoError
from steno.ports import Capability, Scope
from steno.printable import counted, on_one_line
from steno.tui.desk import Reply

_TITLE: Final = "Permissions"
_HOW: Final = (
    "permissions: write allow RULE [project|user], or revoke RULE [session|project|user], "
    "or revoke N for one of this session's"
)
_HOW_TO_DENY: Final = (
    'deny rules are settings, and count from the next start: write deny = ["RULE"] into'
)
_WORDS: Final = {str(scope): scope for scope in (Scope.SESSION, *SCOPES)}
_THIS_SESSION: Final = "this session"
_TAKES_ONE_BACK: Final = "`/permissions revoke N` takes one back"
_CHANGE: Final = (
    "`/permissions allow RULE [project|user]` allows more, "
    "`/permissions revoke RULE` takes back what you have allowed."
)


async def permissions(
    scene: Scene, argument: str, tell: Callable[[Entry], object] = lambda _: None
) -> Reply:
    """Tell what is allowed and denied, or change it; who is told gets what is on record of that.

    Raises StenoError.
    """
    verb, _, rest = argument.strip().partition(" ")
    rest = rest.strip()
    if verb == "deny":
        raise InvalidValue(f"permissions: {_HOW_TO_DENY} {_settings_file(scene)}")
    # Where files are read, and locked against other processes, it is done in a thread.
    match verb:
        case "":
            text = await asyncio.to_thread(_told, scene, _of_session(scene))
        case "allow" if rest:
            text = await asyncio.to_thread(_allow, scene, rest)
        case "revoke" if rest:
            text = await _revoke(scene, rest, tell)
        case _:
            raise InvalidValue(_HOW)
    return Reply(text, _TITLE)


# -- changing --------------------------------------------------------------------------------


class _Wanted(NamedTuple):
    rule: Rule
    scope: Scope | None


def _wanted(text: str) -> _Wanted:
    """Take a rule and for whom it is apart; a rule may hold blanks itself. Raises InvalidValue."""
    rule, _, last = text.rpartition(" ")
    if rule and last in _WORDS:
        return _Wanted(read_rule(rule.strip()), _WORDS[last])
    return _Wanted(read_rule(text), None)


def _allow(scene: Scene, text: str) -> str:
    wanted = _wanted(text)
    rule, scope = str(wanted.rule), wanted.scope or Scope.PROJECT
    GrantsFile(scene.folder).add(rule, scope)
    return f"Allowed for {SCOPES[scope]}: {code(rule)}"


async def _revoke(scene: Scene, text: str, tell: Callable[[Entry], object]) -> str:
    """Take a rule back: by its number from the session alone, else from wherever it is allowed."""
    of_session = _of_session(scene)
    wanted = _numbered(text, of_session) if text.isdecimal() else _wanted(text)
    rule, scope = wanted
    whom: list[str] = []
    if scope in (None, Scope.SESSION):
        recorded = scene.environment.gate.revoke(rule, scene.conversation, actor=scene.actor)
        for entry in recorded:
            tell(entry)
        if recorded or rule in of_session:
            whom.append(_THIS_SESSION)
    if scope is not Scope.SESSION:
        revoke = asyncio.to_thread(revoke_rule, GrantsFile(scene.folder), str(rule), scope)
        whom += [SCOPES[one] for one in await revoke]
    if not whom:
        raise Missing(f"revoke: this rule is not allowed there; {_elsewhere(scene, rule)}")
    return f"No longer allowed for {' and '.join(whom)}: {code(str(rule))}"


def _numbered(text: str, of_session: Sequence[Rule]) -> _Wanted:
    """Return the grant of the session that a number of the list means. Raises Missing."""
    number = int(text)
    if not 1 <= number <= len(of_session):
        there_are = counted(len(of_session), "rule is", "rules are")
        raise Missing(f"revoke: {there_are} allowed in this session; /permissions lists them")
    return _Wanted(of_session[number - 1], Scope.SESSION)


def _elsewhere(scene: Scene, rule: Rule) -> str:
    """Say where a rule stands that is not allowed where somebody wants to take it back."""
    if rule in (of_session := _of_session(scene)):
        return f"it is in this session: /permissions revoke {of_session.index(rule) + 1}"
    if rule in scene.environment.settings.allow:
        return f"it is a setting ({', '.join(scene.loaded_settings.origins.get('allow', ()))})"
    return "/permissions shows which are"


def _settings_file(scene: Scene) -> str:
    """Return where rules can be written down: for all projects, or for this one."""
    return on_one_line(str(scene.loaded_settings.user_file or scene.loaded_settings.project_file))


# -- telling ---------------------------------------------------------------------------------


def _told(scene: Scene, of_session: Sequence[Rule]) -> str:
    settings, mode = scene.environment.settings, scene.conversation.mode
    limits = (
        "No rule allows more than both of these do:\n\n"
        f"- mode {code(mode)}: {_listed(MODES[mode])}\n"
        f"- role {code(settings.role)}: {_listed(ROLES[settings.role])}"
    )
    parts = [
        limits,
        _section("Denied by settings", settings.deny, _origins(scene, "deny")),
        _section("Allowed by settings", settings.allow, _origins(scene, "allow")),
        _section("Allowed in this session", of_session, _TAKES_ONE_BACK, are_numbered=True),
        *_for_good(scene),
        _defaults(),
        _CHANGE,
    ]
    return "\n\n".join(filter(None, parts))


def _for_good(scene: Scene) -> list[str]:
    """Return what a person has allowed beyond a session, or why nobody knows."""
    try:
        grants = GrantsFile(scene.folder)
        kept: Kept = grants.read()
    except StenoError as exc:
        return [f"Nothing is allowed for good: {escaped(str(exc))}"]
    origin = f"in {code(str(grants.file))}"
    return [
        _section(f"Allowed for {SCOPES[Scope.PROJECT]}", kept.rules_for(grants.folder), origin),
        _section(f"Allowed for {SCOPES[Scope.USER]}", kept.user, origin),
    ]


def _of_session(scene: Scene) -> tuple[Rule, ...]:
    return scene.environment.gate.session_rules(scene.conversation)


def _origins(scene: Scene, setting: str) -> str:
    return ", ".join(map(code, scene.loaded_settings.origins.get(setting, ())))


def _section(
    title: str, rules: Iterable[object], origin: str, *, are_numbered: bool = False
) -> str:
    items = [
        f"{f'{number}.' if are_numbered else '-'} {code(str(rule))}"
        for number, rule in enumerate(rules, start=1)
    ]
    return "\n".join([f"**{title}**, {origin}:", "", *items]) if items else ""


def _defaults() -> str:
    usual = Permissions()
    rules = ", ".join([code(str(rule)) for rule in usual.default_rules])
    return f"Without any rule: {_listed(usual.default_allow)}, {rules}; the rest is asked about."


def _listed(capabilities: frozenset[Capability]) -> str:
    return ", ".join([str(one) for one in Capability if one in capabilities])
