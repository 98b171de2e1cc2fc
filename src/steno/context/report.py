"""The model that a request is for, and the result of building one: the request and its changes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, NamedTuple, final

from steno.messages.change import Change
from steno.messages.request import Request
from steno.values import RedactedRepr


@final
class ModelTarget(RedactedRepr, frozen=True, kw_only=True):
    """The model that a request is for. None: unknown, or the provider's own default."""

    shown: ClassVar[frozenset[str]] = frozenset({"model", "tool_choice"})

    model: str = ""
    context_tokens: int | None = None
    """The tokens of its context window, the response included; None: no limit."""
    max_tokens: int | None = None
    """The most tokens of a response; room is left for it."""
    max_output_tokens: int | None = None
    """The most tokens that the model can send; no more are requested or reserved."""
    resource_tokens: int | None = None
    """The most tokens of all resources of servers together; None: as many as fit."""
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
        """The most tokens of a response to request; None leaves that to the provider."""
        wanted, most = self.max_tokens, self.max_output_tokens
        return wanted if wanted is None or most is None else min(wanted, most)


class BuiltRequest(NamedTuple):
    """A request, with the facts of building it."""

    request: Request
    changes: tuple[Change, ...]
    tokens: int
    """About how many tokens the request takes, tools included."""
    sources: Sequence[str | None]
    """The entry of each message of the request; None for messages without one."""
    wants_compaction: bool = False
    """Whether messages are left out, or still do not fit, after old tool results were shortened:
    a summary would be better."""
    is_over_budget: bool = False
    """Whether the request is larger than the context window: the last group alone does not fit,
    so nothing is left out."""
    last_tokens: int = 0
    """About how many tokens the last group takes, which is never left out."""
    room: int | None = None
    """The tokens of the context window that are left for messages; None if that is not known."""
