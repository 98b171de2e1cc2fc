"""The content of the terminal benchmarks: the synthetic coding session, and a streamed answer.

It imports no library but steno: each candidate runs in its own interpreter.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import cycle, islice

from bench.conversation import Turn, make_conversation
from steno import ChatMessage, Conversation, Message, ToolCall
from steno.records.entry import Entry

_ANSWER = """\
## What goes wrong

The parser of `header.py` **skips** a line that has no colon, and so the next one is read as
its value; see the [notes](https://example.org/notes) for what others do about it.

- the cache depends on the order of its keys
- two callers rely on the old behaviour
- one test expects *nothing* to be raised

```python
def read_header(line: bytes) -> tuple[bytes, bytes]:
    name, separator, value = line.partition(b":")
    if not separator:
        raise ProtocolError(f"header without a colon at {line!r}")
    return name.strip().lower(), value.strip()
```

| file | lines | verdict |
|---|---|---|
| header.py | 118 | mend |
| body.py | 40 | keep |

"""
_PIECE = 5


def session(length: int) -> Sequence[Turn]:
    """Return a session of `length` turns."""
    return make_conversation(length + 1)[1:]  # the system message is not shown


def entries(turns: Sequence[Turn]) -> Sequence[Entry]:
    """Return the turns as entries."""
    return Conversation(map(_message, turns)).entries_view()


def _message(turn: Turn) -> Message:
    if turn.role == "user":
        return ChatMessage.user(turn.text)
    if turn.answers is not None:
        return ChatMessage.tool_result(turn.answers.id, turn.text, tool_name=turn.answers.name)
    calls = [ToolCall(id=one.id, name=one.name, arguments=one.arguments) for one in turn.calls]
    return ChatMessage.assistant(turn.text, calls)


def deltas(count: int) -> Sequence[str]:
    """Return an answer in Markdown, in pieces about as long as tokens."""
    pieces = [_ANSWER[at : at + _PIECE] for at in range(0, len(_ANSWER), _PIECE)]
    return list(islice(cycle(pieces), count))
