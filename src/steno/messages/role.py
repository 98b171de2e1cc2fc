"""The roles of a conversation: the sender of a message."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from steno.errors import InvalidMessage


class MessageRole(StrEnum):
    """The sender of a message. The value is stored; `int(role)` numbers the roles from 0."""

    SYSTEM = "system", 0
    USER = "user", 1
    ASSISTANT = "assistant", 2
    TOOL = "tool", 3

    _number: int

    # The default is for type checkers only, so that MessageRole("user") is a call they know.
    def __new__(cls, text: str, number: int = -1) -> MessageRole:
        """Make a member that is its text and knows its number."""
        role = str.__new__(cls, text)
        role._value_ = text
        role._number = number
        return role

    @property
    def number(self) -> int:
        """The place of the role, from 0."""
        return self._number

    def __int__(self) -> int:
        return self._number

    @classmethod
    def parse(cls, text: str) -> MessageRole:
        """Read a role in any case. Raises InvalidMessage for an unknown one."""
        try:
            return _ROLE_BY_TEXT[text.lower()]
        except (KeyError, AttributeError, TypeError):
            raise InvalidMessage(
                "must be system, user, assistant or tool", code="unknown_role", place="role"
            ) from None


_ROLE_BY_TEXT: Final = {role.value: role for role in MessageRole}
