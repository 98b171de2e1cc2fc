"""What was found once, later on: too old and read again, changed since, or summed up and forgotten."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from steno.agent import EndReason, SteeringPolicy
from steno.errors import ServerFailed
from steno.records.entry import Compaction
from steno.tools.edit import EditTool
from steno.tools.read import ReadTool
from steno.tools.workspace import Workspace
from steno.tools.write import WriteTool
from tests.agent.agent_setup import (
    AgentHarness,
    call,
    gate_allowing,
    read_tool,
    run,
    turn_with_calls,
)
from tests.agent.reference_doubles import (
    NOTES,
    FakeResources,
    ScriptedResolver,
    agent_in,
    details,
    file_reference,
    image_file,
    notices,
    prompt_with,
    statuses,
    text_in_message,
)
from tests.inputs.images.image_samples import encode_image, red_image
from tests.inputs.mcp.resource_doubles import ManualClock, ResourceServer, text_resource

HOUR_S = 3_600


# -- too old -------------------------------------------------------------------------------------


def on_shelves(
    turns: list[Any], *tools: Any, ttl_s: float = HOUR_S, **settings: Any
) -> tuple[AgentHarness, ResourceServer, ManualClock]:
    library, clock = (
        ResourceServer(holds={NOTES.uri: text_resource("first edition")}),
        ManualClock(),
    )
    resolver = FakeResources(library, clock, ttl_s=ttl_s)
    return AgentHarness(turns, *tools, resolver=resolver, **settings), library, clock


@pytest.mark.requirement("S2-32")
def test_a_message_keeps_the_resource_that_was_read_for_it() -> None:
    harness, library, clock = on_shelves(["One.", "Two.", "Three."])
    run(harness.run(prompt_with("Look.", NOTES)))
    library.holds[NOTES.uri] = text_resource("second edition")
    library.failure = ServerFailed("mcp lib: it is gone")
    clock.turn(HOUR_S)
    assert run(harness.run("And now?")).end_reason is EndReason.DONE
    assert library.reads == [NOTES.uri]
    library.failure = None
    run(harness.run(prompt_with("Look again.", NOTES)))
    assert library.reads == [NOTES.uri, NOTES.uri]
    last = harness.provider.requests[-1]
    assert "first edition" in text_in_message(last, 1)
    assert "second edition" in text_in_message(last, -1)
    assert len(statuses(harness)) == 2
    harness.check()


@pytest.mark.requirement("S2-32")
def test_a_resource_that_is_pointed_at_twice_is_read_once_while_it_is_fresh() -> None:
    harness, library, _ = on_shelves(["One.", "Two."])
    run(harness.run(prompt_with("Look.", NOTES)))
    run(harness.run(prompt_with("Look again.", NOTES)))
    assert library.reads == [NOTES.uri]
    assert [found["from_cache"] for found in details(harness)] == [False, True]


@pytest.mark.requirement("S2-32", "P-25")
@pytest.mark.parametrize("ttl_s", [0, 10])
def test_a_resource_is_read_at_most_once_in_a_run(ttl_s: float) -> None:
    """Even if it is not cached, or the run takes longer than it stays fresh."""

    def steer_later(*_: object) -> str:
        clock.turn(60)
        library.holds[NOTES.uri] = text_resource("second edition")
        harness.agent.steer(prompt_with("And this?", NOTES), SteeringPolicy.AFTER_CALLS)
        return "done"

    turns = [turn_with_calls(call("a", "read")), "One.", "Two."]
    harness, library, clock = on_shelves(turns, read_tool("read", steer_later), ttl_s=ttl_s)
    run(harness.run(prompt_with("Compare.", NOTES, NOTES)))
    assert library.reads == [NOTES.uri]
    assert [found["from_cache"] for found in details(harness)] == [False, True, True]
    assert "first edition" in text_in_message(harness.provider.requests[-1])
    run(harness.run(prompt_with("And now?", NOTES)))
    assert library.reads == [NOTES.uri, NOTES.uri]
    assert "second edition" in text_in_message(harness.provider.requests[-1])
    harness.check()


@pytest.mark.requirement("S2-32", "P-25")
def test_a_run_sees_one_state_of_a_resource_that_another_run_has_read() -> None:
    """The content becomes stale during the run, which received it from the cache."""

    def steer_later(*_: object) -> str:
        clock.turn(2)
        harness.agent.steer(prompt_with("And this?", NOTES), SteeringPolicy.AFTER_CALLS)
        return "done"

    library, clock = (
        ResourceServer(holds={NOTES.uri: text_resource("first edition")}),
        ManualClock(),
    )
    resolver = FakeResources(library, clock, ttl_s=100)
    run(AgentHarness(["One."], resolver=resolver).run(prompt_with("Look.", NOTES)))
    library.holds[NOTES.uri] = text_resource("second edition")
    clock.turn(99)
    turns = [turn_with_calls(call("a", "read")), "Two.", "Three."]
    harness = AgentHarness(turns, read_tool("read", steer_later), resolver=resolver)
    run(harness.run(prompt_with("Compare.", NOTES)))
    assert library.reads == [NOTES.uri]
    last = harness.provider.requests[-1]
    assert "first edition" in text_in_message(last)
    run(harness.run(prompt_with("And now?", NOTES)))
    assert library.reads == [NOTES.uri, NOTES.uri]
    harness.check()


@pytest.mark.requirement("S2-32", "P-25")
def test_runs_that_share_a_resolver_at_the_same_time_each_read_a_resource_once() -> None:
    library, clock = (
        ResourceServer(holds={NOTES.uri: text_resource("first edition")}),
        ManualClock(),
    )
    resolver = FakeResources(library, clock, ttl_s=0)
    inner = AgentHarness(["Two."], resolver=resolver)

    async def run_inner(*_: object) -> str:
        library.holds[NOTES.uri] = text_resource("second edition")
        await inner.run(prompt_with("Look.", NOTES))
        outer.agent.steer(prompt_with("And this?", NOTES), SteeringPolicy.AFTER_CALLS)
        return "done"

    turns = [turn_with_calls(call("a", "read")), "One."]
    outer = AgentHarness(turns, read_tool("read", run_inner), resolver=resolver)
    run(outer.run(prompt_with("Compare.", NOTES, NOTES)))
    assert library.reads == [NOTES.uri, NOTES.uri]
    assert "first edition" in text_in_message(outer.provider.requests[-1])
    assert "second edition" in text_in_message(inner.provider.requests[-1])
    outer.check()


def test_each_run_has_a_cache_for_resolvers_of_its_own() -> None:
    def steer_later(*_: object) -> str:
        harness.agent.steer(prompt_with("And this?", NOTES), SteeringPolicy.AFTER_CALLS)
        return "done"

    resolver = ScriptedResolver()
    turns = [turn_with_calls(call("a", "read")), "One.", "Two."]
    harness = AgentHarness(turns, read_tool("read", steer_later), resolver=resolver)
    run(harness.run(prompt_with("Look.", NOTES)))
    run(harness.run(prompt_with("And now?", NOTES)))
    first, steered, second = [context.run_cache for _, context in resolver.asked]
    assert first is not None
    assert second is not None
    assert first is steered
    assert first is not second


@pytest.mark.requirement("S2-32", "P-25")
def test_messages_keep_their_resources_over_turns_and_after_a_resume() -> None:
    harness, library, clock = on_shelves(["One.", "Two.", "Three."], ttl_s=0)
    for edition in ("first", "second", "third"):
        library.holds[NOTES.uri] = text_resource(f"{edition} edition")
        run(harness.run(prompt_with("Look.", NOTES)))
    library.failure = ServerFailed("mcp lib: it is gone")
    clock.turn(HOUR_S)
    resumed = AgentHarness(
        ["Four."],
        store=harness.store,
        conversation=harness.store.open(harness.conversation.id),
        resolver=FakeResources(library, clock, ttl_s=0),
    )
    assert run(resumed.run("And now?")).end_reason is EndReason.DONE
    assert library.reads == [NOTES.uri] * 3
    [request] = resumed.provider.requests
    editions = [text_in_message(request, position) for position in (1, 3, 5)]
    assert ["first" in editions[0], "second" in editions[1], "third" in editions[2]] == [True] * 3
    resumed.check()


def test_summarized_references_are_not_checked_again() -> None:
    harness, library, clock = on_shelves(["One.", "Two."])
    run(harness.run(prompt_with("Look.", NOTES)))
    last = harness.conversation.entries()[-1]
    harness.conversation.append(Compaction(through=last.id, summary="Notes were looked at."))
    clock.turn(HOUR_S)
    run(harness.run("And now?"))
    assert library.reads == [NOTES.uri]


# -- changed since -------------------------------------------------------------------------------


def subjects(harness: AgentHarness) -> list[str]:
    """Return the file that each notice is about."""
    return [notice.split()[0] for notice in notices(harness)]


@pytest.mark.parametrize("path", ["a.py", "."])
def test_the_next_run_reports_changed_references(tmp_path: Path, path: str) -> None:
    (tmp_path / "a.py").write_text("a = 1\n")
    harness = agent_in(tmp_path, ["One.", "Two."])
    run(harness.run(prompt_with("Look.", file_reference(path))))
    assert notices(harness) == []
    if path == ".":
        (tmp_path / "new.py").write_text("new = True\n")
    else:
        (tmp_path / "a.py").write_text("a = 2\n")
    run(harness.run("And now?"))
    assert subjects(harness) == [path]
    assert len(statuses(harness)) == 1  # it is not shown anew by itself


def test_changed_files_of_a_pattern_are_reported_by_name(tmp_path: Path) -> None:
    for name in ("a.py", "b.py"):
        (tmp_path / name).write_text("x = 1\n")
    harness = agent_in(tmp_path, ["One.", "Two."])
    run(harness.run(prompt_with("Look.", file_reference("*.py"))))
    (tmp_path / "b.py").write_text("x = 2\n")
    (tmp_path / "c.py").write_text("x = 3\n")
    run(harness.run("And now?"))
    assert subjects(harness) == ["b.py", "c.py"]
    assert "new" in notices(harness)[1]


def test_a_deleted_file_or_image_is_reported(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("a = 1\n")
    (tmp_path / "plan.png").write_bytes(encode_image(red_image()))
    harness = agent_in(tmp_path, ["One.", "Two."])
    run(harness.run(prompt_with("Look.", file_reference("a.py"), image_file())))
    (tmp_path / "a.py").unlink()
    (tmp_path / "plan.png").unlink()
    run(harness.run("And now?"))
    assert subjects(harness) == ["a.py", "plan.png"]
    assert all("gone" in notice for notice in notices(harness))


def test_a_repeated_reference_is_compared_with_its_last_content(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("a = 1\n")
    harness = agent_in(tmp_path, ["One.", "Two.", "Three.", "Four."])
    run(harness.run(prompt_with("Look.", file_reference("a.py"))))
    (tmp_path / "a.py").write_text("a = 2\n")
    run(harness.run(prompt_with("Look again.", file_reference("a.py"))))
    before = len(notices(harness))
    run(harness.run("And now?"))
    assert len(notices(harness)) == before
    (tmp_path / "a.py").unlink()
    run(harness.run("And now?"))
    assert subjects(harness)[before:] == ["a.py"]
    assert "gone" in notices(harness)[-1]


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("edit", {"path": "a.py", "old": "a = 1", "new": "a = 2"}),
        ("write", {"path": "a.py", "content": "a = 2\n"}),
    ],
)
@pytest.mark.parametrize("pointer", ["a.py", "*.py", "."])
def test_changes_by_the_model_itself_are_not_reported(
    tmp_path: Path, tool: str, arguments: dict[str, Any], pointer: str
) -> None:
    (tmp_path / "a.py").write_text("a = 1\n")
    workspace = Workspace(tmp_path)  # one for both: a referenced file counts as read
    turns = [turn_with_calls(call("c1", tool, **arguments)), "Done.", "Two."]
    tools = (EditTool(workspace), WriteTool(workspace))
    harness = agent_in(workspace, turns, *tools, gate=gate_allowing("edit", "write"))
    run(harness.run(prompt_with("Change it.", file_reference("a.py"), file_reference(pointer))))
    assert (tmp_path / "a.py").read_text() == "a = 2\n"
    run(harness.run("And now?"))
    assert notices(harness) == []


def test_a_tool_that_failed_has_shown_the_model_nothing(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("a = 1\n")
    turns = [turn_with_calls(call("c1", "read", path="a.py", offset=9)), "One.", "Two."]
    harness = agent_in(tmp_path, turns, ReadTool(Workspace(tmp_path)))
    run(harness.run(prompt_with("Look.", file_reference("a.py"))))
    (tmp_path / "a.py").write_text("a = 2\n")
    run(harness.run("And now?"))
    assert harness.result.is_error
    assert subjects(harness) == ["a.py"]


def test_changes_that_the_model_has_read_are_not_reported(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("a = 1\n")
    turns = ["One.", turn_with_calls(call("c1", "read", path="a.py")), "Two.", "Three."]
    harness = agent_in(tmp_path, turns, ReadTool(Workspace(tmp_path)))
    run(harness.run(prompt_with("Look.", file_reference("a.py"))))
    (tmp_path / "a.py").write_text("a = 2\n")
    run(harness.run("Read it again."))
    assert subjects(harness) == ["a.py"]
    run(harness.run("And now?"))
    assert len(notices(harness)) == 1
