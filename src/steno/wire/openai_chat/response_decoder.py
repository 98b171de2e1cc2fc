"""One answer as it is read: chunk by chunk, or at once."""

from __future__ import annotations

from typing import Any, Final, final

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from steno.errors import ProtocolError
from steno.messages.call import Seal
from steno.messages.content import Opaque
from steno.messages.event import (
    BlockAdded,
    BlockSealed,
    Event,
    ExtrasAdded,
    Finished,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
)
from steno.messages.message import AssistantMessage
from steno.messages.usage import StopReason, Usage
from steno.wire.errors import decode_error, is_error
from steno.wire.extras import FORM_KEY, is_nonempty
from steno.wire.merged_extras import MergedExtras
from steno.wire.openai_chat.dialect import FUNCTION_EXTRAS, LEGACY_CALL
from steno.wire.openai_chat.payload import (
    NAME,
    PROVIDER,
    Call,
    ChatCompletion,
    Choice,
    ChoiceMessage,
    CompletionUsage,
    Function,
    map_stop_reason,
    read_usage,
)
from steno.wire.repeated_events import TextOnlyEvent, build_arguments_delta
from steno.wire.response_decoder import SseStreamDecoder, assemble_message, build_cut_short
from steno.wire.sse import ErrorPayload
from steno.wire.tolerant import (
    DECODE_ERRORS,
    NULL,
    RawMembers,
    SplitSurrogates,
    build_reader,
    build_slow_reader,
    parse_extras,
    parse_members,
    raw_text,
    read_as,
    repair_json,
    to_builtins,
)

# -- calls -----------------------------------------------------------------------------------------
#
# Calls in an answer: by function, by custom tool, or in the old way, and all that is said of them.


_FIRST_CALL_INDEX: Final = 3
"""Blocks of words and calls are numbered together, so that a seal or extras find theirs."""


_FIRST_UNINDEXED_CALL: Final = 1 << 20
"""What calls are counted from that have no index: some servers leave it out of streams."""


_MAX_FUNCTION_EXTRAS: Final = 16
"""So many members of a function are told; no server has more than one or two."""


@final
class _ToolCallReader:
    """Reads the calls of one answer."""

    def __init__(self, beside: MergedExtras, *, is_whole: bool) -> None:
        """Start without any; what no call has a place for goes to `beside`."""
        self._metadata = beside
        self._is_whole = is_whole
        self._count = 0
        self._indexes_by_id: dict[str, int] = {}
        """The indexes that calls without one got from us, by their ids."""
        self._latest_index: int | None = None
        """That of the latest such call; None if it got none yet."""
        self._unindexed_count = 0
        self._function_extras: dict[int, dict[str, Any]] = {}
        self._blank_inputs: dict[int, str | None] = {}
        """The inputs of custom tools by index; None where one says something."""

    def read(self, call: Call, events: list[Event]) -> None:
        """Add the events of a call, or of more of it."""
        if self._is_whole:
            self._assign_index(call)
        index = None if call.index is None else call.index + _FIRST_CALL_INDEX
        function = call.function
        if call.rest is None and function is not None and function.rest is None:
            if index is None and (call.id or function.name):
                self._latest_index = self._indexes_by_id.get(call.id or "")
            events.append(ToolCallDelta(index, call.id, function.name, function.arguments))
            return
        rest, inner = call.rest or {}, RawMembers()
        extras: dict[str, Any] = {}
        name = arguments = None
        if function is not None:
            name, inner = function.name, function.rest or {}
            arguments = _read_arguments(function)
        elif (custom := read_as(rest.get("custom"), RawMembers)) is not None:
            del rest["custom"]
            name, arguments, inner = _take_text(custom, "name"), _take_text(custom, "input"), custom
            extras["type"] = "custom"
        extras = parse_extras(rest) | extras
        if index is None and (extras or inner):
            index = self._find_index(call.id, name)
        if index is not None and extras.get("type") == "custom":
            self._note_input(index, arguments or "")
        events.append(ToolCallDelta(index, call.id, name, arguments))
        if index is not None and inner:
            extras |= self._add_function_extras(index, inner)
        if extras:
            events.append(ExtrasAdded(index, {NAME: extras}))

    def read_legacy(self, call: Function, events: list[Event]) -> None:
        """Read the only call of a turn, or more of it; it has no id, and goes back without one."""
        arguments, inner = _read_arguments(call), call.rest or {}
        if call.name or arguments:
            events.append(ToolCallDelta(_FIRST_CALL_INDEX, None, call.name, arguments))
        if call.name:
            kept = parse_extras(inner)
            form = {LEGACY_CALL: True} | ({FUNCTION_EXTRAS: kept} if kept else {})
            events.append(ExtrasAdded(_FIRST_CALL_INDEX, {NAME: {FORM_KEY: form}}))
        else:
            self._metadata.add(inner)

    def finish(self, events: list[Event]) -> None:
        """Add what is known of calls only at their end."""
        for index, text in self._blank_inputs.items():
            if text is not None:
                inner = self._function_extras.get(index)
                form = {"arguments": text} | ({} if inner is None else {FUNCTION_EXTRAS: inner})
                events.append(ExtrasAdded(index, {NAME: {FORM_KEY: form}}))

    def _note_input(self, index: int, more: str) -> None:
        """Note the input of a custom tool as long as it is blank: text still, and never `{}`."""
        before = self._blank_inputs.get(index, "")
        self._blank_inputs[index] = None if before is None or more.strip() else before + more

    def _assign_index(self, call: Call) -> None:
        """Number a call of a whole answer, where each is one; of two with one id, one loses it.

        Nobody could answer them one by one.
        """
        call.index = self._count
        self._count += 1
        if self._indexes_by_id.setdefault(call.id or "", call.index) != call.index:
            call.id = None

    def _add_function_extras(self, index: int, inner: RawMembers) -> dict[str, Any]:
        """Return extras with all that was told of the function of a call; after too much, none."""
        known = self._function_extras.setdefault(index, {})
        if len(known) >= _MAX_FUNCTION_EXTRAS or known.keys() >= inner.keys():
            self._metadata.add(inner)
            return {}
        known |= parse_extras(inner)
        return {FORM_KEY: {FUNCTION_EXTRAS: dict(known)}}

    def _find_index(self, id: str | None, name: str | None) -> int:
        """Return an index for a call that came without one, for what else is told of it."""
        if id or name:
            self._latest_index = self._indexes_by_id.get(id or "")
        if self._latest_index is None:
            self._latest_index = _FIRST_UNINDEXED_CALL + self._unindexed_count
            self._unindexed_count += 1
        if id:
            self._indexes_by_id[id] = self._latest_index
        return self._latest_index


def _read_arguments(call: Function) -> str | None:
    """Return the arguments of a call; an object, where a string is due, is taken as its text."""
    inner = call.rest or {}
    return raw_text(inner.pop("arguments")) if "arguments" in inner else call.arguments


def _take_text(members: RawMembers, name: str) -> str | None:
    """Take a text out of members; what else stands there as the JSON that it is."""
    raw = members.pop(name, NULL)
    text = read_as(raw, str)
    return raw_text(raw) if text is None and raw != NULL else text


# -- details ---------------------------------------------------------------------------------------
#
# Details of reasoning, as OpenRouter sends them: in fragments, and wanted back whole.


_FRAGMENT_FIELDS: Final = frozenset({"text", "summary", "data"})
"""What comes in fragments."""


_DETAIL_LIST: Final = list[dict[str, Any]]


class _TextFragments(list[str]):
    """A text that grows, told apart from lists that a server sends."""


def _read_details_text(rest: RawMembers) -> str:
    """Return the words in the details of a message, of servers that say them only there."""
    details = read_as(rest.get("reasoning_details"), _DETAIL_LIST) or ()
    texts = [detail.get("text") or detail.get("summary") for detail in details]
    return "".join([text for text in texts if isinstance(text, str)])


def _add_detail(details: list[dict[str, Any]], news: dict[str, Any]) -> None:
    """Add a fragment to the detail it continues: the last one of the same kind and index."""
    if not details or _begins_new_detail(details[-1], news):
        details.append({})
    for name, value in news.items():
        known = details[-1].get(name)
        if name in _FRAGMENT_FIELDS and isinstance(value, str):
            if not isinstance(known, _TextFragments):
                known = details[-1][name] = _TextFragments()
            known.append(value)
        elif known is None or value is not None:
            details[-1][name] = value


def _begins_new_detail(last: dict[str, Any], news: dict[str, Any]) -> bool:
    """Tell whether a fragment begins a detail; an id may come with the first alone."""
    if any(last.get(key) != news.get(key) for key in ("type", "index")):
        return True
    return None not in (last.get("id"), news.get("id")) and last["id"] != news["id"]


def _join_detail(detail: dict[str, Any]) -> dict[str, Any]:
    """Return a detail with its fragments put together."""
    return {
        name: "".join(value) if isinstance(value, _TextFragments) else value
        for name, value in detail.items()
    }


# -- halves ----------------------------------------------------------------------------------------
#
# Characters that a server cut in two.


def _restore_surrogates(payload: bytes, answer: ChatCompletion) -> None:
    """Put back half characters that were mended away: their other halves may come next."""
    halves = SplitSurrogates(payload)
    for number, choice in enumerate(answer.choices):
        delta = choice.delta
        if delta is None:
            continue
        place = ("choices", number, "delta")
        for name in ("content", "reasoning_content", "reasoning"):
            text = halves.text_at(*place, name)
            if text:
                setattr(delta, name, text)
        for position, call in enumerate(delta.tool_calls or ()):
            if call.function is not None:
                text = halves.text_at(*place, "tool_calls", position, "function", "arguments")
                call.function.arguments = text or call.function.arguments


_TEXT_INDEX: Final = 0


_THINKING_INDEX: Final = 1


_OTHER_INDEX: Final = 2


_AUDIO_FRAGMENT_FIELDS: Final = frozenset({"data", "transcript"})
"""What of spoken audio comes in fragments."""


_IDENTITY_FIELDS: Final = (
    "id",
    "object",
    "created",
    "model",
    "system_fingerprint",
    "service_tier",
    "provider",
)


_ANNOTATIONS: Final = "annotations"
"""What comes beside the words, and goes back with them."""


_decode: Final = msgspec.json.Decoder(ChatCompletion).decode


_read_by_member: Final = build_slow_reader(ChatCompletion, NAME)


_read_function: Final = build_reader(Function, NAME)


_read_completion_usage: Final = build_reader(CompletionUsage, NAME)


_PART_LIST: Final = list[Raw]


_DETAIL_OBJECTS: Final = list[dict[str, Any]]


_JSON_DICT: Final = dict[str, Any]


@final
class CompletionReader:
    """One answer as it is read."""

    def __init__(self, provider: str, model: str | None, *, is_whole: bool) -> None:
        self._provider = provider
        self._model = model
        self.stop_reason: str | None = None
        self.is_finished = False
        self._is_whole = is_whole
        self._first_chunk: ChatCompletion | None = None
        self._has_identity = False
        """Whether that one says who answers; Azure's first chunk is about the prompt alone."""
        self._tokens: CompletionUsage | None = None
        self._unknown: RawMembers = {}
        self._other_choices: list[Choice] = []
        self._extras: dict[str, Any] = {}
        self._metadata = MergedExtras(growing=_AUDIO_FRAGMENT_FIELDS)
        """What comes beside the words, and like them in parts: log probabilities, sources."""
        self._refusal: list[str] = []
        self._details: list[dict[str, Any]] = []
        self._has_thought = False
        self._text_index = _TEXT_INDEX
        """The block that words go on in."""
        self._other_thinking: list[str] = []
        self._calls = _ToolCallReader(self._metadata, is_whole=is_whole)

    @property
    def has_choices(self) -> bool:
        """Whether anything was answered at all."""
        return self._first_chunk is not None and bool(self._first_chunk.choices)

    @property
    def envelope(self) -> dict[str, Any]:
        """Everything that was said about the answer."""
        found = to_builtins(self._first_chunk) if self._first_chunk is not None else {}
        found.pop("choices", None)
        found |= parse_members(self._unknown)
        found |= self._metadata.merged()
        if self._other_thinking:
            found["reasoning"] = "".join(self._other_thinking)
        if self._tokens is not None:
            found["usage"] = to_builtins(self._tokens)
        if self._other_choices:
            found["other_choices"] = to_builtins(self._other_choices)
        return found

    @property
    def usage(self) -> Usage | None:
        """What was counted so far."""
        return read_usage(self._tokens) if self._tokens is not None else None

    def read_text_only(self, payload: bytes) -> TextOnlyEvent | None:
        """Return what a chunk says, if that is words or more of a call and nothing else."""
        try:
            answer = _decode(payload)
        except DECODE_ERRORS:
            answer = self._read_known(payload)
        if self._first_chunk is None or answer.usage is not None or len(answer.choices) != 1:
            return None
        if answer.model and not self._has_identity:
            return None  # it says who answers, as well
        choice, said = answer.choices[0], answer.choices[0].delta
        if said is None or said.rest is not None or said.refusal or choice != Choice(delta=said):
            return None
        thinking = said.reasoning_content or said.reasoning
        if said.reasoning and said.reasoning != thinking:
            return None
        match said.content or None, thinking or None, said.tool_calls:
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

    def read(self, payload: bytes, events: list[Event]) -> None:
        """Add the events of a chunk, or of a whole answer."""
        # One function rather than a few: this runs for every word that a model says.
        try:
            answer = _decode(payload)
        except DECODE_ERRORS:
            if payload.startswith(b"[DONE]"):
                self.finish(events)
                return
            answer = self._read_unusual(payload)
        for choice in answer.choices:
            said = choice.delta
            if said is None or choice.index != 0 or choice.rest is not None or self._is_whole:
                said = self._choose(choice)
            if said is not None:
                if said.rest is not None:
                    self._read_unusual_message(said, said.rest, events)
                elif said.reasoning_content or said.reasoning:
                    self._read_thinking(said, events)
                if said.content:
                    events.append(TextDelta(self._text_index, said.content))
                if said.tool_calls is not None:
                    for call in said.tool_calls:
                        self._calls.read(call, events)
                if said.refusal:
                    self._refusal.append(said.refusal)
            if choice.finish_reason is not None and choice.index == 0:
                self.stop_reason = choice.finish_reason or self.stop_reason or ""
                self._read_identity(answer)
        if answer.usage is not None:
            self._tokens = answer.usage
        if answer.usage is not None or not self._has_identity:
            self._read_identity(answer)

    def finish(self, events: list[Event]) -> None:
        """Add the end of the turn, once."""
        if self.is_finished:
            return
        self.is_finished = True
        self._calls.finish(events)
        reason = map_stop_reason(self.stop_reason)
        if self._details:
            if not self._has_thought:
                events.append(ThinkingDelta(_THINKING_INDEX, "", redacted=True))
            events.append(BlockSealed(_THINKING_INDEX, self._seal()))
        if self._refusal:
            self._extras["refusal"] = "".join(self._refusal)
            reason = StopReason.CONTENT_FILTER
        sources = self._metadata.merged((_ANNOTATIONS,)).get(_ANNOTATIONS)
        if isinstance(sources, list) and sources:
            self._extras[_ANNOTATIONS] = sources
        if self._extras:
            events.append(ExtrasAdded(None, {NAME: self._extras}))
        events.append(Finished(reason, self.stop_reason, self.usage))

    def _read_identity(self, answer: ChatCompletion) -> None:
        """Keep who answers, from the first chunk that says it; more may come at the end."""
        first = self._first_chunk
        if first is None or (answer.model and not self._has_identity):
            self._first_chunk = answer
            self._has_identity = bool(answer.model)
            return
        news = {
            name: getattr(answer, name) for name in _IDENTITY_FIELDS if getattr(first, name) is None
        }
        if any(news.values()):
            self._first_chunk = replace(first, **news)

    def _choose(self, choice: Choice) -> ChoiceMessage | None:
        """Return what the first choice says; the others are kept for the record."""
        if choice.index != 0:
            self._other_choices.append(choice)
            return None
        if choice.rest is not None:
            self._raise_error(choice.rest)
            self._metadata.add(choice.rest)
        # Perplexity sends both: in a chunk the message is all so far, in an answer the delta is empty.
        if not self._is_whole:
            return choice.delta or choice.message
        return choice.message or choice.delta

    def _read_unusual(self, payload: bytes) -> ChatCompletion:
        if type(payload) is ErrorPayload:
            raise decode_error(200, payload.data)
        mended = repair_json(payload, NAME)
        answer = _read_by_member(mended)
        if mended != payload:
            _restore_surrogates(payload, answer)
        if answer.rest is not None:
            self._read_unknown(answer.rest)
            if "choices" in answer.rest:
                raise ProtocolError(f"{NAME}: choices must be a list of objects")
        return answer

    def _read_known(self, payload: bytes) -> ChatCompletion:
        """Read a chunk of which members without a name are as they were; an empty one if not."""
        try:
            answer = _read_by_member(payload)
        except ProtocolError:
            return ChatCompletion()
        if any(self._unknown.get(name) != text for name, text in (answer.rest or {}).items()):
            return ChatCompletion()
        for choice in answer.choices:
            said = choice.delta or ChoiceMessage()
            if not self._metadata.is_unchanged(choice.rest) or not self._metadata.is_unchanged(
                said.rest
            ):
                return ChatCompletion()
            choice.rest = said.rest = None
        return answer

    # -- what only some servers say ----------------------------------------------------------

    def _read_unknown(self, rest: RawMembers) -> None:
        """Look for errors and usage in places of their own; keep all of it, as it was last."""
        self._raise_error(rest)
        self._unknown |= rest
        if self._tokens is None:
            self._tokens = _read_groq_usage(rest)

    def _raise_error(self, rest: RawMembers) -> None:
        if is_error(rest.get("error")):
            raise decode_error(200, b'{"error":' + bytes(rest["error"]) + b"}")

    def _read_thinking(self, said: ChoiceMessage, events: list[Event], detailed: str = "") -> None:
        """Add what a chunk thinks; what another member says otherwise is kept beside it."""
        thinking = said.reasoning_content or said.reasoning or detailed
        if thinking:
            self._has_thought = True
            events.append(ThinkingDelta(_THINKING_INDEX, thinking))
        if said.reasoning and said.reasoning != thinking:
            self._other_thinking.append(said.reasoning)

    def _read_unusual_message(
        self, said: ChoiceMessage, rest: RawMembers, events: list[Event]
    ) -> None:
        self._read_thinking(said, events, _read_details_text(rest))
        # What is of another type than these stays with the rest.
        if (parts := read_as(rest.get("content"), _PART_LIST)) is not None:
            del rest["content"]
            for part in parts:
                self._read_part(part, events)
        if read_as(rest.get(LEGACY_CALL), RawMembers) is not None:
            self._calls.read_legacy(_read_function(rest.pop(LEGACY_CALL)), events)
        if (details := read_as(rest.get("reasoning_details"), _DETAIL_OBJECTS)) is not None:
            del rest["reasoning_details"]
            for detail in details:
                _add_detail(self._details, detail)
        audio = read_as(rest.get("audio"), _JSON_DICT)
        if audio is not None and audio.get("id"):
            self._extras["audio"] = {"id": audio["id"]}  # all that is wanted back
        self._metadata.add(rest)

    def _read_part(self, raw: Raw, events: list[Event]) -> None:
        """Read a part of the content, of which Mistral sends lists."""
        part = read_as(raw, _JSON_DICT) or {}
        kind, text, thoughts = part.get("type"), part.get("text"), part.get("thinking")
        if kind == "text" and isinstance(text, str):
            events.append(TextDelta(self._text_index, text))
            del part["text"]
        elif kind == "thinking" and isinstance(thoughts, list):
            self._has_thought = True
            words = [thought["text"] for thought in thoughts if _is_text_part(thought)]
            events.append(ThinkingDelta(_THINKING_INDEX, "".join(words)))
            part["thinking"] = [thought for thought in thoughts if not _is_text_part(thought)]
        else:
            block = Opaque(kind=str(kind or ""), raw=raw_text(raw), origin=NAME)
            events.append(BlockAdded(_OTHER_INDEX, block))
            self._text_index = min(self._text_index, 0) - 1  # text from here on stands behind it
            return
        left = {
            name: value for name, value in part.items() if name != "type" and is_nonempty(value)
        }
        if left:
            self._metadata.add({"content": Raw(msgspec.json.encode([{"type": kind} | left]))})

    def _seal(self) -> Seal:
        model = self._model
        if model is None:  # read offline: what was asked for is not known
            model = (self._first_chunk.model if self._first_chunk else None) or ""
        details = [_join_detail(detail) for detail in self._details]
        data = msgspec.json.encode(details).decode()
        return Seal(data=data, provider=self._provider, api=NAME, model=model)


def _is_text_part(thought: object) -> bool:
    return isinstance(thought, dict) and isinstance(thought.get("text"), str)


def _read_groq_usage(rest: RawMembers) -> CompletionUsage | None:
    inner = read_as(rest.get("x_groq"), RawMembers) or {}
    usage = inner.get("usage", NULL)
    return None if usage == NULL else _read_completion_usage(usage)


# -- answer ----------------------------------------------------------------------------------------
#
# Read answers: whole ones and streams, by the same steps.


def decode_response(
    data: bytes | str, *, provider: str = PROVIDER, model: str | None = None
) -> AssistantMessage:
    """Decode a whole answer. Raises ProviderError if it holds one, ProtocolError if it is none.

    `provider` and `model` (as it was asked for) are whom seals will be for.
    """
    turn = CompletionReader(provider, model, is_whole=True)
    events: list[Event] = []
    turn.read(data.encode("utf-8", "surrogatepass") if isinstance(data, str) else data, events)
    if not turn.has_choices:
        raise ProtocolError(f"{NAME}: an answer has choices")
    turn.finish(events)
    return assemble_message(events)


@final
class StreamDecoder(SseStreamDecoder):
    """Decodes an answer that comes as server-sent events, with or without a `[DONE]`."""

    def __init__(self, *, provider: str = PROVIDER, model: str | None = None) -> None:
        """Start a new answer. `provider` and `model` are whom seals will be for."""
        turn = CompletionReader(provider, model, is_whole=False)
        super().__init__(turn.read, turn.read_text_only)
        self._response = turn

    @property
    def envelope(self) -> dict[str, Any]:
        """What the provider said about its answer, beside the message."""
        return self._response.envelope

    @property
    def usage(self) -> Usage | None:
        """What was counted so far: some servers tell it with every chunk."""
        return self._response.usage

    def _finish(self, events: list[Event]) -> None:
        if not self._response.is_finished:
            if not self._response.stop_reason:  # some servers say it, empty, with every chunk
                raise build_cut_short()
            self._response.finish(events)
