"""Record which response of a model answers the images that the model received.

An image is a block of a prompt, or the content of an MCP resource that the prompt refers to.
The answer to an image is the next complete response with text and without tool calls. If the run
ends before such a response, it is the first complete response with text to a request with the
image. An image has at most one answer on a branch. An image that was sent as text, or not at all,
has none.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple, TypeAlias, final

from steno.agent.recorder import RunRecorder
from steno.context import BuiltRequest, Change, ChangeCode
from steno.messages.content import Image, ImageData, ImageUrl
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
        """Yield the recorded block of each image of the request that was sent as an image."""
        built = self.built
        if not built.block_sources:  # nearly always
            return
        left_out = {
            (place.position, place.rest)
            for place in [c.place_parts for c in self.losses if c.code is ChangeCode.IMAGE]
            if place.member == "messages"
        }
        for position, entry_id in enumerate(built.sources):
            numbers = built.block_sources.get(entry_id or "")
            if entry_id is None or numbers is None or (position, "") in left_out:
                continue
            content = built.request.messages[position].content
            for at, (block, number) in enumerate(zip(content, numbers, strict=True)):
                if _has_image(block) and (position, f"content[{at}]") not in left_out:
                    yield entry_id, number


def _has_image(block: object) -> bool:
    """Return whether a block contains the bytes or the URL of an image."""
    return isinstance(block, Image) and isinstance(block.source, (ImageData, ImageUrl))


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
        responses = dict.fromkeys(sent.image_places(), response.id)
        if _is_answer(message):
            self._record(responses, answer=response.id)
        else:
            self._first_responses = responses | self._first_responses

    def close(self) -> None:
        """Link the images that are still without an answer at the end of the run."""
        self._record(self._first_responses)

    def _record(self, responses: Mapping[_BlockPlace, str], *, answer: str | None = None) -> None:
        if responses:
            for analysis in reversed([*self._find_links(responses, answer)]):
                self._recorder.record(analysis)

    def _find_links(
        self, responses: Mapping[_BlockPlace, str], answer: str | None
    ) -> Iterator[ImageAnalysis]:
        """Yield a link for each image without one since the answer before `answer`, last first."""
        linked: set[_BlockPlace] = set()
        for entry in reversed(self._recorder.conversation.entries_view()):
            match entry.payload:
                case ImageAnalysis(target=target, block=number):
                    linked.add((target, number))
                case AssistantMessage() as message if entry.id != answer and _is_answer(message):
                    return
                case UserMessage(content=content):
                    for number in reversed(range(len(content))):
                        place = (entry.id, number)
                        if place in responses and place not in linked:
                            yield ImageAnalysis(
                                target=entry.id, block=number, answer=responses[place]
                            )
                case _:
                    pass


def _is_answer(message: AssistantMessage) -> bool:
    return _has_complete_text(message) and not message.tool_calls


def _has_complete_text(message: AssistantMessage) -> bool:
    return bool((message.text or "").strip()) and message.stop_reason not in _INCOMPLETE
