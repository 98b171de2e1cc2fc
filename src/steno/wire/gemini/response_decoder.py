"""Read answers: whole ones and streams, by the same steps."""

from __future__ import annotations

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
from steno.messages.message import AssistantMessage
from steno.messages.usage import StopReason, Usage
from steno.wire.errors import decode_error, is_error
from steno.wire.extras import FORM_KEY
from steno.wire.gemini.json_stream import BOM, SseOrArraySplitter
from steno.wire.gemini.parts import read_image_or_opaque
from steno.wire.gemini.payload import (
    ABSENT,
    NAME,
    PROVIDER,
    Candidate,
    FunctionCall,
    GenerateContentResponse,
    Part,
    map_stop_reason,
    parse_value,
    read_block_reason,
    read_usage,
)
from steno.wire.gemini.tool_calls import FunctionCallReader
from steno.wire.merged_extras import MergedExtras, is_nonempty_json
from steno.wire.request_encoder import RequestTarget
from steno.wire.response_decoder import StreamDecoder as BaseDecoder
from steno.wire.response_decoder import assemble_message, build_cut_short
from steno.wire.sse import ErrorPayload
from steno.wire.tolerant import (
    DECODE_ERRORS,
    SplitSurrogates,
    build_slow_reader,
    explain_decode_error,
    parse_extras,
)


class _AllCandidates(msgspec.Struct):
    """All candidates as they came."""

    candidates: list[Raw]


_SOURCE_FIELDS: Final = frozenset(
    {"citationMetadata", "groundingMetadata", "groundingAttributions", "urlContextMetadata"}
)
"""Members of a candidate that tell where its words come from."""
_PROMPT_FEEDBACK_FIELD: Final = "promptFeedback"
_REPLACEMENT: Final = "\N{REPLACEMENT CHARACTER}"
"""What stands for half a character."""

_decode: Final = msgspec.json.Decoder(GenerateContentResponse).decode
_read_by_member: Final = build_slow_reader(GenerateContentResponse, NAME)


def decode_response(
    data: bytes | str, *, provider: str = PROVIDER, model: str | None = None
) -> AssistantMessage:
    """Decode a whole answer. Raises ProviderError if it holds one, ProtocolError if it is none.

    `provider` and `model` (as it was asked for) are whom seals will be for.
    """
    turn = _GeminiResponseReader(provider, model)
    events: list[Event] = []
    turn.read(data.encode(errors="surrogatepass") if isinstance(data, str) else data, events)
    if not turn.has_response:
        raise ProtocolError(f"{NAME}: an answer has candidates, or says why not")
    turn.finish(events)
    return assemble_message(events)


@final
class StreamDecoder(BaseDecoder):
    """Decodes an answer that comes as server-sent events, or as a JSON array that grows."""

    def __init__(self, *, provider: str = PROVIDER, model: str | None = None) -> None:
        """Start a new answer. `provider` and `model` are whom seals will be for."""
        turn, pieces = _GeminiResponseReader(provider, model), SseOrArraySplitter()
        super().__init__(pieces, turn.read)
        self._response = turn
        self._payloads = pieces

    @property
    def envelope(self) -> dict[str, Any]:
        """What the provider said about its answer, beside the message."""
        return self._response.envelope

    @property
    def usage(self) -> Usage | None:
        """What was counted so far: every chunk tells it."""
        return self._response.usage

    def _finish(self, events: list[Event]) -> None:
        # There is no last event: a turn is over if a reason was given and nothing is half there.
        if self._payloads.is_cut or not self._response.has_ended:
            raise build_cut_short()
        self._response.finish(events)

    def _abandon(self, events: list[Event]) -> None:
        self._response.abandon(events)


@final
class _GeminiResponseReader:
    """One answer as it is read. Every block has an index of its own."""

    def __init__(self, provider: str, model: str | None) -> None:
        self._provider = provider
        self._model = model
        self._stop_reason: str | None = None
        self._block_reason: str | None = None
        self._usage: Raw = ABSENT
        self._index = -1
        self._growing_kind: type[Text | Thinking] | None = None
        """What the block at the index is, if more may be added to it."""
        self._calls = FunctionCallReader()
        self._identity: dict[str, str] = {}
        """Who answers, and which answer it is."""
        self._has_identity = False
        """Whether they are told; the first chunk may be about the prompt alone."""
        self._has_candidates = False
        self._metadata = MergedExtras(retold={*_SOURCE_FIELDS, _PROMPT_FEEDBACK_FIELD})
        self._ratings: Raw = ABSENT
        self._other_candidates: list[Raw] = []

    @property
    def has_response(self) -> bool:
        """Whether this is an answer at all."""
        return bool(
            self._has_candidates
            or "modelVersion" in self._identity
            or self._usage
            or _PROMPT_FEEDBACK_FIELD in self._metadata
        )

    @property
    def has_ended(self) -> bool:
        """Whether the turn is over, as far as anybody can tell."""
        return self._stop_reason is not None or self._block_reason is not None

    @property
    def envelope(self) -> dict[str, Any]:
        """Everything that was said about the answer."""
        found: dict[str, Any] = self._identity | self._metadata.merged()
        for name, latest in (("safetyRatings", self._ratings), ("usageMetadata", self._usage)):
            if latest:
                found[name] = parse_value(latest)
        if self._other_candidates:
            found["other_candidates"] = [parse_value(raw) for raw in self._other_candidates]
        return found

    def read(self, payload: bytes, events: list[Event]) -> None:
        """Add the events of a chunk, or of a whole answer."""
        # One function rather than a few: this runs for every word that a model says.
        try:
            answer = _decode(payload)
        except DECODE_ERRORS:
            if payload.startswith(b"[DONE]"):
                return  # some proxies end every stream like OpenAI's
            answer, payload = self._read_unusual(payload)
        if not self._has_identity:
            self._read_identity(answer)
        if answer.usage_metadata and is_nonempty_json(answer.usage_metadata):
            self._usage = answer.usage_metadata
        if answer.prompt_feedback:
            self._read_feedback(answer.prompt_feedback)
        candidates = answer.candidates
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
            self._ratings = candidate.safety_ratings  # at most one of a kind: the latest hold
        if (
            candidate.finish_reason is not None
            or candidate.rest is not None
            or candidate.finish_message is not None
            or candidate.avg_logprobs is not None
            or candidate.token_count is not None
        ):
            self._read_metadata(candidate)

    @property
    def usage(self) -> Usage | None:
        """What was counted so far, as far as it can be read."""
        with suppress(ProtocolError):
            return read_usage(self._usage)
        return None

    def finish(self, events: list[Event]) -> None:
        """Add the end of the turn."""
        reason, raw = map_stop_reason(self._stop_reason), self._stop_reason
        if raw is None and self._block_reason is not None:
            reason, raw = StopReason.CONTENT_FILTER, self._block_reason
        # Its JSON would be valid at any time: nobody may run what was to go on.
        self._calls.finish(events, is_whole=reason is StopReason.END_TURN)
        sources = self._metadata.merged(_SOURCE_FIELDS)
        if sources:
            # Contents of a request have no place for them: they are kept, and not sent.
            events.append(ExtrasAdded(None, {NAME: {FORM_KEY: sources}}))
        events.append(Finished(reason, raw, read_usage(self._usage)))

    def abandon(self, events: list[Event]) -> None:
        """Add what was held back of a turn that will not end any more."""
        self._calls.abandon(events)

    # -- beside what is said -----------------------------------------------------------------

    def _read_unusual(self, payload: bytes) -> tuple[GenerateContentResponse, bytes]:
        """Read a chunk with more to it than ours; return it mended, too."""
        if type(payload) is ErrorPayload:
            raise decode_error(200, payload.data)
        payload = payload.removeprefix(BOM)
        mended, _ = replace_lone_surrogate_escapes(payload)
        answer = _read_by_member(mended)
        if mended != payload:
            _restore_surrogates(payload, answer)
        rest = answer.rest or {}
        if is_error(rest.get("error")):
            raise decode_error(200, mended)
        self._metadata.add(rest)
        for candidate in answer.candidates:
            if candidate.content is not None:
                self._metadata.add(candidate.content.rest)
        return answer, mended

    def _read_identity(self, answer: GenerateContentResponse) -> None:
        for name, value in (
            ("modelVersion", answer.model_version),
            ("responseId", answer.response_id),
            ("createTime", answer.create_time),
        ):
            if value:
                self._identity.setdefault(name, value)
        self._has_identity = self._identity.keys() >= {"modelVersion", "responseId"}

    def _read_feedback(self, feedback: Raw) -> None:
        if bytes(feedback) != b"null":
            self._metadata.add({_PROMPT_FEEDBACK_FIELD: feedback})
            self._block_reason = read_block_reason(feedback) or self._block_reason

    def _choose(self, candidates: list[Candidate], payload: bytes) -> Candidate | None:
        """Return the first candidate, if this chunk holds it; keep the others for the record."""
        chosen = next((n for n, found in enumerate(candidates) if found.index == 0), None)
        everyone = msgspec.json.decode(payload, type=_AllCandidates).candidates
        self._other_candidates += [other for n, other in enumerate(everyone) if n != chosen]
        return None if chosen is None else candidates[chosen]

    def _read_metadata(self, candidate: Candidate) -> None:
        """Read why the candidate ended, and what is known about it: sources, ratings."""
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
        """Return whom seals are for: the model as it was asked for, else as it calls itself."""
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
        except (*DECODE_ERRORS, InvalidRequest) as exc:  # what is kept as text was not read yet
            raise ProtocolError(f"{NAME}: {explain_decode_error(exc)}") from None

    def _read_text(self, part: Part, events: list[Event]) -> None:
        kind: type[Text | Thinking] = Thinking if part.thought else Text
        # What is sealed must come back as it was: it is neither continued nor appended.
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
            unproven = None if part.thought_signature else self._target().model
            extras = self._calls.begin(self._index, function, unproven, events)
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
        """Add the seal of a block, and what else came with it."""
        if part.thought_signature:
            events.append(BlockSealed(index, self._target().seal(part.thought_signature)))
        if extras:
            events.append(ExtrasAdded(index, {NAME: extras}))

    def _read_part_extras(self, part: Part) -> dict[str, Any]:
        """Return what else came with a block."""
        rest = part.rest or {}
        if FORM_KEY in rest:  # a name of ours, which would mean something here
            self._metadata.add({FORM_KEY: rest.pop(FORM_KEY)})
        return parse_extras(rest)


def _write_part(part: Part) -> Raw:
    """Write a part again whose members were read one by one."""
    members: dict[str, Any] = dict(part.rest or {})
    if part.thought is not None:
        members["thought"] = part.thought
    if part.thought_signature is not None:
        members["thoughtSignature"] = part.thought_signature
    return Raw(msgspec.json.encode(members))


def _restore_surrogates(payload: bytes, answer: GenerateContentResponse) -> None:
    """Put back half characters that were mended away: their other halves may come next."""
    halves = SplitSurrogates(payload)
    for number, candidate in enumerate(answer.candidates):
        parts = candidate.content.parts if candidate.content is not None else None
        for position, part in enumerate(parts or ()):
            place = ("candidates", number, "content", "parts", position)
            part.text = _restore_text(part.text, halves, *place, "text")
            fragments = part.function_call.partial_args if part.function_call is not None else None
            for at, fragment in enumerate(fragments or ()):
                path = (*place, "functionCall", "partialArgs", at, "stringValue")
                fragment.string_value = _restore_text(fragment.string_value, halves, *path)


def _restore_text(mended: str | None, halves: SplitSurrogates, *path: str | int) -> str | None:
    if mended is None or _REPLACEMENT not in mended:
        return mended
    return halves.text_at(*path) or mended
