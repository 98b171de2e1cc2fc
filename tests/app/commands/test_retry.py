"""`/retry` sends an unsent prompt again, as it was written."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from steno.agent import EndReason, PromptInput
from steno.agent.session_events import InputReturned, ShellEnded
from steno.app.mcp import McpOptions
from steno.errors import Unresolved
from steno.records.entry import Mode
from tests.app.project_setup import make_project, scripted_model
from tests.app.session_setup import SessionUser, open_user_session, run
from tests.cli.reference_setup import WITH_VISION, check_last_log, trust_settings, write_servers
from tests.inputs.images.image_samples import encode_image, red_image
from tests.inputs.mcp.real_servers import everything_spec

pytestmark = pytest.mark.requirement("S4-15", "S2-28")


def test_a_prompt_of_a_server_is_on_record_with_its_command_when_it_is_tried_again(
    tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = make_project(tmp_path, monkeypatch)
    write_servers(project / ".mcp.json", everything_spec())
    image = project / "shapes.png"
    image.write_bytes(b"no image at all")
    prompt = PromptInput("/everything:args-prompt city=Paris", ("shapes.png",))

    async def main() -> None:
        async with open_user_session(project, outside=McpOptions()) as user:
            ended = await user.send(prompt.text, *prompt.images)
            assert isinstance(ended.result.error, Unresolved)
            await user.session.run_command("retry")
            await user.end(1)
            assert user.events_of(InputReturned) == [
                InputReturned((prompt,)),
                InputReturned((prompt,)),
            ]
            image.write_bytes(encode_image(red_image()))
            await user.session.run_command("retry")
            await user.end(2)
            [entry] = [one for one in user.session.entries() if "origin" in (one.audit or {})]
            assert (entry.audit or {})["origin"] == prompt.text
            assert "Paris" in user.texts[0]
            assert user.session.branches.fork_before(entry.id) == prompt

    with scripted_model(home, "Rain.", settings=f"{trust_settings(project)}{WITH_VISION}"):
        run(main())
    check_last_log()


async def change_mode(user: SessionUser) -> None:
    user.session.change_mode(Mode.PLAN)


async def label(user: SessionUser) -> None:
    user.session.branches.label(user.session.entries()[0].id, "start")


async def run_command(user: SessionUser) -> None:
    await user.session.run_shell("echo here")
    await user.until(lambda: user.events_of(ShellEnded))


@pytest.mark.parametrize("happen", [change_mode, label, run_command])
def test_an_unsent_prompt_is_retried_whatever_was_set_or_run_since(
    tmp_path: Path,
    home: Path,
    monkeypatch: pytest.MonkeyPatch,
    happen: Callable[[SessionUser], Awaitable[None]],
) -> None:
    monkeypatch.setenv("SHELL", "/bin/sh")
    project = make_project(tmp_path, monkeypatch)

    async def main() -> None:
        async with open_user_session(project) as user:
            ended = await user.send("Explain @late.py")
            assert isinstance(ended.result.error, Unresolved)
            await happen(user)
            assert user.session.is_unfinished
            (project / "late.py").write_text("late = True\n", encoding="utf-8")
            await user.session.run_command("retry")
            ended = await user.end(1)
            assert ended.result.end_reason is EndReason.DONE
            assert user.texts[-2:] == ["Explain @late.py", "I see."]

    with scripted_model(home, "I see."):
        run(main())
    check_last_log()
