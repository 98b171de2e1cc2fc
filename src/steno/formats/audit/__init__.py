"""The audit log as JSON: who said and did what, and what was decided about it.

    {"entries": [
      {"id": "…", "timestamp": "2026-02-10T15:30:06Z",
       "message": {"type": "assistant_action", "tool_name": "fs.read",
                   "tool_args": {"path": "README.md"}, "tool_id": "c1"},
       "decision": "tool_call_approved",
       "audit": {"tool": "fs.read", "actor": "ada"}}]}

A message is `user`, `assistant_text`, `system_context` (with `content`), `assistant_action`,
`tool_result` or `tool_error`. A turn of several texts and calls becomes as many entries, `ID`,
`ID#1` and so on. What is not a message is a `system_context` whose decision names it. A call that
was decided about shows that as its decision, where its turn has none of its own.

Reading it again gives equal entries. Where the plain shape does not say all of a payload, the
payload stands in `audit` under `steno`, in the stored format; where it does not say all of an
entry, the entry stands there under `steno_entry`. These count when they are there, and what is
shown beside them is for people. What others write beyond these names is kept in the extras of
the message, and what they have to say in messages of other types is kept as `Opaque`.
"""

from steno.formats.audit.read import decode
from steno.formats.audit.write import encode

__all__ = ["decode", "encode"]
