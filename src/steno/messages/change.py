"""Changes: content that is sent, shown to a model or exported differently from the log.

Wires, the context builder and file formats report changes as data. `code` is the kind of the
change and `reason` the particular case; both are stable. `steno.render.changes` has the sentences
for people, except that of `explain_repair`, which the log stores.
"""

from __future__ import annotations

import re
from enum import StrEnum
from typing import ClassVar, Final, NamedTuple, final

from steno.messages.order import ORDER_REMEDIES, OrderCode
from steno.values import RedactedRepr

_PLACE: Final = re.compile(
    r"(?:request\.)?(?P<member>[^.\[]*)(?:\[(?P<position>\d+)\])?\.?(?P<rest>.*)", re.DOTALL
)


class ChangeCode(StrEnum):
    """The kind of a change. The values are printed, and never change."""

    # Content that a wire cannot send as it is.
    SEAL = "seal"
    """A seal that the target would refuse, or has no place for."""
    THINKING = "thinking"
    """Thinking, where the target has no place for it."""
    CALL_ID = "call_id"
    """A call id that the target forbids, replaced by a hash of it."""
    TOOL_NAME = "tool_name"
    """A tool name that the target forbids, replaced by the name that steno has for it."""
    EXTRAS = "extras"
    """Members that only another wire knows, or that contradict the request itself."""
    OPAQUE = "opaque"
    """A block of another wire that is not understood."""
    IMAGE = "image"
    """An image, if the target accepts none, or not at this place."""
    REFERENCE = "reference"
    """A file or resource that was not resolved, sent as its name."""
    OUTCOME = "outcome"
    """The failure of a call, if the target has no flag for it."""
    INVALID_CALL = "invalid_call"
    """A call that cannot be run, sent with its raw text as its only argument."""
    SYSTEM = "system"
    """A system message at a place where the target accepts none."""
    ORDER = "order"
    """Adjacent messages that had to be merged, or the order of blocks in a message."""
    BLANK = "blank"
    """Text of white space only, which the target refuses."""
    TOOL = "tool"
    """A part of a tool definition that the target does not support."""
    SETTING = "setting"
    """A setting of the request that the target does not support."""

    # Content that the model sees differently from the log.
    REPAIRED = "repaired"
    """A call or a result that no provider would have accepted; the reason is an `OrderCode`."""
    COMPACTED = "compacted"
    """A summary replaces the messages before it."""
    SHORTENED = "shortened"
    """The middle of an old tool result or of a resource, left out to save room."""
    LEFT_OUT = "left_out"
    """The oldest messages, left out to save room."""
    RESOLVED = "resolved"
    """A file, an image or a resource that is shown with its content."""
    UNRESOLVED = "unresolved"
    """A reference that was never resolved: the model sees its name."""
    UNREADABLE = "unreadable"
    """A reference that could not be read: the model sees a note."""
    IMAGE_LEFT_OUT = "image_left_out"
    """An image, for a model that accepts none."""
    RESOURCE_LEFT_OUT = "resource_left_out"
    """A resource of an MCP server that was not used recently, left out to save room."""
    TOOLS_LEFT_OUT = "tools_left_out"
    """The definitions of tools, for a model that accepts none."""
    FEEDBACK = "feedback"
    """Feedback on an earlier message, sent as a separate message."""
    MODE = "mode"
    """The note that a mode adds to the system message."""
    REDACTED = "redacted"
    """A message whose content was redacted."""
    UNKNOWN = "unknown"
    """An entry that this version of steno does not understand."""
    IGNORED = "ignored"
    """An entry about another that is not on this branch."""

    # Content that a file of another program does not contain.
    NOT_EXPORTED = "not_exported"
    """A part of the session that the format cannot express."""


class PlaceParts(NamedTuple):
    """The parts of a place such as `messages[3].content[1]`."""

    member: str
    """The member of the request: `messages`, `tools`, `max_tokens`."""
    position: int | None
    """The index in that member; None if it is not a list, or the place is the whole member."""
    rest: str
    """The place in the element at that index: `content[1]`."""


@final
class Change(RedactedRepr, frozen=True):
    """One part of the log that is sent, shown or exported differently. It contains no content."""

    shown: ClassVar[frozenset[str]] = frozenset({"reason", "place", "entry", "value", "names"})

    code: ChangeCode
    reason: str
    """The particular case of the code, in snake_case: stable, for programs."""
    place: str = ""
    """The place in the request or file: `messages[3].content[1]`; empty if `entry` is set."""
    entry: str | None = None
    """The id of the entry that changed; None if the change is not about one entry."""

    value: str = ""
    """The name or id that is sent instead, or the wire, tool, outcome or mode concerned."""
    names: tuple[str, ...] = ()
    """The members, keywords or fields that are left out."""
    number: int | None = None
    """The number of the block, the number of items left out, or the limit that was set."""

    @property
    def place_parts(self) -> PlaceParts:
        """The place, split into its parts."""
        found = _PLACE.fullmatch(self.place)
        assert found is not None
        position = None if found["position"] is None else int(found["position"])
        return PlaceParts(found["member"], position, found["rest"])

    def __str__(self) -> str:
        place = self.place or self.entry
        return f"{place}: {self.code} ({self.reason})" if place else f"{self.code} ({self.reason})"


def explain_repair(change: Change) -> str:
    """Return the explanation of a change, as the log records it."""
    if change.code is ChangeCode.REPAIRED:
        return f"{change.reason}: {ORDER_REMEDIES[OrderCode(change.reason)]}"
    return f"block {change.number}: the resource is left out to save room; a note is sent instead"
