"""Images on their way to a model: seen by those that take them, read to those that do not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from steno import ChatMessage
from steno.agent import EndReason, ModelTarget, Notice
from steno.errors import (
    AuthenticationFailed,
    Overloaded,
    ProviderError,
    RateLimited,
    Unreachable,
    Unresolved,
)
from steno.inputs.references import InputResolver
from steno.messages.content import Image, ImageBlob, ImageData, RecognitionMode
from steno.messages.request import Request
from steno.ports import ResolvedReference
from steno.records.entry import Resolution, ResolutionStatus
from steno.store import Store, open_store
from steno.tools.workspace import Workspace
from tests.agent.agent_setup import AgentHarness, call, read_tool, run, turn_with_calls
from tests.agent.reference_doubles import (
    FakeOcr,
    ScriptedResolver,
    agent_in,
    details,
    file_reference,
    image_file,
    images_in,
    notices,
    payloads,
    prompt_with,
    recorded_kinds,
    statuses,
    text_in_message,
    unsent_prompt,
)
from tests.inputs.images.image_samples import decode_image, encode_image, noise_image, red_image

SEEING, BLIND, UNKNOWN = ModelTarget(vision=True), ModelTarget(vision=False), ModelTarget()
IMAGE_TEXT = "Pay 12 EUR"
RESOLVED, FAILED = ResolutionStatus.RESOLVED, ResolutionStatus.FAILED
NO_IMAGES = ProviderError("image input is not supported", status=400)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "plan.png").write_bytes(encode_image(red_image()))
    return tmp_path


def refusing(error: ProviderError = NO_IMAGES) -> Callable[[Request], Any]:
    """Answer like a model that does not accept images."""
    return lambda request: error if images_in(request) else "I read."


def again(harness: AgentHarness, folder: Path, turns: Any, **settings: Any) -> AgentHarness:
    """Continue with another agent."""
    settings |= {"store": harness.store, "conversation": harness.conversation}
    return agent_in(folder, turns, **settings)


# -- models that see, and models that do not -----------------------------------------------------


@pytest.mark.requirement("S2-24", "S2-29")
@pytest.mark.parametrize("mode", [RecognitionMode.VISION, RecognitionMode.AUTO])
def test_a_model_that_sees_gets_the_image_and_nothing_is_recognised(
    folder: Path, mode: RecognitionMode
) -> None:
    scribe = FakeOcr()
    harness = agent_in(folder, ["Red."], target=SEEING, ocr=scribe)
    run(harness.run(prompt_with("Which colour?", image_file(mode=mode))))
    (image,) = images_in(harness.provider.requests[0])
    assert isinstance(image.source, ImageData)
    assert decode_image(image.source.data).size == (40, 20)
    (found,) = details(harness)
    assert (found["used"], found["mode"], scribe.count) == ("vision", mode.value, 0)
    assert notices(harness) == []
    harness.check()


@pytest.mark.requirement("S2-27", "S2-29")
def test_a_model_without_vision_gets_the_text_and_a_notice_is_emitted(folder: Path) -> None:
    harness = agent_in(folder, ["12 EUR."], target=BLIND, ocr=FakeOcr())
    run(harness.run(prompt_with("How much?", image_file())))
    (request,) = harness.provider.requests
    assert images_in(request) == []
    assert IMAGE_TEXT in text_in_message(request)
    assert "scribe" not in text_in_message(request)
    (found,) = details(harness)
    assert (found["used"], found["engine"], found["language"]) == ("ocr", "scribe 1.0", "en")
    assert found["fallback"]
    assert notices(harness)


@pytest.mark.requirement("S2-28")
def test_an_image_that_cannot_be_read_is_on_record_as_failed_and_can_be_tried_again(
    folder: Path,
) -> None:
    scribe = FakeOcr(fails=True)
    harness = agent_in(folder, ["12 EUR."], target=BLIND, ocr=scribe)
    result = run(harness.run(prompt_with("How much?", image_file())))
    assert isinstance(result.error, Unresolved)
    assert "plan.png" in result.reason
    assert statuses(harness) == [FAILED]
    assert harness.provider.requests == []
    scribe.fails = False
    prompt = unsent_prompt(harness.conversation)
    assert run(harness.run(prompt)).end_reason is EndReason.DONE
    assert IMAGE_TEXT in text_in_message(harness.provider.requests[0])
    harness.check()


@pytest.mark.requirement("S2-28")
def test_a_file_that_is_not_an_image_is_not_sent(folder: Path) -> None:
    (folder / "fake.png").write_text("no image at all")
    harness = agent_in(folder, ["Never."], target=SEEING)
    result = run(harness.run(prompt_with("Look.", image_file("fake.png"))))
    assert isinstance(result.error, Unresolved)
    assert "fake.png" in result.reason
    assert harness.provider.requests == []


# -- a provider that refuses ---------------------------------------------------------------------


@pytest.mark.requirement("S2-26")
@pytest.mark.parametrize("target", [SEEING, UNKNOWN])
@pytest.mark.parametrize(
    "error",
    [
        NO_IMAGES,
        ProviderError("messages[1].content must be a string", status=400),
        Overloaded("image input is not supported; provide the mmproj", retryable=True),
    ],
)
def test_an_image_that_is_refused_is_sent_as_text_and_what_was_used_is_on_record(
    folder: Path, target: ModelTarget, error: ProviderError
) -> None:
    harness = agent_in(folder, [refusing(error)] * 2, target=target, ocr=FakeOcr())
    result = run(harness.run(prompt_with("How much?", image_file())))
    assert (result.end_reason, result.text, result.turns) == (EndReason.DONE, "I read.", 1)
    first, second = harness.provider.requests
    assert len(images_in(first)) == 1
    assert images_in(second) == []
    assert IMAGE_TEXT in text_in_message(second)
    one, other = details(harness)
    assert (one["used"], other["used"]) == ("vision", "ocr")
    assert str(error) in other["fallback"]
    assert any(str(error) in notice for notice in notices(harness))
    harness.check()


@pytest.mark.parametrize("target", [UNKNOWN, SEEING])
def test_a_model_that_refused_once_is_not_sent_the_image_in_the_next_run(
    folder: Path, target: ModelTarget
) -> None:
    harness = agent_in(folder, [refusing()] * 3, target=target, ocr=FakeOcr())
    run(harness.run(prompt_with("How much?", image_file())))
    run(harness.run("Sure?"))
    assert [len(images_in(request)) for request in harness.provider.requests] == [1, 0, 0]


@pytest.mark.requirement("S2-26")
def test_a_refused_image_that_cannot_be_read_either_ends_the_run_with_both_reasons(
    folder: Path,
) -> None:
    harness = agent_in(folder, [refusing()] * 2, ocr=None)
    prompt = prompt_with("How much?", image_file())
    result = run(harness.run(prompt))
    assert isinstance(result.error, Unresolved)
    assert "image input is not supported" in result.reason
    assert "OCR is turned off" in result.reason
    assert statuses(harness) == [RESOLVED, FAILED]
    assert unsent_prompt(harness.conversation) == prompt
    assert run(harness.run("Never mind.")).end_reason is EndReason.DONE
    assert images_in(harness.provider.requests[-1]) == []
    harness.check()


def test_a_refused_image_that_was_to_be_seen_is_not_left_out_in_silence(folder: Path) -> None:
    harness = agent_in(folder, [refusing()] * 2, ocr=FakeOcr())
    result = run(harness.run(prompt_with("How much?", image_file(mode=RecognitionMode.VISION))))
    assert isinstance(result.error, Unresolved)
    assert "image input is not supported" in result.reason
    assert "mode ocr" in result.reason
    assert len(harness.provider.requests) == 1
    harness.check()


def test_earlier_images_that_another_model_refuses_do_not_stop_it(
    folder: Path,
) -> None:
    vision = RecognitionMode.VISION
    first = agent_in(folder, ["Red."], target=SEEING)
    run(first.run(prompt_with("Which colour?", image_file(), image_file(mode=vision))))
    second = again(first, folder, [refusing()] * 2)
    assert run(second.run("And now?")).text == "I read."
    assert [len(images_in(request)) for request in second.provider.requests] == [2, 0]
    kept = [notice for notice in second.events_of(Notice) if notice.code == "reference_kept"]
    assert len(kept) == 2
    assert statuses(second) == [RESOLVED, RESOLVED]
    second.check()


@pytest.mark.parametrize("prompt", ["Go.", None])
def test_a_refused_unreadable_image_in_steering_input_does_not_stop_the_run(
    folder: Path, prompt: str | None
) -> None:
    def interfere(*_: Any) -> str:
        harness.agent.steer(prompt_with("This one.", image_file()))
        return "Read."

    turns = [turn_with_calls(call("c1", "look")), refusing(), refusing()]
    harness = agent_in(folder, turns, read_tool("look", interfere))
    harness.conversation.append(ChatMessage.user("Hello?"))
    assert run(harness.run(prompt)).text == "I read."
    assert statuses(harness) == [RESOLVED, FAILED]
    assert "plan.png" in text_in_message(harness.provider.requests[-1])
    harness.check()


def test_a_refusal_without_images_is_raised_as_ever(folder: Path) -> None:
    (folder / "a.py").write_text("a = 1\n")
    error = ProviderError("max_tokens: too large", status=400)
    harness = agent_in(folder, [error], ocr=FakeOcr())
    result = run(harness.run(prompt_with("Look.", file_reference("a.py"))))
    assert (result.end_reason, result.error) == (EndReason.FAILED, error)
    assert len(harness.provider.requests) == 1
    assert recorded_kinds(harness)[-1] == "Resolution resolved"


def test_a_refusal_that_cannot_be_about_images_is_raised_as_ever(folder: Path) -> None:
    scribe = FakeOcr()
    harness = agent_in(folder, [AuthenticationFailed("bad key", status=401)], ocr=scribe)
    result = run(harness.run(prompt_with("Look.", image_file())))
    assert isinstance(result.error, AuthenticationFailed)
    assert (scribe.count, len(harness.provider.requests)) == (0, 1)


def test_a_model_that_refuses_the_text_as_well_is_not_asked_a_third_time(folder: Path) -> None:
    other = ProviderError("no credit", status=400)
    harness = agent_in(folder, [refusing(), other], ocr=FakeOcr())
    result = run(harness.run(prompt_with("Look.", image_file())))
    assert result.error is other
    assert len(harness.provider.requests) == 2


def test_a_resolver_that_insists_on_images_does_not_repeat_a_refused_request() -> None:
    image = Image(source=ImageData(encode_image(red_image())), mime_type="image/png")
    resolver = ScriptedResolver(lambda _: ResolvedReference(content=(image,)))
    harness = AgentHarness([NO_IMAGES, NO_IMAGES], resolver=resolver)
    assert run(harness.run(prompt_with("Look.", image_file()))).error is NO_IMAGES
    assert len(harness.provider.requests) == 2
    harness.check()


# -- another model -------------------------------------------------------------------------------


@pytest.mark.requirement("S2-26", "S2-27")
def test_another_model_gets_what_it_can_take_of_earlier_images_in_both_directions(
    folder: Path,
) -> None:
    first = agent_in(folder, ["Red."], target=SEEING, ocr=FakeOcr())
    run(first.run(prompt_with("Which colour?", image_file())))
    second = again(first, folder, ["12 EUR."], target=BLIND, ocr=FakeOcr())
    run(second.run("How much?"))
    third = again(first, folder, ["Red again."], target=SEEING, ocr=FakeOcr())
    run(third.run("And now?"))
    seen = [images_in(harness.provider.requests[0]) for harness in (first, second, third)]
    assert [len(images) for images in seen] == [1, 0, 1]
    assert IMAGE_TEXT in text_in_message(second.provider.requests[0], 1)
    assert [found["used"] for found in details(third)] == ["vision", "ocr", "vision"]
    third.check()


def test_a_model_without_vision_continues_without_earlier_images_if_ocr_is_missing(
    folder: Path,
) -> None:
    first = agent_in(folder, ["Red."], target=SEEING)
    run(first.run(prompt_with("Which colour?", image_file())))
    second = again(first, folder, ["Well."], target=BLIND)
    assert run(second.run("And now?")).end_reason is EndReason.DONE
    assert images_in(second.provider.requests[0]) == []
    assert len(notices(second)) == 1
    assert statuses(second) == [RESOLVED]


# -- large images --------------------------------------------------------------------------------


@pytest.mark.parametrize("scheme", ["sqlite", "jsonl"])
def test_a_large_image_lies_beside_the_record_and_comes_back_whole(
    folder: Path, scheme: str
) -> None:
    data = encode_image(noise_image(400, 300))
    (folder / "large.png").write_bytes(data)
    address = f"{scheme}:{folder / 'store'}"

    def talk(
        store: Store, turns: list[str], prompt: Any, session: str = ""
    ) -> tuple[AgentHarness, str]:
        conversation = store.open(session) if session else store.new()
        harness = agent_in(folder, turns, store=store, conversation=conversation, target=SEEING)
        assert run(harness.run(prompt)).end_reason is EndReason.DONE
        harness.check()
        return harness, conversation.id

    with open_store(address) as store:
        harness, session = talk(store, ["Noise."], prompt_with("Look.", image_file("large.png")))
        (resolution,) = payloads(harness, Resolution)
        (stored,) = resolution.content
        assert isinstance(stored, Image)
        assert isinstance(stored.source, ImageBlob)
        sent = images_in(harness.provider.requests[0])
    with open_store(address) as store:
        harness, _ = talk(store, ["Still noise."], "Look again.", session)
        assert images_in(harness.provider.requests[0]) == sent
        assert isinstance(sent[0].source, ImageData)
        assert decode_image(sent[0].source.data).tobytes() == decode_image(data).tobytes()
        assert statuses(harness) == [RESOLVED]


def test_large_bytes_in_a_message_are_whole_when_they_are_opened_later(folder: Path) -> None:
    data = encode_image(noise_image(400, 300))
    image = Image(source=ImageData(data), mime_type="image/png")
    address = f"sqlite:{folder / 'store'}"
    with open_store(address) as store:
        conversation = store.new()
        conversation.append(prompt_with("Look.", image))
    with open_store(address) as store:
        harness = AgentHarness(
            ["Noise."],
            store=store,
            conversation=store.open(conversation.id),
            resolver=InputResolver(Workspace(folder)),
            target=SEEING,
        )
        assert run(harness.run(None)).end_reason is EndReason.DONE
        (sent,) = images_in(harness.provider.requests[0])
        assert isinstance(sent.source, ImageData)
        assert decode_image(sent.source.data).tobytes() == decode_image(data).tobytes()


@pytest.mark.parametrize("kind", [RateLimited, AuthenticationFailed, Unreachable])
def test_other_errors_are_not_read_as_a_refusal_of_images(
    folder: Path, kind: type[ProviderError]
) -> None:
    error = kind("not now, for the model lab-vision-preview")
    harness = agent_in(folder, [error], target=UNKNOWN, ocr=FakeOcr())
    assert run(harness.run(prompt_with("Look.", image_file()))).error is error
    assert len(statuses(harness)) == 1
