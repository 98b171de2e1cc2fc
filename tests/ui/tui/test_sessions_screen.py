"""Sessions are found, resumed, renamed and deleted, and never by accident."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pytest
from textual.pilot import Pilot

from steno.app.session_lookup import SessionSummary
from steno.errors import Missing, StenoError
from steno.ids import utc_now
from steno.render.quantities import format_age
from steno.ui.tui.screens.sessions_screen import SessionsScreen
from steno.ui.tui.screens.widgets import InputScreen
from tests.ui.fake_session import FakeSession, FakeSessionList
from tests.ui.idle_clock import wait_until
from tests.ui.tui.screen_app import HOSTILE, SIZES, ScreenApp, is_harmless, least_contrast, show


class GatedSessionList(FakeSessionList):
    """A session list that responds when a test allows it, and raises the errors that a test sets."""

    def __init__(self, session: FakeSession) -> None:
        super().__init__(session)
        self.gates: dict[str, asyncio.Event] = {}
        """By what is searched for, or by the session to be resumed."""
        self.refusal: StenoError | None = None

    async def summaries(self, search: str = "") -> Sequence[SessionSummary]:
        found = await super().summaries(search)
        await self._pass(search)
        return found

    async def resume(self, session: str) -> None:
        await super().resume(session)
        await self._pass(session)

    async def delete(self, session: str) -> None:
        await self._pass(session)
        await super().delete(session)

    async def _pass(self, name: str) -> None:
        if self.refusal is not None:
            raise self.refusal
        if name in self.gates:
            await self.gates[name].wait()


def make_session(*summaries: SessionSummary) -> tuple[FakeSession, GatedSessionList]:
    session = FakeSession()
    session_list = session.session_list = GatedSessionList(session)
    session_list.kept = list(summaries)
    return session, session_list


def kept(name: str, *, is_here: bool = True, hours: float = 2, snippet: str = "") -> SessionSummary:
    return SessionSummary(
        id=f"id-{name}",
        title=f"the {name} session",
        entries=1234,
        branches=tuple("abcdefg"),
        changed_at=utc_now() - timedelta(hours=hours),
        folder=f"~/code/of/{name}",
        is_in_this_folder=is_here,
        snippet=snippet,
    )


THREE = (kept("alpha", is_here=False), kept("beta"), kept("gamma", hours=50))


def order(app: ScreenApp, *names: str) -> list[str]:
    """Return the names in the order of the screen."""
    seen = {name: app.text.find(f"the {name} session") for name in names}
    return sorted([name for name in names if seen[name] >= 0], key=lambda name: seen[name])


def asked(session: FakeSession, what: str) -> list[tuple[object, ...]]:
    return [one[1:] for one in session.asked if one[0] == what]


# -- the list ----------------------------------------------------------------------------------


@pytest.mark.requirement("S4-15")
@pytest.mark.parametrize("size", SIZES)
def test_sessions_of_this_folder_come_first_with_what_there_is_room_for(
    size: tuple[int, int],
) -> None:
    session, _ = make_session(*THREE)

    async def steps(app: ScreenApp, pilot: Pilot[None]) -> None:
        await wait_until(pilot, lambda: "3 sessions" in app.text)
        assert order(app, "alpha", "beta", "gamma") == ["beta", "gamma", "alpha"]
        [row] = [line for line in app.lines if "the gamma session" in line]
        assert "2 d ago" in row
        assert ("1234" in row) is (size[0] >= 80)
        assert (" 7 " in row) is (size[0] >= 80)
        assert ("~/code/of/gamma" in row) is (size[0] >= 120)
        [head] = [line for line in app.lines if "session " in line and "last used" in line]
        assert head.index("last used") + len("last used") == row.index("2 d ago") + len("2 d ago")

    show(SessionsScreen(session), steps, size=size)


@pytest.mark.parametrize("count", [3, 60])
def test_names_stand_right_above_their_columns_and_the_cursor_goes_to_the_edge(count: int) -> None:
    session, _ = make_session(*[kept(f"n{number}", hours=50) for number in range(count)])

    async def steps(app: ScreenApp, pilot: Pilot[None]) -> None:
        await wait_until(pilot, lambda: f"{count} sessions" in app.text)
        await pilot.pause()
        head, row = [line.rstrip("▁▂▃▄▅▆▇█ ") for line in app.lines[2:4]]
        assert app.lines[1].startswith(" type to search")
        assert head.endswith("folder")
        assert row.endswith("~/code/of/n0")
        assert len(head) == len(row)
        ends = [segment.style.bgcolor for segment in app.strips[3] if segment.style]
        has_bar = count > 20
        assert (ends[-1] == ends[0]) is not has_bar

    show(SessionsScreen(session), steps, size=(100, 30))


def test_the_session_at_hand_is_marked() -> None:
    mine = kept("mine")._replace(id=FakeSession().status.session or "")
    session, _ = make_session(kept("other"), mine)

    async def steps(app: ScreenApp, pilot: Pilot[None]) -> None:
        await wait_until(pilot, lambda: "2 sessions" in app.text)
        assert "● the mine session" in app.text
        assert "● the other session" not in app.text

    show(SessionsScreen(session), steps)


def test_tab_goes_from_all_folders_to_this_one_and_back() -> None:
    session, _ = make_session(*THREE)

    async def steps(app: ScreenApp, pilot: Pilot[None]) -> None:
        await wait_until(pilot, lambda: "3 sessions" in app.text)
        await pilot.press("tab")
        await wait_until(pilot, lambda: "2 sessions" in app.text)
        assert "Sessions · this folder" in app.text
        assert "alpha" not in app.text
        await pilot.press("tab")
        await wait_until(pilot, lambda: "3 sessions" in app.text)

    show(SessionsScreen(session), steps)


def test_without_sessions_of_this_folder_other_sessions_are_mentioned() -> None:
    session, _ = make_session(THREE[0])

    async def steps(app: ScreenApp, pilot: Pilot[None]) -> None:
        await wait_until(pilot, lambda: "1 session" in app.text)
        await pilot.press("tab")
        await wait_until(
            pilot, lambda: "no session in this folder, 1 session in other folders" in app.text
        )
        await pilot.press("enter", "f2", "delete")
        assert session.asked == [("summaries", "")]

    show(SessionsScreen(session), steps)


def test_it_says_that_it_looks_and_that_there_is_nothing() -> None:
    session, session_list = make_session()

    async def steps(app: ScreenApp, pilot: Pilot[None]) -> None:
        await wait_until(pilot, lambda: "searching …" in app.text)
        session_list.gates[""].set()
        await wait_until(pilot, lambda: "no sessions yet" in app.text)

    session_list.gates[""] = asyncio.Event()
    show(SessionsScreen(session), steps)


def test_thousands_of_sessions_are_walked_through() -> None:
    session, _ = make_session(*(kept(f"{number:04}") for number in range(5_000)))

    async def steps(app: ScreenApp, pilot: Pilot[None]) -> None:
        await wait_until(pilot, lambda: "5,000 sessions" in app.text)
        await pilot.press("ctrl+end")
        await wait_until(pilot, lambda: "the 4999 session" in app.text)
        await pilot.press("pageup", "up", "ctrl+home", "down", "enter")
        await wait_until(pilot, lambda: app.results)
        assert asked(session, "resume") == [("id-0001",)]

    show(SessionsScreen(session), steps)


@pytest.mark.parametrize("size", SIZES)
def test_names_from_elsewhere_do_no_harm(size: tuple[int, int]) -> None:
    name = HOSTILE + "x" * 10_000
    bad = kept("bad")._replace(title=name, folder=name, snippet=name)
    session, session_list = make_session(bad, kept("good"))

    async def steps(app: ScreenApp, pilot: Pilot[None]) -> None:
        await wait_until(pilot, lambda: "2 sessions" in app.text)
        assert is_harmless(app)
        assert r"\x1b[2J" in app.text
        assert "the good session" in app.text
        session_list.refusal = Missing(name)
        await pilot.press("delete", "y", "enter")
        await wait_until(pilot, lambda: "✗" in app.text)
        assert is_harmless(app)
        await pilot.press("f2")
        await wait_until(pilot, lambda: isinstance(app.screen, InputScreen))
        assert is_harmless(app)

    show(SessionsScreen(session), steps, size=size)


@pytest.mark.parametrize("theme", ["steno-dark", "steno-light"])
def test_everything_can_be_read_in_both_themes(theme: str) -> None:
    session, _ = make_session(
        kept("alpha", snippet="found here"), kept("beta", snippet="and there")
    )

    async def steps(app: ScreenApp, pilot: Pilot[None]) -> None:
        await wait_until(pilot, lambda: "2 sessions" in app.text)
        assert least_contrast(app) >= 4.5

    show(SessionsScreen(session), steps, theme=theme)


# -- searching ---------------------------------------------------------------------------------


def test_typing_searches_and_shows_where_the_words_were_found() -> None:
    session, _ = make_session(*THREE, kept("delta", snippet="so the DELTA [bold]was[/] mended"))

    async def steps(app: ScreenApp, pilot: Pilot[None]) -> None:
        await wait_until(pilot, lambda: "4 sessions" in app.text)
        await pilot.press(*"delta")
        await wait_until(pilot, lambda: "1 session" in app.text and "beta" not in app.text)
        assert asked(session, "summaries")[-1] == ("delta",)
        assert "so the DELTA [bold]was[/] mended" in app.text
        underlined = [
            one.text for strip in app.strips for one in strip if one.style and one.style.underline
        ]
        assert underlined == ["delta", "DELTA"]
        await pilot.press(*"x")
        await wait_until(pilot, lambda: "no session contains these words" in app.text)

    show(SessionsScreen(session), steps)


def test_results_of_an_outdated_search_are_dropped() -> None:
    session, session_list = make_session(*THREE)

    async def steps(app: ScreenApp, pilot: Pilot[None]) -> None:
        await wait_until(pilot, lambda: "3 sessions" in app.text)
        session_list.gates["a"] = asyncio.Event()
        await pilot.press("a")
        await wait_until(pilot, lambda: ("a",) in asked(session, "summaries"))
        await pilot.press(*"lph")
        await wait_until(pilot, lambda: "1 session" in app.text)
        session_list.gates["a"].set()
        await pilot.pause()
        assert order(app, "alpha", "beta", "gamma") == ["alpha"]

    show(SessionsScreen(session), steps)


def test_enter_does_nothing_while_the_list_is_not_what_was_asked_for() -> None:
    session, session_list = make_session(*THREE)

    async def steps(app: ScreenApp, pilot: Pilot[None]) -> None:
        await wait_until(pilot, lambda: "3 sessions" in app.text)
        session_list.gates["alpha"] = asyncio.Event()
        await pilot.press(*"alpha", "enter")
        await wait_until(pilot, lambda: ("alpha",) in asked(session, "summaries"))
        await pilot.press("enter")
        assert asked(session, "resume") == []
        session_list.gates["alpha"].set()
        await wait_until(pilot, lambda: "1 session" in app.text)
        await pilot.press("enter")
        await wait_until(pilot, lambda: app.results)
        assert asked(session, "resume") == [("id-alpha",)]

    show(SessionsScreen(session), steps)


def test_a_shelf_that_cannot_be_read_says_so() -> None:
    session, session_list = make_session(*THREE)
    session_list.refusal = StenoError("store: it cannot be reached")

    async def steps(app: ScreenApp, pilot: Pilot[None]) -> None:
        await wait_until(pilot, lambda: "✗ store: it cannot be reached" in app.text)
        await pilot.press("escape")
        await wait_until(pilot, lambda: app.results)
        assert app.results == [None]

    show(SessionsScreen(session), steps)


# -- going on ----------------------------------------------------------------------------------


@pytest.mark.requirement("S4-15")
def test_enter_resumes_a_session_once() -> None:
    session, session_list = make_session(*THREE)

    async def steps(app: ScreenApp, pilot: Pilot[None]) -> None:
        await wait_until(pilot, lambda: "3 sessions" in app.text)
        session_list.gates["id-gamma"] = asyncio.Event()
        await pilot.press("down", "enter")
        await wait_until(pilot, lambda: "opening the gamma session" in app.text)
        await pilot.press("enter", "escape", "ctrl+n", "f2", "delete", "tab")
        session_list.gates["id-gamma"].set()
        await wait_until(pilot, lambda: app.results)
        assert app.results == [None]
        assert session.asked == [("summaries", ""), ("resume", "id-gamma")]

    show(SessionsScreen(session), steps)


def test_a_session_that_cannot_be_opened_leaves_the_list_with_the_reason() -> None:
    session, session_list = make_session(*THREE)

    async def steps(app: ScreenApp, pilot: Pilot[None]) -> None:
        await wait_until(pilot, lambda: "3 sessions" in app.text)
        session_list.refusal = StenoError("session: another program has it open")
        await pilot.press("enter")
        await wait_until(pilot, lambda: "✗ session: another program has it open" in app.text)
        session_list.refusal = None
        await pilot.press("enter")
        await wait_until(pilot, lambda: app.results)
        assert app.results == [None]

    show(SessionsScreen(session), steps)


def test_a_new_session_is_begun_with_a_key() -> None:
    session, _ = make_session(*THREE)

    async def steps(app: ScreenApp, pilot: Pilot[None]) -> None:
        await pilot.press("ctrl+n")
        await wait_until(pilot, lambda: app.results)
        assert app.results == [None]
        assert asked(session, "new") == [("",)]

    show(SessionsScreen(session), steps)


# -- renaming and deleting ---------------------------------------------------------------------


@pytest.mark.parametrize("key", ["f2", "ctrl+r"])
def test_a_session_gets_another_title_and_keeps_the_cursor(key: str) -> None:
    session, _ = make_session(*THREE)

    async def steps(app: ScreenApp, pilot: Pilot[None]) -> None:
        await wait_until(pilot, lambda: "3 sessions" in app.text)
        await pilot.press("down", key)
        await wait_until(pilot, lambda: isinstance(app.screen, InputScreen))
        await pilot.press("ctrl+u", *"other", "enter")
        await wait_until(
            pilot, lambda: len(asked(session, "summaries")) == 2 and "other" in app.text
        )
        assert asked(session, "rename") == [("id-gamma", "other")]
        await pilot.press("enter")
        await wait_until(pilot, lambda: app.results)
        assert asked(session, "resume") == [("id-gamma",)]

    show(SessionsScreen(session), steps)


@pytest.mark.parametrize("keys", [("x", "escape"), ("ctrl+u", "enter")])
def test_a_title_stays_where_none_is_given(keys: tuple[str, ...]) -> None:
    session, _ = make_session(*THREE)

    async def steps(app: ScreenApp, pilot: Pilot[None]) -> None:
        await wait_until(pilot, lambda: "3 sessions" in app.text)
        await pilot.press("f2")
        await wait_until(pilot, lambda: isinstance(app.screen, InputScreen))
        await pilot.press(*keys)
        await wait_until(pilot, lambda: isinstance(app.screen, SessionsScreen))
        assert asked(session, "rename") == []

    show(SessionsScreen(session), steps)


@pytest.mark.parametrize("key", ["ctrl+d", "delete"])
def test_a_session_is_deleted_after_its_name_was_shown_and_y_was_typed(key: str) -> None:
    session, _ = make_session(*THREE)

    async def steps(app: ScreenApp, pilot: Pilot[None]) -> None:
        await wait_until(pilot, lambda: "3 sessions" in app.text)
        await pilot.press(key)
        await wait_until(pilot, lambda: "Delete “the beta session”" in app.text)
        assert "2 h ago, 1,234 entries" in app.text
        assert asked(session, "delete") == []
        await pilot.press("y", "enter")
        await wait_until(pilot, lambda: "2 sessions" in app.text)
        assert asked(session, "delete") == [("id-beta",)]
        await pilot.press("enter")
        await wait_until(pilot, lambda: app.results)
        assert asked(session, "resume") == [("id-gamma",)]

    show(SessionsScreen(session), steps)


@pytest.mark.parametrize("keys", [("enter",), ("n", "enter"), ("y", "escape"), ("y", "y", "enter")])
def test_a_session_is_deleted_only_after_an_exact_confirmation(keys: tuple[str, ...]) -> None:
    session, _ = make_session(*THREE)

    async def steps(app: ScreenApp, pilot: Pilot[None]) -> None:
        await wait_until(pilot, lambda: "3 sessions" in app.text)
        await pilot.press("delete")
        await wait_until(pilot, lambda: isinstance(app.screen, InputScreen))
        await pilot.press(*keys)
        await wait_until(pilot, lambda: "“the beta session” was not deleted" in app.text)
        assert asked(session, "delete") == []

    show(SessionsScreen(session), steps)


def test_a_session_that_must_not_be_deleted_says_why() -> None:
    session, session_list = make_session(*THREE)

    async def steps(app: ScreenApp, pilot: Pilot[None]) -> None:
        await wait_until(pilot, lambda: "3 sessions" in app.text)
        session_list.refusal = StenoError("session: it is at hand; go over to another first")
        await pilot.press("delete")
        await wait_until(pilot, lambda: isinstance(app.screen, InputScreen))
        await pilot.press("y", "enter")
        await wait_until(pilot, lambda: "✗ session: it is at hand" in app.text)
        assert order(app, "alpha", "beta", "gamma") == ["beta", "gamma", "alpha"]

    show(SessionsScreen(session), steps)


# -- ages --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        *((0, "now"), (-30, "now"), (5, "5 s ago"), (300, "5 min ago"), (7_300, "2 h ago")),
        *((200_000, "2 d ago"), (3_000_000, "2024-04-12"), (-90_000, "2024-05-18")),
    ],
)
def test_an_age_is_formatted_in_the_largest_unit(seconds: int, words: str) -> None:
    now = datetime(2024, 5, 17, 6, 30, tzinfo=UTC)
    assert format_age(now - timedelta(seconds=seconds), now) == words


def test_an_unknown_age_is_a_dash() -> None:
    assert format_age(None, datetime(2024, 5, 17, tzinfo=UTC)) == "-"
