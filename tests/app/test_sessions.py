"""The desk and its sessions: begun late, gone on with, found, renamed and removed."""

from __future__ import annotations

from pathlib import Path

import pytest

from steno.agent import EntryRecorded, Notice
from steno.app.session import BranchChanged
from steno.errors import InvalidValue, Missing, StenoError
from steno.messages.message import SystemMessage, UserMessage
from steno.records.entry import Mode, ModeChange
from steno.records.stored_record import MAIN_BRANCH
from steno.store import open_store
from tests.app.project_setup import make_project, write_settings
from tests.app.session_setup import open_user_session, run

pytestmark = pytest.mark.requirement("S4-15")
OFFLINE = {"model": "offline"}


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return make_project(tmp_path, monkeypatch)


def sessions() -> list[str]:
    with open_store() as store:
        return [header.id for header in store.headers()]


def test_who_opens_a_desk_and_leaves_it_leaves_no_session_behind(project: Path) -> None:
    async def main() -> None:
        async with open_user_session(project, flags=OFFLINE) as person:
            desk = person.desk
            assert list(desk.entries()) == []
            assert list(await desk.branches.rows()) == []
            assert list(desk.branches.names()) == [MAIN_BRANCH]
            assert (desk.is_running, desk.is_unfinished, list(desk.pending_calls)) == (
                False,
                False,
                [],
            )
            desk.change_mode(Mode.PLAN)
            standing = desk.status
            assert (standing.session, standing.title, standing.branch) == ("", "", MAIN_BRANCH)
            assert (standing.model, standing.mode) == ("offline/assistant", Mode.PLAN)
            assert (standing.usage.total_tokens, standing.cost) == (0, None)
            assert standing.context_tokens is None
            assert standing.context_limit == 1_000_000
            assert list(desk.entries()) == []

    run(main())
    assert sessions() == []


def test_the_first_words_begin_a_session_with_all_that_was_set_before(project: Path) -> None:
    async def main() -> str:
        async with open_user_session(project, flags=OFFLINE) as person:
            person.desk.change_mode(Mode.PLAN)
            await person.say("read note.txt")
            standing = person.desk.status
            assert standing.title == "read note.txt"
            assert standing.mode is Mode.PLAN
            assert standing.usage.total_tokens > 0
            assert standing.context_tokens is not None
            first, second, *_ = [entry.payload for entry in person.desk.entries()]
            assert isinstance(first, SystemMessage)
            assert isinstance(second, ModeChange)
            assert [event.entry for event in person.told(EntryRecorded)] == list(
                person.desk.entries()
            )
            assert standing.session is not None
            return standing.session

    session = run(main())
    assert sessions() == [session]
    with open_store() as store:
        header = store.header(session)
        assert (header.about or {})["folder"] == str(project)
        assert store.verify(header.id).is_intact


def test_what_a_person_should_know_is_told_once_somebody_watches(project: Path) -> None:
    (project / ".steno").mkdir()
    (project / ".steno" / "config.toml").write_text('model = "openai/gpt-5"\n', "utf-8")

    async def main() -> list[str]:
        async with open_user_session(project, flags=OFFLINE) as person:
            assert person.told(Notice) == []
            await person.until(lambda: person.told(Notice))
            return [notice.text for notice in person.told(Notice)]

    [told] = run(main())
    assert "project settings ignored: model" in told


def test_a_session_goes_on_where_it_was(project: Path) -> None:
    async def begin() -> str | None:
        async with open_user_session(project, flags=OFFLINE) as person:
            await person.say("read note.txt")
            return person.desk.status.session

    async def go_on() -> str | None:
        async with open_user_session(project, continues=True, mode="plan", fork="aside") as person:
            standing = person.desk.status
            assert (standing.model, standing.mode) == ("offline/assistant", Mode.PLAN)
            assert (standing.branch, standing.title) == ("aside", "read note.txt")
            assert standing.usage.total_tokens > 0
            assert person.said[0] == "read note.txt"
            return standing.session

    assert run(begin()) == run(go_on())


def test_to_go_on_without_a_session_is_refused(project: Path) -> None:
    async def main() -> None:
        async with open_user_session(project, continues=True):
            pass

    with pytest.raises(Missing, match="none was begun in this folder"):
        run(main())


def test_a_desk_that_keeps_nothing_works_the_same(project: Path) -> None:
    async def main() -> None:
        async with open_user_session(project, keeps=False, flags=OFFLINE) as person:
            await person.say("read note.txt")
            assert person.desk.status.session is None
            assert "forty-two" in " ".join(person.said)
            assert len(await person.desk.session_list.summaries()) == 1
            assert person.desk.branches.fork() == "fork-1"

    run(main())
    assert sessions() == []


def test_another_session_is_begun_by_its_first_words_too(project: Path) -> None:
    async def main() -> None:
        async with open_user_session(project, flags=OFFLINE) as person:
            desk = person.desk
            await person.say("read note.txt")
            first = desk.status.session
            await desk.session_list.new("Another")
            assert person.events[-1] == BranchChanged()
            assert list(desk.entries()) == []
            assert desk.status.title == "Another"
            assert desk.status.usage.total_tokens == 0
            assert len(await desk.session_list.summaries()) == 1
            await person.say("list .")
            assert desk.status.session not in (None, first)
            assert [kept.title for kept in await desk.session_list.summaries()] == [
                "Another",
                "read note.txt",
            ]

    run(main())


def test_sessions_are_found_and_gone_on_with(project: Path) -> None:
    async def main() -> None:
        async with open_user_session(project, flags=OFFLINE) as person:
            desk, shelf = person.desk, person.desk.session_list
            await person.say("read note.txt")
            first = desk.status.session
            assert first is not None
            await shelf.new()
            await person.say("list .")
            [found] = await shelf.summaries("forty-two")
            assert (found.id, found.is_in_this_folder, found.branches) == (first, True, 1)
            assert "forty-two" in found.snippet
            assert await shelf.summaries("never-said") == []
            await shelf.resume(first)
            assert desk.status.session == first
            assert person.said[0] == "read note.txt"
            assert person.events[-1] == BranchChanged()
            with pytest.raises(Missing):
                await shelf.resume("none-of-this-name")
            assert desk.status.session == first

    run(main())


def test_a_session_is_renamed_and_another_one_removed(project: Path) -> None:
    async def main() -> None:
        async with open_user_session(project, flags=OFFLINE) as person:
            desk, shelf = person.desk, person.desk.session_list
            await person.say("read note.txt")
            first = desk.status.session
            assert first is not None
            await shelf.rename(first, " The answer ")
            assert desk.status.title == "The answer"
            with pytest.raises(InvalidValue) as caught:
                await shelf.rename(first, " ")
            assert caught.value.code == "blank_title"
            with pytest.raises(StenoError) as caught:
                await shelf.delete(first)
            assert caught.value.code == "session_in_use"
            await shelf.new()
            await shelf.delete(first)
            assert list(await shelf.summaries()) == []
            with pytest.raises(Missing):
                await shelf.delete(first)

    run(main())


def test_a_session_that_is_resumed_brings_its_own_model_if_it_can_be_had(
    project: Path, home: Path
) -> None:
    async def main() -> None:
        async with open_user_session(project) as person:
            await person.say("read note.txt")
            first = person.desk.status.session
            assert first is not None
            with open_store() as store:
                store.open(first).change_model("openai/gpt-5")
            await person.desk.session_list.resume(first)
            assert person.desk.status.model == "offline/assistant"
            [told] = [notice.text for notice in person.told(Notice)]
            assert told.startswith("openai/gpt-5, who spoke last")
            assert told.endswith("offline/assistant answers")

    write_settings(home, 'model = "offline"\n')
    run(main())


def test_the_words_of_a_person_are_the_last_on_record_until_they_are_answered(
    project: Path,
) -> None:
    with open_store() as store:
        store.new(id="half").append(UserMessage.user("Are you there?"))

    async def main() -> None:
        async with open_user_session(project, resume="half", flags=OFFLINE) as person:
            assert person.desk.is_unfinished
            await person.desk.run_command("retry")
            await person.end()
            assert not person.desk.is_unfinished
            with pytest.raises(Missing) as caught:
                await person.desk.run_command("retry")
            assert caught.value.code == "nothing_to_retry"

    run(main())
