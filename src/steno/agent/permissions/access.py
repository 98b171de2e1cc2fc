"""Describe access that a sandbox blocked as subjects and rules, and find the access that rules give.

Only network access has rules, such as `network(pypi.org)`: other access is approved for one call.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from msgspec.structs import replace

from steno.agent.permissions.patterns import escape_pattern, matches_path
from steno.agent.permissions.rules import (
    MODE_CAPABILITIES,
    PATH_TOOLS,
    ROLE_CAPABILITIES,
    PermissionRule,
    Permissions,
)
from steno.errors import InvalidValue
from steno.ports import AccessKind, Capability, SandboxAccess, Subject
from steno.records.entry import Mode

NETWORK_RULE_TOOL: Final = "network"
"""The name in rules for connections of commands, such as `network(pypi.org)`."""
ANY_DOMAIN: Final = "*"
_DENYING_TOOLS: Final[Mapping[AccessKind, tuple[str, ...]]] = {
    AccessKind.WRITE: ("write", "edit"),
    AccessKind.READ: ("read", "grep"),
    AccessKind.EVERYTHING: (*PATH_TOOLS, NETWORK_RULE_TOOL),
}
"""The tools whose deny rules also withhold access, by the kind of the access."""
_CAPABILITIES: Final = {
    AccessKind.NETWORK: Capability.NETWORK,
    AccessKind.WRITE: Capability.WRITE,
    AccessKind.READ: Capability.READ,
    AccessKind.EVERYTHING: Capability.EXECUTE,
}


def access_subject(access: SandboxAccess) -> Subject:
    """Return the subject of a request for access, as rules match it and approvers see it."""
    is_network = access.kind is AccessKind.NETWORK
    return Subject(
        text=access.target or str(access.kind),
        capability=_CAPABILITIES[access.kind],
        rule_tool=NETWORK_RULE_TOOL if is_network else "",
        is_protected=not is_network,
    )


def suggest_access_rule(blocked: Sequence[SandboxAccess]) -> str:
    """Return the rule that gives the access to later calls; empty if no rule does.

    Only connections to one domain have a rule. The network as a whole is approved for one call.
    """
    if len(blocked) != 1 or blocked[0].kind is not AccessKind.NETWORK:
        return ""
    target = blocked[0].target
    if ANY_DOMAIN in target:
        return ""
    try:
        return str(PermissionRule.parse(f"{NETWORK_RULE_TOOL}({target})"))
    except InvalidValue:  # no rule can contain this text
        return ""


def may_ask_for(
    access: SandboxAccess, permissions: Permissions, mode: Mode, *, folder: str | None = None
) -> bool:
    """Return whether an approver may give an access: neither mode, role nor a rule denies it.

    `folder` is the working directory of the tool, see `is_access_denied`.
    """
    capability = _CAPABILITIES[access.kind]
    allowed = MODE_CAPABILITIES[mode] & ROLE_CAPABILITIES[permissions.role]
    return capability in allowed and not is_access_denied(access, permissions.deny, folder=folder)


def is_access_denied(
    access: SandboxAccess, deny: Iterable[PermissionRule], *, folder: str | None = None
) -> bool:
    """Return whether a deny rule withholds an access.

    A domain is withheld with any port, and a folder also if a deny rule covers a path in it.
    Relative paths in rules are relative to `folder`; if it is None, they may be anywhere. All
    rights at once would bypass every deny rule for paths or domains.
    """
    if access.kind is AccessKind.NETWORK:
        return _is_domain_denied(access, deny)
    rules = [rule for rule in deny if any(map(rule.names_tool, _DENYING_TOOLS[access.kind]))]
    if access.kind is AccessKind.EVERYTHING:
        return bool(rules)
    return any(_concerns_path(rule.pattern, access.target, folder) for rule in rules)


def _concerns_path(pattern: str | None, path: str, folder: str | None) -> bool:
    """Return whether a pattern covers a real path, or may cover a path in this folder."""
    if pattern is None:
        return True
    if not pattern.startswith("/"):
        if folder is None:
            return True
        root = "" if folder == "/" else escape_pattern(folder)
        pattern = f"{root}/{pattern}"
    if matches_path(pattern, path):
        return True
    parts, names = pattern.strip("/").split("/"), [name for name in path.split("/") if name]
    for part, name in zip(parts, names, strict=False):
        if part == "**":
            return True
        if not matches_path(part, name):
            return False
    return len(parts) > len(names)


def _is_domain_denied(access: SandboxAccess, deny: Iterable[PermissionRule]) -> bool:
    target = access.target.lower().removesuffix(".")
    host, _, port = target.rpartition(":")
    targets = {target, host} if host and port.isdecimal() else {target}
    subjects = [
        access_subject(SandboxAccess(AccessKind.NETWORK, target)) for target in sorted(targets)
    ]
    return any(
        rule.tool == NETWORK_RULE_TOOL
        and _with_lower_case(rule).denies((NETWORK_RULE_TOOL,), subjects)
        for rule in deny
    )


def _with_lower_case(rule: PermissionRule) -> PermissionRule:
    """Return a rule for domains, which are the same in upper and lower case."""
    return rule if rule.pattern is None else replace(rule, pattern=rule.pattern.lower())


def find_network_access(
    rules: Iterable[PermissionRule], deny: Iterable[PermissionRule] = ()
) -> tuple[SandboxAccess, ...]:
    """Return the network access that rules give to commands; none if a rule denies all of it."""
    if any(rule.tool == NETWORK_RULE_TOOL and rule.covers_everything for rule in deny):
        return ()
    patterns = [rule.pattern or ANY_DOMAIN for rule in rules if rule.tool == NETWORK_RULE_TOOL]
    return tuple(
        [SandboxAccess(AccessKind.NETWORK, pattern) for pattern in dict.fromkeys(patterns)]
    )
