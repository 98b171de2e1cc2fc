"""Deny rules cover more than the tool they name: related tools, found files, calls without subjects."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from steno.agent.permissions.rules import DecisionKind, Permissions
from steno.ports import Capability
from steno.records.entry import Mode
from tests.agent.permissions.stub_tools import BASH, READ, WRITE, Stub, about

EDIT = Stub("edit", Capability.WRITE, rule_aliases=("write",))
GREP = Stub("grep", Capability.READ, rule_aliases=("read",))


def kind(tool: Stub, *subjects: str, allow: Sequence[str] = (), deny: Sequence[str] = ()) -> str:
    permissions = Permissions.of(allow=allow, deny=deny)
    return permissions.decide(tool, about(*subjects), mode=Mode.ACT).kind


@pytest.mark.requirement("S4-14")
def test_a_deny_rule_of_a_tool_applies_to_tools_with_this_alias() -> None:
    assert kind(EDIT, "cart.py", allow=["edit"], deny=["write(cart.py)"]) == "deny"
    assert kind(EDIT, "cart.py", allow=["edit"], deny=["write"]) == "deny"
    assert kind(EDIT, "other.py", allow=["edit"], deny=["write(cart.py)"]) == "allow"
    assert kind(GREP, ".env", deny=["read(.env)"]) == "deny"
    assert kind(GREP, "../x", deny=["read(.env)"]) == "ask"  # it may turn out to be that


def test_it_is_not_the_other_way_round_and_not_so_for_what_is_allowed() -> None:
    assert kind(WRITE, "cart.py", allow=["write"], deny=["edit(cart.py)"]) == "allow"
    assert kind(READ, ".env", deny=["grep(.env)"]) == "allow"
    assert kind(EDIT, "cart.py", allow=["write"]) == "ask"


def test_files_that_a_tool_finds_are_checked_against_deny_rules() -> None:
    permissions = Permissions.of(allow=["read"], deny=["read(.env)", "grep(keys/**)"])
    denied = {
        (tool.definition.name, subject)
        for tool in (GREP, READ, WRITE)
        for subject in (".env", "keys/a", "src/.env")
        if permissions.denies(tool, subject)
    }
    assert denied == {("grep", ".env"), ("grep", "keys/a"), ("read", ".env")}


def test_a_deny_rule_with_a_pattern_asks_about_calls_without_subjects() -> None:
    assert kind(READ, deny=["read(.env)"]) == "ask"
    assert kind(BASH, allow=["bash"], deny=["bash(rm *)"]) == "ask"
    assert kind(READ, deny=["read"]) == "deny"
    assert kind(READ, deny=["write(.env)"]) == "allow"


def test_a_job_may_be_ended_unasked_where_things_may_be_run_at_all() -> None:
    kill = Stub("bash_kill", Capability.EXECUTE)
    decision = Permissions().decide(kill, about(), mode=Mode.ACT)
    assert (decision.kind, decision.rule) == (DecisionKind.ALLOW, "default bash_kill")
    assert Permissions().find_mode_denial(kill, Mode.PLAN) is not None
    assert kind(kill, deny=["bash_kill"]) == "deny"
    assert Permissions(default_rules=()).decide(kill, about(), mode=Mode.ACT).kind == "ask"
