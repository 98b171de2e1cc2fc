"""`/permissions`."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest

from steno import ChatMessage, Conversation, InvalidValue, Missing, ToolCall
from steno.agent.permissions.grants import GrantSigner, build_grant_audit
from steno.agent.permissions.rules import PermissionRule
from steno.app.commands.context import CommandContext
from steno.app.commands.report import Report
from steno.app.commands.slash_commands import run_slash_command
from steno.app.permissions import GrantsFile, KeyFileSigner
from steno.ports import GrantScope
from steno.records.entry import ApprovalStatus, Mode
from steno.store import Store
from tests.app.command_setup import ACTOR, run_with_context, state_of, with_context
from tests.app.project_setup import make_project, write_settings


@pytest.fixture(autouse=True)
def project(tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return make_project(tmp_path, monkeypatch)


def permissions_text(
    project: Path,
    argument: str = "",
    *,
    begin: Callable[[Store], Conversation] | None = None,
    **flags: Any,
) -> str:
    return run_with_context(project, "permissions", argument, begin=begin, **flags).body


def granting(*, is_sealed: bool) -> Callable[[Store], Conversation]:
    """Begin a session in which a rule was granted, by this user or by who knows whom."""

    def begin(store: Store) -> Conversation:
        conversation = store.new([ChatMessage.user("Go")])
        call = ToolCall(id="c1", name="bash", arguments='{"command": "git log -1"}')
        conversation.append(ChatMessage.assistant("", [call]))
        audit = build_grant_audit(PermissionRule.parse("bash(git log *)"), GrantScope.SESSION)
        signet = GrantSigner(conversation.id, KeyFileSigner() if is_sealed else lambda _: "forged")
        conversation.decide(
            "c1", ApprovalStatus.APPROVED, actor=ACTOR, audit=signet.sign_audit(audit, tool="bash")
        )
        return conversation

    return begin


@pytest.mark.requirement("S2-18")
def test_every_source_of_permission_is_named_with_its_rules(home: Path, project: Path) -> None:
    file = write_settings(home, 'allow = ["read"]\ndeny = ["bash(rm *)"]\n')
    GrantsFile(project).add("write(src/**)", GrantScope.PROJECT)
    GrantsFile(project).add("bash(ls *)", GrantScope.USER)
    text = permissions_text(project, deny=["write(.env)"], begin=granting(is_sealed=True))
    assert (
        "\n\n- mode `act`\\: read, write, execute, network\n"
        "- role `actor`\\: read, write, execute, network\n\n"
    ) in text
    for source, *rules in (
        (f", `{file}`, `--deny`\\:", "bash(rm *)", "write(.env)"),
        (f", `{file}`\\:", "read"),
    ):
        items = "\n".join([f"- `{rule}`" for rule in rules])
        assert f"{source}\n\n{items}" in text
    title, _, granted = text.partition("\n\n1. ")
    assert " session**, `/permissions revoke N` " in title.splitlines()[-1]
    assert granted.startswith("`bash(git log *)`")
    assert ": read, `bash_kill`" in text.replace("\\", "")
    assert "| `project` | write(src/\\*\\*) |" in text
    assert "| `user` | bash(ls \\*) |" in text
    assert "/grants\\.toml**\n" in text


def test_a_forged_grant_is_not_shown(project: Path) -> None:
    assert "git log" not in permissions_text(project, begin=granting(is_sealed=False))


def test_the_mode_of_the_session_is_shown(project: Path) -> None:
    def planning(store: Store) -> Conversation:
        conversation = store.new()
        conversation.change_mode(Mode.PLAN)
        return conversation

    assert "- mode `plan`\\: read\n" in permissions_text(project, begin=planning)


@pytest.mark.parametrize("argument", ["", "revoke 1", "revoke bash(git log *)"])
def test_the_rules_of_the_session_are_read_where_a_run_reads_them(
    project: Path, argument: str
) -> None:
    """The gate is shared with a run, and not made for several threads."""
    threads: set[int] = set()

    async def work(context: CommandContext) -> Report:
        state = state_of(context)
        gate = state.environment.gate

        class RecordingGate:
            def __getattr__(self, name: str) -> Any:
                threads.add(threading.get_ident())
                return getattr(gate, name)

        state.environment = state.environment._replace(gate=cast("Any", RecordingGate()))
        return await run_slash_command(context, "permissions", argument)

    with_context(project, work, begin=granting(is_sealed=True))
    assert threads == {threading.get_ident()}


def test_unreadable_grants_are_reported(project: Path) -> None:
    file = GrantsFile(project).file
    assert "grants\\.toml" not in permissions_text(project)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("allow = 3\n")
    file.chmod(0o600)
    assert "grants\\.toml" in permissions_text(project)


@pytest.mark.parametrize(
    ("argument", "whom", "project_rules", "user_rules"),
    [
        ("allow bash(git log *)", "this project", ("bash(git log *)",), ()),
        ("allow bash(git log *) project", "this project", ("bash(git log *)",), ()),
        ("allow bash(git log *) user", "all your projects", (), ("bash(git log *)",)),
    ],
)
def test_a_rule_is_allowed_for_good(
    project: Path,
    argument: str,
    whom: str,
    project_rules: tuple[str, ...],
    user_rules: tuple[str, ...],
) -> None:
    assert permissions_text(project, argument).endswith(f" {whom}\\: bash(git log \\*)")
    grants = GrantsFile(project)
    stored = grants.read()
    assert (stored.table_for(grants.folder).allow, stored.user.allow) == (project_rules, user_rules)


def test_a_rule_is_revoked_wherever_it_was_allowed_or_for_one_alone(project: Path) -> None:
    grants = GrantsFile(project)
    for scope in (GrantScope.PROJECT, GrantScope.USER):
        grants.add("bash(ls *)", scope)
        grants.add("write", scope)
    text = permissions_text(project, "revoke bash(ls *)")
    assert [line.rpartition(" for ")[2] for line in text.split("\n\n")] == [
        "this project\\: bash(ls \\*)",
        "all your projects\\: bash(ls \\*)",
    ]
    assert permissions_text(project, "revoke write --user").endswith(" all your projects\\: write")
    stored = grants.read()
    assert (stored.table_for(grants.folder).allow, stored.user.allow) == (("write",), ())


@pytest.mark.parametrize(
    ("argument", "is_usage"),
    [("forget bash", True), ("allow", True), ("allow bahs", False), ("allow bash(", False)],
)
def test_invalid_arguments_of_permissions_change_nothing(
    project: Path, argument: str, is_usage: bool
) -> None:
    with pytest.raises(InvalidValue) as caught:
        permissions_text(project, argument)
    assert (caught.value.code == "invalid_usage") is is_usage
    assert GrantsFile(project).rules() == ()


def test_deny_is_refused_with_the_place_of_such_rules(home: Path, project: Path) -> None:
    write_settings(home, "")
    with pytest.raises(InvalidValue) as caught:
        permissions_text(project, "deny bash(rm *)")
    assert caught.value.code == "deny_is_setting"
    assert "steno config path" in caught.value.message


def test_a_rule_that_is_no_grant_cannot_be_revoked_and_its_place_is_named(
    home: Path, project: Path
) -> None:
    file = write_settings(home, 'allow = ["write"]\n')
    for argument, code, place in (
        ("revoke edit", "rule_not_allowed", ""),
        ("revoke write", "rule_is_setting", str(file)),
        ("revoke bash(git log *) user", "rule_in_session", "/permissions revoke 1"),
        ("revoke 2", "no_such_number", ""),
    ):
        with pytest.raises(Missing) as caught:
            permissions_text(project, argument, begin=granting(is_sealed=True))
        assert caught.value.code == code
        assert place in caught.value.message
