"""A long synthetic conversation with a coding agent, always the same: the input of all candidates.

A `Turn` belongs to no library; `bench.peers` converts it to the types of each.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import Any, Literal

_PROSE = (
    "the parser fails when a header has no colon so we should raise instead of skipping the line "
    "I will read the test first and then change one function at a time because the cache depends "
    "on its order let me check which callers rely on the old behaviour before removing it"
)
_WORDS = _PROSE.split()
_FOREIGN = (
    "größere Änderung für die Prüfung",
    "修复解析器中的错误",
    "naïve café façade",
    "проверить порядок сообщений",
    "✅ 12 passed, ❌ 1 failed",
)
_CODE = (
    "def read_header(line: bytes) -> tuple[bytes, bytes]:",
    '    name, separator, value = line.partition(b":")',
    "    if not separator:",
    '        raise ProtocolError(f"header without a colon at {line!r}")',
    "    return name.strip().lower(), value.strip()",
    "",
    "@pytest.mark.parametrize(('raw', 'expected'), [(b'a: 1', (b'a', b'1'))])",
    "for index, chunk in enumerate(stream):\t# keep the order",
    '    assert path.read_text() == "one\\ntwo\\n", "line endings\\tmatter"',
    "src/http/header.py:118: error: Incompatible return value type  [return-value]",
)


@dataclass(frozen=True)
class Call:
    """A tool call; `arguments` is JSON text."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True)
class Turn:
    """One message of the conversation."""

    role: Literal["system", "user", "assistant", "tool"]
    text: str = ""
    thinking: str = ""
    signature: str = ""
    calls: tuple[Call, ...] = ()
    tokens: tuple[int, int] = (0, 0)
    answers: Call | None = None
    """The call that a tool result belongs to."""
    is_error: bool = False
    details: tuple[tuple[str, Any], ...] = ()


def make_conversation(count: int, *, seed: int = 7) -> list[Turn]:
    """Return the first `count` turns."""
    turns = _endless(Random(seed))
    return [next(turns) for _ in range(count)]


def _endless(random: Random) -> Iterator[Turn]:
    yield Turn("system", text="You are a careful coding agent. " + _prose(random, 2_500))
    number = 0
    while True:
        yield Turn("user", text=_prose(random, _size(random, 30, 1_200)))
        for _ in range(random.randint(2, 9)):
            calls = tuple(
                _make_call(random, number + position)
                for position in range(random.choice((1, 1, 1, 1, 2, 3)))
            )
            number += len(calls)
            yield _say(random, calls)
            for call in calls:
                yield _answer(random, call)
        yield _say(random, ())


def _say(random: Random, calls: tuple[Call, ...]) -> Turn:
    thinks = random.random() < 0.4
    speaks = not calls or random.random() < 0.6
    return Turn(
        "assistant",
        text=_prose(random, _size(random, 30, 900)) if speaks else "",
        thinking=_prose(random, _size(random, 100, 2_000)) if thinks else "",
        signature=random.randbytes(120).hex() if thinks else "",
        calls=calls,
        tokens=(random.randint(2_000, 90_000), random.randint(20, 1_500)),
    )


def _make_call(random: Random, number: int) -> Call:
    path = f"src/http/{random.choice(('header', 'stream', 'größe', 'body'))}_{random.randint(1, 99)}.py"
    arguments: dict[str, object]
    match random.choice(("read_file", "read_file", "run_command", "search", "edit_file")):
        case "read_file" as name:
            start = random.randint(1, 900)
            lines = {"start_line": start, "end_line": start + 80} if start > 300 else {}
            arguments = {"path": path, **lines}
        case "run_command" as name:
            arguments = {"command": f"python -m pytest -q {path} -k 'header'", "timeout_s": 60.0}
        case "search" as name:
            options = {"case": False, "context": 3, "exclude": [".git", "build", "*.lock"]}
            arguments = {"pattern": r"def\s+read_\w+", "path": "src", "options": options}
        case name:
            old, new = (_code(random, _size(random, 60, 950)) for _ in range(2))
            arguments = {"path": path, "old_text": old, "new_text": new}
    text = json.dumps(arguments, ensure_ascii=False, separators=(",", ":"))
    return Call(f"call_{number:06d}{random.randbytes(8).hex()}", name, text)


def _answer(random: Random, call: Call) -> Turn:
    details = (("exit_code", random.randint(0, 1)), ("truncated", False), ("lines", 81))
    return Turn(
        "tool",
        text=_code(random, _size(random, 100, 8_000)),
        answers=call,
        is_error=random.random() < 0.08,
        details=details if call.name == "run_command" else (),
    )


def _size(random: Random, low: int, high: int) -> int:
    """Return a random size: many are small, a few are large."""
    return round(math.exp(random.uniform(math.log(low), math.log(high))))


def _prose(random: Random, size: int) -> str:
    words: list[str] = []
    foreign = random.random() < 0.25
    while size > 0:
        words.append(random.choice(_FOREIGN if foreign and random.random() < 0.05 else _WORDS))
        size -= len(words[-1]) + 1
    return " ".join(words)


def _code(random: Random, size: int) -> str:
    lines: list[str] = []
    foreign = random.random() < 0.2
    while size > 0:
        if foreign and random.random() < 0.1:
            lines.append(f"    # {random.choice(_FOREIGN)}")
        else:
            lines.append(random.choice(_CODE))
        size -= len(lines[-1]) + 1
    return "\n".join(lines)
