"""Decode responses of generateContent, streamed or whole, with the same reader."""

from __future__ import annotations

import itertools
import re
from codecs import BOM_UTF8
from contextlib import suppress
from typing import Any, Final, TypeAlias, final

import msgspec
from msgspec import Raw

from steno.assemble import ToolCallPart, WireEvent
from steno.errors import InvalidRequest, ProtocolError
from steno.json_object import MAX_DEPTH, check_depth, replace_lone_surrogate_escapes
from steno.messages.content import Text, Thinking
from steno.messages.event import (
    BlockAdded,
    BlockSealed,
    ExtrasAdded,
    Finished,
    TextDelta,
    ThinkingDelta,
)
from steno.messages.usage import StopReason, Usage
from steno.values import FORM_KEY, replace_lone_surrogates
from steno.wire import response_decoder as base
from steno.wire import tolerant
from steno.wire.errors import decode_error, is_error
from steno.wire.extras import Members
from steno.wire.framing import ErrorPayload, SseOrArraySplitter
from steno.wire.gemini import payload as payloads
from steno.wire.gemini.parts import read_image_or_opaque
from steno.wire.gemini.payload import NAME, PROVIDER, Candidate, FunctionCall, Part, PartialArg
from steno.wire.request_encoder import RequestTarget, drop_none
from steno.wire.tolerant import DECODE_ERRORS, is_nonempty_json, raw_text


class _AllCandidates(msgspec.Struct):
    """The candidates of a response as JSON text."""

    candidates: list[Raw]


_SOURCE_FIELDS: Final = frozenset(
    {"citationMetadata", "groundingMetadata", "groundingAttributions", "urlContextMetadata"}
)
"""Members of a candidate with the sources of its text."""
_PROMPT_FEEDBACK_FIELD: Final = "promptFeedback"

_decode: Final = msgspec.json.Decoder(payloads.GenerateContentResponse).decode
_read_by_member: Final = tolerant.build_slow_reader(payloads.GenerateContentResponse, NAME)


@final
class StreamDecoder(base.StreamDecoder):
    """Decodes a response that is streamed as server-sent events, or as a JSON array.

    Google sends no block indexes, so the decoder numbers the blocks.
    """

    def __init__(self, *, provider: str = PROVIDER, model: str | None = None) -> None:
        """Create a decoder for one response.

        Seals (thought signatures) are bound to `provider` and `model`.
        """
        self._payloads = SseOrArraySplitter()
        super().__init__(self._payloads, self._read)
        self._provider = provider
        self._model = model
        self._stop_reason: str | None = None
        self._block_reason: str | None = None
        self._usage: Raw = payloads.ABSENT
        self._index = -1
        self._growing_kind: type[Text | Thinking] | None = None
        """The type of the latest block, if the next text may continue it."""
        self._calls = _FunctionCallReader()
        self._identity: dict[str, str] = {}
        """The model, and the id and time of the response."""
        self._has_identity = False
        """Whether the model and the id are known; the first chunk may describe only the prompt."""
        self._has_candidates = False
        self._metadata = tolerant.MergedExtras(repeated={*_SOURCE_FIELDS, _PROMPT_FEEDBACK_FIELD})
        self._ratings: Raw = payloads.ABSENT
        self._other_candidates: list[Raw] = []

    @property
    def envelope(self) -> dict[str, Any]:
        """The metadata of the response."""
        found: Members = self._identity | self._metadata.merged()
        for name, latest in (("safetyRatings", self._ratings), ("usageMetadata", self._usage)):
            if latest:
                found[name] = tolerant.parse_value(latest)
        if self._other_candidates:
            found["other_candidates"] = [
                tolerant.parse_value(raw) for raw in self._other_candidates
            ]
        return found

    @property
    def usage(self) -> Usage | None:
        """The latest token counts; None if there are none or they cannot be read."""
        with suppress(ProtocolError):
            return payloads.read_usage(self._usage)
        return None

    def _read(self, payload: bytes, events: list[WireEvent]) -> None:
        # One function rather than a few, because it runs for every token of a response.
        try:
            response = _decode(payload)
        except DECODE_ERRORS:
            if payload.startswith(b"[DONE]"):
                return  # some proxies end every stream as OpenAI does
            response, payload = self._read_unusual(payload)
        if not self._has_identity:
            self._read_identity(response)
        if response.usage_metadata and is_nonempty_json(response.usage_metadata):
            self._usage = response.usage_metadata
        if response.prompt_feedback and bytes(response.prompt_feedback) != b"null":
            self._metadata.add({_PROMPT_FEEDBACK_FIELD: response.prompt_feedback})
            reason = payloads.read_block_reason(response.prompt_feedback)
            self._block_reason = reason or self._block_reason
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
            self._ratings = candidate.safety_ratings  # every list is complete
        if (
            candidate.finish_reason is not None
            or candidate.rest is not None
            or candidate.finish_message is not None
            or candidate.avg_logprobs is not None
            or candidate.token_count is not None
        ):
            self._read_metadata(candidate)

    def _read_whole(self, data: bytes, events: list[WireEvent]) -> None:
        self._read(data, events)
        is_response = (
            self._has_candidates
            or "modelVersion" in self._identity
            or self._usage
            or _PROMPT_FEEDBACK_FIELD in self._metadata
        )
        if not is_response:
            raise ProtocolError(
                "the response has no candidates, model version, usage or prompt feedback",
                code="candidates_missing",
                place=NAME,
            )
        self._end_turn(events)

    def _finish(self, events: list[WireEvent]) -> None:
        """Add the end of the turn. Raises CutShort if the response is incomplete.

        The protocol has no final event: a response is complete if it has a stop reason, or a reason
        why the prompt was blocked, and does not end inside a payload.
        """
        is_open = self._stop_reason is None and self._block_reason is None
        if is_open or self._payloads.is_cut:
            raise base.build_cut_short()
        self._end_turn(events)

    def _end_turn(self, events: list[WireEvent]) -> None:
        raw = self._stop_reason
        reason = base.map_stop_reason(payloads.STOP_REASONS, raw)
        if raw is None and self._block_reason is not None:
            reason, raw = StopReason.CONTENT_FILTER, self._block_reason
        # Arguments in fragments are a tree, which is always valid JSON. The arguments of a call
        # that was cut off are not closed, so that the call cannot run.
        self._calls.finish(events, is_whole=reason is StopReason.END_TURN)
        sources = self._metadata.merged(_SOURCE_FIELDS)
        if sources:
            # A request has no member for sources: they are kept in the log and not sent.
            events.append(ExtrasAdded(None, {NAME: {FORM_KEY: sources}}))
        events.append(Finished(reason, raw, payloads.read_usage(self._usage)))

    def _abandon(self, events: list[WireEvent]) -> None:
        self._calls.abandon(events)

    # -- metadata ----------------------------------------------------------------------------

    def _read_unusual(self, payload: bytes) -> tuple[payloads.GenerateContentResponse, bytes]:
        """Decode a chunk that the strict decoder rejects; return it with the repaired JSON.

        Raises ProviderError if the chunk reports an error.
        """
        if type(payload) is ErrorPayload:
            raise decode_error(200, payload.data)
        payload = payload.removeprefix(BOM_UTF8)
        repaired, _ = replace_lone_surrogate_escapes(payload)
        response = _read_by_member(repaired)
        if repaired != payload:
            tolerant.restore_surrogates(response, payload)
        rest = response.rest or {}
        if is_error(rest.get("error")):
            raise decode_error(200, repaired)
        self._metadata.add(rest)
        for candidate in response.candidates:
            if candidate.content is not None:
                self._metadata.add(candidate.content.rest)
        return response, repaired

    def _read_identity(self, response: payloads.GenerateContentResponse) -> None:
        found = {
            "modelVersion": response.model_version,
            "responseId": response.response_id,
            "createTime": response.create_time,
        }
        self._identity = {name: text for name, text in found.items() if text} | self._identity
        self._has_identity = self._identity.keys() >= {"modelVersion", "responseId"}

    def _choose(self, candidates: list[Candidate], payload: bytes) -> Candidate | None:
        """Return the candidate with the index 0; None if the chunk does not have it.

        All other candidates are kept for the log.
        """
        chosen = next((n for n, found in enumerate(candidates) if found.index == 0), None)
        raws = msgspec.json.decode(payload, type=_AllCandidates).candidates
        self._other_candidates += [raw for n, raw in enumerate(raws) if n != chosen]
        return None if chosen is None else candidates[chosen]

    def _read_metadata(self, candidate: Candidate) -> None:
        """Read the stop reason of a candidate, and its metadata, such as log probabilities."""
        if candidate.finish_reason:
            self._stop_reason = str(candidate.finish_reason)
        found = drop_none(
            finishMessage=candidate.finish_message,
            avgLogprobs=candidate.avg_logprobs,
            tokenCount=candidate.token_count,
        )
        self._metadata.add({name: Raw(msgspec.json.encode(found[name])) for name in found})
        self._metadata.add(candidate.rest)

    # -- parts -------------------------------------------------------------------------------

    def _target(self) -> RequestTarget:
        """Return the issuer of seals, with the model of the request or else of the response."""
        model = self._identity.get("modelVersion", "") if self._model is None else self._model
        return RequestTarget(self._provider, NAME, model)

    def _read_part(self, part: Part, events: list[WireEvent]) -> None:
        """Read a part that is more than plain text."""
        try:
            if part.function_call is not None:
                self._read_call(part.function_call, part, events)
            elif part.text is None and part.rest is not None:
                self._index += 1
                self._growing_kind = None
                metadata = {"thought": part.thought, "thoughtSignature": part.thought_signature}
                raw = Raw(msgspec.json.encode(part.rest | drop_none(**metadata)))
                block = read_image_or_opaque(raw, self._target())
                events.append(BlockAdded(self._index, block))
            elif part.text or part.thought_signature or part.rest:
                self._read_text(part, events)
        except InvalidRequest as exc:
            raise ProtocolError(f"invalid part: {exc}", code=exc.code, place=NAME) from None
        except DECODE_ERRORS as exc:  # members that were kept as text are first decoded here
            raise tolerant.build_protocol_error(exc, NAME) from None

    def _read_text(self, part: Part, events: list[WireEvent]) -> None:
        kind: type[Text | Thinking] = Thinking if part.thought else Text
        # A sealed block must be sent back unchanged: no other text is appended to it.
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

    def _read_call(self, function: FunctionCall, part: Part, events: list[WireEvent]) -> None:
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
        self, index: int, part: Part, extras: Members, events: list[WireEvent]
    ) -> None:
        if part.thought_signature:
            events.append(BlockSealed(index, self._target().seal(part.thought_signature)))
        if extras:
            events.append(ExtrasAdded(index, {NAME: extras}))

    def _read_part_extras(self, part: Part) -> Members:
        rest = part.rest or {}
        if FORM_KEY in rest:  # in extras, it would be read as notes of steno
            self._metadata.add({FORM_KEY: rest.pop(FORM_KEY)})
        return tolerant.parse_extras(rest)


decode_response: Final = base.build_decode_response(StreamDecoder, PROVIDER)


# -- calls ------------------------------------------------------------------------------------
#
# Only Vertex sends calls in fragments. A fragment has the value of one argument, or a part of the
# value, with the JSON path of that argument.

_ArgumentPath: TypeAlias = tuple[str | int, ...]
"""Names in objects and positions in lists, outermost first; the first step is always a name."""
_EMPTY_FRAGMENT: Final = PartialArg()
_MAX_SKIPPED_POSITIONS: Final = 1024
"""The maximum number of list positions that the fragments of one response may skip.

Skipped positions are filled with null, so a few bytes could request very long lists.
"""
_PATH_BLANKS: Final = r"[ \t\r\n]*"
_PATH_ESCAPE: Final = r"""\\(?:["'/\\bfnrt]|u[0-9a-fA-F]{4})"""
_PATH_STEP: Final = re.compile(
    rf"""{_PATH_BLANKS}(?:
        \.(?P<name>[^.\[\]*\s]+)
        | \[{_PATH_BLANKS}(?:
            (?P<position>[0-9]{{1,4}})
            | '(?P<single>(?:[^'\\]|{_PATH_ESCAPE})*)'
            | "(?P<double>(?:[^"\\]|{_PATH_ESCAPE})*)"
        ){_PATH_BLANKS}\]
    )""",
    re.VERBOSE,
)
_PATH_ESCAPE_PATTERN: Final = re.compile(_PATH_ESCAPE)
_CONTROL_ESCAPES: Final = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}


@final
class _FunctionCallReader:
    """Reads the calls of one response, whole or in fragments."""

    def __init__(self) -> None:
        self._ids: set[str] | None = None
        """The call ids so far; None before the first call."""
        self._partial: _PartialCall | None = None
        self._tree = _ArgumentTree()
        self.index: int = -1
        """The index of the latest call."""

    def continue_call(self, function: FunctionCall, events: list[WireEvent]) -> Members | None:
        """Read a fragment of the open call, and return its extras; None if a new call begins."""
        partial = self._partial
        if partial is None:
            return None
        # A fragment has no name, or it repeats both the name and the id.
        is_same = function.id and function.id == partial.id
        if function.name and partial.name and not is_same:
            self.finish(events)
            return None
        late_id = function.id if not partial.id else None
        late_name = function.name if not partial.name else None
        partial.id, partial.name = partial.id or late_id, partial.name or late_name
        claimed = self._claim_id(late_id)
        if claimed or late_name:
            events.append(ToolCallPart(partial.index, claimed, late_name))
        partial.feed(function)
        return _read_call_extras(function) | ({FORM_KEY: {"id": late_id}} if late_id else {})

    def begin(
        self, index: int, function: FunctionCall, model: str | None, events: list[WireEvent]
    ) -> Members:
        """Begin a call, and return its extras.

        `model` is the model that made the call; None if the call has a signature.
        """
        self.index = index
        form: Members = {}
        if self._ids is None and model is not None:
            form["unsigned"] = model
        id = self._claim_id(function.id)
        if id is None:
            form["id"] = function.id  # the assembler generates an id, which is not sent to Google
        arguments = raw_text(function.args)
        if arguments == "null":
            arguments = ""
        is_partial = function.will_continue or function.partial_args is not None
        if is_partial:
            arguments = "{"  # if the stream breaks off, the call must be invalid
        elif not arguments:
            form["args"] = "absent"
        events.append(ToolCallPart(index, id, function.name, arguments))
        if is_partial:
            self._partial = _PartialCall(index, function, self._tree)
            self._partial.feed(function)
        return _read_call_extras(function) | ({FORM_KEY: form} if form else {})

    def add_extras(self, extras: Members) -> Members:
        """Return the extras to add now; extras of later fragments are held until the call ends."""
        return extras if self._partial is None else self._partial.add_extras(extras)

    def end(self, function: FunctionCall, events: list[WireEvent]) -> None:
        """End the latest call, unless more fragments follow."""
        if self._partial is None:
            events.append(ToolCallPart(self.index, ends=True))
        elif not function.will_continue:
            self.finish(events)

    def finish(self, events: list[WireEvent], *, is_whole: bool = True) -> None:
        """End the open partial call, if there is one; close its arguments only if `is_whole`."""
        if self._partial is not None:
            self._partial.add_events(events, is_whole=is_whole)
            events.append(ToolCallPart(self._partial.index, ends=True))
            self._partial = None

    def abandon(self, events: list[WireEvent]) -> None:
        """Add the events of an open partial call that will not be completed."""
        if self._partial is not None:
            self._partial.add_events(events, is_whole=False)
            self._partial = None

    def _claim_id(self, id: str | None) -> str | None:
        """Reserve an id and return it; None if it is empty or another call has it."""
        if self._ids is None:
            self._ids = set()
        if not id or id in self._ids:
            return None
        self._ids.add(id)
        return id


def _read_call_extras(function: FunctionCall) -> Members:
    return {payloads.FUNCTION_CALL: tolerant.parse_extras(function.rest)} if function.rest else {}


# -- fragments --------------------------------------------------------------------------------


@final
class _PartialCall:
    """A call in fragments; the events of its arguments are added after the last fragment."""

    def __init__(self, index: int, opening: FunctionCall, tree: _ArgumentTree) -> None:
        self.index = index
        self.id = opening.id
        self.name = opening.name
        self._tree = tree
        self._extras: Members | None = None
        """All extras so far; None before the first fragment."""
        self._has_more_extras = False
        """Whether there are extras for which no event was added."""
        self._arguments: Members = {}
        self._open_paths: set[_ArgumentPath] = set()
        """The paths of texts that continue in a later fragment."""
        self._is_valid = True
        """Whether all fragments were read without an error."""

    def feed(self, function: FunctionCall) -> None:
        """Add the arguments of a fragment. Raises ProtocolError if a path or value is invalid."""
        self._is_valid = False
        if bytes(function.args)[:1] == b"{":
            found = msgspec.json.decode(function.args, type=Members)
            check_depth(found)  # the arguments are encoded again
            self._arguments |= found
        for fragment in function.partial_args or ():
            self._put_fragment(fragment)
        self._is_valid = True

    def add_extras(self, extras: Members) -> Members:
        """Add the extras of a fragment; return them if it is the first fragment, else {}."""
        if self._extras is None:
            self._extras = extras
            return extras
        if extras:
            self._extras = tolerant.merge_values(self._extras, extras)
            self._has_more_extras = True  # one event at the end, as it replaces earlier ones
        return {}

    def add_events(self, events: list[WireEvent], *, is_whole: bool) -> None:
        """Add the events of held extras, and of the arguments after the opening brace."""
        if self._has_more_extras:
            events.append(ExtrasAdded(self.index, {NAME: self._extras}))
        text = msgspec.json.encode(self._arguments, enc_hook=str).decode()
        if more := text[1 : None if is_whole and self._is_valid else -1]:
            events.append(ToolCallPart(self.index, arguments=more))

    def _put_fragment(self, fragment: PartialArg) -> None:
        if fragment == _EMPTY_FRAGMENT:
            return
        path = _read_path(fragment.json_path)
        container: Any = self._arguments
        for step, following in itertools.pairwise(path):
            container = self._tree.enter(container, step, [] if isinstance(following, int) else {})
        has_value, value = _read_fragment_value(fragment)
        was_open = path in self._open_paths
        latest = _get_at(container, path[-1]) if was_open else None
        if isinstance(value, str):
            latest = _append_text(latest, value, is_open=bool(fragment.will_continue))
        elif has_value or not was_open:
            latest = value
        self._tree.set(container, path[-1], latest)
        continues = fragment.will_continue and isinstance(latest, str | _GrowingText)
        (self._open_paths.add if continues else self._open_paths.discard)(path)


@final
class _GrowingText:
    """A text in parts, which are joined at the end, because they may split a surrogate pair."""

    def __init__(self, *parts: str) -> None:
        self.parts = list(parts)

    def __str__(self) -> str:
        return replace_lone_surrogates("".join(self.parts))


def _append_text(before: Any, more: str, *, is_open: bool) -> str | _GrowingText:
    """Return `more`, appended to `before` if `before` is a text."""
    if isinstance(before, _GrowingText):
        before.parts.append(more)
        return before
    if isinstance(before, str):
        return _GrowingText(before, more)
    return _GrowingText(more) if is_open else replace_lone_surrogates(more)


def _read_fragment_value(fragment: PartialArg) -> tuple[bool, str | float | None]:
    """Return whether a fragment has a value, and the value.

    Raises ProtocolError for a value of an unknown type.
    """
    for value in (fragment.string_value, fragment.bool_value, fragment.number_value):
        if value is not None:
            # Numbers arrive as doubles; integers are converted back.
            is_integer = isinstance(value, float) and value.is_integer() and abs(value) < 2**53
            return True, int(value) if is_integer else value
    if fragment.null_value is None and fragment.rest is not None:
        raise ProtocolError(
            "a fragment of a call has a value of an unknown type",
            code="unknown_fragment_value",
            place=NAME,
        )
    return fragment.null_value is not None, None


# -- paths ------------------------------------------------------------------------------------


def _read_path(text: str) -> _ArgumentPath:
    """Parse an RFC 9535 path of an argument. Raises ProtocolError if it is invalid or too deep."""
    found: list[str | int] = []
    at = 1 if text.startswith("$") else len(text)
    while len(found) < MAX_DEPTH and (match := _PATH_STEP.match(text, at)) is not None:
        found.append(_read_step(match))
        at = match.end()
    if at < len(text) or not found or not isinstance(found[0], str):
        raise ProtocolError(
            "the JSON path of an argument fragment is invalid or too deep",
            code="invalid_argument_path",
            place=NAME,
        )
    return tuple(found)


def _read_step(match: re.Match[str]) -> str | int:
    match match.lastgroup, match.group(match.lastgroup or 0):
        case "position", digits:
            return int(digits)
        case "name", name:
            return name
        case _, quoted:
            return replace_lone_surrogates(_PATH_ESCAPE_PATTERN.sub(_unescape, quoted))


def _unescape(escape: re.Match[str]) -> str:
    mark = escape.group()[1:]
    return chr(int(mark[1:], 16)) if mark[0] == "u" else _CONTROL_ESCAPES.get(mark, mark)


@final
class _ArgumentTree:
    """Creates the objects and lists on argument paths, and limits skipped list positions."""

    def __init__(self) -> None:
        self._skipped = 0

    def enter(self, container: Any, step: str | int, new: Any) -> Any:
        """Return the container at a step; set it to `new` if it is missing or of another type."""
        found = _get_at(container, step)
        if type(found) is not type(new):
            self.set(container, step, new)
            return new
        return found

    def set(self, container: Any, step: str | int, value: Any) -> None:
        """Set the value at a step. Raises ProtocolError if too many list positions are skipped."""
        if isinstance(container, dict):
            container[str(step)] = value
        elif isinstance(step, int):
            self._skipped += max(0, step - len(container))
            if self._skipped > _MAX_SKIPPED_POSITIONS:
                raise ProtocolError(
                    f"fragments of calls skip more than {_MAX_SKIPPED_POSITIONS} list positions",
                    code="too_many_skipped_positions",
                    place=NAME,
                )
            container.extend([None] * (step + 1 - len(container)))
            container[step] = value


def _get_at(container: Any, step: str | int) -> Any:
    if isinstance(container, dict):
        return container.get(str(step))
    return container[step] if isinstance(step, int) and step < len(container) else None
