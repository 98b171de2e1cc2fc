"""A custom wire: one line for each word, and `stop` at the end."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from steno import AssistantMessage, Request, StopReason, TextDelta
from steno.errors import ProviderError
from steno.messages.event import Event, Finished
from steno.wire import EncodedRequest
from steno.wire import StreamDecoder as SharedDecoder
from steno.wire.framing import LineSplitter
from steno.wire.response_decoder import build_cut_short

NAME = "morse"


class StreamDecoder(SharedDecoder):
    """Reads words line by line."""

    def __init__(self, *, provider: str = NAME, model: str | None = None) -> None:
        super().__init__(LineSplitter(), self._read)
        self._maker = (provider, model)
        self._has_stopped = False

    @property
    def envelope(self) -> dict[str, Any]:
        return {"maker": self._maker}

    def _read(self, line: bytes, events: list[Event]) -> None:
        word = line.decode().strip()
        self._has_stopped = word == "stop"
        if self._has_stopped:
            events.append(Finished(StopReason.END_TURN, word))
        elif word:
            events.append(TextDelta(0, word))

    def _finish(self, events: list[Event]) -> None:
        if not self._has_stopped:
            raise build_cut_short()


def decode_response(
    data: bytes | str, *, provider: str = NAME, model: str | None = None
) -> AssistantMessage:
    raise NotImplementedError


def decode_request(data: bytes | str, *, provider: str = NAME) -> Request:
    raise NotImplementedError


def encode_request(request: Request, *, stream: bool | None = None) -> EncodedRequest:
    said = [message.text for message in request.messages]
    return EncodedRequest(
        json.dumps({"to": request.model, "said": said, "stream": stream}).encode()
    )


def decode_error(
    status: int, body: bytes | str, headers: Mapping[str, str] | None = None
) -> ProviderError:
    text = body.decode() if isinstance(body, bytes) else body
    return ProviderError(f"morse: {text}", status=status)
