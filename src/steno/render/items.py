"""The items of a transcript, and the values of a status line.

An item is a text, a call with its result, or a notice. It contains the unchanged text of a model, a
tool or a user; the code that draws the item makes the text printable.

Only the beginning and the end of a running command's output are retained, so that endless output
cannot exhaust the memory. The log has a separate limit.
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
"""The number of characters retained at the end of a running command's output."""
FOLDED_LINES: Final = 20
"""The number of visible lines of a folded prompt or shell command."""
_LINE_CHARACTERS: Final = 100
"""The number of characters that count as one line, since long lines are wrapped."""


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
    """A notice for the user, one or a few lines long."""
    ERROR = "error"
    """An error message with its remedy."""
    REPLY = "reply"
    """The reply of a slash command."""
    MARKER = "marker"
    """A recorded change, such as a new mode, model, branch, summary or label."""


class TextForm(StrEnum):
    """The format of an item's text."""

    PLAIN = "plain"
    MARKDOWN = "markdown"
    DIFF = "diff"
    CODE = "code"


class CallState(StrEnum):
    """The progress of a tool call, a shell command or a prompt."""

    WAITING = "waiting"
    """A call that awaits a decision, or a queued prompt."""
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    DENIED = "denied"
    STOPPED = "stopped"


class ItemHint(StrEnum):
    """The next step that an item suggests; each interface has its own text for each hint."""

    RETRY = "retry"
    """The request can be sent again."""
    CONTINUE = "continue"
    """The run was interrupted or reached a limit, and can be continued."""
    RAISE_LIMIT = "raise_limit"
    """The response was truncated. It can be continued, or requested again with a higher limit."""
    EDIT = "edit"
    """The prompt was not sent, and can be edited."""
    RETRY_OR_EDIT = "retry_or_edit"
    SHOW_IGNORED = "show_ignored"
    """The fields that a server ignores can be listed."""
    SHOW_TREE = "show_tree"
    """The tree lists all entries."""


_STREAMED_KINDS: Final = frozenset({ItemKind.CALL, ItemKind.SHELL})
_USER_KINDS: Final = frozenset({ItemKind.USER, ItemKind.SHELL})


class ImageLocation(NamedTuple):
    """The position of an image in the log; the bytes are read when the image is drawn."""

    entry: str
    block_index: int
    """The index of the image block in the content of its message."""


@final
@dataclass(eq=False, slots=True)
class TranscriptItem:
    """One item of a transcript; code that changes an item calls `ItemSink.update_item`."""

    kind: ItemKind
    head: str = ""
    """One line that is visible even if the item is folded, such as `bash pytest -q`."""
    body: str = ""
    form: TextForm = TextForm.PLAIN
    language: str = ""
    """The Pygments name of the language of code; empty for other text."""
    state: CallState | None = None
    is_folded: bool = False
    is_open: bool = False
    """Whether more text may follow, because the item is being streamed or is running."""
    entry: str | None = None
    """The id of the recorded entry; None if the item is not recorded."""
    images: tuple[ImageLocation, ...] = ()
    """The images to draw below the text if the terminal supports images."""
    note: str = ""
    """A short result after the head, such as `+1 -1` or `exit 1`."""
    hint: ItemHint | None = None
    chunks: list[str] = field(default_factory=list[str])
    """The text that was appended after `body` was last joined."""
    output: BoundedText[str] | None = None
    """The output of a running command so far; None if there is no output yet."""
    is_joined: bool = True
    """Whether `body` contains all appended text, except for the middle of a long output."""

    @property
    def can_fold(self) -> bool:
        """Whether the item has enough content to be folded."""
        if self.kind in _USER_KINDS:
            return not self.is_short
        has_head = bool(self.head) or self.kind is ItemKind.THINKING
        return has_head and bool(self.body or not self.is_joined or self.images)

    @property
    def is_short(self) -> bool:
        """Whether the body fits into the visible lines of a folded item."""
        # Chunks that are not joined yet do not count, because they belong to a running command.
        return max(self.body.count("\n"), len(self.body) // _LINE_CHARACTERS) <= FOLDED_LINES

    def append(self, text: str) -> None:
        """Append text to the body; the cost does not depend on the length of the body."""
        self.is_joined = False
        if self.kind not in _STREAMED_KINDS:
            self.chunks.append(text)
            return
        if self.output is None:
            self.output = BoundedText("".join, max_head=_HEAD_CHARACTERS, max_tail=_TAIL_CHARACTERS)
            self.output.add(self.body)
        self.output.add(text)

    def join_chunks(self) -> str:
        """Add all appended text to the body, and return the body."""
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
        """Replace the body and its format, and discard all appended text."""
        self.chunks.clear()
        self.output, self.is_joined = None, True
        self.body, self.form = body, form


class ItemSink(Protocol):
    """Displays the items of a transcript, for example on a screen."""

    def show_items(self, items: list[TranscriptItem]) -> None:
        """Replace all displayed items."""
        ...

    def add_item(self, item: TranscriptItem) -> None:
        """Append an item at the end of the transcript."""
        ...

    def update_item(self, item: TranscriptItem) -> None:
        """Redraw an item that has changed."""
        ...

    def remove_item(self, item: TranscriptItem) -> None:
        """Remove an item from the transcript."""
        ...


class SessionStatus(NamedTuple):
    """The values of a status line, such as the model, the mode and the usage."""

    session: str | None
    """The session id; None if the session is not stored, empty before it is recorded."""
    title: str
    folder: str
    branch: str
    model: str
    mode: Mode
    usage: Usage
    """The usage of the active branch."""
    cost: Decimal | None
    """The cost of the active branch in dollars; None if no price is known."""
    context_tokens: int | None
    """The size of the context, response included, in tokens; None if it is unknown."""
    context_limit: int | None
    """The context window of the model in tokens; None if it is unknown."""
