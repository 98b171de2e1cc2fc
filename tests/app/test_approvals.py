"""Approvals in a session: calls wait for decisions one by one, and everything is recorded."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

import pytest

from steno.agent import AllowingApprover, ApprovalRequested, EndReason, PromptInput
from steno.agent.permissions.rules import DENIED_PREFIX
from steno.agent.session_events import PendingCallsChanged, SessionEvent
from steno.app.session import AgentSession
from steno.app.session_lookup import SessionStart
from steno.app.settings import load_settings
from steno.errors import InvalidValue, Missing
from steno.log.queries import pending_approvals
from steno.messages.call import ToolCall
from steno.ports import GrantScope, PreviewKind, PreviewPart
from steno.records.entry import Approval, ApprovalStatus
from steno.render.items import ItemKind
from steno.render.live_items import LiveItems
from steno.store import open_store
from steno.tools.write import WriteTool
from steno.ui.plain.event_writer import write_recap
from steno.ui.plain.line_writer import LineWriter
from tests.app.project_setup import make_project, scripted_model
from tests.app.scripted_vendor import Call
from tests.app.session_setup import (
    NO_SERVER,
    SessionUser,
    decisions,
    kill_while_it_asks,
    open_user_session,
    run,
)
from tests.render.item_recorder import ItemRecorder

pytestmark = pytest.mark.requirement("S4-15", "S2-18")
TWO = [
    Call("write", {"path": "out/a.txt", "content": "a\n"}, "c1"),
    Call("write", {"path": "out/b.txt", "content": "b\n"}, "c2"),
]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = make_project(tmp_path, monkeypatch)
    (folder / "out").mkdir()
    return folder


def test_a_tool_gives_the_headline_of_its_calls(
    project: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the transcript, in lines, in an approval and in the audit."""
    monkeypatch.setattr(WriteTool, "headline", lambda _, call: f"file of {call.id}")

    async def main() -> None:
        async with open_user_session(project) as user:
            session, items = user.session, ItemRecorder()
            await session.send(PromptInput("Write two files."))
            first, second = await user.asked("c1", "c2")
            assert first.request is not None
            assert first.request.headline == "file of c1"
            assert session.headline(second.call) == "file of c2"
            user.deny("c1")
            user.deny("c2")
            await user.end()
            LiveItems(items, session.headline).load(session.entries())
            heads = [item.head for item in items.of(ItemKind.CALL)]
            assert heads == ["write file of c1", "write file of c2"]
            lines = StringIO()
            write_recap(LineWriter(lines, {}), session.entries(), session.headline)
            assert "Tool write: file of c1\n" in lines.getvalue()
            assert "file of c2" in (await session.run_command("audit")).body

    with scripted_model(home, TWO, "Done."):
        run(main())


def test_a_tool_gives_the_content_of_its_calls(
    project: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A tool that is not open is that of a stored session."""
    part = PreviewPart(PreviewKind.CODE, "own content", "toml")
    call = ToolCall.create("write", {"path": "a.py", "content": "x = 1"})
    stored = PreviewPart(PreviewKind.CODE, "x = 1", "py")

    async def main() -> None:
        async with open_user_session(project) as user:
            monkeypatch.setattr(WriteTool, "content", lambda _, call: part)
            assert user.session.call_content(call) == part
            monkeypatch.delattr(WriteTool, "content")
            assert user.session.call_content(call) is None
            closed = user.session.state.environment._replace(builtin_tools=())
            assert closed.call_content(call) == stored

    with scripted_model(home, "Done."):
        run(main())


def test_a_tool_without_a_headline_has_the_default_one(
    project: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(WriteTool, "headline")

    async def main() -> None:
        async with open_user_session(project) as user:
            await user.session.send(PromptInput("Write two files."))
            first, second = await user.asked("c1", "c2")
            assert first.request is not None
            assert first.request.headline == "out/a.txt"
            assert user.session.headline(second.call) == "out/b.txt"
            user.deny("c1")
            user.deny("c2")
            await user.end()

    with scripted_model(home, TWO, "Done."):
        run(main())


def test_calls_are_decided_about_one_by_one(project: Path, home: Path) -> None:
    async def main() -> None:
        async with open_user_session(project) as user:
            session = user.session
            await session.send(PromptInput("Write two files."))
            first, second = await user.asked("c1", "c2")
            assert first.request is not None
            assert "out/a.txt" in first.request.preview.text
            assert (second.request, second.decision) == (None, None)
            assert "out/b.txt" in (await session.preview(second.call)).text
            assert not (project / "out/a.txt").exists()
            user.allow("c1")
            await user.asked("c2")
            user.deny("c2", "not this one")
            await user.end()
            assert list(session.pending_calls) == []
            assert decisions(session.entries()) == [
                ("c1", "pending", None),
                ("c1", "approved", session.actor),
                ("c2", "pending", None),
                ("c2", "denied", session.actor),
            ]
            assert f"{DENIED_PREFIX}: not this one" in user.texts
            assert user.events_of(PendingCallsChanged)

    with scripted_model(home, TWO, "Done."):
        run(main())
    assert (project / "out/a.txt").read_text() == "a\n"
    assert not (project / "out/b.txt").exists()


def test_a_queued_call_may_be_decided_before_it_is_asked_about(project: Path, home: Path) -> None:
    async def main() -> None:
        async with open_user_session(project) as user:
            session = user.session
            await session.send(PromptInput("Write two files."))
            await user.asked("c1", "c2")
            user.deny("c2", "rather not")
            assert [one.decision and one.decision.allowed for one in session.pending_calls] == [
                None,
                False,
            ]
            user.allow("c1")
            ended = await user.end()
            assert ended.result.end_reason is EndReason.DONE
            assert decisions(session.entries())[2:] == [
                ("c2", "pending", None),
                ("c2", "denied", session.actor),
            ]

    with scripted_model(home, TWO, "Done."):
        run(main())
    assert (project / "out/a.txt").exists()
    assert not (project / "out/b.txt").exists()


def test_a_call_that_was_allowed_ahead_is_asked_about_if_another_has_changed_what_it_does(
    project: Path, home: Path
) -> None:
    async def main() -> None:
        async with open_user_session(project) as user:
            session = user.session
            await session.send(PromptInput("Write it twice."))
            _, second = await user.asked("c1", "c2")
            shown = await session.preview(second.call)
            user.allow("c2")
            user.allow("c1")
            await user.until(
                lambda: any(one.request and one.call.id == "c2" for one in session.pending_calls)
            )
            [again] = session.pending_calls
            assert again.request is not None
            assert again.request.preview != shown
            user.deny("c2")
            await user.end()

    same = [Call("write", {"path": "out/a.txt", "content": f"{n}\n"}, f"c{n}") for n in (1, 2)]
    with scripted_model(home, same, "Done."):
        run(main())
    assert (project / "out/a.txt").read_text() == "1\n"


def test_a_call_granted_for_the_session_is_asked_about_once(project: Path, home: Path) -> None:
    async def main() -> None:
        async with open_user_session(project) as user:
            await user.session.send(PromptInput("Write two files."))
            [asked, _] = await user.asked("c1", "c2")
            assert asked.request is not None
            assert asked.request.rule == "write(out/**)"
            user.allow("c1", scope=GrantScope.SESSION)
            await user.end()
            approvals = [
                e.payload for e in user.session.entries() if isinstance(e.payload, Approval)
            ]
            assert approvals[-1].rule == "session grant write(out/**)"

    with scripted_model(home, TWO, "Done."):
        run(main())
    assert (project / "out/b.txt").exists()


def test_a_project_grant_holds_in_the_next_session(project: Path, home: Path) -> None:
    async def allow() -> None:
        async with open_user_session(project) as user:
            await user.session.send(PromptInput("Write two files."))
            await user.asked("c1", "c2")
            with pytest.raises(InvalidValue) as caught:
                user.allow("c1", scope=GrantScope.PROJECT, rule="write(")
            assert caught.value.place == "rule"
            await user.asked("c1", "c2")
            user.allow("c1", scope=GrantScope.PROJECT, rule="write(out/*.txt)")
            await user.end()

    async def write_again() -> None:
        async with open_user_session(project) as user:
            await user.send("Once more.")
            assert [by for *_, by in decisions(user.session.entries()) if by] == []

    with scripted_model(home, TWO, "Done.", TWO, "Done."):
        run(allow())
        run(write_again())


def test_a_decision_about_a_call_that_is_not_pending_is_refused(project: Path, home: Path) -> None:
    async def main() -> None:
        async with open_user_session(project) as user:
            with pytest.raises(Missing):
                user.allow("c1")
            await user.session.send(PromptInput("Write two files."))
            await user.asked("c1", "c2")
            with pytest.raises(Missing):
                user.allow("c3")
            user.deny("c1")
            with pytest.raises(Missing):
                user.allow("c1")
            await user.asked("c2")
            user.deny("c2")
            await user.end()

    with scripted_model(home, TWO, "Well."):
        run(main())


def test_to_interrupt_takes_the_questions_back(project: Path, home: Path) -> None:
    async def main() -> None:
        async with open_user_session(project) as user:
            await user.session.send(PromptInput("Write two files."))
            await user.asked("c1", "c2")
            user.allow("c2")
            user.session.interrupt()
            ended = await user.end()
            assert ended.result.end_reason is EndReason.INTERRUPTED
            assert list(user.session.pending_calls) == []
            assert not (project / "out/b.txt").exists()
            # The next turn uses the same ids, and what was decided before is not about them.
            await user.session.send(PromptInput("Again."))
            await user.asked("c1", "c2")
            user.deny("c1")
            await user.asked("c2")
            user.deny("c2")
            await user.end(1)

    with scripted_model(home, TWO, TWO, "Well."):
        run(main())
    assert not (project / "out/b.txt").exists()


def test_a_question_survives_the_death_of_the_program(project: Path, home: Path) -> None:
    async def main() -> None:
        await kill_while_it_asks(project)
        with open_store() as store:
            [header] = store.headers()
            [waiting] = pending_approvals(store.open(header.id).entries())
            assert waiting.id == "c1"
        async with open_user_session(project, continues=True) as user:
            session = user.session
            assert session.is_unfinished
            assert not session.is_running
            assert list(session.pending_calls) == []
            assert (await session.run_command("retry")).plain_text == "Continuing."
            first, second = await user.asked("c1", "c2")
            assert first.request is not None
            assert second.request is None
            user.allow("c1")
            await user.asked("c2")
            user.deny("c2")
            ended = await user.end()
            assert ended.result.text == "Done."
            assert decisions(session.entries())[-1] == ("c2", "denied", session.actor)
            statuses = [status for _, status, _ in decisions(session.entries())]
            assert statuses.count(str(ApprovalStatus.APPROVED)) == 1
            assert not session.is_unfinished

    with scripted_model(home, TWO, "Done."):
        run(main())
    assert (project / "out/a.txt").read_text() == "a\n"
    assert not (project / "out/b.txt").exists()


def test_a_call_can_be_decided_when_its_request_is_reported(project: Path, home: Path) -> None:
    """The event is sent just before the gate waits for the decision."""

    async def main() -> None:
        async with open_user_session(project) as user:
            session = user.session

            def decide(event: SessionEvent) -> None:
                if isinstance(event, ApprovalRequested):
                    user.allow(event.request.call.id)

            session.subscribe(decide)
            ended = await user.send("Write two files.")
            assert ended.result.end_reason is EndReason.DONE
            assert [status for _, status, _ in decisions(session.entries())].count("approved") == 2

    with scripted_model(home, TWO, "Done."):
        run(main())
    assert (project / "out/a.txt").read_text() == "a\n"


def test_an_invalid_rule_is_refused_when_the_request_is_reported(project: Path, home: Path) -> None:
    async def main() -> None:
        async with open_user_session(project) as user:
            codes: list[str] = []

            def decide(event: SessionEvent) -> None:
                if isinstance(event, ApprovalRequested):
                    call = event.request.call.id
                    with pytest.raises(InvalidValue) as caught:
                        user.allow(call, scope=GrantScope.SESSION, rule="write(")
                    codes.append(caught.value.code)
                    user.deny(call)

            user.session.subscribe(decide)
            await user.send("Write two files.")
            assert len(codes) == 2
            assert [status for _, status, _ in decisions(user.session.entries())].count(
                "denied"
            ) == 2

    with scripted_model(home, TWO, "Done."):
        run(main())


def test_a_decision_is_refused_where_a_program_decides(project: Path, home: Path) -> None:
    async def main() -> None:
        loaded = load_settings(project)
        async with AgentSession.open(
            loaded, SessionStart(project), mcp_options=NO_SERVER, approver=AllowingApprover()
        ) as session:
            user, codes = SessionUser(session), list[str]()

            def decide(event: SessionEvent) -> None:
                if isinstance(event, ApprovalRequested):
                    with pytest.raises(Missing) as caught:
                        user.deny(event.request.call.id)
                    codes.append(caught.value.code)
                    assert list(session.pending_calls) == []

            session.subscribe(decide)
            await user.send("Write two files.")
            assert codes == ["call_not_pending"] * 2

    with scripted_model(home, TWO, "Done."):
        run(main())
    assert (project / "out/b.txt").exists()
