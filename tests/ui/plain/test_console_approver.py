"""Approvals of `--ask` at a real terminal; the test is at its other end."""

from __future__ import annotations

import asyncio
import os
import pty
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from pathlib import Path

import pytest
from msgspec.structs import replace

from steno import ToolCall
from steno.agent.permissions.subjects import normalize_subject
from steno.ports import (
    ApprovalDecision,
    ApprovalRequest,
    CallPreview,
    Capability,
    GrantScope,
    PreviewKind,
    PreviewPart,
)
from steno.ui.plain.approvals import NO_TERMINAL, ConsoleApprover

CALL = ToolCall.create("bash", {"command": "git log -1"}, id="c1")
PATIENCE_S = 60


def question(*, preview: str = "git log -1", rule: str = "bash(git log -*)") -> ApprovalRequest:
    return ApprovalRequest(
        call=CALL,
        capability=Capability.EXECUTE,
        preview=CallPreview.of(preview, shown_arguments=("command",)),
        rule=rule,
    )


@pytest.fixture(autouse=True)
def no_styles(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.delenv("COLUMNS", raising=False)  # else lines are broken there


class Person:
    """A user at a terminal: reads the screen, and types."""

    def __init__(self, end: int, terminal: str) -> None:
        self._end = end
        self.terminal = terminal
        self.seen = ""

    async def see(self, text: str) -> None:
        """Wait until a text is on the screen after the last awaited one."""
        loop = asyncio.get_running_loop()
        while text not in self.seen:
            ready = asyncio.Event()
            loop.add_reader(self._end, ready.set)
            try:
                await asyncio.wait_for(ready.wait(), PATIENCE_S)
            finally:
                loop.remove_reader(self._end)
            self.seen += os.read(self._end, 65_536).decode().replace("\r\n", "\n")
        self.before, _, self.seen = self.seen.partition(text)

    def type(self, keys: str) -> None:
        """Press keys."""
        os.write(self._end, keys.encode())

    async def answer(self, *lines: str) -> None:
        """Answer one prompt after the other."""
        for line in lines:
            await self.see("? ")
            self.type(line)


@contextmanager
def sitting() -> Generator[Person]:
    end, other_end = pty.openpty()
    try:
        yield Person(end, os.ttyname(other_end))
    finally:
        os.close(end)
        os.close(other_end)


def descriptors() -> int:
    return len(list(Path("/dev/fd").iterdir()))


def decision_after(
    asked: ApprovalRequest, act: Callable[[Person], Awaitable[None]]
) -> ApprovalDecision:
    """Ask a user at a terminal, and return the decision."""

    async def run() -> ApprovalDecision:
        with sitting() as person:
            approver = ConsoleApprover(terminal=person.terminal, actor="ada")
            asking = asyncio.create_task(approver.ask(asked))
            await act(person)
            return await asyncio.wait_for(asking, PATIENCE_S)

    return asyncio.run(run())


def answered(asked: ApprovalRequest, *lines: str) -> ApprovalDecision:
    return decision_after(asked, lambda person: person.answer(*lines))


# -- answers -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("keys", "scope", "rule"),
    [
        ("o\n", GrantScope.ONCE, None),
        (" ONCE \n", GrantScope.ONCE, None),
        ("s\n", GrantScope.SESSION, "bash(git log -*)"),
        ("p\n", GrantScope.PROJECT, "bash(git log -*)"),
        ("user\n", GrantScope.USER, "bash(git log -*)"),
    ],
)
def test_an_approval_has_the_chosen_scope(keys: str, scope: GrantScope, rule: str | None) -> None:
    verdict = answered(question(), keys)
    assert verdict == ApprovalDecision(allowed=True, actor="ada", scope=scope, rule=rule)


@pytest.mark.parametrize("keys", ["d\n", "deny\n", "\x04"])
def test_deny_and_the_end_of_the_input_deny(keys: str) -> None:
    assert answered(question(), keys) == ApprovalDecision(allowed=False, actor="ada")


def test_no_can_be_explained_to_the_model() -> None:
    verdict = answered(question(), "r\n", "use git status, élan\n")
    assert verdict == ApprovalDecision(allowed=False, actor="ada", reason="use git status, élan")
    assert answered(question(), "reason\n", "\n", "d\n").reason is None
    assert answered(question(), "r\n", "\x04").reason is None


@pytest.mark.parametrize("keys", ["\n", "y\n", "yes\n", "n\n", "od\n", "ok\n", "1\n"])
def test_an_invalid_reply_is_asked_for_again(keys: str) -> None:
    """Keys of earlier versions are not answers either: none of them allows or denies."""
    assert not answered(question(), keys, "d\n").allowed
    assert answered(question(), keys, "o\n").allowed


def test_the_reason_is_given_why_an_answer_is_asked_for_again() -> None:
    async def act(person: Person) -> None:
        await person.answer("y\n")
        await person.see("Notice: nothing was decided; type one of: o once, ")
        await person.answer("d\n")

    assert not decision_after(question(), act).allowed


def test_the_rule_can_be_edited() -> None:
    verdict = answered(question(), "e\n", "bash(git *)\n", "s\n")
    assert (verdict.scope, verdict.rule) == (GrantScope.SESSION, "bash(git *)")
    assert answered(question(), "e\n", "bash(\n", "s\n").rule == "bash(git log -*)"


@pytest.mark.parametrize(("rule", "letters"), [("bash(git log -*)", "ospudrveh"), ("", "odrvh")])
def test_a_question_mark_is_answered_with_what_the_offered_letters_mean(
    rule: str, letters: str
) -> None:
    async def act(person: Person) -> None:
        await person.answer("?\n")
        await person.see("h help? ")
        explained = [line for line in person.before.splitlines() if line.startswith("  ")]
        assert "".join([line.split()[0] for line in explained]) == letters
        person.type("d\n")

    assert not decision_after(question(rule=rule), act).allowed


@pytest.mark.parametrize("keys", ["s\n", "p\n", "u\n"])
def test_without_a_rule_nothing_reaches_beyond_the_call(keys: str) -> None:
    async def act(person: Person) -> None:
        await person.see("? ")
        assert "session" not in person.before
        assert "edit rule" not in person.before
        person.type(keys)
        await person.answer("o\n")

    assert decision_after(question(rule=""), act) == ApprovalDecision(allowed=True, actor="ada")


def test_lines_typed_before_an_approval_do_not_decide_it() -> None:
    async def run() -> ApprovalDecision:
        with sitting() as person:
            person.type("o\no\n")
            await person.see("o\no\n")  # the terminal echoes it: it has arrived
            approver = ConsoleApprover(terminal=person.terminal, actor="ada")
            asking = asyncio.create_task(approver.ask(question()))
            await person.answer("d\n")
            return await asyncio.wait_for(asking, PATIENCE_S)

    assert not asyncio.run(run()).allowed


# -- what is shown -------------------------------------------------------------------------------


def shown(asked: ApprovalRequest) -> str:
    """Return the screen when an answer is expected."""
    seen: list[str] = []

    async def act(person: Person) -> None:
        await person.see("? ")
        seen.append(person.before)
        person.type("d\n")

    decision_after(asked, act)
    return seen[0]


def test_the_call_the_rule_and_the_choice_are_shown() -> None:
    assert shown(question()) == (
        "Approval 1 of 1: bash asks for permission to execute\n"
        "│ git log -1\n"
        "Rule for session, project and user: bash(git log -*)\n"
        "bash: o once, s for session, p for project, u for user, d deny, r deny with reason, "
        "v view all, e edit rule, h help"
    )


def test_arguments_missing_from_the_preview_are_shown_below_it() -> None:
    subject = normalize_subject("git log -1", Capability.EXECUTE)
    asked = replace(question(), subjects=(subject,), preview=CallPreview())
    assert '\nApplies to:\n│ git log -1\nArguments:\n│ command: "git log -1"\n' in shown(asked)


def test_text_of_a_model_cannot_control_the_terminal_or_imitate_an_approval() -> None:
    preview = "ls \x1b[2J\x1b]0;title\x07\u202e\rok\nread asks for permission to read:\no once"
    screen = shown(question(preview=preview))
    assert "\x1b" not in screen
    assert "\\x1b[2J\\x1b]0;title\\x07\\u202e\\rok\n" in screen
    assert "\n│ read asks for permission to read:\n│ o once\n" in screen


def test_a_long_preview_is_cut_and_can_be_viewed() -> None:
    lines = [f"line {number}" for number in range(100)] + ["x" * 3_000]
    seen: list[str] = []

    async def act(person: Person) -> None:
        for keys in ("v\n", "d\n"):
            await person.see("v view all, e edit rule, h help? ")
            seen.append(person.before)
            person.type(keys)

    decision_after(question(preview="\n".join(lines)), act)
    cut, whole = seen
    assert "│ line 29\n│ … 41 lines omitted …\n│ line 71\n" in cut
    assert "".join([f"│ {line}\n" for line in lines]) in whole


def test_a_diff_has_colours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    diff = PreviewPart(PreviewKind.DIFF, "--- a\n+++ b\n@@ -1,2 +1,2 @@\n-old\n+new\n same")
    screen = shown(replace(question(), preview=CallPreview((diff,))))
    assert "\x1b[31m│ -old\x1b[0m\n" in screen
    assert "\x1b[32m│ +new\x1b[0m\n" in screen
    assert "\n│  same\n" in screen


# -- around it -----------------------------------------------------------------------------------


def test_questions_are_asked_one_after_the_other() -> None:
    async def run() -> list[ApprovalDecision]:
        with sitting() as person:
            approver = ConsoleApprover(terminal=person.terminal, actor="ada")
            asking = asyncio.gather(
                *[approver.ask(question(preview=f"command {number}")) for number in range(3)]
            )
            for number, keys in enumerate(("o\n", "d\n", "s\n")):
                await person.see("? ")
                assert person.before.count("asks for permission") == 1
                assert f"│ command {number}\n" in person.before
                person.type(keys)
            return list(await asyncio.wait_for(asking, PATIENCE_S))

    verdicts = asyncio.run(run())
    assert [verdict.allowed for verdict in verdicts] == [True, False, True]
    assert [verdict.scope for verdict in verdicts] == [
        GrantScope.ONCE,
        GrantScope.ONCE,
        GrantScope.SESSION,
    ]


def test_a_question_can_be_cancelled_and_the_next_one_asked() -> None:
    async def run() -> ApprovalDecision:
        with sitting() as person:
            approver = ConsoleApprover(terminal=person.terminal, actor="ada")
            open_files = descriptors()
            asking = asyncio.create_task(approver.ask(question()))
            await person.see("? ")
            asking.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asyncio.wait_for(asking, PATIENCE_S)
            assert descriptors() == open_files
            asking = asyncio.create_task(approver.ask(question()))
            await person.answer("o\n")
            return await asyncio.wait_for(asking, PATIENCE_S)

    assert asyncio.run(run()).allowed


def test_the_event_loop_runs_while_the_approver_waits() -> None:
    async def act(person: Person) -> None:
        await person.see("? ")
        for _ in range(100):
            await asyncio.sleep(0)
        person.type("o")
        for _ in range(100):
            await asyncio.sleep(0)
        person.type("\n")

    assert decision_after(question(), act).allowed


def test_a_closed_terminal_denies_the_call() -> None:
    async def run() -> ApprovalDecision:
        end, other_end = pty.openpty()
        person = Person(end, os.ttyname(other_end))
        approver = ConsoleApprover(terminal=person.terminal, actor="ada")
        asking = asyncio.create_task(approver.ask(question()))
        await person.see("? ")
        os.close(end)
        try:
            return await asyncio.wait_for(asking, PATIENCE_S)
        finally:
            os.close(other_end)

    assert not asyncio.run(run()).allowed


def test_without_a_terminal_nothing_is_allowed(tmp_path: Path) -> None:
    file = tmp_path / "answers"
    file.write_text("o\n" * 10, encoding="utf-8")
    for place in (file, tmp_path / "missing"):
        verdict = asyncio.run(ConsoleApprover(terminal=str(place)).ask(question()))
        assert verdict == ApprovalDecision(allowed=False, actor="steno", reason=NO_TERMINAL)
    assert file.read_text(encoding="utf-8") == "o\n" * 10


def test_the_default_actor_is_the_login_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOGNAME", "grace")

    async def run() -> ApprovalDecision:
        with sitting() as person:
            asking = asyncio.create_task(ConsoleApprover(terminal=person.terminal).ask(question()))
            await person.answer("o\n")
            return await asyncio.wait_for(asking, PATIENCE_S)

    assert asyncio.run(run()).actor == "grace"
