"""Benchmark: append to a history, and check and repair a long one."""

from __future__ import annotations

from functools import partial
from itertools import chain, cycle, islice

import steno
from bench.conversation import make_conversation
from bench.findings import Finding, compare
from bench.harness import Case, Stopwatch
from bench.peers import in_steno
from steno import ChatMessage, ConversationHistory, Message

SIZES = (10, 1_000, 100_000)
ADDED = 1_000
FLAT = 1.5
LONG = 10_000

# A system message, then user, call, result and answer repeatedly: every rule is checked.
SYSTEM = ChatMessage.system("You are a careful coding agent.")
TASK: tuple[Message, ...] = (
    ChatMessage.user("Please fix the parser."),
    ChatMessage.assistant(calls=[steno.ToolCall.create("read_file", {"path": "a"}, id="call_1")]),
    ChatMessage.tool_result("call_1", "def parse(): ..."),
    ChatMessage.assistant("Done."),
)


def run(watch: Stopwatch) -> list[Finding]:
    """Time appends at three lengths, and the check and the repair of a long history."""
    return [*_add(watch), *_walk(watch)]


def _add(watch: Stopwatch) -> list[Finding]:
    task = list(islice(cycle(TASK), ADDED))
    few, some, many, floor = watch.measure(
        "history: add",
        [
            *(
                Case(
                    f"steno, after {size:,}",
                    lambda history: _add_all(history, task),
                    units=ADDED,
                    prepare=partial(_make_history, size),
                )
                for size in SIZES
            ),
            Case(
                "list.append, no checks, no lock",
                lambda into: _append_all(into, task),
                units=ADDED,
                prepare=list,
            ),
        ],
    )
    return [
        *compare("add to a history of 10", few, floor),
        *compare("add to a history of 1,000", some, few, slower=FLAT),
        *compare("add to a history of 100,000", many, few, slower=FLAT),
    ]


def _make_history(size: int) -> list[ConversationHistory]:
    """Return histories of `size` messages: few long ones, or many short ones that stay short."""
    count = max(1, min(ADDED // 4, ADDED // size))
    messages = list(chain([SYSTEM], islice(cycle(TASK), size // 4 * 4)))
    return [ConversationHistory(messages) for _ in range(count)]


def _add_all(histories: list[ConversationHistory], messages: list[Message]) -> None:
    each = len(messages) // len(histories)
    for history in histories:
        add = history.add
        for message in messages[:each]:
            add(message)


def _append_all(into: list[Message], messages: list[Message]) -> None:
    append = into.append
    for message in messages:
        append(message)


def _walk(watch: Stopwatch) -> list[Finding]:
    good = steno.repair(
        in_steno(make_conversation(LONG))
    ).messages  # it may end in the middle of a turn
    # Every seventh result is missing, and some neighbours are swapped.
    bad = [m for n, m in enumerate(good) if n % 7 or not isinstance(m, steno.ToolResultMessage)]
    for position in range(50, len(bad) - 1, 50):
        bad[position], bad[position + 1] = bad[position + 1], bad[position]
    assert not steno.check_order(good)
    assert steno.repair(bad).issues
    checked, passed, repaired = watch.measure(
        f"history: check and repair {LONG:,} messages",
        [
            Case("check_order", lambda: steno.check_order(good)),
            Case("repair, nothing to do", lambda: steno.repair(good)),
            Case("repair, much to do", lambda: steno.repair(bad)),
        ],
    )
    return [
        Finding(f"check_order of {LONG:,} messages", checked),
        Finding(f"repair of {LONG:,} messages, nothing wrong", passed),
        Finding(f"repair of {LONG:,} messages, 1 in 10 wrong", repaired),
    ]
