"""The branches of a session: where they part, and how to switch to another one."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from steno.agent import PromptInput
from steno.agent.session_events import BranchChanged
from steno.app.session_state import OperationLock
from steno.errors import Conflict, InvalidValue, Missing, StenoError
from steno.log.blobs import MIN_IMAGE_BLOB_BYTES
from steno.messages.content import Image, ImageData, ImageFile, Text
from steno.messages.message import UserMessage
from steno.records.entry import Entry, ShellCommand
from steno.records.stored_record import MAIN_BRANCH
from steno.store import open_store
from tests.app.project_setup import make_project, scripted_model
from tests.app.session_setup import SessionUser, open_user_session, run
from tests.cli.reference_setup import WITH_VISION
from tests.inputs.images.image_samples import encode_image, red_image

pytestmark = pytest.mark.requirement("S4-15")


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return make_project(tmp_path, monkeypatch)


def user_entries(user: SessionUser) -> list[Entry]:
    return [entry for entry in user.session.entries() if isinstance(entry.payload, UserMessage)]


def test_a_fork_starts_after_the_last_entry_or_any_other(project: Path, home: Path) -> None:
    async def main() -> None:
        async with open_user_session(project) as user:
            branches = user.session.branches
            with pytest.raises(Missing) as caught:
                branches.fork()
            assert caught.value.code == "empty_session"
            await user.send("One?")
            first = user.session.entries()[-1]
            await user.send("Two?")
            assert branches.fork() == "fork-1"
            assert user.texts == ["One?", "One.", "Two?", "Two."]
            assert branches.fork("aside", at=first.id) == "aside"
            assert user.events[-1] == BranchChanged()
            assert user.texts == ["One?", "One."]
            assert list(branches.names()) == ["aside", MAIN_BRANCH, "fork-1"]
            with pytest.raises(Conflict) as refused:
                branches.fork("aside")
            assert refused.value.code == "branch_exists"
            branches.switch(MAIN_BRANCH)
            assert user.texts == ["One?", "One.", "Two?", "Two."]
            moves = len(user.events_of(BranchChanged))
            branches.switch(MAIN_BRANCH)
            assert len(user.events_of(BranchChanged)) == moves
            with pytest.raises(Missing) as caught:
                branches.switch("elsewhere")
            assert (caught.value.code, caught.value.place) == ("branch_missing", "branch")
            assert "aside" in caught.value.message
            assert [e.message.text for e in user.session.entries("aside") if e.message][
                -1
            ] == "One."

    with scripted_model(home, "One.", "Two."):
        run(main())


@pytest.mark.parametrize("prompt", ["", "Be brief."])
def test_an_earlier_message_is_edited_in_a_new_branch(
    project: Path, home: Path, prompt: str
) -> None:
    async def main() -> None:
        async with open_user_session(project, flags={"system_prompt": prompt or " "}) as user:
            await user.send("One?")
            await user.send("Two?")
            first, second = user_entries(user)
            returned = user.session.branches.fork_before(second.id)
            assert returned == PromptInput("Two?")
            assert user.texts == ["One?", "One."]
            user.session.branches.switch(MAIN_BRANCH)
            assert user.session.branches.fork_before(first.id, "anew") == PromptInput("One?")
            assert user.texts == []
            await user.send("Three?")
            assert user.texts == ["Three?", "Three."]
            with pytest.raises(InvalidValue) as caught:
                user.session.branches.fork_before(user.session.entries()[-1].id)
            assert caught.value.code == "not_user_message"
            session = user.session.status.session
            assert session is not None
            with open_store() as store:
                assert store.verify(session).is_intact

    with scripted_model(home, "One.", "Two.", "Three."):
        run(main())


def test_a_prompt_with_images_is_returned_with_them(project: Path, home: Path) -> None:
    data = encode_image(red_image())
    (project / "a.png").write_bytes(data)
    (project / "b.png").write_bytes(data)

    async def main() -> None:
        async with open_user_session(project) as user:
            await user.send("Is @a.png like these?", "b.png", data)
            [entry] = user_entries(user)
            prompt = user.session.branches.fork_before(entry.id)
            assert prompt == PromptInput("Is @a.png like these?", ("b.png", data))

    with scripted_model(home, "Yes.", settings=WITH_VISION):
        run(main())


def test_attachments_of_a_server_prompt_are_returned_with_it(project: Path) -> None:
    small, data = (
        Image(source=ImageData(encode_image(red_image())), mime_type="image/png"),
        encode_image(red_image()),
    )
    content = (
        small,
        Text("made ready"),
        Image(source=ImageFile("b.png")),
        Image(source=ImageData(data), mime_type="image/png"),
    )
    with open_store() as store:
        entry = store.new(id="half").append(UserMessage(content), audit={"origin": "/lab:one a=b"})

    async def main() -> None:
        async with open_user_session(project, resume="half", flags={"model": "offline"}) as user:
            prompt = user.session.branches.fork_before(entry.id)
            assert prompt == PromptInput("/lab:one a=b", ("b.png", data))

    run(main())


def test_a_message_whose_image_is_gone_cannot_be_edited(project: Path) -> None:
    data = encode_image(red_image()) + bytes(MIN_IMAGE_BLOB_BYTES)
    with open_store() as store:
        entry = store.new(id="half").append(
            UserMessage((Text("See?"), Image(source=ImageData(data), mime_type="image/png")))
        )
        [blob] = store.blobs()
        store.remove_blob(blob.sha256)

    async def main() -> None:
        async with open_user_session(project, resume="half", flags={"model": "offline"}) as user:
            with pytest.raises(Missing) as caught:
                user.session.branches.fork_before(entry.id)
            assert caught.value.code == "image_missing"
            assert list(user.session.branches.names()) == [MAIN_BRANCH]

    run(main())


def test_the_tree_is_read_without_blocking_the_event_loop(project: Path) -> None:
    async def main() -> None:
        async with open_user_session(project, flags={"model": "offline"}) as user:
            await user.send("read note.txt")
            happened: list[str] = []
            asyncio.get_running_loop().call_soon(happened.append, "something else")
            assert len(await user.session.branches.rows()) == len(user.session.entries())
            assert happened

    run(main())


def test_forking_before_a_shell_command_returns_the_command(project: Path) -> None:
    async def main() -> None:
        async with open_user_session(project, flags={"model": "offline"}) as user:
            await user.session.run_shell("echo hello")
            await user.until(lambda: not user.session.is_running)
            entry = user.session.entries()[-1]
            assert isinstance(entry.payload, ShellCommand)
            assert user.session.branches.fork_before(entry.id) == PromptInput("!echo hello")

    run(main())


def test_the_tree_shows_where_branches_part(project: Path, home: Path) -> None:
    async def main() -> None:
        async with open_user_session(project) as user:
            await user.send("One?")
            first = user.session.entries()[-1]
            await user.send("Two?")
            user.session.branches.fork("aside", at=first.id)
            user.session.branches.label(first.id, "one")
            rows = await user.session.branches.rows()
            by_gist = {row.summary: row for row in rows}
            parting = by_gist["One."]
            assert (parting.labels, parting.is_active, parting.is_notable) == (
                ("one",),
                True,
                True,
            )
            assert (by_gist["Two?"].graph_prefix, by_gist["Two?"].is_active) == ("| ", False)
            assert by_gist["Two."].branches == (MAIN_BRANCH,)
            assert rows[-1].branches == ("aside",)
            assert (rows[0].kind, rows[0].number) == ("system", 1)
            for bad, code in (("", "blank"), ("#3", "label_is_number"), ("12", "label_is_number")):
                with pytest.raises(InvalidValue) as caught:
                    user.session.branches.label(first.id, bad)
                assert caught.value.code == code

    with scripted_model(home, "One.", "Two."):
        run(main())


def test_a_decision_in_the_tree_names_what_it_is_about(project: Path) -> None:
    async def main() -> None:
        async with open_user_session(
            project, flags={"model": "offline", "allow": ["bash"]}
        ) as user:
            await user.send("run echo hello")
            rows = await user.session.branches.rows()
            [decided] = [row.summary for row in rows if row.kind == "approval"]
            assert decided.startswith("bash echo hello: approved")

    run(main())


def test_the_branch_cannot_change_while_a_prompt_is_prepared(project: Path, home: Path) -> None:
    """Else the prompt would be recorded on another branch than the user saw."""

    async def main() -> None:
        async with open_user_session(project) as user:
            await user.send("Hello?")
            sending = asyncio.create_task(user.session.send(PromptInput("For main.")))
            await asyncio.sleep(0)  # it holds the lock, and reads the prompt in a thread
            with pytest.raises(StenoError) as caught:
                user.session.branches.fork("other")
            assert caught.value.code == "session_busy"
            await sending
            await user.end(1)
            assert user.texts == ["Hello?", "Hello.", "For main.", "Yes."]

    with scripted_model(home, "Hello.", "Yes."):
        run(main())


def test_an_operation_that_waits_for_the_lock_counts_as_in_progress() -> None:
    """A released lock is free until the task that waits for it runs."""

    async def main() -> None:
        lock = OperationLock()
        order: list[str] = []

        async def hold(name: str) -> None:
            async with lock:
                order.append(name)

        async with lock:
            waiting = asyncio.create_task(hold("second"))
            await asyncio.sleep(0)
        assert (lock.is_held, order) == (True, [])
        await waiting
        assert (lock.is_held, order) == (False, ["second"])

    run(main())
