"""Runs of a session: input starts a run or steers it, and errors are reported."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from steno.agent import EndReason, Notice, NoticeKind, PromptInput, RunEnded, TurnStarted
from steno.agent.results import ResultCode
from steno.agent.session_events import (
    BranchChanged,
    ErrorRaised,
    InputReturned,
    RunFailed,
    RunStarted,
)
from steno.errors import InvalidValue, Missing, StenoError, Unresolved
from steno.log.queries import result_code
from steno.messages.event import TextDelta
from steno.messages.message import AssistantMessage, ToolResultMessage, UserMessage
from steno.records.entry import Compaction, Mode, ModeChange, ModelChange, Rewind
from steno.store import open_store
from tests.app.project_setup import make_project, scripted_model, write_settings
from tests.app.scripted_vendor import PATIENCE_S, Call, Fault, Step
from tests.app.session_setup import SessionUser, open_user_session, run
from tests.cli.reference_setup import WITH_VISION, WITHOUT_VISION, last_images, last_text
from tests.inputs.images.image_samples import encode_image, red_image
from tests.inputs.ocr.text_images import draw_text, encode_png

pytestmark = pytest.mark.requirement("S4-15")


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return make_project(tmp_path, monkeypatch)


def kinds(user: SessionUser) -> list[type]:
    return [type(entry.payload) for entry in user.session.entries()]


# -- sending -------------------------------------------------------------------------------------


def test_send_starts_a_run_and_returns_at_once(project: Path, home: Path) -> None:
    gate = threading.Event()

    async def main() -> None:
        async with open_user_session(project) as user:
            await user.session.send(PromptInput("Hello?"))
            assert user.session.is_running
            gate.set()
            ended = await user.end()
            assert not user.session.is_running
            assert (ended.result.end_reason, ended.result.text) == (EndReason.DONE, "Hello.")
            assert user.texts == ["Hello?", "Hello."]

    with scripted_model(home, [gate, "Hello."]):
        run(main())


def test_input_during_a_run_steers_it(project: Path, home: Path) -> None:
    gate = threading.Event()

    async def main() -> None:
        async with open_user_session(project) as user:
            await user.session.send(PromptInput("Read it."))
            await user.until(lambda: user.events_of(TurnStarted))
            await user.session.send(PromptInput("And be brief."))
            gate.set()
            await user.end()
            assert user.texts == ["Read it.", "", "     1\tforty-two\n", "And be brief.", "42."]

    with scripted_model(home, [gate, Call("read", {"path": "note.txt"})], "42.") as model:
        run(main())
    assert model.sent_roles() == ["system", "user", "assistant", "tool", "user"]


def test_two_prompts_at_once_are_sent_in_order(project: Path, home: Path) -> None:
    async def main() -> None:
        async with open_user_session(project) as user:
            (project / "shapes.png").write_bytes(encode_image(red_image()))
            await asyncio.gather(
                user.session.send(PromptInput("One.", ("shapes.png",))),
                user.session.send(PromptInput("Two.")),
            )
            await user.end()
            assert [text for text in user.texts if text in ("One.", "Two.")] == ["One.", "Two."]

    with scripted_model(home, "Yes.", "Yes.", settings=WITH_VISION):
        run(main())


def test_an_unreadable_prompt_is_refused_before_anything_is_recorded(
    project: Path,
) -> None:
    async def main() -> None:
        async with open_user_session(project, flags={"model": "offline"}) as user:
            for prompt in (
                PromptInput("@../elsewhere.txt:9-1"),
                PromptInput("Look.", ("missing.png",)),
                PromptInput("Look.", (b"no image at all",)),
                PromptInput("  "),
            ):
                with pytest.raises(StenoError):
                    await user.session.send(prompt)
            assert list(user.session.entries()) == []
            assert not user.session.is_running
            assert list(await user.session.session_list.summaries()) == []

    run(main())


def test_an_image_that_is_pasted_is_shown_to_the_model(project: Path, home: Path) -> None:
    data = encode_image(red_image())

    async def main() -> None:
        async with open_user_session(project) as user:
            await user.send("Which colour?", data)
            [entry] = [e for e in user.session.entries() if isinstance(e.payload, UserMessage)]
            read = user.session.find_image(entry.id, 1)
            assert read is not None
            assert read() == data
            assert user.session.find_image(entry.id, 0) is None
            assert user.session.find_image("no such entry", 0) is None

    with scripted_model(home, "Red.", settings=WITH_VISION) as model:
        run(main())
    assert len(last_images(model)) == 1


@pytest.mark.requirement("S2-28")
def test_a_reference_that_cannot_be_opened_fails_the_run_and_can_be_retried(
    project: Path, home: Path
) -> None:
    async def main() -> None:
        async with open_user_session(project) as user:
            ended = await user.send("What is in @later.txt?")
            assert isinstance(ended.result.error, Unresolved)
            assert user.session.is_unfinished
            assert user.texts == []
            prompt = PromptInput("What is in @later.txt?")
            assert user.events_of(InputReturned) == [InputReturned((prompt,))]
            await user.session.run_command("retry")
            await user.end(1)
            assert user.events_of(InputReturned) == [
                InputReturned((prompt,)),
                InputReturned((prompt,)),
            ]
            (project / "later.txt").write_text("now it is there\n", "utf-8")
            await user.session.run_command("retry")
            await user.end(2)
            assert user.texts == ["What is in @later.txt?", "I see."]
            assert len(user.events_of(InputReturned)) == 2
            assert not user.session.is_unfinished

    with scripted_model(home, "I see."):
        run(main())


# -- failing and continuing ----------------------------------------------------------------------


def test_a_run_that_failed_is_tried_again_from_where_it_was(project: Path, home: Path) -> None:
    async def main() -> None:
        async with open_user_session(project) as user:
            ended = await user.send("Hello?")
            assert ended.result.end_reason is EndReason.FAILED
            assert user.session.is_unfinished
            assert (await user.session.run_command("retry")).plain_text == "Retrying."
            await user.end(1)
            assert user.texts == ["Hello?", "Hello."]

    with scripted_model(home, Fault(400, "not today"), "Hello."):
        run(main())


def test_an_answer_that_was_interrupted_can_be_had_anew(project: Path, home: Path) -> None:
    gate = threading.Event()

    async def main() -> None:
        async with open_user_session(project) as user:
            await user.session.send(PromptInput("Tell me."))
            await user.until(lambda: user.events_of(TextDelta))
            user.session.interrupt()
            ended = await user.end()
            gate.set()
            assert ended.result.end_reason is EndReason.INTERRUPTED
            assert not user.session.is_running
            await user.session.run_command("retry")
            await user.end(1)
            assert user.texts == ["Tell me.", "The end."]
            assert Rewind in kinds(user)
            assert user.events_of(BranchChanged) == [BranchChanged()]

    with scripted_model(home, ["Once upon", gate, " a time"], "The end."):
        run(main())


def test_another_program_that_was_faster_is_named_as_trouble(project: Path, home: Path) -> None:
    gate = threading.Event()

    async def main() -> None:
        async with open_user_session(project) as user:
            await user.send("One.")
            session = user.session.status.session
            assert session is not None
            await user.session.send(PromptInput("Two."))
            await user.until(lambda: user.texts[-1:] == ["Two."])
            with open_store() as store:
                store.open(session).change_mode(Mode.PLAN)
            gate.set()
            await user.until(lambda: user.events_of(RunFailed))
            [error] = user.events_of(RunFailed)
            assert error.code == "session_changed"
            assert user.events_of(ErrorRaised) == []
            assert not user.session.is_running
            await user.session.session_list.resume(session)
            assert user.session.status.mode is Mode.PLAN

    with scripted_model(home, "First.", [gate, "Second."]):
        run(main())


def test_a_closed_session_takes_no_prompt(project: Path) -> None:
    async def main() -> None:
        async with open_user_session(project, flags={"model": "offline"}) as user:
            await user.session.close()
            with pytest.raises(StenoError) as caught:
                await user.session.send(PromptInput("Hello?"))
            assert caught.value.code == "session_closed"
            await user.session.close()

    run(main())


def test_closing_during_a_run_leaves_a_session_that_can_be_resumed(
    project: Path, home: Path
) -> None:
    gate = threading.Event()

    async def leave() -> None:
        async with open_user_session(project) as user:
            await user.session.send(PromptInput("Tell me."))
            await user.until(lambda: user.events_of(TextDelta))

    async def come_back() -> None:
        async with open_user_session(project, continues=True) as user:
            assert user.texts == ["Tell me.", "Once upon"]
            await user.send("Go on.")
            assert user.texts[-1] == "The end."

    with scripted_model(home, ["Once upon", gate, " a time"], "The end."):
        run(leave())
        gate.set()
        run(come_back())


# -- modes, models, summaries --------------------------------------------------------------------


def test_the_mode_changes_at_once_also_while_the_agent_works(project: Path, home: Path) -> None:
    gate = threading.Event()

    async def main() -> None:
        async with open_user_session(project) as user:
            await user.session.send(PromptInput("Write it."))
            await user.until(lambda: "Write it." in user.texts)
            user.session.change_mode(Mode.PLAN)
            user.session.change_mode(Mode.PLAN)
            assert user.session.status.mode is Mode.PLAN
            assert kinds(user).count(ModeChange) == 1
            gate.set()
            await user.end()
            results = [e.message for e in user.session.entries()]
            codes = [result_code(m) for m in results if isinstance(m, ToolResultMessage)]
            assert codes == [ResultCode.DENIED_BY_MODE]

    with scripted_model(home, [gate, Call("write", {"path": "a.txt", "content": "a"})], "I see."):
        run(main())
    assert not (project / "a.txt").exists()


def test_changing_the_model_reports_what_it_will_not_see(project: Path, home: Path) -> None:
    async def main() -> None:
        async with open_user_session(project) as user:
            (project / "shapes.png").write_bytes(encode_image(red_image()))
            await user.send("Which colour is @shapes.png?")
            reply = await user.session.change_model("offline")
            assert user.session.status.model == "offline/assistant"
            assert "`offline/assistant`" in reply.plain_text
            assert "image_left_out" in reply.plain_text
            assert kinds(user).count(ModelChange) == 1
            await user.send("read note.txt")
            assert kinds(user).count(ModelChange) == 2
            again = await user.session.run_command("model", "offline")
            assert "`offline/assistant`" in again.plain_text
            assert kinds(user).count(ModelChange) == 2

    with scripted_model(home, "Red.", settings=WITH_VISION):
        run(main())


def test_a_model_that_there_is_not_leaves_everything_as_it_was(project: Path) -> None:
    async def main() -> None:
        async with open_user_session(project, flags={"model": "offline"}) as user:
            with pytest.raises(InvalidValue) as refused:
                await user.session.change_model("unknown/nothing")
            assert refused.value.code == "provider_unknown"
            assert refused.value.place == "/model unknown/nothing"
            assert user.session.status.model == "offline/assistant"
            await user.send("read note.txt")

    run(main())


def test_nothing_is_exchanged_while_the_agent_works(project: Path, home: Path) -> None:
    gate = threading.Event()

    async def main() -> None:
        async with open_user_session(project) as user:
            await user.session.send(PromptInput("Hello?"))
            await user.until(lambda: user.texts == ["Hello?"])
            session = user.session
            for refused, place in (
                (session.change_model("offline"), ""),
                (session.session_list.new(), ""),
                (session.session_list.resume("last"), ""),
                (session.run_command("retry"), "/retry"),
                (session.run_command("compact"), "/compact"),
                (session.run_command("fork"), "/fork"),
                (session.run_command("label", "here"), "/label"),
            ):
                with pytest.raises(StenoError) as caught:
                    await refused
                assert (caught.value.code, caught.value.place) == ("agent_busy", place)
            gate.set()
            await user.end()

    with scripted_model(home, [gate, "Hello."]):
        run(main())


def test_compact_summarizes_the_conversation(project: Path, home: Path) -> None:
    async def main() -> None:
        async with open_user_session(project) as user:
            await user.session.run_command("compact")
            assert Compaction not in kinds(user)
            await user.send("One?")
            await user.send("Two?")
            reply = await user.session.run_command("compact")
            assert reply.plain_text == "They counted."
            assert Compaction in kinds(user)
            assert not user.session.is_running
            assert user.session.status.usage.input_tokens == 30
            await user.send("Three?")

    with scripted_model(home, "One.", "Two.", "They counted.", "Three.") as model:
        run(main())
    assert "They counted." in str(model.seen[-1]["messages"])
    assert "One?" not in str(model.seen[-1]["messages"])


def test_compact_can_be_interrupted_and_input_meanwhile_waits(project: Path, home: Path) -> None:
    asked, gate = threading.Event(), threading.Event()

    def never_done() -> Iterator[Step]:
        asked.set()
        yield gate

    async def main() -> None:
        async with open_user_session(project) as user:
            await user.send("One?")
            await user.send("Two?")
            summing_up = asyncio.create_task(user.session.run_command("compact"))
            assert await asyncio.to_thread(asked.wait, PATIENCE_S)
            assert user.session.is_running
            speaking_up = asyncio.create_task(user.session.send(PromptInput("Three?")))
            user.session.interrupt()
            await summing_up
            assert Compaction not in kinds(user)
            await speaking_up
            await user.end(2)
            assert user.texts[-2:] == ["Three?", "Three."]

    with scripted_model(home, "One.", "Two.", never_done(), "Three."):
        run(main())
        gate.set()


# -- how things stand ----------------------------------------------------------------------------


def test_the_standing_follows_the_branch(project: Path, home: Path) -> None:
    async def main() -> None:
        async with open_user_session(project) as user:
            session = user.session
            await user.send("One?")
            one = session.status
            await user.send("Two?")
            two = session.status
            assert (one.usage.total_tokens, two.usage.total_tokens) == (15, 30)
            assert (one.context_tokens, two.context_tokens) == (15, 15)
            assert two.context_limit == 32_000
            first = next(e for e in session.entries() if isinstance(e.payload, AssistantMessage))
            session.branches.fork("back", at=first.id)
            assert session.status.usage.total_tokens == 15
            assert session.status.branch == "back"

    settings = '[models."lab/tester"]\ncontext_tokens = 32000\n'
    with scripted_model(home, "One.", "Two.", settings=settings):
        run(main())


def test_startup_notices_are_emitted_to_subscribers(project: Path, home: Path) -> None:
    async def main() -> list[Notice]:
        async with open_user_session(project) as user:
            await user.until(lambda: user.events_of(Notice))
            return user.events_of(Notice)

    write_settings(home, 'model = "offline"\nmax_cost = 1\n')
    [notice] = run(main())
    assert (notice.kind, notice.code) == (NoticeKind.CONTEXT, "price_unknown")
    assert "max_cost" in notice.text


def test_only_what_is_unfinished_or_broken_can_be_tried_again(project: Path) -> None:
    async def main() -> None:
        async with open_user_session(project, flags={"model": "offline"}) as user:
            with pytest.raises(Missing):
                await user.session.run_command("retry")
            await user.send("read note.txt")
            with pytest.raises(Missing):
                await user.session.run_command("retry")
            assert len(user.events_of(RunEnded)) == 1

    run(main())


@pytest.mark.requirement("S2-27")
def test_an_image_for_a_model_without_vision_is_recognised_and_reported(
    project: Path, home: Path
) -> None:
    async def main() -> None:
        async with open_user_session(project) as user:
            await user.send("When?", encode_png(draw_text("Ship it on Friday.")))
            kinds = [notice.kind for notice in user.events_of(Notice)]
            assert kinds == [NoticeKind.INPUT, NoticeKind.INPUT]  # before and after recognition

    with scripted_model(home, "Friday.", settings=WITHOUT_VISION) as model:
        run(main())
    assert "Ship it on Friday." in last_text(model)


def test_a_command_of_an_unknown_server_is_sent_as_text_and_reported(
    project: Path,
) -> None:
    async def main() -> None:
        async with open_user_session(project, flags={"model": "offline"}) as user:
            await user.send("/lab:three now")
            [notice] = user.events_of(Notice)
            assert (notice.kind, notice.code) == (NoticeKind.INPUT, "command_left_as_text")
            assert notice.text.startswith("/lab:three: ")
            assert user.texts[0] == "/lab:three now"

    run(main())


def test_the_offline_assistant_sums_nothing_up(project: Path) -> None:
    async def main() -> None:
        async with open_user_session(project, flags={"model": "offline"}) as user:
            await user.send("list files")
            before = user.texts
            with pytest.raises(StenoError) as caught:
                await user.session.run_command("compact")
            assert (caught.value.code, caught.value.place) == ("offline_model", "/compact")
            assert user.texts == before

    run(main())


def test_every_run_starts_once_and_a_summary_is_no_run(project: Path, home: Path) -> None:
    async def main() -> None:
        async with open_user_session(project) as user:
            for _ in range(6):
                await user.send("Hello?")
            assert len(user.events_of(RunStarted)) == len(user.events_of(RunEnded)) == 6
            await user.session.run_command("compact")
            assert any(isinstance(entry.payload, Compaction) for entry in user.session.entries())
            assert len(user.events_of(RunStarted)) == 6

    with scripted_model(home, *["Hello."] * 6, "Greetings were exchanged."):
        run(main())


@pytest.mark.parametrize("is_eager", [False, True], ids=["lazy", "eager"])
def test_a_prompt_that_cannot_be_recorded_starts_no_run(
    project: Path, home: Path, is_eager: bool
) -> None:
    async def main() -> None:
        if is_eager:  # as Textual does from Python 3.12 on; before, tasks are never eager
            factory = getattr(asyncio, "eager_task_factory", None)
            asyncio.get_running_loop().set_task_factory(factory)
        async with open_user_session(project) as user:
            await user.send("One.")
            session = user.session.status.session
            assert session is not None
            with open_store() as store:
                store.open(session).change_mode(Mode.PLAN)
            with pytest.raises(StenoError) as caught:
                await user.session.send(PromptInput("Two."))
            assert caught.value.code == "session_changed"
            assert len(user.events_of(RunStarted)) == len(user.events_of(RunEnded)) == 1
            assert user.events_of(RunFailed) == []
            assert not user.session.is_running

    with scripted_model(home, "First."):
        run(main())


def test_a_summary_can_be_interrupted_before_it_begins(project: Path, home: Path) -> None:
    async def main() -> None:
        async with open_user_session(project) as user:
            for _ in range(6):
                await user.send("Hello?")
            command = asyncio.create_task(user.session.run_command("compact"))
            while not user.session.is_running:  # noqa: ASYNC110 - there is no event to wait for
                await asyncio.sleep(0)
            user.session.interrupt()
            await command
            assert not any(
                isinstance(entry.payload, Compaction) for entry in user.session.entries()
            )

    with scripted_model(home, *["Hello."] * 6):
        run(main())


def test_values_of_other_types_are_refused_at_once(project: Path) -> None:
    async def main() -> None:
        async with open_user_session(project, flags={"model": "offline"}) as user:
            session: Any = user.session
            for request in (session.send("Hello?"), asyncio.to_thread(session.decide, "c1", True)):
                with pytest.raises(InvalidValue) as caught:
                    await request
                assert caught.value.code == "wrong_type"

    run(main())
