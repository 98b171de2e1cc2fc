"""The log of a conversation: entries in a tree, their hash chain, branches, queries and blobs.

    from steno import ChatMessage

    conversation = Conversation()
    conversation.append(ChatMessage.user("Hello"))
    total_usage(conversation.entries())

A store (`steno.store`) opens conversations whose entries are durable.
"""

import typing as _typing
from collections.abc import Callable as _Callable

from steno.lazy_exports import lazy_exports as _lazy_exports

if _typing.TYPE_CHECKING:
    from steno.log.conversation import Conversation
    from steno.log.queries import (
        EntryQuery,
        Price,
        cost_of,
        entry_decision,
        labels_of,
        result_code,
        select_entries,
        total_usage,
    )

__all__ = [
    "Conversation",
    "EntryQuery",
    "Price",
    "cost_of",
    "entry_decision",
    "labels_of",
    "result_code",
    "select_entries",
    "total_usage",
]

__getattr__: _Callable[[str], object] = _lazy_exports(
    __name__,
    {
        "steno.log.conversation": ("Conversation",),
        "steno.log.queries": (
            "EntryQuery",
            "Price",
            "cost_of",
            "entry_decision",
            "labels_of",
            "result_code",
            "select_entries",
            "total_usage",
        ),
    },
)
