"""Continuing the last session reports damaged sessions that were skipped."""

from __future__ import annotations

from pathlib import Path

import pytest

from steno.agent import Notice
from tests.app.project_setup import make_project
from tests.app.session_setup import open_user_session, run

pytestmark = pytest.mark.requirement("S4-15")


def test_a_skipped_damaged_session_is_named_with_the_verify_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = make_project(tmp_path, monkeypatch)
    folder = tmp_path / "store"
    flags = {"model": "offline", "store": f"jsonl:{folder}"}

    async def begin() -> str:
        async with open_user_session(project, flags=flags) as user:
            await user.send("read note.txt")
            return user.session.status.session or ""

    async def go_on() -> tuple[str | None, list[Notice]]:
        async with open_user_session(project, flags=flags, continues=True) as user:
            await user.until(lambda: user.events_of(Notice))
            return user.session.status.session, user.events_of(Notice)

    good, bad = run(begin()), run(begin())
    (broken,) = [path for path in folder.rglob("*.jsonl") if bad in str(path)]
    first, second, *rest = broken.read_bytes().splitlines(keepends=True)
    broken.write_bytes(b"".join([first, second[:40] + b"\n", *rest]))
    session, notices = run(go_on())
    assert session == good
    [notice] = [notice for notice in notices if bad in notice.text]
    assert notice.code == "session_skipped"
    assert notice.text.startswith(f"session {bad}: ")
    assert f"`steno verify {bad}`" in notice.text
