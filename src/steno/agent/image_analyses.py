"""Record which response of a model answers the images that the model received.

An image is a block of a prompt, or the content of an MCP resource that the prompt refers to.
The answer to an image is the next complete response with text and without tool calls. If the run
ends before such a response, it is the first complete response with text after the image. An image
has at most one answer on a branch. An image that was sent as text, or not at all, has none.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple, final

from steno.agent.recorder import RunRecorder
from steno.context import BuiltRequest, Change, ChangeCode
from steno.context.branch_state import build_model_view
from steno.messages.content import Image, Resource
from steno.messages.message import AssistantMessage, UserMessage
from steno.messages.usage import StopReason
from steno.records.entry import Entry, ImageAnalysis, Resolution

_REDUCTIONS: Final = (ChangeCode.SHORTENED, ChangeCode.RESOURCE_LEFT_OUT)
_INCOMPLETE: Final = (StopReason.PAUSE, StopReason.ABORTED, StopReason.ERROR)


class SentRequest(NamedTuple):
    """A request that a model has answered."""

    built: BuiltRequest
    vision: bool | None
    """Whether the model accepts images; None if unknown."""
    losses: tuple[Change, ...]
    """The changes that the provider made to the request."""

    def contains_image(
        self, entry: Entry, number: int, block: Image | Resource, resolution: Resolution | None
    ) -> bool:
        """Return whether a block of the message in an entry was sent as an image."""
        sources = self.built.sources
        position = next((n for n, source in enumerate(sources) if source == entry.id), None)
        left_out_at = [c.place_parts.position for c in self.losses if c.code is ChangeCode.IMAGE]
        if position is None or position in left_out_at or self._is_reduced(entry, number):
            return False
        view = build_model_view(
            UserMessage((block,)),
            entry_id=entry.id,
            vision=self.vision,
            resolutions={} if resolution is None else {0: resolution},
            extents={},
        )
        is_image = any(isinstance(block, Image) for block in view.message.content)
        return is_image and all(change.code is not ChangeCode.UNRESOLVED for change in view.changes)

    def _is_reduced(self, entry: Entry, number: int) -> bool:
        """Return whether a resource was shortened, which removes its images, or left out."""
        return any(
            change.code in _REDUCTIONS and (change.entry, change.number) == (entry.id, number)
            for change in self.built.changes
        )


@final
class ImageAnalysisRecorder:
    """Records the links of one run from images to the responses that answer them."""

    def __init__(self, recorder: RunRecorder) -> None:
        self._recorder = recorder
        self._sent: SentRequest | None = None

    def add_response(self, response: Entry, sent: SentRequest) -> None:
        """Link the images to a complete response, if it answers them."""
        self._sent = sent
        message = response.payload
        if isinstance(message, AssistantMessage) and _is_answer(message):
            self._record(sent, response)

    def close(self) -> None:
        """Link the images that are still without an answer at the end of the run."""
        if self._sent is not None:
            self._record(self._sent, None)

    def _record(self, sent: SentRequest, answer: Entry | None) -> None:
        for analysis in reversed([*self._find_links(sent, answer)]):
            self._recorder.record(analysis)

    def _find_links(self, sent: SentRequest, answer: Entry | None) -> Iterator[ImageAnalysis]:
        """Yield the links for the messages since the previous answer, the last image first.

        If `answer` is None, an image is linked to the first response with text after it.
        """
        known: set[tuple[str, int]] = set()
        resolutions: dict[tuple[str, int], Resolution] = {}
        response = answer
        for entry in reversed(self._recorder.conversation.entries_view()):
            match entry.payload:
                case ImageAnalysis(target=target, block=number):
                    known.add((target, number))
                case Resolution(target=target, block=number) as resolution:
                    resolutions.setdefault((target, number), resolution)
                case AssistantMessage() as message if answer is None or entry.id != answer.id:
                    if _is_answer(message):
                        return
                    if answer is None and _has_complete_text(message):
                        response = entry
                case UserMessage(content=content) if response is not None:
                    for number, block in reversed([*enumerate(content)]):
                        place = (entry.id, number)
                        if (
                            isinstance(block, Image | Resource)
                            and place not in known
                            and sent.contains_image(entry, number, block, resolutions.get(place))
                        ):
                            yield ImageAnalysis(target=entry.id, block=number, answer=response.id)
                case _:
                    pass


def _is_answer(message: AssistantMessage) -> bool:
    return _has_complete_text(message) and not message.tool_calls


def _has_complete_text(message: AssistantMessage) -> bool:
    return bool((message.text or "").strip()) and message.stop_reason not in _INCOMPLETE
