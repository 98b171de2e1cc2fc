"""A store of plain files: one for each session, a line for each record.

`session_file` reads and writes the lines of a file, `blobs` keeps the bytes that records refer to,
and `store` puts them together.
"""

from steno.store.jsonl.store import JsonlStore

__all__ = ["JsonlStore"]
