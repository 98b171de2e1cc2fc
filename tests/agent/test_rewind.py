"""Settings made while a prompt is resolved, or after it, survive its rewind."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from steno import ChatMessage, Conversation
from steno.agent import CallbackApprover, EndReason, Gate, PromptInput
from steno.agent.permissions.rules import PermissionRule
from steno.agent.recorder import rewind_branch
from steno.agent.steering import find_unsent_prompt
from steno.errors import Overloaded, Unavailable, Unresolved
from steno.messages.event import TextDelta
from steno.messages.message import UserMessage
from steno.messages.request import Request
from steno.ports import ApprovalDecision, ApprovalRequest, GrantScope, ResolvedReference
from steno.records.entry import Entry, Label, Mode, ModeChange, Rewind, ShellCommand
from tests.agent.agent_setup import AgentHarness, call, run, turn_with_calls, write_tool
from tests.agent.reference_doubles import (
    agent_in,
    entry_kinds,
    file_reference,
    prompt_with,
    unsent_prompt,
)
from tests.log.journals import Journal

RULE = PermissionRule.parse("write(a)")
PROMPT = prompt_with("Explain.", file_reference("gone.py"))


def unsent_in(folder: Path) -> AgentHarness:
    """Return a harness whose prompt could not be resolved."""
    harness = agent_in(folder, ["I see."])
    assert isinstance(run(harness.run(PROMPT)).error, Unresolved)
    return harness


# -- entries after an unsent prompt --------------------------------------------------------------


def change_mode(conversation: Conversation) -> None:
    conversation.change_mode(Mode.PLAN)


def label(conversation: Conversation) -> None:
    conversation.label(conversation.entries()[0].id, "start")


def change_model(conversation: Conversation) -> None:
    conversation.change_model("lab/other")


def run_command(conversation: Conversation) -> None:
    conversation.append(ShellCommand(command="ls", output="note.txt\n"))


@pytest.mark.requirement("S2-11", "S2-28")
@pytest.mark.parametrize("happen", [change_mode, label, change_model, run_command])
def test_an_unsent_prompt_can_be_sent_whatever_was_set_since(
    tmp_path: Path, happen: Callable[[Conversation], None]
) -> None:
    harness = unsent_in(tmp_path)
    happen(harness.conversation)
    assert unsent_prompt(harness.conversation) == PROMPT


def test_an_unsent_prompt_is_found_with_its_audit(tmp_path: Path) -> None:
    harness = agent_in(tmp_path, [], actor="eva")
    audit = {"origin": "/docs:explain"}
    run(harness.agent.run(PromptInput("/docs:explain", message=PROMPT, audit=audit)))
    change_mode(harness.conversation)
    unsent = find_unsent_prompt(harness.conversation)
    assert unsent == PromptInput(PROMPT.text or "", message=PROMPT, audit=audit)


def test_after_another_prompt_nothing_is_unsent(tmp_path: Path) -> None:
    harness = unsent_in(tmp_path)
    harness.conversation.append(ChatMessage.user("Never mind."))
    change_mode(harness.conversation)
    assert unsent_prompt(harness.conversation) is None


# -- what is settled meanwhile -------------------------------------------------------------------


class Meddling:
    """A failing resolver that acts as the user while a prompt is resolved (`Resolver`)."""

    def __init__(self, meddle: Callable[[], object]) -> None:
        self._meddle = meddle

    async def resolve(self, *_: Any) -> ResolvedReference:
        self._meddle()
        return ResolvedReference(error="gone.py: no such file")

    def is_current(self, *_: Any) -> bool:
        return True

    async def changes(self, *_: Any, **__: Any) -> tuple[str, ...]:
        return ()


def allow_for_the_session(question: ApprovalRequest) -> ApprovalDecision:
    return ApprovalDecision(allowed=True, actor="eva", scope=GrantScope.SESSION)


@pytest.mark.requirement("S2-18")
def test_the_mode_and_what_is_no_longer_allowed_stay_if_a_prompt_is_taken_back() -> None:
    gate = Gate(approver=CallbackApprover(allow_for_the_session))

    def meddle() -> None:
        change_mode(harness.conversation)
        assert gate.revoke(RULE, harness.conversation, actor="eva")

    turns = [turn_with_calls(call("c0", "write")), "Done."]
    harness = AgentHarness(turns, write_tool(subjects=["a"]), gate=gate, resolver=Meddling(meddle))
    run(harness.run())
    assert gate.session_rules(harness.conversation) == (RULE,)
    assert isinstance(run(harness.run(PROMPT)).error, Unresolved)
    assert harness.conversation.mode is Mode.PLAN
    assert gate.session_rules(harness.conversation) == ()
    assert entry_kinds(harness.conversation.entries())[-2:] == ["Rewind", "ModeChange"]
    assert unsent_prompt(harness.conversation) == PROMPT
    harness.check()


def test_a_mode_change_during_a_broken_response_stays_after_the_retry() -> None:
    def break_off(_: Request) -> list[Any]:
        change_mode(harness.conversation)
        return [TextDelta(0, "Once"), Overloaded("busy", retryable=True)]

    async def no_wait(_: float) -> None:
        return None

    harness = AgentHarness([break_off, "Once upon."], sleep=no_wait)
    assert run(harness.run()).end_reason is EndReason.DONE
    assert harness.conversation.mode is Mode.PLAN
    harness.check()


def test_a_rewind_distinguishes_shell_commands_from_prompts() -> None:
    conversation = Conversation([ChatMessage.user("Hello?")])
    start = conversation.entries()[0].id
    conversation.append(ChatMessage.assistant("Hel"))
    run_command(conversation)
    conversation.append(ChatMessage.user("Well?"))
    change_mode(conversation)
    written = rewind_branch(conversation, start)
    assert entry_kinds(written) == ["Rewind", "ModeChange", "ShellCommand"]
    user_messages = [
        one.message for one in conversation.entries() if isinstance(one.message, UserMessage)
    ]
    assert [message.text for message in user_messages] == ["Hello?", "$ ls\nnote.txt\n"]
    assert written[1].payload == ModeChange(old=Mode.ACT, new=Mode.PLAN)


def test_only_what_the_person_ran_is_recorded_again() -> None:
    conversation = Conversation([ChatMessage.user("Hello?")])
    start = conversation.entries()[0].id
    conversation.append(ChatMessage.assistant("Hel"), audit={"shell": "ls"})
    conversation.append(Label(target=start, text="start"), audit={"shell": "ls"})
    assert entry_kinds(rewind_branch(conversation, start)) == ["Rewind"]


def test_an_answer_with_a_command_noted_beside_it_is_an_answer(tmp_path: Path) -> None:
    harness = unsent_in(tmp_path)
    harness.conversation.append(ChatMessage.user("Never mind."))
    harness.conversation.append(ChatMessage.assistant("Fine."), audit={"shell": "ls"})
    assert unsent_prompt(harness.conversation) is None


class Filling(Journal):
    """A journal whose disk is full after the next rewind."""

    def append(self, entry: Entry, *, branch: str, digest: str, expected: str | None) -> None:
        super().append(entry, branch=branch, digest=digest, expected=expected)
        self.is_full = isinstance(entry.payload, Rewind)


def test_a_rewind_that_changes_the_mode_reports_the_mode() -> None:
    conversation = Conversation([ChatMessage.user("Hello?")], journal=Filling())
    start = conversation.entries()[0].id
    change_mode(conversation)
    with pytest.raises(Unavailable) as caught:
        rewind_branch(conversation, start)
    assert (caught.value.code, caught.value.place) == ("mode_not_restored", "mode")
    assert conversation.mode is Mode.ACT
