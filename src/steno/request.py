"""A request: everything that one turn of a model depends on."""

from __future__ import annotations

from typing import ClassVar, Final, final

from steno.errors import InvalidRequest
from steno.message import ChatMessage, Message, MessageRole
from steno.tool import ToolDefinition
from steno.value import Value, is_text

_HIGHEST_TEMPERATURE: Final = 2


@final
class Request(Value, frozen=True, kw_only=True):
    """What is sent to a model. None and the empty model mean the provider's own default.

    The rules here hold for every provider; a wire adds those of its own.
    """

    shown: ClassVar[frozenset[str]] = frozenset({"model"})

    messages: tuple[Message, ...]
    model: str = ""
    tools: tuple[ToolDefinition, ...] = ()
    max_tokens: int | None = None
    temperature: float | None = None

    def __post_init__(self) -> None:
        if not is_text(self.model):
            raise InvalidRequest("request: model must be a string")
        if type(self.messages) is not tuple or not self.messages:
            raise InvalidRequest("request: messages must be a tuple with at least one message")
        for position, message in enumerate(self.messages):
            if not isinstance(message, ChatMessage):
                raise InvalidRequest(f"request: messages[{position}] is not a message")
        self._check_tools()
        if self.max_tokens is not None and (
            type(self.max_tokens) is not int or self.max_tokens < 1
        ):
            raise InvalidRequest("request: max_tokens must be a whole number above 0")
        if self.temperature is not None and not 0 <= self.temperature <= _HIGHEST_TEMPERATURE:
            raise InvalidRequest("request: temperature must be between 0 and 2")

    def _check_tools(self) -> None:
        if type(self.tools) is not tuple:
            raise InvalidRequest("request: tools must be a tuple of ToolDefinition")
        names: set[str] = set()
        for position, tool in enumerate(self.tools):
            if type(tool) is not ToolDefinition:
                raise InvalidRequest(f"request: tools[{position}] is not a ToolDefinition")
            if tool.name in names:
                raise InvalidRequest(f"request: tools[{position}] has the name of an earlier tool")
            names.add(tool.name)

    @property
    def system_prompt(self) -> str | None:
        """The text of the system messages, for wires that want it out of band."""
        texts = [m.text for m in self.messages if m.role is MessageRole.SYSTEM and m.text]
        return "\n\n".join(texts) if texts else None
