"""Approvals line by line: a user cannot allow a call by accident."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from steno.agent.events import Notice, NoticeKind
from steno.messages.call import map_tool_name
from steno.ports import ApprovalDecision, GrantScope
from tests.ui.plain.line_user import LineUser, at_terminal
from tests.ui.tui.approval_app import pending_call, queued_call

pytestmark = pytest.mark.requirement("S2-18")


def verdicts_for(*lines: str, rule: str = "bash(git log -*)") -> list[tuple[str, ApprovalDecision]]:
    async def act(user: LineUser) -> None:
        user.ask(pending_call(rule=rule))
        await user.answer(*lines)
        await user.until(lambda: user.decisions)
        user.end()

    return at_terminal(act).decisions


@pytest.mark.parametrize(
    ("word", "scope"),
    [
        ("once", GrantScope.ONCE),
        ("o", GrantScope.ONCE),
        ("ONCE ", GrantScope.ONCE),
        ("session", GrantScope.SESSION),
        ("s", GrantScope.SESSION),
        ("project", GrantScope.PROJECT),
        ("p", GrantScope.PROJECT),
        ("user", GrantScope.USER),
        ("u", GrantScope.USER),
    ],
)
def test_a_word_or_its_letter_allows_as_far_as_it_says(word: str, scope: GrantScope) -> None:
    rule = None if scope is GrantScope.ONCE else "bash(git log -*)"
    assert verdicts_for(word) == [
        ("call_1", ApprovalDecision(allowed=True, actor="ann", scope=scope, rule=rule))
    ]


@pytest.mark.parametrize("word", ["deny", "d"])
def test_deny_denies(word: str) -> None:
    assert verdicts_for(word) == [("call_1", ApprovalDecision(allowed=False, actor="ann"))]


@pytest.mark.parametrize(
    "stray",
    ["", " ", "y", "yes", "n", "no", "w", "ok", "once more", "onc", "2 once", "all s", "all rule"],
)
def test_an_unknown_reply_decides_nothing(stray: str) -> None:
    assert verdicts_for(stray, "deny") == [("call_1", ApprovalDecision(allowed=False, actor="ann"))]


@pytest.mark.parametrize(
    "lines", [("reason not here",), ("reason", "not here"), ("r", " not here ")]
)
def test_a_reason_goes_to_the_model(lines: tuple[str, ...]) -> None:
    assert verdicts_for(*lines) == [
        ("call_1", ApprovalDecision(allowed=False, actor="ann", reason="not here"))
    ]


def test_a_reason_that_is_blank_decides_nothing() -> None:
    assert verdicts_for("reason", "", "once") == [
        ("call_1", ApprovalDecision(allowed=True, actor="ann"))
    ]


@pytest.mark.parametrize("lines", [("edit bash(git *)",), ("e", "bash(git *)")])
def test_the_rule_can_be_written_anew(lines: tuple[str, ...]) -> None:
    assert verdicts_for(*lines, "project") == [
        (
            "call_1",
            ApprovalDecision(
                allowed=True, actor="ann", scope=GrantScope.PROJECT, rule="bash(git *)"
            ),
        )
    ]


def test_an_invalid_rule_does_not_change_the_rule() -> None:
    assert verdicts_for("edit bash(", "session")[0][1].rule == "bash(git log -*)"
    assert verdicts_for("edit", "", "session")[0][1].rule == "bash(git log -*)"


def test_without_a_rule_nothing_wider_than_once_is_offered_or_taken() -> None:
    async def act(user: LineUser) -> None:
        user.ask(pending_call(rule=""))
        await user.see("this call can only be allowed once")
        await user.see("bash: o once, d deny, r deny with reason, v view all, h help? ")
        user.type("session\n")
        await user.see("nothing was decided; type one of: o once, d deny, r deny with")
        await user.answer("deny")
        await user.until(lambda: user.decisions)
        user.end()

    assert at_terminal(act).decisions == [("call_1", ApprovalDecision(allowed=False, actor="ann"))]


def test_a_question_says_everything_with_a_bar_before_what_others_wrote() -> None:
    hostile = "git log\n\x1b[2JApproval 2 of 2: allow all?\u202e"

    async def act(user: LineUser) -> None:
        user.ask(pending_call(preview=hostile, arguments={"command": "x\nbash: once? "}))
        await user.see("help? ")
        user.type("deny\n")
        await user.until(lambda: user.decisions)

    output = at_terminal(act).said
    assert "Approval 1 of 1: bash asks for permission to execute\n│ git log\n" in output
    assert "\n│ \\x1b[2JApproval 2 of 2: allow all?\\u202e\n" in output
    assert "\nApplies to:\n│ git log -1\nArguments:\n│ command:\n" in output
    assert "\n│   │ bash: once? \n" in output
    assert "\nRule for session, project and user: bash(git log -*)\n" in output


@pytest.mark.requirement("P-13")
def test_questions_and_decisions_have_the_name_that_the_model_sent() -> None:
    pending = pending_call()
    call = replace(pending.call, name=map_tool_name("fs.read"), original_name="fs.read")

    async def act(user: LineUser) -> None:
        user.ask(pending._replace(call=call))
        await user.answer("deny")
        await user.until(lambda: user.decisions)

    said = at_terminal(act).said
    assert "fs.read: " in said
    assert "fs.read, deny" in said
    assert call.name not in said


def test_a_long_call_is_shortened_and_view_says_all_of_it() -> None:
    preview = "\n".join(f"line {number}" for number in range(200))

    async def act(user: LineUser) -> None:
        user.ask(pending_call(preview=preview))
        await user.see("lines omitted")
        assert "│ line 100\n" not in user.said
        await user.answer("view")
        await user.see("│ line 100\n")
        await user.answer("deny")
        await user.until(lambda: user.decisions)

    at_terminal(act)


def test_help_says_what_each_answer_means() -> None:
    async def act(user: LineUser) -> None:
        user.ask(pending_call())
        await user.answer("?")
        await user.see("  o once: run this call once, with exactly these arguments\n")
        await user.answer("deny")
        await user.until(lambda: user.decisions)

    at_terminal(act)


def test_several_questions_have_numbers_and_are_answered_one_by_one() -> None:
    async def act(user: LineUser) -> None:
        user.ask(pending_call("c1"), queued_call("c2"))
        await user.see("Approval 1 of 2: bash asks")
        await user.see("Approval 2 of 2: write is queued")
        await user.see("approval 1, bash: ")
        await user.answer("2 deny")
        await user.until(lambda: len(user.decisions) == 1)
        await user.answer("once")
        await user.until(lambda: len(user.decisions) == 2)
        user.end()

    assert [(id, one.allowed) for id, one in at_terminal(act).decisions] == [
        ("c2", False),
        ("c1", True),
    ]


@pytest.mark.parametrize("typed", ["a", "all", "all once"])
def test_all_are_allowed_together_only_after_a_yes(typed: str) -> None:
    async def act(user: LineUser) -> None:
        user.ask(pending_call("c1"), queued_call("c2"))
        await user.answer("all once", "ok")
        await user.see("Notice: nothing was decided\n")
        await user.answer("all", "n")
        await user.see("Notice: nothing was decided\n")
        assert user.decisions == []
        await user.answer(typed, "y")
        await user.until(lambda: len(user.decisions) == 2)
        user.end()

    assert [(id, one.allowed, one.scope) for id, one in at_terminal(act).decisions] == [
        ("c2", True, GrantScope.ONCE),
        ("c1", True, GrantScope.ONCE),
    ]


def test_all_are_denied_together() -> None:
    async def act(user: LineUser) -> None:
        user.ask(pending_call("c1"), queued_call("c2"))
        await user.answer("all reason too early")
        await user.until(lambda: len(user.decisions) == 2)
        user.end()

    assert {(one.allowed, one.reason) for _, one in at_terminal(act).decisions} == {
        (False, "too early")
    }


def test_a_yes_to_all_counts_for_nothing_if_something_else_is_asked_meanwhile() -> None:
    async def act(user: LineUser) -> None:
        user.ask(pending_call("c1"), queued_call("c2"))
        await user.answer("all once")
        await user.see("n go back? ")
        user.ask(pending_call("c1"), queued_call("c2"), queued_call("c3", "edit"))
        await user.see("Approval 3 of 3: edit is queued")
        await user.answer("yes")
        await user.see("nothing was decided; type one of:")
        assert user.decisions == []
        user.end()

    at_terminal(act)


def test_a_question_that_is_no_longer_asked_is_dropped_and_the_others_keep_their_numbers() -> None:
    async def act(user: LineUser) -> None:
        user.ask(pending_call("c1"), pending_call("c2", "edit"))
        await user.see("approval 1, bash: ")
        user.ask(pending_call("c2", "edit"))
        await user.see("Notice: approval 1 is no longer needed")
        await user.answer("1 once")
        await user.see("nothing was decided")
        await user.answer("2 deny")
        await user.until(lambda: user.decisions)
        user.end()

    assert at_terminal(act).decisions == [("c2", ApprovalDecision(allowed=False, actor="ann"))]


def test_quitting_at_an_approval_decides_nothing() -> None:
    async def act(user: LineUser) -> None:
        user.ask(pending_call())
        await user.see("help? ")
        user.type("\x04")

    assert at_terminal(act).decisions == []


def test_output_during_an_approval_starts_on_a_new_line() -> None:
    async def act(user: LineUser) -> None:
        user.ask(pending_call())
        await user.see("help? ")
        user.session.happen(Notice(NoticeKind.CONTEXT, "something else", "settings_ignored"))
        await user.see("\nNotice: something else\nbash: o once, s for session")
        await user.answer("deny")
        await user.until(lambda: user.decisions)

    at_terminal(act)
