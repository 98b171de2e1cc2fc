"""Who may do what: modes, roles, rules, grants, and what a decision is bound to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from steno import ChatMessage, InvalidValue, ToolCall
from steno.agent.permissions.gate import CallbackApprover, Gate
from steno.agent.permissions.grants import (
    GrantSigner,
    SessionGrants,
    build_grant_audit,
    find_granted_rule,
    is_about_call,
)
from steno.agent.permissions.rules import (
    DENIED_PREFIX,
    MODE_CAPABILITIES,
    ROLE_CAPABILITIES,
    AgentRole,
    AutoRun,
    DecisionKind,
    PermissionRule,
    Permissions,
    build_denial_text,
)
from steno.agent.results import ResultCode
from steno.errors import ToolFailed
from steno.log.conversation import arguments_digest
from steno.messages.call import InvalidToolCall
from steno.ports import (
    ApprovalDecision,
    ApprovalRequest,
    Capability,
    GrantScope,
    Subject,
)
from steno.records.entry import Approval, ApprovalStatus, Entry, Mode
from steno.store import MemoryStore
from steno.tools.shell.command_parser import parse_command_line
from steno.tools.shell.command_subjects import LocatedPath, build_subjects
from tests.agent.permissions.stub_tools import (
    BASH,
    FETCH,
    READ,
    TOOLS,
    WRITE,
    Stub,
    SubjectStub,
    about,
    confined,
    subjects_of,
)

ALLOW, DENY, ASK = DecisionKind.ALLOW, DecisionKind.DENY, DecisionKind.ASK
DIGEST = "0" * 64


def rules(*texts: str) -> tuple[PermissionRule, ...]:
    return tuple([PermissionRule.parse(text) for text in texts])


# -- modes and roles -----------------------------------------------------------------------------


def test_every_mode_and_role_has_its_place_in_the_tables() -> None:
    assert set(MODE_CAPABILITIES) == set(Mode)
    assert set(ROLE_CAPABILITIES) == set(AgentRole)


@pytest.mark.parametrize("tool", [BASH, WRITE, FETCH], ids=lambda tool: tool.definition.name)
def test_plan_mode_denies_all_but_reading_despite_rules(tool: Stub) -> None:
    name = tool.definition.name
    decision = Permissions.of(allow=["*"]).decide(
        tool, about("a"), mode=Mode.PLAN, session_rules=rules(name), lasting_rules=rules(name)
    )
    assert (decision.kind, decision.rule) == (DENY, "mode plan")
    assert decision.reason.startswith("permission denied: plan mode allows reading only; ")


@pytest.mark.requirement("S2-14")
@pytest.mark.parametrize("mode", Mode)
def test_a_planner_reads_and_is_denied_the_rest_with_a_permission_error(mode: Mode) -> None:
    permissions = Permissions.of(role=AgentRole.PLANNER, allow=["*"])
    assert permissions.decide(READ, about("a"), mode=mode).kind is ALLOW
    for tool in (BASH, WRITE, FETCH):
        decision = permissions.decide(tool, about("a"), mode=mode)
        assert decision.kind is DENY
        assert decision.reason.startswith("permission denied: ")
        assert decision.rule == ("role planner" if mode is Mode.ACT else "mode plan")


@pytest.mark.requirement("S2-14")
def test_reading_can_be_denied_too() -> None:
    permissions = Permissions.of(role=AgentRole.PLANNER, deny=["read(secrets/**)"])
    decision = permissions.decide(READ, about("secrets/key"), mode=Mode.PLAN)
    assert (decision.kind, decision.rule) == (DENY, "deny read(secrets/**)")
    assert decision.code == ResultCode.DENIED_BY_RULE
    assert decision.reason.startswith(
        f"{DENIED_PREFIX}: the rule read(secrets/**) denies this call"
    )


def test_a_limit_is_described_before_there_is_a_call() -> None:
    assert Permissions().find_mode_denial(READ, Mode.PLAN) is None
    assert Permissions().find_mode_denial(BASH, Mode.ACT) is None
    limit = Permissions().find_mode_denial(BASH, Mode.PLAN)
    assert limit is not None
    assert limit.kind is DENY


# -- order ---------------------------------------------------------------------------------------


def test_reading_needs_no_approval_and_everything_else_does() -> None:
    permissions = Permissions()
    read = permissions.decide(READ, about("a"), mode=Mode.ACT)
    assert (read.kind, read.rule) == (ALLOW, "default read")
    for tool in (BASH, WRITE, FETCH):
        decision = permissions.decide(tool, about("a"), mode=Mode.ACT)
        assert (decision.kind, decision.rule) == (ASK, "")
        assert [subject.text for subject in decision.uncovered] == ["a"]


def test_reading_is_asked_about_where_nothing_is_allowed_by_default() -> None:
    permissions = Permissions(default_allow=frozenset())
    assert permissions.decide(READ, about("a"), mode=Mode.PLAN).kind is ASK


def test_a_deny_rule_wins_over_everything_that_allows() -> None:
    permissions = Permissions.of(allow=["bash"], deny=["bash(rm *)"])
    decision = permissions.decide(
        BASH,
        about("git log", "rm -rf /"),
        mode=Mode.ACT,
        session_rules=rules("bash"),
        lasting_rules=rules("bash"),
    )
    assert (decision.kind, decision.rule) == (DENY, "deny bash(rm *)")


@pytest.mark.parametrize(
    ("allow", "session", "standing", "named"),
    [
        (["bash(git *)"], ["bash"], ["bash"], "allow bash(git *)"),
        ([], ["bash(git log)"], ["bash"], "session grant bash(git log)"),
        ([], [], ["bash(git log)"], "standing grant bash(git log)"),
        (["bash(ls *)"], ["bash(git log)"], [], "session grant bash(git log)"),
        (["bash"], ["bash"], [], "allow bash"),
    ],
)
def test_the_first_that_allows_is_named(
    allow: list[str], session: list[str], standing: list[str], named: str
) -> None:
    decision = Permissions.of(allow=allow).decide(
        BASH,
        about("git log"),
        mode=Mode.ACT,
        session_rules=rules(*session),
        lasting_rules=rules(*standing),
    )
    assert (decision.kind, decision.rule) == (ALLOW, named)


def test_a_decision_by_several_rules_names_all_of_them() -> None:
    decision = Permissions.of(allow=["bash(git log *)"]).decide(
        BASH, about("git log", "ls"), mode=Mode.ACT, session_rules=rules("bash(ls)")
    )
    assert (decision.kind, decision.rule) == (
        ALLOW,
        "allow bash(git log *), session grant bash(ls)",
    )


@pytest.mark.parametrize(
    "subjects",
    [("git log", "rm -rf /"), ("git log", "\ngit log"), ("\ngit log",), ("gіt log",), ("",), ()],
)
def test_a_call_that_no_rule_covers_in_full_needs_approval(subjects: tuple[str, ...]) -> None:
    decision = Permissions.of(allow=["bash(git log *)"]).decide(
        BASH, about(*subjects), mode=Mode.ACT, lasting_rules=rules("bash(ls *)")
    )
    assert (decision.kind, decision.rule) == (ASK, "")


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("git log -1 --grep='a;b' 2>&1", ALLOW),
        ("git log && git log -2 | git log", ALLOW),
        ("git log; rm -rf /", DENY),
        ("git log\nrm -rf /", DENY),
        ("git log | xargs rm", DENY),
        ("git log & 'rm' -rf /", DENY),
        ("git log > ~/.bashrc", ASK),
        ("git log $(touch x)", ASK),
        ("git log `touch x`", ASK),
        ("git log <(touch x)", ASK),
        ('git log "$(rm x)', DENY),
        ("GIT_PAGER=x git log", ASK),
        ("g\u0456t log", ASK),
    ],
)
def test_a_command_line_passes_only_if_all_of_it_is_allowed(line: str, kind: DecisionKind) -> None:
    permissions = Permissions.of(allow=["bash(git log -*)"], deny=["bash(rm *)"])
    subjects = build_subjects(
        parse_command_line(line),
        text=line,
        locate=lambda _, path: LocatedPath(path, is_inside=True),
        is_confined=False,
    )
    decision = permissions.decide(shell(*subjects), about(), mode=Mode.ACT)
    assert decision.kind is kind


def test_a_command_that_cannot_be_parsed_needs_approval_if_a_deny_rule_may_match() -> None:
    permissions = Permissions.of(allow=["bash"], deny=["write", "bash(rm *)"])
    doubtful = permissions.decide(
        BASH, about("\n$(echo rm) x"), mode=Mode.ACT, session_rules=rules("bash")
    )
    assert (doubtful.kind, doubtful.rule) == (ASK, "deny bash(rm *)")
    assert permissions.decide(BASH, about("git log"), mode=Mode.ACT).kind is ALLOW
    without = Permissions.of(allow=["bash"], deny=["write"])
    assert without.decide(BASH, about("\n$(echo rm) x"), mode=Mode.ACT).kind is ALLOW


def test_a_tool_reports_a_call_that_it_cannot_interpret() -> None:
    call = ToolCall.create("any", {}, id="c1")
    with pytest.raises(ToolFailed):
        Permissions().decide(BASH, call, mode=Mode.ACT)
    assert Permissions().decide(BASH, call, mode=Mode.PLAN).kind is DENY


# -- laws ----------------------------------------------------------------------------------------

RULES = st.lists(
    st.sampled_from(
        rules(
            *("*", "bash", "bash(*)", "bash(a *)", "bash(a)", "write", "write(a/**)", "write(**)"),
            *("read", "read(a/*)", "fetch(**)", "b*(a)", "*(b *)", "*(**/b)"),
        )
    ),
    max_size=4,
).map(tuple)
SUBJECTS = st.lists(
    st.sampled_from(["a", "b", "a b", "a/b", "a/../b", "\na", "b c", ""]), max_size=3
)
SETTINGS = st.builds(
    Permissions,
    role=st.sampled_from(AgentRole),
    allow=RULES,
    deny=RULES,
    default_allow=st.frozensets(st.sampled_from(Capability)),
)


@given(SETTINGS, st.sampled_from(TOOLS), SUBJECTS, st.sampled_from(Mode), st.tuples(RULES, RULES))
def test_no_setting_allows_what_the_order_forbids(
    permissions: Permissions,
    tool: Stub,
    subjects: list[str],
    mode: Mode,
    grants: tuple[tuple[PermissionRule, ...], tuple[PermissionRule, ...]],
) -> None:
    session, standing = grants
    decision = permissions.decide(
        tool, about(*subjects), mode=mode, session_rules=session, lasting_rules=standing
    )
    name, capability = tool.definition.name, tool.capability
    reads_only = mode is Mode.PLAN or permissions.role is AgentRole.PLANNER
    if reads_only and capability is not Capability.READ:
        assert decision.kind is DENY
        return
    if any(rule.denies((name,), subjects_of(capability, *subjects)) for rule in permissions.deny):
        assert decision.kind is DENY
        return
    assert decision.kind is not DENY
    if decision.kind is ALLOW and capability not in permissions.default_allow:
        allowing = (*permissions.allow, *session, *standing)
        for subject in subjects_of(capability, *subjects):
            assert any(rule.covers(name, subject) for rule in allowing)
        assert any(rule.names_tool(name) for rule in allowing)


# -- the access of subjects ----------------------------------------------------------------------


def shell(*subjects: Subject, has_reading_calls: bool = True) -> Stub:
    return SubjectStub("bash", Capability.EXECUTE, subjects, has_reading_calls=has_reading_calls)


LISTING = replace(confined("ls src"), capability=Capability.READ)
TESTING = confined("pytest", is_routine=True)
BUILDING = confined("make")
LOG = Subject(text="log", capability=Capability.WRITE, rule_tool="write", is_confined=True)
SECRET = Subject(text=".env", capability=Capability.READ, rule_tool="read", is_protected=True)


def decided(
    permissions: Permissions, *subjects: Subject, mode: Mode = Mode.ACT, granted: Sequence[str] = ()
) -> tuple[DecisionKind, str]:
    decision = permissions.decide(
        shell(*subjects), about(), mode=mode, session_rules=rules(*granted)
    )
    return decision.kind, decision.rule


def test_commands_that_only_read_are_allowed_also_in_plan_mode() -> None:
    for mode in Mode:
        assert decided(Permissions(), LISTING, mode=mode) == (ALLOW, "default read")
    assert decided(Permissions(), LISTING, TESTING, mode=Mode.PLAN) == (DENY, "mode plan")
    assert decided(Permissions(), LISTING, LOG, mode=Mode.PLAN) == (DENY, "mode plan")
    planner = Permissions(role=AgentRole.PLANNER)
    assert decided(planner, LISTING) == (ALLOW, "default read")
    assert decided(planner, TESTING) == (DENY, "role planner")


def test_a_tool_without_reading_calls_is_denied_before_it_names_its_subjects() -> None:
    call = ToolCall.create("any", {}, id="c1")
    assert Permissions().decide(BASH, call, mode=Mode.PLAN).kind is DENY
    tool = shell(LISTING, has_reading_calls=False)
    assert Permissions().decide(tool, about(), mode=Mode.PLAN).kind is DENY
    assert Permissions().find_mode_denial(tool, Mode.PLAN) is not None
    assert Permissions().find_mode_denial(shell(), Mode.PLAN) is None


def test_routine_commands_are_allowed_in_a_sandbox_only() -> None:
    assert decided(Permissions(), TESTING, LISTING) == (ALLOW, "default routine, default read")
    assert decided(Permissions(), replace(TESTING, is_confined=False)) == (ASK, "")
    assert decided(Permissions(), TESTING, BUILDING) == (ASK, "")


@pytest.mark.parametrize(
    ("auto_run", "kinds"),
    [
        (AutoRun.ROUTINE, (ALLOW, ALLOW, ALLOW)),
        (AutoRun.READ, (ASK, ALLOW, ALLOW)),
        (AutoRun.NONE, (ASK, ASK, DENY)),
    ],
)
def test_a_setting_limits_which_commands_run_unasked(
    auto_run: AutoRun, kinds: tuple[DecisionKind, ...]
) -> None:
    permissions = Permissions(auto_run=auto_run)
    found = (
        decided(permissions, TESTING)[0],
        decided(permissions, LISTING)[0],
        decided(permissions, LISTING, mode=Mode.PLAN)[0],
    )
    assert found == kinds


def test_only_what_is_not_allowed_yet_is_asked_about() -> None:
    decision = Permissions().decide(shell(LISTING, TESTING, BUILDING), about(), mode=Mode.ACT)
    assert (decision.kind, decision.uncovered) == (ASK, (BUILDING,))
    assert decision.subjects == (LISTING, TESTING, BUILDING)


def test_no_rule_allows_a_protected_subject() -> None:
    wide = Permissions.of(allow=["*", "bash", "read", "read(.env)", "bash(make)"])
    assert decided(wide, SECRET, granted=["read(.env)", "bash"]) == (ASK, "")
    assert decided(wide, SECRET, mode=Mode.PLAN) == (ASK, "")
    assert decided(wide, replace(BUILDING, is_protected=True)) == (ASK, "")
    assert decided(wide, replace(TESTING, is_protected=True)) == (ASK, "")
    assert decided(Permissions.of(deny=["read(.env)"]), SECRET) == (DENY, "deny read(.env)")


@pytest.mark.parametrize("rule", ["bash", "bash(*)", "bash(m*)", "bash(make *)", "*"])
def test_a_grant_of_several_commands_counts_in_a_sandbox_only(rule: str) -> None:
    outside = replace(BUILDING, is_confined=False)
    assert decided(Permissions(), BUILDING, granted=[rule])[0] is ALLOW
    assert decided(Permissions(), outside, granted=[rule])[0] is ASK
    assert decided(Permissions.of(allow=[rule]), outside)[0] is ALLOW
    decision = Permissions().decide(
        shell(outside), about(), mode=Mode.ACT, lasting_rules=rules(rule)
    )
    assert decision.kind is ASK


def test_a_grant_of_one_command_always_counts() -> None:
    outside = replace(BUILDING, is_confined=False)
    assert decided(Permissions(), outside, granted=["bash(make)"])[0] is ALLOW


def test_a_redirection_is_covered_by_rules_for_files_or_for_every_call() -> None:
    for rule in ("write(log)", "write", "write(*.txt)", "bash", "bash(log)", "bash(*g)"):
        kind = ALLOW if rule in ("write(log)", "write", "bash") else ASK
        assert decided(Permissions.of(allow=[rule]), LISTING, LOG)[0] is kind
    assert decided(Permissions.of(deny=["write(log)"]), LISTING, LOG)[0] is DENY
    assert decided(Permissions.of(deny=["write"]), LISTING, LOG)[0] is DENY
    assert decided(Permissions.of(deny=["bash(log)"]), LISTING, LOG)[0] is ASK
    outside = replace(LOG, is_confined=False)
    assert decided(Permissions(), outside, granted=["write(*)"])[0] is ALLOW
    assert decided(Permissions(), outside, granted=["bash"])[0] is ASK


def test_a_deny_rule_for_reading_applies_to_the_files_of_a_command() -> None:
    operand = Subject(text="keys/a", capability=Capability.READ, rule_tool="read")
    permissions = Permissions.of(deny=["read(keys/**)"])
    assert decided(permissions, LISTING, operand)[0] is DENY
    unknown = replace(operand, is_unknown=True)
    assert decided(permissions, LISTING, unknown)[0] is ASK
    assert decided(Permissions(), LISTING, unknown)[0] is ALLOW
    assert decided(Permissions.of(deny=["bash(keys/**)"]), LISTING, unknown)[0] is ALLOW


def test_a_deny_rule_covers_options_and_assignments() -> None:
    permissions = Permissions.of(deny=["bash(rm *)"], allow=["bash"])
    for command in ("rm -rf x", "rm", "A=1 rm -rf x", "A=1 B='c d' rm x"):
        assert decided(permissions, confined(command))[0] is DENY
    for command in ("rmdir x", "echo rm x", "A=rm x"):
        assert decided(permissions, confined(command))[0] is ALLOW


# -- wrong types ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "build",
    [
        lambda: Permissions.of(deny=cast("Any", "bash")),
        lambda: Permissions.of(allow=cast("Any", None)),
        lambda: Permissions.of(allow=cast("Any", [b"bash"])),
        lambda: Permissions.of(role=cast("Any", "planner")),
        lambda: Permissions(deny=cast("Any", ("bash",))),
        lambda: Permissions(deny=cast("Any", "bash")),
        lambda: Permissions(allow=cast("Any", [PermissionRule.parse("bash")])),
        lambda: Permissions(default_allow=cast("Any", {"read"})),
        lambda: Permissions(auto_run=cast("Any", "routine")),
        lambda: Gate(cast("Any", ["bash"])),
        lambda: Gate(cast("Any", CallbackApprover(lambda _: True))),
        lambda: Gate(approver=cast("Any", lambda _: True)),
        lambda: Gate(approver=cast("Any", CallbackApprover)),
        lambda: Gate(grants=cast("Any", ["bash"])),
        lambda: Gate(sign_text=cast("Any", "key")),
    ],
)
def test_an_argument_of_the_wrong_type_is_refused_at_once(build: Callable[[], object]) -> None:
    with pytest.raises(InvalidValue) as refused:
        build()
    assert refused.value.code == "wrong_type"
    assert refused.value.place.partition(".")[0] in ("permissions", "gate")


@pytest.mark.parametrize(
    ("rule", "code"),
    [
        ("read(../x)", "rule_path_parent"),
        ("write(src/../x)", "rule_path_parent"),
        ("read(~/.ssh/**)", "rule_path_home"),
        ("grep(a//b)", "rule_path_empty_name"),
    ],
)
def test_a_rule_that_can_never_match_is_refused(rule: str, code: str) -> None:
    with pytest.raises(InvalidValue) as refused:
        Permissions.of(deny=[rule])
    assert (refused.value.place, refused.value.code) == ("rule", code)


# -- grants of a session -------------------------------------------------------------------------


def approval(
    audit: dict[str, object] | None,
    *,
    status: ApprovalStatus = ApprovalStatus.APPROVED,
    actor: str | None = "ada",
    rule: str | None = None,
) -> Entry:
    payload = Approval(call_id="c1", status=status, arguments_sha256=DIGEST, actor=actor, rule=rule)
    return Entry(id="e1", payload=payload, audit=audit)


TRUSTING = GrantSigner(trusts_record=True)
SESSION: dict[str, object] = {"scope": "session", "grant": "bash(git log *)"}


def test_a_grant_is_read_from_the_entry_of_its_approval() -> None:
    other: dict[str, object] = {"scope": "session", "grant": "write"}
    entries = [approval(SESSION), approval(None), approval(other), approval(SESSION)]
    assert SessionGrants(entries, signer=TRUSTING).rules == rules("bash(git log *)", "write")
    growing = SessionGrants(signer=TRUSTING)
    for entry in entries:
        growing.add(entry)
    assert growing.rules == SessionGrants(entries, signer=TRUSTING).rules


@pytest.mark.parametrize(
    "entry",
    [
        approval(SESSION, status=ApprovalStatus.DENIED),
        approval(SESSION, status=ApprovalStatus.PENDING, actor=None),
        approval(SESSION, actor=None, rule="default read"),
        approval({"scope": "once", "grant": "bash"}),
        approval({"scope": "project", "grant": "bash"}),
        approval({"grant": "bash"}),
        approval({"scope": "session"}),
        approval({"scope": "session", "grant": "bash()"}),
        approval({"scope": "session", "grant": ["bash"]}),
        Entry(id="e1", payload=ChatMessage.user("Hi"), audit=SESSION),
    ],
)
def test_nothing_else_on_record_grants_anything(entry: Entry) -> None:
    assert SessionGrants([entry], signer=TRUSTING).rules == ()


def test_a_grant_outlives_its_process_and_stays_in_its_branch() -> None:
    store = MemoryStore()
    conversation = store.new(id="s")
    start = conversation.append(ChatMessage.user("Hi"))
    call = ToolCall.create("bash", {"command": "git log -1"}, id="c1")
    conversation.append(ChatMessage.assistant(None, [call]))
    conversation.append(
        Approval(
            call_id="c1",
            status=ApprovalStatus.APPROVED,
            arguments_sha256=arguments_digest(call),
            actor="ada",
        ),
        audit=build_grant_audit(PermissionRule.parse("bash(git log *)"), GrantScope.SESSION),
    )
    again = store.open("s")
    assert SessionGrants(again.entries(), signer=TRUSTING).rules == rules("bash(git log *)")
    again.fork("other", at=start.id)
    assert SessionGrants(again.entries("other"), signer=TRUSTING).rules == ()


# -- verdicts ------------------------------------------------------------------------------------

CALL = ToolCall(id="c1", name="bash", arguments='{"command": "git log"}')


def question(rule: str = "bash(git log *)") -> ApprovalRequest:
    return ApprovalRequest(call=CALL, capability=Capability.EXECUTE, rule=rule)


def test_a_verdict_grants_its_rule_or_that_of_the_question() -> None:
    wider = ApprovalDecision(allowed=True, actor="ada", scope=GrantScope.SESSION)
    assert find_granted_rule(wider, question()) == PermissionRule.parse("bash(git log *)")
    own = ApprovalDecision(allowed=True, actor="ada", scope=GrantScope.USER, rule="bash")
    assert find_granted_rule(own, question()) == PermissionRule.parse("bash")
    with pytest.raises(InvalidValue):
        find_granted_rule(
            ApprovalDecision(allowed=True, actor="a", scope=GrantScope.USER, rule="b("), question()
        )


@pytest.mark.parametrize(
    ("verdict", "rule"),
    [
        (ApprovalDecision(allowed=True, actor="ada"), "bash"),
        (ApprovalDecision(allowed=False, actor="ada", scope=GrantScope.USER), "bash"),
        (ApprovalDecision(allowed=True, actor="ada", scope=GrantScope.USER), ""),
        (ApprovalDecision(allowed=True, actor="ada", scope=GrantScope.USER, rule=""), "bash"),
    ],
)
def test_other_verdicts_are_about_the_one_call(verdict: ApprovalDecision, rule: str) -> None:
    assert find_granted_rule(verdict, question(rule)) is None


def test_the_denial_text_names_the_reason() -> None:
    denied = ApprovalDecision(allowed=False, actor="ada", reason="use git status")
    assert build_denial_text(denied) == "permission denied: use git status"
    assert build_denial_text(ApprovalDecision(allowed=False, actor="ada")).startswith(
        "permission denied: "
    )


def test_a_decision_is_bound_to_the_exact_arguments() -> None:
    decided = Approval(
        call_id="c1",
        status=ApprovalStatus.APPROVED,
        arguments_sha256=arguments_digest(CALL),
        actor="ada",
    )
    assert is_about_call(decided, CALL)
    spaced = ToolCall(id="c1", name="bash", arguments='{"command":"git log"}')
    renamed = ToolCall(id="c2", name="bash", arguments=CALL.arguments)
    assert not is_about_call(decided, spaced)
    assert not is_about_call(decided, renamed)
    broken = InvalidToolCall(id="c1", arguments='{"command', reason="cut short")
    assert not is_about_call(decided, broken)


def test_the_log_binds_its_decisions_in_the_same_way() -> None:
    conversation = MemoryStore().new()
    conversation.append(ChatMessage.user("Hi"))
    conversation.append(ChatMessage.assistant(None, [CALL]))
    entry = conversation.decide("c1", ApprovalStatus.APPROVED, actor="ada")
    assert isinstance(entry.payload, Approval)
    assert is_about_call(entry.payload, CALL)
