"""Rules that deny reading apply to searches, and rules that deny writing apply to edits."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from steno import JsonObject, ToolCall
from steno.agent import Agent, Gate, Permissions
from steno.log.conversation import Conversation
from steno.messages.message import ToolResultMessage
from steno.messages.outcome import Outcome
from steno.ports import Tool
from steno.testing import ScriptedProvider
from steno.tools.edit import EditTool
from steno.tools.read import ReadTool
from steno.tools.search_tools import GlobTool, GrepTool
from steno.tools.workspace import Workspace
from steno.tools.write import WriteTool
from tests.agent.agent_setup import results_of, turn_with_calls
from tests.tools.search_engines import ENGINES, MakeEngine, without_note, write_files

both = pytest.mark.parametrize("make", ENGINES.values(), ids=ENGINES)
LIMIT_S = 60.0


def results(
    workspace: Workspace,
    make: MakeEngine,
    calls: Sequence[tuple[str, dict[str, Any]]],
    *,
    deny: Sequence[str],
    allow: Sequence[str] = (),
) -> list[ToolResultMessage]:
    """Return the results of calls that a model makes one after the other, under rules."""
    engine = make(workspace)
    tools: list[Tool] = [
        ReadTool(workspace),
        WriteTool(workspace),
        EditTool(workspace),
        GlobTool(workspace, engine=engine),
        GrepTool(workspace, engine=engine),
    ]
    conversation = Conversation()
    turns = [
        turn_with_calls(ToolCall.create(name, arguments, id=f"c{number}"))
        for number, (name, arguments) in enumerate(calls)
    ]
    gate = Gate(Permissions.of(allow=allow, deny=deny))
    agent = Agent(ScriptedProvider([*turns, "Done."]), conversation, tools=tools, gate=gate)
    asyncio.run(asyncio.wait_for(agent.run("Go."), LIMIT_S))
    return results_of(conversation)


def result(
    workspace: Workspace, make: MakeEngine, tool: str, *, deny: Sequence[str], **arguments: Any
) -> ToolResultMessage:
    (only,) = results(workspace, make, [(tool, arguments)], deny=deny)
    return only


# -- searching -------------------------------------------------------------------------------


@both
@pytest.mark.requirement("S4-14")
@pytest.mark.parametrize(("tool", "pattern"), [("grep", "KEY"), ("glob", "*")])
@pytest.mark.parametrize("path", [".env", "link", "./sub/../.env"])
def test_a_file_that_may_not_be_read_may_not_be_searched(
    make: MakeEngine, folder: Path, workspace: Workspace, *, tool: str, pattern: str, path: str
) -> None:
    write_files(folder, {".env": "KEY=1\n", "sub/": ""})
    (folder / "link").symlink_to(".env")
    found = result(workspace, make, tool, deny=["read(.env)"], pattern=pattern, path=path)
    assert found.outcome is Outcome.DENIED
    assert "the rule read(.env) denies this call" in found.text


@both
@pytest.mark.requirement("S4-14")
def test_files_that_may_not_be_read_are_left_out_of_a_search(
    make: MakeEngine, folder: Path, workspace: Workspace
) -> None:
    write_files(
        folder, {".env": "KEY=1\n", "a.py": "KEY = 2\n", "keys/b.py": "KEY = 3\n", "c": "KEY"}
    )
    deny = ["read(.env)", "read(keys/**)"]
    found = result(workspace, make, "grep", deny=deny, pattern="KEY", glob="{.env,*.py}")
    assert without_note(found.text) == "a.py\n1:KEY = 2\n[2 files left out by a permission rule]\n"
    assert JsonObject(found.details)["left_out"] == 2
    found = result(workspace, make, "grep", deny=deny, pattern="= 3")
    assert without_note(found.text) == "no matches\n[1 file left out by a permission rule]"
    found = result(workspace, make, "glob", deny=deny, pattern="{.env,*.py}")
    assert without_note(found.text) == "a.py\n[2 files left out by a permission rule]\n"
    found = result(workspace, make, "glob", deny=deny, pattern=".env")
    assert without_note(found.text) == "no files\n[1 file left out by a permission rule]"


@both
def test_the_count_of_left_out_files_does_not_depend_on_their_content(
    make: MakeEngine, folder: Path, workspace: Workspace
) -> None:
    write_files(folder, {"secret": "KEY=1\n", "a": "a\n"})
    texts = {
        without_note(result(workspace, make, "grep", deny=["read(secret)"], pattern=pattern).text)
        for pattern in ("KEY=1", "KEY=2", "KEY")
    }
    assert texts == {"no matches\n[1 file left out by a permission rule]"}


@both
def test_a_rule_for_the_search_alone_leaves_files_out_too(
    make: MakeEngine, folder: Path, workspace: Workspace
) -> None:
    write_files(folder, {"a": "KEY\n", "b": "KEY\n"})
    deny = ["grep(b)"]
    assert without_note(result(workspace, make, "grep", deny=deny, pattern="KEY").text) == (
        "a\n1:KEY\n[1 file left out by a permission rule]\n"
    )
    assert result(workspace, make, "glob", deny=deny, pattern="*").text == "a\nb\n"
    assert result(workspace, make, "read", deny=deny, path="b").outcome is Outcome.OK


@both
def test_a_file_goes_by_one_name_whichever_folder_is_searched(
    make: MakeEngine, tmp_path: Path
) -> None:
    """One folder of a workspace may be inside another."""
    write_files(tmp_path, {"inner/.env": "KEY\n", "inner/a": "KEY\n", "b": "KEY\n"})
    workspace = Workspace([tmp_path / "inner", tmp_path])
    found = result(
        workspace, make, "grep", deny=["read(.env)"], pattern="KEY", path="..", glob="{.env,a,b}"
    )
    assert (
        without_note(found.text)
        == f"{tmp_path}/b\n1:KEY\n\na\n1:KEY\n[1 file left out by a permission rule]\n"
    )


@both
@pytest.mark.parametrize(("tool", "pattern"), [("grep", "KEY"), ("glob", "*")])
def test_without_read_permission_no_search_is_allowed(
    make: MakeEngine, workspace: Workspace, *, tool: str, pattern: str
) -> None:
    found = result(workspace, make, tool, deny=["read"], pattern=pattern)
    assert found.outcome is Outcome.DENIED


@both
def test_many_files_are_searched_in_portions_and_in_order(
    make: MakeEngine, folder: Path, workspace: Workspace
) -> None:
    """Their names would not fit on one command line."""
    names = [f"{'long-' * 40}{number:04}" for number in range(1500)]
    write_files(
        folder, {name: "KEY\n" if number % 100 == 7 else "\n" for number, name in enumerate(names)}
    )
    found = result(
        workspace, make, "grep", deny=[f"read({names[107]})"], pattern="KEY", mode="files"
    )
    expected = [name for name in names[7::100] if name != names[107]]
    assert without_note(found.text).splitlines() == [
        *expected,
        "[1 file left out by a permission rule]",
    ]


# -- changing --------------------------------------------------------------------------------


@pytest.mark.requirement("S4-14")
def test_a_file_that_may_not_be_written_may_not_be_edited(
    folder: Path, workspace: Workspace
) -> None:
    write_files(folder, {"cart.py": "a = 1\n", "other.py": "a = 1\n"})
    edit = {"old": "1", "new": "2"}
    calls = [
        ("read", {"path": "cart.py"}),
        ("edit", {"path": "cart.py", **edit}),
        ("read", {"path": "other.py"}),
        ("edit", {"path": "other.py", **edit}),
    ]
    found = results(
        workspace, ENGINES["python"], calls, deny=["write(cart.py)"], allow=["edit", "write"]
    )
    assert [one.outcome for one in found] == [*[Outcome.OK, Outcome.DENIED], *[Outcome.OK] * 2]
    assert (folder / "cart.py").read_text() == "a = 1\n"
    assert (folder / "other.py").read_text() == "a = 2\n"
