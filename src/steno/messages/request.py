"""The `Request` type, which holds all input for one turn of a model."""

from __future__ import annotations

from typing import ClassVar, Final, final

from steno.errors import InvalidRequest, InvalidValue
from steno.messages.message import Message, MessageRole
from steno.messages.tool import ToolDefinition
from steno.values import Sendable, check_fields, refuse

MAX_TEMPERATURE: Final = 2
"""The highest temperature of a request; a protocol or a vendor may have a lower maximum."""


@final
class Request(Sendable, frozen=True, kw_only=True):
    """The input for one turn. A field that is None, or an empty `model`, selects the default.

    The rules checked here apply to every provider; each wire adds its own.
    """

    shown: ClassVar[frozenset[str]] = frozenset({"model"})
    error_class: ClassVar[type[InvalidValue]] = InvalidRequest

    messages: tuple[Message, ...]
    model: str = ""
    tools: tuple[ToolDefinition, ...] = ()
    max_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    stop: tuple[str, ...] = ()
    """Stop sequences: the turn ends when the model generates one of them."""
    tool_choice: str | None = None
    """"auto", "none", "required" (any tool), or the name of one of `tools`."""

    def __post_init__(self) -> None:
        check_fields(self)
        if not self.messages:
            refuse(self, "messages must not be empty", code="empty", field="messages")
        names: set[str] = set()
        for position, tool in enumerate(self.tools):
            if tool.name in names:
                field = f"tools[{position}]"
                rule = f"{field} has the same name as an earlier tool"
                refuse(self, rule, code="duplicate_tool_name", field=field)
            names.add(tool.name)
        if self.max_tokens is not None and self.max_tokens < 1:
            refuse(self, "max_tokens must be above 0", code="out_of_range", field="max_tokens")
        if self.temperature is not None and not 0 <= self.temperature <= MAX_TEMPERATURE:
            rule = f"temperature must be between 0 and {MAX_TEMPERATURE}"
            refuse(self, rule, code="out_of_range", field="temperature")

    @property
    def system_prompt(self) -> str | None:
        """The joined text of the system messages, for wires that send it in a separate field."""
        texts = [m.text for m in self.messages if m.role is MessageRole.SYSTEM and m.text]
        return "\n\n".join(texts) if texts else None
