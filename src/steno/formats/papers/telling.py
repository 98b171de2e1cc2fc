"""Tell the story of a branch, entry by entry, and what the story leaves out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, assert_never, final

import msgspec

from steno.call import AnyToolCall, InvalidToolCall, ToolCall, outside_name
from steno.captions import (
    TOLD_AUDIT,
    decided_by,
    name_of,
    not_understood,
    noted_of,
    thoughts_of,
    unusual_stop,
)
from steno.content import (
    Block,
    FileReference,
    Image,
    ImageBlob,
    ImageData,
    Opaque,
    Resource,
    Text,
    Thinking,
)
from steno.entry import Approval, Entry, ModelChange
from steno.formats.format import Place
from steno.formats.losses import Losses, Words
from steno.formats.papers.remarks import Remarks
from steno.formats.papers.story import (
    Answer,
    Decision,
    Listing,
    Part,
    Passage,
    Picture,
    Remark,
    Said,
    Story,
    Thoughts,
)
from steno.message import (
    AssistantMessage,
    Message,
    SystemMessage,
    ToolResultMessage,
    UserMessage,
)
from steno.printable import counted, moment, on_one_line, printable, printable_json
from steno.record import Header
from steno.usage import Usage
from steno.views import spent_by_model, tools_by_call, tools_of

_FOLDED_LINES: Final = 16
"""From so many lines on, a result is folded."""
_SHOWN_IMAGES: Final = frozenset(
    ["image/png", "image/jpeg", "image/gif", "image/webp", "image/avif", "image/bmp"]
)
"""What everybody's browser can show, and what cannot hold a script."""
_COUNTS: Final = (
    ("input_tokens", "tokens in"),
    ("cache_read_tokens", "of them from a cache"),
    ("cache_write_tokens", "of them to a cache"),
    ("output_tokens", "tokens out"),
    ("thinking_tokens", "of them thinking"),
)
_PROMPT: Final = "What the model was told before anything was said"
_HEADS: Final[Mapping[type, str]] = {
    SystemMessage: "System",
    UserMessage: "User",
    AssistantMessage: "Assistant",
}
_WORDS: Final[Words] = {
    SystemMessage: frozenset({"content"}),
    UserMessage: frozenset({"content"}),
    AssistantMessage: frozenset({"content", "stop_reason", "usage"}),
    ToolResultMessage: frozenset(
        {"tool_call_id", "tool_name", "content", "outcome", "failure", "duration_s"}
    ),
    Usage: frozenset(name for name, _ in _COUNTS),
    Text: frozenset({"text"}),
    Thinking: frozenset({"text", "redacted"}),
    Image: frozenset({"source", "mime_type"}),
    FileReference: frozenset({"path", "start_line", "end_line"}),
    Resource: frozenset({"server", "uri", "text"}),
    ToolCall: frozenset({"id", "name", "original_name", "arguments"}),
    InvalidToolCall: frozenset({"id", "name", "arguments", "reason"}),
}


def tell(
    header: Header, entries: Sequence[Entry], place: Place, *, most_image_bytes: int | None
) -> Story:
    """Tell what happened on a branch; images of more bytes than that are only named."""
    telling = _Telling(entries, place, most_image_bytes)
    losses = Losses("", _WORDS)
    losses.add_header(header, frozenset({"id", "created_at", "title", "cloned_from"}))
    if entries:
        losses.add("entries", "left out: their ids and digests")
    for number, entry in enumerate(entries):
        losses.add_omitted(f"entries[{number}]", telling.omitted_fields(entry, losses))
    spent = spent_by_model(entries, lambda _: None)
    return Story(
        title=on_one_line(header.title or "") or f"Session {on_one_line(header.id)}",
        facts=tuple(_facts(header, entries, place)),
        entries=tuple(map(telling.build_entry, entries)),
        decisions=tuple(telling.decisions()),
        usage_by_model=tuple([(on_one_line(name), tokens(one.usage)) for name, one in spent.items()]),
        losses=losses.result(),
    )


def tokens(usage: Usage | None) -> str:
    """Return a count of tokens as a sentence; empty where nobody counted."""
    counts = [(getattr(usage, name, None), what) for name, what in _COUNTS]
    return ", ".join([f"{count:,} {what}" for count, what in counts if count is not None])


def _facts(header: Header, entries: Sequence[Entry], place: Place) -> Iterator[tuple[str, str]]:
    yield "session", on_one_line(header.id)
    if header.cloned_from is not None:
        yield "copied from", on_one_line(header.cloned_from)
    if place.branch:
        yield "branch", on_one_line(place.branch)
    if header.created_at is not None:
        yield "begun", moment(header.created_at)
    if last := max((entry.time for entry in entries if entry.time is not None), default=None):
        yield "last entry", moment(last)
    changes = (entry.payload for entry in entries if isinstance(entry.payload, ModelChange))
    if models := dict.fromkeys([on_one_line(change.new) for change in changes]):
        yield counted(len(models), "model", "models").partition(" ")[2], ", ".join(models)
    yield "entries", f"{len(entries):,}"


@final
class _Telling:
    """What it takes to tell of an entry: how the others are called, and which tools were called."""

    def __init__(self, entries: Sequence[Entry], place: Place, most_image_bytes: int | None):
        self._entries = entries
        self._most_image_bytes = most_image_bytes
        self._tools = tools_by_call(entries)
        by_position = {entry.id: number for number, entry in enumerate(entries, start=1)}
        self._numbers = {**by_position, **place.numbers}
        self._describer = Remarks(entries, self._numbers)

    def build_entry(self, entry: Entry) -> Part:
        message = entry.message
        kind = str(entry.payload.__struct_config__.tag)
        return Part(
            number=self._numbers[entry.id],
            kind=kind,
            title=self._entry_title(entry, kind),
            is_message=message is not None,
            facts=tuple(_facts_of(entry)),
            sections=tuple(self._other_sections(entry) if message is None else self._message_sections(message)),
        )

    def decisions(self) -> Iterator[Decision]:
        for entry in self._entries:
            payload = entry.payload
            if isinstance(payload, Approval):
                yield Decision(
                    self._numbers[entry.id],
                    moment(entry.time),
                    ", ".join(map(on_one_line, tools_of(entry, self._tools))),
                    str(payload.status),
                    decided_by(payload),
                    on_one_line(payload.reason or ""),
                )

    def _entry_title(self, entry: Entry, kind: str) -> str:
        message = entry.message
        if message is None:
            return f"{kind.replace('_', ' ')}: {self._describer.describe(entry).summary}"
        if not isinstance(message, ToolResultMessage):
            return _HEADS[type(message)]
        tool = ", ".join(map(on_one_line, tools_of(entry, self._tools))) or "a call"
        took = "" if message.duration_s is None else f", {message.duration_s:.2f} s"
        return f"Result of {tool}: {message.outcome}{took}"

    # -- what is said ------------------------------------------------------------------------

    def _message_sections(self, message: Message) -> Iterator[Passage]:
        if isinstance(message, ToolResultMessage):
            yield from self._result_sections(message)
            return
        for block in message.content:
            if isinstance(block, Text) and isinstance(message, AssistantMessage):
                yield Answer(printable(block.text))
            elif isinstance(block, Text) and isinstance(message, SystemMessage):
                yield Listing(_PROMPT, printable(block.text), is_folded=True)
            else:
                yield from self._block_sections(block)
        if isinstance(message, AssistantMessage) and (stopped := unusual_stop(message)):
            yield Remark(stopped)

    def _result_sections(self, result: ToolResultMessage) -> Iterator[Passage]:
        for block in result.content:
            yield from [_listing("", block.text)] if isinstance(block, Text) else self._block_sections(block)
        diff = (result.details or {}).get("diff")
        if isinstance(diff, str) and diff.strip():
            yield _listing("what changed", diff, "diff")
        failure = result.failure
        if failure is not None and failure.message != result.text:
            yield _listing("why it failed", failure.message)
        if failure is not None and failure.traceback:
            yield _listing("traceback", failure.traceback)

    def _block_sections(self, block: Block) -> Iterator[Passage]:
        match block:
            case Text():
                yield Said(printable(block.text))
            case Thinking():
                yield Thoughts(thoughts_of(block))
            case ToolCall() | InvalidToolCall():
                yield _call(block)
                if isinstance(block, InvalidToolCall):
                    yield Remark(f"nobody can run this: {on_one_line(block.reason)}")
            case Image():
                yield self._image_section(block)
            case FileReference() | Resource():
                yield Remark(f"points at {name_of(block)}")
                if isinstance(block, Resource) and block.text:
                    yield _listing("what was there", block.text)
            case Opaque():
                yield Remark(not_understood(block))
            case _:
                assert_never(block)

    def _image_section(self, image: Image) -> Picture:
        if self._is_shown(image) and isinstance(image.source, ImageData):
            return Picture(name_of(image), image.mime_type or "", image.source.data)
        is_missing = isinstance(image.source, ImageBlob)  # else it would be here
        return Picture(f"{name_of(image)}, not at hand" if is_missing else name_of(image))

    def _is_shown(self, image: Image) -> bool:
        most, source = self._most_image_bytes, image.source
        return (
            isinstance(source, ImageData)
            and image.mime_type in _SHOWN_IMAGES
            and (most is None or len(source.data) <= most)
        )

    # -- everything else ---------------------------------------------------------------------

    def _other_sections(self, entry: Entry) -> Iterator[Passage]:
        if words := self._describer.describe(entry).text:
            yield Said(words)
        for block in getattr(entry.payload, "content", ()):  # what was found in its place
            yield from [_listing("", block.text)] if isinstance(block, Text) else self._block_sections(block)

    def omitted_fields(self, entry: Entry, losses: Losses) -> list[str]:
        """Return what an entry holds and a story does not."""
        message, payload = entry.message, entry.payload
        names = self._describer.omitted_fields(payload) if message is None else losses.omitted_of_message(message)
        for number, block in enumerate(getattr(payload, "content", ())):
            if isinstance(block, Image) and losses.supports_block(block):
                names += [] if self._is_shown(block) else [f"content[{number}] (image)"]
        if entry.unknown and entry.is_understood:
            names.append("unknown members")
        if set(entry.audit or ()).difference(name for _, name in TOLD_AUDIT):
            names.append("audit")
        return names


def _facts_of(entry: Entry) -> Iterable[str]:
    decision = entry.decision if not isinstance(entry.payload, Approval) else None
    facts = [
        moment(entry.time),
        on_one_line(decision or ""),
        *noted_of(entry),
        tokens(getattr(entry.payload, "usage", None)),
    ]
    return filter(None, facts)


def _call(call: AnyToolCall) -> Listing:
    title = f"calls {on_one_line(outside_name(call))} ({on_one_line(call.id)})"
    try:
        pretty = printable_json(msgspec.json.format(call.arguments.encode(), indent=2)).decode()
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return Listing(title, printable(call.arguments))
    return Listing(title, pretty, "json")


def _listing(title: str, text: str, language: str = "") -> Listing:
    shown = printable(text).rstrip("\n")
    is_folded = shown.count("\n") >= _FOLDED_LINES
    lines = counted(shown.count("\n") + 1, "line", "lines")
    return Listing(title or (lines if is_folded else ""), shown, language, is_folded)
