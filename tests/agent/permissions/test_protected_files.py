"""Settings, hooks and instructions: who may write them decides what happens later."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from steno.agent.permissions.rules import (
    DecisionKind,
    PermissionRule,
    Permissions,
    find_covering_rules,
    suggest_rule,
)
from steno.ports import Capability
from steno.records.entry import Mode
from tests.agent.agent_setup import call, read_tool, write_tool

ACTED_UPON = [
    ".steno",
    ".steno/config.toml",
    ".git",
    ".git/hooks/pre-commit",
    ".git/config",
    "vendor/lib/.git/config",
    ".GIT/config",
    ".config/steno/grants.toml",
    "/other/.config/steno/config.toml",
    "AGENTS.md",
    "docs/AGENTS.md",
    "docs/agents.MD",
    "CLAUDE.md",
    ".venv/bin/activate",
    "env/lib/python3/site-packages/steno/__init__.py",
]
WIDE = ["write", "write(*)", "write(**)", "*", "write(**/*)", "write(.*/**)", "write(docs/**)"]


def decided(allow: Sequence[str], path: str, deny: Sequence[str] = ()) -> DecisionKind:
    permissions = Permissions.of(allow=allow, deny=deny)
    tool = write_tool("write", subjects=lambda _: (path,))
    return permissions.decide(tool, call("c1", "write"), mode=Mode.ACT).kind


@pytest.mark.parametrize("path", ACTED_UPON)
def test_no_wide_rule_allows_writing_what_later_runs_act_upon(path: str) -> None:
    assert decided(WIDE, path) is DecisionKind.ASK


@pytest.mark.parametrize(
    "path", [".gitignore", ".github/x.yml", "git/x", "steno/x", "config/steno", "my-AGENTS.md", "x"]
)
def test_a_path_that_resembles_a_protected_one_is_an_ordinary_file(path: str) -> None:
    assert decided(["write(**)"], path) is DecisionKind.ALLOW


@pytest.mark.parametrize(
    ("rule", "path"),
    [
        ("write(.steno/**)", ".steno/config.toml"),
        ("write(**/.git/hooks/*)", "vendor/.git/hooks/pre-commit"),
        ("write(AGENTS.md)", "AGENTS.md"),
        ("write(**/AGENTS.md)", "docs/AGENTS.md"),
        ("write(/home/eva/.config/steno/**)", "/home/eva/.config/steno/config.toml"),
    ],
)
def test_a_rule_that_spells_it_out_allows_it(rule: str, path: str) -> None:
    assert decided([rule], path) is DecisionKind.ALLOW


def test_a_rule_has_to_spell_out_all_of_it() -> None:
    path = ".git/modules/lib/AGENTS.md"
    assert decided(["write(.git/**)", "write(**/AGENTS.md)"], path) is DecisionKind.ASK
    assert decided(["write(.git/**/AGENTS.md)"], path) is DecisionKind.ALLOW


@pytest.mark.parametrize("path", ACTED_UPON)
def test_wide_rules_deny_as_they_always_did(path: str) -> None:
    assert decided([], path, deny=["write(**)"]) is DecisionKind.DENY


def test_grants_reach_no_further_than_rules() -> None:
    tool = write_tool("write", subjects=lambda _: (".steno/config.toml",))
    wide = (PermissionRule.parse("write(**)"),)
    decision = Permissions().decide(
        tool, call("c1", "write"), mode=Mode.ACT, session_rules=wide, lasting_rules=wide
    )
    assert decision.kind is DecisionKind.ASK


def test_reading_it_is_reading() -> None:
    tool = read_tool("read", subjects=lambda _: ("AGENTS.md",))
    decision = Permissions().decide(tool, call("c1", "read"), mode=Mode.ACT)
    assert decision.kind is DecisionKind.ALLOW


@pytest.mark.parametrize("path", [".git/config", "AGENTS.md", "docs/AGENTS.md"])
def test_the_suggested_rule_covers_only_this_file(path: str) -> None:
    text = suggest_rule("write", Capability.WRITE, (path,))
    assert text == f"write({path})"
    covered = find_covering_rules(
        [PermissionRule.parse(text)], "write", capability=Capability.WRITE, subjects=(path,)
    )
    assert covered is not None
