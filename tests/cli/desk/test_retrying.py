"""`/retry` at the desk says again what could not be sent, as it was said the first time."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from steno.agent import EndReason
from steno.app.input_setup import McpOptions
from steno.app.session import InputReturned, PromptInput, ShellEnded
from steno.errors import Unresolved
from steno.records.entry import Mode
from tests.cli.desk.seated import Person, run, seated
from tests.cli.headless import make_project, speaking
from tests.cli.pointing import SEEING, check_sound, trusting, write_servers
from tests.inputs.images.making import encoded, graphic
from tests.inputs.mcp.real_servers import everything_spec

pytestmark = pytest.mark.requirement("S4-15", "S2-28")


def test_a_prompt_of_a_server_is_on_record_with_its_command_when_it_is_tried_again(
    tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = make_project(tmp_path, monkeypatch)
    write_servers(project / ".mcp.json", everything_spec())
    image = project / "shapes.png"
    image.write_bytes(b"no image at all")
    words = PromptInput("/everything:args-prompt city=Paris", ("shapes.png",))

    async def main() -> None:
        async with seated(project, outside=McpOptions()) as person:
            ended = await person.say(words.text, *words.images)
            assert isinstance(ended.result.error, Unresolved)
            await person.desk.run_command("retry")
            await person.end(1)
            assert person.told(InputReturned) == [InputReturned((words,)), InputReturned((words,))]
            image.write_bytes(encoded(graphic()))
            await person.desk.run_command("retry")
            await person.end(2)
            [said] = [one for one in person.desk.entries() if "origin" in (one.audit or {})]
            assert (said.audit or {})["origin"] == words.text
            assert "Paris" in person.said[0]
            assert person.desk.branches.fork_before(said.id) == words

    with speaking(home, "Rain.", settings=f"{trusting(project)}{SEEING}"):
        run(main())
    check_sound()


async def change_mode(person: Person) -> None:
    person.desk.change_mode(Mode.PLAN)


async def label(person: Person) -> None:
    person.desk.branches.label(person.desk.entries()[0].id, "start")


async def run_command(person: Person) -> None:
    await person.desk.run_shell("echo here")
    await person.until(lambda: person.told(ShellEnded))


@pytest.mark.parametrize("happen", [change_mode, label, run_command])
def test_what_could_not_be_sent_is_said_again_whatever_was_set_or_run_since(
    tmp_path: Path,
    home: Path,
    monkeypatch: pytest.MonkeyPatch,
    happen: Callable[[Person], Awaitable[None]],
) -> None:
    monkeypatch.setenv("SHELL", "/bin/sh")
    project = make_project(tmp_path, monkeypatch)

    async def main() -> None:
        async with seated(project) as person:
            ended = await person.say("Explain @late.py")
            assert isinstance(ended.result.error, Unresolved)
            await happen(person)
            assert person.desk.is_unfinished
            (project / "late.py").write_text("late = True\n", encoding="utf-8")
            await person.desk.run_command("retry")
            ended = await person.end(1)
            assert ended.result.ending is EndReason.DONE
            assert person.said[-2:] == ["Explain @late.py", "I see."]

    with speaking(home, "I see."):
        run(main())
    check_sound()
