"""What goes wrong around a desk: disks, other programs, commands without end. Nothing is lost by it."""

from __future__ import annotations

import resource
import signal
import sqlite3
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from steno.agent import Notice
from steno.app.session import AgentSession, ErrorRaised, PromptInput, ShellEnded, ShellOutput
from steno.app.user_shell import MAX_SHOWN_CHARACTERS, OutputLimiter
from steno.errors import Conflict, Missing, StenoError
from steno.messages.message import ChatMessage
from steno.records.entry import Mode
from steno.store import open_store
from tests.app.project_setup import make_project, scripted_model
from tests.app.session_setup import SessionUser, open_user_session, run

OFFLINE = {"model": "offline"}


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return make_project(tmp_path, monkeypatch)


@contextmanager
def full_disk() -> Generator[None]:
    """Let no file grow, as if there were no room."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)


def go_on_elsewhere(person: SessionUser) -> None:
    """Let another program say something in the same session."""
    session = person.desk.status.session
    assert session
    with open_store() as store:
        store.open(session).append(ChatMessage.user("Me first."))


def damage_first_record(home: Path) -> None:
    (store,) = home.rglob("*.db")
    with sqlite3.connect(store) as connection:
        connection.execute("UPDATE record SET data = '{' WHERE key = (SELECT min(key) FROM record)")


def label_last(desk: AgentSession) -> None:
    desk.branches.label(desk.entries()[-1].id, "here")


# -- no room -----------------------------------------------------------------------------------


def test_words_that_cannot_be_recorded_are_refused_and_may_be_said_again(project: Path) -> None:
    async def main() -> None:
        async with open_user_session(project, flags=OFFLINE) as person:
            await person.say("read note.txt")
            said = person.said
            with full_disk(), pytest.raises(StenoError, match="the disk failed"):
                await person.desk.send(PromptInput("read note.txt"))
            assert not person.desk.is_running
            assert person.told(ErrorRaised) == []
            assert person.said == said
            await person.say("read note.txt")
            assert len(person.said) == 2 * len(said)

    run(main())


def test_what_a_command_printed_is_shown_even_if_it_cannot_be_recorded(project: Path) -> None:
    async def main() -> None:
        async with open_user_session(project, flags=OFFLINE) as person:
            await person.say("read note.txt")
            with full_disk():
                await person.desk.run_shell("echo one")
                await person.until(lambda: person.told(ShellEnded))
            assert [one.text for one in person.told(ShellOutput)] == ["one\n"]
            [trouble] = person.told(ErrorRaised)
            assert "the disk failed" in trouble.text
            await person.say("read note.txt")

    run(main())


# -- another program ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "change",
    [lambda desk: desk.change_mode(Mode.PLAN), label_last],
    ids=["mode", "label"],
)
def test_whatever_another_program_was_faster_with_is_told_with_a_way_on(
    project: Path, change: Callable[[AgentSession], None]
) -> None:
    async def main() -> None:
        async with open_user_session(project, flags=OFFLINE) as person:
            await person.say("read note.txt")
            go_on_elsewhere(person)
            with pytest.raises(Conflict) as caught:
                change(person.desk)
            assert caught.value.code == "changed_elsewhere"
            with pytest.raises(StenoError) as caught:
                await person.desk.send(PromptInput("And now?"))
            assert caught.value.code == "changed_elsewhere"
            person.desk.branches.fork("beside")
            change(person.desk)
            await person.say("read note.txt")

    run(main())


def test_a_session_that_another_program_has_removed_is_told_of_with_a_way_on(project: Path) -> None:
    async def main() -> None:
        async with open_user_session(project, flags=OFFLINE) as person:
            await person.say("read note.txt")
            with open_store() as store:
                store.remove(person.desk.status.session or "")
            with pytest.raises(StenoError) as caught:
                await person.desk.send(PromptInput("And now?"))
            assert caught.value.code == "removed_elsewhere"
            with pytest.raises(Missing) as caught:
                person.desk.change_mode(Mode.PLAN)
            assert caught.value.code == "removed_elsewhere"
            await person.desk.session_list.new()
            await person.say("read note.txt")

    run(main())


def test_a_session_that_cannot_be_read_is_not_left_out_in_silence(
    project: Path, home: Path
) -> None:
    async def main() -> None:
        async with open_user_session(project, flags=OFFLINE) as person:
            await person.say("read note.txt")
            damaged = person.desk.status.session
            await person.desk.session_list.new()
            await person.say("read note.txt")
            damage_first_record(home)
            for _ in range(2):
                [kept] = await person.desk.session_list.summaries()
                assert kept.id == person.desk.status.session
            told = [one.text for one in person.told(Notice) if str(damaged) in one.text]
            assert told == [
                f"session {damaged}: it cannot be read; `steno verify {damaged}` tells why"
            ]

    run(main())


def test_a_session_that_cannot_be_read_leaves_the_one_at_hand_and_its_model(
    project: Path, home: Path
) -> None:
    async def main() -> None:
        async with open_user_session(project) as person:
            await person.say("Hello?")
            damaged = person.desk.status.session or ""
            await person.desk.session_list.new()
            await person.desk.change_model("offline")
            await person.say("read note.txt")
            standing = person.desk.status
            damage_first_record(home)
            with pytest.raises(StenoError):
                await person.desk.session_list.resume(damaged)
            assert person.desk.status == standing
            await person.say("read note.txt")

    with scripted_model(home, "Hello."):
        run(main())


# -- commands without end ----------------------------------------------------------------------


def test_of_output_without_end_the_beginning_is_shown_and_that_there_is_more() -> None:
    told: list[str] = []
    shown = OutputLimiter(told.append, max_characters=10)
    for _ in range(1_000):
        shown("1234")
    assert (
        "".join(told) == "1234123412\n[... there is more, which is not shown while it runs ...]\n"
    )


def test_a_command_without_end_fills_no_memory_and_can_be_stopped(project: Path) -> None:
    async def main() -> None:
        async with open_user_session(project, flags=OFFLINE) as person:
            await person.desk.run_shell("yes")
            await person.until(
                lambda: any("there is more" in o.text for o in person.told(ShellOutput))
            )
            for _ in range(20):
                person.desk.interrupt()
            await person.until(lambda: person.told(ShellEnded))
            assert (
                sum(len(one.text) for one in person.told(ShellOutput)) < 1.1 * MAX_SHOWN_CHARACTERS
            )
            assert person.said[-1].endswith("[stopped]")

    run(main())
