"""Permission for one file never applies to another, even if links are swapped during the call."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from steno import ToolCall
from steno.agent import Agent
from steno.errors import ToolFailed
from steno.log.conversation import Conversation
from steno.ports import Subject, Tool, ToolOutput
from steno.testing import ScriptedProvider
from steno.tools.edit import EditTool
from steno.tools.read import ReadTool
from steno.tools.search_tools import GlobTool, GrepTool
from steno.tools.workspace import Workspace
from steno.tools.write import WriteTool
from tests.agent.agent_setup import gate_allowing, results_of, turn_with_calls
from tests.raised_errors import raises_code
from tests.tools.command_setup import text_of
from tests.tools.fake_tool_context import FakeToolContext
from tests.tools.search_engines import ENGINES, MakeEngine, without_note, write_files

TRIES = 600
LIMIT_S = 60.0
both = pytest.mark.parametrize("make", ENGINES.values(), ids=ENGINES)


def run(tool: Tool, decided: str, **arguments: Any) -> ToolOutput:
    """Run a call whose subjects were approved earlier."""
    call = ToolCall.create(tool.definition.name, arguments)
    subject = Subject(text=decided, capability=tool.capability)
    return asyncio.run(
        asyncio.wait_for(tool.run(call, FakeToolContext(subjects=(subject,))), LIMIT_S)
    )


def names_in(folder: Path) -> list[str]:
    return sorted([path.name for path in folder.iterdir()])


@contextmanager
def flipping(link: Path, targets: tuple[str, str]) -> Generator[None, None, None]:
    """Switch a link between two targets as fast as possible."""
    done = threading.Event()

    def flip() -> None:
        spare = link.with_name("spare")
        while not done.is_set():
            for target in targets:
                spare.symlink_to(target)
                spare.replace(link)

    link.symlink_to(targets[0])
    thread = threading.Thread(target=flip)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join(60)


@pytest.mark.requirement("S4-14")
def test_a_link_that_moves_all_the_time_leads_nowhere_that_is_not_allowed(
    folder: Path, workspace: Workspace
) -> None:
    write_files(folder, {"ok/": "", "secret/": ""})
    conversation = Conversation()
    calls = [
        ToolCall.create("write", {"path": f"out/{number}", "content": "x"}, id=f"c{number}")
        for number in range(TRIES)
    ]
    agent = Agent(
        ScriptedProvider([turn_with_calls(*calls), "Done."]),
        conversation,
        tools=[WriteTool(workspace)],
        gate=gate_allowing("write(ok/**)"),
    )
    with flipping(folder / "out", ("ok", "secret")):
        asyncio.run(asyncio.wait_for(agent.run("Go."), LIMIT_S))
    assert len(results_of(conversation)) == TRIES
    assert names_in(folder / "secret") == []


def test_a_call_applies_to_the_approved_file(folder: Path, workspace: Workspace) -> None:
    write_files(folder, {"ok/f": "fine\n", "secret/f": "SECRET\n"})
    (folder / "out").symlink_to("secret")  # the link led to ok when the call was approved
    assert "fine" in text_of(run(ReadTool(workspace), "ok/f", path="out/f"))
    run(EditTool(workspace), "ok/f", path="out/f", old="fine", new="good")
    run(WriteTool(workspace), "ok/new", path="out/new", content="x")
    assert (folder / "ok" / "f").read_text() == "good\n"
    assert names_in(folder / "ok") == ["f", "new"]
    assert names_in(folder / "secret") == ["f"]


@pytest.mark.parametrize("is_new", [True, False])
def test_a_link_in_the_place_of_what_was_decided_about_is_not_followed(
    folder: Path, workspace: Workspace, *, is_new: bool
) -> None:
    write_files(folder, {"secret/f": "SECRET\n", "real": "SECRET\n"})
    workspace.mark_as_read("secret/f", b"SECRET\n")
    (folder / "ok").symlink_to("secret")
    (folder / "file").symlink_to("real")
    name = "ok/new" if is_new else "ok/f"
    with raises_code(ToolFailed, "changed_since_allowed", place=f"'{name}'"):
        run(WriteTool(workspace), name, path=name, content="x")
    for decided in ("ok/f", "file"):
        with raises_code(ToolFailed, "changed_since_allowed"):
            run(ReadTool(workspace), decided, path=decided)
        with raises_code(ToolFailed, "changed_since_allowed"):
            run(EditTool(workspace), decided, path=decided, old="SECRET", new="x")
    assert (folder / "secret" / "f").read_text() == "SECRET\n"
    assert names_in(folder / "secret") == ["f"]


@both
def test_a_search_stays_where_it_was_allowed(
    make: MakeEngine, folder: Path, workspace: Workspace
) -> None:
    write_files(folder, {"ok/f": "KEY\n", "secret/g": "KEY\n"})
    (folder / "out").symlink_to("secret")
    engine = make(workspace)
    grep, glob = GrepTool(workspace, engine=engine), GlobTool(workspace, engine=engine)
    assert without_note(text_of(run(grep, "ok", pattern="KEY", path="out"))) == "ok/f\n1:KEY\n"
    assert text_of(run(glob, "ok", pattern="*", path="out")) == "ok/f\n"
    (folder / "gone").symlink_to("secret")
    for tool in (grep, glob):
        with raises_code(ToolFailed, "changed_since_allowed", place="'gone'"):
            run(tool, "gone", pattern="KEY", path="gone")


def test_only_names_as_they_are_spelled_are_strict(folder: Path, workspace: Workspace) -> None:
    write_files(folder, {"a/f": "one"})
    (folder / "link").symlink_to("a")
    strict = workspace.strict
    assert strict.read_file("a/f") == b"one"
    for path in ("link/f", "./a/f", "a//f", str(folder / "a/f"), "a/../a/f"):
        assert workspace.read_file(path) == b"one"
        with raises_code(ToolFailed, "changed_since_allowed"):
            strict.read_file(path)
    strict.mark_as_read("a/f", b"one")
    workspace.check_unchanged_since_read("link/f", b"one")
