"""Every slash command, in the full screen with a real session."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from steno.app.commands.table import SLASH_COMMANDS, SLASH_COMMANDS_BY_NAME
from steno.render.items import ItemKind
from tests.ui.tui.app.screen_user import OFFLINE, ScreenUser, opens_real_session, run_with_screen

pytestmark = pytest.mark.requirement("S4-15")
Play = Callable[[ScreenUser], Awaitable[None]]


async def begun(user: ScreenUser) -> None:
    """Send a prompt, and wait for the answer."""
    await user.enter("read note.txt")
    await user.sees("forty-two", "idle")


async def closed(user: ScreenUser) -> None:
    await user.press("escape")
    await user.until(lambda: len(user.app.screen_stack) == 1)


def written(name: str) -> str:
    return Path(name).read_text("utf-8")


# -- what each of them shows ---------------------------------------------------------------------


async def help_(user: ScreenUser) -> None:
    await user.enter("/help")
    await user.sees("/model", "help")
    await closed(user)


async def model(user: ScreenUser) -> None:
    await user.enter("/model")
    await user.sees("type to filter", "● offline")
    await closed(user)
    await user.sees("To add a model, set a key such as ANTHROPIC_API_KEY")
    await user.enter("/model offline")
    await user.sees("is already in use")


async def mode(user: ScreenUser) -> None:
    await user.enter("/mode plan")
    await user.until(lambda: " PLAN " in user.status)
    await user.enter("/mode flying")
    await user.sees("✗ /mode: must be one of plan, act")
    assert user.typed == "/mode flying"


async def new(user: ScreenUser) -> None:
    await begun(user)
    await user.enter("/new another thing")
    await user.until(lambda: "another thing" in user.status)
    assert "forty-two" not in user.text


async def resume(user: ScreenUser) -> None:
    await begun(user)
    await user.enter("/resume")
    await user.sees("Sessions", "read note.txt")
    await closed(user)
    await user.enter("/new")
    await user.until(lambda: "forty-two" not in user.text)
    await user.enter("/resume last")
    await user.sees("forty-two")


async def sessions(user: ScreenUser) -> None:
    await begun(user)
    await user.enter("/sessions")
    await user.sees("read note.txt", "entries")
    await user.enter("/sessions tree --all")
    await user.sees("main (active)")


async def rename(user: ScreenUser) -> None:
    await begun(user)
    await user.enter("/rename about a note")
    await user.until(lambda: "about a note" in user.status)


async def fork(user: ScreenUser) -> None:
    await begun(user)
    await user.enter("/fork aside")
    await user.until(lambda: "⎇ aside" in user.status)


async def tree(user: ScreenUser) -> None:
    await begun(user)
    await user.enter("/tree")
    await user.sees("Tree of read note.txt", "1 branch")
    await closed(user)


async def label(user: ScreenUser) -> None:
    await begun(user)
    await user.enter("/label the answer")
    await user.sees("label: the answer")


async def retry(user: ScreenUser) -> None:
    await begun(user)
    await user.enter("/retry")
    await user.sees("✗ /retry:")


async def compact(user: ScreenUser) -> None:
    await begun(user)
    await user.enter("/compact")
    await user.until(lambda: "summary" in user.text or "✗" in user.text)


async def clear(user: ScreenUser) -> None:
    await user.enter("/clear")
    await user.sees("The context is already empty.")
    await begun(user)
    await user.enter("/clear")
    await user.sees("context cleared", "The context is empty.", "forty-two")


async def permissions(user: ScreenUser) -> None:
    await user.enter("/permissions")
    await user.sees("Permissions")


async def audit(user: ScreenUser) -> None:
    await begun(user)
    await user.enter("/audit")
    await user.sees("Audit", "The log is intact")


async def export(user: ScreenUser) -> None:
    await begun(user)
    await user.enter("/export markdown out.md")
    await user.sees("Export", "wrote ")
    assert "forty-two" in written("out.md")


async def mcp(user: ScreenUser) -> None:
    await user.enter("/mcp")
    await user.sees("server")


async def diff(user: ScreenUser) -> None:
    await user.enter("/diff")
    await user.sees("Diff", "No changes")


async def usage(user: ScreenUser) -> None:
    await begun(user)
    await user.enter("/usage")
    await user.sees("Usage", "offline/assistant")


async def theme(user: ScreenUser) -> None:
    await user.enter("/theme light")
    await user.until(lambda: user.app.theme == "steno-light")
    (told,) = user.said(ItemKind.NOTICE)
    assert re.fullmatch(
        r'theme steno-light; to keep it, add theme = "steno-light" to /.*/config.toml', told
    )
    await user.enter("/theme")
    await user.sees("● steno-light", "steno-dark")
    await user.type("steno-dark")
    await user.press("enter")
    await user.until(lambda: user.app.theme == "steno-dark")
    await user.enter("/theme muddy")
    await user.sees("✗ theme: unknown theme")


async def quit_(user: ScreenUser) -> None:
    await user.enter("/quit")
    await user.until_it_ends()


PLAYS: dict[str, Play] = {
    steps.__name__.removesuffix("_"): steps
    for steps in (
        *(help_, model, mode, new, resume, sessions, rename, fork, tree, label, retry, compact),
        clear,
        *(permissions, audit, export, mcp, diff, usage, theme, quit_),
    )
}


def test_every_command_is_played_below() -> None:
    assert PLAYS.keys() == SLASH_COMMANDS_BY_NAME.keys()


@pytest.mark.parametrize("name", [command.name for command in SLASH_COMMANDS])
def test_a_command_is_reached_from_the_prompt_and_shows_something(name: str, project: Path) -> None:
    run_with_screen(opens_real_session(project, flags=OFFLINE), PLAYS[name])


# -- around them ---------------------------------------------------------------------------------


def test_a_command_that_there_is_not_names_the_nearest_and_stays_in_the_prompt(
    project: Path,
) -> None:
    async def steps(user: ScreenUser) -> None:
        await user.enter("/modle")
        await user.sees("✗ /modle: unknown command", "model")
        assert user.typed == "/modle"

    run_with_screen(opens_real_session(project, flags=OFFLINE), steps)


def test_commands_and_files_are_offered_while_they_are_typed(project: Path) -> None:
    (project / "notes").mkdir()
    (project / "notes" / "today.md").write_text("ship\n", "utf-8")

    async def steps(user: ScreenUser) -> None:
        await user.type("/th")
        await user.sees("/theme", "change the colours")
        await user.press("tab")
        assert user.typed == "/theme "
        await user.press("ctrl+c")
        await user.type("look at @today")
        await user.sees("@notes/today.md")
        await user.press("enter")
        assert user.typed == "look at @notes/today.md "
        await user.press("enter")
        await user.sees("[file notes/today.md]")

    run_with_screen(opens_real_session(project, flags=OFFLINE), steps)


@pytest.mark.parametrize("name", ["tree", "resume", "model", "theme", "help"])
def test_screens_of_commands_fit_into_60_by_20_and_close_with_escape(
    name: str, project: Path
) -> None:
    async def steps(user: ScreenUser) -> None:
        await begun(user)
        await user.enter(f"/{name}")
        await user.until(lambda: len(user.app.screen_stack) == 2)
        await closed(user)
        await user.type("and on")
        assert user.typed == "and on"

    run_with_screen(opens_real_session(project, flags=OFFLINE), steps, size=(60, 20))
