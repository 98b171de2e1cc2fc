"""The status line shows the most important parts at any width."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Awaitable, Callable
from decimal import Decimal

import pytest
from textual.pilot import Pilot

from steno.messages.usage import Usage
from steno.records.entry import Mode
from steno.render.items import SessionStatus
from steno.render.quantities import format_dollars
from steno.ui.tui.status import StatusLine, abbreviate_count
from tests.ui.idle_clock import wait_until
from tests.ui.tui.screen_app import HOSTILE, SIZES, ScreenApp, is_harmless, least_contrast

STANDING = SessionStatus(
    session="0198",
    title="mend the parser",
    folder="~/code/project",
    branch="main",
    model="offline/steno",
    mode=Mode.ACT,
    usage=Usage(input_tokens=12_300, output_tokens=4_100),
    cost=Decimal("0.0123"),
    context_tokens=4_200,
    context_limit=32_000,
)


class Clock:
    """A clock that a test sets."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


def run_steps(
    status: StatusLine,
    then: Callable[[ScreenApp, Pilot[None]], Awaitable[None]],
    *,
    size: tuple[int, int] = (120, 30),
    theme: str = "steno-dark",
) -> None:
    async def run() -> None:
        app = ScreenApp(status, theme=theme)
        async with app.run_test(size=size) as pilot:
            await pilot.pause()
            await then(app, pilot)

    asyncio.run(run())


def shown(
    values: SessionStatus | None = STANDING,
    doing: str | None = None,
    *,
    size: tuple[int, int] = (120, 30),
) -> list[str]:
    """Return the lines of a status line."""
    status, lines = StatusLine(clock=Clock()), list[str]()

    async def then(app: ScreenApp, pilot: Pilot[None]) -> None:
        if values is not None:
            status.session_status = values
        status.show_activity(doing)
        await pilot.pause()
        lines.extend(app.lines[: status.size.height])
        assert "".join(app.lines[status.size.height :]).strip() == ""
        assert is_harmless(app)

    run_steps(status, then, size=size)
    return lines


@pytest.mark.requirement("S4-15")
def test_it_says_everything_where_there_is_room() -> None:
    [line] = shown(size=(160, 20))
    for words in (
        *(" ACT ", "idle", "offline/steno", "⎇ main", "ctx 4.2k/32k 13% ▂", "$0.0123"),
        *("↑12k ↓4.1k tok", "mend the parser", "~/code/project"),
    ):
        assert words in line


@pytest.mark.parametrize(("size", "height"), [((60, 20), 2), ((80, 24), 1), ((120, 30), 1)])
def test_it_takes_one_line_and_two_where_it_is_narrow(size: tuple[int, int], height: int) -> None:
    lines = shown(size=size, doing="waiting for model")
    assert len(lines) == height
    for words in (" ACT ", "waiting for model", "steno", "ctx ", "13% ▂"):
        assert words in "\n".join(lines)


@pytest.mark.parametrize("size", SIZES)
def test_names_from_elsewhere_do_no_harm_and_push_nothing_off_the_line(
    size: tuple[int, int],
) -> None:
    name = HOSTILE + "x" * 10_000
    status = STANDING._replace(title=name, folder=name, branch=name, model=name)
    text = "\n".join(shown(status, doing=name, size=size))
    assert " ACT " in text
    assert r"\x1b[2J" in text
    assert "ctx 13%" in text


def test_names_of_wide_characters_fit_the_line() -> None:
    name = "日本語のとても長い名前" * 8
    lines = shown(
        STANDING._replace(title=name, folder=name, branch=name, model=name), size=(60, 20)
    )
    assert len(lines) == 2
    assert "13%" in lines[1]


def test_the_least_important_part_is_left_out_first() -> None:
    widths = range(158, 79, -4)
    parts = ("~/code/project", "project", "mend the", "tok", "$0.0123", "⎇ main", "13%", "steno")
    lines = [shown(doing="running bash", size=(width, 20))[0] for width in widths]
    for line in lines:
        present = [part in line for part in parts]
        assert present == sorted(present), line
    assert all(part in lines[0] for part in parts)
    assert parts[0] not in lines[-1]


@pytest.mark.parametrize("mode", list(Mode))
def test_the_mode_is_shown_as_text_and_not_only_by_a_colour(mode: Mode) -> None:
    [line] = shown(STANDING._replace(mode=mode))
    assert line.split()[0] == mode.upper()


def test_unknown_values_are_not_shown() -> None:
    bare = STANDING._replace(
        cost=None, context_tokens=None, context_limit=None, usage=Usage(), session=None
    )
    [line] = shown(bare)
    assert "$" not in line
    assert "ctx" not in line
    assert "tok" not in line
    assert "None" not in line
    assert "not recorded" in line


@pytest.mark.parametrize(
    ("tokens", "room", "words"),
    [
        (4_200, None, "ctx 4.2k"),
        (0, 32_000, "ctx 0/32k 0% ▁"),
        (30_000, 32_000, "ctx 30k/32k 94%! █"),
        (64_000, 32_000, "ctx 64k/32k 200%! █"),
    ],
)
def test_the_context_says_how_full_it_is_and_warns_by_a_sign(
    tokens: int, room: int | None, words: str
) -> None:
    status = STANDING._replace(context_tokens=tokens, context_limit=room)
    assert words in shown(status, size=(160, 20))[0]


def test_before_anything_is_known_it_says_that_it_starts() -> None:
    assert shown(None)[0].strip() == "starting …"
    assert "opening the session" in shown(None, doing="opening the session")[0]


def test_seconds_are_counted_while_something_is_done_and_only_then() -> None:
    clock = Clock()
    status = StatusLine(clock=clock)
    status.show_activity("starting")

    async def then(app: ScreenApp, pilot: Pilot[None]) -> None:
        assert "starting" in app.text
        status.session_status = STANDING
        status.show_activity("waiting for model")
        await pilot.pause()
        assert "waiting for model  " in app.text
        clock.now += 3
        await wait_until(pilot, lambda: "waiting for model 3 s" in app.text)
        status.show_activity("waiting for model")  # the same still: it counts on
        clock.now += 72
        await wait_until(pilot, lambda: "waiting for model 1 min 15 s" in app.text)
        status.show_activity("running bash")
        await pilot.pause()
        assert "running bash  " in app.text
        status.show_activity(None)
        await pilot.pause()
        assert "idle" in app.text
        assert status.auto_refresh is None

    run_steps(status, then)


def test_a_message_replaces_the_current_activity_for_a_while() -> None:
    status = StatusLine(clock=Clock())

    async def then(app: ScreenApp, pilot: Pilot[None]) -> None:
        status.session_status = STANDING
        status.show_activity("running bash")
        status.show_message("press Ctrl+C again to quit")
        await pilot.pause()
        assert "press Ctrl+C again to quit" in app.text
        assert "running bash" not in app.text
        await wait_until(pilot, lambda: "running bash" in app.text)

    run_steps(status, then)


@pytest.mark.parametrize("theme", ["steno-dark", "steno-light"])
def test_it_can_be_read_in_both_themes(theme: str) -> None:
    status = StatusLine(clock=Clock())

    async def then(app: ScreenApp, pilot: Pilot[None]) -> None:
        for mode in Mode:
            status.session_status = STANDING._replace(mode=mode, context_tokens=31_000)
            await pilot.pause()
            assert least_contrast(app) >= 4.5

    run_steps(status, then, theme=theme)


@pytest.mark.parametrize(
    ("number", "short"),
    [
        *((0, "0"), (950, "950"), (999, "999"), (1_000, "1k"), (4_200, "4.2k"), (9_960, "10k")),
        *((32_000, "32k"), (999_400, "999k"), (999_999, "1M"), (1_300_000, "1.3M")),
    ],
)
def test_large_numbers_are_short(number: int, short: str) -> None:
    assert abbreviate_count(number) == short


@pytest.mark.parametrize(
    ("cost", "short"),
    [("0", "$0"), ("0.00001", "<$0.0001"), ("0.0123", "$0.0123"), ("12.346", "$12.35")],
)
def test_costs_are_as_exact_as_they_are_interesting(cost: str, short: str) -> None:
    assert format_dollars(Decimal(cost)) == short


def test_modules_of_the_first_paint_load_nothing_heavy() -> None:
    heavy = (
        *(
            "steno.agent",
            "steno.app.session",
            "steno.log.conversation",
            "rich.markdown",
            "pygments",
        ),
        *("PIL", "textual_image", "textual.widgets._markdown", "markdown_it"),
    )
    code = (
        "import sys, steno.ui.tui.status, steno.ui.tui.themes\n"
        f"print([name for name in {heavy!r} if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == "[]"
