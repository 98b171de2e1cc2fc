"""Sessions of the app: stored late, resumed, found, renamed and removed."""

from __future__ import annotations

from pathlib import Path

import pytest

from steno.agent import EntryRecorded, Notice
from steno.agent.session_events import BranchChanged
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


def test_opening_and_closing_a_session_stores_nothing(project: Path) -> None:
    async def main() -> None:
        async with open_user_session(project, flags=OFFLINE) as user:
            session = user.session
            assert list(session.entries()) == []
            assert list(await session.branches.rows()) == []
            assert list(session.branches.names()) == [MAIN_BRANCH]
            assert (session.is_running, session.is_unfinished, list(session.pending_calls)) == (
                False,
                False,
                [],
            )
            session.change_mode(Mode.PLAN)
            status = session.status
            assert (status.session, status.title, status.branch) == ("", "", MAIN_BRANCH)
            assert (status.model, status.mode) == ("offline/assistant", Mode.PLAN)
            assert (status.usage.total_tokens, status.cost) == (0, None)
            assert status.context_tokens is None
            assert status.context_limit == 1_000_000
            assert list(session.entries()) == []

    run(main())
    assert sessions() == []


def test_the_first_prompt_stores_the_session_with_earlier_settings(project: Path) -> None:
    async def main() -> str:
        async with open_user_session(project, flags=OFFLINE) as user:
            user.session.change_mode(Mode.PLAN)
            await user.send("read note.txt")
            status = user.session.status
            assert status.title == "read note.txt"
            assert status.mode is Mode.PLAN
            assert status.usage.total_tokens > 0
            assert status.context_tokens is not None
            first, second, *_ = [entry.payload for entry in user.session.entries()]
            assert isinstance(first, SystemMessage)
            assert isinstance(second, ModeChange)
            assert [event.entry for event in user.events_of(EntryRecorded)] == list(
                user.session.entries()
            )
            assert status.session is not None
            return status.session

    session = run(main())
    assert sessions() == [session]
    with open_store() as store:
        header = store.header(session)
        assert (header.about or {})["folder"] == str(project)
        assert store.verify(header.id).is_intact


def test_notices_are_emitted_once_there_is_a_subscriber(project: Path) -> None:
    (project / ".steno").mkdir()
    (project / ".steno" / "config.toml").write_text('model = "openai/gpt-5"\n', "utf-8")

    async def main() -> list[Notice]:
        async with open_user_session(project, flags=OFFLINE) as user:
            assert user.events_of(Notice) == []
            await user.until(lambda: user.events_of(Notice))
            return user.events_of(Notice)

    [notice] = run(main())
    assert notice.code == "settings_ignored"
    assert notice.text.startswith(f"{project}/.steno/config.toml: ")
    assert "model" in notice.text


def test_a_session_resumes_where_it_was(project: Path) -> None:
    async def begin() -> str | None:
        async with open_user_session(project, flags=OFFLINE) as user:
            await user.send("read note.txt")
            return user.session.status.session

    async def go_on() -> str | None:
        async with open_user_session(project, continues=True, mode="plan", fork="aside") as user:
            status = user.session.status
            assert (status.model, status.mode) == ("offline/assistant", Mode.PLAN)
            assert (status.branch, status.title) == ("aside", "read note.txt")
            assert status.usage.total_tokens > 0
            assert user.texts[0] == "read note.txt"
            return status.session

    assert run(begin()) == run(go_on())


def test_continuing_without_a_session_is_refused(project: Path) -> None:
    async def main() -> None:
        async with open_user_session(project, continues=True):
            pass

    with pytest.raises(Missing) as refused:
        run(main())
    assert (refused.value.code, refused.value.place) == ("folder_without_session", "session")


def test_a_session_that_is_not_stored_works_the_same(project: Path) -> None:
    async def main() -> None:
        async with open_user_session(project, keeps=False, flags=OFFLINE) as user:
            await user.send("read note.txt")
            assert user.session.status.session is None
            assert "forty-two" in " ".join(user.texts)
            assert len(await user.session.session_list.summaries()) == 1
            assert user.session.branches.fork() == "fork-1"

    run(main())
    assert sessions() == []


@pytest.mark.requirement("P-05")
def test_a_new_session_is_stored_with_its_first_prompt(project: Path) -> None:
    async def main() -> None:
        async with open_user_session(project, flags=OFFLINE) as user:
            session = user.session
            await user.send("read note.txt")
            first = session.status.session
            await session.session_list.new("Another")
            assert user.events[-1] == BranchChanged()
            assert list(session.entries()) == []
            assert session.status.title == "Another"
            assert session.status.usage.total_tokens == 0
            assert len(await session.session_list.summaries()) == 1
            await user.send("list .")
            assert session.status.session not in (None, first)
            assert [summaries.title for summaries in await session.session_list.summaries()] == [
                "Another",
                "read note.txt",
            ]

    run(main())


def test_sessions_are_found_and_resumed(project: Path) -> None:
    async def main() -> None:
        async with open_user_session(project, flags=OFFLINE) as user:
            session, session_list = user.session, user.session.session_list
            await user.send("read note.txt")
            first = session.status.session
            assert first is not None
            await session_list.new()
            await user.send("list .")
            [found] = await session_list.summaries("forty-two")
            assert (found.id, found.is_in_this_folder, found.branches) == (
                first,
                True,
                (MAIN_BRANCH,),
            )
            assert "forty-two" in found.snippet
            assert await session_list.summaries("never-said") == []
            await session_list.resume(first)
            assert session.status.session == first
            assert user.texts[0] == "read note.txt"
            assert user.events[-1] == BranchChanged()
            with pytest.raises(Missing):
                await session_list.resume("none-of-this-name")
            assert session.status.session == first

    run(main())


def test_a_session_is_renamed_and_another_one_removed(project: Path) -> None:
    async def main() -> None:
        async with open_user_session(project, flags=OFFLINE) as user:
            session, session_list = user.session, user.session.session_list
            await user.send("read note.txt")
            first = session.status.session
            assert first is not None
            await session_list.rename(first, " The answer ")
            assert session.status.title == "The answer"
            with pytest.raises(InvalidValue) as caught:
                await session_list.rename(first, " ")
            assert caught.value.code == "blank_title"
            with pytest.raises(StenoError) as refused:
                await session_list.delete(first)
            assert refused.value.code == "session_in_use"
            await session_list.new()
            await session_list.delete(first)
            assert list(await session_list.summaries()) == []
            with pytest.raises(Missing):
                await session_list.delete(first)

    run(main())


def test_a_session_that_is_resumed_brings_its_own_model_if_it_can_be_had(
    project: Path, home: Path
) -> None:
    async def main() -> None:
        async with open_user_session(project) as user:
            await user.send("read note.txt")
            first = user.session.status.session
            assert first is not None
            with open_store() as store:
                store.open(first).change_model("openai/gpt-5")
            await user.session.session_list.resume(first)
            assert user.session.status.model == "offline/assistant"
            [texts] = [notice.text for notice in user.events_of(Notice)]
            assert texts.startswith("recorded model openai/gpt-5: ")
            assert "offline/assistant" in texts

    write_settings(home, 'model = "offline"\n')
    run(main())


def test_a_prompt_is_the_last_entry_until_it_is_answered(
    project: Path,
) -> None:
    with open_store() as store:
        store.new(id="half").append(UserMessage.user("Are you there?"))

    async def main() -> None:
        async with open_user_session(project, resume="half", flags=OFFLINE) as user:
            assert user.session.is_unfinished
            await user.session.run_command("retry")
            await user.end()
            assert not user.session.is_unfinished
            with pytest.raises(Missing) as caught:
                await user.session.run_command("retry")
            assert caught.value.code == "nothing_to_retry"

    run(main())
