"""Access that a sandbox blocked: asked for, given for one call or by a rule, recorded, replayed."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import pytest
from msgspec.structs import replace

from steno import Outcome, ToolCall
from steno.agent import (
    AgentRole,
    AllowingApprover,
    ApprovalDecision,
    ApprovalRequest,
    CallbackApprover,
    Gate,
    GrantScope,
    Permissions,
)
from steno.agent.permissions.access import (
    find_network_access,
    is_access_denied,
    may_ask_for,
    suggest_access_rule,
)
from steno.agent.permissions.grants import decided_access
from steno.agent.permissions.rules import PermissionRule
from steno.agent.replay.verify import replay
from steno.agent.results import ResultCode
from steno.errors import ToolFailed
from steno.log.queries import result_code
from steno.ports import AccessKind, Capability, SandboxAccess, Subject, ToolContext, ToolOutput
from steno.records.entry import ApprovalStatus, Mode
from steno.store import MemoryStore
from steno.testing import ScriptedTool
from tests.agent.agent_setup import AgentHarness, call, run, turn_with_calls

pytestmark = pytest.mark.requirement("P-34")

PYPI = SandboxAccess(AccessKind.NETWORK, "pypi.org")
NPM = SandboxAccess(AccessKind.NETWORK, "registry.npmjs.org")
HOOKS = SandboxAccess(AccessKind.WRITE, "/work/.git/hooks")
EVERYTHING = SandboxAccess(AccessKind.EVERYTHING)
BASH = Permissions.of(allow=["bash"])
TURNS = [turn_with_calls(call("c1", "bash", command="pip install six")), "Done."]


class Confined:
    """A tool whose sandbox blocks each access that a call needs and does not have."""

    rule_aliases = ()
    capability = Capability.EXECUTE
    headline = staticmethod(lambda _: "")

    def __init__(self, *needed: SandboxAccess) -> None:
        self.definition = ScriptedTool("bash").definition
        self.needed = needed
        self.folder: str | None = None
        self.runs: list[tuple[SandboxAccess, ...]] = []

    def subjects(self, call: ToolCall) -> tuple[Subject, ...]:
        text = call.arguments_as(dict)["command"]
        return (Subject(text=text, capability=Capability.EXECUTE, is_confined=True),)

    async def preview(self, call: ToolCall) -> Any:
        return await ScriptedTool("bash").preview(call)

    async def run(self, call: ToolCall, context: ToolContext) -> ToolOutput:
        self.runs.append(context.access)
        has_all = EVERYTHING in context.access
        missing = [each for each in self.needed if not has_all and each not in context.access]
        if missing:
            return ToolOutput.of("blocked", outcome=Outcome.ERROR, blocked=(missing[0],))
        return ToolOutput.of("installed")


class Answering:
    """An approver that answers each request with the next access; None denies."""

    def __init__(self, *answers: Sequence[SandboxAccess] | None, **settings: Any) -> None:
        self.requests: list[ApprovalRequest] = []
        self._answers = iter(answers)
        self._settings = settings

    async def ask(self, request: ApprovalRequest) -> ApprovalDecision:
        self.requests.append(request)
        access = next(self._answers)
        if access is None:
            return ApprovalDecision(allowed=False, actor="eva")
        return ApprovalDecision(allowed=True, actor="eva", access=tuple(access), **self._settings)


def harness_with(
    tool: Any, approver: Any, *, turns: Any = TURNS, store: Any = None, **settings: Any
) -> AgentHarness:
    gate = Gate(settings.pop("permissions", BASH), approver, **settings)
    return AgentHarness(turns, tool, gate=gate, store=store)


def last_approval(harness: AgentHarness) -> Any:
    return [e for e in harness.conversation.entries() if decided_access(e) is not None][-1]


def test_a_blocked_call_runs_again_with_the_access_that_the_user_gives() -> None:
    tool, approver = Confined(PYPI), Answering([PYPI])
    harness = harness_with(tool, approver)
    run(harness.run())
    assert tool.runs == [(), (PYPI,)]
    assert harness.result.text == "installed"
    (request,) = approver.requests
    assert request.access == (PYPI,)
    assert request.rule == "network(pypi.org)"
    assert [subject.text for subject in request.subjects] == ["pypi.org"]
    entry = last_approval(harness)
    assert entry.payload.status is ApprovalStatus.APPROVED
    assert entry.payload.actor == "eva"
    assert decided_access(entry) == (PYPI,)
    harness.check()


def test_a_denied_access_is_recorded_and_the_first_result_stays() -> None:
    tool = Confined(PYPI)
    harness = harness_with(tool, Answering(None))
    run(harness.run())
    assert tool.runs == [()]
    assert harness.result.text == "blocked"
    entry = last_approval(harness)
    assert entry.payload.status is ApprovalStatus.DENIED
    assert decided_access(entry) == (PYPI,)
    harness.check()


@pytest.mark.parametrize(
    "approver",
    [
        AllowingApprover(),
        CallbackApprover(lambda _: True),
        CallbackApprover(lambda _: ApprovalDecision(allowed=True, actor="eva")),
    ],
)
def test_an_approval_that_names_no_access_gives_none(approver: Any) -> None:
    tool = Confined(EVERYTHING)
    harness = harness_with(tool, approver)
    run(harness.run())
    assert tool.runs == [()]
    assert last_approval(harness).payload.status is ApprovalStatus.DENIED


def test_without_an_approver_no_one_is_asked_and_nothing_is_recorded() -> None:
    tool = Confined(PYPI)
    harness = harness_with(tool, None)
    run(harness.run())
    assert tool.runs == [()]
    assert harness.approvals == [("c1", "approved")]


def test_each_further_access_is_asked_for_and_the_number_of_runs_is_bounded() -> None:
    many = [SandboxAccess(AccessKind.NETWORK, f"{n}.example.org") for n in range(20)]
    tool, approver = Confined(*many), Answering(*[[each] for each in many])
    harness = harness_with(tool, approver)
    run(harness.run())
    assert tool.runs == [tuple(many[:n]) for n in range(4)]
    assert len(approver.requests) == 3


def test_the_user_can_run_the_call_without_the_sandbox() -> None:
    tool = Confined(HOOKS)
    harness = harness_with(tool, Answering([EVERYTHING]))
    run(harness.run())
    assert tool.runs == [(), (EVERYTHING,)]
    assert decided_access(last_approval(harness)) == (EVERYTHING,)


@pytest.mark.parametrize(
    ("given", "deny"),
    [([NPM], ""), ([HOOKS], ""), ([EVERYTHING], "write(private/**)"), ([EVERYTHING], "network")],
)
def test_an_approver_cannot_give_more_than_was_asked_for(
    given: list[SandboxAccess], deny: str
) -> None:
    path = SandboxAccess(AccessKind.WRITE, "/work/dist")
    tool, approver = Confined(path), Answering(given)
    tool.folder = "/work"
    permissions = Permissions.of(allow=["bash"], deny=[deny] if deny else [])
    harness = harness_with(tool, approver, permissions=permissions)
    run(harness.run())
    assert tool.runs == [()]
    (request,) = approver.requests
    assert request.may_run_unconfined is not bool(deny)
    assert last_approval(harness).payload.status is ApprovalStatus.DENIED


def test_a_command_that_reads_cannot_leave_the_sandbox_in_plan_mode() -> None:
    secret = SandboxAccess(AccessKind.READ, "/work/.env")

    class Reading(Confined):
        has_reading_calls = True

        def subjects(self, call: ToolCall) -> tuple[Subject, ...]:
            return (Subject(text="cat .env", capability=Capability.READ, is_confined=True),)

    tool, approver = Reading(secret), Answering([EVERYTHING])
    harness = harness_with(tool, approver)
    harness.conversation.change_mode(Mode.PLAN)
    run(harness.run())
    assert tool.runs == [()]
    assert [request.may_run_unconfined for request in approver.requests] == [False]


def test_a_change_to_plan_mode_while_the_question_is_open_withholds_the_access() -> None:
    class Replanning:
        async def ask(self, request: ApprovalRequest) -> ApprovalDecision:
            harness.conversation.change_mode(Mode.PLAN)
            return ApprovalDecision(allowed=True, actor="eva", access=request.access)

    tool = Confined(HOOKS)
    harness = harness_with(tool, Replanning())
    run(harness.run())
    assert tool.runs == [()]
    assert last_approval(harness).payload.status is ApprovalStatus.DENIED


# -- the result of the first attempt ---------------------------------------------------------------


@pytest.mark.parametrize("fault", [ToolFailed("gone", code="gone"), ValueError("bug")])
def test_a_preview_that_fails_after_the_first_attempt_leaves_its_result(fault: Exception) -> None:
    class Unpreviewable(Confined):
        async def preview(self, call: ToolCall) -> Any:
            raise fault

    tool = Unpreviewable(PYPI)
    harness = harness_with(tool, Answering([PYPI]))
    run(harness.run())
    assert (harness.result.text, tool.runs) == ("blocked", [()])
    harness.check()


@pytest.mark.parametrize("is_swallowed", [False, True])
def test_an_interrupt_at_the_question_leaves_the_result_of_the_first_attempt(
    is_swallowed: bool,
) -> None:
    class Interrupted:
        async def ask(self, request: ApprovalRequest) -> ApprovalDecision:
            running[0].cancel()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                if not is_swallowed:
                    raise
            return ApprovalDecision(allowed=True, actor="eva", access=request.access)

    async def main() -> None:
        running.append(asyncio.ensure_future(harness.run()))
        with suppress(asyncio.CancelledError):
            await running[0]

    running: list[asyncio.Future[Any]] = []
    tool, store = Confined(PYPI), MemoryStore()
    harness = harness_with(tool, Interrupted(), store=store)
    run(main())
    assert (harness.result.text, tool.runs) == ("blocked", [()])
    harness.check()
    assert run(replay(list(store.records(harness.conversation.id)))).is_same


def test_an_approver_that_fails_at_the_question_leaves_the_result_of_the_first_attempt() -> None:
    class Failing:
        async def ask(self, request: ApprovalRequest) -> ApprovalDecision:
            raise ValueError("bug")

    tool = Confined(PYPI)
    harness = harness_with(tool, Failing())
    with pytest.raises(ValueError, match="bug"):
        run(harness.run())
    assert harness.result.text == "blocked"
    assert last_approval(harness).payload.status is ApprovalStatus.DENIED


def test_a_call_whose_subjects_changed_is_not_repeated() -> None:
    class Changing(Confined):
        def subjects(self, call: ToolCall) -> tuple[Subject, ...]:
            text = f"make, after {len(self.runs)} runs"
            return (Subject(text=text, capability=Capability.EXECUTE, is_confined=True),)

    tool = Changing(PYPI)
    harness = harness_with(tool, Answering([PYPI]))
    run(harness.run())
    assert (harness.result.text, tool.runs) == ("blocked", [()])


def test_the_result_contains_the_details_of_earlier_attempts() -> None:
    class Detailed(Confined):
        async def run(self, call: ToolCall, context: ToolContext) -> ToolOutput:
            output = await super().run(call, context)
            return replace(output, details={"attempt": len(self.runs)})

    store = MemoryStore()
    harness = harness_with(Detailed(PYPI, NPM), Answering([PYPI], [NPM]), store=store)
    run(harness.run())
    attempts = [{"attempt": 1}, {"attempt": 2}]
    assert harness.result.details == {"attempt": 3, "attempts": attempts}
    assert run(replay(list(store.records(harness.conversation.id)))).is_same


def test_a_domain_can_be_allowed_for_the_session() -> None:
    turns = [
        turn_with_calls(call("c1", "bash", command="pip install a")),
        turn_with_calls(call("c2", "bash", command="pip install b")),
        "Done.",
    ]
    tool, approver = Confined(PYPI), Answering([PYPI], scope=GrantScope.SESSION)
    harness = harness_with(tool, approver, turns=turns, sign_text=lambda text: text[::-1])
    run(harness.run())
    assert tool.runs == [(), (PYPI,), (PYPI,)]
    assert len(approver.requests) == 1


def test_only_network_access_can_be_granted_for_longer_than_one_call() -> None:
    tool = Confined(HOOKS)
    approver = Answering([HOOKS], scope=GrantScope.SESSION, rule="bash")
    harness = harness_with(tool, approver, sign_text=lambda text: text)
    run(harness.run())
    assert "grant" not in last_approval(harness).audit


def test_rules_give_network_access_without_a_question() -> None:
    tool = Confined(PYPI)
    permissions = Permissions.of(allow=["bash", "network(pypi.org)"])
    harness = harness_with(tool, None, permissions=permissions)
    run(harness.run())
    assert tool.runs == [(PYPI,)]


@pytest.mark.parametrize("deny", ["network(pypi.org)", "network(*.org)", "network"])
def test_a_denied_domain_is_not_asked_about(deny: str) -> None:
    approver = Answering()
    permissions = Permissions.of(allow=["bash"], deny=[deny])
    harness = harness_with(Confined(PYPI), approver, permissions=permissions)
    run(harness.run())
    assert approver.requests == []


def test_a_rule_that_denies_the_network_gives_none() -> None:
    deny = [PermissionRule.parse("network")]
    assert find_network_access([PermissionRule.parse("network(pypi.org)")], deny) == ()
    assert find_network_access([PermissionRule.parse("network")]) == (
        SandboxAccess(AccessKind.NETWORK, "*"),
    )


def test_a_deny_rule_covers_every_port_of_a_domain() -> None:
    deny = [PermissionRule.parse("network(example.org)")]
    assert is_access_denied(SandboxAccess(AccessKind.NETWORK, "example.org:8443"), deny)
    assert not is_access_denied(SandboxAccess(AccessKind.NETWORK, "example.com:8443"), deny)
    assert not is_access_denied(HOOKS, deny)


@pytest.mark.parametrize(("deny", "target"), [("EVIL.com", "evil.com"), ("evil.com", "EVIL.com.")])
def test_a_deny_rule_covers_every_spelling_of_a_domain(deny: str, target: str) -> None:
    rules = [PermissionRule.parse(f"network({deny})")]
    assert is_access_denied(SandboxAccess(AccessKind.NETWORK, target), rules)


SECRETS = SandboxAccess(AccessKind.READ, "/home/ann/.ssh")


@pytest.mark.parametrize(
    ("access", "deny"),
    [
        (HOOKS, "write(.git/**)"),
        (HOOKS, "edit(/work/.git/hooks)"),
        (HOOKS, "write"),
        (HOOKS, "*(.git/hooks/*)"),
        (SandboxAccess(AccessKind.WRITE, "/work"), "write(private/**)"),
        (SandboxAccess(AccessKind.WRITE, "/"), "edit(private/a)"),
        (SECRETS, "read(/home/*/.ssh/id_*)"),
        (SECRETS, "read(/home/ann/**)"),
        (EVERYTHING, "read(private/**)"),
        (EVERYTHING, "write(private/**)"),
        (EVERYTHING, "network(evil.example)"),
    ],
)
def test_a_deny_rule_withholds_access_that_includes_what_it_denies(
    access: SandboxAccess, deny: str
) -> None:
    assert is_access_denied(access, [PermissionRule.parse(deny)], folder="/work")


@pytest.mark.parametrize(
    ("access", "deny"),
    [
        (HOOKS, "write(private/**)"),
        (HOOKS, "read(.git/**)"),
        (HOOKS, "write(/home/**)"),
        (SECRETS, "read(private/**)"),
        (SECRETS, "write(/home/ann/**)"),
        (EVERYTHING, "bash(rm *)"),
    ],
)
def test_a_deny_rule_about_something_else_withholds_nothing(
    access: SandboxAccess, deny: str
) -> None:
    assert not is_access_denied(access, [PermissionRule.parse(deny)], folder="/work")


def test_without_a_known_folder_a_relative_deny_rule_withholds_every_path() -> None:
    assert is_access_denied(HOOKS, [PermissionRule.parse("write(private/**)")])
    assert not is_access_denied(HOOKS, [PermissionRule.parse("write(/home/**)")])


@pytest.mark.parametrize("access", [PYPI, HOOKS, EVERYTHING])
def test_plan_mode_and_the_planner_role_widen_nothing(access: SandboxAccess) -> None:
    assert may_ask_for(access, Permissions(), Mode.ACT)
    assert not may_ask_for(access, Permissions(), Mode.PLAN)
    assert not may_ask_for(access, Permissions(role=AgentRole.PLANNER), Mode.ACT)


def test_only_a_single_domain_has_a_rule() -> None:
    assert suggest_access_rule([PYPI]) == "network(pypi.org)"
    for blocked in ([PYPI, NPM], [HOOKS], [SandboxAccess(AccessKind.NETWORK, "*")]):
        assert suggest_access_rule(blocked) == ""
    assert suggest_access_rule([SandboxAccess(AccessKind.NETWORK, "a)b")]) == ""


@pytest.mark.parametrize("answers", [[[PYPI], [NPM]], [[PYPI], None], [None]])
def test_a_replay_repeats_the_decisions_about_access(answers: Any) -> None:
    store = MemoryStore()
    harness = harness_with(Confined(PYPI, NPM), Answering(*answers), store=store)
    run(harness.run())
    records = list(store.records(harness.conversation.id))
    assert run(replay(records)).is_same


def test_a_call_is_not_run_again_if_the_program_ended_while_access_was_asked_for() -> None:
    store = MemoryStore()
    sessions: list[str] = []

    class Dying:
        async def ask(self, request: ApprovalRequest) -> ApprovalDecision:
            sessions.append(store.clone(harness.conversation.id).id)  # as it is on disk now
            return ApprovalDecision(allowed=True, actor="eva", access=request.access)

    harness = harness_with(Confined(PYPI), Dying(), store=store)
    run(harness.run())
    for session in sessions:
        tool = Confined()
        again = AgentHarness(["Done."], tool, store=store, conversation=store.open(session))
        run(again.run("Go on."))
        assert tool.runs == []
        assert result_code(again.results[0]) == ResultCode.OUTCOME_UNKNOWN


def test_a_call_is_not_run_again_if_the_program_ended_after_access_was_denied() -> None:
    store = MemoryStore()
    sessions: list[str] = []

    def keep(event: object) -> None:
        sessions.append(store.clone(harness.conversation.id).id)

    harness = harness_with(Confined(PYPI), Answering(None), store=store)
    run(harness.agent.run("Go.", on_event=keep))
    for session in sessions:
        conversation = store.open(session)
        if not any(decided_access(entry) for entry in conversation.entries()):
            continue
        if not conversation.outstanding:
            continue
        tool = Confined()
        again = AgentHarness(["Done."], tool, store=store, conversation=conversation)
        run(again.run("Go on."))
        assert tool.runs == []
        assert result_code(again.results[0]) == ResultCode.OUTCOME_UNKNOWN
        return
    raise AssertionError("no copy was taken between the decision and the result")


@pytest.mark.parametrize(
    "audit",
    [
        {"access": "network"},
        {"access": [{"kind": "root", "target": ""}]},
        {"access": [{"kind": "network"}]},
        {"access": [3]},
    ],
)
def test_an_odd_record_of_access_gives_none(audit: dict[str, Any]) -> None:
    harness = harness_with(Confined(), None)
    run(harness.run())
    entry = next(e for e in harness.conversation.entries() if e.decision == "approved")
    assert not decided_access(replace(entry, audit=audit))
