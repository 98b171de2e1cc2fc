"""Words and calls that are still growing: what an Assembler collects until somebody asks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias, final

from steno.call import AnyToolCall, InvalidToolCall, Seal, build_call, outside_name
from steno.content import Image, Opaque, Text, Thinking
from steno.value import join_surrogates, replace_lone_surrogates

Extras: TypeAlias = dict[str, dict[str, Any]]
"""Members by wire, as they are collected."""


@final
class Words:
    """Text or thinking that is still growing."""

    __slots__ = ("extras", "index", "kind", "parts", "redacted", "seal")

    def __init__(self, kind: type[Text | Thinking], index: int, redacted: bool) -> None:
        """Start without a word."""
        self.kind = kind
        self.index = index
        self.redacted = redacted
        self.parts: list[str] = []
        self.seal: Seal | None = None
        self.extras: Extras | None = None

    def build(self) -> Text | Thinking | None:
        """Make the block of what there is; None where there is nothing."""
        words = replace_lone_surrogates("".join(self.parts))
        if not words and self.seal is None and self.extras is None:
            return None
        if self.kind is Text:
            return Text(words, seal=self.seal, extras=self.extras)
        redacted = self.redacted and self.seal is not None
        return Thinking(words, seal=self.seal, redacted=redacted, extras=self.extras)


@final
class Call:
    """A call that is still growing. `number` counts the calls of this message from 0."""

    __slots__ = (
        "built",
        "depth",
        "extras",
        "has_ended",
        "has_opened",
        "id",
        "in_string",
        "index",
        "is_escaped",
        "made_id",
        "name",
        "number",
        "parts",
        "scanned",
        "seal",
    )

    def __init__(self, number: int, index: int | None, id: str | None, name: str | None) -> None:
        """Start without arguments."""
        self.number = number
        self.index = index
        self.id = id
        self.name = name
        self.parts: list[str] = []
        self.seal: Seal | None = None
        self.extras: Extras | None = None
        self.has_ended = False
        self.scanned = self.depth = 0
        self.in_string = self.is_escaped = self.has_opened = False
        self.made_id: str | None = None
        self.built: AnyToolCall | None = None

    def build(self, new_id: Callable[[], str]) -> AnyToolCall:
        """Make the call of what there is; again only if something came since the last time."""
        if self.built is None:
            if self.id is None and self.made_id is None:
                self.made_id = new_id()  # kept apart: the provider's own id may still come
            call_id = self.id or self.made_id or ""
            arguments = join_surrogates("".join(self.parts))
            self.built = build_call(
                call_id, self.name or "", arguments, seal=self.seal, extras=self.extras
            )
        return self.built

    def build_truncated(self, new_id: Callable[[], str]) -> AnyToolCall:
        """Make the call of an answer that broke off: nobody may run one without its arguments."""
        call = self.build(new_id)
        if self.has_ended or any(self.parts) or isinstance(call, InvalidToolCall):
            return call
        return InvalidToolCall(
            id=call.id,
            name=outside_name(call),
            reason="tool call: the answer broke off before its arguments",
            seal=call.seal,
            extras=call.extras,
        )

    def is_complete(self) -> bool:
        """Tell whether every bracket of the arguments is closed; reads each fragment once."""
        for part in self.parts[self.scanned :]:
            for mark in part:
                if self.is_escaped:
                    self.is_escaped = False
                elif mark == "\\":
                    self.is_escaped = self.in_string
                elif mark == '"':
                    self.in_string = not self.in_string
                elif not self.in_string:
                    self.depth += (mark in "[{") - (mark in "]}")
                    self.has_opened = self.has_opened or self.depth > 0
        self.scanned = len(self.parts)
        return self.has_opened and self.depth == 0 and not self.in_string


Draft: TypeAlias = Words | Call | Image | Opaque


def add_extras(found: Extras | None, news: Mapping[str, Mapping[str, Any]]) -> Extras:
    """Add members to those of their wires; the later ones hold."""
    merged: Extras = {} if found is None else found
    for wire, members in news.items():
        merged.setdefault(wire, {}).update(members)
    return merged


def is_another(call: Call, index: int | None, name: str | None) -> bool:
    """Tell whether a server uses one id for two calls: index and name, or arguments, say so."""
    if None in (index, call.index, name, call.name) or index == call.index:
        return False
    return name != call.name or call.is_complete()
