"""Decode chat completions, streamed or whole, with the same reader."""

from __future__ import annotations

from typing import Any, Final, final

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from steno.assemble import ToolCallPart, WireEvent
from steno.errors import ProtocolError
from steno.messages.content import Opaque
from steno.messages.event import (
    BlockAdded,
    BlockSealed,
    ExtrasAdded,
    Finished,
    TextDelta,
    ThinkingDelta,
)
from steno.messages.usage import StopReason, Usage
from steno.values import FORM_KEY
from steno.wire import response_decoder as base
from steno.wire import tolerant
from steno.wire.errors import decode_error, decode_error_member, is_error
from steno.wire.extras import Members, is_nonempty
from steno.wire.framing import ErrorPayload
from steno.wire.openai_chat import payload as payloads
from steno.wire.openai_chat.dialect import FUNCTION_EXTRAS, LEGACY_CALL
from steno.wire.openai_chat.payload import (
    NAME,
    PROVIDER,
    Call,
    ChatCompletion,
    Choice,
    ChoiceMessage,
    Function,
)
from steno.wire.repeated_events import TextOnlyEvent, build_arguments_delta
from steno.wire.request_encoder import RequestTarget
from steno.wire.tolerant import DECODE_ERRORS, NULL, RawMembers, raw_text, read_as

_TEXT_INDEX: Final = 0
_THINKING_INDEX: Final = 1
_OTHER_INDEX: Final = 2
_FIRST_CALL_INDEX: Final = 3
"""The index of the first call; texts and calls have distinct indexes, to which extras refer."""
_FIRST_UNINDEXED_CALL: Final = 1 << 20
"""The index for the first call that arrives without an index.

Gemini's endpoint and some proxies omit indexes.
"""
_LATER_TEXT_INDEX: Final = 1 << 30
"""Text that follows a block of another kind has indexes above this one."""
_MAX_FUNCTION_EXTRAS: Final = 16
"""The limit for unknown members of a function; real servers send one or two at most."""
_ANNOTATIONS: Final = "annotations"
"""The member with the sources of the text; it is sent back to the server."""
_AUDIO_FRAGMENT_FIELDS: Final = frozenset({"data", "transcript"})
"""Members of audio that arrive in fragments."""
_FRAGMENT_FIELDS: Final = frozenset({"text", "summary", "data"})
"""Members of a reasoning detail that arrive in fragments."""
_IDENTITY_FIELDS: Final = (
    *("id", "object", "created", "model", "system_fingerprint", "service_tier", "provider"),
)
_PART_LIST: Final = list[Raw]
_DETAIL_OBJECTS: Final = list[Members]
_decode: Final = msgspec.json.Decoder(ChatCompletion).decode
_read_by_member: Final = tolerant.build_slow_reader(ChatCompletion, NAME)
_read_function: Final = tolerant.build_reader(Function, NAME)
_read_completion_usage: Final = tolerant.build_reader(payloads.CompletionUsage, NAME)


@final
class StreamDecoder(base.SseStreamDecoder):
    """Decodes a response that is streamed as server-sent events, with or without a `[DONE]`."""

    def __init__(self, *, provider: str = PROVIDER, model: str | None = None) -> None:
        """Create a decoder for one response.

        Seals (reasoning details) are bound to `provider` and `model`.
        """
        super().__init__(self._read)
        self._provider = provider
        self._model = model
        self._stop_reason: str | None = None
        self._is_finished = False
        self._is_whole = False
        self._first_chunk: ChatCompletion | None = None
        self._has_identity = False
        """Whether `_first_chunk` names the model; Azure's first chunk describes only the prompt."""
        self._tokens: payloads.CompletionUsage | None = None
        self._unknown: RawMembers = {}
        self._other_choices: list[Choice] = []
        self._extras: Members = {}
        self._metadata = tolerant.MergedExtras(growing=_AUDIO_FRAGMENT_FIELDS)
        """Metadata that arrives in several chunks, such as log probabilities and sources."""
        self._refusal: list[str] = []
        self._details: list[Members] = []
        self._has_thought = False
        self._text_index = _TEXT_INDEX
        """The index of the block that the next text continues."""
        self._other_thinking: list[str] = []
        self._calls = _ToolCallReader(self._metadata)

    @property
    def envelope(self) -> dict[str, Any]:
        """The metadata of the response."""
        found = tolerant.to_builtins(self._first_chunk) if self._first_chunk is not None else {}
        found.pop("choices", None)
        found |= tolerant.parse_members(self._unknown)
        found |= self._metadata.merged()
        if self._other_thinking:
            found["reasoning"] = "".join(self._other_thinking)
        if self._tokens is not None:
            found["usage"] = tolerant.to_builtins(self._tokens)
        if self._other_choices:
            found["other_choices"] = tolerant.to_builtins(self._other_choices)
        return found

    @property
    def usage(self) -> Usage | None:
        """The token counts so far; some servers send them with every chunk."""
        return payloads.read_usage(self._tokens) if self._tokens is not None else None

    def _read_text_only(self, payload: bytes) -> TextOnlyEvent | None:
        try:
            completion = _decode(payload)
        except DECODE_ERRORS:
            completion = self._read_known(payload)
        if self._first_chunk is None or completion.usage is not None:
            return None
        if len(completion.choices) != 1 or (completion.model and not self._has_identity):
            return None
        choice, delta = completion.choices[0], completion.choices[0].delta
        if (
            delta is None
            or delta.rest is not None
            or delta.refusal
            or choice != Choice(delta=delta)
        ):
            return None
        thinking = delta.reasoning_content or delta.reasoning
        if delta.reasoning and delta.reasoning != thinking:
            return None
        match delta.content or None, thinking or None, delta.tool_calls:
            case str(text), None, None:
                return TextOnlyEvent(TextDelta, self._text_index, text)
            case None, str(text), None:
                return TextOnlyEvent(ThinkingDelta, _THINKING_INDEX, text)
            case None, None, [
                Call(
                    index=int(index),
                    id=None,
                    function=Function(name=None, arguments=str(text), rest=None),
                    rest=None,
                )
            ] if text:
                return TextOnlyEvent(build_arguments_delta, index + _FIRST_CALL_INDEX, text)
            case _:
                return None

    def _read(self, payload: bytes, events: list[WireEvent]) -> None:
        # One function rather than a few, because it runs for every token of a response.
        try:
            completion = _decode(payload)
        except DECODE_ERRORS:
            if payload.startswith(b"[DONE]"):
                self._end_turn(events)
                return
            completion = self._read_unusual(payload)
        for choice in completion.choices:
            message = choice.delta
            if message is None or choice.index != 0 or choice.rest is not None or self._is_whole:
                message = self._choose(choice)
            if message is not None:
                if message.rest is not None:
                    self._read_unusual_message(message, message.rest, events)
                elif message.reasoning_content or message.reasoning:
                    self._read_thinking(message, events)
                if message.content:
                    events.append(TextDelta(self._text_index, message.content))
                if message.tool_calls is not None:
                    for call in message.tool_calls:
                        self._calls.read(call, events)
                if message.refusal:
                    self._refusal.append(message.refusal)
            if choice.finish_reason is not None and choice.index == 0:
                self._stop_reason = choice.finish_reason or self._stop_reason or ""
                self._read_identity(completion)
        if completion.usage is not None:
            self._tokens = completion.usage
        if completion.usage is not None or not self._has_identity:
            self._read_identity(completion)

    def _read_whole(self, data: bytes, events: list[WireEvent]) -> None:
        self._is_whole = self._calls.is_whole = True
        self._read(data, events)
        if self._first_chunk is None or not self._first_chunk.choices:
            raise ProtocolError("the response has no choices", code="choices_missing", place=NAME)
        self._end_turn(events)

    def _finish(self, events: list[WireEvent]) -> None:
        # Some servers send an empty stop reason with every chunk.
        if not self._is_finished and not self._stop_reason:
            raise base.build_cut_short()
        self._end_turn(events)

    def _end_turn(self, events: list[WireEvent]) -> None:
        """Add the events that end the turn, unless they were added before."""
        if self._is_finished:
            return
        self._is_finished = True
        self._calls.finish(events)
        reason = base.map_stop_reason(payloads.STOP_REASONS, self._stop_reason)
        if self._details:
            if not self._has_thought:
                events.append(ThinkingDelta(_THINKING_INDEX, "", redacted=True))
            model = self._model
            if model is None:  # the caller does not know the request
                model = (self._first_chunk.model if self._first_chunk else None) or ""
            target = RequestTarget(self._provider, NAME, model)
            details = msgspec.json.encode([_join_detail(detail) for detail in self._details])
            events.append(BlockSealed(_THINKING_INDEX, target.seal(details.decode())))
        if self._refusal:
            self._extras["refusal"] = "".join(self._refusal)
            reason = StopReason.CONTENT_FILTER
        sources = self._metadata.merged((_ANNOTATIONS,)).get(_ANNOTATIONS)
        if isinstance(sources, list) and sources:
            self._extras[_ANNOTATIONS] = sources
        if self._extras:
            events.append(ExtrasAdded(None, {NAME: self._extras}))
        events.append(Finished(reason, self._stop_reason, self.usage))

    def _read_identity(self, completion: ChatCompletion) -> None:
        """Keep the metadata of the first chunk with a model; later chunks add missing fields."""
        first = self._first_chunk
        if first is None or (completion.model and not self._has_identity):
            self._first_chunk = completion
            self._has_identity = bool(completion.model)
            return
        added = {
            name: getattr(completion, name)
            for name in _IDENTITY_FIELDS
            if getattr(first, name) is None
        }
        if any(added.values()):
            self._first_chunk = replace(first, **added)

    def _choose(self, choice: Choice) -> ChoiceMessage | None:
        """Return the message of a choice; None if it is not the first choice.

        Other choices are kept for the log. Raises ProviderError if the first choice reports an
        error.
        """
        if choice.index != 0:
            self._other_choices.append(choice)
            return None
        if choice.rest is not None:
            _raise_error(choice.rest)
            self._metadata.add(choice.rest)
        # Perplexity sends both members: the message of a chunk repeats the whole text so far, and
        # the delta of a whole response is empty.
        if not self._is_whole:
            return choice.delta or choice.message
        return choice.message or choice.delta

    def _read_unusual(self, payload: bytes) -> ChatCompletion:
        if type(payload) is ErrorPayload:
            raise decode_error(200, payload.data)
        repaired = tolerant.repair_json(payload, NAME)
        completion = _read_by_member(repaired)
        if repaired != payload and not self._is_whole:
            tolerant.restore_surrogates(completion, payload)
        rest = completion.rest
        if rest is not None:
            _raise_error(rest)
            self._unknown |= rest
            usage = (read_as(rest.get("x_groq"), RawMembers) or {}).get("usage", NULL)
            if self._tokens is None and usage != NULL:
                self._tokens = _read_completion_usage(usage)
            if "choices" in rest:
                raise ProtocolError(
                    "choices must be a list of objects", code="choices_not_a_list", place=NAME
                )
        return completion

    def _read_known(self, payload: bytes) -> ChatCompletion:
        """Decode a chunk whose unknown members are the same as in earlier chunks.

        Return an empty chunk if an unknown member is new or differs, or if the JSON is invalid.
        """
        try:
            completion = _read_by_member(payload)
        except ProtocolError:
            return ChatCompletion()
        if any(self._unknown.get(name) != text for name, text in (completion.rest or {}).items()):
            return ChatCompletion()
        for choice in completion.choices:
            delta = choice.delta or ChoiceMessage()
            if not all(map(self._metadata.is_unchanged, (choice.rest, delta.rest))):
                return ChatCompletion()
            choice.rest = delta.rest = None
        return completion

    # -- members of some servers -------------------------------------------------------------

    def _read_thinking(
        self, message: ChoiceMessage, events: list[WireEvent], detailed: str = ""
    ) -> None:
        """Add the thinking of a chunk; a different text in a second member is kept as metadata."""
        thinking = message.reasoning_content or message.reasoning or detailed
        if thinking:
            self._has_thought = True
            events.append(ThinkingDelta(_THINKING_INDEX, thinking))
        if message.reasoning and message.reasoning != thinking:
            self._other_thinking.append(message.reasoning)

    def _read_unusual_message(
        self, message: ChoiceMessage, rest: RawMembers, events: list[WireEvent]
    ) -> None:
        self._read_thinking(message, events, _read_details_text(rest))
        # Members of unexpected types stay in `rest`.
        for part in tolerant.take_member(rest, "content", _PART_LIST) or ():
            self._read_part(part, events)
        if read_as(rest.get(LEGACY_CALL), RawMembers) is not None:
            self._calls.read_legacy(_read_function(rest.pop(LEGACY_CALL)), events)
        for detail in tolerant.take_member(rest, "reasoning_details", _DETAIL_OBJECTS) or ():
            _add_detail(self._details, detail)
        audio = read_as(rest.get("audio"), Members)
        if audio is not None and audio.get("id"):
            self._extras["audio"] = {"id": audio["id"]}  # a request refers to audio by its id
        self._metadata.add(rest)

    def _read_part(self, raw: Raw, events: list[WireEvent]) -> None:
        """Read one part of content that is a list, which Mistral sends."""
        part = read_as(raw, Members) or {}
        kind, text, thoughts = part.get("type"), part.get("text"), part.get("thinking")
        if kind == "text" and isinstance(text, str):
            events.append(TextDelta(self._text_index, text))
            del part["text"]
        elif kind == "thinking" and isinstance(thoughts, list):
            self._has_thought = True
            texts = [thought["text"] for thought in thoughts if _is_text_part(thought)]
            events.append(ThinkingDelta(_THINKING_INDEX, "".join(texts)))
            part["thinking"] = [thought for thought in thoughts if not _is_text_part(thought)]
        else:
            block = Opaque(kind=str(kind or ""), raw=raw_text(raw), origin=NAME)
            events.append(BlockAdded(_OTHER_INDEX, block))
            self._text_index = max(self._text_index, _LATER_TEXT_INDEX) + 1  # after this block
            return
        rest = {
            name: value for name, value in part.items() if name != "type" and is_nonempty(value)
        }
        if rest:
            self._metadata.add({"content": Raw(msgspec.json.encode([{"type": kind} | rest]))})


decode_response: Final = base.build_decode_response(StreamDecoder, PROVIDER)


def _raise_error(members: RawMembers) -> None:
    error = members.get("error")
    if error is not None and is_error(error):
        raise decode_error_member(error)


def _is_text_part(thought: object) -> bool:
    return isinstance(thought, dict) and isinstance(thought.get("text"), str)


# -- calls ------------------------------------------------------------------------------------


@final
class _ToolCallReader:
    """Reads the calls of one response: function calls, custom tool calls and legacy calls."""

    def __init__(self, metadata: tolerant.MergedExtras) -> None:
        """Start without calls; members that belong to no call are added to `metadata`."""
        self._metadata = metadata
        self.is_whole = False
        """Whether the response is not streamed, so that every call in it is whole."""
        self._count = 0
        self._indexes_by_id: dict[str, int] = {}
        """The indexes of calls by id, for calls without an index and for whole responses."""
        self._latest_index: int | None = None
        """The index assigned to the latest call that arrived without an index.

        It is None until an index is assigned to the call.
        """
        self._unindexed_count = 0
        self._function_extras: dict[int, Members] = {}
        self._blank_inputs: dict[int, str | None] = {}
        """The blank inputs of custom tools by index; None for an input that is not blank."""

    def read(self, call: Call, events: list[WireEvent]) -> None:
        """Add the events of a call, or of a fragment of it."""
        if self.is_whole:
            call.index = self._count
            self._count += 1
            if self._indexes_by_id.setdefault(call.id or "", call.index) != call.index:
                call.id = None  # two calls share an id: their results could not be distinguished
        index = None if call.index is None else call.index + _FIRST_CALL_INDEX
        function = call.function
        if call.rest is None and function is not None and function.rest is None:
            if index is None and (call.id or function.name):
                self._latest_index = self._indexes_by_id.get(call.id or "")
            events.append(ToolCallPart(index, call.id, function.name, function.arguments))
            return
        rest, inner = call.rest or {}, RawMembers()
        extras: Members = {}
        name = arguments = None
        if function is not None:
            name, inner = function.name, function.rest or {}
            arguments = _read_arguments(function)
        elif (custom := read_as(rest.get("custom"), RawMembers)) is not None:
            del rest["custom"]
            name, arguments, inner = _take_text(custom, "name"), _take_text(custom, "input"), custom
            extras["type"] = "custom"
        extras = tolerant.parse_extras(rest) | extras
        if index is None and (extras or inner):
            index = self._find_index(call.id, name)
        if index is not None and extras.get("type") == "custom":
            # A blank input is noted, so that it is sent back as text and not as `{}`.
            before, more = self._blank_inputs.get(index, ""), arguments or ""
            self._blank_inputs[index] = None if before is None or more.strip() else before + more
        events.append(ToolCallPart(index, call.id, name, arguments))
        if index is not None and inner:
            extras |= self._add_function_extras(index, inner)
        if extras:
            events.append(ExtrasAdded(index, {NAME: extras}))

    def read_legacy(self, call: Function, events: list[WireEvent]) -> None:
        """Add the events of a legacy call, or of a fragment of it; legacy calls have no ids."""
        arguments, inner = _read_arguments(call), call.rest or {}
        if call.name or arguments:
            events.append(ToolCallPart(_FIRST_CALL_INDEX, None, call.name, arguments))
        if call.name:
            kept = tolerant.parse_extras(inner)
            form = {LEGACY_CALL: True} | ({FUNCTION_EXTRAS: kept} if kept else {})
            events.append(ExtrasAdded(_FIRST_CALL_INDEX, {NAME: {FORM_KEY: form}}))
        else:
            self._metadata.add(inner)

    def finish(self, events: list[WireEvent]) -> None:
        """Add the notes on blank inputs, which are known only at the end."""
        for index, text in self._blank_inputs.items():
            if text is not None:
                inner = self._function_extras.get(index)
                form = {"arguments": text} | ({} if inner is None else {FUNCTION_EXTRAS: inner})
                events.append(ExtrasAdded(index, {NAME: {FORM_KEY: form}}))

    def _add_function_extras(self, index: int, inner: RawMembers) -> Members:
        """Return extras with the unknown members of a function so far.

        The result is empty if no member is new, or if there are too many.
        """
        known = self._function_extras.setdefault(index, {})
        if len(known) >= _MAX_FUNCTION_EXTRAS or known.keys() >= inner.keys():
            self._metadata.add(inner)
            return {}
        known |= tolerant.parse_extras(inner)
        return {FORM_KEY: {FUNCTION_EXTRAS: dict(known)}}

    def _find_index(self, id: str | None, name: str | None) -> int:
        """Return the index to assign to a call that arrives without an index.

        Extras refer to the call by this index.
        """
        if id or name:
            self._latest_index = self._indexes_by_id.get(id or "")
        if self._latest_index is None:
            self._latest_index = _FIRST_UNINDEXED_CALL + self._unindexed_count
            self._unindexed_count += 1
        if id:
            self._indexes_by_id[id] = self._latest_index
        return self._latest_index


def _read_arguments(call: Function) -> str | None:
    """Return the arguments of a call; an object in place of a string is returned as JSON text."""
    inner = call.rest or {}
    return raw_text(inner.pop("arguments")) if "arguments" in inner else call.arguments


def _take_text(members: RawMembers, name: str) -> str | None:
    """Remove and return a text member; a value of another type is returned as JSON text."""
    raw = members.pop(name, NULL)
    text = read_as(raw, str)
    return raw_text(raw) if text is None and raw != NULL else text


# -- reasoning details ------------------------------------------------------------------------


class _TextFragments(list[str]):
    """A text in fragments; a separate type distinguishes it from a list that a server sent."""


def _read_details_text(rest: RawMembers) -> str:
    """Return the text of reasoning details; some servers send thinking in no other member."""
    details = read_as(rest.get("reasoning_details"), _DETAIL_OBJECTS) or ()
    texts = [detail.get("text") or detail.get("summary") for detail in details]
    return "".join([text for text in texts if isinstance(text, str)])


def _add_detail(details: list[Members], fragment: Members) -> None:
    """Add a fragment to the last detail if it continues that detail, else as a new detail."""
    last = details[-1] if details else {}
    ids = (last.get("id"), fragment.get("id"))  # later fragments may lack the id
    is_other = (None not in ids and ids[0] != ids[1]) or any(
        last.get(key) != fragment.get(key) for key in ("type", "index")
    )
    if not details or is_other:
        details.append({})
    for name, value in fragment.items():
        known = details[-1].get(name)
        if name in _FRAGMENT_FIELDS and isinstance(value, str):
            if not isinstance(known, _TextFragments):
                known = details[-1][name] = _TextFragments()
            known.append(value)
        elif known is None or value is not None:
            details[-1][name] = value


def _join_detail(detail: Members) -> Members:
    """Return a detail with its fragments joined."""
    return {
        name: "".join(value) if isinstance(value, _TextFragments) else value
        for name, value in detail.items()
    }
