"""The table of slash commands: every command runs, and its choices are those of its function."""

from __future__ import annotations

from pathlib import Path

import pytest

from steno.app.commands.table import COMMANDS, SLASH_COMMANDS
from steno.errors import InvalidValue, Missing, StenoError
from steno.records.entry import Mode
from steno.records.stored_record import MAIN_BRANCH
from steno.render.transcripts import WRITE_ONLY
from steno.ui.help_text import build_help
from steno.ui.prompt_state import CompletionState, word_at
from tests.app.project_setup import make_project
from tests.app.session_setup import open_user_session, run
from tests.cli.program import run_steno

pytestmark = pytest.mark.requirement("S4-15")
OFFLINE = {"model": "offline"}
OF_THE_TERMINAL = ("help", "quit", "theme", "tree")


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return make_project(tmp_path, monkeypatch)


@pytest.mark.parametrize("name", [command.name for command in SLASH_COMMANDS])
def test_every_command_works_before_the_first_prompt(project: Path, name: str) -> None:
    async def main() -> tuple[str, str]:
        async with open_user_session(project, flags=OFFLINE) as user:
            try:
                return (await user.session.run_command(name)).body, ""
            except StenoError as exc:
                return exc.message, exc.code

    text, code = run(main())
    assert text.strip()
    assert code != "no_such_command"
    assert (code == "terminal_only") == (name in OF_THE_TERMINAL)


def test_every_command_of_a_terminal_is_in_its_help_and_offered_as_it_is_typed() -> None:
    typed = CompletionState()
    typed.set_word(word_at("/", 1, is_whole_text=True))
    offered = {choice.text: choice.description for choice in typed.choices}
    text = build_help()
    for command in SLASH_COMMANDS:
        assert offered.pop(f"/{command.name}") == command.description
        assert f"- `{f'/{command.name} {command.argument}'.rstrip()}`: " in text
    assert offered == {}


@pytest.mark.parametrize("name", [command.name for command in COMMANDS if command.on_command_line])
def test_every_command_of_the_command_line_is_in_its_help(name: str) -> None:
    listed = [
        line.split()[0] for line in run_steno("--help").out.splitlines() if line[:4] == "    "
    ]
    assert name in listed
    told = run_steno(name, "--help")
    assert told.status == 0
    assert told.out.startswith(f"usage: steno {name} ")


def test_a_command_that_there_is_not_names_the_one_that_is_meant(project: Path) -> None:
    async def main() -> None:
        async with open_user_session(project, flags=OFFLINE) as user:
            with pytest.raises(Missing) as caught:
                await user.session.run_command("moedl")
            assert (caught.value.code, caught.value.place) == ("no_such_command", "/moedl")
            assert "model" in caught.value.message

    run(main())


@pytest.mark.parametrize("name", ["clear", "retry", "compact"])
def test_a_command_without_argument_refuses_one(name: str, project: Path) -> None:
    async def main() -> None:
        async with open_user_session(project, flags=OFFLINE) as user:
            with pytest.raises(InvalidValue) as caught:
                await user.session.run_command(name, "now")
            assert (caught.value.code, caught.value.place) == ("no_argument", f"/{name}")
            assert user.session.state.conversation.entries() == ()

    run(main())


def test_resume_needs_the_name_of_a_session(project: Path) -> None:
    async def main() -> None:
        async with open_user_session(project, flags=OFFLINE) as user:
            with pytest.raises(InvalidValue) as caught:
                await user.session.run_command("resume")
            assert (caught.value.code, caught.value.place) == ("session_not_named", "/resume")

    run(main())


def test_model_without_a_name_shows_on_one_line_how_to_add_one(project: Path, home: Path) -> None:
    async def main() -> str:
        async with open_user_session(project, flags=OFFLINE) as user:
            return (await user.session.run_command("model")).plain_text

    text = run(main())
    assert "\n" not in text
    assert "a key such as `ANTHROPIC_API_KEY`" in text
    assert f"`[providers.NAME]` to `{home / '.config/steno/config.toml'}`" in text


@pytest.mark.parametrize("variable", [None, "nord"])
def test_a_theme_is_answered_with_where_to_write_it_down(
    project: Path, home: Path, monkeypatch: pytest.MonkeyPatch, variable: str | None
) -> None:
    if variable is not None:
        monkeypatch.setenv("STENO_THEME", variable)

    async def main() -> str:
        async with open_user_session(project, flags=OFFLINE) as user:
            return (await user.session.run_command("theme", "steno-light")).plain_text

    assert run(main()) == (
        f'to keep it, add theme = "steno-light" to {home / ".config/steno/config.toml"}'
        if variable is None
        else "to keep it, set STENO_THEME=steno-light"
    )


def test_commands_change_what_is_at_hand(project: Path) -> None:
    async def main() -> None:
        async with open_user_session(project, flags=OFFLINE) as user:
            session = user.session
            assert "`act`" in (await session.run_command("mode")).plain_text
            assert "`plan`" in (await session.run_command("mode", "plan")).plain_text
            assert session.status.mode is Mode.PLAN
            with pytest.raises(InvalidValue) as caught:
                await session.run_command("mode", "dream")
            assert caught.value.code == "no_such_mode"
            await session.run_command("rename", "The *answer*")
            await user.send("read note.txt")
            assert session.status.title == "The *answer*"
            await session.run_command("label", "first")
            await session.run_command("fork", "aside")
            assert session.status.branch == "aside"
            labels = [row.labels for row in await session.branches.rows() if row.labels]
            assert labels == [("first",)]
            first = session.status.session
            await session.run_command("new", "Another")
            assert first is not None
            await session.run_command("resume", first)
            assert session.status.session == first
            await session.run_command("rename", "Done")
            assert session.status.title == "Done"
            assert list(session.branches.names()) == ["aside", MAIN_BRANCH]

    run(main())


def test_export_offers_every_format_for_people() -> None:
    [export] = [command for command in SLASH_COMMANDS if command.name == "export"]
    assert set(export.choices) == {*WRITE_ONLY, "json"}
