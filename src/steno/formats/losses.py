"""Find what a format does not say of a message: whatever its table of words does not hold."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeAlias, final

from steno.content import OWN_FORMAT, Image, ImageData, Opaque
from steno.entry import Entry
from steno.formats.format import Loss
from steno.message import AssistantMessage, Message
from steno.record import Header
from steno.usage import Usage
from steno.value import Value

Words: TypeAlias = Mapping[type, frozenset[str]]
"""The fields that a format can say, by the type of the message, block or count."""


@final
class Losses:
    """Collects what is left out."""

    def __init__(self, format: str, words: Words) -> None:
        self._format = format
        self._words = words
        self._found: list[Loss] = []

    def note(self, place: str, what: str) -> None:
        """Note one more loss."""
        self._found.append(Loss(place, what))

    def leave_out(self, place: str, names: Iterable[str]) -> bool:
        """Note what is left out at a place; tell whether that is anything."""
        found = list(names)
        if found:
            self.note(place, "left out: " + ", ".join(found))
        return bool(found)

    def of_header(self, header: Header, said: frozenset[str] = frozenset()) -> None:
        """Note what is known of the session and has no place."""
        about = set(header.about or ()) - {self._format}
        self.leave_out(
            "session",
            [
                name
                for name, _ in header.set_fields()
                if name not in said and (name != "about" or about)
            ],
        )

    def of_entry(self, entry: Entry) -> list[str]:
        """Return what an entry knows beyond its message; what was kept for us is none of it."""
        names = ["decision"] if entry.decision is not None else []
        if entry.unknown and entry.is_understood:
            names.append("unknown members")
        if entry.audit is not None and set(entry.audit) != {self._format}:
            names.append("audit")
        return names

    def of_message(self, message: Message) -> list[str]:
        """Return what of a message has no words here."""
        names = self._unsaid(message)
        if isinstance(message, AssistantMessage) and "usage" in self._words[AssistantMessage]:
            names += [f"usage.{name}" for name in self._unsaid(message.usage or Usage())]
        for number, block in enumerate(message.content):
            at = f"content[{number}]"
            if self.has_words_for(block):
                names += [f"{at}.{name}" for name in self._unsaid(block)]
            else:
                names.append(f"{at} ({block.__struct_config__.tag})")
        return names

    def has_words_for(self, block: Value) -> bool:
        """Tell whether a block can be said at all."""
        if isinstance(block, Image) and not isinstance(block.source, ImageData):
            return False
        if isinstance(block, Opaque):
            return block.origin == OWN_FORMAT and Opaque in self._words
        return type(block) in self._words

    def _unsaid(self, value: Value) -> list[str]:
        said = self._words[type(value)]
        return [name for name, _ in value.set_fields() if name not in said]

    def result(self) -> tuple[Loss, ...]:
        """Return everything that was noted."""
        return tuple(self._found)
