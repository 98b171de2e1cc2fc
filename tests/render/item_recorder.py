"""A page for tests of what is told: it only keeps what is put on it."""

from __future__ import annotations

from typing import Any

from steno import Conversation
from steno.render.items import ItemKind, TranscriptItem
from steno.render.live_items import LiveItems


class ItemRecorder:
    """A page that only keeps what is put on it."""

    def __init__(self) -> None:
        self.blocks: list[TranscriptItem] = []
        self.touched = 0

    def show_items(self, items: list[TranscriptItem]) -> None:
        self.blocks = items

    def add_item(self, item: TranscriptItem) -> None:
        self.blocks.append(item)

    def update_item(self, item: TranscriptItem) -> None:
        self.touched += 1

    def remove_item(self, item: TranscriptItem) -> None:
        if item in self.blocks:
            self.blocks.remove(item)

    def seen(self) -> list[tuple[Any, ...]]:
        """Return everything that a person could see of what is on record."""
        return [
            (b.kind, b.head, b.join_chunks(), b.form, b.language, b.state, b.is_folded, b.entry)
            for b in self.blocks
            if b.entry is not None
        ]

    def of(self, kind: ItemKind) -> list[TranscriptItem]:
        return [item for item in self.blocks if item.kind is kind]


def make_live_items() -> tuple[LiveItems, ItemRecorder]:
    recorder = ItemRecorder()
    return LiveItems(recorder), recorder


def read_back(conversation: Conversation) -> ItemRecorder:
    state, recorder = make_live_items()
    state.load(conversation.entries())
    return recorder
