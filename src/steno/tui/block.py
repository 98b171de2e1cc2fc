"""What a terminal shows of a conversation: blocks, one below the other.

A block is what a person sees: words, a call with what came of it, a notice. Its text is as it came
from a model, a tool or a person; whoever draws it makes it harmless.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import final


class Kind(StrEnum):
    """Whose words a block holds, or what it is about."""

    USER = "user"
    ANSWER = "answer"
    THINKING = "thinking"
    CALL = "call"
    """A tool call, with what it says while it runs and what came of it."""
    SHELL = "shell"
    """A command that the person ran."""
    NOTICE = "notice"
    """Something that the person should know: one line or a few."""
    TROUBLE = "trouble"
    """Something that could not be done, and what to do about it."""
    REPLY = "reply"
    """What a command of the person has brought."""
    MARK = "mark"
    """A change of course on record: another mode, model or branch, a summary, a label."""


class Form(StrEnum):
    """What kind of text a block holds."""

    PLAIN = "plain"
    MARKDOWN = "markdown"
    DIFF = "diff"
    CODE = "code"


class State(StrEnum):
    """How far a call has come."""

    WAITING = "waiting"
    """Somebody has to decide about it."""
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    DENIED = "denied"
    STOPPED = "stopped"


@final
@dataclass(eq=False, slots=True)
class Block:
    """One thing on the screen. It changes while it is said or done; who changes it says so."""

    kind: Kind
    head: str = ""
    """One line that is always shown, also where the rest is folded: `bash pytest -q`."""
    body: str = ""
    form: Form = Form.PLAIN
    language: str = ""
    """Of code, as Pygments names it; else empty."""
    state: State | None = None
    is_folded: bool = False
    is_open: bool = False
    """Whether more is to come: it is being said, or runs."""
    entry: str | None = None
    """The id of the entry that it shows; None for what is not on record."""
    images: tuple[bytes, ...] = ()
    """To be drawn below the text, where the terminal can."""
    pieces: list[str] = field(default_factory=list[str])
    """What was said since `body` was last put together."""

    @property
    def can_fold(self) -> bool:
        """Whether there is more of it than its head."""
        has_head = bool(self.head) or self.kind is Kind.THINKING
        return has_head and bool(self.body or self.pieces or self.images)

    def say(self, text: str) -> None:
        """Add to the body; it costs the same however long that is."""
        self.pieces.append(text)

    def gather(self) -> str:
        """Put the body together, and return it."""
        if self.pieces:
            self.body += "".join(self.pieces)
            self.pieces.clear()
        return self.body
