"""The choices of an approval and the state of the panel, without a terminal."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from steno.app.approval_queue import PendingCall
from steno.ports import AccessKind, ApprovalDecision, GrantScope, SandboxAccess
from steno.ui.approval_state import (
    ApprovalChoice,
    ApprovalState,
    decide_calls,
    decision_for,
    find_offer,
    offers_for_call,
    offers_for_calls,
    preview_rule,
    typed_offers,
)
from tests.ui.fake_session import FakeSession
from tests.ui.idle_clock import ManualClock
from tests.ui.tui.approval_app import pending_call, queued_call

pytestmark = pytest.mark.requirement("S2-18")


def state_of(*pending: PendingCall) -> ApprovalState:
    state = ApprovalState(FakeSession(), now=ManualClock())
    state.update_pending(pending)
    return state


def test_every_interface_has_the_same_keys() -> None:
    panel = {offer.choice: offer.key for offer in offers_for_call(pending_call(), 2)}
    typed = {offer.choice: offer.key for offer in typed_offers(pending_call(), 2)}
    assert "".join(panel.values()) == "ospudra"
    assert panel.items() <= typed.items()
    assert "".join([typed[choice] for choice in typed if choice not in panel]) == "veh"


@pytest.mark.parametrize("pending", [pending_call(rule=""), queued_call("c2")])
def test_without_a_rule_only_this_call_can_be_allowed(pending: PendingCall) -> None:
    assert [offer.choice for offer in offers_for_call(pending, 1) if not offer.obstacle] == [
        ApprovalChoice.ONCE,
        ApprovalChoice.DENY,
        ApprovalChoice.REASON,
    ]
    assert find_offer(typed_offers(pending, 1), "e") is None


@pytest.mark.parametrize("typed", ["s", " SESSION ", "for session"])
def test_a_key_a_word_and_a_label_name_a_choice(typed: str) -> None:
    offer = find_offer(typed_offers(pending_call(), 1), typed)
    assert offer is not None
    assert offer.choice is ApprovalChoice.SESSION


@pytest.mark.parametrize("typed", ["", "y", "yes", "n", "no", "sp", "session please"])
def test_a_reply_that_is_not_a_choice_gives_none(typed: str) -> None:
    assert find_offer(typed_offers(pending_call(), 2), typed) is None


def test_a_list_is_allowed_by_y_and_left_by_n() -> None:
    assert [(offer.key, offer.choice) for offer in offers_for_calls(2)] == [
        ("y", ApprovalChoice.THESE),
        ("n", ApprovalChoice.BACK),
    ]


@pytest.mark.parametrize(
    ("choice", "text", "decision"),
    [
        (ApprovalChoice.ONCE, None, ApprovalDecision(allowed=True, actor="ann")),
        (ApprovalChoice.DENY, None, ApprovalDecision(allowed=False, actor="ann")),
        (
            ApprovalChoice.REASON,
            " not here ",
            ApprovalDecision(allowed=False, actor="ann", reason="not here"),
        ),
        (ApprovalChoice.REASON, " ", None),
        (ApprovalChoice.REASON, None, None),
        (
            ApprovalChoice.USER,
            None,
            ApprovalDecision(
                allowed=True, actor="ann", scope=GrantScope.USER, rule="bash(git log -*)"
            ),
        ),
        (
            ApprovalChoice.SESSION,
            "bash(git *)",
            ApprovalDecision(
                allowed=True, actor="ann", scope=GrantScope.SESSION, rule="bash(git *)"
            ),
        ),
        (ApprovalChoice.SESSION, "", None),
        (ApprovalChoice.SESSION, "bash(", None),
        (ApprovalChoice.VIEW, None, None),
        (ApprovalChoice.BACK, None, None),
    ],
)
def test_a_choice_makes_its_decision_or_none(
    choice: ApprovalChoice, text: str | None, decision: ApprovalDecision | None
) -> None:
    request = pending_call().request
    assert decision_for(choice, request, actor="ann", text=text) == decision


def test_the_asked_call_is_shown_first_and_stays_while_others_come_and_go() -> None:
    state = state_of(queued_call("c1"), pending_call("c2"))
    assert state.shown_call == pending_call("c2")
    state.update_pending([pending_call("c3"), pending_call("c2")])
    assert state.shown_call == pending_call("c2")
    state.show_next(1)
    assert state.shown_call == pending_call("c3")


def test_a_choice_for_a_call_that_is_no_longer_asked_is_dropped_and_reported() -> None:
    state = state_of(pending_call("c1"))
    state.highlight(find_offer(state.offers, "o"))
    state.update_pending([pending_call("c2")])
    assert state.highlighted is None
    assert state.hint(typed="", has_focus=True) == state.message != ""


def test_a_reason_that_is_being_written_survives_the_request_of_its_call() -> None:
    state = state_of(pending_call("c1"), queued_call("c2"))
    state.show_next(1)
    state.highlight(find_offer(state.offers, "r"))
    state.begin_answer()
    asked = pending_call("c2", "write", arguments={"path": "c2.py"})
    state.update_pending([asked])
    assert (state.shown_call, state.edited_choice) == (asked, ApprovalChoice.REASON)


def test_a_list_that_has_changed_is_left() -> None:
    state = state_of(pending_call("c1"), queued_call("c2"))
    state.list_all()
    assert [offer.key for offer in state.offers] == ["y", "n"]
    state.update_pending([pending_call("c1")])
    assert state.listed_calls == ()
    assert state.message


def test_an_impossible_choice_is_explained_and_not_highlighted() -> None:
    state, _, _ = keys_for(pending_call(rule=""))
    state.highlight(find_offer(state.offers, "s"))
    assert state.highlighted is None
    assert state.message.startswith("cannot allow this call for session: ")
    state.press_arrow(-1)
    assert state.highlighted is not None
    assert state.highlighted.choice is ApprovalChoice.REASON


# -- keys -----------------------------------------------------------------------------------------


def keys_for(*pending: PendingCall) -> tuple[ApprovalState, FakeSession, ManualClock]:
    session, clock = FakeSession(), ManualClock()
    session.pending_calls = list(pending)
    state = ApprovalState(session, now=clock)
    state.update_pending(pending)
    clock.now += 10
    return state, session, clock


def test_a_letter_and_enter_decide_and_neither_does_alone() -> None:
    state, session, clock = keys_for(pending_call("c1"))
    state.press_enter()
    assert session.asked == []
    clock.now += 10
    state.press_letter("o", can_enlarge=False)
    assert session.asked == []
    clock.now += 10
    state.press_enter()
    assert session.asked == [("decide", "c1", ApprovalDecision(allowed=True, actor="ann"))]


def test_keys_before_the_call_could_be_read_and_keys_of_prose_decide_nothing() -> None:
    state, session, clock = keys_for(pending_call("c1"))
    state.update_pending([pending_call("c2")])
    state.press_letter("o", can_enlarge=False)
    state.press_enter()
    clock.now += 10
    for letter in "no":
        state.press_letter(letter, can_enlarge=False)
        clock.now += 0.1
    state.press_enter()
    state.paste()
    assert (state.highlighted, session.asked) == (None, [])


def test_v_enlarges_only_what_can_be_enlarged() -> None:
    state, _, clock = keys_for(pending_call())
    assert not state.press_letter("v", can_enlarge=False)
    clock.now += 10
    assert state.press_letter("v", can_enlarge=True)


def test_an_edited_rule_is_stored_and_what_is_no_rule_is_not() -> None:
    state, session, clock = keys_for(pending_call("c1"))
    for letter in "pe":
        state.press_letter(letter, can_enlarge=False)
        clock.now += 10
    assert (state.edited_choice, state.offered_rule) == (ApprovalChoice.PROJECT, "bash(git log -*)")
    state.submit("bash(")
    assert session.asked == []
    state.submit("bash(git *)")
    assert [decision.rule for _, _, decision in session.asked] == ["bash(git *)"]


# -- calls that the sandbox blocked ----------------------------------------------------------------

PYPI = SandboxAccess(AccessKind.NETWORK, "pypi.org")
HOOKS = SandboxAccess(AccessKind.WRITE, "/work/.git/hooks")
EVERYTHING = SandboxAccess(AccessKind.EVERYTHING)


def blocked_call(
    *access: SandboxAccess, rule: str = "", id: str = "c1", is_wider_offered: bool = True
) -> PendingCall:
    pending = pending_call(id, rule=rule)
    assert pending.request is not None
    request = replace(pending.request, access=access, may_run_unconfined=is_wider_offered)
    return pending._replace(request=request)


def keys_of(pending: PendingCall) -> str:
    return "".join([offer.key for offer in offers_for_call(pending, 1) if not offer.obstacle])


def test_a_blocked_call_can_run_again_with_the_access_or_without_the_sandbox() -> None:
    assert keys_of(blocked_call(HOOKS)) == "owdr"
    assert keys_of(blocked_call(PYPI, rule="network(pypi.org)")) == "owspudr"
    assert keys_of(blocked_call(EVERYTHING)) == "wdr"
    assert keys_of(blocked_call(HOOKS, is_wider_offered=False)) == "odr"
    assert keys_of(pending_call()) == "ospudr"


def test_the_offer_names_every_access_that_it_gives() -> None:
    once, *_ = offers_for_call(blocked_call(HOOKS, PYPI), 1)
    assert "2" in once.label
    assert HOOKS.target in once.meaning
    assert PYPI.target in once.meaning


@pytest.mark.parametrize(
    ("choice", "access"),
    [
        (ApprovalChoice.ONCE, (HOOKS,)),
        (ApprovalChoice.THESE, (HOOKS,)),
        (ApprovalChoice.UNCONFINED, (EVERYTHING,)),
        (ApprovalChoice.DENY, ()),
    ],
)
def test_the_decision_names_the_access_that_it_gives(
    choice: ApprovalChoice, access: tuple[SandboxAccess, ...]
) -> None:
    decision = decision_for(choice, blocked_call(HOOKS).request, actor="ann")
    assert decision is not None
    assert decision.access == access


def test_a_decision_about_a_call_that_has_not_run_gives_no_access() -> None:
    decision = decision_for(ApprovalChoice.ONCE, pending_call().request, actor="ann")
    assert decision is not None
    assert decision.access == ()


def test_each_of_several_calls_gets_only_the_access_that_its_own_request_names() -> None:
    given: dict[str, ApprovalDecision] = {}
    calls = [blocked_call(HOOKS, id="c1"), pending_call("c2"), blocked_call(PYPI, id="c3")]
    decision = decision_for(ApprovalChoice.THESE, calls[0].request, actor="ann")
    assert decision is not None
    assert decide_calls(given.__setitem__, calls, decision) == []
    assert {id: given[id].access for id in given} == {"c1": (HOOKS,), "c2": (), "c3": (PYPI,)}


def test_a_rule_for_several_commands_is_not_said_to_cover_a_command_outside_of_a_sandbox() -> None:
    request = pending_call().request
    assert request is not None
    outside = replace(
        request, subjects=tuple([replace(each, is_confined=False) for each in request.subjects])
    )
    for rule, is_narrow in (
        ("bash", False),
        ("bash(git log -*)", False),
        ("bash(git log -1)", True),
    ):
        assert preview_rule(rule, outside).is_narrow == is_narrow
    assert preview_rule("bash(git log -*)", request).is_narrow


@pytest.mark.parametrize("text", ["network(pyp*)", "network(https://pypi.org)"])
def test_a_typed_rule_that_could_never_apply_is_no_rule(text: str) -> None:
    request = blocked_call(PYPI, rule="network(pypi.org)").request
    assert request is not None
    assert preview_rule(text, request).rule is None
    assert decision_for(ApprovalChoice.PROJECT, request, actor="ann", text=text) is None
