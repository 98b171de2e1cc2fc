"""Many threads and tasks on one conversation: nothing is lost, doubled, torn or held up."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import pairwise
from threading import Barrier, Event, Thread

import pytest

from steno import ChatMessage, OutOfOrder, ToolCall, ToolResult
from steno.errors import Conflict, Missing
from steno.log.conversation import Conversation
from steno.messages.message import ToolResultMessage
from steno.records.entry import Approval, ModeChange, ModelChange
from steno.records.stored_record import MAIN_BRANCH
from tests.log.journals import Journal
from tests.log.sample_talk import TALK

stored = pytest.mark.parametrize("is_stored", [False, True])
WRITES = 150
THREADS = 8
LONGEST_S = 60


@pytest.fixture(autouse=True)
def impatient() -> Iterator[None]:
    """Let threads take turns far more often than usual."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def run(acts: Sequence[Callable[[], object]]) -> None:
    start = Barrier(len(acts))

    def begin(act: Callable[[], object]) -> None:
        start.wait(LONGEST_S)
        act()

    with ThreadPoolExecutor(len(acts)) as pool:
        for done in [pool.submit(begin, act) for act in acts]:
            done.result()


def is_in_one_piece(conversation: Conversation, branch: str) -> bool:
    entries = conversation.entries(branch)
    messages = [entry.message for entry in entries if entry.message is not None]
    return [entry.parent for entry in entries] == [None, *[entry.id for entry in entries]][
        :-1
    ] and list(conversation.messages(branch)[: len(messages)]) == messages


@pytest.mark.requirement("S1-05")
@stored
def test_many_threads_append_to_one_branch_while_others_read(is_stored: bool) -> None:
    journal = Journal() if is_stored else None
    conversation = Conversation(TALK, journal=journal)
    torn: list[int] = []

    def write(name: int) -> None:
        for number in range(WRITES):
            conversation.append(ChatMessage.user(f"{name} {number}"))

    def read() -> None:
        before = 0
        for _ in range(WRITES):
            if not is_in_one_piece(conversation, MAIN_BRANCH) or len(conversation) < before:
                torn.append(len(conversation))
            before = len(conversation)

    run([*[partial(write, name) for name in range(THREADS)], read, read])
    assert torn == []
    found = [(m.text or "").split() for m in conversation.messages()[len(TALK) :]]
    assert len(found) == THREADS * WRITES
    for name in range(THREADS):
        own = [int(number) for who, number in found if int(who) == name]
        assert own == list(range(WRITES))
    if journal is not None:
        assert journal.open().entries() == conversation.entries()
        assert journal.store.verify(journal.session).is_intact


@pytest.mark.requirement("S1-05")
@stored
def test_threads_on_several_branches_do_not_mix(is_stored: bool) -> None:
    journal = Journal() if is_stored else None
    conversation = Conversation(TALK, journal=journal)

    def write(name: str) -> None:
        conversation.fork(name, at=conversation.entries(MAIN_BRANCH)[1].id)
        for number in range(WRITES):
            conversation.append(ChatMessage.user(f"{name} {number}"), branch=name)

    names = [f"branch-{number}" for number in range(THREADS)]
    run([partial(write, name) for name in names])
    assert conversation.messages(MAIN_BRANCH) == TALK
    for name in names:
        wanted = [f"{name} {number}" for number in range(WRITES)]
        assert [message.text for message in conversation.messages(name)[2:]] == wanted
        assert is_in_one_piece(conversation, name)
    if journal is not None:
        assert journal.store.verify(journal.session).is_intact


@pytest.mark.requirement("S1-05")
@stored
def test_each_call_is_answered_once_however_many_threads_try(is_stored: bool) -> None:
    calls = [ToolCall(id=f"c{number}", name="read") for number in range(60)]
    conversation = Conversation(
        [ChatMessage.assistant(None, calls)], journal=Journal() if is_stored else None
    )
    refused: list[str] = []

    def answer() -> None:
        for call in calls:
            try:
                conversation.append(ToolResult.success(call.id, ""))
            except OutOfOrder as exc:
                refused.append(exc.code)

    run([answer] * 4)
    results = [message.tool_call_id or "" for message in conversation.messages()[1:]]
    assert sorted(results) == sorted(call.id for call in calls)
    assert len(refused) == 3 * len(calls)
    assert conversation.outstanding == ()


@pytest.mark.requirement("S1-05")
@stored
def test_no_decision_is_recorded_for_a_call_that_got_its_result_first(is_stored: bool) -> None:
    calls = [ToolCall(id=f"c{number}", name="read") for number in range(100)]
    conversation = Conversation(
        [ChatMessage.assistant(None, calls)], journal=Journal() if is_stored else None
    )
    late: list[str] = []

    def decide() -> None:
        for call in calls:
            try:
                conversation.decide(call.id, "approved", actor="ann")
            except Missing:
                late.append(call.id)

    def answer() -> None:
        for call in calls:
            conversation.append(ToolResult.success(call.id, ""))

    run([decide, decide, decide, answer])
    answered: set[str] = set()
    decisions = 0
    for entry in conversation.entries():
        if isinstance(entry.payload, Approval):
            decisions += 1
            assert entry.payload.call_id not in answered
        elif isinstance(entry.payload, ToolResultMessage):
            answered.add(entry.payload.tool_call_id)
    assert decisions + len(late) == 3 * len(calls)


@pytest.mark.requirement("S2-22")
def test_every_change_of_mode_begins_where_the_one_before_it_ended() -> None:
    conversation = Conversation(TALK)

    def change(mode: str) -> None:
        for _ in range(60):
            conversation.change_mode(mode)
            conversation.change_model(mode)

    run([partial(change, "plan"), partial(change, "act"), partial(change, "plan")])
    payloads = [entry.payload for entry in conversation.entries()]
    for kind in (ModeChange, ModelChange):
        changes = [payload for payload in payloads if isinstance(payload, kind)]
        assert len(changes) == 180
        for earlier, later in pairwise(changes):
            assert later.old == earlier.new


@pytest.mark.requirement("S1-05")
def test_one_name_is_given_to_one_branch() -> None:
    conversation = Conversation(TALK, journal=Journal())
    lost: list[Conflict] = []

    def fork() -> None:
        for number in range(30):
            try:
                conversation.fork(f"branch-{number}")
            except Conflict as exc:
                lost.append(exc)

    run([fork] * 4)
    assert len(conversation.branches) == 31
    assert len(lost) == 90


def test_clones_and_refreshes_beside_writers_are_whole() -> None:
    journal = Journal()
    conversation = Conversation(TALK, journal=journal)
    other = journal.again().open()
    clones: list[Conversation] = []

    def write() -> None:
        for number in range(WRITES):
            conversation.append(ChatMessage.user(str(number)))
            if number % 10 == 0:
                conversation.fork(f"branch-{number}")

    def look() -> None:
        for _ in range(20):
            other.refresh()
            clones.append(other.clone())

    run([write, look, look])
    for twin in clones:
        for name, head in twin.branches.items():
            assert is_in_one_piece(twin, name)
            assert twin.entries(name)[-1].id == head


# -- races, step by step -----------------------------------------------------------------------


def test_a_reader_that_loads_a_branch_does_not_undo_a_concurrent_write() -> None:
    journal = Journal()
    Conversation(TALK, journal=journal)
    conversation = journal.open()
    is_reading, may_go_on = Event(), Event()

    def wait() -> None:
        journal.before_read = lambda: None
        is_reading.set()
        may_go_on.wait(LONGEST_S)

    journal.before_read = wait
    reader = Thread(target=conversation.messages)
    reader.start()
    assert is_reading.wait(LONGEST_S)
    conversation.append(ChatMessage.user("meanwhile"))
    may_go_on.set()
    reader.join(LONGEST_S)
    assert conversation.messages()[-1].text == "meanwhile"
    conversation.append(ChatMessage.user("and more"))
    assert journal.open().messages() == conversation.messages()


@pytest.mark.requirement("S1-05")
def test_reading_outstanding_calls_does_not_undo_a_concurrent_result() -> None:
    many = 400
    calls = [ToolCall(id=f"c{number}", name="read") for number in range(many)]
    answered = [ToolResult.success(call.id, "") for call in calls[:-30]]
    conversation = Conversation([ChatMessage.assistant(None, calls), *answered])
    for number, call in enumerate(calls[-30:]):
        name = f"branch-{number}"
        conversation.fork(name)
        conversation.switch(name)
        twin = conversation.clone()
        answer = partial(twin.append, ToolResult.success(call.id, ""))
        look = partial(getattr, twin, "outstanding")
        run([look, look, answer])
        assert call.id not in twin.outstanding


def test_readers_do_not_wait_for_the_disk() -> None:
    journal = Journal()
    conversation = Conversation(TALK, journal=journal)
    is_writing, may_go_on = Event(), Event()

    def wait() -> None:
        is_writing.set()
        may_go_on.wait(LONGEST_S)

    journal.before_append = wait
    writer = Thread(target=conversation.append, args=(ChatMessage.user("slow"),))
    writer.start()
    assert is_writing.wait(LONGEST_S)
    assert conversation.messages() == TALK
    assert len(conversation.entries()) == len(conversation) == len(TALK)
    assert (conversation.outstanding, conversation.branch) == ((), MAIN_BRANCH)
    may_go_on.set()
    writer.join(LONGEST_S)
    assert conversation.messages()[-1].text == "slow"


# -- tasks -------------------------------------------------------------------------------------


def test_many_tasks_append_and_nothing_is_lost() -> None:
    journal = Journal()
    conversation = Conversation(TALK, journal=journal)

    async def write(name: int) -> None:
        for number in range(20):
            await conversation.append_async(ChatMessage.user(f"{name} {number}"))

    async def main() -> None:
        await asyncio.gather(*[write(name) for name in range(25)])

    asyncio.run(main())
    found = [(m.text or "").split() for m in conversation.messages()[len(TALK) :]]
    assert len(found) == 500
    for name in range(25):
        assert [int(number) for who, number in found if int(who) == name] == list(range(20))
    assert journal.store.verify(journal.session).is_intact


def test_append_async_takes_and_raises_the_same_as_append() -> None:
    conversation = Conversation(TALK)
    conversation.fork("idea")

    async def main() -> None:
        entry = await conversation.append_async(
            ChatMessage.user("there"), branch="idea", decision="asked", audit={"actor": "ann"}
        )
        assert (entry.decision, entry.audit) == ("asked", {"actor": "ann"})
        with pytest.raises(OutOfOrder):
            await conversation.append_async(ToolResult.success("c1", ""))

    asyncio.run(main())
    assert conversation.messages("idea")[-1].text == "there"
    assert conversation.messages(MAIN_BRANCH) == TALK


def test_the_event_loop_continues_during_a_write() -> None:
    journal = Journal()
    conversation = Conversation(TALK, journal=journal)
    may_go_on = Event()

    def wait() -> None:
        may_go_on.wait(LONGEST_S)

    journal.before_append = wait
    steps: list[str] = []

    async def main() -> None:
        writing = asyncio.create_task(conversation.append_async(ChatMessage.user("slow")))
        for _ in range(20):
            await asyncio.sleep(0)
            steps.append("loop")
        assert not writing.done()
        may_go_on.set()
        await writing
        steps.append("written")

    asyncio.run(main())
    assert steps == ["loop"] * 20 + ["written"]
