"""Decode responses of generateContent: streamed and whole, with the same reader."""

from __future__ import annotations

from codecs import BOM_UTF8
from contextlib import suppress
from typing import Any, Final, final

import msgspec
from msgspec import Raw

from steno.errors import InvalidRequest, ProtocolError
from steno.json_object import replace_lone_surrogate_escapes
from steno.messages.content import Text, Thinking
from steno.messages.event import (
    BlockAdded,
    BlockSealed,
    Event,
    ExtrasAdded,
    Finished,
    TextDelta,
    ThinkingDelta,
)
from steno.messages.usage import StopReason, Usage
from steno.wire.errors import decode_error, is_error
from steno.wire.extras import FORM_KEY
from steno.wire.framing import ErrorPayload, SseOrArraySplitter
from steno.wire.gemini.parts import read_image_or_opaque
from steno.wire.gemini.payload import (
    ABSENT,
    NAME,
    PROVIDER,
    STOP_REASONS,
    Candidate,
    FunctionCall,
    GenerateContentResponse,
    Part,
    read_block_reason,
    read_usage,
)
from steno.wire.gemini.tool_calls import FunctionCallReader
from steno.wire.request_encoder import RequestTarget
from steno.wire.response_decoder import StreamDecoder as BaseStreamDecoder
from steno.wire.response_decoder import (
    build_cut_short,
    build_decode_response,
    map_stop_reason,
)
from steno.wire.tolerant import (
    DECODE_ERRORS,
    MergedExtras,
    SplitSurrogates,
    build_protocol_error,
    build_slow_reader,
    is_nonempty_json,
    parse_extras,
    parse_value,
)


class _AllCandidates(msgspec.Struct):
    """All candidates as JSON text."""

    candidates: list[Raw]


_SOURCE_FIELDS: Final = frozenset(
    {"citationMetadata", "groundingMetadata", "groundingAttributions", "urlContextMetadata"}
)
"""Members of a candidate with the sources of its text."""
_PROMPT_FEEDBACK_FIELD: Final = "promptFeedback"

_decode: Final = msgspec.json.Decoder(GenerateContentResponse).decode
_read_by_member: Final = build_slow_reader(GenerateContentResponse, NAME)


@final
class StreamDecoder(BaseStreamDecoder):
    """Decodes a response that is streamed as server-sent events, or as a JSON array that grows.

    Every block has an index of its own.
    """

    def __init__(self, *, provider: str = PROVIDER, model: str | None = None) -> None:
        """Start a new response. `provider` and `model` own the seals."""
        self._payloads = SseOrArraySplitter()
        super().__init__(self._payloads, self._read)
        self._provider = provider
        self._model = model
        self._stop_reason: str | None = None
        self._block_reason: str | None = None
        self._usage: Raw = ABSENT
        self._index = -1
        self._growing_kind: type[Text | Thinking] | None = None
        """The type of the latest block, if it may continue."""
        self._calls = FunctionCallReader()
        self._identity: dict[str, str] = {}
        """The model, and the id and time of the response."""
        self._has_identity = False
        """Whether it is complete; the first chunk may be about the prompt only."""
        self._has_candidates = False
        self._metadata = MergedExtras(repeated={*_SOURCE_FIELDS, _PROMPT_FEEDBACK_FIELD})
        self._ratings: Raw = ABSENT
        self._other_candidates: list[Raw] = []

    @property
    def envelope(self) -> dict[str, Any]:
        """The metadata of the response."""
        found: dict[str, Any] = self._identity | self._metadata.merged()
        for name, latest in (("safetyRatings", self._ratings), ("usageMetadata", self._usage)):
            if latest:
                found[name] = parse_value(latest)
        if self._other_candidates:
            found["other_candidates"] = [parse_value(raw) for raw in self._other_candidates]
        return found

    @property
    def usage(self) -> Usage | None:
        """The counts so far, as far as they can be read: every chunk has them."""
        with suppress(ProtocolError):
            return read_usage(self._usage)
        return None

    def _read(self, payload: bytes, events: list[Event]) -> None:
        """Add the events of a chunk, or of a whole response."""
        # One function rather than a few, because it runs for every token of a response.
        try:
            response = _decode(payload)
        except DECODE_ERRORS:
            if payload.startswith(b"[DONE]"):
                return  # some proxies end every stream like OpenAI
            response, payload = self._read_unusual(payload)
        if not self._has_identity:
            self._read_identity(response)
        if response.usage_metadata and is_nonempty_json(response.usage_metadata):
            self._usage = response.usage_metadata
        if response.prompt_feedback:
            self._read_feedback(response.prompt_feedback)
        candidates = response.candidates
        if not candidates:
            return
        self._has_candidates = True
        candidate = candidates[0]
        if len(candidates) > 1 or candidate.index != 0:
            chosen = self._choose(candidates, payload)
            if chosen is None:
                return
            candidate = chosen
        content = candidate.content
        if content is not None and content.parts:
            for part in content.parts:
                text = part.text
                if (
                    text is None
                    or part.thought
                    or part.thought_signature is not None
                    or part.function_call is not None
                    or part.rest is not None
                ):
                    self._read_part(part, events)
                elif text:
                    if self._growing_kind is not Text:
                        self._index += 1
                        self._growing_kind = Text
                    events.append(TextDelta(self._index, text))
        if candidate.safety_ratings and is_nonempty_json(candidate.safety_ratings):
            self._ratings = candidate.safety_ratings  # one for each category: the latest holds
        if (
            candidate.finish_reason is not None
            or candidate.rest is not None
            or candidate.finish_message is not None
            or candidate.avg_logprobs is not None
            or candidate.token_count is not None
        ):
            self._read_metadata(candidate)

    def _read_whole(self, data: bytes, events: list[Event]) -> None:
        """Add the events of a response that is not streamed."""
        self._read(data, events)
        is_response = (
            self._has_candidates
            or "modelVersion" in self._identity
            or self._usage
            or _PROMPT_FEEDBACK_FIELD in self._metadata
        )
        if not is_response:
            raise ProtocolError(
                "an answer has candidates, or says why not", code="candidates_missing", place=NAME
            )
        self._end_turn(events)

    def _finish(self, events: list[Event]) -> None:
        """Add the end of the turn. Raises CutShort if no stop reason has arrived.

        There is no last event: a reason to stop, and no incomplete payload, end a turn.
        """
        is_open = self._stop_reason is None and self._block_reason is None
        if is_open or self._payloads.is_cut:
            raise build_cut_short()
        self._end_turn(events)

    def _end_turn(self, events: list[Event]) -> None:
        reason, raw = map_stop_reason(STOP_REASONS, self._stop_reason), self._stop_reason
        if raw is None and self._block_reason is not None:
            reason, raw = StopReason.CONTENT_FILTER, self._block_reason
        # The arguments so far are always valid JSON: a call that was cut off must not run.
        self._calls.finish(events, is_whole=reason is StopReason.END_TURN)
        sources = self._metadata.merged(_SOURCE_FIELDS)
        if sources:
            # A request has no member for them: they are kept, and not sent.
            events.append(ExtrasAdded(None, {NAME: {FORM_KEY: sources}}))
        events.append(Finished(reason, raw, read_usage(self._usage)))

    def _abandon(self, events: list[Event]) -> None:
        """Add the events of a call that will not end."""
        self._calls.abandon(events)

    # -- metadata ----------------------------------------------------------------------------

    def _read_unusual(self, payload: bytes) -> tuple[GenerateContentResponse, bytes]:
        """Read a chunk with unknown members; return the repaired JSON, too."""
        if type(payload) is ErrorPayload:
            raise decode_error(200, payload.data)
        payload = payload.removeprefix(BOM_UTF8)
        repaired, _ = replace_lone_surrogate_escapes(payload)
        response = _read_by_member(repaired)
        if repaired != payload:
            _restore_surrogates(payload, response)
        rest = response.rest or {}
        if is_error(rest.get("error")):
            raise decode_error(200, repaired)
        self._metadata.add(rest)
        for candidate in response.candidates:
            if candidate.content is not None:
                self._metadata.add(candidate.content.rest)
        return response, repaired

    def _read_identity(self, response: GenerateContentResponse) -> None:
        for name, value in (
            ("modelVersion", response.model_version),
            ("responseId", response.response_id),
            ("createTime", response.create_time),
        ):
            if value:
                self._identity.setdefault(name, value)
        self._has_identity = self._identity.keys() >= {"modelVersion", "responseId"}

    def _read_feedback(self, feedback: Raw) -> None:
        if bytes(feedback) != b"null":
            self._metadata.add({_PROMPT_FEEDBACK_FIELD: feedback})
            self._block_reason = read_block_reason(feedback) or self._block_reason

    def _choose(self, candidates: list[Candidate], payload: bytes) -> Candidate | None:
        """Return the first candidate, if this chunk holds it; keep the others for the log."""
        chosen = next((n for n, found in enumerate(candidates) if found.index == 0), None)
        raws = msgspec.json.decode(payload, type=_AllCandidates).candidates
        self._other_candidates += [raw for n, raw in enumerate(raws) if n != chosen]
        return None if chosen is None else candidates[chosen]

    def _read_metadata(self, candidate: Candidate) -> None:
        """Read the stop reason and the metadata of a candidate: sources, log probabilities."""
        if candidate.finish_reason:
            self._stop_reason = str(candidate.finish_reason)
        for name, value in (
            ("finishMessage", candidate.finish_message),
            ("avgLogprobs", candidate.avg_logprobs),
            ("tokenCount", candidate.token_count),
        ):
            if value is not None:
                self._metadata.add({name: Raw(msgspec.json.encode(value))})
        self._metadata.add(candidate.rest)

    # -- parts -------------------------------------------------------------------------------

    def _target(self) -> RequestTarget:
        """Return the owner of seals: the model as requested, else as the response names it."""
        model = self._identity.get("modelVersion", "") if self._model is None else self._model
        return RequestTarget(self._provider, NAME, model)

    def _read_part(self, part: Part, events: list[Event]) -> None:
        """Read a part that is more than plain text."""
        try:
            if part.function_call is not None:
                self._read_call(part.function_call, part, events)
            elif part.text is None and part.rest is not None:
                self._index += 1
                self._growing_kind = None
                events.append(
                    BlockAdded(self._index, read_image_or_opaque(_write_part(part), self._target()))
                )
            elif part.text or part.thought_signature or part.rest:
                self._read_text(part, events)
        except InvalidRequest as exc:
            raise ProtocolError(f"not JSON: {exc}", code=exc.code, place=NAME) from None
        except DECODE_ERRORS as exc:  # members that are kept as text are decoded here first
            raise build_protocol_error(exc, NAME) from None

    def _read_text(self, part: Part, events: list[Event]) -> None:
        kind: type[Text | Thinking] = Thinking if part.thought else Text
        # A sealed block must be sent back as it was: no other text is appended to it.
        stands_alone = bool(part.thought_signature) or part.rest is not None
        if stands_alone or self._growing_kind is not kind:
            self._index += 1
        self._growing_kind = None if stands_alone else kind
        if kind is Thinking:
            events.append(ThinkingDelta(self._index, part.text or ""))
        elif part.text:
            events.append(TextDelta(self._index, part.text))
        extras = {FORM_KEY: {"text": "absent"}} if part.text is None else {}
        self._add_seal_and_extras(self._index, part, extras | self._read_part_extras(part), events)

    def _read_call(self, function: FunctionCall, part: Part, events: list[Event]) -> None:
        extras = self._calls.continue_call(function, events)
        if extras is None:
            self._index += 1
            self._growing_kind = None
            unsigned = None if part.thought_signature else self._target().model
            extras = self._calls.begin(self._index, function, unsigned, events)
        if part.thought:
            extras["thought"] = True
        if part.text:
            extras["text"] = part.text
        extras = self._calls.add_extras(extras | self._read_part_extras(part))
        self._add_seal_and_extras(self._calls.index, part, extras, events)
        self._calls.end(function, events)

    def _add_seal_and_extras(
        self, index: int, part: Part, extras: dict[str, Any], events: list[Event]
    ) -> None:
        """Add the seal and the extras of a block."""
        if part.thought_signature:
            events.append(BlockSealed(index, self._target().seal(part.thought_signature)))
        if extras:
            events.append(ExtrasAdded(index, {NAME: extras}))

    def _read_part_extras(self, part: Part) -> dict[str, Any]:
        """Return the unknown members of a part."""
        rest = part.rest or {}
        if FORM_KEY in rest:  # it would be taken for a note of ours
            self._metadata.add({FORM_KEY: rest.pop(FORM_KEY)})
        return parse_extras(rest)


decode_response: Final = build_decode_response(StreamDecoder, PROVIDER)


def _write_part(part: Part) -> Raw:
    """Return the JSON of a part that was read member by member."""
    members: dict[str, Any] = dict(part.rest or {})
    if part.thought is not None:
        members["thought"] = part.thought
    if part.thought_signature is not None:
        members["thoughtSignature"] = part.thought_signature
    return Raw(msgspec.json.encode(members))


def _restore_surrogates(payload: bytes, response: GenerateContentResponse) -> None:
    """Restore lone surrogates that were replaced: their other halves may come next."""
    texts = SplitSurrogates(payload)
    for number, candidate in enumerate(response.candidates):
        parts = candidate.content.parts if candidate.content is not None else None
        for position, part in enumerate(parts or ()):
            path = ("candidates", number, "content", "parts", position)
            texts.restore(part, "text", *path, "text")
            fragments = part.function_call.partial_args if part.function_call is not None else None
            for at, fragment in enumerate(fragments or ()):
                texts.restore(
                    fragment,
                    "string_value",
                    *(*path, "functionCall", "partialArgs", at, "stringValue"),
                )
