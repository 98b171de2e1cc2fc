"""To stop what runs at a desk: it ends, and nothing that was said is lost by it."""

from __future__ import annotations

import asyncio
import logging
import threading
from pathlib import Path

import pytest

from steno.agent import EndReason, RunEnded, TurnStarted
from steno.app.local_session import open_local_session
from steno.app.session import (
    AgentSession,
    ErrorRaised,
    InputReturned,
    PromptInput,
    SessionEvent,
    ShellEnded,
)
from steno.app.sessions import SessionStart
from steno.app.settings_loader import load_settings
from steno.errors import StenoError
from steno.messages.event import TextDelta
from tests.app.project_setup import make_project, scripted_model
from tests.app.scripted_vendor import ScriptedVendor
from tests.app.session_setup import NO_SERVER, SessionUser, open_user_session, run
from tests.cli.reference_setup import WITH_VISION
from tests.inputs.images.image_samples import encode_image, red_image

pytestmark = pytest.mark.requirement("S4-15")


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SHELL", "/bin/sh")
    return make_project(tmp_path, monkeypatch)


async def begin(person: SessionUser, text: str, model: ScriptedVendor) -> None:
    """Say something, and wait until the model has heard it, which is later than it is told."""
    await person.desk.send(PromptInput(text))
    await person.until(lambda: person.told(TurnStarted))
    while not model.seen:  # noqa: ASYNC110 - whoever changes it tells nobody
        await asyncio.sleep(0.005)


async def run_shell(person: SessionUser, command: str) -> None:
    await person.desk.run_shell(command)
    await person.until(lambda: person.told(ShellEnded))


@pytest.mark.parametrize("steering", ["after_calls", "after_run"])
def test_to_interrupt_ends_the_run_and_what_was_not_heard_comes_back(
    project: Path, home: Path, steering: str
) -> None:
    gate, picture = threading.Event(), encode_image(red_image())
    second, third = PromptInput("And be brief.", (picture,)), PromptInput(" In verse. ")

    async def main() -> None:
        async with open_user_session(project) as person:
            await begin(person, "Tell me.", model)
            await person.desk.send(second)
            await person.desk.send(third)
            person.desk.interrupt()
            ended = await person.end()
            assert ended.result.ending is EndReason.INTERRUPTED
            assert person.told(InputReturned) == [InputReturned((second, third))]
            assert person.said == ["Tell me."]
            gate.set()

    with scripted_model(
        home, [gate, "Once."], settings=f'steering = "{steering}"\n{WITH_VISION}'
    ) as model:
        run(main())
    assert len(model.seen) == 1


def test_to_interrupt_before_the_first_step_of_a_run_says_nothing(
    project: Path, home: Path
) -> None:
    async def main() -> None:
        async with open_user_session(project) as person:
            saying = asyncio.create_task(person.desk.send(PromptInput("Tell me.")))
            while not person.desk.is_running:  # noqa: ASYNC110 - not a moment later
                await asyncio.sleep(0)
            person.desk.interrupt()
            with pytest.raises(StenoError) as caught:
                await saying
            assert caught.value.code == "interrupted"
            assert not person.desk.is_running
            assert person.said == []
            await person.say("And now?")
            assert person.said == ["And now?", "Yes."]

    with scripted_model(home, "Yes.") as model:
        run(main())
    assert len(model.seen) == 1


def test_what_was_heard_does_not_come_back(project: Path, home: Path) -> None:
    first, second = threading.Event(), threading.Event()

    async def main() -> None:
        async with open_user_session(project) as person:
            await begin(person, "Tell me.", model)
            await person.desk.send(PromptInput("And be brief."))
            first.set()
            await person.until(lambda: len(person.told(TurnStarted)) == 2)
            person.desk.interrupt()
            ended = await person.end()
            assert ended.result.ending is EndReason.INTERRUPTED
            assert person.told(InputReturned) == []
            assert person.said == ["Tell me.", "Once.", "And be brief."]
            second.set()

    with scripted_model(home, [first, "Once."], [second, "Well."]) as model:
        run(main())


def test_what_a_command_has_printed_stays_where_words_come_back(project: Path, home: Path) -> None:
    gate = threading.Event()

    async def main() -> None:
        async with open_user_session(project) as person:
            await begin(person, "Tell me.", model)
            await run_shell(person, "echo from outside")
            await person.desk.send(PromptInput("And be brief."))
            person.desk.interrupt()
            ended = await person.end()
            assert ended.result.ending is EndReason.INTERRUPTED
            assert person.told(InputReturned) == [InputReturned((PromptInput("And be brief."),))]
            assert person.said == ["Tell me.", "$ echo from outside\nfrom outside\n"]
            gate.set()

    with scripted_model(home, [gate, "Once."]) as model:
        run(main())
    assert len(model.seen) == 1


def test_what_a_command_has_printed_asks_for_no_answer(project: Path, home: Path) -> None:
    gate = threading.Event()

    async def main() -> None:
        async with open_user_session(project) as person:
            await begin(person, "Hello?", model)
            await run_shell(person, "echo from outside")
            gate.set()
            ended = await person.end()
            assert ended.result.ending is EndReason.DONE
            assert person.said == ["Hello?", "Hello.", "$ echo from outside\nfrom outside\n"]
            assert not person.desk.is_unfinished

    with scripted_model(home, [gate, "Hello."]) as model:
        run(main())
    assert len(model.seen) == 1


def test_who_leaves_finds_on_record_what_was_said_and_not_heard(project: Path, home: Path) -> None:
    gate = threading.Event()

    async def leave() -> None:
        async with open_user_session(project) as person:
            await person.desk.send(PromptInput("Tell me."))
            await person.until(lambda: person.told(TextDelta))
            await person.desk.send(PromptInput("And be brief."))

    async def come_back() -> None:
        async with open_user_session(project, continues=True) as person:
            assert person.said == ["Tell me.", "Once upon", "And be brief."]
            assert person.desk.is_unfinished

    with scripted_model(home, ["Once upon", gate, " a time"]) as model:
        run(leave())
        gate.set()
        run(come_back())
    assert len(model.seen) == 1


# -- the end -----------------------------------------------------------------------------------


def test_nothing_begins_at_a_desk_that_is_being_closed(project: Path) -> None:
    async def main() -> None:
        async with open_user_session(project, flags={"model": "offline"}) as person:
            await person.desk.run_shell("exec sleep 600")
            closing = asyncio.create_task(person.desk.close())
            await asyncio.sleep(0)
            assert not closing.done()
            for refused in (person.desk.run_shell("ls"), person.desk.send(PromptInput("Hello?"))):
                with pytest.raises(StenoError) as caught:
                    await refused
                assert caught.value.code == "session_closed"
            await closing

    run(main())


def test_what_is_still_being_read_when_a_desk_is_closed_is_not_said(project: Path) -> None:
    async def main() -> None:
        async with open_user_session(project, flags={"model": "offline"}) as person:
            (project / "shapes.png").write_bytes(encode_image(red_image()))
            saying = asyncio.create_task(person.desk.send(PromptInput("Look.", ("shapes.png",))))
            await asyncio.sleep(0)  # it reads the image
            await person.desk.close()
            with pytest.raises(StenoError) as caught:
                await saying
            assert caught.value.code == "session_closed"
            assert list(person.desk.entries()) == []

    run(main())


def test_who_does_not_wait_for_the_end_leaves_nothing_open_either(
    project: Path, home: Path, caplog: pytest.LogCaptureFixture
) -> None:
    gate = threading.Event()
    at_work: list[AgentSession] = []

    async def sit() -> None:
        loaded = load_settings(project, flags={})
        async with open_local_session(loaded, SessionStart(project), mcp_options=NO_SERVER) as desk:
            await desk.send(PromptInput("Tell me."))
            at_work.append(desk)
            await asyncio.Event().wait()

    async def main() -> None:
        sitting = asyncio.create_task(sit())
        while not at_work:  # noqa: ASYNC110 - whoever changes it tells nobody
            await asyncio.sleep(0.005)
        for _ in range(2):
            sitting.cancel()
            await asyncio.sleep(0)
        with pytest.raises(asyncio.CancelledError):
            await sitting
        with pytest.raises(StenoError) as caught:
            await at_work[0].session_list.summaries()
        assert caught.value.code == "session_closed"

    with scripted_model(home, [gate, "Once."]), caplog.at_level(logging.ERROR):
        run(main())
        gate.set()
    assert caplog.messages == []


# -- who watches -------------------------------------------------------------------------------


def test_a_fault_of_who_watches_does_not_end_the_run_and_is_told_once(
    project: Path, home: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        async with open_user_session(project) as person:
            told: list[SessionEvent] = []
            over = asyncio.Event()

            def stumble(event: SessionEvent) -> None:
                told.append(event)
                if isinstance(event, RunEnded):
                    over.set()
                raise ZeroDivisionError("a face that cannot draw")

            person.desk.subscribe(stumble)
            await person.desk.send(PromptInput("Hello?"))
            await over.wait()
            assert person.said == ["Hello?", "Hello."]
            [trouble] = [event for event in told if isinstance(event, ErrorRaised)]
            assert trouble.code == "listener_failed"
            assert "ZeroDivisionError: a face that cannot draw" in trouble.text

    with scripted_model(home, "Hello."), caplog.at_level(logging.ERROR, "steno.cli"):
        run(main())
    [record] = caplog.records
    assert record.name == "steno.cli"
    assert record.exc_info is not None
