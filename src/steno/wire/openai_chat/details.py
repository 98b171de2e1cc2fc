"""Details of reasoning, as OpenRouter sends them: in fragments, and wanted back whole."""

from __future__ import annotations

from typing import Any, Final

from steno.wire.open import Rest, read_as

_GROWING: Final = frozenset({"text", "summary", "data"})
"""What comes in fragments."""
_DETAILS: Final = list[dict[str, Any]]


class _Fragments(list[str]):
    """A text that grows, told apart from lists that a server sends."""


def thinking_of(rest: Rest) -> str:
    """Return the words in the details of a message, of servers that say them only there."""
    details = read_as(rest.get("reasoning_details"), _DETAILS) or ()
    texts = [detail.get("text") or detail.get("summary") for detail in details]
    return "".join([text for text in texts if isinstance(text, str)])


def add_detail(details: list[dict[str, Any]], news: dict[str, Any]) -> None:
    """Add a fragment to the detail it continues: the last one of the same kind and index."""
    if not details or _is_another(details[-1], news):
        details.append({})
    for name, value in news.items():
        known = details[-1].get(name)
        if name in _GROWING and isinstance(value, str):
            if not isinstance(known, _Fragments):
                known = details[-1][name] = _Fragments()
            known.append(value)
        elif known is None or value is not None:
            details[-1][name] = value


def _is_another(last: dict[str, Any], news: dict[str, Any]) -> bool:
    """Tell whether a fragment begins a detail; an id may come with the first alone."""
    if any(last.get(key) != news.get(key) for key in ("type", "index")):
        return True
    return None not in (last.get("id"), news.get("id")) and last["id"] != news["id"]


def joined_detail(detail: dict[str, Any]) -> dict[str, Any]:
    """Return a detail with its fragments put together."""
    return {
        name: "".join(value) if isinstance(value, _Fragments) else value
        for name, value in detail.items()
    }
