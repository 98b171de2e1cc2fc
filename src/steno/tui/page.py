"""What blocks are put on, for those who tell what happens; see `transcript.view`."""

from __future__ import annotations

from typing import Protocol

from steno.tui.block import Block


class Page(Protocol):
    """What blocks are put on."""

    def show_items(self, blocks: list[Block]) -> None:
        """Show these and nothing else."""
        ...

    def add_item(self, block: Block) -> None:
        """Put a block at the end."""
        ...

    def update_item(self, block: Block) -> None:
        """Draw a block anew: it has changed."""
        ...

    def remove_item(self, block: Block) -> None:
        """Take a block away."""
        ...
