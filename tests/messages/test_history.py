"""`ConversationHistory`: messages in a valid order, shared by many threads."""

from __future__ import annotations

import copy
import pickle
import sys
from collections.abc import Callable, Iterator
from threading import Barrier, Event, Thread
from typing import Any, cast

import pytest

from steno import (
    AssistantMessage,
    ChatMessage,
    ConversationHistory,
    InvalidMessage,
    Message,
    OutOfOrder,
    Text,
    ToolCall,
    check_order,
)
from steno.codec import Document, decode_document, decode_messages, encode_document, encode_messages
from tests.code_probes import expect_error, peak_memory, record_calls
from tests.value_samples import SECRET

SYSTEM = ChatMessage.system("Be brief.")
USER = ChatMessage.user("Hello")
ASSISTANT = ChatMessage.assistant("Hi")
LIMIT_S = 60


def calling(*ids: str) -> AssistantMessage:
    return ChatMessage.assistant(None, [ToolCall(id=id, name="read") for id in ids])


def result(id: str) -> Message:
    return ChatMessage.tool_result(id, "ok")


def refused(history: ConversationHistory, message: Message) -> str:
    """Add a message that may not come next; check that nothing changed, and return the code."""
    before, waiting = history.messages, history.outstanding
    with pytest.raises(OutOfOrder) as caught:
        history.add(message)
    assert isinstance(caught.value, ValueError)
    assert history.messages == before
    assert history.outstanding == waiting
    assert len(history) == len(before)
    assert caught.value.position == len(before)
    return caught.value.code


# -- one thread ----------------------------------------------------------------------------------


@pytest.mark.requirement("FR-004a-101", "FR-004a-111", "FR-004a-112", "FR-004a-108")
def test_a_history_starts_empty() -> None:
    history = ConversationHistory()
    assert len(history) == 0
    assert history.last is None
    assert history.messages == ()
    assert list(history) == []
    assert history.outstanding == ()


@pytest.mark.requirement("FR-004a-101", "FR-004a-103", "FR-004a-108", "FR-004a-111", "FR-004a-112")
def test_a_history_holds_the_messages_in_order() -> None:
    history = ConversationHistory()
    said: list[Message] = []
    for message in (SYSTEM, USER, calling("a", "b"), result("b"), result("a"), ASSISTANT, USER):
        history.add(message)
        said.append(message)
        assert history.messages == tuple(said)
        assert history.last is message
        assert len(history) == len(said)
        assert list(history) == said
    assert ConversationHistory(said).messages == tuple(said)


@pytest.mark.requirement("S0-V7", "FR-004a-104", "FR-004a-105", "FR-004a-106")
def test_a_history_refuses_a_second_user_and_then_takes_the_assistant() -> None:
    history = ConversationHistory()
    history.add(SYSTEM)
    history.add(USER)
    assert refused(history, USER) == "not_alternating"
    history.add(ASSISTANT)
    assert history.messages == (SYSTEM, USER, ASSISTANT)


@pytest.mark.requirement("FR-004a-105", "FR-004a-104")
@pytest.mark.parametrize("message", [USER, ASSISTANT, calling("a")])
def test_a_history_begins_with_a_system_message(message: Message) -> None:
    assert refused(ConversationHistory(), message) == "system_missing"
    assert refused(ConversationHistory(), result("a")) == "result_orphaned"


@pytest.mark.requirement("FR-004a-105")
def test_only_the_first_message_is_a_system_message() -> None:
    for before in ([SYSTEM], [SYSTEM, USER], [SYSTEM, USER, ASSISTANT]):
        assert refused(ConversationHistory(before), SYSTEM) == "system_not_first"


@pytest.mark.requirement("FR-004a-106", "FR-004a-107")
def test_user_and_assistant_take_turns_and_tools_come_between() -> None:
    history = ConversationHistory([SYSTEM, USER, ASSISTANT])
    assert refused(history, ASSISTANT) == "not_alternating"
    for message in (USER, calling("a"), result("a"), calling("b"), result("b"), ASSISTANT, USER):
        history.add(message)
    answered = ConversationHistory([SYSTEM, USER, calling("a"), result("a")])
    answered.add(USER)
    assert answered.last is USER


@pytest.mark.requirement("FR-004a-107", "FR-004a-59", "FR-004a-104")
def test_a_result_is_taken_only_while_its_call_waits() -> None:
    history = ConversationHistory([SYSTEM, USER])
    assert refused(history, result("a")) == "result_orphaned"
    history.add(calling("a", "b"))
    assert [*history.outstanding] == ["a", "b"]
    assert refused(history, result("c")) == "result_orphaned"
    assert refused(history, ASSISTANT) == refused(history, USER) == "call_unanswered"
    history.add(result("b"))
    assert [*history.outstanding] == ["a"]
    assert refused(history, result("b")) == "result_repeated"
    history.add(result("a"))
    assert history.outstanding == ()
    assert refused(history, result("a")) == "result_repeated"
    history.add(ASSISTANT)
    assert refused(history, result("a")) == "result_orphaned"


@pytest.mark.requirement("FR-004a-104")
def test_two_calls_of_one_turn_need_ids_of_their_own() -> None:
    history = ConversationHistory([SYSTEM, USER])
    assert refused(history, calling("a", "a")) == "call_id_repeated"
    history.add(calling("a"))
    history.add(result("a"))
    history.add(calling("a"))  # a later turn may use an id again; real providers do
    assert history.outstanding == ("a",)


@pytest.mark.requirement("FR-004a-104", "NFR-004a-24")
@pytest.mark.parametrize(
    "wrong", [None, SECRET, {"role": "user"}, Text(SECRET), [USER], ToolCall(id="a", name="b")]
)
def test_only_messages_are_added(wrong: Any) -> None:
    history = ConversationHistory([SYSTEM])
    error = expect_error(lambda: history.add(wrong))
    assert isinstance(error, InvalidMessage)
    assert error.code == "not_a_message"
    assert history.messages == (SYSTEM,)


@pytest.mark.requirement("FR-004a-104", "NFR-004a-25")
def test_a_history_that_begins_wrong_is_not_made() -> None:
    with pytest.raises(OutOfOrder) as caught:
        ConversationHistory([SYSTEM, USER, USER])
    assert caught.value.code == "not_alternating"
    assert caught.value.explanation
    assert caught.value.position == 2
    assert caught.value.place == "messages[2]"
    for wrong in (None, 7):
        error = expect_error(lambda wrong=wrong: ConversationHistory(cast("Any", wrong)))  # type: ignore[misc]
        assert error.code == "not_iterable"


@pytest.mark.requirement("FR-004a-109")
def test_a_snapshot_of_messages_never_changes() -> None:
    history = ConversationHistory([SYSTEM])
    given = history.messages
    assert type(given) is tuple
    history.add(USER)
    assert given == (SYSTEM,)
    history.clear()
    assert given == (SYSTEM,)


@pytest.mark.requirement("FR-004a-110")
def test_a_cleared_history_can_be_begun_anew() -> None:
    history = ConversationHistory([SYSTEM, USER, calling("a")])
    history.clear()
    assert len(history) == 0
    assert history.last is None
    assert history.messages == ()
    assert history.outstanding == ()
    assert refused(history, USER) == "system_missing"
    history.add(SYSTEM)
    history.add(USER)
    assert list(history.messages) == [SYSTEM, USER]


@pytest.mark.requirement("FR-004a-113")
def test_iterating_walks_through_the_messages_as_they_were() -> None:
    history = ConversationHistory([SYSTEM, USER])
    walk = iter(history)
    assert next(walk) is SYSTEM
    history.add(ASSISTANT)
    assert list(walk) == [USER]
    assert list(history) == [SYSTEM, USER, ASSISTANT]
    begun = iter(history)
    history.clear()
    history.add(SYSTEM)
    assert list(begun) == [SYSTEM, USER, ASSISTANT]


@pytest.mark.requirement("FR-004a-113")
def test_a_history_can_be_added_to_while_it_is_walked() -> None:
    history = ConversationHistory([SYSTEM, USER])
    seen = []
    for message in history:
        seen.append(message)
        if history.last is USER:
            history.add(ASSISTANT)
    assert seen == [SYSTEM, USER]


@pytest.mark.requirement("FR-004a-114", "S0-V5")
def test_a_whole_history_is_written_as_json_and_read_back() -> None:
    history = ConversationHistory([SYSTEM, USER, calling("a"), result("a"), ASSISTANT])
    loaded = ConversationHistory(cast("Any", decode_messages(encode_messages(history))))
    assert loaded.messages == history.messages
    document = decode_document(encode_document(Document.of(history)))
    assert ConversationHistory(document.messages).messages == history.messages
    half = ConversationHistory([SYSTEM, USER, calling("a")])
    again = ConversationHistory(cast("Any", decode_messages(encode_messages(half))))
    assert again.outstanding == ("a",)
    assert decode_messages(encode_messages(ConversationHistory())) == ()


@pytest.mark.requirement("FR-004a-115")
def test_a_whole_history_can_be_checked_at_once() -> None:
    with pytest.raises(OutOfOrder) as caught:
        ConversationHistory().check_complete()
    assert caught.value.code == "system_missing"
    assert caught.value.position is None
    assert caught.value.place == ""
    history = ConversationHistory([SYSTEM, USER, calling("a", "b"), result("a")])
    with pytest.raises(OutOfOrder) as caught:
        history.check_complete()
    assert caught.value.code == "call_unanswered"
    [issue] = check_order(history, alternating=True)
    assert (issue.code, issue.position, issue.call_id) == ("call_unanswered", 2, "b")
    assert caught.value.position == issue.position
    history.add(result("b"))
    history.check_complete()
    assert check_order(history, alternating=True) == ()


# -- without the rules of a plain chat -----------------------------------------------------------


def test_turns_need_not_alternate_without_alternating() -> None:
    messages = (USER, USER, ASSISTANT, ASSISTANT, SYSTEM, calling("a"), result("a"), USER)
    history = ConversationHistory(messages, alternating=False)
    assert history.messages == messages
    history.check_complete()
    assert check_order(history) != ()  # a system message in the middle is still worth a warning


def test_calls_and_results_are_paired_all_the_same() -> None:
    history = ConversationHistory([calling("a", "b")], alternating=False)
    assert refused(history, USER) == "call_unanswered"
    assert refused(history, result("c")) == "result_orphaned"
    history.add(result("a"))
    assert refused(history, result("a")) == "result_repeated"
    with pytest.raises(OutOfOrder) as caught:
        history.check_complete()
    assert caught.value.code == "call_unanswered"
    assert history.outstanding == ("b",)


@pytest.mark.parametrize(
    "again",
    [copy.copy, copy.deepcopy, lambda history: pickle.loads(pickle.dumps(history))],
    ids=["copy", "deepcopy", "pickle"],
)
def test_a_duplicate_keeps_the_rules_of_its_original(again: Callable[[Any], Any]) -> None:
    free = again(ConversationHistory([USER], alternating=False))
    free.add(USER)
    free.clear()
    free.add(ASSISTANT)
    assert free.messages == (ASSISTANT,)
    assert refused(again(ConversationHistory([SYSTEM, USER])), USER) == "not_alternating"


@pytest.mark.requirement("NFR-004a-20")
def test_the_repr_of_a_history_shows_its_size_and_no_content() -> None:
    history = ConversationHistory([ChatMessage.system(SECRET), ChatMessage.user(SECRET)])
    history.add(calling("a"))
    assert repr(history) == str(history) == "ConversationHistory(<3 messages>, outstanding=1)"


@pytest.mark.requirement("NFR-004a-08")
@pytest.mark.parametrize("message", [USER, calling("x")], ids=["user", "calls"])
def test_adding_is_the_same_work_however_long_the_history(message: Message) -> None:
    def work_at(length: int) -> tuple[list[str], list[str]]:
        history = ConversationHistory([SYSTEM])
        for _ in range(length):
            history.add(USER)
            history.add(ASSISTANT)
        if message is not USER:
            history.add(USER)
        work = record_calls(lambda: history.add(message))
        return work.python, [function.__name__ for function in work.c]

    short, long = work_at(1), work_at(5_000)
    assert short == long
    assert len(short[0]) <= 15


@pytest.mark.requirement("NFR-004a-08")
def test_adding_copies_no_messages() -> None:
    """The least of several, since now and then a list makes room for many more at once."""
    history = ConversationHistory([SYSTEM])
    for _ in range(10_000):
        history.add(USER)
        history.add(ASSISTANT)
    costs = [peak_memory(lambda m=m: history.add(m)) for m in (USER, ASSISTANT) * 5]  # type: ignore[misc]
    assert min(costs) < 4_000


@pytest.mark.requirement("NFR-004a-32")
@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy], ids=["copy", "deepcopy"])
def test_a_duplicate_is_independent_or_refused(duplicate: Callable[[Any], Any]) -> None:
    """Two histories over one list would each believe in an order of their own."""
    history = ConversationHistory([SYSTEM])
    try:
        twin = duplicate(history)
    except TypeError:
        return
    twin.add(USER)
    assert history.messages == (SYSTEM,)
    assert twin.messages == (SYSTEM, USER)


# -- many threads --------------------------------------------------------------------------------

THREADS = 8


@pytest.fixture
def impatient() -> Iterator[None]:
    """Let Python switch threads all the time, so that races are likely."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def run_together(*jobs: Callable[[], object]) -> list[Any]:
    """Run jobs in threads that start at the same moment; return the result of each.

    The threads are daemons and waited for no longer than LIMIT_S: a deadlock fails the test
    instead of stopping it.
    """
    barrier = Barrier(len(jobs), timeout=LIMIT_S)
    outcomes: dict[int, Any] = {}

    def start(number: int) -> None:
        try:
            barrier.wait()
            outcomes[number] = jobs[number]()
        except BaseException as exc:  # noqa: BLE001 - raised again below
            outcomes[number] = exc

    threads = [Thread(target=start, args=(number,), daemon=True) for number in range(len(jobs))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LIMIT_S)
    assert not any(thread.is_alive() for thread in threads), "the threads wait for each other"
    for outcome in outcomes.values():
        if isinstance(outcome, BaseException):
            raise outcome
    return [outcomes[number] for number in range(len(jobs))]


def is_prefix_of_a_talk(messages: tuple[Message, ...]) -> bool:
    """Return whether the messages could be the beginning of a valid history."""
    ConversationHistory(messages)
    return True


@pytest.mark.requirement("FR-004a-102", "NFR-004a-32")
@pytest.mark.usefixtures("impatient")
def test_nothing_is_lost_when_many_threads_add() -> None:
    ids = [f"call_{n}" for n in range(THREADS * 150)]
    history = ConversationHistory([SYSTEM, USER, calling(*ids)])

    def answer(mine: list[str]) -> None:
        for id in mine:
            history.add(result(id))

    run_together(*(lambda n=n: answer(ids[n::THREADS]) for n in range(THREADS)))
    assert history.outstanding == ()
    assert len(history) == 3 + len(ids)
    answered = [message.tool_call_id for message in history.messages[3:]]
    assert sorted(map(str, answered)) == sorted(ids)
    for n in range(THREADS):
        assert [id for id in answered if id in ids[n::THREADS]] == ids[n::THREADS]
    history.check_complete()


@pytest.mark.requirement("FR-004a-102", "FR-004a-104", "NFR-004a-32")
@pytest.mark.usefixtures("impatient")
def test_of_many_threads_that_want_one_place_exactly_one_gets_it() -> None:
    history = ConversationHistory([SYSTEM])

    def compete(rounds: int) -> int:
        won = 0
        for _ in range(rounds):
            for message in (USER, ASSISTANT):
                try:
                    history.add(message)
                except OutOfOrder as exc:
                    assert exc.code == "not_alternating"  # noqa: PT017 - the other outcome
                else:
                    won += 1
        return won

    won = run_together(*[lambda: compete(2_000)] * THREADS)
    assert len(history) == 1 + sum(won)
    assert sum(won) > 0
    assert check_order(history, alternating=True) == ()


@pytest.mark.requirement("FR-004a-102", "FR-004a-109", "FR-004a-113", "NFR-004a-32")
@pytest.mark.usefixtures("impatient")
def test_readers_see_whole_snapshots_during_writes() -> None:
    history = ConversationHistory([SYSTEM])
    done = Event()

    def write() -> None:
        try:
            for n in range(1_000):
                history.add(USER)
                history.add(calling(f"a{n}", f"b{n}"))
                history.add(result(f"b{n}"))
                history.add(result(f"a{n}"))
                history.add(ASSISTANT)
        finally:
            done.set()

    def read() -> int:
        longest, rounds = 0, 0
        while not done.is_set() or rounds == 0:
            rounds += 1
            given, walked = history.messages, tuple(history)
            assert walked[: len(given)] == given
            assert len(walked) >= len(given) >= longest
            assert len(history) >= len(walked)
            longest = len(walked)
            assert history.last is not None
            assert len(history.outstanding) <= 2
            repr(history)
        return longest

    run_together(write, read, read, read)
    assert len(history) == 1 + 1_000 * 5
    assert is_prefix_of_a_talk(history.messages)


@pytest.mark.requirement("FR-004a-102", "FR-004a-110", "FR-004a-113", "NFR-004a-32")
@pytest.mark.usefixtures("impatient")
def test_clearing_does_not_disturb_readers_and_writers() -> None:
    history = ConversationHistory([SYSTEM, USER])
    done = Event()

    def clear() -> None:
        try:
            for _ in range(3_000):
                history.clear()
                for message in (SYSTEM, USER, calling("a"), result("a")):
                    try:
                        history.add(message)
                    except OutOfOrder:
                        break  # another thread was faster
        finally:
            done.set()

    def add() -> None:
        while not done.is_set():
            for message in (SYSTEM, USER, ASSISTANT):
                try:
                    history.add(message)
                except OutOfOrder:
                    continue

    def read() -> int:
        rounds = 0
        while not done.is_set() or rounds == 0:
            rounds += 1
            assert is_prefix_of_a_talk(history.messages)
            assert is_prefix_of_a_talk(tuple(history))
            try:
                history.check_complete()
            except OutOfOrder as exc:
                assert exc.code in {"system_missing", "call_unanswered"}  # noqa: PT017 - may be
        return rounds

    run_together(clear, add, add, read, read)
    assert is_prefix_of_a_talk(history.messages)


@pytest.mark.requirement("NFR-004a-23", "FR-004a-102")
@pytest.mark.usefixtures("impatient")
def test_values_are_shared_between_threads_without_locks() -> None:
    call = ToolCall(id="a", name="read", arguments='{"path": "a.py", "lines": [1, 2]}')
    bare = copy.copy(call)  # reads its arguments when first asked
    message = ChatMessage.assistant("I look.", [call])

    def use() -> set[int]:
        found = set()
        for _ in range(200):
            assert bare.get("lines", list[int]) == [1, 2]
            assert call.parsed == {"path": "a.py", "lines": (1, 2)}
            found |= {hash(message), hash(bare), hash(call)}
        return found

    [first, *others] = run_together(*[use] * THREADS)
    assert all(found == first for found in others)
