"""`/permissions`: what is allowed and denied here, by which rule, and who said so.

`/permissions allow RULE [project|user]` and `/permissions revoke RULE [project|user]` change what
is allowed for good; it counts from the next decision on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Final, NamedTuple

from steno.agent import Permissions
from steno.agent.permission import MODES, ROLES, SessionGrants, Signet
from steno.cli.desk.markdown_words import code, escaped
from steno.cli.desk.scene import Scene
from steno.cli.grants import SCOPES, GrantsFile, Kept, read_rule, revoke_rule
from steno.cli.seal import OwnSeal
from steno.errors import InvalidValue, Missing, StenoError
from steno.ports import Capability, Scope
from steno.printable import on_one_line
from steno.tui.desk import Reply

_TITLE: Final = "Permissions"
_HOW: Final = "permissions: write allow RULE [project|user], or revoke RULE [project|user]"
_HOW_TO_DENY: Final = (
    'deny rules are settings, and count from the next start: write deny = ["RULE"] into'
)
_WORDS: Final = {str(scope): scope for scope in SCOPES}
_CHANGE: Final = (
    "`/permissions allow RULE [project|user]` allows more, "
    "`/permissions revoke RULE` takes back what is allowed for good."
)


async def permissions(scene: Scene, argument: str) -> Reply:
    """Tell what is allowed and denied, or change it. Raises StenoError."""
    verb, _, rest = argument.strip().partition(" ")
    # Files are read, and locked against other processes.
    if not verb:
        return Reply(await asyncio.to_thread(_told, scene), _TITLE)
    if verb == "deny":
        raise InvalidValue(f"permissions: {_HOW_TO_DENY} {_settings_file(scene)}")
    change = {"allow": _allow, "revoke": _revoke}.get(verb)
    if change is None or not rest.strip():
        raise InvalidValue(_HOW)
    return Reply(await asyncio.to_thread(change, scene, rest.strip()), _TITLE)


# -- changing --------------------------------------------------------------------------------


class _Wanted(NamedTuple):
    rule: str
    scope: Scope | None


def _wanted(text: str) -> _Wanted:
    """Take a rule and for whom it is apart; a rule may hold blanks itself."""
    rule, _, last = text.rpartition(" ")
    if rule and last in _WORDS:
        return _Wanted(rule.strip(), _WORDS[last])
    return _Wanted(text, None)


def _allow(scene: Scene, text: str) -> str:
    wanted = _wanted(text)
    rule, scope = read_rule(wanted.rule), wanted.scope or Scope.PROJECT
    GrantsFile(scene.folder).add(str(rule), scope)
    return f"Allowed for {SCOPES[scope]}: {code(str(rule))}"


def _revoke(scene: Scene, text: str) -> str:
    wanted = _wanted(text)
    rule = str(read_rule(wanted.rule))
    revoked = revoke_rule(GrantsFile(scene.folder), rule, wanted.scope)
    if not revoked:
        raise Missing(f"revoke: this rule is not allowed for good; {_elsewhere(scene, rule)}")
    whom = " and ".join([SCOPES[scope] for scope in revoked])
    return f"No longer allowed for {whom}: {code(rule)}"


def _elsewhere(scene: Scene, rule: str) -> str:
    """Say where a rule stands that is not among those that can be taken back here."""
    if rule in map(str, _of_session(scene)):
        return (
            "it was allowed for this session, and is on record. It does not hold in a branch from "
            "before it (/tree), nor in another session (/new), nor against a deny rule in "
            f"{_settings_file(scene)}"
        )
    if rule in map(str, scene.equipment.settings.allow):
        return f"it is a setting ({', '.join(scene.loaded.origins.get('allow', ()))})"
    return "/permissions shows which are"


def _settings_file(scene: Scene) -> str:
    """Return where rules can be written down: for all projects, or for this one."""
    return on_one_line(str(scene.loaded.user_file or scene.loaded.project_file))


# -- telling ---------------------------------------------------------------------------------


def _told(scene: Scene) -> str:
    settings, mode = scene.equipment.settings, scene.conversation.mode
    limits = (
        f"Mode {code(mode)} leaves {_listed(MODES[mode])}, "
        f"role {code(settings.role)} leaves {_listed(ROLES[settings.role])}; "
        "no rule reaches beyond that."
    )
    parts = [
        limits,
        _section("Denied by settings", settings.deny, _origins(scene, "deny")),
        _section("Allowed by settings", settings.allow, _origins(scene, "allow")),
        _section("Allowed in this session", _of_session(scene), "by what is on record"),
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
        _section(f"Allowed for {SCOPES[Scope.PROJECT]}", kept.of(grants.folder), origin),
        _section(f"Allowed for {SCOPES[Scope.USER]}", kept.user, origin),
    ]


def _of_session(scene: Scene) -> Iterable[object]:
    conversation = scene.conversation
    signet = Signet(conversation.id, OwnSeal())
    return SessionGrants(conversation.entries(), signet=signet).rules


def _origins(scene: Scene, setting: str) -> str:
    return ", ".join(map(code, scene.loaded.origins.get(setting, ())))


def _section(title: str, rules: Iterable[object], origin: str) -> str:
    items = [f"- {code(str(rule))}" for rule in rules]
    return "\n".join([f"**{title}**, {origin}:", "", *items]) if items else ""


def _defaults() -> str:
    usual = Permissions()
    rules = ", ".join([code(str(rule)) for rule in usual.default_rules])
    return f"Without any rule: {_listed(usual.default_allow)}, {rules}; the rest is asked about."


def _listed(capabilities: frozenset[Capability]) -> str:
    return ", ".join([str(one) for one in Capability if one in capabilities])
