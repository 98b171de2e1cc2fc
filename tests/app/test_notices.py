"""What a server does not look at is told once, and in one line; to whom it matters, each by itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from steno.agent import Notice, NoticeCode, RunEnded
from steno.context import ChangeCode
from steno.render.notices import simplify_notice
from tests.app.project_setup import make_project, scripted_model
from tests.app.scripted_vendor import Call
from tests.app.session_setup import open_user_session, run

pytestmark = pytest.mark.requirement("S4-15")
MISSING = [Call("read", {"path": "missing.txt"}, "c1"), Call("read", {"path": "gone.txt"}, "c2")]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return make_project(tmp_path, monkeypatch)


def told(project: Path, home: Path, *, verbose: bool = False) -> list[str]:
    """Let calls fail in two runs, and return what was told about it before each ended."""

    async def main() -> list[str]:
        async with open_user_session(project, verbose=verbose) as user:
            await user.say("Read both.")
            await user.say("Again?")
            [*_, last] = user.events
            assert isinstance(last, RunEnded)
            assert {notice.code for notice in user.events_of(Notice)} == {NoticeCode.CONTEXT}
            return [notice.text for notice in user.events_of(Notice)]

    with scripted_model(home, MISSING, "No.", "No."):
        return run(main())


def test_what_a_server_does_not_look_at_is_told_once_in_one_line(project: Path, home: Path) -> None:
    [notice] = told(project, home)
    assert notice == "2 things the server does not look at (messages); --verbose shows them"


def test_who_wants_to_know_is_told_of_each(project: Path, home: Path) -> None:
    notices = told(project, home, verbose=True)
    assert len(notices) > 1
    assert all("not told that the call ended as error" in notice for notice in notices)


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("the model takes no tools: 8 definitions are left out (tools_left_out)", None),
        ("the system message tells what the mode plan means (mode)", None),
        ("a summary stands for what was said before (compacted)", None),
        (
            "an old tool result: the middle of it is left out (shortened)",
            "an old tool result: the middle of it is left out",
        ),
        (
            "messages[3]: not told that the call ended as error (outcome)",
            "not told that the call ended as error",
        ),
        ("messages[3].content[0]: left out (image)", "left out"),
        (
            "the session was begun elsewhere (in the folder)",
            "the session was begun elsewhere (in the folder)",
        ),
        ("nobody knows this one (of_this_kind)", "nobody knows this one (of_this_kind)"),
    ],
)
def test_people_are_told_no_codes_and_nothing_that_every_run_does(
    text: str, plain: str | None
) -> None:
    told = simplify_notice(Notice(NoticeCode.CONTEXT, text))
    assert (None if told is None else told.text) == plain


def test_no_kind_of_change_is_told_by_its_code() -> None:
    for code in ChangeCode:
        text = simplify_notice(Notice(NoticeCode.CONTEXT, f"something is so ({code})"))
        assert text is None or text.text == "something is so"


def test_what_a_person_named_is_told_as_it_is() -> None:
    notice = Notice(NoticeCode.INPUT, "a.txt: has changed (mode)")
    assert simplify_notice(notice) is notice
