"""Shell commands of the user: their output is a recorded user message."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from steno import ChatMessage, ToolCall
from steno.agent import Notice, PromptInput, TurnStarted
from steno.agent.session_events import ShellEnded, ShellOutput, ShellStarted
from steno.errors import InvalidValue, StenoError
from steno.records.entry import Entry, ShellCommand
from steno.store import open_store
from tests.app.project_setup import make_project, scripted_model
from tests.app.scripted_vendor import Call
from tests.app.session_setup import SessionUser, open_user_session, run

pytestmark = pytest.mark.requirement("S4-15")


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SHELL", "/bin/sh")
    return make_project(tmp_path, monkeypatch)


def printed(user: SessionUser) -> Entry:
    """Return the entry that holds what a command has printed."""
    [entry] = [one for one in user.session.entries() if isinstance(one.payload, ShellCommand)]
    return entry


def test_a_command_runs_here_and_begins_a_session_with_what_it_prints(project: Path) -> None:
    async def main() -> None:
        async with open_user_session(project, flags={"model": "offline"}) as user:
            await user.session.run_shell("cat note.txt; exit 3")
            assert user.session.is_running
            await user.until(lambda: user.events_of(ShellEnded))
            assert not user.session.is_running
            assert user.events_of(ShellStarted) == [ShellStarted("cat note.txt; exit 3")]
            assert "".join(event.text for event in user.events_of(ShellOutput)) == "forty-two\n"
            assert user.events_of(ShellEnded) == [ShellEnded(3)]
            entry = printed(user)
            assert entry.message is not None
            assert entry.message.text == "$ cat note.txt; exit 3\nforty-two\n"
            assert entry.payload == ShellCommand(
                command="cat note.txt; exit 3", output="forty-two\n", status=3
            )
            assert dict(entry.audit or {}) == {"actor": user.session.actor}
            assert not user.session.is_unfinished

    run(main())


def test_a_command_that_is_interrupted_is_on_record_as_far_as_it_came(project: Path) -> None:
    async def main() -> None:
        async with open_user_session(project, flags={"model": "offline"}) as user:
            await user.session.run_shell("echo begun; exec sleep 600")
            await user.until(lambda: user.events_of(ShellOutput))
            with pytest.raises(StenoError) as caught:
                await user.session.run_shell("echo another")
            assert caught.value.code == "shell_running"
            with pytest.raises(StenoError) as caught:
                await user.session.session_list.new()
            assert caught.value.code == "shell_running"
            user.session.interrupt()
            await user.until(lambda: user.events_of(ShellEnded))
            assert user.events_of(ShellEnded) == [ShellEnded(None)]
            message = printed(user).message
            assert message is not None
            assert message.text == "$ echo begun; exec sleep 600\nbegun\n[stopped]"

    run(main())


def test_a_shell_command_ends_with_the_session_and_is_recorded(project: Path) -> None:
    async def leave() -> None:
        async with open_user_session(project, flags={"model": "offline"}) as user:
            await user.session.run_shell("echo begun; exec sleep 600")
            await user.until(lambda: user.events_of(ShellOutput))

    async def come_back() -> None:
        async with open_user_session(project, continues=True) as user:
            assert user.texts == ["$ echo begun; exec sleep 600\nbegun\n[stopped]"]

    run(leave())
    run(come_back())


def test_output_of_a_shell_command_during_a_run_steers_it(project: Path, home: Path) -> None:
    gate = threading.Event()

    async def main() -> None:
        async with open_user_session(project) as user:
            await user.session.send(PromptInput("Read it."))
            await user.until(lambda: user.events_of(TurnStarted))
            await user.session.run_shell("echo from outside")
            await user.until(lambda: user.events_of(ShellEnded))
            assert "$ echo from outside\nfrom outside\n" not in user.texts
            gate.set()
            await user.end()
            assert user.texts[-2:] == ["$ echo from outside\nfrom outside\n", "42."]
            payload = printed(user).payload
            assert isinstance(payload, ShellCommand)
            assert payload.status == 0

    with scripted_model(home, [gate, Call("read", {"path": "note.txt"})], "42."):
        run(main())


def test_the_title_of_a_session_is_its_first_prompt_and_no_command(
    project: Path,
) -> None:
    async def main() -> None:
        async with open_user_session(project, flags={"model": "offline"}) as user:
            for _ in range(10):
                await user.session.run_shell("echo hello")
                await user.until(lambda: not user.session.is_running)
                assert user.session.status.title == ""
            await user.send("read note.txt")
            assert user.session.status.title == "read note.txt"
            await user.session.session_list.new()
            await user.session.run_shell("echo hello")
            await user.until(lambda: not user.session.is_running)
            await user.send("list .")
            [summary, _] = await user.session.session_list.summaries()
            assert summary.title == "list ."

    run(main())


def test_a_command_is_refused_where_its_output_could_not_be_recorded(project: Path) -> None:
    with open_store() as store:
        half = store.new([ChatMessage.user("Read it.")], id="half")
        half.append(ChatMessage.assistant(None, [ToolCall(id="c1", name="read", arguments="{}")]))

    async def main() -> None:
        async with open_user_session(project, resume="half", flags={"model": "offline"}) as user:
            assert user.session.is_unfinished
            with pytest.raises(StenoError) as caught:
                await user.session.run_shell("ls")
            assert caught.value.code == "calls_outstanding"
            with pytest.raises(InvalidValue) as caught:
                await user.session.run_shell("  ")
            assert caught.value.code == "empty_command"
            assert not user.session.is_running

    run(main())


@pytest.mark.parametrize(
    ("command", "has_notice"),
    [("cd src", True), ("cd", True), ("cd src && ls", False), ("ls", False)],
)
def test_a_command_that_only_changes_the_folder_is_reported_as_ineffective(
    project: Path, command: str, *, has_notice: bool
) -> None:
    async def main() -> None:
        async with open_user_session(project, flags={"model": "offline"}) as user:
            await user.session.run_shell(command)
            await user.until(lambda: user.events_of(ShellEnded))
            codes = [one.code for one in user.events_of(Notice)]
            assert ("cd_ignored" in codes) == has_notice

    run(main())
