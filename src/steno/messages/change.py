"""Changes: differences between the log and the content that is sent, shown to a model or exported.

Wires, the context builder and file formats report changes as data. `code` is the kind of change
and `reason` the specific case; both are stable. `steno.render.changes` contains human-readable
explanations. Only the explanation that `explain_repair` returns is stored in the log.
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
    """The kind of a change. Programs may rely on the values, which are stable."""

    # Content that a wire cannot send unchanged. The target is the API that receives the request.
    SEAL = "seal"
    """A seal that the target would refuse or has no field for."""
    THINKING = "thinking"
    """Thinking that the target has no field for."""
    CALL_ID = "call_id"
    """A call id that the target forbids, replaced by a hash of the id."""
    TOOL_NAME = "tool_name"
    """A tool name that the target forbids, replaced by a valid name."""
    EXTRAS = "extras"
    """Members that belong to another wire, or that contradict the request."""
    OPAQUE = "opaque"
    """A block of another wire that steno does not understand."""
    IMAGE = "image"
    """An image that the target does not accept at all, or not at this position."""
    REFERENCE = "reference"
    """A file or resource that was not resolved, sent as its name, its address or a description."""
    OUTCOME = "outcome"
    """The failure of a tool call, for a target that has no error flag."""
    INVALID_CALL = "invalid_call"
    """A call that cannot be run, sent with its raw text as its only argument."""
    SYSTEM = "system"
    """A system message at a position where the target accepts none."""
    ORDER = "order"
    """Adjacent messages that were merged, or blocks that were reordered within a message."""
    BLANK = "blank"
    """Text that is empty or consists of whitespace, which the target refuses."""
    TOOL = "tool"
    """A part of a tool definition that the target does not support."""
    SETTING = "setting"
    """A setting of the request that the target does not support."""

    # Content that differs between the log and the input of the model.
    REPAIRED = "repaired"
    """A call or result that providers would refuse; the reason is an `OrderCode`."""
    COMPACTED = "compacted"
    """A summary replaces the messages before it."""
    CLEARED = "cleared"
    """The context was cleared; the messages before the clear are not sent."""
    SHORTENED = "shortened"
    """The middle of an old tool result or of a resource, left out to save room."""
    LEFT_OUT = "left_out"
    """The oldest messages, left out to save room."""
    RESOLVED = "resolved"
    """A file, an image or a resource that is shown with its content."""
    UNRESOLVED = "unresolved"
    """A reference that was never resolved; the model receives its name."""
    UNREADABLE = "unreadable"
    """A reference that could not be read; the model receives a note."""
    IMAGE_LEFT_OUT = "image_left_out"
    """An image, left out for a model that does not accept images."""
    RESOURCE_LEFT_OUT = "resource_left_out"
    """A resource of an MCP server that was not used recently, left out to save room."""
    TOOLS_LEFT_OUT = "tools_left_out"
    """The tool definitions, left out for a model that does not support tools."""
    FEEDBACK = "feedback"
    """Feedback on an earlier message, sent as a separate message."""
    MODE = "mode"
    """The note that a mode adds to the system message."""
    REDACTED = "redacted"
    """A message whose content was redacted."""
    UNKNOWN = "unknown"
    """An entry that this version of steno does not understand."""
    IGNORED = "ignored"
    """An entry that refers to an entry on another branch."""

    # Content that is missing in a file exported for another program.
    NOT_EXPORTED = "not_exported"
    """A part of the session that the format cannot express."""


class PlaceParts(NamedTuple):
    """The parts of a place such as `messages[3].content[1]`."""

    member: str
    """The member of the request: `messages`, `tools`, `max_tokens`."""
    position: int | None
    """The index in that member; None if the place has no index."""
    rest: str
    """The remaining path within the element at that index: `content[1]`."""


@final
class Change(RedactedRepr, frozen=True):
    """A report, without content, that part of the log is sent, shown or exported differently."""

    shown: ClassVar[frozenset[str]] = frozenset(
        {"reason", "place", "entry", "value", "names", "kind"}
    )

    code: ChangeCode
    reason: str
    """The specific case of the code, in snake_case; stable, so that programs may rely on it."""
    place: str = ""
    """The place in the request or file: `messages[3].content[1]`; empty if `entry` is set."""
    entry: str | None = None
    """The id of the entry that changed; None if the change is not about one entry."""

    value: str = ""
    """The name or id that is sent instead, or the wire, tool, outcome, mode or type concerned."""
    names: tuple[str, ...] = ()
    """The members, keywords or fields that are left out."""
    number: int | None = None
    """The number of the block, the number of items left out, or the limit that was set."""
    target: str = ""
    """The path, address or MIME type of the reference concerned, or the id of the call.

    An address has no user, password, query, fragment or embedded data. It is not part of `repr`.
    """
    kind: str = ""
    """The type of the block that is left out; empty if the block has none."""

    @property
    def place_parts(self) -> PlaceParts:
        """The `place`, split into member, index and remaining path."""
        found = _PLACE.fullmatch(self.place)
        assert found is not None
        position = None if found["position"] is None else int(found["position"])
        return PlaceParts(found["member"], position, found["rest"])

    def __str__(self) -> str:
        place = self.place or self.entry
        return f"{place}: {self.code} ({self.reason})" if place else f"{self.code} ({self.reason})"


def explain_repair(change: Change) -> str:
    """Return the explanation of a repair or an omitted resource, as the log records it.

    It contains the code of a repair and its remedy. `steno.render.changes` has the sentences about
    what was done.
    """
    if change.code is ChangeCode.REPAIRED:
        return f"{change.reason}: {ORDER_REMEDIES[OrderCode(change.reason)]}"
    return (
        f"block {change.number} ({change.target}): the resource is left out to save room;"
        " a note is sent instead"
    )
