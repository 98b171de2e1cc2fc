"""A store of plain files: one for each session, a line for each record."""

from steno.store.jsonl.store import JsonlStore

__all__ = ["JsonlStore"]
