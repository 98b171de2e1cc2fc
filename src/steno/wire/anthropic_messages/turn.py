"""One answer as it is read, event by event.

Nearly all events are more text, thinking or input; they have a decoder of their own. Everything
else, and whatever that decoder stumbles over, is read member by member, and what has no name
here is kept.
"""

from __future__ import annotations

from typing import Any, Final, assert_never, final

import msgspec
from msgspec import Raw

from steno.call import NO_ARGUMENTS, Seal
from steno.content import Opaque
from steno.errors import ProtocolError
from steno.event import (
    BlockAdded,
    BlockSealed,
    Event,
    ExtrasAdded,
    Finished,
    TextDelta,
    ThinkingDelta,
    ToolCallBegin,
    ToolCallDelta,
    ToolCallEnd,
)
from steno.usage import Usage
from steno.wire.anthropic_messages.kept import KeptBlock
from steno.wire.anthropic_messages.members import has, take, values
from steno.wire.anthropic_messages.shapes import (
    NAME,
    UNSIGNED,
    BlockDelta,
    CitationPart,
    InputPart,
    Part,
    SignaturePart,
    TextPart,
    ThinkingPart,
    stop_reason_of,
    usage_of,
)
from steno.wire.extras import FORM
from steno.wire.fault import decode_error, is_error
from steno.wire.open import (
    NOT_AS_EXPECTED,
    Rest,
    mend,
    read_as,
    read_members,
    refuse_our_names,
    text_of,
    text_with_halves,
)
from steno.wire.refrain import Told, more_arguments
from steno.wire.sse import ErrorPayload
from steno.wire.writing import EVENT

_decode: Final = msgspec.json.Decoder(BlockDelta).decode


@final
class _Block:
    """What has to be known of a block until it ends."""

    __slots__ = ("citations", "input", "is_call", "lacks_signature")

    def __init__(self) -> None:
        self.is_call = False
        self.input = ""
        """What came with the start; what comes later replaces it."""
        self.citations: list[Any] = []
        self.lacks_signature = False
        """It is thinking, and a signature was not even mentioned."""


@final
class Turn:
    """One answer as it is read."""

    def __init__(self, provider: str, model: str | None) -> None:
        self._provider = provider
        self._model = model
        self.stop_reason: str | None = None
        self.is_finished = False
        self._metadata: dict[str, Any] = {}
        self._tokens: dict[str, Any] | None = None
        self._open_blocks: dict[int, _Block] = {}
        self._unknown_blocks: dict[int, KeptBlock] = {}
        self._latest_index = 0
        self._indexes_by_call_id: dict[str, int] = {}
        """The indexes of calls by their ids."""

    @property
    def envelope(self) -> dict[str, Any]:
        """What was said about the answer, beside the message."""
        return self._metadata | ({} if self._tokens is None else {"usage": self._tokens})

    @property
    def usage(self) -> Usage | None:
        """What was counted so far."""
        return None if self._tokens is None else usage_of(self._tokens)

    def read_text_only(self, payload: bytes) -> Told | None:
        """Return what a payload says, if it is more of a block and nothing else."""
        try:
            more = _decode(payload)
        except NOT_AS_EXPECTED:
            return None
        if self._unknown_blocks:
            return None
        match more.delta:
            case TextPart(text=text):
                return Told(TextDelta, more.index, text)
            case ThinkingPart(thinking=text):
                return Told(ThinkingDelta, more.index, text)
            case InputPart(partial_json=text) if text and not self._has_input(more.index):
                return Told(more_arguments, more.index, text)
            case _:
                return None

    def _has_input(self, index: int) -> bool:
        return index in self._open_blocks and bool(self._open_blocks[index].input)

    def read(self, payload: bytes, events: list[Event]) -> None:
        """Add the events of one payload of a stream."""
        # Flat where it is busy: this runs for every word that a model says.
        try:
            more = _decode(payload)
        except NOT_AS_EXPECTED:
            self._read_other(payload, events)
            return
        delta = more.delta
        if not self._unknown_blocks and type(delta) is TextPart:
            events.append(TextDelta(more.index, delta.text))
        elif more.index in self._unknown_blocks:
            self._read_other(payload, events)
        else:
            self._extend_block(more.index, delta, events)

    def read_whole(self, data: bytes, events: list[Event]) -> None:
        """Add the events of an answer that came at once."""
        members = read_members(mend(data, NAME), NAME)
        kind = take(members, "type", str)
        if kind == "error" or is_error(members.get("error")):
            raise decode_error(200, data)
        if not has(members, "content"):
            raise ProtocolError(f"{NAME}: an answer has content")
        self._read_message(members, events)

    def finish(self, events: list[Event]) -> None:
        """Add the end of the turn, once."""
        if self.is_finished:
            return
        self.is_finished = True
        for index in [*self._open_blocks, *self._unknown_blocks]:
            self._end_block(index, events)
        container = self._metadata.get("container")
        if isinstance(container, dict) and isinstance(container.get("id"), str):
            # It is for the next request, if that wants the same files: a message has no place for it.
            events.append(ExtrasAdded(None, {NAME: {FORM: {"container": container["id"]}}}))
        events.append(Finished(stop_reason_of(self.stop_reason), self.stop_reason, self.usage))

    def abandon(self, events: list[Event]) -> None:
        """Add what is known of blocks that will not end any more."""
        for index, block in self._open_blocks.items():
            if block.input:
                events.append(ToolCallDelta(index, arguments_delta=block.input))
            if block.citations:
                events.append(_citations(index, block))
        events += [BlockAdded(index, kept.build_unfinished()) for index, kept in self._unknown_blocks.items()]
        self._open_blocks, self._unknown_blocks = {}, {}

    # -- events ------------------------------------------------------------------------------

    def _read_other(self, payload: bytes, events: list[Event]) -> None:
        if type(payload) is ErrorPayload:
            raise decode_error(200, payload.data)
        if not payload.startswith(b"[DONE]"):
            self._read_event(payload, events)
        elif self.stop_reason is not None:  # from gateways that translate
            self.finish(events)

    def _read_event(self, payload: bytes, events: list[Event]) -> None:
        mended = mend(payload, NAME)
        members = read_members(mended, NAME)
        kind = take(members, "type", str)
        index = take(members, "index", int)
        if index is not None:
            self._latest_index = index
        match kind:
            case "message_start":
                message = members.pop("message", None)
                self._read_message({} if message is None else read_members(message, NAME), events)
            case "content_block_start":
                self._begin_block(self._latest_index, members.pop("content_block", Raw(b"{}")), events)
            case "content_block_delta":
                self._read_delta(members.pop("delta", Raw(b"{}")), payload, mended, events)
            case "content_block_stop":
                self._end_block(self._latest_index, events)
            case "message_delta":
                delta = members.pop("delta", None)
                self._read_metadata({} if delta is None else read_members(delta, NAME))
            case "message_stop":
                self.finish(events)
            case "ping":
                pass
            case _:
                if kind == "error" or is_error(members.get("error")):
                    raise decode_error(200, payload)
                raw = Opaque(kind=f"{EVENT}{kind or ''}", raw=mended.decode(), origin=NAME)
                events.append(BlockAdded(self._latest_index, raw))
                return
        if members:
            self._read_metadata(members)

    def _read_message(self, members: Rest, events: list[Event]) -> None:
        """Read a message: a whole one, or the start of one, which may hold blocks as well."""
        content = take(members, "content", list[Raw])
        self._read_metadata(members)
        for index, raw in enumerate(content or ()):
            self._begin_block(index, raw, events)
            self._end_block(index, events)

    def _read_metadata(self, members: Rest) -> None:
        """Read what is said about the message; counts are totals, the latest holds.

        Null takes nothing back: a delta names what it has no news of.
        """
        tokens = take(members, "usage", dict[str, Any])
        if tokens is not None:
            self._tokens = self._tokens or {}
            _add_news(self._tokens, tokens)
        _add_news(self._metadata, values(members))
        self.stop_reason = read_as(members.get("stop_reason"), str) or self.stop_reason

    def _read_delta(self, raw: Raw, payload: bytes, mended: bytes, events: list[Event]) -> None:
        """Read a delta that has more to it than ours, or less."""
        if self._latest_index in self._unknown_blocks:
            self._unknown_blocks[self._latest_index].add(raw)
            return
        members = read_members(raw, NAME)
        kind = take(members, "type", str) or ""
        if kind not in _PARTS:
            event = f"{EVENT}content_block_delta"
            block = Opaque(kind=event, raw=mended.decode(), origin=NAME)
            events.append(BlockAdded(self._latest_index, block))
            return
        name, make = _PARTS[kind]
        if kind == "citations_delta":
            self._extend_block(self._latest_index, CitationPart(members.pop(name, Raw(b"null"))), events)
        else:
            whole = take(members, name, str) or ""
            if mended not in payload and kind != "signature_delta":
                # Servers that count in UTF-16 cut there; the other half comes with the next.
                whole = text_with_halves(payload, "delta", name) or whole
            self._extend_block(self._latest_index, make(whole), events)
        self._metadata |= values(members)

    # -- blocks ------------------------------------------------------------------------------

    def _begin_block(self, index: int, raw: Raw, events: list[Event]) -> None:
        self._end_block(index, events)  # of a server that forgot to
        members = read_members(raw, NAME)
        kind = take(members, "type", str) or ""
        block = _Block()
        match kind:
            case "text":
                text = take(members, "text", str)
                if text:
                    events.append(TextDelta(index, text))
            case "thinking":
                # An empty one as well: it says where the signature belongs.
                events.append(ThinkingDelta(index, take(members, "thinking", str) or ""))
                block.lacks_signature = "signature" not in members
                signature = take(members, "signature", str)
                if signature:
                    events.append(BlockSealed(index, self._seal(signature)))
            case "redacted_thinking" if data := take(members, "data", str):
                events.append(ThinkingDelta(index, "", redacted=True))
                events.append(BlockSealed(index, self._seal(data)))
            case "tool_use":
                block.is_call = True
                id, name = take(members, "id", str), take(members, "name", str)
                if id and self._indexes_by_call_id.setdefault(id, index) != index:
                    id = None  # two calls of one id, which nobody could answer one by one
                events.append(ToolCallBegin(index, id, name))
                block.input = _input_text(members.pop("input", None))
            case _:
                self._unknown_blocks[index] = KeptBlock(kind, raw)
                return
        self._open_blocks[index] = block
        refuse_our_names(members)
        extras = {name: value for name, value in values(members).items() if value is not None}
        if kind == "text" and isinstance(extras.get("citations"), list):
            block.citations = extras.pop("citations")  # more may come
        if extras:
            events.append(ExtrasAdded(index, {NAME: extras}))

    def _extend_block(self, index: int, delta: Part, events: list[Event]) -> None:
        match delta:
            case TextPart():
                events.append(TextDelta(index, delta.text))
            case InputPart():
                if delta.partial_json:
                    if index in self._open_blocks:
                        self._open_blocks[index].input = ""
                    events.append(ToolCallDelta(index, arguments_delta=delta.partial_json))
            case ThinkingPart():
                events.append(ThinkingDelta(index, delta.thinking))
            case SignaturePart():
                if index in self._open_blocks:
                    self._open_blocks[index].lacks_signature = False
                if delta.signature:
                    events.append(BlockSealed(index, self._seal(delta.signature)))
            case CitationPart():
                found = values({"citation": delta.citation})
                self._open_blocks.setdefault(index, _Block()).citations.append(found["citation"])
            case _:
                assert_never(delta)

    def _end_block(self, index: int, events: list[Event]) -> None:
        kept = self._unknown_blocks.pop(index, None)
        if kept is not None:
            events.append(BlockAdded(index, kept.build()))
        block = self._open_blocks.pop(index, None)
        if block is None:
            return
        if block.input:
            events.append(ToolCallDelta(index, arguments_delta=block.input))
        if block.citations:
            events.append(_citations(index, block))
        if block.lacks_signature:
            maker = {UNSIGNED: [self._provider, self._requested_model]}
            events.append(ExtrasAdded(index, {NAME: {FORM: maker}}))
        if block.is_call:
            events.append(ToolCallEnd(index))

    @property
    def _requested_model(self) -> str:
        model = self._metadata.get("model") if self._model is None else self._model
        return model if isinstance(model, str) else ""

    def _seal(self, data: str) -> Seal:
        return Seal(data=data, provider=self._provider, api=NAME, model=self._requested_model)


_PARTS: Final[dict[str, tuple[str, Any]]] = {
    "text_delta": ("text", TextPart),
    "input_json_delta": ("partial_json", InputPart),
    "thinking_delta": ("thinking", ThinkingPart),
    "signature_delta": ("signature", SignaturePart),
    "citations_delta": ("citation", CitationPart),
}


def _add_news(known: dict[str, Any], news: dict[str, Any]) -> None:
    for name, value in news.items():
        if value is not None or name not in known:
            known[name] = value


def _citations(index: int, block: _Block) -> ExtrasAdded:
    return ExtrasAdded(index, {NAME: {"citations": block.citations}})


def _input_text(raw: Raw | None) -> str:
    """Return the input of a call; an empty object in the start says only that more will come."""
    text = "" if raw is None else text_of(raw)
    return "" if text in (NO_ARGUMENTS, "null") else text
