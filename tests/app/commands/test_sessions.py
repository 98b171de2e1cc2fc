"""`/sessions` and `steno sessions`: every action gives the same rows in both."""

from __future__ import annotations

import json
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from steno import Conversation
from steno.agent import EntryRecorded
from steno.agent.session_events import BranchChanged
from steno.app.commands.arguments import UsageError
from steno.app.commands.report import Report
from steno.app.commands.sessions import ACTIONS
from steno.app.commands.table import SLASH_COMMANDS_BY_NAME
from steno.errors import InvalidValue, Missing, StenoError
from steno.records.entry import Label, Redacted
from steno.records.stored_record import MAIN_BRANCH
from steno.store import Store, open_store
from tests.app.command_setup import run_with_context
from tests.app.project_setup import make_project
from tests.app.session_setup import open_user_session, run
from tests.cli.program import ProgramOutput, run_steno, sample_session

pytestmark = pytest.mark.requirement("S4-15")
OFFLINE = {"model": "offline"}


@pytest.fixture(autouse=True)
def project(tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return make_project(tmp_path, monkeypatch)


def open_talk(store: Store) -> Conversation:
    """Return the open session of a store with two of them."""
    sample_session(store, id="other-talk")
    return sample_session(store)


def at_terminal(project: Path, text: str) -> Report:
    """Run `/sessions` in a session; its store is kept for `at_command_line`."""
    (project.parent / "context.db").unlink(missing_ok=True)
    return run_with_context(project, "sessions", text, begin=open_talk)


def at_command_line(project: Path, *arguments: str) -> ProgramOutput:
    return run_steno("sessions", *arguments, "--store", f"sqlite:{project.parent / 'context.db'}")


@contextmanager
def stored(project: Path) -> Generator[Store]:
    with open_store(f"sqlite:{project.parent / 'context.db'}") as store:
        yield store


# -- reading -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("typed", "arguments"),
    [
        ("", ["list"]),
        ("list --limit 1", ["list", "--limit", "1"]),
        ("search green", ["search", "green"]),
        ("search mend build", ["search", "mend", "build"]),
        ("show", ["show", "talk"]),
        ("show other-talk --branch other", ["show", "other-talk", "--branch", "other"]),
        ("tree", ["tree", "talk"]),
        ("tree talk --all", ["tree", "talk", "--all"]),
    ],
)
def test_a_report_has_the_same_rows_and_data_everywhere(
    project: Path, typed: str, arguments: list[str]
) -> None:
    report = at_terminal(project, typed)
    printed = at_command_line(project, *arguments)
    assert printed.status == 0
    lines = [line.split() for line in report.plain_text.splitlines()]
    assert lines == [line.split() for line in printed.out.splitlines()]
    as_json = at_terminal(project, f"{typed or 'list'} --json").plain_text
    assert as_json == at_command_line(project, *arguments, "--json").out.rstrip("\n")
    assert all(map(json.loads, as_json.splitlines()))


def test_sessions_of_this_folder_are_those_of_the_open_session(project: Path) -> None:
    async def main() -> None:
        async with open_user_session(project, flags=OFFLINE) as user:
            await user.send("read note.txt")
            (table,) = (await user.session.run_command("sessions", "list --here")).tables
            assert len(table.rows) == 1
            await user.session.session_list.new()
            report = await user.session.run_command("sessions", "tree last")
            assert "forty-two" in report.plain_text

    with open_store() as store:
        sample_session(store)
    run(main())


@pytest.mark.parametrize("action", ["show", "tree", "fork", "label 1 x"])
def test_a_session_that_is_not_recorded_yet_has_nothing_to_show_or_change(
    project: Path, action: str
) -> None:
    async def main() -> None:
        async with open_user_session(project, flags=OFFLINE) as user:
            with pytest.raises(Missing) as caught:
                await user.session.run_command("sessions", action)
            assert caught.value.code == "empty_session"

    run(main())


# -- changes -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("typed", "arguments"),
    [
        ("fork other-talk", ["fork", "other-talk"]),
        ("fork other-talk --at green --name bold", None),
        ("label other-talk 2 ' the cause '", ["label", "other-talk", "2", " the cause "]),
        ("rename other-talk ' Green again '", ["rename", "other-talk", " Green again "]),
        ("redact other-talk 2 --reason private --actor ada --yes", None),
        ("rm other-talk --yes", None),
    ],
)
def test_a_change_is_the_same_everywhere(
    project: Path, typed: str, arguments: list[str] | None
) -> None:
    def state() -> object:
        with stored(project) as store:
            headers = [(header.id, header.title) for header in store.headers()]
            return sorted(headers), [
                (record.branch, None if record.entry is None else type(record.entry.payload))
                for id, _ in headers
                for record in store.records(id)
            ]

    at_terminal(project, "list")
    printed = at_command_line(project, *(arguments or typed.split()))
    assert printed.status == 0
    after = state()
    report = at_terminal(project, typed)
    assert state() == after
    said = [line.removeprefix("steno: ") for line in (printed.out + printed.err).splitlines()]
    assert [line for line in report.plain_text.splitlines() if line] == said


def test_the_open_session_is_forked_labelled_and_renamed_as_by_commands_of_its_own(
    project: Path,
) -> None:
    async def main() -> None:
        async with open_user_session(project, flags=OFFLINE) as user:
            session = user.session
            await user.send("read note.txt")
            await session.run_command("sessions", "label 1 ' first '")
            assert [e.entry.payload for e in user.events_of(EntryRecorded)][-1] == Label(
                target=session.entries()[0].id, text="first"
            )
            report = await session.run_command("sessions", "fork")
            assert report.plain_text.splitlines()[0] == "fork-1"
            assert (session.status.branch, user.events[-1]) == ("fork-1", BranchChanged())
            await session.run_command("fork")
            assert session.status.branch == "fork-2"
            await session.run_command("sessions", "fork --at first --name early")
            assert list(session.branches.names()) == ["early", MAIN_BRANCH, "fork-1", "fork-2"]
            await session.run_command("sessions", "rename ' The answer '")
            assert session.status.title == "The answer"
            await session.run_command("rename", " Another ")
            assert session.status.title == "Another"
            clone = await session.run_command("sessions", "fork --clone")
            assert session.status.branch == "early"
            assert len(await session.session_list.summaries()) == 2
            assert clone.plain_text.splitlines()[0] != session.status.session

    run(main())


@pytest.mark.parametrize("is_recorded", [True, False])
@pytest.mark.parametrize(("command", "text"), [("rename", " "), ("sessions", "rename ' '")])
def test_a_blank_title_is_refused(
    project: Path, command: str, text: str, is_recorded: bool
) -> None:
    async def main() -> None:
        async with open_user_session(project, flags=OFFLINE) as user:
            if is_recorded:
                await user.send("read note.txt")
            before = user.session.status.title
            with pytest.raises(InvalidValue) as caught:
                await user.session.run_command(command, text)
            assert (caught.value.code, caught.value.place) == ("blank_title", f"/{command}")
            assert user.session.status.title == before

    run(main())


@pytest.mark.parametrize("action", ["rm {} --yes", "redact 1 --reason private --yes"])
def test_the_open_session_is_neither_removed_nor_redacted(project: Path, action: str) -> None:
    async def main() -> None:
        async with open_user_session(project, flags=OFFLINE) as user:
            await user.send("read note.txt")
            session = user.session.status.session
            with pytest.raises(StenoError) as caught:
                await user.session.run_command("sessions", action.format(session))
            assert caught.value.code == "session_in_use"
            assert len(await user.session.session_list.summaries()) == 1
            assert not any(isinstance(e.payload, Redacted) for e in user.session.entries())

    run(main())


def test_in_a_terminal_a_permanent_change_needs_yes(project: Path) -> None:
    with pytest.raises(UsageError) as caught:
        at_terminal(project, "rm other-talk")
    assert (caught.value.code, caught.value.place) == ("confirmation_needed", "/sessions")
    with stored(project) as store:
        assert len(list(store.headers())) == 2


# -- the group ---------------------------------------------------------------------------------


def test_a_terminal_offers_and_explains_every_action(project: Path) -> None:
    names = [action.name for action in ACTIONS]
    assert list(SLASH_COMMANDS_BY_NAME["sessions"].choices) == names
    text = at_terminal(project, "--help").plain_text
    assert all(f"\n    {name}" in text for name in names)
    for name in names:
        own = at_terminal(project, f"{name} --help").plain_text
        assert own.startswith(f"usage: /sessions {name} ")
