"""A thread-safe linear chat history that accepts messages only in a valid order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import islice
from threading import Lock
from typing import final

from steno.errors import InvalidMessage, OutOfOrder
from steno.messages.message import ChatMessage, Message, as_messages
from steno.messages.order import OrderCode, OrderState


@final
class ConversationHistory:
    """The messages of one chat: the system message first, then user and assistant alternating.

    With `alternating=False`, any message except a tool result may be first, and one role may send
    several messages in a row. In both modes every tool call needs a result before the next turn.

    `add` checks the order in constant time and leaves the history unchanged if the check fails.
    Readers get a snapshot of the messages, even while other threads add to the history.
    """

    def __init__(self, messages: Iterable[ChatMessage] = (), *, alternating: bool = True) -> None:
        """Create a history that contains `messages`.

        Raises OutOfOrder if a message is out of order, and InvalidMessage if an element is not a
        message.
        """
        self._lock = Lock()
        self._alternating = alternating
        self._reset()
        if not isinstance(messages, Iterable):
            raise InvalidMessage(
                "messages must be an iterable of messages", code="not_iterable", place="history"
            )
        for message in messages:
            self.add(message)

    def _reset(self) -> None:
        # A new list instead of list.clear(): iterators created earlier still read the old list.
        self._messages: list[Message] = []
        self._order = OrderState(alternating=self._alternating)

    def add(self, message: ChatMessage) -> None:
        """Append `message`. Raises OutOfOrder if the order of messages does not allow it."""
        if not isinstance(message, ChatMessage):
            raise InvalidMessage(
                "only messages can be added", code="not_a_message", place="history"
            )
        with self._lock:
            try:
                self._order = self._order.after(message)
            except OutOfOrder as exc:
                position = len(self._messages)
                raise OutOfOrder(exc.code, exc.explanation, position) from None
            self._messages += as_messages((message,))

    def clear(self) -> None:
        """Remove all messages. The value of `alternating` does not change."""
        with self._lock:
            self._reset()

    @property
    def messages(self) -> tuple[Message, ...]:
        """A snapshot of all messages."""
        with self._lock:
            return tuple(self._messages)

    @property
    def last(self) -> Message | None:
        """The newest message; None if the history is empty."""
        with self._lock:
            return self._messages[-1] if self._messages else None

    @property
    def outstanding(self) -> tuple[str, ...]:
        """Ids of the calls that have no result yet."""
        with self._lock:
            return self._order.outstanding

    def check_complete(self) -> None:
        """Raise OutOfOrder if the history is empty, or a call has no result yet."""
        with self._lock:
            order, length = self._order, len(self._messages)
        if order.last_role is None:
            raise OutOfOrder(OrderCode.SYSTEM_MISSING, "the history is empty")
        if order.outstanding:
            missing = len(order.outstanding)
            turn = length - 1 - len(order.answered)
            raise OutOfOrder(
                OrderCode.CALL_UNANSWERED, f"tool calls without a result: {missing}", position=turn
            )

    def __reduce__(
        self,
    ) -> tuple[Callable[[tuple[Message, ...]], ConversationHistory], tuple[tuple[Message, ...]]]:
        # Copies and pickles are rebuilt from the messages, because a lock cannot be copied.
        return partial(ConversationHistory, alternating=self._alternating), (self.messages,)

    def __len__(self) -> int:
        return len(self._messages)

    def __iter__(self) -> Iterator[Message]:
        with self._lock:
            return islice(self._messages, len(self._messages))

    def __repr__(self) -> str:
        with self._lock:
            count, outstanding = len(self._messages), len(self._order.outstanding)
        messages = "1 message" if count == 1 else f"{count} messages"
        return f"ConversationHistory(<{messages}>, outstanding={outstanding})"
