"""`/clear` empties the context of the open session, on the record."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from steno import ChatMessage
from steno.agent import EntryRecorded, PromptInput
from steno.errors import StenoError
from steno.records import Clear, Feedback, ShellCommand
from tests.app.project_setup import make_project, scripted_model
from tests.app.session_setup import SessionUser, open_user_session, run

pytestmark = pytest.mark.requirement("S3-05", "S4-15", "P-05")


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return make_project(tmp_path, monkeypatch)


def clears(user: SessionUser) -> list[str]:
    return [entry.id for entry in user.session.entries() if entry.clears_context]


def test_the_model_receives_only_the_system_prompt_and_later_prompts(
    project: Path, home: Path
) -> None:
    async def main() -> None:
        async with open_user_session(project) as user:
            await user.send("One?")
            before = user.session.status
            await user.session.run_command("clear")
            session = user.session.status.session
            assert session == before.session
            assert not user.session.is_unfinished
            assert user.session.status.usage == before.usage
            (recorded,) = [
                event.entry
                for event in user.events_of(EntryRecorded)
                if isinstance(event.entry.payload, Clear)
            ]
            assert clears(user) == [recorded.id]
            await user.send("Two?")
            assert user.texts == ["One?", "First.", "Two?", "Second."]
        async with open_user_session(project, resume=session) as user:
            await user.send("Three?")

    with scripted_model(home, "First.", "Second.", "Third.") as model:
        run(main())
    assert model.sent_roles(1) == ["system", "user"]
    assert "One?" not in str(model.seen[1]["messages"])
    assert model.sent_roles(2) == ["system", "user", "assistant", "user"]


def test_an_empty_context_is_not_cleared_again(project: Path, home: Path) -> None:
    async def main() -> None:
        async with open_user_session(project) as user:
            first = await user.session.run_command("clear")
            await user.send("One?")
            done = await user.session.run_command("clear")
            again = await user.session.run_command("clear")
            assert first.plain_text == again.plain_text != done.plain_text
            assert len(clears(user)) == 1

    with scripted_model(home, "First."):
        run(main())


@pytest.mark.parametrize("kind", ["message", "feedback", "shell command"])
def test_a_context_with_anything_but_system_messages_is_cleared(
    project: Path, home: Path, kind: str
) -> None:
    async def main() -> None:
        async with open_user_session(project) as user:
            await user.send("One?")
            conversation = user.session.state.conversation
            prompt = conversation.entries()[-1]
            if kind != "message":
                await user.session.run_command("clear")
            if kind == "feedback":
                conversation.append(Feedback(target=prompt.id, text="Too short."))
            if kind == "shell command":
                conversation.append(ShellCommand(command="ls", output="a", status=0))
            conversation.append(ChatMessage.system("Be brief."))
            before = len(clears(user))
            await user.session.run_command("clear")
            await user.session.run_command("clear")
            conversation.append(ChatMessage.system("Be kind."))
            await user.session.run_command("clear")
            assert len(clears(user)) == before + 1

    with scripted_model(home, "First."):
        run(main())


def test_a_context_with_a_system_message_after_a_redacted_prompt_is_cleared(
    project: Path, home: Path
) -> None:
    """The clear removes the system message, which the redaction must not send again."""

    async def main() -> None:
        async with open_user_session(project) as user:
            await user.send("One?")
            await user.session.run_command("clear")
            state = user.session.state
            prompt = state.conversation.append(ChatMessage.user("A secret."))
            state.conversation.append(ChatMessage.system("Be brief."))
            state.store.redact(state.conversation.id, prompt.id, actor="ada", reason="private")
            session = user.session.status.session
        async with open_user_session(project, resume=session) as user:
            for _ in range(2):
                await user.session.run_command("clear")
            assert len(clears(user)) == 2
            texts = [message.text for message in user.session.state.conversation.messages()]
            assert "Be brief." not in texts

    with scripted_model(home, "First."):
        run(main())


def test_the_context_is_not_cleared_during_a_run(project: Path, home: Path) -> None:
    gate = threading.Event()

    async def main() -> None:
        async with open_user_session(project) as user:
            await user.session.send(PromptInput("One?"))
            with pytest.raises(StenoError) as caught:
                await user.session.run_command("clear")
            assert (caught.value.code, caught.value.place) == ("agent_busy", "/clear")
            gate.set()
            await user.end()
            assert clears(user) == []

    with scripted_model(home, [gate, "First."]):
        run(main())


def test_a_cleared_prompt_is_not_retried(project: Path, home: Path) -> None:
    async def main() -> None:
        async with open_user_session(project) as user:
            await user.send("One?")
            ended = await user.send("Look at @missing.txt.")
            assert ended.result.error is not None
            await user.session.run_command("clear")
            assert not user.session.has_unanswered_prompt
            with pytest.raises(StenoError) as caught:
                await user.session.run_command("retry")
            assert caught.value.code == "nothing_to_retry"

    with scripted_model(home, "First."):
        run(main())
