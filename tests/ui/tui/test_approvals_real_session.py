"""Approvals in the full screen with a real session: decisions take effect and are recorded."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from steno.records.entry import Approval
from steno.store import open_store
from steno.ui.help_text import UNFINISHED_NOTICE
from tests.app.project_setup import make_project, scripted_model
from tests.app.scripted_vendor import Call
from tests.app.session_setup import decisions, kill_while_it_asks
from tests.ui.tui.app.screen_user import ScreenUser, opens_real_session, run_with_screen

pytestmark = pytest.mark.requirement("S4-15", "S2-18")
NAMES = ("a", "b", "c")
THREE = [
    Call("write", {"path": f"out/{name}.txt", "content": f"{name}\n"}, f"call_{name}")
    for name in NAMES
]
Decisions = list[tuple[str, str, str | None]]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "home"
    folder.mkdir()
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.setenv("LOGNAME", "ann")
    for name in ("XDG_DATA_HOME", "XDG_STATE_HOME", "NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    return folder


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = make_project(tmp_path, monkeypatch)
    (folder / "out").mkdir()
    return folder


def written(project: Path) -> list[str]:
    return sorted(file.stem for file in (project / "out").iterdir())


def on_record() -> Decisions:
    """Return the decisions in the only stored session, without pending requests."""
    with open_store() as store:
        [header] = store.headers()
        told = decisions(store.open(header.id).entries())
    return [one for one in told if one[1] != "pending"]


@pytest.mark.parametrize("size", [(60, 20), (100, 30)])
def test_three_calls_of_one_turn_are_decided_in_any_order(
    project: Path, home: Path, size: tuple[int, int]
) -> None:
    async def steps(user: ScreenUser) -> None:
        await user.enter("Write three files.")
        await user.sees(
            "1 of 3",
            "▸ waiting  write out/a.txt",
            "  queued   write out/b.txt",
            "  queued   write out/c.txt",
        )
        await user.press("ctrl+g", "ctrl+n")
        await user.sees("2 of 3", "▸ queued   write out/b.txt", "out/b.txt · new file  +1", "│ +b")
        await user.decide("d", "deny")
        await user.sees("▸ waiting  write out/a.txt", "  denied   write out/b.txt")
        assert written(project) == []
        await user.decide("o", "once")
        await user.until(lambda: written(project) == ["a"])
        await user.sees("permission · write ━", "out/c.txt · new file")
        await user.decide("o", "once")
        await user.sees("Done.")

    with scripted_model(home, THREE, "Done."):
        run_with_screen(opens_real_session(project), steps, size=size)
    assert written(project) == ["a", "c"]
    assert [(call, status) for call, status, _ in on_record()] == [
        ("call_a", "approved"),
        ("call_b", "denied"),
        ("call_c", "approved"),
    ]
    assert None not in {actor for *_, actor in on_record()}


def test_all_calls_of_a_turn_are_allowed_together(project: Path, home: Path) -> None:
    async def steps(user: ScreenUser) -> None:
        await user.enter("Write three files.")
        await user.sees("1 of 3")
        await user.decide("a", "all 3 once")
        await user.sees("allow these 3 calls once?", "1 of 3: write", '"out/c.txt"')
        assert written(project) == []
        await user.decide("y", "allow these 3 once")
        await user.sees("Done.")
        assert "permission" not in user.text

    with scripted_model(home, THREE, "Done."):
        run_with_screen(opens_real_session(project), steps)
    assert written(project) == list(NAMES)
    assert [status for _, status, _ in on_record()] == ["approved"] * 3


def test_a_rule_for_the_session_is_shown_stored_and_covers_the_rest(
    project: Path, home: Path
) -> None:
    async def steps(user: ScreenUser) -> None:
        await user.enter("Write three files.")
        await user.choose("s", "for session")
        await user.sees("Enter store the rule write(out/**), valid in this session")
        await user.decide("s", "for session")
        await user.sees("Done.")

    with scripted_model(home, THREE, "Done."):
        run_with_screen(opens_real_session(project), steps)
    assert written(project) == list(NAMES)
    with open_store() as store:
        [header] = store.headers()
        payloads = [entry.payload for entry in store.open(header.id).entries()]
    rules = [one.rule for one in payloads if isinstance(one, Approval) and one.rule]
    assert rules[-1] == "session grant write(out/**)"


def test_an_undecided_approval_is_requested_again_after_a_kill(project: Path, home: Path) -> None:
    async def steps(user: ScreenUser) -> None:
        await user.sees(UNFINISHED_NOTICE)
        assert "permission" not in user.text
        await user.enter("/retry")
        await user.sees("1 of 2", "▸ waiting  write out/a.txt", "  queued   write out/b.txt")
        await user.decide("o", "once")
        await user.sees("out/b.txt · new file")
        await user.decide("d", "deny")
        await user.sees("Done.")

    with scripted_model(home, THREE[:2], "Done."):
        asyncio.run(kill_while_it_asks(project))
        assert on_record() == []
        run_with_screen(opens_real_session(project, continues=True), steps)
    assert written(project) == ["a"]
    assert [(call, status) for call, status, _ in on_record()] == [
        ("call_a", "approved"),
        ("call_b", "denied"),
    ]


def test_an_interrupt_decides_nothing_and_runs_nothing(project: Path, home: Path) -> None:
    async def steps(user: ScreenUser) -> None:
        await user.enter("Write three files.")
        await user.sees("1 of 3")
        await user.press("ctrl+g", "escape")
        assert "1 of 3" in user.text
        await user.press("escape")
        await user.until(lambda: "permission" not in user.text)
        await user.sees("interrupted")

    with scripted_model(home, THREE, "Done."):
        run_with_screen(opens_real_session(project), steps)
    assert written(project) == []
    assert "approved" not in {status for _, status, _ in on_record()}
