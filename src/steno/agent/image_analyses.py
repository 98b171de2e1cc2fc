"""Record which response of a model answers the images that the model received.

An image is a block of a prompt, or the content of an MCP resource that the prompt refers to.
The answer to an image is the next complete response with text and without tool calls. If the run
ends before such a response, it is the first complete response with text to a request with the
image. An image has at most one answer on a branch. An image that was sent as text, or not at all,
has none.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias, final

from steno.agent.recorder import RunRecorder
from steno.context import BuiltRequest
from steno.messages.change import Change, ChangeCode
from steno.messages.message import AssistantMessage, UserMessage
from steno.messages.usage import StopReason
from steno.records.entry import Entry, ImageAnalysis

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
    """Records the links of one run from images to the responses that answer them."""

    def __init__(self, recorder: RunRecorder) -> None:
        self._recorder = recorder
        self._first_responses: dict[_BlockPlace, str] = {}
        """The id of the first complete response with text to each block."""

    def add_response(self, response: Entry, sent: SentRequest) -> None:
        """Link the images to a response, if it answers them."""
        message = response.payload
        if not isinstance(message, AssistantMessage) or not _has_complete_text(message):
            return
        if not sent.built.images:  # nearly always
            return
        places = self._unlinked_blocks(before=response.id)
        responses = dict.fromkeys(sent.image_places(), response.id)
        if _is_answer(message):
            self._record(places, responses)
        else:
            self._first_responses = responses | self._first_responses

    def close(self) -> None:
        """Link the images that are still without an answer at the end of the run."""
        if self._first_responses:
            self._record(self._unlinked_blocks(), self._first_responses)

    def _record(self, places: Sequence[_BlockPlace], responses: Mapping[_BlockPlace, str]) -> None:
        for target, number in places:
            answer = responses.get((target, number))
            if answer is not None:
                self._recorder.record(ImageAnalysis(target=target, block=number, answer=answer))

    def _unlinked_blocks(self, *, before: str | None = None) -> list[_BlockPlace]:
        """Return the blocks without a link of the prompts since the last answer, in order.

        `before` is the id of a response that does not count as the last answer.
        """
        linked: set[_BlockPlace] = set()
        places: list[_BlockPlace] = []
        for entry in reversed(self._recorder.conversation.entries_view()):
            match entry.payload:
                case ImageAnalysis(target=target, block=number):
                    linked.add((target, number))
                case AssistantMessage() as message if entry.id != before and _is_answer(message):
                    break
                case UserMessage(content=content):
                    blocks = [(entry.id, number) for number in reversed(range(len(content)))]
                    places += [place for place in blocks if place not in linked]
                case _:
                    pass
        return places[::-1]


def _is_answer(message: AssistantMessage) -> bool:
    return _has_complete_text(message) and not message.tool_calls


def _has_complete_text(message: AssistantMessage) -> bool:
    return bool((message.text or "").strip()) and message.stop_reason not in _INCOMPLETE
