"""Read answers: whole ones and streams, by the same steps."""

from __future__ import annotations

from typing import Any, Final, final

import msgspec
from msgspec import Raw

from steno.call import Seal
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
    ToolCallDelta,
)
from steno.message import AssistantMessage
from steno.usage import StopReason
from steno.wire.extras import FORM
from steno.wire.fault import decode_error
from steno.wire.open import (
    NOT_AS_EXPECTED,
    Rest,
    mend,
    parsed,
    parsed_extras,
    plain,
    read_as,
    reader,
    text_of,
    text_with_halves,
)
from steno.wire.openai_chat.details import add_detail, joined_detail, thinking_of
from steno.wire.openai_chat.dialect import LEGACY
from steno.wire.openai_chat.shapes import (
    NAME,
    PROVIDER,
    Answer,
    Call,
    Choice,
    Function,
    Said,
    Tokens,
    stop_reason_of,
    usage_of,
)
from steno.wire.refrain import Told, more_arguments
from steno.wire.sse import ErrorPayload
from steno.wire.stream import EventStreamDecoder, assemble, cut_short

_TEXT: Final = 0
_THINKING: Final = 1
_OTHER: Final = 2
_FIRST_CALL: Final = 3
"""Blocks of words and calls are numbered together, so that a seal or extras find theirs."""

_decode: Final = msgspec.json.Decoder(Answer).decode
_read: Final = reader(Answer, NAME)
_read_function: Final = reader(Function, NAME)
_read_tokens: Final = reader(Tokens, NAME)


def decode_response(
    data: bytes | str, *, provider: str = PROVIDER, model: str | None = None
) -> AssistantMessage:
    """Decode a whole answer. Raises ProviderError if it holds one, ProtocolError if it is none.

    `provider` and `model` (as it was asked for) are whom seals will be for.
    """
    turn = _Turn(provider, model, is_whole=True)
    events: list[Event] = []
    turn.read(data.encode() if isinstance(data, str) else data, events)
    if not turn.has_choices:
        raise ProtocolError(f"{NAME}: an answer has choices")
    turn.finish(events)
    return assemble(events)


@final
class StreamDecoder(EventStreamDecoder):
    """Decodes an answer that comes as server-sent events, with or without a `[DONE]`."""

    def __init__(self, *, provider: str = PROVIDER, model: str | None = None) -> None:
        """Start a new answer. `provider` and `model` are whom seals will be for."""
        turn = _Turn(provider, model, is_whole=False)
        super().__init__(turn.read, turn.tell)
        self._turn = turn

    @property
    def envelope(self) -> dict[str, Any]:
        """What the provider said about its answer, beside the message."""
        return self._turn.envelope

    def _finish(self, events: list[Event]) -> None:
        if not self._turn.is_finished:
            if self._turn.stop_reason is None:
                raise cut_short()
            self._turn.finish(events)


@final
class _Turn:
    """One answer as it is read."""

    def __init__(self, provider: str, model: str | None, *, is_whole: bool) -> None:
        self._provider = provider
        self._model = model
        self.stop_reason: str | None = None
        self.is_finished = False
        self._is_whole = is_whole
        self._first: Answer | None = None
        self._tokens: Tokens | None = None
        self._unnamed: Rest = {}
        self._others: list[Choice] = []
        self._extras: dict[str, Any] = {}
        self._grown: dict[str, list[Raw]] = {}
        self._refusal: list[str] = []
        self._details: list[dict[str, Any]] = []
        self._has_thought = False

    @property
    def has_choices(self) -> bool:
        """Whether anything was answered at all."""
        return self._first is not None and bool(self._first.choices)

    @property
    def envelope(self) -> dict[str, Any]:
        """Everything that was said about the answer."""
        found = plain(self._first) if self._first is not None else {}
        found.pop("choices", None)
        found |= parsed(self._unnamed)
        found |= {name: _joined(texts) for name, texts in self._grown.items()}
        if self._tokens is not None:
            found["usage"] = plain(self._tokens)
        if self._others:
            found["other_choices"] = plain(self._others)
        return found

    def tell(self, payload: bytes) -> Told | None:
        """Return what a chunk says, if that is words or more of a call and nothing else."""
        try:
            answer = _decode(payload)
        except NOT_AS_EXPECTED:
            return None
        if self._first is None or answer.usage is not None or len(answer.choices) != 1:
            return None
        choice, said = answer.choices[0], answer.choices[0].delta
        if said is None or said.rest is not None or said.refusal or choice != Choice(delta=said):
            return None
        thinking = said.reasoning_content or said.reasoning
        match said.content or None, thinking or None, said.tool_calls:
            case str(text), None, None:
                return Told(TextDelta, _TEXT, text)
            case None, str(text), None:
                return Told(ThinkingDelta, _THINKING, text)
            case None, None, [
                Call(
                    index=int(index),
                    id=None,
                    function=Function(name=None, arguments=str(text), rest=None),
                    rest=None,
                )
            ] if text:
                return Told(more_arguments, index + _FIRST_CALL, text)
            case _:
                return None

    def read(self, payload: bytes, events: list[Event]) -> None:
        """Add the events of a chunk, or of a whole answer."""
        # One function rather than a few: this runs for every word that a model says.
        try:
            answer = _decode(payload)
        except NOT_AS_EXPECTED:
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
                    self._read_odd(said, said.rest, events)
                elif said.reasoning_content or said.reasoning:
                    self._has_thought = True
                    thinking = said.reasoning_content or said.reasoning or ""
                    events.append(ThinkingDelta(_THINKING, thinking))
                if said.content:
                    events.append(TextDelta(_TEXT, said.content))
                if said.tool_calls is not None:
                    for call in said.tool_calls:
                        self._read_call(call, events)
                if said.refusal:
                    self._refusal.append(said.refusal)
            if choice.finish_reason is not None and choice.index == 0:
                self.stop_reason = choice.finish_reason
        if answer.usage is not None:
            self._tokens = answer.usage
        if self._first is None:
            self._first = answer

    def finish(self, events: list[Event]) -> None:
        """Add the end of the turn, once."""
        if self.is_finished:
            return
        self.is_finished = True
        reason = stop_reason_of(self.stop_reason)
        if self._details:
            if not self._has_thought:
                events.append(ThinkingDelta(_THINKING, "", redacted=True))
            events.append(BlockSealed(_THINKING, self._seal()))
        if self._refusal:
            self._extras["refusal"] = "".join(self._refusal)
            reason = StopReason.CONTENT_FILTER
        self._extras |= _annotations(self._grown.get("annotations", []))
        if self._extras:
            events.append(ExtrasAdded(None, {NAME: self._extras}))
        usage = usage_of(self._tokens) if self._tokens is not None else None
        events.append(Finished(reason, self.stop_reason, usage))

    def _choose(self, choice: Choice) -> Said | None:
        """Return what the first choice says; the others are kept for the record."""
        if choice.index != 0:
            self._others.append(choice)
            return None
        if choice.rest is not None:
            self._raise_error(choice.rest)
            self._keep(choice.rest)
        # Perplexity sends both: in a chunk the message is all so far, in an answer the delta is empty.
        return (
            (choice.message if self._is_whole else choice.delta) or choice.delta or choice.message
        )

    def _read_unusual(self, payload: bytes) -> Answer:
        if type(payload) is ErrorPayload:
            raise decode_error(200, payload)
        mended = mend(payload, NAME)
        answer = _read(mended)
        if mended != payload:
            _restore_halves(payload, answer)
        if answer.rest is not None:
            self._read_unnamed(answer.rest)
            if "choices" in answer.rest:
                raise ProtocolError(f"{NAME}: choices must be a list of objects")
        return answer

    # -- what only some servers say ----------------------------------------------------------

    def _read_unnamed(self, rest: Rest) -> None:
        """Look for errors and usage in places of their own; keep all of it, as it was last."""
        self._raise_error(rest)
        self._unnamed |= rest
        if self._tokens is None:
            self._tokens = _tokens_of_groq(rest)

    def _raise_error(self, rest: Rest) -> None:
        error = bytes(rest.get("error", b"null"))
        if error != b"null":
            raise decode_error(200, b'{"error":' + error + b"}")

    def _keep(self, rest: Rest) -> None:
        """Keep what comes beside the words, and like them in parts: log probabilities, sources."""
        for name, text in rest.items():
            self._grown.setdefault(name, []).append(text)

    def _read_odd(self, said: Said, rest: Rest, events: list[Event]) -> None:
        thinking = said.reasoning_content or said.reasoning or thinking_of(rest)
        if thinking:
            self._has_thought = True
            events.append(ThinkingDelta(_THINKING, thinking))
        for part in read_as(rest.pop("content", None), list[Raw]) or ():
            self._read_part(part, events)
        call = rest.pop(LEGACY, None)
        if call is not None and read_as(call, Rest) is not None:
            self._read_legacy_call(_read_function(call), events)
        for detail in read_as(rest.pop("reasoning_details", None), list[dict[str, Any]]) or ():
            add_detail(self._details, detail)
        audio = read_as(rest.pop("audio", None), dict[str, Any])
        if audio is not None and audio.get("id"):
            self._extras["audio"] = {"id": audio["id"]}  # all that is wanted back
        self._keep(rest)

    def _read_call(self, call: Call, events: list[Event]) -> None:
        index = None if call.index is None else call.index + _FIRST_CALL
        function = call.function
        if call.rest is None and function is not None and function.rest is None:
            events.append(ToolCallDelta(index, call.id, function.name, function.arguments))
            return
        rest = call.rest or {}
        custom = read_as(rest.pop("custom", None), dict[str, Any]) or {}
        name, arguments = custom.get("name"), custom.get("input")
        if function is not None:
            name, arguments = function.name, function.arguments
            inner = function.rest or {}
            if "arguments" in inner:
                arguments = text_of(inner.pop("arguments"))  # an object, where a string is due
            rest |= inner
        events.append(ToolCallDelta(index, call.id, name, arguments))
        extras = parsed_extras(rest) | ({"type": "custom"} if custom else {})
        if extras and index is not None:
            events.append(ExtrasAdded(index, {NAME: extras}))
        elif extras:
            self._keep(rest)

    def _read_legacy_call(self, call: Function, events: list[Event]) -> None:
        """Read the only call of a turn, or more of it; it has no id, and goes back without one."""
        inner = call.rest or {}
        arguments = call.arguments
        if "arguments" in inner:
            arguments = text_of(inner.pop("arguments"))  # an object, where a string is due
        if call.name or arguments:
            events.append(ToolCallDelta(_FIRST_CALL, None, call.name, arguments))
        if call.name:
            kept = parsed_extras(inner)
            form = {LEGACY: True} | ({"inner": kept} if kept else {})
            events.append(ExtrasAdded(_FIRST_CALL, {NAME: {FORM: form}}))

    def _read_part(self, raw: Raw, events: list[Event]) -> None:
        """Read a part of the content, of which Mistral sends lists."""
        part = read_as(raw, dict[str, Any]) or {}
        text, thoughts = part.get("text"), part.get("thinking")
        if part.get("type") == "text" and isinstance(text, str):
            events.append(TextDelta(_TEXT, text))
        elif part.get("type") == "thinking" and isinstance(thoughts, list):
            texts = [thought.get("text") for thought in thoughts if isinstance(thought, dict)]
            self._has_thought = True
            events.append(ThinkingDelta(_THINKING, "".join(filter(None, texts))))
        else:
            block = Opaque(kind=str(part.get("type", "")), raw=text_of(raw), origin=NAME)
            events.append(BlockAdded(_OTHER, block))

    def _seal(self) -> Seal:
        model = self._model
        if model is None:  # read offline: what was asked for is not known
            model = (self._first.model if self._first else None) or ""
        details = [joined_detail(detail) for detail in self._details]
        data = msgspec.json.encode(details).decode()
        return Seal(data=data, provider=self._provider, api=NAME, model=model)


def _restore_halves(payload: bytes, answer: Answer) -> None:
    """Put back half characters that were mended away: their other halves may come next."""
    for number, choice in enumerate(answer.choices):
        delta = choice.delta
        if delta is None:
            continue
        place = ("choices", number, "delta")
        delta.content = text_with_halves(payload, *place, "content") or delta.content
        for position, call in enumerate(delta.tool_calls or ()):
            if call.function is not None:
                path = (*place, "tool_calls", position, "function", "arguments")
                call.function.arguments = (
                    text_with_halves(payload, *path) or call.function.arguments
                )


def _tokens_of_groq(rest: Rest) -> Tokens | None:
    inner = read_as(rest.get("x_groq"), dict[str, Raw]) or {}
    return _read_tokens(inner["usage"]) if "usage" in inner else None


def _annotations(texts: list[Raw]) -> dict[str, Any]:
    """Return the sources of an answer, which come in parts as well; servers take them back."""
    lists = parsed_extras({str(number): text for number, text in enumerate(texts)}).values()
    found = [source for part in lists if isinstance(part, list) for source in part]
    return {"annotations": found} if found else {}


def _joined(texts: list[Raw]) -> Any:
    """Join what came in parts: lists behind each other, objects member by member, else the last."""
    values = list(parsed({str(number): text for number, text in enumerate(texts)}).values())
    if all(isinstance(value, list) for value in values):
        return [element for value in values for element in value]
    if not all(isinstance(value, dict) for value in values):
        return values[-1]
    joined: dict[str, Any] = {}
    for name, part in [pair for value in values for pair in value.items()]:
        found = joined.get(name)
        if isinstance(found, list) and isinstance(part, list):
            found += part
        else:
            joined[name] = part
    return joined
