"""Sessions with files, images and resources in them, run again: offline, and by another model."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from steno.agent import Agent, Gate, ModelTarget, Runner
from steno.agent.replay.comparison import RecordedResults, rerun
from steno.agent.replay.verify import ReplayResult, replay
from steno.errors import ProviderError
from steno.inputs.references import InputResolver
from steno.messages.request import Request
from steno.records.entry import Resolution, Rewind
from steno.testing import ScriptedProvider
from steno.tools.workspace import Workspace
from tests.agent.agent_setup import AgentHarness, call, read_tool, run, turn_with_calls
from tests.agent.reference_doubles import (
    NOTES,
    FakeOcr,
    FakeResources,
    ScriptedResolver,
    agent_in,
    file_reference,
    image_file,
    images_in,
    payloads,
    prompt_with,
    statuses,
    text_in_message,
    unsent_prompt,
)
from tests.inputs.images.image_samples import encode_image, noise_image, red_image
from tests.inputs.mcp.resource_doubles import ManualClock, ResourceServer, text_resource


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "a.py").write_text("a = 1\n")
    (tmp_path / "plan.png").write_bytes(encode_image(red_image()))
    return tmp_path


def replayed(harness: AgentHarness) -> ReplayResult:
    harness.check()
    result = run(replay(harness.store.records(harness.conversation.id)))
    assert result.is_same, str(result.difference)
    return result


# -- offline -------------------------------------------------------------------------------------


def test_a_session_that_points_at_things_is_replayed_without_them(folder: Path) -> None:
    harness = agent_in(folder, ["One.", "Two."], model="lab/small", actor="ada")
    run(harness.run(prompt_with("Look.", file_reference("a.py"), image_file())))
    run(harness.run(prompt_with("And?", file_reference("a.py", 1))))
    for path in folder.iterdir():
        path.unlink()
    result = replayed(harness)
    assert (result.turns, len(payloads(harness, Resolution))) == (2, 3)


def test_a_prompt_that_was_not_sent_is_replayed_with_what_followed(folder: Path) -> None:
    harness = agent_in(folder, ["Hello.", "I see."], model="lab/small")
    run(harness.run("Hi."))
    run(harness.run(prompt_with("Look.", file_reference("late.py"), file_reference("a.py"))))
    (folder / "late.py").write_text("late = True\n")
    run(harness.run(unsent_prompt(harness.conversation)))
    assert len(payloads(harness, Rewind)) == 1
    assert replayed(harness).turns == 2


def test_a_prompt_that_was_not_sent_may_be_the_last(folder: Path) -> None:
    harness = agent_in(folder, [])
    run(harness.run(prompt_with("Look.", file_reference("gone.py"))))
    assert replayed(harness).turns == 0


def test_a_fault_of_a_resolver_is_replayed() -> None:
    def find(_: object) -> str:
        raise KeyError("bad")

    harness = AgentHarness(["Hello."], resolver=ScriptedResolver(find))
    with pytest.raises(KeyError):
        run(harness.run(prompt_with("Look.", file_reference("a.py"))))
    run(harness.run("Hi."))
    assert replayed(harness).turns == 1


def test_an_image_that_was_refused_is_replayed_with_its_text(folder: Path) -> None:
    def answer(request: Request) -> Any:
        return ProviderError("no images", status=400) if images_in(request) else "I read."

    harness = agent_in(folder, [answer] * 3, ocr=FakeOcr())
    run(harness.run(prompt_with("How much?", image_file())))
    run(harness.run("Sure?"))
    assert len(statuses(harness)) == 2
    assert replayed(harness).turns == 2


def test_a_large_image_beside_the_record_is_replayed(folder: Path) -> None:
    (folder / "large.png").write_bytes(encode_image(noise_image(400, 300)))
    harness = agent_in(folder, ["Noise."], target=ModelTarget(vision=True))
    run(harness.run(prompt_with("Look.", image_file("large.png"))))
    assert replayed(harness).turns == 1


@pytest.mark.parametrize("path", ["a.py", "gone.py"])
def test_references_of_steering_prompts_are_replayed(folder: Path, path: str) -> None:
    def interfere(*_: Any) -> str:
        harness.agent.steer(prompt_with("And this?", file_reference(path)))
        harness.agent.steer("And hurry.")
        return "Read."

    turns = [turn_with_calls(call("c1", "look")), "Done."]
    harness = agent_in(folder, turns, read_tool("look", interfere), model="lab/small", actor="ada")
    run(harness.run())
    result = replayed(harness)
    assert (result.turns, result.calls) == (2, 1)


def test_a_reference_that_was_read_again_is_replayed() -> None:
    clock = ManualClock()
    library = ResourceServer(holds={NOTES.uri: text_resource("what is there")})
    harness = AgentHarness(["One.", "Two."], resolver=FakeResources(library, clock))
    run(harness.run(prompt_with("Look.", NOTES)))
    clock.turn(3_600)
    run(harness.run(prompt_with("And now?", NOTES)))
    assert len(library.reads) == 2
    assert len(statuses(harness)) == 2
    assert replayed(harness).turns == 2


# -- another model -------------------------------------------------------------------------------


def run_again(harness: AgentHarness, turns: list[Any], **settings: Any) -> ScriptedProvider:
    """Rerun the conversation with another model, and return its requests."""
    provider = ScriptedProvider(turns)

    def make(reuse: RecordedResults) -> Agent:
        return Agent(
            provider,
            harness.conversation,
            gate=reuse.wrap_gate(Gate()),
            runner=reuse.wrap_runner(Runner()),
            **settings,
        )

    comparison = run(rerun(harness.conversation, make, name="second"))
    assert comparison.stopped is None
    harness.check()
    return provider


@pytest.mark.parametrize("opens", [lambda folder: InputResolver(Workspace(folder)), lambda _: None])
def test_another_model_sees_what_was_found_then(folder: Path, opens: Callable[[Path], Any]) -> None:
    harness = agent_in(folder, ["One.", "Two."])
    run(harness.run(prompt_with("Look.", file_reference("a.py"))))
    run(harness.run(prompt_with("And?", file_reference("a.py", 1))))
    (folder / "a.py").write_text("a = 2\n")
    provider = run_again(harness, ["Uno.", "Dos."], resolver=opens(folder))
    assert "a = 1" in text_in_message(provider.requests[0])
    assert "a = 1" in text_in_message(provider.requests[1])
    assert "a = 2" not in text_in_message(provider.requests[1])


def test_another_model_that_does_not_see_gets_the_text_of_images(folder: Path) -> None:
    harness = agent_in(folder, ["One.", "Two."], target=ModelTarget(vision=True))
    run(harness.run(prompt_with("Look.", image_file())))
    run(harness.run(prompt_with("And?", image_file())))
    inputs = InputResolver(Workspace(folder), ocr=FakeOcr())
    provider = run_again(
        harness, ["Uno.", "Dos."], resolver=inputs, target=ModelTarget(vision=False)
    )
    for request in provider.requests:
        assert images_in(request) == []
        assert "Pay 12 EUR" in text_in_message(request)


def test_another_model_gets_unresolved_references_of_steering_input_too(folder: Path) -> None:
    def interfere(*_: Any) -> str:
        harness.agent.steer(prompt_with("And this?", file_reference("gone.py")))
        return "Read."

    turns = [turn_with_calls(call("c1", "look")), "Done."]
    harness = agent_in(folder, turns, read_tool("look", interfere))
    run(harness.run())
    provider = run_again(harness, ["Uno.", "Dos."], resolver=InputResolver(Workspace(folder)))
    assert "gone.py" in text_in_message(provider.requests[-1])
