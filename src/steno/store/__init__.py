"""Stores: where conversations are kept so that nothing is lost.

    with open_store("sqlite:work.db") as store:
        conversation = store.new()
        conversation.append(ChatMessage.user("Hello"))

One class for each kind of store, loaded when it is asked for.
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
