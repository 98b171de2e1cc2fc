"""The log of a conversation: entries in a tree, their hash chain, branches, queries and blobs.

    from steno import ChatMessage

    conversation = Conversation()
    conversation.append(ChatMessage.user("Hello"))
    total_usage(conversation.entries())

A store (`steno.store`) opens conversations whose entries are durable.
"""

from steno.log.conversation import Conversation
from steno.log.queries import (
    EntryQuery,
    Price,
    VisionAnalysis,
    cost_of,
    entry_decision,
    labels_of,
    result_code,
    select_entries,
    total_usage,
    vision_analyses,
)

__all__ = [
    "Conversation",
    "EntryQuery",
    "Price",
    "VisionAnalysis",
    "cost_of",
    "entry_decision",
    "labels_of",
    "result_code",
    "select_entries",
    "total_usage",
    "vision_analyses",
]
