"""What a scripted server says, line by line, in no protocol yet.

A `Speaker` puts these lines into the bytes of its protocol. They are about what a server does,
bad habits included, not about what we make of it: that is written in the cases.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from steno.usage import StopReason, Usage

# -- words -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Say:
    """A piece of text."""

    text: str


@dataclass(frozen=True)
class Think:
    """A piece of thinking."""

    text: str


@dataclass(frozen=True)
class SealThinking:
    """The seal of the thinking before it."""

    token: str


@dataclass(frozen=True)
class Redact:
    """Thinking of which only the seal is handed out."""

    token: str


@dataclass(frozen=True)
class Refuse:
    """The model declines, in words, where the protocol has a place for that."""

    text: str


# -- calls -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class CallPart:
    """A fragment of a call. None is left out, the empty string is sent as such."""

    index: int | None
    id: str | None = None
    name: str | None = None
    arguments: str | None = None


@dataclass(frozen=True)
class WholeCall:
    """A call in one piece, as the protocol likes to send it. `arguments` is JSON text."""

    id: str | None
    name: str
    arguments: str | None = "{}"


# -- what nobody has a name for --------------------------------------------------------------


@dataclass(frozen=True)
class UnknownEvent:
    """An event, line or chunk of a kind that is new; `token` stands somewhere inside."""

    token: str


@dataclass(frozen=True)
class UnknownMember:
    """A usual event with a member that is new; `token` is its value."""

    token: str


@dataclass(frozen=True)
class UnknownBlock:
    """A part of the answer of a kind that is new, where text or a call might stand."""

    token: str


# -- the end and the rest --------------------------------------------------------------------


@dataclass(frozen=True)
class KeepAlive:
    """What is sent so that nobody hangs up, and says nothing."""


@dataclass(frozen=True)
class UsageOnly:
    """A message about tokens alone; behind an `End` without usage."""

    usage: Usage


@dataclass(frozen=True)
class End:
    """The turn is over. `raw` is a word for the reason that the protocol does not know yet."""

    reason: StopReason = StopReason.END_TURN
    usage: Usage | None = None
    raw: str | None = None
    has_end_marker: bool = True
    """Whether the protocol's own sign of the end follows, where it has one."""


@dataclass(frozen=True)
class Fail:
    """An error inside an answer that began well."""

    message: str


@dataclass(frozen=True)
class Silence:
    """The server says nothing more and does not hang up: the last line of a script, if at all.

    It is for providers; no bytes say it.
    """


Line: TypeAlias = (
    Say
    | Think
    | SealThinking
    | Redact
    | Refuse
    | CallPart
    | WholeCall
    | UnknownEvent
    | UnknownMember
    | UnknownBlock
    | KeepAlive
    | UsageOnly
    | End
    | Fail
    | Silence
)
Script: TypeAlias = Sequence[Line]


# -- a script as one answer ------------------------------------------------------------------


@dataclass(frozen=True)
class Thought:
    """Thinking with its seal, as it stands in a whole answer."""

    text: str
    token: str | None = None


Part: TypeAlias = Say | Thought | Redact | Refuse | WholeCall | UnknownBlock


@dataclass(frozen=True)
class Whole:
    """What a script amounts to: its parts in order, and how it ends."""

    parts: tuple[Part, ...]
    end: End

    @property
    def text(self) -> str | None:
        """All text, for protocols that have one place for it."""
        texts = [part.text for part in self.parts if isinstance(part, Say)]
        return "".join(texts) if texts else None

    @property
    def calls(self) -> list[WholeCall]:
        """All calls, in order."""
        return [part for part in self.parts if isinstance(part, WholeCall)]


def whole(script: Script) -> Whole:
    """Put a script together: neighbours joined, each call in one piece."""
    parts: list[Part] = []
    end = End()
    for line in script:
        last = parts[-1] if parts else None
        match line:
            case Say() if isinstance(last, Say):
                parts[-1] = Say(last.text + line.text)
            case Think() if isinstance(last, Thought) and last.token is None:
                parts[-1] = Thought(last.text + line.text)
            case Think():
                parts.append(Thought(line.text))
            case SealThinking() if isinstance(last, Thought):
                parts[-1] = Thought(last.text, line.token)
            case SealThinking():
                parts.append(Thought("", line.token))
            case Say() | Redact() | Refuse() | WholeCall() | UnknownBlock():
                parts.append(line)
            case End():
                end = line
            case _:
                raise ValueError(f"{type(line).__name__} is no part of a whole answer")
    return Whole(tuple(parts), end)
