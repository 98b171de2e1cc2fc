"""Messages side by side that some servers want as one, since their templates take turns."""

from __future__ import annotations

from typing import Any

from msgspec import Raw

Part = dict[str, Any] | Raw


def is_neighbour(first: dict[str, Any], second: dict[str, Any], thinking: str | None) -> bool:
    """Tell whether two messages are one turn, and have nothing that would get lost in one."""
    if first["role"] != second["role"] or first["role"] not in ("user", "assistant"):
        return False
    merged = {"role", "content", "tool_calls", thinking}
    return all(
        first.get(name) == second.get(name) for name in (first.keys() | second.keys()) - merged
    )


def merge(first: dict[str, Any], second: dict[str, Any], thinking: str | None) -> dict[str, Any]:
    """Make one message of two neighbours."""
    contents = [message["content"] for message in (first, second) if message.get("content")]
    merged = first | second
    if all(isinstance(content, str) for content in contents):
        merged["content"] = "\n\n".join(contents) if contents else None
    else:
        merged["content"] = [part for content in contents for part in _as_parts(content)]
    calls = [*(first.get("tool_calls") or ()), *(second.get("tool_calls") or ())]
    if thinking is not None:
        thoughts = [message[thinking] for message in (first, second) if message.get(thinking)]
        merged |= {thinking: "\n\n".join(thoughts)} if thoughts else {}
    return merged | ({"tool_calls": calls} if calls else {})


def _as_parts(content: str | list[Part]) -> list[Part]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else content
