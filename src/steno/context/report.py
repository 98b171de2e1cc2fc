"""The model that a request is for, and the result of building one: the request and its changes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, NamedTuple, final

from steno.messages.change import Change
from steno.messages.request import Request
from steno.values import RedactedRepr


@final
class ModelTarget(RedactedRepr, frozen=True, kw_only=True):
    """The model that a request is for. None: not known, or the default of the provider."""

    shown: ClassVar[frozenset[str]] = frozenset({"model", "tool_choice"})

    model: str = ""
    context_tokens: int | None = None
    """The size of the context window, the response included; None: the conversation is not cut."""
    max_tokens: int | None = None
    """The greatest length of a response; room is left for it."""
    max_output_tokens: int | None = None
    """The longest response of the model: `max_tokens` is lowered to it."""
    resource_tokens: int | None = None
    """How much of the window all MCP resources together may take; None: all that is free."""
    vision: bool | None = None
    """False: it takes no images."""
    tools: bool | None = None
    """False: it takes no tools."""
    temperature: float | None = None
    top_p: float | None = None
    stop: tuple[str, ...] = ()
    tool_choice: str | None = None

    @property
    def response_tokens(self) -> int | None:
        """The greatest length of a response to ask for; None leaves it to the provider."""
        requested, limit = self.max_tokens, self.max_output_tokens
        return requested if requested is None or limit is None else min(requested, limit)


class BuiltRequest(NamedTuple):
    """A request, and a report of how it was built."""

    request: Request
    changes: tuple[Change, ...]
    tokens: int
    """About how many tokens the request takes, tools included."""
    sources: Sequence[str | None]
    """The entry of each message of the request; None for a message that is in no entry."""
    wants_compaction: bool = False
    """Whether shortening old tool results was not enough: a summary would be better than the
    messages that are left out now."""
    is_over_budget: bool = False
    """Whether the last message alone does not fit the context window, so that nothing is left
    out."""
    last_tokens: int = 0
    """About how many of the tokens the last message takes, which is never left out."""
    budget_tokens: int | None = None
    """How many tokens the messages may take; None if that is not known."""
