"""Example files of the formats, from the documents that describe them."""

from __future__ import annotations

# The example of the document, with its "..." filled in.
AUDIT_EXAMPLE = b"""{
  "entries": [
    {
      "id": "uuid-1",
      "timestamp": "2026-02-10T15:30:00Z",
      "message": {"type": "user", "content": "read the README"},
      "decision": "fs_read_permission_requested",
      "audit": {"permission": "CapFSRead", "granted": true, "user_confirmed": true}
    },
    {
      "id": "uuid-2",
      "timestamp": "2026-02-10T15:30:05Z",
      "message": {"type": "assistant_text", "content": "I'll read the README file for you."},
      "decision": "planning",
      "audit": {}
    },
    {
      "id": "uuid-3",
      "timestamp": "2026-02-10T15:30:06Z",
      "message": {"type": "assistant_action", "tool_name": "fs.read", "tool_args": {"path": "README.md"}},
      "decision": "tool_call_approved",
      "audit": {"tool": "fs.read", "permission_verified": true}
    },
    {
      "id": "uuid-4",
      "timestamp": "2026-02-10T15:30:07Z",
      "message": {"type": "tool_result", "tool_name": "fs.read", "success": true, "result": {"lines": 3}},
      "decision": "tool_executed_successfully",
      "audit": {"execution_time_ms": 42, "result_size_bytes": 1024}
    }
  ]
}"""

SESSION_EXAMPLE = rb"""{
  "version": 1,
  "id": "session-id",
  "system_prompt": "You are...",
  "created_at": "2026-02-18T12:00:00Z",
  "updated_at": "2026-02-18T12:05:00Z",
  "messages": [
    {
      "type": "user",
      "content": [
        {"type": "text", "text": "Fix the login bug"}
      ],
      "timestamp": "2026-02-18T12:00:00Z"
    },
    {
      "type": "assistant",
      "content": [
        {"type": "text", "text": "I'll look at the auth module."},
        {"type": "tool_call", "id": "tc_1", "name": "read", "arguments": {"path": "auth.go"}}
      ],
      "stop_reason": "tool_use",
      "raw_stop_reason": "tool_use",
      "usage": {"input_tokens": 150, "output_tokens": 42},
      "timestamp": "2026-02-18T12:00:01Z"
    },
    {
      "type": "tool_result",
      "tool_call_id": "tc_1",
      "tool_name": "read",
      "content": [
        {"type": "text", "text": "package auth\n..."}
      ],
      "is_error": false,
      "timestamp": "2026-02-18T12:00:02Z"
    }
  ]
}"""
