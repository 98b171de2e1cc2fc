"""Every command that can be typed, on the whole screen and at a real desk."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from steno.app.commands.table import COMMAND_NAMES, COMMANDS
from steno.render.items import ItemKind
from tests.ui.tui.app.screen_user import OFFLINE, ScreenUser, opens_real_session, play_scene

pytestmark = pytest.mark.requirement("S4-15")
Play = Callable[[ScreenUser], Awaitable[None]]


async def begun(person: ScreenUser) -> None:
    """Say something, and wait for the answer."""
    await person.enter("read note.txt")
    await person.sees("forty-two", "idle")


async def closed(person: ScreenUser) -> None:
    await person.press("escape")
    await person.until(lambda: len(person.app.screen_stack) == 1)


def written(name: str) -> str:
    return Path(name).read_text("utf-8")


# -- what each of them shows ---------------------------------------------------------------------


async def help_(person: ScreenUser) -> None:
    await person.enter("/help")
    await person.sees("/model", "help")
    await closed(person)


async def model(person: ScreenUser) -> None:
    await person.enter("/model")
    await person.sees("type to filter", "● offline")
    await closed(person)
    await person.sees("To add one, set a key such as ANTHROPIC_API_KEY")
    await person.enter("/model offline")
    await person.sees("answers already")


async def mode(person: ScreenUser) -> None:
    await person.enter("/mode plan")
    await person.until(lambda: " PLAN " in person.status)
    await person.enter("/mode flying")
    await person.sees("✗ /mode: must be one of plan, act")
    assert person.typed == "/mode flying"


async def new(person: ScreenUser) -> None:
    await begun(person)
    await person.enter("/new another thing")
    await person.until(lambda: "another thing" in person.status)
    assert "forty-two" not in person.text


async def resume(person: ScreenUser) -> None:
    await begun(person)
    await person.enter("/resume")
    await person.sees("Sessions", "read note.txt")
    await closed(person)
    await person.enter("/new")
    await person.until(lambda: "forty-two" not in person.text)
    await person.enter("/resume last")
    await person.sees("forty-two")


async def rename(person: ScreenUser) -> None:
    await begun(person)
    await person.enter("/rename about a note")
    await person.until(lambda: "about a note" in person.status)


async def fork(person: ScreenUser) -> None:
    await begun(person)
    await person.enter("/fork aside")
    await person.until(lambda: "⎇ aside" in person.status)


async def tree(person: ScreenUser) -> None:
    await begun(person)
    await person.enter("/tree")
    await person.sees("Tree of read note.txt", "1 branch")
    await closed(person)


async def label(person: ScreenUser) -> None:
    await begun(person)
    await person.enter("/label the answer")
    await person.sees("label: the answer")


async def retry(person: ScreenUser) -> None:
    await begun(person)
    await person.enter("/retry")
    await person.sees("✗ retry:")


async def compact(person: ScreenUser) -> None:
    await begun(person)
    await person.enter("/compact")
    await person.until(lambda: "summary" in person.text or "✗" in person.text)


async def permissions(person: ScreenUser) -> None:
    await person.enter("/permissions")
    await person.sees("Permissions")


async def audit(person: ScreenUser) -> None:
    await begun(person)
    await person.enter("/audit")
    await person.sees("Audit", "The record is whole")


async def export(person: ScreenUser) -> None:
    await begun(person)
    await person.enter("/export markdown out.md")
    await person.sees("export", "written:")
    assert "forty-two" in written("out.md")


async def mcp(person: ScreenUser) -> None:
    await person.enter("/mcp")
    await person.sees("server")


async def diff(person: ScreenUser) -> None:
    await person.enter("/diff")
    await person.sees("Diff", "nothing")


async def usage(person: ScreenUser) -> None:
    await begun(person)
    await person.enter("/usage")
    await person.sees("Usage", "offline/assistant")


async def theme(person: ScreenUser) -> None:
    await person.enter("/theme light")
    await person.until(lambda: person.app.theme == "steno-light")
    (told,) = person.said(ItemKind.NOTICE)
    assert re.fullmatch(
        r'theme steno-light; theme = "steno-light" in /.*/config.toml keeps it', told
    )
    await person.enter("/theme")
    await person.sees("● steno-light", "steno-dark")
    await person.type("steno-dark")
    await person.press("enter")
    await person.until(lambda: person.app.theme == "steno-dark")
    await person.enter("/theme muddy")
    await person.sees("✗ theme: there is none of this name")


async def quit_(person: ScreenUser) -> None:
    await person.enter("/quit")
    await person.until_it_ends()


PLAYS: dict[str, Play] = {
    play.__name__.removesuffix("_"): play
    for play in (
        *(help_, model, mode, new, resume, rename, fork, tree, label, retry, compact),
        *(permissions, audit, export, mcp, diff, usage, theme, quit_),
    )
}


def test_every_command_is_played_below() -> None:
    assert PLAYS.keys() == COMMAND_NAMES


@pytest.mark.parametrize("name", [command.name for command in COMMANDS])
def test_a_command_is_reached_from_the_prompt_and_shows_something(name: str, project: Path) -> None:
    play_scene(opens_real_session(project, flags=OFFLINE), PLAYS[name])


# -- around them ---------------------------------------------------------------------------------


def test_a_command_that_there_is_not_names_the_nearest_and_stays_in_the_prompt(
    project: Path,
) -> None:
    async def scene(person: ScreenUser) -> None:
        await person.enter("/modle")
        await person.sees("✗ /modle: there is no such command", "model")
        assert person.typed == "/modle"

    play_scene(opens_real_session(project, flags=OFFLINE), scene)


def test_commands_and_files_are_offered_while_they_are_typed(project: Path) -> None:
    (project / "notes").mkdir()
    (project / "notes" / "today.md").write_text("ship\n", "utf-8")

    async def scene(person: ScreenUser) -> None:
        await person.type("/th")
        await person.sees("/theme", "dark, light, or another look")
        await person.press("tab")
        assert person.typed == "/theme "
        await person.press("ctrl+c")
        await person.type("look at @today")
        await person.sees("@notes/today.md")
        await person.press("enter")
        assert person.typed == "look at @notes/today.md "
        await person.press("enter")
        await person.sees("[file notes/today.md]")

    play_scene(opens_real_session(project, flags=OFFLINE), scene)


@pytest.mark.parametrize("name", ["tree", "resume", "model", "theme", "help"])
def test_what_a_command_opens_fits_into_60_by_20_and_closes_with_escape(
    name: str, project: Path
) -> None:
    async def scene(person: ScreenUser) -> None:
        await begun(person)
        await person.enter(f"/{name}")
        await person.until(lambda: len(person.app.screen_stack) == 2)
        await closed(person)
        await person.type("and on")
        assert person.typed == "and on"

    play_scene(opens_real_session(project, flags=OFFLINE), scene, size=(60, 20))
