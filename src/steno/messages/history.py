"""The linear history of a chat: messages in a valid order, safe to use from many threads."""

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
    """Messages of one chat, the system message first, user and assistant taking turns.

    With `alternating=False` neither is required: any message but a result may come first, and
    turns may follow each other; calls and their results are still paired.

    Adding checks the order in constant time and changes nothing if it fails. A reader gets the
    messages of that moment, while other threads continue to write.
    """

    def __init__(self, messages: Iterable[ChatMessage] = (), *, alternating: bool = True) -> None:
        """Start with `messages`.

        Raises OutOfOrder for the first that is out of order, InvalidMessage for anything but a
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
        # A new list, not an emptied one: snapshots taken before keep reading the old.
        self._messages: list[Message] = []
        self._order = OrderState(alternating=self._alternating)

    def add(self, message: ChatMessage) -> None:
        """Append `message`. Raises OutOfOrder, with the rule, if it may not come next."""
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
        """Remove all messages; the next one is the first again, under the same rules."""
        with self._lock:
            self._reset()

    @property
    def messages(self) -> tuple[Message, ...]:
        """All messages at this moment."""
        with self._lock:
            return tuple(self._messages)

    @property
    def last(self) -> Message | None:
        """The newest message, or None."""
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
                OrderCode.CALL_UNANSWERED, f"tool results are missing ({missing})", position=turn
            )

    def __reduce__(
        self,
    ) -> tuple[Callable[[tuple[Message, ...]], ConversationHistory], tuple[tuple[Message, ...]]]:
        # Copies and pickles are made from the messages, because a lock cannot be copied.
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
