"""The items of a transcript, and the values of a status line.

An item is a text, a call with its result, or a notice. Its text is that of a model, a tool or a
user, unchanged; the code that draws the item makes it printable.

Only the beginning and the end of the output of a running command are kept, so that endless output
cannot fill the memory. The log has its own limit.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal
from enum import StrEnum
from typing import Final, NamedTuple, Protocol, final

from steno.bounded_text import BoundedText
from steno.messages.usage import Usage
from steno.records.entry import Mode

_HEAD_CHARACTERS: Final = 20_000
_TAIL_CHARACTERS: Final = 180_000
"""The number of characters of a running command that are kept at each end."""
FOLDED_LINES: Final = 20
"""The number of visible lines of a folded prompt or shell command."""
_LINE_CHARACTERS: Final = 100
"""The number of characters that count as one line."""


class ItemKind(StrEnum):
    """The author or the subject of an item."""

    USER = "user"
    ANSWER = "answer"
    THINKING = "thinking"
    CALL = "call"
    """A tool call with its output and result."""
    SHELL = "shell"
    """A shell command of the user."""
    NOTICE = "notice"
    """A notice for the user: one line or a few."""
    ERROR = "error"
    """An error, and what to do about it."""
    REPLY = "reply"
    """The reply of a slash command."""
    MARKER = "marker"
    """A recorded change: another mode, model or branch, a summary, a label."""


class TextForm(StrEnum):
    """The form of a text."""

    PLAIN = "plain"
    MARKDOWN = "markdown"
    DIFF = "diff"
    CODE = "code"


class CallState(StrEnum):
    """The progress of a call."""

    WAITING = "waiting"
    """It awaits a decision."""
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    DENIED = "denied"
    STOPPED = "stopped"


class ItemHint(StrEnum):
    """The next step that an item suggests; each interface has its own keys and commands for it."""

    RETRY = "retry"
    """The request can be repeated."""
    CONTINUE = "continue"
    """The run was interrupted or reached a limit, and can be continued."""
    RAISE_LIMIT = "raise_limit"
    """The response can be continued, or repeated with a higher limit."""
    EDIT = "edit"
    """The prompt was not sent, and can be edited."""
    RETRY_OR_EDIT = "retry_or_edit"
    SHOW_IGNORED = "show_ignored"
    """The fields that a server ignores can be listed."""
    SHOW_TREE = "show_tree"
    """The tree shows all entries."""


_STREAMED_KINDS: Final = frozenset({ItemKind.CALL, ItemKind.SHELL})
_USER_KINDS: Final = frozenset({ItemKind.USER, ItemKind.SHELL})


class ImageLocation(NamedTuple):
    """The position of an image in the log; its bytes are read when it is drawn."""

    entry: str
    block_index: int
    """The number of the block in its message."""


@final
@dataclass(eq=False, slots=True)
class TranscriptItem:
    """One item. Code that changes it, while it is streamed or runs, calls the sink."""

    kind: ItemKind
    head: str = ""
    """One line that is always shown, also if the rest is folded: `bash pytest -q`."""
    body: str = ""
    form: TextForm = TextForm.PLAIN
    language: str = ""
    """The Pygments name of the language of code; empty for other text."""
    state: CallState | None = None
    is_folded: bool = False
    is_open: bool = False
    """Whether more text follows, because the item is streamed or runs."""
    entry: str | None = None
    """The id of its entry; None if it is not recorded."""
    images: tuple[ImageLocation, ...] = ()
    """The images to draw below the text, if the terminal can."""
    note: str = ""
    """A short result after the head: `+1 -1`, `exit 1`."""
    hint: ItemHint | None = None
    chunks: list[str] = field(default_factory=list[str])
    """The text since `body` was last joined."""
    output: BoundedText[str] | None = None
    """The output of a running command so far; None before there is any."""
    is_joined: bool = True
    """Whether `body` is complete, except for the middle of a long output."""

    @property
    def can_fold(self) -> bool:
        """Whether the item can be folded: it has a body, or is a long prompt or shell command."""
        if self.kind in _USER_KINDS:
            return not self.is_short
        has_head = bool(self.head) or self.kind is ItemKind.THINKING
        return has_head and bool(self.body or not self.is_joined or self.images)

    @property
    def is_short(self) -> bool:
        """Whether the item fits into the lines of a folded item."""
        # Chunks that are not joined yet do not count: they belong to a running output.
        return max(self.body.count("\n"), len(self.body) // _LINE_CHARACTERS) <= FOLDED_LINES

    def append(self, text: str) -> None:
        """Add to the body; the cost does not depend on its length."""
        self.is_joined = False
        if self.kind not in _STREAMED_KINDS:
            self.chunks.append(text)
            return
        if self.output is None:
            self.output = BoundedText("".join, max_head=_HEAD_CHARACTERS, max_tail=_TAIL_CHARACTERS)
            self.output.add(self.body)
        self.output.add(text)

    def join_chunks(self) -> str:
        """Put the body together, and return it."""
        if self.is_joined:
            return self.body
        self.is_joined = True
        if self.output is None:
            self.body += "".join(self.chunks)
            self.chunks.clear()
        else:
            head, omitted, tail = self.output.ends()
            note = f"\n[... {omitted:,} characters are not shown while the command runs ...]\n"
            self.body = f"{head}{note if omitted else ''}{tail}"
        return self.body

    def replace_body(self, body: str, form: TextForm) -> None:
        """Replace the whole text."""
        self.chunks.clear()
        self.output, self.is_joined = None, True
        self.body, self.form = body, form


class ItemSink(Protocol):
    """Shows items; a screen, or a test."""

    def show_items(self, items: list[TranscriptItem]) -> None:
        """Show these items instead of all others."""
        ...

    def add_item(self, item: TranscriptItem) -> None:
        """Append an item."""
        ...

    def update_item(self, item: TranscriptItem) -> None:
        """Draw a changed item again."""
        ...

    def remove_item(self, item: TranscriptItem) -> None:
        """Remove an item."""
        ...


class SessionStatus(NamedTuple):
    """The values of a status line."""

    session: str | None
    """None if the session is not stored; empty before it is recorded."""
    title: str
    folder: str
    branch: str
    model: str
    mode: Mode
    usage: Usage
    """The usage of the active branch."""
    cost: Decimal | None
    """In dollars; None if no price is known."""
    context_tokens: int | None
    """Tokens of the last request; None if unknown."""
    context_limit: int | None
    """The context window of the model."""
