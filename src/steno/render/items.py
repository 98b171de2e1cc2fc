"""What a terminal shows of a conversation: blocks, one below the other.

A block is what a person sees: words, a call with what came of it, a notice. Its text is as it came
from a model, a tool or a person; whoever draws it makes it harmless.

Of what a command says while it runs, only the beginning and the end are kept: the record has its
own rule, and one that never ends must not fill the memory.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, NamedTuple, final

_HEAD_CHARACTERS: Final = 20_000
_TAIL_CHARACTERS: Final = 180_000
"""How many characters are kept of what a running command says, at the beginning and at the end."""
FOLDED_LINES: Final = 20
"""How many lines stay to be seen of what a person said or ran, folded as it is."""
_LINE_CHARACTERS: Final = 100
"""How many characters count as a line, where nobody has ended it."""


class ItemKind(StrEnum):
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
    ERROR = "trouble"
    """Something that could not be done, and what to do about it."""
    REPLY = "reply"
    """What a command of the person has brought."""
    MARK = "mark"
    """A change of course on record: another mode, model or branch, a summary, a label."""


class TextForm(StrEnum):
    """What kind of text a block holds."""

    PLAIN = "plain"
    MARKDOWN = "markdown"
    DIFF = "diff"
    CODE = "code"


class CallState(StrEnum):
    """How far a call has come."""

    WAITING = "waiting"
    """Somebody has to decide about it."""
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    DENIED = "denied"
    STOPPED = "stopped"


_STREAMED_KINDS: Final = frozenset({ItemKind.CALL, ItemKind.SHELL})
_USER_KINDS: Final = frozenset({ItemKind.USER, ItemKind.SHELL})


class ImageLocation(NamedTuple):
    """Where an image is on record; its bytes are asked for when it is drawn."""

    entry: str
    number: int
    """Of the image among the parts of its message."""


@final
@dataclass(eq=False, slots=True)
class TranscriptItem:
    """One thing on the screen. It changes while it is said or done; who changes it says so."""

    kind: ItemKind
    head: str = ""
    """One line that is always shown, also where the rest is folded: `bash pytest -q`."""
    body: str = ""
    form: TextForm = TextForm.PLAIN
    language: str = ""
    """Of code, as Pygments names it; else empty."""
    state: CallState | None = None
    is_folded: bool = False
    is_open: bool = False
    """Whether more is to come: it is being said, or runs."""
    entry: str | None = None
    """The id of the entry that it shows; None for what is not on record."""
    images: tuple[ImageLocation, ...] = ()
    """To be drawn below the text, where the terminal can."""
    note: str = ""
    """What came of it, in a word or two behind the head: `+1 -1`, `exit 1`."""
    chunks: list[str] = field(default_factory=list[str])
    """What was said since `body` was last put together."""
    pending_characters: int = 0
    """How many characters these are."""
    omitted_characters: int = 0
    """How many characters are missing in the middle of the body."""

    @property
    def can_fold(self) -> bool:
        """Whether there is more of it than its head, or than a few lines where a person said it."""
        if self.kind in _USER_KINDS:
            return not self.is_short
        has_head = bool(self.head) or self.kind is ItemKind.THINKING
        return has_head and bool(self.body or self.chunks or self.images)

    @property
    def is_short(self) -> bool:
        """Whether it takes no more lines than what is folded may show."""
        # What is still in pieces is the end of something that runs, and shown as that.
        return max(self.body.count("\n"), len(self.body) // _LINE_CHARACTERS) <= FOLDED_LINES

    def append(self, text: str) -> None:
        """Add to the body; it costs the same however long that is."""
        self.chunks.append(text)
        self.pending_characters += len(text)
        if self.pending_characters > _TAIL_CHARACTERS and self.kind in _STREAMED_KINDS:
            self.join_chunks()

    def join_chunks(self) -> str:
        """Put the body together, and return it."""
        if self.chunks:
            self.body += "".join(self.chunks)
            self.chunks.clear()
            self.pending_characters = 0
            if self.kind in _STREAMED_KINDS:
                self._truncate()
        return self.body

    def replace_body(self, body: str, form: TextForm) -> None:
        """Hold this in place of everything that was said."""
        self.chunks.clear()
        self.pending_characters = self.omitted_characters = 0
        self.body, self.form = body, form

    def _truncate(self) -> None:
        """Leave out the middle of the body, if it is long, and say so there."""
        start = _HEAD_CHARACTERS + len(_omission_text(self.omitted_characters))
        too_many = len(self.body) - start - _TAIL_CHARACTERS
        if too_many > 0:
            self.omitted_characters += too_many
            head, tail = self.body[:_HEAD_CHARACTERS], self.body[start + too_many :]
            self.body = f"{head}{_omission_text(self.omitted_characters)}{tail}"


def _omission_text(left_out: int) -> str:
    return f"\n[... {left_out:,} characters are not shown while it runs ...]\n" if left_out else ""
