"""Read answers: whole ones and streams, by the same steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, final

import msgspec
from msgspec import Raw

from steno.errors import ProtocolError
from steno.event import Event, Finished, TextDelta
from steno.json_object import replace_lone_escapes
from steno.message import AssistantMessage
from steno.usage import StopReason
from steno.wire.fault import decode_error, is_error
from steno.wire.open import (
    NOT_AS_EXPECTED,
    NULL,
    Rest,
    mend,
    parsed,
    read_as,
    read_members,
    reader,
    slow_reader,
    text_with_halves,
)
from steno.wire.openai_responses.shapes import (
    BEGINS,
    BOOKKEEPING,
    ENDS,
    KINDS,
    NAME,
    PROVIDER,
    REPEATED,
    STATUSES,
    TEXT,
    WHOLE,
    WORDS,
    Answer,
    Delta,
    stop_reason_of,
    usage_of,
)
from steno.wire.openai_responses.tell import Teller, check_utf8
from steno.wire.sse import ErrorPayload, EventSplitter
from steno.wire.stream import StreamDecoder as BaseDecoder
from steno.wire.stream import assemble, cut_short

_NOWHERE: Final = "\0"

_decode: Final = msgspec.json.Decoder(Delta).decode
_read_delta: Final = slow_reader(Delta, NAME)
_read_answer: Final = reader(Answer, NAME)


def decode_response(
    data: bytes | str, *, provider: str = PROVIDER, model: str | None = None
) -> AssistantMessage:
    """Decode a whole answer. Raises ProviderError if it holds one, ProtocolError if it is none.

    `provider` and `model` (as it was asked for) are whom seals will be for.
    """
    turn = _Turn(provider, model)
    events: list[Event] = []
    turn.read_whole(
        data.encode("utf-8", "surrogatepass") if isinstance(data, str) else data, events
    )
    return assemble(events)


@final
class StreamDecoder(BaseDecoder):
    """Decodes an answer that comes as server-sent events, with or without their names."""

    def __init__(self, *, provider: str = PROVIDER, model: str | None = None) -> None:
        """Start a new answer. `provider` and `model` are whom seals will be for."""
        turn = _Turn(provider, model)
        super().__init__(EventSplitter(), turn.read)
        self._response = turn

    @property
    def envelope(self) -> dict[str, Any]:
        """What the provider said about its answer, beside the message."""
        return self._response.envelope

    def _finish(self, events: list[Event]) -> None:
        self._response.close()

    def _abandon(self, events: list[Event]) -> None:
        self._response.flush_held(events)


@final
class _Turn:
    """One answer as it is read."""

    def __init__(self, provider: str, model: str | None) -> None:
        self._output = Teller(provider, model)
        self._unknown: Rest = {}
        self._fault: bytes | None = None
        self._is_finished = False
        # Where the latest text belongs: most of it goes where the text before it went.
        self._text_item: str | None = _NOWHERE
        self._text_output: int | None = None
        self._text_part: int | None = None
        self._text_block = 0
        self._append_text: Callable[[str], None] = list[str]().append

    @property
    def envelope(self) -> dict[str, Any]:
        about = read_as(self._output.description, dict[str, Any]) or {}
        found = parsed(self._unknown) | about
        found.pop("output", None)
        return found

    def read(self, payload: bytes, events: list[Event]) -> None:
        """Add the events of one event of the stream."""
        # One function rather than a few: this runs for every word that a model says.
        try:
            delta = _decode(payload)
        except NOT_AS_EXPECTED:
            self._read_unusual(payload, events)
            return
        if delta.type == TEXT and delta.delta:
            if (
                delta.item_id != self._text_item
                or delta.content_index != self._text_part
                or delta.output_index != self._text_output
            ):
                self._find_text_block(delta)
            self._append_text(delta.delta)
            events.append(TextDelta(self._text_block, delta.delta))
        else:
            self._read_delta(delta, payload, events)

    def read_whole(self, data: bytes, events: list[Event]) -> None:
        """Add the events of a whole answer."""
        data = mend(data, NAME)
        answer = _read_answer(data)
        if is_error(answer.error):
            raise decode_error(200, b'{"error":' + bytes(answer.error) + b"}")
        if answer.output is None and answer.status not in STATUSES:
            raise ProtocolError(f"{NAME}: neither output nor the status of an answer")
        self._output.description = Raw(data)
        self._output.is_whole = True
        self._finish(answer, answer.status, events)

    def close(self) -> None:
        """Say that the bytes are at an end. Raises CutShort if it comes too early."""
        self._raise_fault()
        if not self._is_finished:
            raise cut_short()

    def flush_held(self, events: list[Event]) -> None:
        """Add what waited for more that will not come."""
        self._output.flush_held(events)

    # -- deltas ------------------------------------------------------------------------------

    def _find_text_block(self, delta: Delta) -> None:
        self._raise_fault()
        places = self._output.tracker
        item = places.find_growing(delta.item_id, delta.output_index, WORDS)
        said = places.get_part_text(item, delta.content_index, WORDS)
        self._text_block, self._append_text = said.block, said.told.append
        self._text_item, self._text_output = delta.item_id, delta.output_index
        self._text_part = delta.content_index

    def _read_delta(self, delta: Delta, payload: bytes, events: list[Event]) -> None:
        self._raise_fault()
        if delta.type in KINDS:
            if delta.delta:
                self._output.add_delta(delta, events)
        elif delta.type not in BOOKKEEPING:
            self._output.keep_unknown_event(delta.type, payload, events)

    def _read_unusual_delta(self, payload: bytes, mended: bytes, events: list[Event]) -> None:
        """Read a delta with members of its own, or with half a character in it."""
        delta = _read_delta(mended)
        self._unknown |= delta.rest or {}
        if mended != payload:
            delta.delta = text_with_halves(payload, "delta") or delta.delta
        self._read_delta(delta, mended, events)

    # -- other events of the stream ----------------------------------------------------------

    def _read_unusual(self, payload: bytes, events: list[Event]) -> None:
        """Read anything but a plain delta."""
        self._text_item = _NOWHERE  # what comes next may belong elsewhere under the same names
        if payload.startswith(b"[DONE]") or type(payload) is ErrorPayload:
            self._raise_fault()
            # OpenAI says it again in the last event, together with what became of the rest.
            self._fault = payload.data if type(payload) is ErrorPayload else None
            return
        mended, _ = replace_lone_escapes(payload)
        members = self._read_members(mended)
        kind = read_as(members.pop("type", None), str) or ""
        if kind in ENDS:
            self._read_end(kind, members, events)
            return
        self._raise_fault()
        index = read_as(members.get("output_index"), int)
        if kind == "error":
            self._fault = mended
        elif kind in BEGINS:
            self._output.description = members.get("response")
        elif kind == "response.output_item.added":
            self._output.begin_item(members.get("item", NULL), index, events)
        elif kind == "response.output_item.done":
            self._output.end_item(members.get("item", NULL), index, events)
        elif kind in KINDS:
            self._read_unusual_delta(payload, mended, events)
        elif is_error(members.get("error")):
            raise decode_error(200, mended)
        elif kind in BOOKKEEPING:
            self._read_progress(kind, members, events)
        else:
            self._output.keep_unknown_event(kind, mended, events)

    def _read_members(self, payload: bytes) -> Rest:
        check_utf8(payload)
        return read_members(payload, NAME)

    def _read_progress(self, kind: str, members: Rest, events: list[Event]) -> None:
        if kind == "response.content_part.added":
            id = read_as(members.get("item_id"), str)
            item = self._output.tracker.find(id, read_as(members.get("output_index"), int))
            part = read_as(members.get("part"), dict[str, Any]) or {}
            # A part that stays empty has a number too; vLLM gives reasoning a part of text.
            if part.get("type") in ("output_text", "refusal") and None not in item.parts:
                self._output.tracker.get_block(item, read_as(members.get("content_index"), int))
        elif kind in WHOLE:
            self._read_done_text(kind, members, events)
        self._unknown |= {name: members[name] for name in members.keys() - REPEATED}

    def _read_done_text(self, kind: str, members: Rest, events: list[Event]) -> None:
        text = read_as(members.get(WHOLE[kind]), str)
        if text:
            delta = Delta(
                type=kind.removesuffix("done") + "delta",
                delta=text,
                item_id=read_as(members.get("item_id"), str),
                output_index=read_as(members.get("output_index"), int),
                content_index=read_as(members.get("content_index"), int),
                summary_index=read_as(members.get("summary_index"), int),
            )
            self._output.end_part(delta, events)

    def _raise_fault(self) -> None:
        if self._fault is not None:
            raise decode_error(200, self._fault)

    # -- the end -----------------------------------------------------------------------------

    def _read_end(self, kind: str, members: Rest, events: list[Event]) -> None:
        about = self._output.description = members.pop("response", self._output.description)
        answer = _read_answer(about) if about is not None else Answer()
        self._unknown |= {name: members[name] for name in members.keys() - REPEATED}
        status = kind.removeprefix("response.")
        if answer.status is not None and answer.status != "in_progress":
            status = answer.status  # vLLM completes what is incomplete
        self._finish(answer, status, events)
        if is_error(answer.error):
            raise decode_error(200, b'{"error":' + bytes(answer.error) + b"}")
        self._raise_fault()
        if status == "failed":
            raise decode_error(200, b'{"error":{"type":"server_error"}}')

    def _finish(self, answer: Answer, status: str | None, events: list[Event]) -> None:
        """Add items that were not told before, and the end of the turn, once."""
        if self._is_finished:
            return
        self._is_finished = True
        self._output.end_output(answer.output or [], events)
        reason = stop_reason_of(status, answer.incomplete_details)
        if self._output.has_refusal:
            reason = StopReason.CONTENT_FILTER
        usage = usage_of(answer.usage) if answer.usage is not None else None
        events.append(Finished(reason, status, usage))
