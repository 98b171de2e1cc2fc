"""Approvals at the desk: calls wait until somebody decides, one by one, and it is all on record."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from steno.agent import EndReason
from steno.agent.permissions.policy import DENIED_PREFIX
from steno.app.session import PendingCallsChanged, PromptInput
from steno.errors import InvalidValue, Missing
from steno.log.queries import pending_approvals
from steno.ports import GrantScope
from steno.records.entry import Approval, ApprovalStatus, Entry
from steno.store import open_store
from tests.app.project_setup import make_project, scripted_model
from tests.app.scripted_vendor import Call
from tests.app.session_setup import open_user_session, run

pytestmark = pytest.mark.requirement("S4-15", "S2-18")
ROOT = Path(__file__).parents[2]
TWO = [
    Call("write", {"path": "out/a.txt", "content": "a\n"}, "c1"),
    Call("write", {"path": "out/b.txt", "content": "b\n"}, "c2"),
]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = make_project(tmp_path, monkeypatch)
    (folder / "out").mkdir()
    return folder


def decisions(entries: Sequence[Entry]) -> list[tuple[str, str, str | None]]:
    """Return what was decided, in order: the call, the status, and by whom."""
    approvals = [entry.payload for entry in entries if isinstance(entry.payload, Approval)]
    return [(one.call_id, str(one.status), one.actor) for one in approvals]


def test_calls_are_decided_about_one_by_one(project: Path, home: Path) -> None:
    async def main() -> None:
        async with open_user_session(project) as person:
            desk = person.desk
            await desk.send(PromptInput("Write two files."))
            first, second = await person.asked("c1", "c2")
            assert first.request is not None
            assert "out/a.txt" in first.request.preview
            assert (second.request, second.decision) == (None, None)
            assert "out/b.txt" in await desk.preview(second.call)
            assert not (project / "out/a.txt").exists()
            person.allow("c1")
            await person.asked("c2")
            person.deny("c2", "not this one")
            await person.end()
            assert list(desk.pending_calls) == []
            assert decisions(desk.entries()) == [
                ("c1", "pending", None),
                ("c1", "approved", desk.actor),
                ("c2", "pending", None),
                ("c2", "denied", desk.actor),
            ]
            assert f"{DENIED_PREFIX}: not this one" in person.said
            assert person.told(PendingCallsChanged)

    with scripted_model(home, TWO, "Done."):
        run(main())
    assert (project / "out/a.txt").read_text() == "a\n"
    assert not (project / "out/b.txt").exists()


def test_a_call_that_waits_behind_another_may_be_decided_about_before_it_is_asked(
    project: Path, home: Path
) -> None:
    async def main() -> None:
        async with open_user_session(project) as person:
            desk = person.desk
            await desk.send(PromptInput("Write two files."))
            await person.asked("c1", "c2")
            person.deny("c2", "rather not")
            assert [one.decision and one.decision.allowed for one in desk.pending_calls] == [
                None,
                False,
            ]
            person.allow("c1")
            ended = await person.end()
            assert ended.result.ending is EndReason.DONE
            assert decisions(desk.entries())[2:] == [
                ("c2", "pending", None),
                ("c2", "denied", desk.actor),
            ]

    with scripted_model(home, TWO, "Done."):
        run(main())
    assert (project / "out/a.txt").exists()
    assert not (project / "out/b.txt").exists()


def test_a_call_that_was_allowed_ahead_is_asked_about_if_another_has_changed_what_it_does(
    project: Path, home: Path
) -> None:
    async def main() -> None:
        async with open_user_session(project) as person:
            desk = person.desk
            await desk.send(PromptInput("Write it twice."))
            _, second = await person.asked("c1", "c2")
            shown = await desk.preview(second.call)
            person.allow("c2")
            person.allow("c1")
            await person.until(
                lambda: any(one.request and one.call.id == "c2" for one in desk.pending_calls)
            )
            [again] = desk.pending_calls
            assert again.request is not None
            assert again.request.preview != shown
            person.deny("c2")
            await person.end()

    same = [Call("write", {"path": "out/a.txt", "content": f"{n}\n"}, f"c{n}") for n in (1, 2)]
    with scripted_model(home, same, "Done."):
        run(main())
    assert (project / "out/a.txt").read_text() == "1\n"


def test_what_is_allowed_for_the_session_is_asked_about_once(project: Path, home: Path) -> None:
    async def main() -> None:
        async with open_user_session(project) as person:
            await person.desk.send(PromptInput("Write two files."))
            [asked, _] = await person.asked("c1", "c2")
            assert asked.request is not None
            assert asked.request.rule == "write(out/**)"
            person.allow("c1", scope=GrantScope.SESSION)
            await person.end()
            approvals = [
                e.payload for e in person.desk.entries() if isinstance(e.payload, Approval)
            ]
            assert approvals[-1].rule == "session grant write(out/**)"

    with scripted_model(home, TWO, "Done."):
        run(main())
    assert (project / "out/b.txt").exists()


def test_what_is_allowed_for_the_project_holds_at_the_next_desk(project: Path, home: Path) -> None:
    async def allow() -> None:
        async with open_user_session(project) as person:
            await person.desk.send(PromptInput("Write two files."))
            await person.asked("c1", "c2")
            with pytest.raises(InvalidValue, match="rule"):
                person.allow("c1", scope=GrantScope.PROJECT, rule="write(")
            await person.asked("c1", "c2")
            person.allow("c1", scope=GrantScope.PROJECT, rule="write(out/*.txt)")
            await person.end()

    async def write_again() -> None:
        async with open_user_session(project) as person:
            await person.say("Once more.")
            assert [by for *_, by in decisions(person.desk.entries()) if by] == []

    with scripted_model(home, TWO, "Done.", TWO, "Done."):
        run(allow())
        run(write_again())


def test_a_verdict_about_a_call_that_nobody_asks_about_is_refused(
    project: Path, home: Path
) -> None:
    async def main() -> None:
        async with open_user_session(project) as person:
            with pytest.raises(Missing):
                person.allow("c1")
            await person.desk.send(PromptInput("Write two files."))
            await person.asked("c1", "c2")
            with pytest.raises(Missing):
                person.allow("c3")
            person.deny("c1")
            with pytest.raises(Missing):
                person.allow("c1")
            await person.asked("c2")
            person.deny("c2")
            await person.end()

    with scripted_model(home, TWO, "Well."):
        run(main())


def test_to_interrupt_takes_the_questions_back(project: Path, home: Path) -> None:
    async def main() -> None:
        async with open_user_session(project) as person:
            await person.desk.send(PromptInput("Write two files."))
            await person.asked("c1", "c2")
            person.allow("c2")
            person.desk.interrupt()
            ended = await person.end()
            assert ended.result.ending is EndReason.INTERRUPTED
            assert list(person.desk.pending_calls) == []
            assert not (project / "out/b.txt").exists()
            # The next turn uses the same ids, and what was decided before is not about them.
            await person.desk.send(PromptInput("Again."))
            await person.asked("c1", "c2")
            person.deny("c1")
            await person.asked("c2")
            person.deny("c2")
            await person.end(1)

    with scripted_model(home, TWO, TWO, "Well."):
        run(main())
    assert not (project / "out/b.txt").exists()


async def kill_while_it_asks(project: Path) -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "tests.app.killed_session", str(project)),
        cwd=ROOT,
        stdout=asyncio.subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": ":".join(path for path in sys.path if path)},
    )
    assert process.stdout is not None
    try:
        assert await process.stdout.readline() == b"asked\n"
    finally:
        process.kill()
        await process.wait()


def test_a_question_survives_the_death_of_the_program(project: Path, home: Path) -> None:
    async def main() -> None:
        await kill_while_it_asks(project)
        with open_store() as store:
            [header] = store.headers()
            [waiting] = pending_approvals(store.open(header.id).entries())
            assert waiting.id == "c1"
        async with open_user_session(project, continues=True) as person:
            desk = person.desk
            assert desk.is_unfinished
            assert not desk.is_running
            assert list(desk.pending_calls) == []
            assert (await desk.run_command("retry")).text == "Goes on."
            first, second = await person.asked("c1", "c2")
            assert first.request is not None
            assert second.request is None
            person.allow("c1")
            await person.asked("c2")
            person.deny("c2")
            ended = await person.end()
            assert ended.result.text == "Done."
            assert decisions(desk.entries())[-1] == ("c2", "denied", desk.actor)
            statuses = [status for _, status, _ in decisions(desk.entries())]
            assert statuses.count(str(ApprovalStatus.APPROVED)) == 1
            assert not desk.is_unfinished

    with scripted_model(home, TWO, "Done."):
        run(main())
    assert (project / "out/a.txt").read_text() == "a\n"
    assert not (project / "out/b.txt").exists()
