"""The desk at work: what is said begins a run or steers it, and what goes wrong is told."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from steno.agent import EndReason, Notice, NoticeCode, RunEnded, TurnStarted
from steno.app.session import BranchChanged, ErrorRaised, InputReturned, PromptInput
from steno.errors import InvalidValue, Missing, StenoError, Unresolved
from steno.messages.event import TextDelta
from steno.messages.message import AssistantMessage, UserMessage
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


def kinds(person: SessionUser) -> list[type]:
    return [type(entry.payload) for entry in person.desk.entries()]


# -- saying --------------------------------------------------------------------------------------


def test_what_is_said_begins_a_run_and_returns_at_once(project: Path, home: Path) -> None:
    gate = threading.Event()

    async def main() -> None:
        async with open_user_session(project) as person:
            await person.desk.send(PromptInput("Hello?"))
            assert person.desk.is_running
            gate.set()
            ended = await person.end()
            assert not person.desk.is_running
            assert (ended.result.ending, ended.result.text) == (EndReason.DONE, "Hello.")
            assert person.said == ["Hello?", "Hello."]

    with scripted_model(home, [gate, "Hello."]):
        run(main())


def test_words_that_come_while_the_agent_works_steer_it(project: Path, home: Path) -> None:
    gate = threading.Event()

    async def main() -> None:
        async with open_user_session(project) as person:
            await person.desk.send(PromptInput("Read it."))
            await person.until(lambda: person.told(TurnStarted))
            await person.desk.send(PromptInput("And be brief."))
            gate.set()
            await person.end()
            assert person.said == ["Read it.", "", "     1\tforty-two\n", "And be brief.", "42."]

    with scripted_model(home, [gate, Call("read", {"path": "note.txt"})], "42.") as model:
        run(main())
    assert model.said_to_it() == ["system", "user", "assistant", "tool", "user"]


def test_two_things_said_at_once_are_heard_in_their_order(project: Path, home: Path) -> None:
    async def main() -> None:
        async with open_user_session(project) as person:
            (project / "shapes.png").write_bytes(encode_image(red_image()))
            await asyncio.gather(
                person.desk.send(PromptInput("One.", ("shapes.png",))),
                person.desk.send(PromptInput("Two.")),
            )
            await person.end()
            assert [text for text in person.said if text in ("One.", "Two.")] == ["One.", "Two."]

    with scripted_model(home, "Yes.", "Yes.", settings=WITH_VISION):
        run(main())


def test_words_that_cannot_be_read_are_refused_before_anything_is_on_record(
    project: Path,
) -> None:
    async def main() -> None:
        async with open_user_session(project, flags={"model": "offline"}) as person:
            for words in (
                PromptInput("@../elsewhere.txt:9-1"),
                PromptInput("Look.", ("missing.png",)),
                PromptInput("Look.", (b"no image at all",)),
                PromptInput("  "),
            ):
                with pytest.raises(StenoError):
                    await person.desk.send(words)
            assert list(person.desk.entries()) == []
            assert not person.desk.is_running
            assert list(await person.desk.session_list.summaries()) == []

    run(main())


def test_an_image_that_is_pasted_is_shown_to_the_model(project: Path, home: Path) -> None:
    data = encode_image(red_image())

    async def main() -> None:
        async with open_user_session(project) as person:
            await person.say("Which colour?", data)
            [said] = [e for e in person.desk.entries() if isinstance(e.payload, UserMessage)]
            read = person.desk.find_image(said.id, 1)
            assert read is not None
            assert read() == data
            assert person.desk.find_image(said.id, 0) is None
            assert person.desk.find_image("no such entry", 0) is None

    with scripted_model(home, "Red.", settings=WITH_VISION) as model:
        run(main())
    assert len(last_images(model)) == 1


@pytest.mark.requirement("S2-28")
def test_what_cannot_be_opened_fails_the_run_and_may_be_tried_again(
    project: Path, home: Path
) -> None:
    async def main() -> None:
        async with open_user_session(project) as person:
            ended = await person.say("What is in @later.txt?")
            assert isinstance(ended.result.error, Unresolved)
            assert person.desk.is_unfinished
            assert person.said == []
            words = PromptInput("What is in @later.txt?")
            assert person.told(InputReturned) == [InputReturned((words,))]
            await person.desk.run_command("retry")
            await person.end(1)
            assert person.told(InputReturned) == [InputReturned((words,)), InputReturned((words,))]
            (project / "later.txt").write_text("now it is there\n", "utf-8")
            await person.desk.run_command("retry")
            await person.end(2)
            assert person.said == ["What is in @later.txt?", "I see."]
            assert len(person.told(InputReturned)) == 2
            assert not person.desk.is_unfinished

    with scripted_model(home, "I see."):
        run(main())


# -- failing and going on ------------------------------------------------------------------------


def test_a_run_that_failed_is_tried_again_from_where_it_was(project: Path, home: Path) -> None:
    async def main() -> None:
        async with open_user_session(project) as person:
            ended = await person.say("Hello?")
            assert ended.result.ending is EndReason.FAILED
            assert person.desk.is_unfinished
            assert (await person.desk.run_command("retry")).text == "Tries again."
            await person.end(1)
            assert person.said == ["Hello?", "Hello."]

    with scripted_model(home, Fault(400, "not today"), "Hello."):
        run(main())


def test_an_answer_that_was_interrupted_can_be_had_anew(project: Path, home: Path) -> None:
    gate = threading.Event()

    async def main() -> None:
        async with open_user_session(project) as person:
            await person.desk.send(PromptInput("Tell me."))
            await person.until(lambda: person.told(TextDelta))
            person.desk.interrupt()
            ended = await person.end()
            gate.set()
            assert ended.result.ending is EndReason.INTERRUPTED
            assert not person.desk.is_running
            await person.desk.run_command("retry")
            await person.end(1)
            assert person.said == ["Tell me.", "The end."]
            assert Rewind in kinds(person)
            assert person.told(BranchChanged) == [BranchChanged()]

    with scripted_model(home, ["Once upon", gate, " a time"], "The end."):
        run(main())


def test_another_program_that_was_faster_is_named_as_trouble(project: Path, home: Path) -> None:
    gate = threading.Event()

    async def main() -> None:
        async with open_user_session(project) as person:
            await person.say("One.")
            session = person.desk.status.session
            assert session is not None
            await person.desk.send(PromptInput("Two."))
            await person.until(lambda: person.said[-1:] == ["Two."])
            with open_store() as store:
                store.open(session).change_mode(Mode.PLAN)
            gate.set()
            await person.until(lambda: person.told(ErrorRaised))
            [trouble] = person.told(ErrorRaised)
            assert trouble.code == "changed_elsewhere"
            assert not person.desk.is_running
            await person.desk.session_list.resume(session)
            assert person.desk.status.mode is Mode.PLAN

    with scripted_model(home, "First.", [gate, "Second."]):
        run(main())


def test_nothing_can_be_said_at_a_desk_that_is_closed(project: Path) -> None:
    async def main() -> None:
        async with open_user_session(project, flags={"model": "offline"}) as person:
            await person.desk.close()
            with pytest.raises(StenoError) as caught:
                await person.desk.send(PromptInput("Hello?"))
            assert caught.value.code == "session_closed"
            await person.desk.close()

    run(main())


def test_leaving_in_the_middle_leaves_a_session_that_can_be_gone_on_with(
    project: Path, home: Path
) -> None:
    gate = threading.Event()

    async def leave() -> None:
        async with open_user_session(project) as person:
            await person.desk.send(PromptInput("Tell me."))
            await person.until(lambda: person.told(TextDelta))

    async def come_back() -> None:
        async with open_user_session(project, continues=True) as person:
            assert person.said == ["Tell me.", "Once upon"]
            await person.say("Go on.")
            assert person.said[-1] == "The end."

    with scripted_model(home, ["Once upon", gate, " a time"], "The end."):
        run(leave())
        gate.set()
        run(come_back())


# -- modes, models, summaries --------------------------------------------------------------------


def test_the_mode_changes_at_once_also_while_the_agent_works(project: Path, home: Path) -> None:
    gate = threading.Event()

    async def main() -> None:
        async with open_user_session(project) as person:
            await person.desk.send(PromptInput("Write it."))
            await person.until(lambda: "Write it." in person.said)
            person.desk.change_mode(Mode.PLAN)
            person.desk.change_mode(Mode.PLAN)
            assert person.desk.status.mode is Mode.PLAN
            assert kinds(person).count(ModeChange) == 1
            gate.set()
            await person.end()
            assert any("plan mode allows reading only" in text for text in person.said)

    with scripted_model(home, [gate, Call("write", {"path": "a.txt", "content": "a"})], "I see."):
        run(main())
    assert not (project / "a.txt").exists()


def test_another_model_answers_from_here_on_and_is_told_what_it_sees(
    project: Path, home: Path
) -> None:
    async def main() -> None:
        async with open_user_session(project) as person:
            (project / "shapes.png").write_bytes(encode_image(red_image()))
            await person.say("Which colour is @shapes.png?")
            reply = await person.desk.change_model("offline")
            assert person.desk.status.model == "offline/assistant"
            assert "`offline/assistant` answers from here on" in reply.text
            assert "image\\_left\\_out" in reply.text
            assert kinds(person).count(ModelChange) == 1
            await person.say("read note.txt")
            assert kinds(person).count(ModelChange) == 2
            again = await person.desk.run_command("model", "offline")
            assert "answers already" in again.text

    with scripted_model(home, "Red.", settings=WITH_VISION):
        run(main())


def test_a_model_that_there_is_not_leaves_everything_as_it_was(project: Path) -> None:
    async def main() -> None:
        async with open_user_session(project, flags={"model": "offline"}) as person:
            with pytest.raises(InvalidValue, match="/model nobody/nothing: there is no vendor"):
                await person.desk.change_model("nobody/nothing")
            assert person.desk.status.model == "offline/assistant"
            await person.say("read note.txt")

    run(main())


def test_nothing_is_exchanged_while_the_agent_works(project: Path, home: Path) -> None:
    gate = threading.Event()

    async def main() -> None:
        async with open_user_session(project) as person:
            await person.desk.send(PromptInput("Hello?"))
            await person.until(lambda: person.said == ["Hello?"])
            desk = person.desk
            for refused in (
                desk.change_model("offline"),
                desk.session_list.new(),
                desk.session_list.resume("last"),
                desk.run_command("retry"),
                desk.run_command("compact"),
                desk.run_command("fork"),
                desk.run_command("label", "here"),
            ):
                with pytest.raises(StenoError) as caught:
                    await refused
                assert caught.value.code == "agent_running"
            gate.set()
            await person.end()

    with scripted_model(home, [gate, "Hello."]):
        run(main())


def test_what_was_said_is_summed_up_on_request(project: Path, home: Path) -> None:
    async def main() -> None:
        async with open_user_session(project) as person:
            assert "Nothing was summed up" in (await person.desk.run_command("compact")).text
            await person.say("One?")
            await person.say("Two?")
            reply = await person.desk.run_command("compact")
            assert reply.text == "They counted."
            assert Compaction in kinds(person)
            assert not person.desk.is_running
            assert person.desk.status.usage.input_tokens == 30
            await person.say("Three?")

    with scripted_model(home, "One.", "Two.", "They counted.", "Three.") as model:
        run(main())
    assert "They counted." in str(model.seen[-1]["messages"])
    assert "One?" not in str(model.seen[-1]["messages"])


def test_to_sum_up_can_be_interrupted_and_what_is_said_meanwhile_waits(
    project: Path, home: Path
) -> None:
    asked, gate = threading.Event(), threading.Event()

    def never_done() -> Iterator[Step]:
        asked.set()
        yield gate

    async def main() -> None:
        async with open_user_session(project) as person:
            await person.say("One?")
            await person.say("Two?")
            summing_up = asyncio.create_task(person.desk.run_command("compact"))
            assert await asyncio.to_thread(asked.wait, PATIENCE_S)
            assert person.desk.is_running
            speaking_up = asyncio.create_task(person.desk.send(PromptInput("Three?")))
            person.desk.interrupt()
            assert "Nothing was summed up" in (await summing_up).text
            await speaking_up
            await person.end(2)
            assert person.said[-2:] == ["Three?", "Three."]

    with scripted_model(home, "One.", "Two.", never_done(), "Three."):
        run(main())
        gate.set()


# -- how things stand ----------------------------------------------------------------------------


def test_the_standing_follows_the_branch(project: Path, home: Path) -> None:
    async def main() -> None:
        async with open_user_session(project) as person:
            desk = person.desk
            await person.say("One?")
            one = desk.status
            await person.say("Two?")
            two = desk.status
            assert (one.usage.total_tokens, two.usage.total_tokens) == (15, 30)
            assert (one.context_tokens, two.context_tokens) == (15, 15)
            assert two.context_limit == 32_000
            first = next(e for e in desk.entries() if isinstance(e.payload, AssistantMessage))
            desk.branches.fork("back", at=first.id)
            assert desk.status.usage.total_tokens == 15
            assert desk.status.branch == "back"

    settings = '[models."lab/tester"]\ncontext_tokens = 32000\n'
    with scripted_model(home, "One.", "Two.", settings=settings):
        run(main())


def test_who_watches_is_told_of_servers_and_models_that_come_as_a_surprise(
    project: Path, home: Path
) -> None:
    async def main() -> list[Notice]:
        async with open_user_session(project) as person:
            await person.until(lambda: person.told(Notice))
            return person.told(Notice)

    write_settings(home, 'model = "offline"\nmax_cost = 1\n')
    [notice] = run(main())
    assert notice.code is NoticeCode.CONTEXT
    assert "max_cost" in notice.text


def test_only_what_is_unfinished_or_broken_can_be_tried_again(project: Path) -> None:
    async def main() -> None:
        async with open_user_session(project, flags={"model": "offline"}) as person:
            with pytest.raises(Missing):
                await person.desk.run_command("retry")
            await person.say("read note.txt")
            with pytest.raises(Missing):
                await person.desk.run_command("retry")
            assert len(person.told(RunEnded)) == 1

    run(main())


@pytest.mark.requirement("S2-27")
def test_an_image_for_a_model_that_sees_none_is_read_and_the_person_is_told(
    project: Path, home: Path
) -> None:
    async def main() -> None:
        async with open_user_session(project) as person:
            await person.say("When?", encode_png(draw_text("Ship it on Friday.")))
            doing, done = [notice.text for notice in person.told(Notice)]
            assert doing.startswith("recognising the text in ")
            assert "the model takes no images" in done

    with scripted_model(home, "Friday.", settings=WITHOUT_VISION) as model:
        run(main())
    assert "Ship it on Friday." in last_text(model)


def test_who_asks_a_server_that_there_is_not_is_told_that_it_was_left_as_text(
    project: Path,
) -> None:
    async def main() -> None:
        async with open_user_session(project, flags={"model": "offline"}) as person:
            await person.say("/lab:three now")
            [notice] = person.told(Notice)
            assert notice.text == "/lab:three: there is no server of this name; left as text"
            assert person.said[0] == "/lab:three now"

    run(main())


def test_the_offline_assistant_sums_nothing_up(project: Path) -> None:
    async def main() -> None:
        async with open_user_session(project, flags={"model": "offline"}) as person:
            await person.say("list files")
            before = person.said
            with pytest.raises(StenoError) as caught:
                await person.desk.run_command("compact")
            assert (caught.value.code, caught.value.place) == ("offline_model", "/compact")
            assert person.said == before

    run(main())
