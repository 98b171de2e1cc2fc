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
        self._supported = words
        self._found: list[Loss] = []

    def add(self, place: str, what: str) -> None:
        """Note one more loss."""
        self._found.append(Loss(place, what))

    def add_omitted(self, place: str, names: Iterable[str]) -> bool:
        """Note what is left out at a place; tell whether that is anything."""
        found = list(names)
        if found:
            self.add(place, "left out: " + ", ".join(found))
        return bool(found)

    def add_header(self, header: Header, said: frozenset[str] = frozenset()) -> None:
        """Note what is known of the session and has no place."""
        about = set(header.about or ()) - {self._format}
        self.add_omitted(
            "session",
            [
                name
                for name, _ in header.non_default_fields()
                if name not in said and (name != "about" or about)
            ],
        )

    def omitted_of_entry(self, entry: Entry) -> list[str]:
        """Return what an entry knows beyond its message; what was kept for us is none of it."""
        names = ["decision"] if entry.decision is not None else []
        if entry.unknown and entry.is_understood:
            names.append("unknown members")
        if entry.audit is not None and set(entry.audit) != {self._format}:
            names.append("audit")
        return names

    def omitted_of_message(self, message: Message) -> list[str]:
        """Return what of a message has no words here."""
        names = self._omitted_fields(message)
        if isinstance(message, AssistantMessage) and "usage" in self._supported[AssistantMessage]:
            names += [f"usage.{name}" for name in self._omitted_fields(message.usage or Usage())]
        for number, block in enumerate(message.content):
            at = f"content[{number}]"
            if self.supports_block(block):
                names += [f"{at}.{name}" for name in self._omitted_fields(block)]
            else:
                names.append(f"{at} ({block.__struct_config__.tag})")
        return names

    def supports_block(self, block: Value) -> bool:
        """Tell whether a block can be said at all."""
        if isinstance(block, Image) and not isinstance(block.source, ImageData):
            return False
        if isinstance(block, Opaque):
            return block.origin == OWN_FORMAT and Opaque in self._supported
        return type(block) in self._supported

    def _omitted_fields(self, value: Value) -> list[str]:
        said = self._supported[type(value)]
        return [name for name, _ in value.non_default_fields() if name not in said]

    def result(self) -> tuple[Loss, ...]:
        """Return everything that was noted."""
        return tuple(self._found)
