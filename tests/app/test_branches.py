"""The tree of a session at the desk: where branches part, and how to go on in another one."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from steno.app.session import BranchChanged, PromptInput
from steno.errors import Conflict, InvalidValue, Missing
from steno.log.blobs import MIN_IMAGE_BLOB_BYTES
from steno.messages.content import Image, ImageData, ImageFile, Text
from steno.messages.message import UserMessage
from steno.records.entry import Entry
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


def words_of(person: SessionUser) -> list[Entry]:
    return [entry for entry in person.desk.entries() if isinstance(entry.payload, UserMessage)]


def test_a_fork_goes_on_behind_the_last_entry_or_any_other(project: Path, home: Path) -> None:
    async def main() -> None:
        async with open_user_session(project) as person:
            branches = person.desk.branches
            with pytest.raises(Missing) as caught:
                branches.fork()
            assert caught.value.code == "empty_session"
            await person.say("One?")
            first = person.desk.entries()[-1]
            await person.say("Two?")
            assert branches.fork() == "fork-1"
            assert person.said == ["One?", "One.", "Two?", "Two."]
            assert branches.fork("aside", at=first.id) == "aside"
            assert person.events[-1] == BranchChanged()
            assert person.said == ["One?", "One."]
            assert list(branches.names()) == ["aside", MAIN_BRANCH, "fork-1"]
            with pytest.raises(Conflict) as caught:
                branches.fork("aside")
            assert caught.value.code == "branch_exists"
            branches.switch(MAIN_BRANCH)
            assert person.said == ["One?", "One.", "Two?", "Two."]
            moves = len(person.told(BranchChanged))
            branches.switch(MAIN_BRANCH)
            assert len(person.told(BranchChanged)) == moves
            with pytest.raises(Missing) as caught:
                branches.switch("elsewhere")
            assert caught.value.code == "no_such_branch"
            assert "aside" in caught.value.message
            assert [e.message.text for e in person.desk.entries("aside") if e.message][-1] == "One."

    with scripted_model(home, "One.", "Two."):
        run(main())


@pytest.mark.parametrize("prompt", ["", "Be brief."])
def test_an_earlier_message_is_said_otherwise_in_a_branch_of_its_own(
    project: Path, home: Path, prompt: str
) -> None:
    async def main() -> None:
        async with open_user_session(project, flags={"system_prompt": prompt or " "}) as person:
            await person.say("One?")
            await person.say("Two?")
            first, second = words_of(person)
            words = person.desk.branches.fork_before(second.id)
            assert words == PromptInput("Two?")
            assert person.said == ["One?", "One."]
            person.desk.branches.switch(MAIN_BRANCH)
            assert person.desk.branches.fork_before(first.id, "anew") == PromptInput("One?")
            assert person.said == []
            await person.say("Three?")
            assert person.said == ["Three?", "Three."]
            with pytest.raises(InvalidValue) as caught:
                person.desk.branches.fork_before(person.desk.entries()[-1].id)
            assert caught.value.code == "not_user_message"
            session = person.desk.status.session
            assert session is not None
            with open_store() as store:
                assert store.verify(session).is_intact

    with scripted_model(home, "One.", "Two.", "Three."):
        run(main())


def test_what_was_said_with_images_comes_back_with_them(project: Path, home: Path) -> None:
    data = encode_image(red_image())
    (project / "a.png").write_bytes(data)
    (project / "b.png").write_bytes(data)

    async def main() -> None:
        async with open_user_session(project) as person:
            await person.say("Is @a.png like these?", "b.png", data)
            [said] = words_of(person)
            words = person.desk.branches.fork_before(said.id)
            assert words == PromptInput("Is @a.png like these?", ("b.png", data))

    with scripted_model(home, "Yes.", settings=WITH_VISION):
        run(main())


def test_what_came_along_with_a_prompt_of_a_server_comes_back_with_it(project: Path) -> None:
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
        said = store.new(id="half").append(UserMessage(content), audit={"origin": "/lab:one a=b"})

    async def main() -> None:
        async with open_user_session(project, resume="half", flags={"model": "offline"}) as person:
            words = person.desk.branches.fork_before(said.id)
            assert words == PromptInput("/lab:one a=b", ("b.png", data))

    run(main())


def test_a_message_whose_image_is_gone_is_not_said_otherwise_without_it(project: Path) -> None:
    data = encode_image(red_image()) + bytes(MIN_IMAGE_BLOB_BYTES)
    with open_store() as store:
        said = store.new(id="half").append(
            UserMessage((Text("See?"), Image(source=ImageData(data), mime_type="image/png")))
        )
        [blob] = store.blobs()
        store.remove_blob(blob.sha256)

    async def main() -> None:
        async with open_user_session(project, resume="half", flags={"model": "offline"}) as person:
            with pytest.raises(Missing) as caught:
                person.desk.branches.fork_before(said.id)
            assert caught.value.code == "image_missing"
            assert list(person.desk.branches.names()) == [MAIN_BRANCH]

    run(main())


def test_the_tree_is_read_while_everything_else_goes_on(project: Path) -> None:
    async def main() -> None:
        async with open_user_session(project, flags={"model": "offline"}) as person:
            await person.say("read note.txt")
            happened: list[str] = []
            asyncio.get_running_loop().call_soon(happened.append, "something else")
            assert len(await person.desk.branches.rows()) == len(person.desk.entries())
            assert happened

    run(main())


def test_what_a_command_printed_comes_back_as_the_command(project: Path) -> None:
    async def main() -> None:
        async with open_user_session(project, flags={"model": "offline"}) as person:
            await person.desk.run_shell("echo hello")
            await person.until(lambda: not person.desk.is_running)
            [said] = words_of(person)
            assert person.desk.branches.fork_before(said.id) == PromptInput("!echo hello")

    run(main())


def test_the_tree_says_where_branches_part(project: Path, home: Path) -> None:
    async def main() -> None:
        async with open_user_session(project) as person:
            await person.say("One?")
            first = person.desk.entries()[-1]
            await person.say("Two?")
            person.desk.branches.fork("aside", at=first.id)
            person.desk.branches.label(first.id, "one")
            twigs = await person.desk.branches.rows()
            by_gist = {twig.gist: twig for twig in twigs}
            parting = by_gist["One."]
            assert (parting.labels, parting.is_active, parting.is_notable) == (
                ("one",),
                True,
                True,
            )
            assert (by_gist["Two?"].rails, by_gist["Two?"].is_active) == ("| ", False)
            assert by_gist["Two."].branches == (MAIN_BRANCH,)
            assert twigs[-1].branches == ("aside",)
            assert (twigs[0].kind, twigs[0].number) == ("system", 1)
            for bad in ("", "#3", "12"):
                with pytest.raises(InvalidValue, match="label"):
                    person.desk.branches.label(first.id, bad)

    with scripted_model(home, "One.", "Two."):
        run(main())


def test_a_decision_in_the_tree_names_what_it_is_about(project: Path) -> None:
    async def main() -> None:
        async with open_user_session(
            project, flags={"model": "offline", "allow": ["bash"]}
        ) as person:
            await person.say("run echo hello")
            twigs = await person.desk.branches.rows()
            [decided] = [twig.gist for twig in twigs if twig.kind == "approval"]
            assert decided.startswith("bash echo hello: approved")

    run(main())
