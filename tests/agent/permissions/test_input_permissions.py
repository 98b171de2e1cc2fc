"""Permissions of references: the rules for tools, and the approver."""

from __future__ import annotations

from pathlib import Path

import pytest

from steno import ChatMessage
from steno.agent import (
    AgentRole,
    ApprovalDecision,
    ApprovalRequest,
    ApprovalRequested,
    CallbackApprover,
    EndReason,
    Gate,
    GrantScope,
    Permissions,
)
from steno.agent.recorder import RunRecorder, ignore_event
from steno.agent.resolve_references import build_input_authorizer
from steno.agent.results import ResultCode
from steno.errors import ToolFailed, Unresolved
from steno.inputs.references import InputResolver
from steno.log.conversation import Conversation
from steno.messages.content import Image, ImageUrl, Resource
from steno.ports import Capability
from steno.records.entry import Approval, Mode, Resolution
from steno.tools.workspace import Workspace
from steno.transport.http import HttpTransport
from tests.agent.agent_setup import AgentHarness, run
from tests.agent.reference_doubles import (
    NOTES,
    FakeResources,
    agent_in,
    details,
    file_reference,
    image_file,
    payloads,
    prompt_with,
    text_in_message,
)
from tests.inputs.images.image_samples import encode_image, red_image
from tests.inputs.mcp.resource_doubles import ManualClock, ResourceServer, text_resource
from tests.transport.http_server import reply, run_server

URL = "https://pictures.example/a/shot.png"
RULE = "fetch(https://pictures.example/**)"


class RecordingGrants:
    """Keeps what is allowed for longer than a session (`GrantStore`)."""

    def __init__(self) -> None:
        self.added: list[tuple[str, GrantScope]] = []

    def rules(self) -> tuple[str, ...]:
        return tuple([rule for rule, _ in self.added])

    def add(self, rule: str, scope: GrantScope) -> None:
        self.added.append((rule, scope))


class Person:
    """A scripted approver that records its questions (`Approver`)."""

    def __init__(
        self,
        *,
        allowed: bool = True,
        scope: GrantScope = GrantScope.ONCE,
        reason: str | None = None,
    ) -> None:
        self._verdict = ApprovalDecision(allowed=allowed, actor="ada", scope=scope, reason=reason)
        self.asked: list[ApprovalRequest] = []

    async def ask(self, question: ApprovalRequest) -> ApprovalDecision:
        self.asked.append(question)
        return self._verdict


async def fetch(gate: Gate, url: str = URL, mode: Mode = Mode.ACT, *, session: str = "s1") -> str:
    """Ask whether an address may be fetched."""
    conversation = Conversation([ChatMessage.system("Work.")], id=session)
    if mode is not Mode.ACT:
        conversation.change_mode(mode)
    permits = build_input_authorizer(gate, RunRecorder(conversation, ignore_event))
    return await permits("fetch", Capability.NETWORK, url, preview=f"fetch {url}")


# -- files ---------------------------------------------------------------------------------------


@pytest.mark.requirement("S2-11", "S2-14")
@pytest.mark.parametrize("path", ["secret/key.txt", "./secret/../secret/key.txt", "link.txt"])
def test_a_file_that_the_model_may_not_read_cannot_be_pointed_at_either(
    tmp_path: Path, path: str
) -> None:
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "key.txt").write_text("hunter2\n")
    (tmp_path / "link.txt").symlink_to("secret/key.txt")
    gate = Gate(Permissions.of(deny=["read(secret/**)"]))
    harness = agent_in(tmp_path, ["Never."], gate=gate)
    result = run(harness.run(prompt_with("Look.", file_reference(path))))
    assert isinstance(result.error, Unresolved)
    assert "permission denied" in result.reason
    assert "read(secret/**)" in result.reason
    assert harness.provider.requests == []
    assert "hunter2" not in str([r.entry for r in harness.store.records(harness.conversation.id)])


@pytest.mark.requirement("S2-14")
def test_an_image_and_each_file_of_a_pattern_go_by_the_same_rules(tmp_path: Path) -> None:
    (tmp_path / "plan.png").write_bytes(encode_image(red_image()))
    (tmp_path / "a.py").write_text("a = 1\n")
    (tmp_path / "b.py").write_text("b = 1\n")
    gate = Gate(Permissions.of(deny=["read(plan.png)", "read(b.py)"]))
    harness = agent_in(tmp_path, ["Never."], gate=gate)
    for pointer in (image_file(), file_reference("*.py")):
        result = run(harness.run(prompt_with("Look.", pointer)))
        assert "permission denied" in result.reason
    assert harness.provider.requests == []


@pytest.mark.requirement("S2-14")
@pytest.mark.parametrize("mode", Mode)
@pytest.mark.parametrize("role", AgentRole)
def test_plan_mode_allows_file_references(tmp_path: Path, mode: Mode, role: AgentRole) -> None:
    (tmp_path / "a.py").write_text("a = 1\n")
    harness = agent_in(tmp_path, ["I see."], gate=Gate(Permissions.of(role=role)))
    if mode is Mode.PLAN:
        harness.conversation.change_mode(mode)
    assert (
        run(harness.run(prompt_with("Look.", file_reference("a.py")))).end_reason is EndReason.DONE
    )
    assert "a = 1" in text_in_message(harness.provider.requests[0])
    (found,) = details(harness)
    assert found["allowed_by"] == "default read"
    assert payloads(harness, Approval) == []


# -- addresses -----------------------------------------------------------------------------------


@pytest.mark.requirement("S2-14")
@pytest.mark.parametrize("limit", ["mode", "role"])
def test_plan_mode_denies_the_network(limit: str) -> None:
    role = AgentRole.PLANNER if limit == "role" else AgentRole.ACTOR
    mode = Mode.PLAN if limit == "mode" else Mode.ACT
    person = Person()
    gate = Gate(Permissions.of(role=role, allow=["fetch"]), person)
    with pytest.raises(ToolFailed) as caught:
        run(fetch(gate, mode=mode))
    assert caught.value.code == f"denied_by_{limit}"
    assert person.asked == []


def test_without_an_approver_the_error_names_the_rule_that_would_allow_it() -> None:
    with pytest.raises(ToolFailed) as caught:
        run(fetch(Gate()))
    assert caught.value.code == ResultCode.NO_APPROVER
    assert RULE in caught.value.message
    assert run(fetch(Gate(Permissions.of(allow=[RULE])))) == f"allow {RULE}"


def test_a_person_is_asked_about_an_address_with_what_there_is_to_know() -> None:
    person = Person()
    assert run(fetch(Gate(approver=person))) == "ada"
    (question,) = person.asked
    assert (question.call.name, question.capability) == ("fetch", Capability.NETWORK)
    assert ([each.text for each in question.subjects], question.preview.text, question.rule) == (
        [URL],
        f"fetch {URL}",
        RULE,
    )


def test_a_call_allowed_once_is_asked_about_again() -> None:
    person = Person()
    gate = Gate(approver=person)
    run(fetch(gate))
    run(fetch(gate))
    assert len(person.asked) == 2


def test_a_session_grant_covers_only_its_rule_and_is_asked_once() -> None:
    person = Person(scope=GrantScope.SESSION)
    gate = Gate(approver=person)
    run(fetch(gate))
    assert run(fetch(gate, "https://pictures.example/b.png")) == f"session grant {RULE}"
    assert len(person.asked) == 1
    run(fetch(gate, "https://elsewhere.example/b.png"))
    assert len(person.asked) == 2


def test_a_grant_of_one_session_does_not_apply_to_another() -> None:
    person = Person(scope=GrantScope.SESSION)
    gate = Gate(approver=person)
    run(fetch(gate))
    run(fetch(gate, session="s2"))
    assert len(person.asked) == 2


def test_a_project_grant_is_stored_for_other_sessions() -> None:
    grants = RecordingGrants()
    run(fetch(Gate(approver=Person(scope=GrantScope.PROJECT), grants=grants)))
    assert grants.added == [(RULE, GrantScope.PROJECT)]
    assert run(fetch(Gate(grants=grants))) == f"standing grant {RULE}"


@pytest.mark.requirement("S2-18")
@pytest.mark.parametrize("scope", [GrantScope.PROJECT, GrantScope.USER])
def test_a_revoked_permanent_grant_needs_approval_again(
    scope: GrantScope,
) -> None:
    grants, person = RecordingGrants(), Person(scope=scope)
    gate = Gate(approver=person, grants=grants)
    run(fetch(gate))
    run(fetch(gate))
    assert len(person.asked) == 1
    grants.added.clear()
    run(fetch(gate))
    assert len(person.asked) == 2


def test_a_deny_rule_counts_whatever_was_allowed_for_the_session() -> None:
    person = Person(scope=GrantScope.SESSION)
    deny = ["fetch(https://pictures.example/private/**)"]
    gate = Gate(Permissions.of(deny=deny), person)
    run(fetch(gate))
    with pytest.raises(ToolFailed) as caught:
        run(fetch(gate, "https://pictures.example/private/a.png"))
    assert caught.value.code == ResultCode.DENIED_BY_RULE
    assert len(person.asked) == 1


def test_a_denial_has_its_reason_and_is_asked_again_next_time() -> None:
    person = Person(allowed=False, reason="not from there")
    gate = Gate(approver=person)
    for _ in range(2):
        with pytest.raises(ToolFailed) as caught:
            run(fetch(gate))
        assert caught.value.code == ResultCode.DENIED_BY_APPROVER
        assert "ada: not from there" in caught.value.message
    assert len(person.asked) == 2


def test_an_image_is_fetched_only_with_a_yes_and_who_gave_it_is_on_record(tmp_path: Path) -> None:
    async def talk(harness: AgentHarness, person: Person) -> None:
        async with run_server(reply(200, encode_image(red_image()), "image/png")) as server:
            image = Image(source=ImageUrl(f"{server.url}/shot.png"))
            result = await harness.run(prompt_with("Look.", image))
            if person.asked and result.end_reason is EndReason.DONE:
                assert [seen.path for seen in server.seen] == ["/shot.png"]
            else:
                assert server.seen == []

    for allowed in (True, False):
        person = Person(allowed=allowed)
        inputs = InputResolver(Workspace(tmp_path), transport=lambda: HttpTransport(environ={}))
        harness = AgentHarness(["Red."], resolver=inputs, gate=Gate(approver=person))
        run(talk(harness, person))
        assert len(person.asked) == len(harness.events_of(ApprovalRequested)) == 1
        assert len(harness.provider.requests) == int(allowed)
        assert payloads(harness, Approval) == []  # it was no call of the model
        (found,) = details(harness)
        assert found.get("allowed_by") == ("ada" if allowed else None)
        harness.check()


@pytest.mark.parametrize("error", [OSError("no terminal"), ToolFailed("not mine")])
def test_a_failing_approver_allows_nothing_and_the_session_continues(
    tmp_path: Path, error: Exception
) -> None:
    def fail(_: object) -> bool:
        raise error

    inputs = InputResolver(Workspace(tmp_path), transport=lambda: HttpTransport(environ={}))
    harness = AgentHarness(["Hello."], resolver=inputs, gate=Gate(approver=CallbackApprover(fail)))
    prompt = prompt_with("Look.", Image(source=ImageUrl("https://127.0.0.1/shot.png")))
    if isinstance(error, OSError):
        with pytest.raises(OSError, match="no terminal"):
            run(harness.run(prompt))
    else:
        assert isinstance(run(harness.run(prompt)).error, Unresolved)
    (resolution,) = payloads(harness, Resolution)
    assert resolution.error is not None
    assert run(harness.run("Hi.")).end_reason is EndReason.DONE
    harness.check()


# -- servers -------------------------------------------------------------------------------------


@pytest.mark.requirement("S2-30")
@pytest.mark.parametrize(
    ("deny", "uri", "is_denied"),
    [
        ("mcp__lib", "lib://notes", True),
        ("mcp__*", "lib://notes", True),
        ("mcp__lib(lib://private/**)", "lib://private/diary", True),
        ("mcp__lib(lib://private/**)", "lib://notes", False),
        ("mcp__other", "lib://notes", False),
    ],
)
def test_resources_go_by_the_rules_for_their_server(deny: str, uri: str, is_denied: bool) -> None:
    library = ResourceServer(holds={uri: text_resource("what is there")})
    gate = Gate(Permissions.of(deny=[deny]))
    harness = AgentHarness(["I see."], resolver=FakeResources(library, ManualClock()), gate=gate)
    result = run(harness.run(prompt_with("Look.", Resource(server="lib", uri=uri))))
    assert isinstance(result.error, Unresolved) is is_denied
    assert library.reads == ([] if is_denied else [uri])
    assert payloads(harness, Approval) == []


def test_a_reference_that_is_no_longer_allowed_is_not_read_again(tmp_path: Path) -> None:
    library, clock = (
        ResourceServer(holds={NOTES.uri: text_resource("what is there")}),
        ManualClock(),
    )
    first = AgentHarness(["One."], resolver=FakeResources(library, clock))
    run(first.run(prompt_with("Look.", NOTES)))
    clock.turn(3_600)
    second = AgentHarness(
        ["Two."],
        store=first.store,
        conversation=first.conversation,
        resolver=FakeResources(library, clock),
        gate=Gate(Permissions.of(deny=["mcp__lib"])),
    )
    assert run(second.run("And now?")).end_reason is EndReason.DONE
    assert library.reads == [NOTES.uri]
