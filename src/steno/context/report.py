"""Who a request is for, what came of building it, and what was changed on the way."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import ClassVar, NamedTuple, final

from steno.messages.request import Request
from steno.values import RedactedRepr


@final
class ModelTarget(RedactedRepr, frozen=True, kw_only=True):
    """The model that a request is for. None: nobody said, or the provider's own default."""

    shown: ClassVar[frozenset[str]] = frozenset({"model", "tool_choice"})

    model: str = ""
    context_tokens: int | None = None
    """How much it reads at once, its answer included; None leaves the conversation as long as it is."""
    max_tokens: int | None = None
    """How long an answer may be; room is left for it."""
    max_output_tokens: int | None = None
    """How much it says at once; no more is asked for, and no more room is left."""
    resource_tokens: int | None = None
    """How much of it all resources of servers together may take; None: whatever there is room for."""
    vision: bool | None = None
    """False: it takes no images."""
    tools: bool | None = None
    """False: it takes no tools."""
    temperature: float | None = None
    top_p: float | None = None
    stop: tuple[str, ...] = ()
    tool_choice: str | None = None

    @property
    def answer_tokens(self) -> int | None:
        """How long an answer is asked to be at most; None leaves that to the provider."""
        asked, most = self.max_tokens, self.max_output_tokens
        return asked if asked is None or most is None else min(asked, most)


class ChangeCode(StrEnum):
    """What kind of thing a model sees otherwise than it is on record."""

    REPAIRED = "repaired"
    """A call or a result that no provider would have accepted."""
    COMPACTED = "compacted"
    """A summary stands for what was said before."""
    SHORTENED = "shortened"
    """The middle of an old tool result or of a resource, left out to save room."""
    LEFT_OUT = "left_out"
    """The oldest messages, left out to save room."""
    RESOLVED = "resolved"
    """A file, an image or a resource, and what it turned out to be."""
    UNRESOLVED = "unresolved"
    """One that nobody has resolved: the model sees its name."""
    UNREADABLE = "unreadable"
    """One that could not be read."""
    IMAGE_LEFT_OUT = "image_left_out"
    """An image, for a model that takes none."""
    RESOURCE_LEFT_OUT = "resource_left_out"
    """A resource of a server, left out to save room: nobody has pointed at it lately."""
    TOOLS_LEFT_OUT = "tools_left_out"
    """The definitions of tools, for a model that takes none."""
    FEEDBACK = "feedback"
    """A remark on an earlier message, told by a message of its own."""
    MODE = "mode"
    """What the mode adds to the system message."""
    REDACTED = "redacted"
    """A message whose content was taken out of the record."""
    UNKNOWN = "unknown"
    """An entry that this version of steno does not understand."""
    IGNORED = "ignored"
    """An entry about another that is not on this branch."""


@final
class Change(RedactedRepr, frozen=True, kw_only=True):
    """One thing that the model sees otherwise than it is on record; never what it says."""

    shown: ClassVar[frozenset[str]] = frozenset({"code", "entry", "explanation"})

    code: ChangeCode
    explanation: str
    entry: str | None = None
    """The id of the entry that it is about; None where that is none in particular."""

    def __str__(self) -> str:
        return f"{self.explanation} ({self.code})"


class BuiltRequest(NamedTuple):
    """A request, and how it came about."""

    request: Request
    changes: tuple[Change, ...]
    tokens: int
    """About how many the request takes, tools included."""
    sources: Sequence[str | None]
    """The entry that each message of the request is from; None for what stands in no entry."""
    wants_compaction: bool = False
    """Whether old tool results were shortened and that was not enough: a summary would be better
    than what is left out now."""
    is_over_budget: bool = False
    """Whether the request is still larger than the model reads at once: what was said last does
    not fit, so nothing is left out either."""
    last_tokens: int = 0
    """About how many of the tokens are what was said last, which is never left out."""
    room: int | None = None
    """How many tokens of what was said it reads at once; None if that is not known."""
