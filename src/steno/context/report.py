"""The model that a request is for, and the result of building one: the request and its changes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, NamedTuple, final

from steno.messages.change import Change
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
