"""A page for tests of what is told: it only keeps what is put on it."""

from __future__ import annotations

from typing import Any

from steno import Conversation
from steno.render.items import ItemKind, TranscriptItem
from steno.ui.tui.transcript_state import TranscriptState


class ItemRecorder:
    """A page that only keeps what is put on it."""

    def __init__(self) -> None:
        self.blocks: list[TranscriptItem] = []
        self.touched = 0

    def show_items(self, blocks: list[TranscriptItem]) -> None:
        self.blocks = blocks

    def add_item(self, block: TranscriptItem) -> None:
        self.blocks.append(block)

    def update_item(self, block: TranscriptItem) -> None:
        self.touched += 1

    def remove_item(self, block: TranscriptItem) -> None:
        if block in self.blocks:
            self.blocks.remove(block)

    def seen(self) -> list[tuple[Any, ...]]:
        """Return everything that a person could see of what is on record."""
        return [
            (b.kind, b.head, b.join_chunks(), b.form, b.language, b.state, b.is_folded, b.entry)
            for b in self.blocks
            if b.entry is not None
        ]

    def of(self, kind: ItemKind) -> list[TranscriptItem]:
        return [block for block in self.blocks if block.kind is kind]


def make_transcript_state() -> tuple[TranscriptState, ItemRecorder]:
    sheet = ItemRecorder()
    return TranscriptState(sheet), sheet


def read_back(conversation: Conversation) -> ItemRecorder:
    told, sheet = make_transcript_state()
    told.load(conversation.entries())
    return sheet
