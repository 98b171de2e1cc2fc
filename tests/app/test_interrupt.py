"""Interrupting a session: the run ends, and no input is lost."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from steno.agent import EndReason, PromptInput, RunEnded, TurnStarted
from steno.agent.session_events import (
    ErrorRaised,
    InputReturned,
    RunFailed,
    SessionEvent,
    ShellEnded,
    ShellStarted,
)
from steno.app.session import AgentSession
from steno.app.session_lookup import SessionStart
from steno.app.settings import load_settings
from steno.errors import StenoError
from steno.messages.event import TextDelta
from steno.records.entry import ShellCommand
from steno.store import Store
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


async def begin(user: SessionUser, text: str, model: ScriptedVendor) -> None:
    """Send a prompt, and wait until the model has received it."""
    await user.session.send(PromptInput(text))
    await user.until(lambda: user.events_of(TurnStarted))
    while not model.seen:  # noqa: ASYNC110 - there is no event to wait for
        await asyncio.sleep(0.005)


async def run_shell(user: SessionUser, command: str) -> None:
    await user.session.run_shell(command)
    await user.until(lambda: user.events_of(ShellEnded))


@pytest.mark.parametrize("steering", ["after_calls", "after_run"])
def test_interrupting_ends_the_run_and_returns_unsent_input(
    project: Path, home: Path, steering: str
) -> None:
    gate, picture = threading.Event(), encode_image(red_image())
    second, third = PromptInput("And be brief.", (picture,)), PromptInput(" In verse. ")

    async def main() -> None:
        async with open_user_session(project) as user:
            await begin(user, "Tell me.", model)
            await user.session.send(second)
            await user.session.send(third)
            user.session.interrupt()
            ended = await user.end()
            assert ended.result.end_reason is EndReason.INTERRUPTED
            assert user.events_of(InputReturned) == [InputReturned((second, third))]
            assert user.texts == ["Tell me."]
            gate.set()

    with scripted_model(
        home, [gate, "Once."], settings=f'steering = "{steering}"\n{WITH_VISION}'
    ) as model:
        run(main())
    assert len(model.seen) == 1


def test_interrupting_before_the_first_step_records_nothing(project: Path, home: Path) -> None:
    async def main() -> None:
        async with open_user_session(project) as user:
            sending = asyncio.create_task(user.session.send(PromptInput("Tell me.")))
            while not user.session.is_running:  # noqa: ASYNC110 - not a moment later
                await asyncio.sleep(0)
            user.session.interrupt()
            with pytest.raises(StenoError) as caught:
                await sending
            assert caught.value.code == "interrupted"
            assert not user.session.is_running
            assert user.texts == []
            await user.send("And now?")
            assert user.texts == ["And now?", "Yes."]

    with scripted_model(home, "Yes.") as model:
        run(main())
    assert len(model.seen) == 1


def test_input_that_was_sent_is_not_returned(project: Path, home: Path) -> None:
    first, second = threading.Event(), threading.Event()

    async def main() -> None:
        async with open_user_session(project) as user:
            await begin(user, "Tell me.", model)
            await user.session.send(PromptInput("And be brief."))
            first.set()
            await user.until(lambda: len(user.events_of(TurnStarted)) == 2)
            user.session.interrupt()
            ended = await user.end()
            assert ended.result.end_reason is EndReason.INTERRUPTED
            assert user.events_of(InputReturned) == []
            assert user.texts == ["Tell me.", "Once.", "And be brief."]
            second.set()

    with scripted_model(home, [first, "Once."], [second, "Well."]) as model:
        run(main())


def test_shell_output_stays_when_input_is_returned(project: Path, home: Path) -> None:
    gate = threading.Event()

    async def main() -> None:
        async with open_user_session(project) as user:
            await begin(user, "Tell me.", model)
            await run_shell(user, "echo from outside")
            await user.session.send(PromptInput("And be brief."))
            user.session.interrupt()
            ended = await user.end()
            assert ended.result.end_reason is EndReason.INTERRUPTED
            assert user.events_of(InputReturned) == [InputReturned((PromptInput("And be brief."),))]
            assert user.texts == ["Tell me.", "$ echo from outside\nfrom outside\n"]
            gate.set()

    with scripted_model(home, [gate, "Once."]) as model:
        run(main())
    assert len(model.seen) == 1


def test_output_of_a_shell_command_requests_no_response(project: Path, home: Path) -> None:
    gate = threading.Event()

    async def main() -> None:
        async with open_user_session(project) as user:
            await begin(user, "Hello?", model)
            await run_shell(user, "echo from outside")
            gate.set()
            ended = await user.end()
            assert ended.result.end_reason is EndReason.DONE
            assert user.texts == ["Hello?", "Hello.", "$ echo from outside\nfrom outside\n"]
            assert not user.session.is_unfinished

    with scripted_model(home, [gate, "Hello."]) as model:
        run(main())
    assert len(model.seen) == 1


def test_closing_a_session_records_unsent_input(project: Path, home: Path) -> None:
    gate = threading.Event()

    async def leave() -> None:
        async with open_user_session(project) as user:
            await user.session.send(PromptInput("Tell me."))
            await user.until(lambda: user.events_of(TextDelta))
            await user.session.send(PromptInput("And be brief."))

    async def come_back() -> None:
        async with open_user_session(project, continues=True) as user:
            assert user.texts == ["Tell me.", "Once upon", "And be brief."]
            assert user.session.is_unfinished

    with scripted_model(home, ["Once upon", gate, " a time"]) as model:
        run(leave())
        gate.set()
        run(come_back())
    assert len(model.seen) == 1


# -- the end -----------------------------------------------------------------------------------


def test_nothing_starts_in_a_session_that_is_closing(project: Path) -> None:
    async def main() -> None:
        async with open_user_session(project, flags={"model": "offline"}) as user:
            await user.session.run_shell("exec sleep 600")
            closing = asyncio.create_task(user.session.close())
            await asyncio.sleep(0)
            assert not closing.done()
            for refused in (user.session.run_shell("ls"), user.session.send(PromptInput("Hello?"))):
                with pytest.raises(StenoError) as caught:
                    await refused
                assert caught.value.code == "session_closed"
            await closing

    run(main())


def test_input_still_being_read_when_a_session_closes_is_not_sent(project: Path) -> None:
    async def main() -> None:
        async with open_user_session(project, flags={"model": "offline"}) as user:
            (project / "shapes.png").write_bytes(encode_image(red_image()))
            sending = asyncio.create_task(user.session.send(PromptInput("Look.", ("shapes.png",))))
            await asyncio.sleep(0)  # it reads the image
            await user.session.close()
            with pytest.raises(StenoError) as caught:
                await sending
            assert caught.value.code == "session_closed"
            assert list(user.session.entries()) == []

    run(main())


def test_closing_without_waiting_for_the_end_leaves_nothing_open(
    project: Path, home: Path, caplog: pytest.LogCaptureFixture
) -> None:
    gate = threading.Event()
    at_work: list[AgentSession] = []

    async def sit() -> None:
        loaded = load_settings(project, flags={})
        async with AgentSession.open(
            loaded, SessionStart(project), mcp_options=NO_SERVER
        ) as session:
            await session.send(PromptInput("Tell me."))
            at_work.append(session)
            await asyncio.Event().wait()

    async def main() -> None:
        sitting = asyncio.create_task(sit())
        while not at_work:  # noqa: ASYNC110 - there is no event to wait for
            await asyncio.sleep(0.005)
        for _ in range(2):
            sitting.cancel()
            await asyncio.sleep(0)
        with pytest.raises(asyncio.CancelledError):
            await sitting
        with pytest.raises(StenoError) as caught:
            list(at_work[0].state.store.headers())
        assert caught.value.code == "store_closed"

    with scripted_model(home, [gate, "Once."]), caplog.at_level(logging.ERROR):
        run(main())
        gate.set()
    assert caplog.messages == []


# -- who watches -------------------------------------------------------------------------------


def test_a_fault_of_a_subscriber_does_not_end_the_run_and_is_reported_once(
    project: Path, home: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        async with open_user_session(project) as user:
            events: list[SessionEvent] = []
            over = asyncio.Event()

            def stumble(event: SessionEvent) -> None:
                events.append(event)
                if isinstance(event, RunEnded):
                    over.set()
                raise ZeroDivisionError("a face that cannot draw")

            user.session.subscribe(stumble)
            await user.session.send(PromptInput("Hello?"))
            await over.wait()
            assert user.texts == ["Hello?", "Hello."]
            [error] = [event for event in events if isinstance(event, ErrorRaised)]
            assert error.code == "listener_failed"
            assert "ZeroDivisionError: a face that cannot draw" in error.text

    with scripted_model(home, "Hello."), caplog.at_level(logging.ERROR, "steno.app"):
        run(main())
    [record] = caplog.records
    assert record.name == "steno.app"
    assert record.exc_info is not None


def test_several_listeners_receive_the_events_until_they_leave(project: Path, home: Path) -> None:
    async def main() -> None:
        async with open_user_session(project) as user:
            seen: list[SessionEvent] = []
            unsubscribe = user.session.subscribe(seen.append)
            again = user.session.subscribe(seen.append)
            again()  # the first subscription stays
            await user.send("Hello?")
            assert [event for event in seen if isinstance(event, RunEnded)]
            unsubscribe()
            unsubscribe()
            count = len(seen)
            await user.send("Hello?")
            assert len(seen) == count

    with scripted_model(home, "Hello.", "Hello."):
        run(main())


def test_every_failing_listener_is_reported_once(
    project: Path, home: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        async with open_user_session(project) as user:

            def fail(_: SessionEvent) -> None:
                raise ZeroDivisionError

            def fail_too(_: SessionEvent) -> None:
                raise LookupError

            user.session.subscribe(fail)
            user.session.subscribe(fail_too)
            await user.send("Hello?")
            assert [e.code for e in user.events_of(ErrorRaised)] == ["listener_failed"] * 2

    with scripted_model(home, "Hello."), caplog.at_level(logging.CRITICAL, "steno.app"):
        run(main())


# -- a store that opens slowly -----------------------------------------------------------------


class SlowStore:
    """Opens a store when it is allowed to."""

    def __init__(self, open_now: Callable[[], Store]) -> None:
        self.open_now = open_now
        self.has_begun, self.may_open = threading.Event(), threading.Event()
        self.store: Store | None = None

    def open(self) -> Store:
        self.has_begun.set()
        assert self.may_open.wait(60)
        self.store = self.open_now()
        return self.store


@asynccontextmanager
async def open_program_session(project: Path) -> AsyncGenerator[tuple[SessionUser, SlowStore]]:
    """Open a session of a program, which opens its store when it needs it."""
    loaded = load_settings(project, flags={"model": "offline"})
    async with AgentSession.open(
        loaded, SessionStart(project), is_interactive=False, mcp_options=NO_SERVER
    ) as session:
        state = session.state
        slow = SlowStore(state.config.open_store)
        state.config = state.config._replace(open_store=slow.open)
        yield SessionUser(session), slow


def test_an_interrupt_while_the_store_opens_stops_the_prompt(
    project: Path,
) -> None:
    async def main() -> None:
        async with open_program_session(project) as (user, slow):
            sending = asyncio.create_task(user.session.send(PromptInput("read note.txt")))
            await asyncio.to_thread(slow.has_begun.wait, 60)
            user.session.interrupt()
            with pytest.raises(StenoError) as caught:
                await sending
            assert caught.value.code == "interrupted"
            assert not user.session.is_running
            slow.may_open.set()
            ended = await user.send("read note.txt")  # the same store is used
            assert ended.result.end_reason is EndReason.DONE

    run(main())


def test_a_session_that_closes_while_its_store_opens_leaves_no_store_open(
    project: Path,
) -> None:
    async def main() -> None:
        async with open_program_session(project) as (user, slow):
            sending = asyncio.create_task(user.session.send(PromptInput("read note.txt")))
            await asyncio.to_thread(slow.has_begun.wait, 60)
            await user.session.close()
            slow.may_open.set()
            with pytest.raises(StenoError) as caught:
                await sending
            assert caught.value.code == "session_closed"
            assert slow.store is not None
            with pytest.raises(StenoError) as caught:
                list(slow.store.headers())
            assert caught.value.code == "store_closed"

    run(main())


def test_a_program_can_use_the_store_before_its_first_prompt(
    project: Path,
) -> None:
    async def main() -> None:
        async with open_program_session(project) as (user, slow):
            slow.may_open.set()
            session = user.session
            assert list(await session.session_list.summaries()) == []
            await session.run_command("usage")
            await session.run_shell("echo hello")
            await user.until(lambda: user.events_of(ShellEnded))
            assert user.events_of(ErrorRaised) == []
            assert [
                entry.payload.output
                for entry in session.entries()
                if isinstance(entry.payload, ShellCommand)
            ] == ["hello\n"]
            await session.close()
            with pytest.raises(StenoError) as caught:
                await session.run_command("usage")
            assert caught.value.code == "session_closed"

    run(main())


async def error_code(task: asyncio.Task[None]) -> str | None:
    """Return the code of the error that a task raises; None if it raises none."""
    try:
        await task
    except StenoError as exc:
        return exc.code
    return None


@pytest.mark.parametrize("ticks", range(6))
def test_a_shell_command_that_is_interrupted_as_it_starts_ends(project: Path, ticks: int) -> None:
    async def main() -> None:
        async with open_user_session(project, flags={"model": "offline"}) as user:
            command = asyncio.create_task(user.session.run_shell("sleep 60"))
            for _ in range(ticks):
                await asyncio.sleep(0)
            user.session.interrupt()
            if code := await error_code(command):
                assert (code, user.events_of(ShellStarted)) == ("interrupted", [])
            else:
                if not user.events_of(ShellEnded) and ticks < 2:
                    user.session.interrupt()  # it was not there yet
                await user.until(lambda: user.events_of(ShellEnded))
            assert not user.session.is_running
            await run_shell(user, "true")

    run(main())


def test_a_listener_can_interrupt_a_shell_command_that_starts(project: Path) -> None:
    async def main() -> None:
        async with open_user_session(project, flags={"model": "offline"}) as user:

            def interrupt(event: SessionEvent) -> None:
                if isinstance(event, ShellStarted):
                    user.session.interrupt()

            user.session.subscribe(interrupt)
            await run_shell(user, "sleep 60")
            assert not user.session.is_running

    run(main())


@pytest.mark.parametrize("ticks", range(6))
def test_no_shell_command_starts_after_the_session_is_closed(project: Path, ticks: int) -> None:
    async def main() -> None:
        async with open_user_session(project, flags={"model": "offline"}) as user:
            command = asyncio.create_task(user.session.run_shell("sleep 1; touch late.txt"))
            for _ in range(ticks):
                await asyncio.sleep(0)
            await user.session.close()
            assert await error_code(command) in (None, "session_closed", "interrupted")
            assert len(user.events_of(ShellStarted)) == len(user.events_of(ShellEnded))
            assert not user.session.is_running
        assert not (project / "late.txt").exists()

    run(main())


def test_listeners_learn_that_closing_ends_a_run(project: Path, home: Path) -> None:
    gate = threading.Event()

    async def main() -> None:
        async with open_user_session(project) as user:
            await user.session.send(PromptInput("Hello?"))
            await user.until(lambda: user.events_of(TurnStarted))
            await user.session.close()
            assert [one.code for one in user.events_of(RunFailed)] == ["session_closed"]

    with scripted_model(home, [gate, "Hello."]):
        run(main())
        gate.set()
