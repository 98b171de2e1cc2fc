"""Resources of servers in messages of the person: how much they take, and which go first.

Those that nobody has used for the longest time go first. One that was pointed at again stands
there twice, and the earlier one is of no more use. Nothing here shows or changes a message.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple, TypeAlias, final

from steno.content import Resource
from steno.context.showing import Extent, HeldResource
from steno.context.tokens import Count, block_tokens

Place: TypeAlias = tuple[int, int]
"""Where a resource stands: the position of the message among what was said, and the block."""


class _Copy(NamedTuple):
    """A resource at one place."""

    resource: HeldResource
    extent: Extent


@final
class Shelf:
    """Everything of servers that the messages of a conversation hold."""

    def __init__(self) -> None:
        """Start with nothing."""
        self._copies: Final[dict[int, dict[int, _Copy]]] = {}
        self._last_used: Final[dict[tuple[str, str], int]] = {}
        """The number of the last entry that points at each, or tells what it is."""
        self._latest: Final[dict[tuple[str, str], Place]] = {}
        self._tokens: Final[dict[Place, int]] = {}

    def mark_used(self, block: object, number: int) -> None:
        """Take note that the entry of a number is about a block, should that be a resource."""
        if isinstance(block, Resource):
            self._last_used[block.server, block.uri] = number

    def set_resources(
        self, position: int, resources: Mapping[int, HeldResource], extents: Mapping[int, Extent]
    ) -> None:
        """Take what a message holds now, in place of what it held."""
        for block in self._copies.pop(position, ()):
            self._tokens.pop((position, block), None)
        if not resources:
            return
        self._copies[position] = {
            block: _Copy(held, extents.get(block, Extent.WHOLE))
            for block, held in resources.items()
        }
        for block, held in resources.items():
            self._latest[held.key] = max((position, block), self._latest.get(held.key, (0, 0)))

    def tokens(self, positions: range, count: Count) -> int:
        """Return how many tokens it takes in the messages at these positions."""
        return sum([self._copy_tokens(place, copy, count) for place, copy in self._within(positions)])

    def choose_reductions(
        self,
        positions: range,
        extents: Iterable[Extent],
        *,
        count: Count,
        excess: int,
        spare: int,
    ) -> dict[Place, Extent]:
        """Return how much less to show in the messages at these positions, to save some tokens.

        What goes to the first of the extents is enough if that saves the excess, and goes on until
        there is some to spare; only then is the next one tried.
        """
        shown = sorted(self._within(positions), key=self._removal_rank)
        sizes = {place: self._copy_tokens(place, copy, count) for place, copy in shown}
        chosen: dict[Place, Extent] = {}
        for extent in extents:
            if excess <= 0:
                break
            for place, copy in shown:
                if excess + spare <= 0:
                    break
                if copy.extent >= extent:
                    continue
                tokens = _tokens_of(copy.resource, extent, count)
                if tokens < sizes[place]:
                    excess -= sizes[place] - tokens
                    chosen[place], sizes[place] = extent, tokens
        return chosen

    def _within(self, positions: range) -> list[tuple[Place, _Copy]]:
        return [
            ((position, block), copy)
            for position, copies in self._copies.items()
            if position in positions
            for block, copy in copies.items()
        ]

    def _removal_rank(self, at: tuple[Place, _Copy]) -> tuple[bool, int, Place]:
        """Return what sorts to the front what is missed least."""
        place, copy = at
        name = copy.resource.key
        return self._latest[name] == place, self._last_used[name], place

    def _copy_tokens(self, place: Place, copy: _Copy, count: Count) -> int:
        if place not in self._tokens:
            self._tokens[place] = _tokens_of(copy.resource, copy.extent, count)
        return self._tokens[place]


def _tokens_of(held: HeldResource, extent: Extent, count: Count) -> int:
    return sum([block_tokens(block, count) for block in held.blocks_for(extent)])
