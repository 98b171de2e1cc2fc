"""Protected files decide what later runs do: only an approval of the call allows a change."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from steno.agent.permissions.rules import (
    DecisionKind,
    PermissionRule,
    Permissions,
    suggest_rule,
)
from steno.ports import Capability, Subject
from steno.records.entry import Mode
from tests.agent.permissions.stub_tools import SubjectStub, about

HOOK = Subject(text=".git/hooks/pre-commit", capability=Capability.WRITE, is_protected=True)
RULES = [
    *("write", "write(*)", "write(**)", "*", "write(.git/hooks/pre-commit)", "write(.git/**)"),
]


def decided(
    allow: Sequence[str] = (), granted: Sequence[str] = (), deny: Sequence[str] = ()
) -> DecisionKind:
    permissions = Permissions.of(allow=allow, deny=deny)
    tool = SubjectStub("write", Capability.WRITE, (HOOK,), has_reading_calls=False)
    rules = [PermissionRule.parse(text) for text in granted]
    return permissions.decide(
        tool, about(), mode=Mode.ACT, session_rules=rules, lasting_rules=rules
    ).kind


@pytest.mark.parametrize("rule", RULES)
def test_no_rule_and_no_grant_allows_writing_a_protected_file(rule: str) -> None:
    assert decided(allow=[rule]) is DecisionKind.ASK
    assert decided(granted=[rule]) is DecisionKind.ASK


@pytest.mark.parametrize("rule", RULES)
def test_rules_deny_as_they_always_did(rule: str) -> None:
    assert decided(deny=[rule]) is DecisionKind.DENY


def test_no_rule_is_suggested_for_a_protected_file() -> None:
    assert suggest_rule("write", [HOOK]) == ""
