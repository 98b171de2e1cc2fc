r"""Rows of a database: kind, content and data_json, as an array or one row a line.

    {"id": 7, "kind": "tool_call", "content": null,
     "data_json": "{\"tool_call_id\":\"c1\",\"name\":\"read\",\"arguments\":\"{}\"}"}

`user` and `assistant` rows are messages, `tool_call` is a call and `tool_result` (once `tool`) the
answer to one. `system` rows are put together to the system message, which comes first. Each row
becomes an entry, but for two cases: while calls await their results, further calls and words of
the assistant belong to the same turn, since no other turn may begin there; and rows that were
written from one turn (`ID`, `ID#1`, ...) become one again. Any other kind of row is kept as it is,
never sent, and written back where it was.

The columns that we would write otherwise are kept in the audit data of the entry, so that rows
that were read are written as they were.
"""

from steno.formats.rows.read import decode
from steno.formats.rows.row import message_of_row
from steno.formats.rows.write import encode

__all__ = ["decode", "encode", "message_of_row"]
