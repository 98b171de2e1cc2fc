"""The stop reason and the token usage of a model's turn."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any, Final, NoReturn, TypeAlias, final

from msgspec import Meta

from steno.values import NOTHING, Value, check_fields, is_prechecked, refuse

_TokenCount: TypeAlias = Annotated[int, Meta(ge=0)]


class StopReason(StrEnum):
    """The reason why a model ended its turn, normalized across providers."""

    END_TURN = "end_turn"
    LENGTH = "length"
    TOOL_USE = "tool_use"
    CONTENT_FILTER = "content_filter"
    PAUSE = "pause"
    ERROR = "error"
    ABORTED = "aborted"
    UNKNOWN = "unknown"


@final
class Usage(Value, frozen=True, kw_only=True):
    """Token counts as reported by the provider. A count that was not reported is None, not 0.

    `input_tokens` includes cached tokens and `output_tokens` includes thinking tokens, even if the
    provider reports these separately.
    """

    input_tokens: _TokenCount | None = None
    output_tokens: _TokenCount | None = None
    cache_read_tokens: _TokenCount | None = None
    cache_write_tokens: _TokenCount | None = None
    thinking_tokens: _TokenCount | None = None

    def __post_init__(self) -> None:
        if is_prechecked():
            return
        counts = (
            self.input_tokens,
            self.output_tokens,
            self.cache_read_tokens,
            self.cache_write_tokens,
            self.thinking_tokens,
        )
        for count in counts:
            if count is not None and (type(count) is not int or count < 0):
                self._refuse_count()
        if self.unknown is not NOTHING:
            check_fields(self)

    def _refuse_count(self) -> NoReturn:
        check_fields(self)
        field = next(name for name in _COUNT_FIELDS if (getattr(self, name) or 0) < 0)
        refuse(self, "token counts must not be negative", code="out_of_range", field=field)

    @property
    def total_tokens(self) -> int:
        """The sum of input and output tokens, where a count that was not reported counts as 0."""
        return (self.input_tokens or 0) + (self.output_tokens or 0)

    def __add__(self, other: Usage) -> Usage:
        """Add two usages field by field; a field of the sum is None only if both are None.

        Members that this version of steno does not know are dropped.
        """
        if not isinstance(other, Usage):
            return NotImplemented
        counts: dict[str, Any] = {name: _add_counts(self, other, name) for name in _COUNT_FIELDS}
        return Usage(**counts)


_COUNT_FIELDS: Final = tuple(name for name in Usage.__struct_fields__ if name != "unknown")


def _add_counts(first: Usage, second: Usage, name: str) -> int | None:
    counts = [count for value in (first, second) if (count := getattr(value, name)) is not None]
    return sum(counts) if counts else None
