"""Ignored fields are reported once and in one line; adaptations only with `verbose`."""

from __future__ import annotations

from pathlib import Path

import pytest

from steno.agent import ContextChanged, Notice, NoticeKind, RunEnded, TurnStarted
from steno.agent.session_events import SessionEvent
from steno.messages.change import Change, ChangeCode
from steno.render.changes import (
    describe_change,
    format_change,
    is_ignored_by_server,
    notice_text,
)
from steno.render.session_items import ChangeSummarizer
from tests.app.project_setup import make_project, scripted_model
from tests.app.scripted_vendor import Call
from tests.app.session_setup import open_user_session, run

pytestmark = pytest.mark.requirement("S4-15")
MISSING = [Call("read", {"path": "missing.txt"}, "c1"), Call("read", {"path": "gone.txt"}, "c2")]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return make_project(tmp_path, monkeypatch)


def notices_of_two_runs(project: Path, home: Path, *, verbose: bool = False) -> list[str]:
    """Let calls fail in two runs, and return the notices."""

    async def main() -> list[str]:
        async with open_user_session(project, verbose=verbose) as user:
            await user.send("Read both.")
            await user.send("Again?")
            [*_, last] = user.events
            assert isinstance(last, RunEnded)
            assert {notice.kind for notice in user.events_of(Notice)} <= {NoticeKind.CONTEXT}
            return [notice.text for notice in user.events_of(Notice)]

    with scripted_model(home, MISSING, "No.", "No."):
        return run(main())


def test_a_failed_call_is_not_reported_as_an_ignored_field(project: Path, home: Path) -> None:
    assert notices_of_two_runs(project, home) == []


def test_verbose_reports_each_adaptation(project: Path, home: Path) -> None:
    notices = notices_of_two_runs(project, home, verbose=True)
    assert len(notices) > 1
    assert set(notices) == {
        format_change(Change(ChangeCode.OUTCOME, "not_sent", f"messages[{number}]", value="error"))
        for number in (3, 4)
    }


@pytest.mark.parametrize(
    "code",
    [
        *(ChangeCode.CALL_ID, ChangeCode.TOOL_NAME, ChangeCode.OUTCOME),
        *(ChangeCode.SYSTEM, ChangeCode.ORDER, ChangeCode.BLANK),
    ],
)
def test_adaptations_to_the_server_are_neither_listed_nor_counted(code: ChangeCode) -> None:
    change = Change(code, "any", "messages[1]")
    assert notice_text(change) is None
    assert not is_ignored_by_server(change)


@pytest.mark.parametrize("code", [ChangeCode.TOOLS_LEFT_OUT, ChangeCode.MODE, ChangeCode.COMPACTED])
def test_changes_that_the_user_requested_are_not_reported(code: ChangeCode) -> None:
    assert notice_text(Change(code, "any")) is None


def test_people_are_shown_the_sentence_without_place_and_code() -> None:
    change = Change(ChangeCode.IMAGE, "text_only", "messages[3].content[0]")
    assert notice_text(change) == describe_change(change)
    assert format_change(change) == f"messages[3].content[0]: {describe_change(change)} (image)"


@pytest.mark.parametrize(
    "code",
    [
        *(ChangeCode.IMAGE, ChangeCode.REFERENCE, ChangeCode.OPAQUE, ChangeCode.INVALID_CALL),
        *(ChangeCode.SHORTENED, ChangeCode.LEFT_OUT, ChangeCode.REPAIRED, ChangeCode.UNREADABLE),
    ],
)
def test_important_changes_are_listed_and_not_only_counted(code: ChangeCode) -> None:
    assert not is_ignored_by_server(Change(code, "any", "messages[1]"))


def test_the_summary_names_the_members_of_the_request() -> None:
    shown: list[SessionEvent] = []
    summarize = ChangeSummarizer(shown.append, is_verbose=False)
    places = ("messages[3].content[1]", "request.tools[0]", "request.max_tokens", "messages[4]")
    for place in places:
        summarize(ContextChanged(Change(ChangeCode.SETTING, "any", place)))
    summarize(TurnStarted(1))
    notice, _ = shown
    assert isinstance(notice, Notice)
    assert notice.text.startswith("the server ignores 4 fields ")
    assert "(messages, tools, max_tokens)" in notice.text
