"""An interrupt during decoding does not switch off the checks of values made later."""

from __future__ import annotations

import linecache
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import steno
from steno import ChatMessage, Request, ToolDefinition
from steno.codec import decode_message, encode_message
from steno.context.builder import _with_messages
from steno.providers.http_provider import _with_settings
from steno.values import is_prechecked

SOURCE = str(Path(steno.__file__).parent)
REQUEST = Request(model="m", messages=(ChatMessage.user("Hello"),))


class Interrupt(BaseException):
    """Stands in for KeyboardInterrupt, which would end the test run."""


def find_price(item: str) -> str:
    """Return the price of an item."""
    return item


def interrupt_at_line(number: int, work: Callable[[], object]) -> bool:
    """Run a function, and interrupt it before its n-th line. Returns whether it had that many.

    Signals are handled after calls and backward jumps, never between the start of `finally` and
    its first call, so the line that sets the flag back is not interrupted.
    """
    seen = 0

    def trace(frame: FrameType, event: str, arg: Any) -> Any:
        nonlocal seen
        if not frame.f_code.co_filename.startswith(SOURCE):
            return None  # an interrupt inside of `logging` would leave its lock held
        line = linecache.getline(frame.f_code.co_filename, frame.f_lineno)
        if event == "line" and "PRECHECKED.set(before)" not in line:
            seen += 1
            if seen == number:
                raise Interrupt
        return trace

    previous = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    except Interrupt:
        return True
    finally:
        sys.settrace(previous)
    return False


@pytest.mark.parametrize(
    "work",
    [
        lambda: decode_message(encode_message(ChatMessage.user("Hello"))),
        lambda: decode_message(
            b'{"type": "user", "content": [{"type": "text", "text": "x", "y": 1}]}'
        ),
        lambda: ToolDefinition.from_function(find_price),
        lambda: _with_messages(REQUEST, (ChatMessage.user("Hello"),)),
        lambda: _with_settings(REQUEST, max_tokens=10),
    ],
    ids=["known", "unknown fields", "tool", "messages of a request", "settings of a request"],
)
def test_checks_stay_on_after_an_interrupt_at_any_line(work: Callable[[], object]) -> None:
    """Found by chance: an interrupted test left the checks of its process switched off."""
    number = 1
    while interrupt_at_line(number, work):
        assert not is_prechecked()
        number += 1
    assert number > 3
