"""Benchmark: a conversation in memory. Append, fork, and read the messages."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

from bench.findings import Finding, below, compare
from bench.harness import Case, Stopwatch
from bench.log_content import Stage, messages
from steno import Message
from steno.log.conversation import Conversation

FEW, MANY = 10, 100_000
LENGTHS = (1_000, 10_000, MANY)
FLAT = 1.5
APPEND_S, FORK_S = 3e-6, 2e-6
FORKS = 1_000


def run(watch: Stopwatch) -> list[Finding]:
    """Time the operations of a conversation without a store."""
    said = list(islice(messages(), MANY))
    long = Conversation(said)
    return [*_append(watch, said, long), *_fork(watch, long), *_read(watch, said, long)]


def _append(watch: Stopwatch, said: list[Message], long: Conversation) -> list[Finding]:
    few_at_once = Stage(FEW, 10, lambda: [Conversation(said[:FEW]) for _ in range(100)])
    some, plenty = said[:10], said[:1_000]
    few, many = watch.measure(
        "log: append in memory",
        [
            Case(
                f"steno, at {FEW}",
                lambda conversations: _append_to_each(conversations, some),
                units=1_000,
                prepare=few_at_once,
            ),
            Case(f"steno, at {MANY:,}", lambda: _append_to_each([long], plenty), units=1_000),
        ],
    )
    return [
        below(f"log in memory: append at {FEW}", few, APPEND_S),
        *compare(f"log in memory: append at {MANY:,}", many, few, slower=FLAT),
    ]


def _append_to_each(conversations: list[Conversation], said: Sequence[Message]) -> None:
    for conversation in conversations:
        append = conversation.append
        for message in said:
            append(message)


def _fork(watch: Stopwatch, long: Conversation) -> list[Finding]:
    names = [f"branch {number}" for number in range(FORKS)]

    def fork(conversation: Conversation) -> None:
        for name in names:
            conversation.fork(name)

    plain = list(long.messages())
    forked, copied = watch.measure(
        "log: fork in memory",
        [
            Case("steno", fork, units=FORKS, prepare=long.clone),
            Case("copy of a plain list", plain.copy),
        ],
    )
    work = f"log in memory: fork of {MANY:,} entries"
    return [below(work, forked, FORK_S), *compare(work, forked, copied)]


def _read(watch: Stopwatch, said: list[Message], long: Conversation) -> list[Finding]:
    found: list[Finding] = []
    for length in LENGTHS:
        conversation = long if length == MANY else Conversation(said[:length])
        plain = list(conversation.messages())
        again, first, floor = watch.measure(
            f"log: messages() of {length:,}",
            [
                Case("steno", conversation.messages),
                Case(
                    "steno, asked for the first time", Conversation.messages, 1, conversation.clone
                ),
                Case("tuple(list)", lambda plain=plain: tuple(plain)),
            ],
        )
        found += compare(f"log in memory: messages() of {length:,}", again, first, floor)
    return found
