"""What a story is made of: a branch as people read it, whatever they read it on.

Everything in a story is printable. How it looks is none of its business.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from steno.formats.format import Loss


class Said(NamedTuple):
    """Words as somebody put them."""

    text: str


class Answer(NamedTuple):
    """Words of a model: Markdown."""

    text: str


class Thoughts(NamedTuple):
    """What a model thought before it spoke; Markdown, to be folded."""

    text: str


class Remark(NamedTuple):
    """A line of ours."""

    text: str


class Listing(NamedTuple):
    """Text that is shown letter by letter: arguments, a result, a diff."""

    title: str
    """On one line; may be empty."""
    text: str
    language: str = ""
    is_folded: bool = False


class Picture(NamedTuple):
    """An image."""

    name: str
    mime_type: str = ""
    data: bytes | None = None
    """None where it is only named."""


Passage: TypeAlias = Said | Answer | Thoughts | Remark | Listing | Picture


class Part(NamedTuple):
    """What is told of one entry."""

    number: int
    """What people call the entry: #12."""
    kind: str
    """Who speaks (`user`, `assistant`, `tool_result`, `system`), or what else it is."""
    title: str
    is_message: bool
    facts: tuple[str, ...]
    """When, by whom, how many tokens."""
    sections: tuple[Passage, ...]


class Decision(NamedTuple):
    """A line of the table of decisions."""

    number: int
    time: str
    tool: str
    status: str
    by: str
    reason: str


class Story(NamedTuple):
    """Everything that is told of a branch."""

    title: str
    facts: tuple[tuple[str, str], ...]
    """What is known of the whole, by its name."""
    entries: tuple[Part, ...]
    decisions: tuple[Decision, ...]
    usage_by_model: tuple[tuple[str, str], ...]
    """The tokens of each model, in words; the model may be unknown."""
    losses: tuple[Loss, ...]
    """What the story does not tell."""
