"""Durable storage for conversations.

    with open_store("sqlite:work.db") as store:
        conversation = store.new()
        conversation.append(ChatMessage.user("Hello"))

Each kind of store is one class, imported when a store of that kind is opened.
"""

from steno.store.base import Blob, SearchHit, SessionOverview, Store, convert_store
from steno.store.locate import default_address, open_store
from steno.store.memory import MemoryStore

__all__ = [
    "Blob",
    "MemoryStore",
    "SearchHit",
    "SessionOverview",
    "Store",
    "convert_store",
    "default_address",
    "open_store",
]
