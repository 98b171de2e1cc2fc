"""Benchmark: scan long text, and construct messages and tool calls with it.

Costs are per 1,000 characters. This module needs no peer: `python -m bench.long_content`.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable

import msgspec

from bench import report
from bench.findings import Finding, below, compare
from bench.floor import BareToolCall
from bench.harness import Case, Stopwatch
from steno import ChatMessage, ToolCall
from steno.values import is_utf8_text

LIMIT_S = 1e-6
LONG = 1_000_000
# In a random order, because encoders are fast on text whose characters are all of one size.
MIXED = "".join(random.Random(1).choices("a漢é😀", k=LONG))
TEXTS = {
    "1,000 漢": "漢" * 1_000,
    "1,000 of a, é, 漢 and 😀": MIXED[:1_000],
    "1 M é": "é" * LONG,
    "1 M 漢": "漢" * LONG,
    "1 M 😀": "😀" * LONG,
    "1 M of a, é, 漢 and 😀": MIXED,
}
ARGUMENTS = {
    "1 MB of plain text": json.dumps({"content": "x" * LONG}),
    "1 MB of source code": json.dumps({"content": 'def f(x):\n    return "y"\n' * 35_000}),
    "1 MB of nested objects": json.dumps({"a": [{"key": n, "v": "abc"} for n in range(36_000)]}),
}
SMALL_VALUES = json.dumps({"a": [{}] * 250_000})
UNESCAPED = json.dumps({"content": MIXED}, ensure_ascii=False)


def run(watch: Stopwatch) -> list[Finding]:
    """Time the scan, the constructors, and a call that is constructed and then encoded."""
    return [*_scans(watch), *_messages(watch), *_calls(watch), *_encoded_call(watch)]


def _scans(watch: Stopwatch) -> list[Finding]:
    cases = [
        Case(f"scan of {name}", _scanner(text), units=len(text) // 1_000)
        for name, text in TEXTS.items()
    ]
    timings = watch.measure("long: scans", cases)
    return [below(f"{found.name}, per 1,000", found, LIMIT_S) for found in timings]


def _scanner(text: str) -> Callable[[], object]:
    return lambda: is_utf8_text(text)


def _messages(watch: Stopwatch) -> list[Finding]:
    """Time whole messages; the one of ASCII text, which is not scanned, shows their fixed cost."""
    cases = [
        Case(f"a user message of {name}", _message_maker(text), units=len(text) // 1_000)
        for name, text in {"1,000 ASCII characters": "a" * 1_000, **TEXTS}.items()
    ]
    timings = watch.measure("long: messages", cases)
    return [Finding(f"{found.name}, per 1,000", found) for found in timings]


def _message_maker(text: str) -> Callable[[], object]:
    return lambda: ChatMessage.user(text)


def _calls(watch: Stopwatch) -> list[Finding]:
    cases = [
        Case(f"a call with arguments of {name}", _call_maker(text), units=len(text) // 1_000)
        for name, text in ARGUMENTS.items()
    ]
    name, units = "a call with arguments of 1 MB of empty objects", len(SMALL_VALUES) // 1_000
    *timings, small = watch.measure(
        "long: calls", [*cases, Case(name, _call_maker(SMALL_VALUES), units)]
    )
    findings = [below(f"{found.name}, per 1,000", found, LIMIT_S) for found in timings]
    return [*findings, Finding(f"{name}, per 1,000", small)]  # the worst case has no limit


def _call_maker(text: str) -> Callable[[], object]:
    return lambda: ToolCall(id="call_1", name="write", arguments=text)


def _encoded_call(watch: Stopwatch) -> list[Finding]:
    """Compare with bare msgspec: CPython keeps the UTF-8 form that the check of a call needs."""
    units = len(UNESCAPED) // 1_000
    encode = msgspec.json.encode

    def ours(text: str) -> bytes:
        return encode(ToolCall(id="call_1", name="write", arguments=text))

    def bare(text: str) -> bytes:
        return encode(BareToolCall(id="call_1", name="write", arguments=text))

    def check(text: str) -> object:
        return ToolCall(id="call_1", name="write", arguments=text)

    checked, made, floor = watch.measure(
        "long: a call that is made and encoded",
        [
            Case("steno, made only", check, units, _new_text),
            Case("steno", ours, units, _new_text),
            Case("msgspec, no checks", bare, units, _new_text),
        ],
    )
    name = "a call with unescaped arguments of 1 M of a, é, 漢 and 😀"
    return [
        Finding(f"{name}, per 1,000", checked),
        *compare(f"{name}, made and encoded, per 1,000", made, floor),
    ]


def _new_text() -> str:
    """Return a new string, without the UTF-8 form that CPython keeps after the first use."""
    return UNESCAPED[:-1] + "}"


if __name__ == "__main__":
    print(report.in_text(run(Stopwatch())))
