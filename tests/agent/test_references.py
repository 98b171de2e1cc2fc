"""References of a prompt are resolved before the request; if that fails, nothing is sent."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from steno import Conversation, UserMessage
from steno.agent import EndReason, SteeringPolicy
from steno.errors import Unresolved
from steno.messages.content import FileReference, Resource
from steno.messages.request import Request
from steno.records.entry import Resolution, ResolutionStatus, Rewind
from steno.store import MemoryStore
from steno.wire import WIRES, load_wire
from tests.agent.agent_setup import AgentHarness, call, read_tool, run, turn_with_calls
from tests.agent.reference_doubles import (
    NOTES,
    FakeResources,
    agent_in,
    details,
    entry_kinds,
    file_reference,
    image_file,
    notices,
    payloads,
    prompt_with,
    recorded_kinds,
    statuses,
    text_in_message,
    unsent_prompt,
)
from tests.inputs.images.image_samples import encode_image, red_image
from tests.inputs.mcp.resource_doubles import ManualClock, ResourceServer, text_resource

RESOLVED, FAILED = ResolutionStatus.RESOLVED, ResolutionStatus.FAILED


# -- what the model is asked ---------------------------------------------------------------------


@pytest.mark.requirement("S2-11")
@pytest.mark.parametrize("is_absolute", [False, True])
def test_a_file_is_on_record_before_the_model_is_asked_and_shown_to_it(
    tmp_path: Path, is_absolute: bool
) -> None:
    (tmp_path / "a.py").write_text("one = 1\ntwo = 2\n")
    seen: list[list[str]] = []

    def answer(_: Request) -> str:
        seen.append(recorded_kinds(harness))
        return "I see."

    harness = agent_in(tmp_path, [answer])
    path = str(tmp_path / "a.py") if is_absolute else "a.py"
    prompt = prompt_with("Explain.", file_reference(path, 2))
    result = run(harness.run(prompt))
    assert (result.end_reason, result.text) == (EndReason.DONE, "I see.")
    assert seen == [["SystemMessage", "UserMessage", "Resolution resolved"]]
    assert prompt in harness.conversation.messages()  # as it was typed
    (request,) = harness.provider.requests
    assert "two = 2" in text_in_message(request)
    assert "one = 1" not in text_in_message(request)
    assert not any(isinstance(block, FileReference) for block in request.messages[-1].content)
    harness.check()


@pytest.mark.requirement("S2-30")
def test_a_resource_of_a_server_is_put_on_the_active_branch_and_shown() -> None:
    library = ResourceServer(holds={NOTES.uri: text_resource("Ship on Friday.")})
    harness = AgentHarness(["Noted."], resolver=FakeResources(library, ManualClock()))
    harness.conversation.fork("side")
    harness.conversation.switch("side")
    run(harness.run(prompt_with("When?", NOTES)))
    assert library.reads == [NOTES.uri]
    assert entry_kinds(harness.conversation.entries("side"))[-3:] == [
        *("UserMessage", "Resolution resolved", "AssistantMessage")
    ]
    assert entry_kinds(harness.conversation.entries("main")) == ["SystemMessage"]
    assert "Ship on Friday." in text_in_message(harness.provider.requests[0])
    (found,) = details(harness)
    assert (found["server"], found["uri"]) == ("lib", NOTES.uri)
    assert found["retrieved_at"].startswith("2026-05-06T12:00")


@pytest.mark.requirement("S2-29")
@pytest.mark.parametrize("wire", WIRES)
def test_the_real_path_of_a_reference_is_sent_on_no_wire(tmp_path: Path, wire: str) -> None:
    (tmp_path / "a.py").write_text("answer = 42\n")
    (tmp_path / "plan.png").write_bytes(encode_image(red_image()))
    harness = agent_in(tmp_path, ["I see."])
    prompt = prompt_with(
        "Look.", file_reference(str(tmp_path / "a.py")), image_file(str(tmp_path / "plan.png"))
    )
    run(harness.run(prompt))
    sent = load_wire(wire).encode_request(harness.provider.requests[0], stream=True).body
    assert b"answer = 42" in sent
    assert str(tmp_path).encode() not in sent
    first, second = details(harness)
    for secret in (first["sha256"], second["sha256"], first["allowed_by"], "duration_s"):
        assert secret.encode() not in sent


def test_everything_that_a_prompt_points_at_is_opened_in_its_order(tmp_path: Path) -> None:
    for name in "abc":
        (tmp_path / name).write_text(f"this is {name}\n")
    harness = agent_in(tmp_path, ["I see."])
    run(
        harness.run(
            prompt_with("Compare.", file_reference("c"), file_reference("a"), file_reference("b"))
        )
    )
    assert [found["path"] for found in details(harness)] == ["c", "a", "b"]
    text = text_in_message(harness.provider.requests[0])
    assert text.index("this is c") < text.index("this is a") < text.index("this is b")


def test_without_a_resolver_only_names_are_shown(tmp_path: Path) -> None:
    harness = agent_in(tmp_path, ["I see."], resolver=None)
    assert (
        run(harness.run(prompt_with("Look.", file_reference("a.py")))).end_reason is EndReason.DONE
    )
    assert payloads(harness, Resolution) == []


def test_a_resource_with_its_text_in_the_message_is_shown_without_asking_a_server() -> None:
    library = ResourceServer()
    harness = AgentHarness(["I see."], resolver=FakeResources(library, ManualClock()))
    run(
        harness.run(
            prompt_with("Look.", Resource(server="lib", uri="lib://x", text="in the message"))
        )
    )
    assert library.reads == []
    assert "in the message" in text_in_message(harness.provider.requests[0])


# -- a prompt that cannot be opened --------------------------------------------------------------


@pytest.mark.requirement("S2-11")
def test_nothing_is_sent_if_something_cannot_be_opened_and_the_branch_is_as_before(
    tmp_path: Path,
) -> None:
    harness = agent_in(tmp_path, ["Hello.", "Never."])
    run(harness.run("Hi."))
    messages = harness.conversation.messages()
    prompt = prompt_with("Explain.", file_reference("gone.py"))
    result = run(harness.run(prompt))
    assert result.end_reason is EndReason.FAILED
    assert isinstance(result.error, Unresolved)
    assert result.error.code == "unresolved"
    assert "gone.py" in result.reason
    assert len(harness.provider.requests) == 1
    assert recorded_kinds(harness)[-3:] == ["UserMessage", "Resolution failed", "Rewind"]
    assert harness.conversation.messages() == messages
    assert unsent_prompt(harness.conversation) == prompt
    harness.check()


@pytest.mark.requirement("S2-11", "S2-28")
def test_an_unsent_prompt_can_be_sent_once_the_file_exists(tmp_path: Path) -> None:
    harness = agent_in(tmp_path, ["I see."])
    run(harness.run(prompt_with("Explain.", file_reference("late.py"))))
    (tmp_path / "late.py").write_text("late = True\n")
    prompt = unsent_prompt(harness.conversation)
    assert prompt is not None
    assert run(harness.run(prompt)).end_reason is EndReason.DONE
    assert "late = True" in text_in_message(harness.provider.requests[0])
    assert [m for m in harness.conversation.messages() if isinstance(m, UserMessage)] == [prompt]
    assert statuses(harness) == [FAILED, RESOLVED]
    assert unsent_prompt(harness.conversation) is None
    harness.check()


def test_of_several_references_all_are_sent_or_none_and_all_errors_are_reported(
    tmp_path: Path,
) -> None:
    (tmp_path / "a.py").write_text("a = 1\n")
    harness = agent_in(tmp_path, ["Never."])
    result = run(
        harness.run(
            prompt_with(
                "Look.", file_reference("no.py"), file_reference("a.py"), file_reference("a.py", 7)
            )
        )
    )
    assert harness.provider.requests == []
    assert statuses(harness) == [FAILED, RESOLVED, FAILED]
    assert "no.py" in result.reason
    assert "line" in result.reason
    harness.check()


def test_a_prompt_that_begins_a_conversation_is_taken_back_too(tmp_path: Path) -> None:
    store = MemoryStore()
    harness = agent_in(tmp_path, ["Hello."], store=store, conversation=store.new())
    prompt = prompt_with("Look.", file_reference("late.py"))
    assert isinstance(run(harness.run(prompt)).error, Unresolved)
    assert recorded_kinds(harness) == ["ModeChange", "UserMessage", "Resolution failed", "Rewind"]
    assert unsent_prompt(harness.conversation) == prompt
    assert run(harness.run("Hello?")).end_reason is EndReason.DONE
    assert [message.text for message in harness.provider.requests[0].messages] == ["Hello?"]
    harness.check()


def unanswered(folder: Path, turns: list[Any], *messages: UserMessage) -> AgentHarness:
    """Return a harness whose program ended before these references were resolved."""
    store = MemoryStore()
    return agent_in(folder, turns, store=store, conversation=store.new(messages))


def test_references_of_an_unanswered_prompt_are_opened_by_a_run_without_prompt(
    tmp_path: Path,
) -> None:
    harness = unanswered(tmp_path, ["I see."], prompt_with("Look.", file_reference("late.py")))
    assert isinstance(run(harness.run(None)).error, Unresolved)
    (tmp_path / "late.py").write_text("late = True\n")
    assert run(harness.run(None)).end_reason is EndReason.DONE
    assert "late = True" in text_in_message(harness.provider.requests[0])
    harness.check()


def test_without_a_prompt_what_fails_again_is_not_sent_either(tmp_path: Path) -> None:
    harness = unanswered(tmp_path, ["Never."], prompt_with("Look.", file_reference("gone.py")))
    for _ in range(2):
        assert isinstance(run(harness.run(None)).error, Unresolved)
    assert harness.provider.requests == []
    assert statuses(harness) == [FAILED, FAILED]
    assert payloads(harness, Rewind) == []


def test_another_prompt_instead_is_sent_with_the_failed_reference(
    tmp_path: Path,
) -> None:
    harness = unanswered(tmp_path, ["All right."], prompt_with("Look.", file_reference("gone.py")))
    run(harness.run(None))
    assert run(harness.run("Never mind.")).end_reason is EndReason.DONE
    assert statuses(harness) == [FAILED]
    (request,) = harness.provider.requests
    assert "gone.py" in text_in_message(request, 0)
    assert text_in_message(request, 1) == "Never mind."


def test_an_answer_before_a_rewind_was_sent(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("a = 1\n")
    harness = agent_in(tmp_path, ["I see."])
    start = harness.conversation.entries()[0]
    run(harness.run(prompt_with("Look.", file_reference("a.py"))))
    harness.conversation.rewind(start)
    assert unsent_prompt(harness.conversation) is None


def test_an_interrupted_run_before_a_rewind_is_not_a_failure(tmp_path: Path) -> None:
    harness = agent_in(tmp_path, [])
    start = harness.conversation.entries()[0]
    harness.conversation.append(prompt_with("Look.", file_reference("a.py")))
    harness.conversation.rewind(start)
    assert unsent_prompt(harness.conversation) is None


def test_a_conversation_with_nothing_in_it_has_nothing_unsent() -> None:
    assert unsent_prompt(Conversation()) is None


# -- input while the model works ----------------------------------------------------------


def steered(folder: Path, *prompts: Any) -> AgentHarness:
    """Run a model that calls a tool, and steer while the tool runs."""

    def interfere(*_: Any) -> str:
        for one in prompts:
            harness.agent.steer(one, SteeringPolicy.AFTER_CALLS)
        return "Read."

    tool = read_tool("look", interfere)
    harness = agent_in(folder, [turn_with_calls(call("c1", "look")), "Done."], tool)
    assert run(harness.run()).end_reason is EndReason.DONE
    harness.check()
    return harness


def test_references_in_steering_input_are_resolved_before_the_next_turn(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("a = 1\n")
    harness = steered(tmp_path, prompt_with("And this?", file_reference("a.py")))
    assert "a = 1" in text_in_message(harness.provider.requests[1])
    assert statuses(harness) == [RESOLVED]


def test_an_unresolved_reference_in_steering_input_is_reported_and_the_run_continues(
    tmp_path: Path,
) -> None:
    harness = steered(tmp_path, prompt_with("And this?", file_reference("gone.py")), "And hurry.")
    assert statuses(harness) == [FAILED]
    (notice,) = notices(harness)
    assert "gone.py" in notice
    request = harness.provider.requests[1]
    assert "gone.py" in text_in_message(request, -2)
    assert "no such file" in text_in_message(request, -2)
    assert text_in_message(request) == "And hurry."


def test_a_prompt_sent_with_its_failed_reference_is_not_unsent(tmp_path: Path) -> None:
    harness = steered(tmp_path, prompt_with("And this?", file_reference("gone.py")))
    entries = harness.conversation.entries()
    (at,) = [n for n, kind in enumerate(entry_kinds(entries)) if kind == "Resolution failed"]
    harness.conversation.rewind(entries[at - 2])
    assert unsent_prompt(harness.conversation) is None
