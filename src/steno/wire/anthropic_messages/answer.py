"""Read answers: whole ones and streams, by the same steps."""

from __future__ import annotations

from typing import Any, final

from steno.event import Event
from steno.message import AssistantMessage
from steno.usage import Usage
from steno.wire.anthropic_messages.shapes import PROVIDER
from steno.wire.anthropic_messages.turn import Turn
from steno.wire.stream import EventStreamDecoder, assemble, cut_short


def decode_response(
    data: bytes | str, *, provider: str = PROVIDER, model: str | None = None
) -> AssistantMessage:
    """Decode a whole answer. Raises ProviderError if it holds one, ProtocolError if it is none.

    `provider` and `model` (as it was asked for) are whom seals will be for.
    """
    turn = Turn(provider, model)
    events: list[Event] = []
    turn.read_whole(data.encode(errors="surrogatepass") if isinstance(data, str) else data, events)
    turn.finish(events)
    return assemble(events)


@final
class StreamDecoder(EventStreamDecoder):
    """Decodes an answer that comes as server-sent events."""

    def __init__(self, *, provider: str = PROVIDER, model: str | None = None) -> None:
        """Start a new answer. `provider` and `model` are whom seals will be for."""
        turn = Turn(provider, model)
        super().__init__(turn.read, turn.read_text_only)
        self._response = turn

    @property
    def envelope(self) -> dict[str, Any]:
        """What the provider said about its answer, beside the message."""
        return self._response.envelope

    @property
    def usage(self) -> Usage | None:
        """What was counted so far: the prompt at once, the answer at its end."""
        return self._response.usage

    def _finish(self, events: list[Event]) -> None:
        if not self._response.is_finished:
            if self._response.stop_reason is None:
                raise cut_short()
            self._response.finish(events)

    def _abandon(self, events: list[Event]) -> None:
        self._response.abandon(events)
