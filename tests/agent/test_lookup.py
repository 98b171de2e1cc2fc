"""What a prompt points at is opened before the model is asked; if that fails, nothing is sent."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from steno import Conversation, UserMessage
from steno.agent import EndReason, SteeringPolicy
from steno.errors import Unresolved
from steno.messages.content import FileReference, Resource
from steno.messages.request import Request
from steno.records.entry import Resolution, ResolutionStatus, Rewind
from steno.store import MemoryStore
from steno.wire import WIRES, load_wire
from tests.agent.pointing_doubles import (
    NOTES,
    Shelves,
    desk_in,
    details,
    file,
    kinds,
    notices,
    payloads,
    picture,
    saying,
    shown,
    statuses,
    unsent,
    written,
)
from tests.agent.working import Desk, call, calling, reader, run
from tests.inputs.images.making import encoded, graphic
from tests.inputs.mcp.resources.library import Clock, Library, text

RESOLVED, FAILED = ResolutionStatus.RESOLVED, ResolutionStatus.FAILED


# -- what the model is asked ---------------------------------------------------------------------


@pytest.mark.requirement("S2-11")
@pytest.mark.parametrize("is_absolute", [False, True])
def test_a_file_is_on_record_before_the_model_is_asked_and_shown_to_it(
    tmp_path: Path, is_absolute: bool
) -> None:
    (tmp_path / "a.py").write_text("one = 1\ntwo = 2\n")
    seen: list[list[str]] = []

    def answer(_: Request) -> str:
        seen.append(written(desk))
        return "I see."

    desk = desk_in(tmp_path, [answer])
    path = str(tmp_path / "a.py") if is_absolute else "a.py"
    prompt = saying("Explain.", file(path, 2))
    result = run(desk.run(prompt))
    assert (result.ending, result.text) == (EndReason.DONE, "I see.")
    assert seen == [["SystemMessage", "UserMessage", "Resolution resolved"]]
    assert prompt in desk.conversation.messages()  # as it was typed
    (request,) = desk.provider.requests
    assert "two = 2" in shown(request)
    assert "one = 1" not in shown(request)
    assert not any(isinstance(block, FileReference) for block in request.messages[-1].content)
    desk.check()


@pytest.mark.requirement("S2-30")
def test_a_resource_of_a_server_is_put_on_the_active_branch_and_shown() -> None:
    library = Library(holds={NOTES.uri: text("Ship on Friday.")})
    desk = Desk(["Noted."], resolver=Shelves(library, Clock()))
    desk.conversation.fork("side")
    desk.conversation.switch("side")
    run(desk.run(saying("When?", NOTES)))
    assert library.reads == [NOTES.uri]
    assert kinds(desk.conversation.entries("side"))[-3:] == [
        *("UserMessage", "Resolution resolved", "AssistantMessage")
    ]
    assert kinds(desk.conversation.entries("main")) == ["SystemMessage"]
    assert "Ship on Friday." in shown(desk.provider.requests[0])
    (found,) = details(desk)
    assert (found["server"], found["uri"]) == ("lib", NOTES.uri)
    assert found["retrieved_at"].startswith("2026-05-06T12:00")


@pytest.mark.requirement("S2-29")
@pytest.mark.parametrize("wire", WIRES)
def test_how_something_was_found_stays_at_home_on_every_wire(tmp_path: Path, wire: str) -> None:
    (tmp_path / "a.py").write_text("answer = 42\n")
    (tmp_path / "plan.png").write_bytes(encoded(graphic()))
    desk = desk_in(tmp_path, ["I see."])
    prompt = saying("Look.", file(str(tmp_path / "a.py")), picture(str(tmp_path / "plan.png")))
    run(desk.run(prompt))
    sent = load_wire(wire).encode_request(desk.provider.requests[0], stream=True).body
    assert b"answer = 42" in sent
    assert str(tmp_path).encode() not in sent
    first, second = details(desk)
    for secret in (first["sha256"], second["sha256"], first["allowed_by"], "duration_s"):
        assert secret.encode() not in sent


def test_everything_that_a_prompt_points_at_is_opened_in_its_order(tmp_path: Path) -> None:
    for name in "abc":
        (tmp_path / name).write_text(f"this is {name}\n")
    desk = desk_in(tmp_path, ["I see."])
    run(desk.run(saying("Compare.", file("c"), file("a"), file("b"))))
    assert [found["path"] for found in details(desk)] == ["c", "a", "b"]
    said = shown(desk.provider.requests[0])
    assert said.index("this is c") < said.index("this is a") < said.index("this is b")


def test_without_a_resolver_only_names_are_shown(tmp_path: Path) -> None:
    desk = desk_in(tmp_path, ["I see."], resolver=None)
    assert run(desk.run(saying("Look.", file("a.py")))).ending is EndReason.DONE
    assert payloads(desk, Resolution) == []


def test_a_resource_with_its_text_in_the_message_is_shown_without_asking_a_server() -> None:
    library = Library()
    desk = Desk(["I see."], resolver=Shelves(library, Clock()))
    run(desk.run(saying("Look.", Resource(server="lib", uri="lib://x", text="in the message"))))
    assert library.reads == []
    assert "in the message" in shown(desk.provider.requests[0])


# -- a prompt that cannot be opened --------------------------------------------------------------


@pytest.mark.requirement("S2-11")
def test_nothing_is_sent_if_something_cannot_be_opened_and_the_branch_is_as_before(
    tmp_path: Path,
) -> None:
    desk = desk_in(tmp_path, ["Hello.", "Never."])
    run(desk.run("Hi."))
    said = desk.conversation.messages()
    prompt = saying("Explain.", file("gone.py"))
    result = run(desk.run(prompt))
    assert result.ending is EndReason.FAILED
    assert isinstance(result.error, Unresolved)
    assert result.reason.startswith("nothing was sent: ")
    assert "gone.py" in result.reason
    assert len(desk.provider.requests) == 1
    assert written(desk)[-3:] == ["UserMessage", "Resolution failed", "Rewind"]
    assert desk.conversation.messages() == said
    assert unsent(desk.conversation) == prompt
    desk.check()


@pytest.mark.requirement("S2-11", "S2-28")
def test_what_was_not_sent_can_be_said_again_once_the_file_is_there(tmp_path: Path) -> None:
    desk = desk_in(tmp_path, ["I see."])
    run(desk.run(saying("Explain.", file("late.py"))))
    (tmp_path / "late.py").write_text("late = True\n")
    prompt = unsent(desk.conversation)
    assert prompt is not None
    assert run(desk.run(prompt)).ending is EndReason.DONE
    assert "late = True" in shown(desk.provider.requests[0])
    assert [m for m in desk.conversation.messages() if isinstance(m, UserMessage)] == [prompt]
    assert statuses(desk) == [FAILED, RESOLVED]
    assert unsent(desk.conversation) is None
    desk.check()


def test_of_several_things_all_are_sent_or_none_and_all_errors_are_told(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("a = 1\n")
    desk = desk_in(tmp_path, ["Never."])
    result = run(desk.run(saying("Look.", file("no.py"), file("a.py"), file("a.py", 7))))
    assert desk.provider.requests == []
    assert statuses(desk) == [FAILED, RESOLVED, FAILED]
    assert "no.py" in result.reason
    assert "line" in result.reason
    desk.check()


def test_a_prompt_that_begins_a_conversation_is_taken_back_too(tmp_path: Path) -> None:
    store = MemoryStore()
    desk = desk_in(tmp_path, ["Hello."], store=store, conversation=store.new())
    prompt = saying("Look.", file("late.py"))
    assert isinstance(run(desk.run(prompt)).error, Unresolved)
    assert written(desk) == ["ModeChange", "UserMessage", "Resolution failed", "Rewind"]
    assert unsent(desk.conversation) == prompt
    assert run(desk.run("Hello?")).ending is EndReason.DONE
    assert [message.text for message in desk.provider.requests[0].messages] == ["Hello?"]
    desk.check()


def left_behind(folder: Path, turns: list[Any], *said: UserMessage) -> Desk:
    """Return a desk whose program ended before anything of this was opened."""
    store = MemoryStore()
    return desk_in(folder, turns, store=store, conversation=store.new(said))


def test_what_waits_for_an_answer_is_opened_without_a_prompt(tmp_path: Path) -> None:
    desk = left_behind(tmp_path, ["I see."], saying("Look.", file("late.py")))
    assert isinstance(run(desk.run(None)).error, Unresolved)
    (tmp_path / "late.py").write_text("late = True\n")
    assert run(desk.run(None)).ending is EndReason.DONE
    assert "late = True" in shown(desk.provider.requests[0])
    desk.check()


def test_without_a_prompt_what_fails_again_is_not_sent_either(tmp_path: Path) -> None:
    desk = left_behind(tmp_path, ["Never."], saying("Look.", file("gone.py")))
    for _ in range(2):
        assert isinstance(run(desk.run(None)).error, Unresolved)
    assert desk.provider.requests == []
    assert statuses(desk) == [FAILED, FAILED]
    assert payloads(desk, Rewind) == []


def test_who_says_something_else_instead_is_heard_and_the_model_knows_what_failed(
    tmp_path: Path,
) -> None:
    desk = left_behind(tmp_path, ["All right."], saying("Look.", file("gone.py")))
    run(desk.run(None))
    assert run(desk.run("Never mind.")).ending is EndReason.DONE
    assert statuses(desk) == [FAILED]
    (request,) = desk.provider.requests
    assert "gone.py" in shown(request, 0)
    assert shown(request, 1) == "Never mind."


def test_an_answer_that_a_person_went_back_behind_was_sent(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("a = 1\n")
    desk = desk_in(tmp_path, ["I see."])
    start = desk.conversation.entries()[0]
    run(desk.run(saying("Look.", file("a.py"))))
    desk.conversation.rewind(start)
    assert unsent(desk.conversation) is None


def test_what_was_only_stopped_before_a_person_went_back_did_not_fail(tmp_path: Path) -> None:
    desk = desk_in(tmp_path, [])
    start = desk.conversation.entries()[0]
    desk.conversation.append(saying("Look.", file("a.py")))
    desk.conversation.rewind(start)
    assert unsent(desk.conversation) is None


def test_a_conversation_with_nothing_in_it_has_nothing_unsent() -> None:
    assert unsent(Conversation()) is None


# -- what is said while the model works ----------------------------------------------------------


def steered(folder: Path, *said: Any) -> Desk:
    """Run a model that calls for something, and say something while that runs."""

    def interfere(*_: Any) -> str:
        for one in said:
            desk.agent.steer(one, SteeringPolicy.AFTER_CALLS)
        return "Read."

    tool = reader("look", interfere)
    desk = desk_in(folder, [calling(call("c1", "look")), "Done."], tool)
    assert run(desk.run()).ending is EndReason.DONE
    desk.check()
    return desk


def test_what_is_said_meanwhile_is_opened_before_the_next_turn(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("a = 1\n")
    desk = steered(tmp_path, saying("And this?", file("a.py")))
    assert "a = 1" in shown(desk.provider.requests[1])
    assert statuses(desk) == [RESOLVED]


def test_what_cannot_be_opened_meanwhile_is_told_to_people_and_the_model_and_work_goes_on(
    tmp_path: Path,
) -> None:
    desk = steered(tmp_path, saying("And this?", file("gone.py")), "And hurry.")
    assert statuses(desk) == [FAILED]
    (notice,) = notices(desk)
    assert "gone.py" in notice
    request = desk.provider.requests[1]
    assert "gone.py" in shown(request, -2)
    assert "no such file" in shown(request, -2)
    assert shown(request) == "And hurry."


def test_what_the_model_was_told_could_not_be_opened_is_not_unsent(tmp_path: Path) -> None:
    desk = steered(tmp_path, saying("And this?", file("gone.py")))
    entries = desk.conversation.entries()
    (at,) = [n for n, kind in enumerate(kinds(entries)) if kind == "Resolution failed"]
    desk.conversation.rewind(entries[at - 2])
    assert unsent(desk.conversation) is None
