"""`/retry` at the desk says again what could not be sent, as it was said the first time."""

from __future__ import annotations

from pathlib import Path

import pytest

from steno.cli.opening import Outside
from steno.errors import Unresolved
from steno.tui.desk import Returned, Words
from tests.cli.desk.seated import run, seated
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
    words = Words("/everything:args-prompt city=Paris", ("shapes.png",))

    async def main() -> None:
        async with seated(project, outside=Outside()) as person:
            ended = await person.say(words.text, *words.images)
            assert isinstance(ended.result.error, Unresolved)
            await person.desk.command("retry")
            await person.end(1)
            assert person.told(Returned) == [Returned((words,)), Returned((words,))]
            image.write_bytes(encoded(graphic()))
            await person.desk.command("retry")
            await person.end(2)
            [said] = [one for one in person.desk.entries() if "origin" in (one.audit or {})]
            assert (said.audit or {})["origin"] == words.text
            assert "Paris" in person.said[0]
            assert person.desk.branches.fork_before(said.id) == words

    with speaking(home, "Rain.", settings=f"{trusting(project)}{SEEING}"):
        run(main())
    check_sound()
