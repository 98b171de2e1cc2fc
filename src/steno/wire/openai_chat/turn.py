"""One answer as it is read: chunk by chunk, or at once."""

from __future__ import annotations

from typing import Any, Final, final

import msgspec
from msgspec import Raw
from msgspec.structs import replace

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
)
from steno.usage import StopReason, Usage
from steno.wire.extras import says
from steno.wire.fault import decode_error, is_error
from steno.wire.gathered import Gathered
from steno.wire.open import (
    NOT_AS_EXPECTED,
    NULL,
    Rest,
    mend,
    parsed,
    plain,
    read_as,
    reader,
    slow_reader,
    text_of,
)
from steno.wire.openai_chat.calls import FIRST_CALL, CallReader
from steno.wire.openai_chat.details import add_detail, joined_detail, thinking_of
from steno.wire.openai_chat.dialect import LEGACY
from steno.wire.openai_chat.halves import restore_halves
from steno.wire.openai_chat.shapes import (
    NAME,
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

_TEXT: Final = 0
_THINKING: Final = 1
_OTHER: Final = 2
_SPOKEN: Final = frozenset({"data", "transcript"})
"""What of spoken audio comes in fragments."""
_NAMES: Final = (
    "id",
    "object",
    "created",
    "model",
    "system_fingerprint",
    "service_tier",
    "provider",
)
_SOURCES: Final = "annotations"
"""What comes beside the words, and goes back with them."""

_decode: Final = msgspec.json.Decoder(Answer).decode
_read: Final = slow_reader(Answer, NAME)
_read_function: Final = reader(Function, NAME)
_read_tokens: Final = reader(Tokens, NAME)
_PARTS: Final = list[Raw]
_DETAILS: Final = list[dict[str, Any]]
_MEMBERS: Final = dict[str, Any]


@final
class Turn:
    """One answer as it is read."""

    def __init__(self, provider: str, model: str | None, *, is_whole: bool) -> None:
        self._provider = provider
        self._model = model
        self.stop_reason: str | None = None
        self.is_finished = False
        self._is_whole = is_whole
        self._first_chunk: Answer | None = None
        self._has_identity = False
        """Whether that one says who answers; Azure's first chunk is about the prompt alone."""
        self._tokens: Tokens | None = None
        self._unknown: Rest = {}
        self._other_choices: list[Choice] = []
        self._extras: dict[str, Any] = {}
        self._metadata = Gathered(growing=_SPOKEN)
        """What comes beside the words, and like them in parts: log probabilities, sources."""
        self._refusal: list[str] = []
        self._details: list[dict[str, Any]] = []
        self._has_thought = False
        self._text_index = _TEXT
        """The block that words go on in."""
        self._other_thinking: list[str] = []
        self._calls = CallReader(self._metadata, is_whole=is_whole)

    @property
    def has_choices(self) -> bool:
        """Whether anything was answered at all."""
        return self._first_chunk is not None and bool(self._first_chunk.choices)

    @property
    def envelope(self) -> dict[str, Any]:
        """Everything that was said about the answer."""
        found = plain(self._first_chunk) if self._first_chunk is not None else {}
        found.pop("choices", None)
        found |= parsed(self._unknown)
        found |= self._metadata.merged()
        if self._other_thinking:
            found["reasoning"] = "".join(self._other_thinking)
        if self._tokens is not None:
            found["usage"] = plain(self._tokens)
        if self._other_choices:
            found["other_choices"] = plain(self._other_choices)
        return found

    @property
    def usage(self) -> Usage | None:
        """What was counted so far."""
        return usage_of(self._tokens) if self._tokens is not None else None

    def read_text_only(self, payload: bytes) -> Told | None:
        """Return what a chunk says, if that is words or more of a call and nothing else."""
        try:
            answer = _decode(payload)
        except NOT_AS_EXPECTED:
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
                return Told(TextDelta, self._text_index, text)
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
                return Told(more_arguments, index + FIRST_CALL, text)
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
        reason = stop_reason_of(self.stop_reason)
        if self._details:
            if not self._has_thought:
                events.append(ThinkingDelta(_THINKING, "", redacted=True))
            events.append(BlockSealed(_THINKING, self._seal()))
        if self._refusal:
            self._extras["refusal"] = "".join(self._refusal)
            reason = StopReason.CONTENT_FILTER
        sources = self._metadata.merged((_SOURCES,)).get(_SOURCES)
        if isinstance(sources, list) and sources:
            self._extras[_SOURCES] = sources
        if self._extras:
            events.append(ExtrasAdded(None, {NAME: self._extras}))
        events.append(Finished(reason, self.stop_reason, self.usage))

    def _read_identity(self, answer: Answer) -> None:
        """Keep who answers, from the first chunk that says it; more may come at the end."""
        first = self._first_chunk
        if first is None or (answer.model and not self._has_identity):
            self._first_chunk = answer
            self._has_identity = bool(answer.model)
            return
        news = {name: getattr(answer, name) for name in _NAMES if getattr(first, name) is None}
        if any(news.values()):
            self._first_chunk = replace(first, **news)

    def _choose(self, choice: Choice) -> Said | None:
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

    def _read_unusual(self, payload: bytes) -> Answer:
        if type(payload) is ErrorPayload:
            raise decode_error(200, payload.data)
        mended = mend(payload, NAME)
        answer = _read(mended)
        if mended != payload:
            restore_halves(payload, answer)
        if answer.rest is not None:
            self._read_unknown(answer.rest)
            if "choices" in answer.rest:
                raise ProtocolError(f"{NAME}: choices must be a list of objects")
        return answer

    def _read_known(self, payload: bytes) -> Answer:
        """Read a chunk of which members without a name are as they were; an empty one if not."""
        try:
            answer = _read(payload)
        except ProtocolError:
            return Answer()
        if any(self._unknown.get(name) != text for name, text in (answer.rest or {}).items()):
            return Answer()
        for choice in answer.choices:
            said = choice.delta or Said()
            if not self._metadata.is_unchanged(choice.rest) or not self._metadata.is_unchanged(said.rest):
                return Answer()
            choice.rest = said.rest = None
        return answer

    # -- what only some servers say ----------------------------------------------------------

    def _read_unknown(self, rest: Rest) -> None:
        """Look for errors and usage in places of their own; keep all of it, as it was last."""
        self._raise_error(rest)
        self._unknown |= rest
        if self._tokens is None:
            self._tokens = _tokens_of_groq(rest)

    def _raise_error(self, rest: Rest) -> None:
        if is_error(rest.get("error")):
            raise decode_error(200, b'{"error":' + bytes(rest["error"]) + b"}")

    def _read_thinking(self, said: Said, events: list[Event], detailed: str = "") -> None:
        """Add what a chunk thinks; what another member says otherwise is kept beside it."""
        thinking = said.reasoning_content or said.reasoning or detailed
        if thinking:
            self._has_thought = True
            events.append(ThinkingDelta(_THINKING, thinking))
        if said.reasoning and said.reasoning != thinking:
            self._other_thinking.append(said.reasoning)

    def _read_unusual_message(self, said: Said, rest: Rest, events: list[Event]) -> None:
        self._read_thinking(said, events, thinking_of(rest))
        # What is of another type than these stays with the rest.
        if (parts := read_as(rest.get("content"), _PARTS)) is not None:
            del rest["content"]
            for part in parts:
                self._read_part(part, events)
        if read_as(rest.get(LEGACY), Rest) is not None:
            self._calls.read_legacy(_read_function(rest.pop(LEGACY)), events)
        if (details := read_as(rest.get("reasoning_details"), _DETAILS)) is not None:
            del rest["reasoning_details"]
            for detail in details:
                add_detail(self._details, detail)
        audio = read_as(rest.get("audio"), _MEMBERS)
        if audio is not None and audio.get("id"):
            self._extras["audio"] = {"id": audio["id"]}  # all that is wanted back
        self._metadata.add(rest)

    def _read_part(self, raw: Raw, events: list[Event]) -> None:
        """Read a part of the content, of which Mistral sends lists."""
        part = read_as(raw, _MEMBERS) or {}
        kind, text, thoughts = part.get("type"), part.get("text"), part.get("thinking")
        if kind == "text" and isinstance(text, str):
            events.append(TextDelta(self._text_index, text))
            del part["text"]
        elif kind == "thinking" and isinstance(thoughts, list):
            self._has_thought = True
            words = [thought["text"] for thought in thoughts if _is_text(thought)]
            events.append(ThinkingDelta(_THINKING, "".join(words)))
            part["thinking"] = [thought for thought in thoughts if not _is_text(thought)]
        else:
            block = Opaque(kind=str(kind or ""), raw=text_of(raw), origin=NAME)
            events.append(BlockAdded(_OTHER, block))
            self._text_index = min(self._text_index, 0) - 1  # text from here on stands behind it
            return
        left = {name: value for name, value in part.items() if name != "type" and says(value)}
        if left:
            self._metadata.add({"content": Raw(msgspec.json.encode([{"type": kind} | left]))})

    def _seal(self) -> Seal:
        model = self._model
        if model is None:  # read offline: what was asked for is not known
            model = (self._first_chunk.model if self._first_chunk else None) or ""
        details = [joined_detail(detail) for detail in self._details]
        data = msgspec.json.encode(details).decode()
        return Seal(data=data, provider=self._provider, api=NAME, model=model)


def _is_text(thought: object) -> bool:
    return isinstance(thought, dict) and isinstance(thought.get("text"), str)


def _tokens_of_groq(rest: Rest) -> Tokens | None:
    inner = read_as(rest.get("x_groq"), Rest) or {}
    usage = inner.get("usage", NULL)
    return None if usage == NULL else _read_tokens(usage)
