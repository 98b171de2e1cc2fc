"""Cases about tool calls, with everything that servers do to ids, indexes and arguments."""

from __future__ import annotations

from typing import Final

from steno.call import InvalidToolCall, ToolCall
from steno.testing.conformance.hearing import expect, hear, require
from steno.testing.conformance.script import CallPart, End, Line, Say, WholeCall
from steno.testing.conformance.speaker import CannotSay, Speaker
from steno.usage import StopReason

_READ: Final = ("a", "read", '{"path":"x.py"}')
_WRITE: Final = ("b", "write", '{"path":"y.py","n":1.50}')
_END: Final = End(StopReason.TOOL_USE)
_MANY: Final = 2_000


def two_calls(speaker: Speaker) -> None:
    """Two calls are two, in order, each with its id, name and exact arguments."""
    heard = hear(speaker, Say("Both."), WholeCall(*_READ), WholeCall(*_WRITE), _END)
    expect(heard.calls, [_READ, _WRITE], "calls")
    expect(heard.block_types, ["Text", "ToolCall", "ToolCall"], "kinds of blocks")
    expect(heard.message.stop_reason, StopReason.TOOL_USE, "stop reason")


def plain_stop_with_calls(speaker: Speaker) -> None:
    """A turn with calls has stopped for them, even if the server says no more than that it ended."""
    heard = hear(speaker, WholeCall(*_READ), End(StopReason.END_TURN))
    expect(heard.message.stop_reason, StopReason.TOOL_USE, "stop reason")


def interleaved_calls(speaker: Speaker) -> None:
    """Fragments of two calls come in turn; each goes to its own."""
    heard = hear(
        speaker,
        CallPart(0, "a", "read", '{"path"'),
        CallPart(1, "b", "write", '{"path":'),
        CallPart(0, None, None, ":"),
        CallPart(1, None, None, '"y.py","n":'),
        CallPart(0, None, None, '"x.py"}'),
        CallPart(1, None, None, "1.50}"),
        _END,
    )
    expect(heard.calls, [_READ, _WRITE], "calls")


def shared_index(speaker: Speaker) -> None:
    """Two calls under one index stay two, by their ids."""
    heard = hear(
        speaker,
        CallPart(0, "a", "read", '{"path":'),
        CallPart(0, None, None, '"x.py"}'),
        CallPart(0, "b", "write", '{"path":"y.py",'),
        CallPart(0, None, None, '"n":1.50}'),
        _END,
    )
    expect(heard.calls, [_READ, _WRITE], "calls")


def missing_index(speaker: Speaker) -> None:
    """Without any index, fragments go to the call that is open."""
    heard = hear(
        speaker,
        CallPart(None, "a", "read", '{"path":'),
        CallPart(None, None, None, '"x.py"}'),
        CallPart(None, "b", "write", '{"path":"y.py",'),
        CallPart(None, None, None, '"n":1.50}'),
        _END,
    )
    expect(heard.calls, [_READ, _WRITE], "calls")


def late_name(speaker: Speaker) -> None:
    """A name may come behind the arguments."""
    heard = hear(
        speaker,
        CallPart(0, "a", None, '{"path":"x.py"}'),
        CallPart(0, None, "read", None),
        _END,
    )
    expect(heard.calls, [_READ], "calls")


def late_id(speaker: Speaker) -> None:
    """An id may come behind the first arguments."""
    heard = hear(
        speaker,
        CallPart(0, None, "read", '{"path":'),
        CallPart(0, "a", None, '"x.py"}'),
        _END,
    )
    expect(heard.calls, [_READ], "calls")


def empty_ids(speaker: Speaker) -> None:
    """An id or a name that is the empty string counts as left out."""
    heard = hear(
        speaker,
        CallPart(0, "a", "read", '{"path":'),
        CallPart(0, "", "", '"x.py"}'),
        _END,
    )
    expect(heard.calls, [_READ], "calls")


def missing_ids(speaker: Speaker) -> None:
    """Calls without an id get one each, and stay two."""
    heard = hear(speaker, WholeCall(None, *_READ[1:]), WholeCall(None, *_WRITE[1:]), _END)
    expect([call[1:] for call in heard.calls], [_READ[1:], _WRITE[1:]], "names and arguments")
    require(len({call.id for call in heard.message.tool_calls}) == 2, "the ids are not two")


# -- arguments -------------------------------------------------------------------------------


def no_arguments(speaker: Speaker) -> None:
    """A call without arguments can be run, with none."""
    for arguments in _each_way(speaker, None, "", "{}"):
        [call] = hear(speaker, _call(speaker, "now", arguments), _END).message.tool_calls
        require(isinstance(call, ToolCall), f"arguments {arguments!r} make a call nobody can run")
        expect((call.id, call.name, call.arguments), ("a", "now", "{}"), "the call")


def invalid_json_arguments(speaker: Speaker) -> None:
    """Arguments that are no JSON object make a call that says so and keeps its words."""
    for arguments in _each_way(speaker, '{"path":', "not JSON", "[1]"):
        [call] = hear(speaker, _call(speaker, "read", arguments), _END).message.tool_calls
        require(isinstance(call, InvalidToolCall), f"arguments {arguments!r} are taken for valid")
        expect((call.id, call.name, call.arguments), ("a", "read", arguments), "the call")


def many_fragments(speaker: Speaker) -> None:
    """Arguments in thousands of fragments are joined, with nothing lost."""
    words = [f"{number} " for number in range(_MANY)]
    fragments = ['{"text":"', *words, '"}']
    first = CallPart(0, "a", "write", fragments[0])
    others = [CallPart(0, None, None, fragment) for fragment in fragments[1:]]
    heard = hear(speaker, first, *others, _END)
    expect(heard.calls, [("a", "write", "".join(fragments))], "calls")


def _call(speaker: Speaker, name: str, arguments: str | None) -> CallPart | WholeCall:
    """Return a call as a fragment, or whole where the protocol knows no fragments."""
    part = CallPart(0, "a", name, arguments)
    return part if _can_say(speaker, part) else WholeCall("a", name, arguments)


def _each_way(speaker: Speaker, *arguments: str | None) -> list[str | None]:
    """Return those arguments that the protocol has a way to say. Raises CannotSay."""
    found = [each for each in arguments if _can_say(speaker, _call(speaker, "read", each))]
    if not found:
        raise CannotSay("any of these arguments")
    return found


def _can_say(speaker: Speaker, line: Line) -> bool:
    try:
        speaker.frames([line, _END])
    except CannotSay:
        return False
    return True
