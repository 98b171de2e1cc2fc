"""Faults around a session: disks, other programs, endless commands. Nothing is lost."""

from __future__ import annotations

import resource
import signal
import sqlite3
from collections.abc import Callable, Generator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from steno.agent import Notice, PromptInput
from steno.agent.session_events import ErrorRaised, ShellEnded, ShellOutput
from steno.app.session import AgentSession
from steno.app.shell_command import MAX_SHOWN_CHARACTERS, OutputLimiter
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


def go_on_elsewhere(user: SessionUser) -> None:
    """Append to the same session from another program."""
    session = user.session.status.session
    assert session
    with open_store() as store:
        store.open(session).append(ChatMessage.user("Me first."))


def damage_first_record(home: Path) -> None:
    (store,) = home.rglob("*.db")
    with closing(sqlite3.connect(store)) as connection, connection:
        connection.execute("UPDATE record SET data = '{' WHERE key = (SELECT min(key) FROM record)")


def label_last(session: AgentSession) -> None:
    session.branches.label(session.entries()[-1].id, "here")


# -- no room -----------------------------------------------------------------------------------


def test_a_prompt_that_cannot_be_recorded_is_refused_and_may_be_repeated(project: Path) -> None:
    async def main() -> None:
        async with open_user_session(project, flags=OFFLINE) as user:
            await user.send("read note.txt")
            texts = user.texts
            with full_disk(), pytest.raises(StenoError) as caught:
                await user.session.send(PromptInput("read note.txt"))
            assert caught.value.code == "os_error"
            assert not user.session.is_running
            assert user.events_of(ErrorRaised) == []
            assert user.texts == texts
            await user.send("read note.txt")
            assert len(user.texts) == 2 * len(texts)

    run(main())


def test_output_of_a_command_is_shown_even_if_it_cannot_be_recorded(project: Path) -> None:
    async def main() -> None:
        async with open_user_session(project, flags=OFFLINE) as user:
            await user.send("read note.txt")
            with full_disk():
                await user.session.run_shell("echo one")
                await user.until(lambda: user.events_of(ShellEnded))
            assert [one.text for one in user.events_of(ShellOutput)] == ["one\n"]
            [error] = user.events_of(ErrorRaised)
            assert error.code == "os_error"
            await user.send("read note.txt")

    run(main())


# -- another program ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "change",
    [lambda session: session.change_mode(Mode.PLAN), label_last],
    ids=["mode", "label"],
)
def test_a_conflict_with_another_program_is_reported_with_a_remedy(
    project: Path, change: Callable[[AgentSession], None]
) -> None:
    async def main() -> None:
        async with open_user_session(project, flags=OFFLINE) as user:
            await user.send("read note.txt")
            go_on_elsewhere(user)
            with pytest.raises(Conflict) as caught:
                change(user.session)
            assert caught.value.code == "session_changed"
            with pytest.raises(StenoError) as refused:
                await user.session.send(PromptInput("And now?"))
            assert refused.value.code == "session_changed"
            user.session.branches.fork("beside")
            change(user.session)
            await user.send("read note.txt")

    run(main())


def test_a_session_removed_by_another_program_is_reported_with_a_remedy(project: Path) -> None:
    async def main() -> None:
        async with open_user_session(project, flags=OFFLINE) as user:
            await user.send("read note.txt")
            with open_store() as store:
                store.remove(user.session.status.session or "")
            with pytest.raises(StenoError) as caught:
                await user.session.send(PromptInput("And now?"))
            assert (caught.value.code, caught.value.place) == ("session_removed", "session")
            with pytest.raises(Missing) as caught:
                user.session.change_mode(Mode.PLAN)
            assert (caught.value.code, caught.value.place) == ("session_removed", "session")
            await user.session.session_list.new()
            await user.send("read note.txt")

    run(main())


def test_a_session_that_cannot_be_read_is_not_left_out_in_silence(
    project: Path, home: Path
) -> None:
    async def main() -> None:
        async with open_user_session(project, flags=OFFLINE) as user:
            await user.send("read note.txt")
            damaged = user.session.status.session
            await user.session.session_list.new()
            await user.send("read note.txt")
            damage_first_record(home)
            for _ in range(2):
                [summary] = await user.session.session_list.summaries()
                assert summary.id == user.session.status.session
            [notice] = [one for one in user.events_of(Notice) if str(damaged) in one.text]
            assert notice.code == "session_unreadable"
            assert notice.text.startswith(f"session {damaged}: ")
            assert f"`steno verify {damaged}`" in notice.text

    run(main())


def test_a_session_that_cannot_be_read_leaves_the_one_at_hand_and_its_model(
    project: Path, home: Path
) -> None:
    async def main() -> None:
        async with open_user_session(project) as user:
            await user.send("Hello?")
            damaged = user.session.status.session or ""
            await user.session.session_list.new()
            await user.session.change_model("offline")
            await user.send("read note.txt")
            status = user.session.status
            damage_first_record(home)
            with pytest.raises(StenoError):
                await user.session.session_list.resume(damaged)
            assert user.session.status == status
            await user.send("read note.txt")

    with scripted_model(home, "Hello."):
        run(main())


# -- commands without end ----------------------------------------------------------------------


def test_of_output_without_end_the_beginning_is_shown_and_that_there_is_more() -> None:
    texts: list[str] = []
    shown = OutputLimiter(texts.append, max_characters=10)
    for _ in range(1_000):
        shown("1234")
    note = "\n[... further output is not shown while the command runs ...]\n"
    assert "".join(texts) == f"1234123412{note}"


def test_a_command_without_end_fills_no_memory_and_can_be_stopped(project: Path) -> None:
    async def main() -> None:
        async with open_user_session(project, flags=OFFLINE) as user:
            await user.session.run_shell("yes")
            await user.until(
                lambda: any("further output" in o.text for o in user.events_of(ShellOutput))
            )
            for _ in range(20):
                user.session.interrupt()
            await user.until(lambda: user.events_of(ShellEnded))
            assert (
                sum(len(one.text) for one in user.events_of(ShellOutput))
                < 1.1 * MAX_SHOWN_CHARACTERS
            )
            assert user.texts[-1].endswith("[stopped]")

    run(main())
