"""The link from an image that a model received to the response that answers it."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from steno import ChatMessage, Conversation
from steno.agent import Agent, ContextChanged, EndReason, Gate, Limits, LoopEvent, ModelTarget
from steno.agent.dispatch import Runner
from steno.agent.image_analyses import ImageAnalysisRecorder, SentRequest
from steno.agent.recorder import RunRecorder, ignore_event
from steno.agent.replay.comparison import RecordedResults, rerun
from steno.agent.replay.verify import replay
from steno.context import ContextBuilder
from steno.errors import ProviderError
from steno.inputs import InputResolver
from steno.log import VisionAnalysis, vision_analyses
from steno.messages.change import Change, ChangeCode
from steno.messages.content import Image, ImageData, ImageUrl, RecognitionMode, Resource, Text
from steno.messages.event import TextDelta
from steno.messages.message import AssistantMessage, UserMessage
from steno.messages.request import Request
from steno.messages.usage import StopReason
from steno.ports import ReferenceBlock, ResolvedReference
from steno.records import Compaction, Entry, ImageAnalysis, Label
from steno.store import MemoryStore
from steno.testing import ReplayingProvider, ScriptedProvider
from steno.tools import Workspace
from tests.acceptance.costs import steps_of
from tests.agent.agent_setup import AgentHarness, call, read_tool, run, turn_with_calls
from tests.agent.reference_doubles import (
    NOTES,
    FakeOcr,
    ScriptedResolver,
    agent_in,
    file_reference,
    image_file,
    images_in,
    payloads,
    prompt_with,
)
from tests.inputs.images.image_samples import encode_image, noise_image, red_image

SEEING, BLIND = ModelTarget(vision=True), ModelTarget(vision=False)
PICTURE = Image(source=ImageData(encode_image(red_image())), mime_type="image/png")
ANSWER = "A red sign. It says:\n\n```\nSTOP\n```"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "plan.png").write_bytes(encode_image(red_image()))
    (tmp_path / "large.png").write_bytes(encode_image(noise_image(400, 300)))
    return tmp_path


def entries_of(conversation: Conversation, kind: type) -> list[Entry]:
    return [entry for entry in conversation.entries() if isinstance(entry.payload, kind)]


def links(harness: AgentHarness) -> list[tuple[str, int, str]]:
    """Return the links of the branch: the text of the prompt, the block, the text of the answer."""
    harness.check()
    texts = {e.id: e.message.text or "" for e in harness.conversation.entries() if e.message}
    found = [entry.payload for entry in entries_of(harness.conversation, ImageAnalysis)]
    return [
        (texts[link.target], link.block, texts[link.answer])
        for link in found
        if isinstance(link, ImageAnalysis)
    ]


def check_replay(harness: AgentHarness) -> None:
    result = run(replay(harness.store.records(harness.conversation.id)))
    assert (result.is_same, result.difference) == (True, None)


# -- what is linked ------------------------------------------------------------------------------


@pytest.mark.requirement("S2-24")
@pytest.mark.parametrize("mode", [RecognitionMode.VISION, RecognitionMode.AUTO])
@pytest.mark.parametrize("name", ["plan.png", "large.png"])
def test_the_answer_of_a_model_is_linked_to_the_image_that_it_received(
    folder: Path, mode: RecognitionMode, name: str
) -> None:
    harness = agent_in(folder, [ANSWER, "Yes."], target=SEEING)
    run(harness.run(prompt_with("What is it?", image_file(name, mode))))
    run(harness.run("Sure?"))
    (prompt, _) = entries_of(harness.conversation, UserMessage)
    (answer, _) = entries_of(harness.conversation, AssistantMessage)
    (link,) = entries_of(harness.conversation, ImageAnalysis)
    assert link.payload == ImageAnalysis(target=prompt.id, block=1, answer=answer.id)
    assert (link.parent, link.v) == (answer.id, 3)
    assert vision_analyses(harness.conversation.entries()) == {
        (prompt.id, 1): VisionAnalysis(answer.id, "A red sign. It says:", "STOP")
    }
    later = harness.provider.requests[1]
    assert [message.text for message in later.messages[2:]] == [ANSWER, "Sure?"]
    check_replay(harness)


@pytest.mark.requirement("S2-24")
def test_each_image_of_each_unanswered_prompt_is_linked(folder: Path) -> None:
    harness = agent_in(folder, [ProviderError("down", status=500), "Two."], target=SEEING)
    run(harness.run(prompt_with("One.", image_file())))
    run(harness.run(prompt_with("And these?", image_file(), Text("or"), image_file("large.png"))))
    assert links(harness) == [
        ("One.", 1, "Two."),
        ("And these?or", 1, "Two."),
        ("And these?or", 3, "Two."),
    ]
    check_replay(harness)


@pytest.mark.requirement("S2-24")
@pytest.mark.parametrize("target", [SEEING, ModelTarget()])
def test_without_a_resolver_the_images_that_are_sent_are_linked(target: ModelTarget) -> None:
    harness = AgentHarness([ANSWER], target=target)
    address = Image(source=ImageUrl("https://example.org/a.png"))
    run(harness.run(prompt_with("See.", image_file(), PICTURE, address)))
    assert [block for _, block, _ in links(harness)] == [2, 3]
    check_replay(harness)


@pytest.mark.requirement("P-23")
def test_images_sent_as_text_or_not_at_all_are_not_linked(folder: Path) -> None:
    read = agent_in(folder, ["12 EUR."], target=BLIND, ocr=FakeOcr())
    run(read.run(prompt_with("How much?", image_file())))
    chosen = agent_in(folder, ["12 EUR."], target=SEEING, ocr=FakeOcr())
    run(chosen.run(prompt_with("How much?", image_file(mode=RecognitionMode.OCR))))
    left_out = AgentHarness(["What image?"], target=BLIND)
    run(left_out.run(prompt_with("See.", PICTURE)))
    missing = agent_in(folder, [], target=SEEING)
    run(missing.run(prompt_with("See.", image_file("missing.png"))))
    for harness in (read, chosen, left_out, missing):
        assert links(harness) == []
        check_replay(harness)


def resolver_of(*content: Text | Image | Resource) -> ScriptedResolver:
    return ScriptedResolver(lambda _: ResolvedReference(content=content))


@pytest.mark.requirement("S2-24")
def test_the_image_of_a_resource_is_linked() -> None:
    resolver = resolver_of(Text("A photo."), PICTURE, PICTURE)
    harness = AgentHarness([ANSWER], target=SEEING, resolver=resolver)
    run(harness.run(prompt_with("What is it?", NOTES)))
    assert links(harness) == [("What is it?", 1, ANSWER)]
    check_replay(harness)


def test_a_resource_without_an_image_is_not_linked() -> None:
    harness = AgentHarness([ANSWER], target=SEEING, resolver=resolver_of(Text("A note.")))
    run(harness.run(prompt_with("What is it?", NOTES)))
    assert links(harness) == []


def test_the_image_of_a_resource_that_was_shortened_is_not_linked() -> None:
    target = ModelTarget(vision=True, resource_tokens=100)
    harness = AgentHarness([ANSWER], target=target, resolver=resolver_of(PICTURE))
    run(harness.run(prompt_with("What is it?", NOTES)))
    assert images_in(harness.provider.requests[0]) == []
    assert links(harness) == []


def test_an_image_that_the_model_refused_is_not_linked(folder: Path) -> None:
    def answer(request: Request) -> Any:
        return ProviderError("no images", status=400) if images_in(request) else "12 EUR."

    harness = agent_in(folder, [answer] * 2, target=SEEING, ocr=FakeOcr())
    run(harness.run(prompt_with("How much?", image_file())))
    assert links(harness) == []
    check_replay(harness)


class LossyProvider:
    """A provider that reports changes to its requests."""

    def __init__(self, turns: list[Any], *losses: Change) -> None:
        self._inner = ScriptedProvider(turns)
        self._losses = losses

    def stream(self, request: Request) -> Any:
        stream: Any = self._inner.stream(request)
        stream.losses = self._losses
        return stream


def left_out(place: str) -> Change:
    return Change(ChangeCode.IMAGE, "text_only", place)


@pytest.mark.requirement("P-23")
def test_an_image_that_the_provider_left_out_is_not_linked() -> None:
    setting = Change(ChangeCode.SETTING, "not_supported", "temperature")
    provider = LossyProvider(
        ["What image?", "A red sign."], left_out("messages[1].content[1]"), setting
    )
    harness = AgentHarness(provider, target=SEEING)
    run(harness.run(prompt_with("See.", PICTURE)))
    assert links(harness) == []
    run(harness.run(prompt_with("And this?", PICTURE)))
    assert links(harness) == [("And this?", 1, "A red sign.")]


@pytest.mark.requirement("S2-24")
@pytest.mark.parametrize(
    ("place", "linked"),
    [
        ("messages[1].content[3]", [4]),
        ("messages[1].content[6]", [2]),
        ("messages[1].content[4]", [2, 4]),
        ("messages[0].content[4]", [2, 4]),
        ("messages[1]", []),
    ],
)
def test_only_the_image_that_the_provider_left_out_is_not_linked(
    place: str, linked: list[int]
) -> None:
    """The message that is sent has more blocks than the recorded one, and their own numbers."""

    def find(reference: ReferenceBlock) -> ResolvedReference:
        is_image = isinstance(reference, Image)
        return ResolvedReference(content=(PICTURE,) if is_image else (Text("A"), Text("B")))

    provider = LossyProvider([ANSWER], left_out(place))
    harness = AgentHarness(provider, target=SEEING, resolver=ScriptedResolver(find))
    blocks = (file_reference("a"), image_file(), file_reference("b"), image_file("b.png"))
    run(harness.run(prompt_with("See.", *blocks)))
    assert [block for _, block, _ in links(harness)] == linked


@pytest.mark.requirement("S2-24")
@pytest.mark.parametrize(("wire", "linked"), [("ollama_chat", [1]), ("openai_chat", [1, 2])])
def test_an_image_that_a_wire_cannot_send_is_not_linked(wire: str, linked: list[int]) -> None:
    body = {
        "ollama_chat": b'{"message": {"content": "A red sign."}, "done": true}\n',
        "openai_chat": b'data: {"choices": [{"index": 0, "delta": {"content": "A red sign."}, '
        b'"finish_reason": "stop"}]}\n\ndata: [DONE]\n\n',
    }
    harness = AgentHarness(ReplayingProvider(wire, [body[wire]]), target=ModelTarget(model="m"))
    address = Image(source=ImageUrl("https://example.org/a.png"))
    run(harness.run(prompt_with("See.", PICTURE, address)))
    assert links(harness) == [("See.", block, "A red sign.") for block in linked]
    check_replay(harness)


def test_a_stream_that_does_not_know_what_was_sent_links_nothing() -> None:
    class UnsureProvider(LossyProvider):
        def stream(self, request: Request) -> Any:
            stream = super().stream(request)
            stream.losses = None
            return stream

    harness = AgentHarness(UnsureProvider([ANSWER]), target=SEEING)
    run(harness.run(prompt_with("See.", PICTURE)))
    assert links(harness) == []


def test_a_replay_shows_the_images_that_the_run_showed() -> None:
    harness = AgentHarness([ANSWER], target=SEEING)
    run(harness.run(prompt_with("See.", PICTURE)))
    events: list[LoopEvent] = []
    records = harness.store.records(harness.conversation.id)
    assert run(replay(records, on_event=events.append)).is_same
    assert [event for event in events if isinstance(event, ContextChanged)] == []


# -- which response ------------------------------------------------------------------------------


@pytest.mark.requirement("S2-24")
def test_the_response_that_ends_the_turn_is_linked(folder: Path) -> None:
    turns = [
        turn_with_calls(call("c1", "look"), text="I see a sign and look further."),
        turn_with_calls(call("c2", "look")),
        ANSWER,
    ]
    harness = agent_in(folder, turns, read_tool("look", "A.", "B."), target=SEEING)
    run(harness.run(prompt_with("See.", image_file())))
    assert links(harness) == [("See.", 1, ANSWER)]
    check_replay(harness)


def test_if_the_run_is_cut_off_the_first_text_after_the_image_is_linked(folder: Path) -> None:
    turns = [
        turn_with_calls(call("c1", "look"), text="I see a sign."),
        turn_with_calls(call("c2", "look"), text="And now the code."),
        "Fixed.",
    ]
    limits = Limits(turns=2)
    tool = read_tool("look", "A.", "B.")
    harness = agent_in(folder, turns, tool, target=SEEING, limits=limits)
    result = run(harness.run(prompt_with("See.", image_file())))
    assert result.end_reason is EndReason.LIMIT
    assert links(harness) == [("See.", 1, "I see a sign.")]
    run(harness.run("Continue."))
    assert links(harness) == [("See.", 1, "I see a sign.")]
    check_replay(harness)


@pytest.mark.requirement("P-23")
def test_a_response_that_broke_off_is_not_an_answer(folder: Path) -> None:
    broken = [TextDelta(0, "A red s"), ProviderError("gone")]
    harness = agent_in(folder, [broken, ANSWER], target=SEEING)
    run(harness.run(prompt_with("See.", image_file())))
    assert links(harness) == []
    run(harness.run("Again?"))
    assert links(harness) == [("See.", 1, ANSWER)]
    check_replay(harness)


@pytest.mark.parametrize("reason", [StopReason.LENGTH, StopReason.PAUSE])
def test_a_response_cut_at_the_token_limit_is_an_answer_and_a_paused_one_is_not(
    folder: Path, reason: StopReason
) -> None:
    first = replace(ChatMessage.assistant("A red"), stop_reason=reason)
    harness = agent_in(folder, [first, " sign."], target=SEEING)
    run(harness.run(prompt_with("See.", image_file())))
    answer = "A red" if reason is StopReason.LENGTH else " sign."
    assert links(harness) == [("See.", 1, answer)]
    check_replay(harness)


# -- runs that were killed -----------------------------------------------------------------------


def killed_after(kind: type, harness: AgentHarness, turns: list[Any], **more: Any) -> AgentHarness:
    """Return an agent that continues after the first entry of a kind, as after a kill."""
    conversation = harness.conversation
    conversation.fork("killed", at=entries_of(conversation, kind)[0])
    conversation.switch("killed")
    settings: dict[str, Any] = {"store": harness.store, "target": SEEING} | more
    return AgentHarness(turns, read_tool("look"), conversation=conversation, **settings)


@pytest.mark.requirement("P-23")
def test_the_answer_to_the_next_prompt_does_not_answer_an_earlier_image() -> None:
    """A process that was killed between the answer and the link records no link."""
    first = AgentHarness(["A red sign."], target=SEEING)
    run(first.run(prompt_with("See.", PICTURE)))
    later = killed_after(AssistantMessage, first, ["Two.", "Three."])
    run(later.run("And 1 + 1?"))
    run(later.run(prompt_with("And this?", PICTURE)))
    assert links(later) == [("And this?", 1, "Three.")]
    check_replay(later)


@pytest.mark.parametrize("kind", [UserMessage, AssistantMessage])
def test_a_run_that_continues_a_killed_one_links_its_answer(kind: type) -> None:
    turns = [turn_with_calls(call("c1", "look"), text="I see a sign."), "One."]
    first = AgentHarness(turns, read_tool("look"), target=SEEING)
    run(first.run(prompt_with("See.", PICTURE)))
    later = killed_after(kind, first, [ANSWER])
    run(later.run(None))
    assert links(later) == [("See.", 1, ANSWER)]
    check_replay(later)


def test_a_text_of_an_earlier_run_that_did_not_receive_the_image_is_not_linked(
    folder: Path,
) -> None:
    turns = [turn_with_calls(call("c1", "look"), text="The text says 12 EUR."), "One."]
    blind = agent_in(folder, turns, read_tool("look"), target=BLIND, ocr=FakeOcr())
    run(blind.run(prompt_with("How much?", image_file())))
    seen = turn_with_calls(call("c2", "look"), text="I see a bill.")
    resolver = InputResolver(Workspace(folder), ocr=None)
    later = killed_after(AssistantMessage, blind, [seen], resolver=resolver, limits=Limits(turns=1))
    run(later.run(None))
    assert len(images_in(later.provider.requests[0])) == 1
    assert links(later) == [("How much?", 1, "I see a bill.")]
    check_replay(later)


# -- branches and other models -------------------------------------------------------------------


@pytest.mark.requirement("S2-24")
def test_another_branch_has_its_own_answer(folder: Path) -> None:
    harness = agent_in(folder, ["One.", "Two."], target=SEEING)
    run(harness.run(prompt_with("See.", image_file())))
    (answer,) = entries_of(harness.conversation, AssistantMessage)
    assert answer.parent is not None
    harness.conversation.fork("second", at=answer.parent)
    harness.conversation.switch("second")
    run(harness.run(None))
    assert links(harness) == [("See.", 1, "Two.")]
    harness.conversation.switch("main")
    assert links(harness) == [("See.", 1, "One.")]
    assert len(payloads(harness, ImageAnalysis)) == 2


def test_a_rewound_turn_gets_a_new_answer(folder: Path) -> None:
    harness = agent_in(folder, ["One.", "Two."], target=SEEING)
    run(harness.run(prompt_with("See.", image_file())))
    (answer,) = entries_of(harness.conversation, AssistantMessage)
    assert answer.parent is not None
    harness.conversation.rewind(answer.parent)
    run(harness.run(None))
    assert links(harness) == [("See.", 1, "Two.")]
    check_replay(harness)


@pytest.mark.parametrize(("target", "count"), [(SEEING, 1), (BLIND, 0)])
def test_a_rerun_on_another_model_is_linked_if_that_model_sees(
    folder: Path, target: ModelTarget, count: int
) -> None:
    harness = agent_in(folder, ["One."], target=SEEING)
    run(harness.run(prompt_with("See.", image_file())))

    def build(results: RecordedResults) -> Agent:
        gate, runner = results.wrap_gate(Gate()), results.wrap_runner(Runner())
        provider = ScriptedProvider(["Uno."])
        return Agent(provider, harness.conversation, gate=gate, runner=runner, target=target)

    assert run(rerun(harness.conversation, build, name="second")).stopped is None
    harness.conversation.switch("second")
    assert links(harness) == [("See.", 1, "Uno.")] * count


def test_an_image_that_a_later_model_sees_again_keeps_its_answer(folder: Path) -> None:
    store = MemoryStore()
    blind = agent_in(folder, ["12 EUR."], target=BLIND, ocr=FakeOcr(), store=store)
    run(blind.run(prompt_with("How much?", image_file())))
    seeing = agent_in(folder, ["Yes."], target=SEEING, store=store, conversation=blind.conversation)
    run(seeing.run("Sure?"))
    assert len(images_in(seeing.provider.requests[0])) == 1
    assert links(seeing) == []


# -- the state and the cost of a run -------------------------------------------------------------


class ImageTurns:
    """The turns of one run, without an agent."""

    def __init__(self, *messages: ChatMessage, target: ModelTarget = SEEING) -> None:
        self.conversation = Conversation(messages)
        self.losses: tuple[Change, ...] = ()
        self.analyses = ImageAnalysisRecorder(RunRecorder(self.conversation, ignore_event))
        self._target = target
        self._builder = ContextBuilder()
        self._calls = count()

    def respond(self, message: AssistantMessage) -> int:
        """Add a response; return the number of steps that it takes to link images to it."""
        built = self._builder.build(self.conversation.entries_view(), self._target)
        sent, response = SentRequest(built, self.losses), self.conversation.append(message)
        return steps_of(lambda: self.analyses.add_response(response, sent))

    def call(self, text: str) -> int:
        """Add a response with a call, and its result; return the steps like `respond`."""
        call_id = f"c{next(self._calls)}"
        steps = self.respond(turn_with_calls(call(call_id, "look"), text=text))
        self.conversation.append(ChatMessage.tool_result(call_id, "A."))
        return steps

    def last_id(self) -> str:
        return self.conversation.entries_view()[-1].id

    def links(self) -> list[tuple[str, str]]:
        """Return the links of the branch: the text of the prompt, and that of the answer."""
        messages = {entry.id: entry.message for entry in self.conversation.entries()}
        texts = {
            id: "" if message is None else message.text or "" for id, message in messages.items()
        }
        found = [entry.payload for entry in self.conversation.entries()]
        return [
            (texts[link.target], texts[link.answer])
            for link in found
            if isinstance(link, ImageAnalysis)
        ]


SEE = prompt_with("See.", PICTURE)


def in_this_prompt() -> ImageTurns:
    return ImageTurns(SEE)


def in_an_older_prompt() -> ImageTurns:
    return ImageTurns(SEE, ChatMessage.assistant(ANSWER), ChatMessage.user("And now?"))


def in_a_prompt_to_a_blind_model() -> ImageTurns:
    return ImageTurns(SEE, target=BLIND)


def left_out_by_the_provider() -> ImageTurns:
    turns = ImageTurns(SEE)
    turns.losses = (left_out("messages[0]"),)
    return turns


def replaced_by_a_summary() -> ImageTurns:
    turns = ImageTurns(SEE)
    turns.conversation.append(Compaction(through=turns.last_id(), summary="They asked."))
    turns.conversation.append(ChatMessage.user("And now?"))
    return turns


@pytest.mark.parametrize(
    "begin",
    [
        in_this_prompt,
        in_an_older_prompt,
        in_a_prompt_to_a_blind_model,
        left_out_by_the_provider,
        replaced_by_a_summary,
    ],
)
def test_a_response_costs_no_more_in_a_long_turn(begin: Callable[[], ImageTurns]) -> None:
    def steps(responses: int) -> tuple[int, int]:
        turns = begin()
        costs = [turns.call("I look.") for _ in range(responses)]
        return costs[-1], turns.respond(ChatMessage.assistant("Red."))

    (short, short_answer), (long, long_answer) = steps(2), steps(100)
    assert long < 2 * short
    assert long_answer < 2 * short_answer


@pytest.mark.parametrize("has_new_image", [False, True])
def test_the_first_response_of_a_run_costs_no_more_after_a_long_history(
    has_new_image: bool,
) -> None:
    def steps(count: int) -> int:
        answered = [ChatMessage.user("And now?"), ChatMessage.assistant("Green.")]
        last = SEE if has_new_image else ChatMessage.user("And now?")
        turns = ImageTurns(SEE, ChatMessage.assistant(ANSWER), *answered * count, last)
        return turns.call("I look.")

    assert steps(100) < 2 * steps(1)


def test_each_image_of_a_run_that_is_cut_off_has_its_own_first_response() -> None:
    turns = ImageTurns(SEE)
    turns.call("I see a sign.")
    turns.conversation.append(prompt_with("And this?", PICTURE))
    turns.call("I see another one.")
    turns.call("I look further.")
    turns.analyses.close()
    expected = [("See.", "I see a sign."), ("And this?", "I see another one.")]
    assert turns.links() == expected
    turns.analyses.close()
    assert turns.links() == expected


def test_a_first_response_that_was_rewound_is_not_linked() -> None:
    turns = ImageTurns(SEE)
    prompt_id = turns.last_id()
    turns.call("I see a sign.")
    turns.conversation.rewind(prompt_id)
    turns.analyses.close()
    assert turns.links() == []
    turns.call("I see a bill.")
    first_id = turns.last_id()
    turns.call("I look further.")
    turns.conversation.rewind(first_id)
    turns.analyses.close()
    assert turns.links() == [("See.", "I see a bill.")]


def test_an_image_that_is_not_in_the_request_of_the_answer_stays_without_one() -> None:
    """The next response answers another message, also if an entry was added behind the answer."""
    turns = ImageTurns(SEE)
    turns.losses = (left_out("messages[0]"),)
    turns.call("What sign?")
    built = ContextBuilder().build(turns.conversation.entries_view(), SEEING)
    answer = turns.conversation.append(ChatMessage.assistant("None."))
    turns.conversation.append(Label(target=answer.id, text="seen"))
    turns.analyses.add_response(answer, SentRequest(built, turns.losses))
    turns.conversation.append(ChatMessage.user("And now?"))
    turns.losses = ()
    turns.call("I see a sign.")
    turns.respond(ChatMessage.assistant(ANSWER))
    turns.analyses.close()
    assert turns.links() == []


def test_an_image_that_was_cleared_is_not_linked() -> None:
    turns = ImageTurns(SEE)
    turns.conversation.clear()
    turns.conversation.append(prompt_with("And this?", PICTURE))
    turns.respond(ChatMessage.assistant(ANSWER))
    assert turns.links() == [("And this?", ANSWER)]


# -- the rest of the log -------------------------------------------------------------------------


def test_a_summary_replaces_the_turn_with_its_link(folder: Path) -> None:
    turns: list[Any] = [ANSWER, "Two.", "They saw a sign.", "Three."]
    harness = agent_in(folder, turns, target=SEEING)
    run(harness.run(prompt_with("See.", image_file())))
    run(harness.run("Next."))
    assert run(harness.agent.compact()) is not None
    run(harness.run("Then?"))
    assert links(harness) == [("See.", 1, ANSWER)]
    check_replay(harness)


@pytest.mark.parametrize("is_answer", [True, False])
def test_a_redaction_needs_nothing_else(folder: Path, is_answer: bool) -> None:
    harness = agent_in(folder, [ANSWER], target=SEEING)
    run(harness.run(prompt_with("See.", image_file())))
    (prompt,) = entries_of(harness.conversation, UserMessage)
    (answer,) = entries_of(harness.conversation, AssistantMessage)
    store, session = harness.store, harness.conversation.id
    target = answer if is_answer else prompt
    store.redact(session, target.id, actor="ada", reason="private")
    assert store.verify(session).is_intact
    (analysis,) = vision_analyses(store.open(session).entries()).values()
    expected = (None, None) if is_answer else ("A red sign. It says:", "STOP")
    assert analysis == (answer.id, *expected)
