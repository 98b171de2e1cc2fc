"""Record which response of a model answers the images that the model received.

An image is a block of a prompt, or the content of an MCP resource that the prompt refers to.
The answer to an image is the next complete response with text and without tool calls. If the run
ends before such a response, it is the first complete response with text to a request with the
image. An image has at most one answer on a branch. An image that was sent as text, or not at all,
has none.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple, TypeAlias, final

from steno.agent.recorder import RunRecorder
from steno.context import BuiltRequest
from steno.messages.change import Change, ChangeCode
from steno.messages.content import ReferenceBlock
from steno.messages.message import AssistantMessage, UserMessage
from steno.messages.usage import StopReason
from steno.records.entry import Entry, ImageAnalysis, Payload

_INCOMPLETE: Final = (StopReason.PAUSE, StopReason.ABORTED, StopReason.ERROR)

_BlockPlace: TypeAlias = tuple[str, int]
"""The entry id of a message, and the number of a block in it."""


class SentRequest(NamedTuple):
    """A request that a model has answered."""

    built: BuiltRequest
    losses: tuple[Change, ...]
    """The changes that the provider made to the request."""

    def image_places(self) -> Iterator[_BlockPlace]:
        """Yield the recorded block of each image that was sent as an image."""
        left_out = {
            (place.position, place.rest)
            for place in [c.place_parts for c in self.losses if c.code is ChangeCode.IMAGE]
            if place.member == "messages"
        }
        for image in self.built.images:
            places = {(image.position, ""), (image.position, f"content[{image.number}]")}
            if left_out.isdisjoint(places):
                yield image.entry_id, image.recorded_number


@final
class ImageAnalysisRecorder:
    """Records the links of one run from images to the responses that answer them.

    Each entry is read once, so the cost of a response depends only on the entries since the last
    one and on the images of its request.
    """

    def __init__(self, recorder: RunRecorder) -> None:
        self._recorder = recorder
        self._unlinked: dict[_BlockPlace, str | None] = {}
        """The references without a link in the user messages since the last answer, each with the
        id of the first complete response with text to its image; None if there is none yet."""
        self._last_read: Entry | None = None

    def add_response(self, response: Entry, sent: SentRequest) -> None:
        """Link the images to a response, if it answers them."""
        message = response.payload
        if not isinstance(message, AssistantMessage) or not _has_complete_text(message):
            return
        self._read_log(before=response)
        self._last_read = response
        if not self._unlinked:  # nearly always
            return
        for place in dict.fromkeys(sent.image_places()):
            if place not in self._unlinked:
                continue
            if _is_answer(message):
                self._link(place, response.id)
            elif self._unlinked[place] is None:
                self._unlinked[place] = response.id

    def close(self) -> None:
        """Link the images that are still without an answer at the end of the run."""
        self._read_log()
        for place, answer in self._unlinked.items():
            if answer is not None:
                self._link(place, answer)

    def _link(self, place: _BlockPlace, answer: str) -> None:
        target, number = place
        self._recorder.record(ImageAnalysis(target=target, block=number, answer=answer))

    def _read_log(self, *, before: Entry | None = None) -> None:
        """Read the new entries, or those since the last answer if the branch was rewound.

        `before` is a response that does not count as the last answer.
        """
        unread: list[Entry] = []
        found: dict[_BlockPlace, str | None] = {}
        for entry in reversed(self._recorder.conversation.entries_view()):
            if entry is not before and _is_answer(entry.payload):
                break
            if entry is self._last_read:
                found = self._unlinked
                break
            unread.append(entry)
        unread_ids = {entry.id for entry in unread}
        for entry in reversed(unread):
            match entry.payload:
                case UserMessage(content=content):
                    for number, block in enumerate(content):
                        if isinstance(block, ReferenceBlock):
                            # After a rewind, the first response may still be on the branch.
                            first = self._unlinked.get((entry.id, number))
                            found[entry.id, number] = first if first in unread_ids else None
                case ImageAnalysis(target=target, block=number):
                    found.pop((target, number), None)
                case _:
                    pass
        self._unlinked = found


def _is_answer(payload: Payload) -> bool:
    return (
        isinstance(payload, AssistantMessage)
        and _has_complete_text(payload)
        and not payload.tool_calls
    )


def _has_complete_text(message: AssistantMessage) -> bool:
    return bool((message.text or "").strip()) and message.stop_reason not in _INCOMPLETE
