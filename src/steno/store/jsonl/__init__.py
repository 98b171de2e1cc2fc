"""A store of plain files: one for each session, a line for each record.

`files` knows the operating system, `log` what the lines of a file amount to, `blobs` the bytes
beside them, and `store` puts them together.
"""

from steno.store.jsonl.store import JsonlStore

__all__ = ["JsonlStore"]
