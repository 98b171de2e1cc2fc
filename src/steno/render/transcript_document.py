"""A branch as a human-readable document, with entries, decisions, usage and omissions.

`build_document` converts entries to sections of printable text. The modules `markdown` and `html`
write the sections; this module contains no markup.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Final, NamedTuple, TypeAlias, assert_never, final

import msgspec

from steno.formats.format import ExportLossCollector, SupportedFields
from steno.log.queries import calls_by_entry, cost_by_model, tools_of
from steno.messages.call import AnyToolCall, InvalidToolCall, ToolCall, original_tool_name
from steno.messages.change import Change
from steno.messages.content import (
    Block,
    FileReference,
    Image,
    ImageBlob,
    ImageData,
    ImageFile,
    ImageUrl,
    Opaque,
    Resource,
    Text,
    Thinking,
)
from steno.messages.message import (
    AssistantMessage,
    Message,
    SystemMessage,
    ToolResultMessage,
    UserMessage,
)
from steno.messages.usage import Usage
from steno.records.entry import (
    Approval,
    Entry,
    ModelChange,
    Payload,
    Redacted,
    Resolution,
    ResolutionStatus,
)
from steno.records.stored_record import Header
from steno.render.describe import (
    AUDIT_ORIGIN_KEYS,
    EntryDescription,
    describe_decider,
    describe_entry,
    describe_opaque,
    describe_origin,
    describe_unusual_stop,
    entry_type,
    payload_type,
    reference_name,
    referenced_block,
    thinking_text,
    tool_label,
)
from steno.render.quantities import format_count, format_time
from steno.render.terminal_text import terminal_json, terminal_line, terminal_text

_MIN_FOLDED_LINES: Final = 16
"""The number of line breaks from which a result is folded."""
_SHOWN_IMAGE_TYPES: Final = frozenset(
    ["image/png", "image/jpeg", "image/gif", "image/webp", "image/avif", "image/bmp"]
)
"""Image types that every browser displays and that cannot contain a script."""
_USAGE_LABELS: Final = (
    ("input_tokens", "tokens in"),
    ("cache_read_tokens", "of them from a cache"),
    ("cache_write_tokens", "of them to a cache"),
    ("output_tokens", "tokens out"),
    ("thinking_tokens", "of them thinking"),
)
_SYSTEM_PROMPT_TITLE: Final = "System prompt"
_ROLE_TITLES: Final[Mapping[type, str]] = {
    SystemMessage: "System",
    UserMessage: "User",
    AssistantMessage: "Assistant",
}
_SHOWN_FIELDS: Final[SupportedFields] = {
    SystemMessage: frozenset({"content"}),
    UserMessage: frozenset({"content"}),
    AssistantMessage: frozenset({"content", "stop_reason", "usage"}),
    ToolResultMessage: frozenset(
        {"tool_call_id", "tool_name", "content", "outcome", "failure", "duration_s"}
    ),
    Usage: frozenset(name for name, _ in _USAGE_LABELS),
    Text: frozenset({"text"}),
    Thinking: frozenset({"text", "redacted"}),
    Image: frozenset({"source", "mime_type"}),
    FileReference: frozenset({"path", "start_line", "end_line"}),
    Resource: frozenset({"server", "uri", "text"}),
    ToolCall: frozenset({"id", "name", "original_name", "arguments"}),
    InvalidToolCall: frozenset({"id", "name", "arguments", "reason"}),
}
_UNKNOWN_FIELDS: Final = frozenset({"unknown"})
_OMITTED_FIELDS: Final[Mapping[type, frozenset[str]]] = {
    Approval: _UNKNOWN_FIELDS | {"arguments_sha256"},
    Resolution: _UNKNOWN_FIELDS | {"details"},
    Redacted: _UNKNOWN_FIELDS | {"sha256", "audit_sha256", "unknown_sha256"},
    Opaque: frozenset({"raw"}),
}
"""The fields of payloads that the document omits."""


class BranchLocation(NamedTuple):
    """The name of a branch, and the numbers of its entries in the session."""

    branch: str = ""
    numbers: Mapping[str, int] = MappingProxyType({})
    """The number of each entry by id; for a missing id, the position in the branch is used."""


class VerbatimSection(NamedTuple):
    """Text that is displayed exactly as it was written."""

    text: str


class MarkdownSection(NamedTuple):
    """Text of a model in Markdown."""

    text: str


class ThinkingSection(NamedTuple):
    """The thinking of a model in Markdown, which is folded."""

    text: str


class NoteSection(NamedTuple):
    """A line that steno adds."""

    text: str


class CodeSection(NamedTuple):
    """Preformatted text, such as arguments, a result or a diff."""

    title: str
    """A title of one line; may be empty."""
    text: str
    language: str = ""
    is_folded: bool = False


class ImageSection(NamedTuple):
    """An image, or only its name if the document does not include the bytes."""

    name: str
    mime_type: str = ""
    data: bytes | None = None
    """The bytes of the image; None if the document only names it."""


TranscriptSection: TypeAlias = (
    VerbatimSection | MarkdownSection | ThinkingSection | NoteSection | CodeSection | ImageSection
)


class TranscriptEntry(NamedTuple):
    """One entry of a document, with its title and its sections."""

    number: int
    """The number of the entry, written as `#12`."""
    kind: str
    """The role (`user`, `assistant`, `tool_result`, `system`), or the type of another entry."""
    title: str
    is_message: bool
    facts: tuple[str, ...]
    """The time, the decision, the origin and the usage, as far as they are known."""
    sections: tuple[TranscriptSection, ...]


class ApprovalRow(NamedTuple):
    """A row of the table of decisions, one for each approval."""

    number: int
    time: str
    tool: str
    status: str
    by: str
    reason: str


class TranscriptDocument(NamedTuple):
    """A branch as a human-readable document."""

    title: str
    facts: tuple[tuple[str, str], ...]
    """Pairs of a name and a value that describe the session."""
    entries: tuple[TranscriptEntry, ...]
    decisions: tuple[ApprovalRow, ...]
    usage_by_model: tuple[tuple[str, str], ...]
    """Pairs of a model name, which may be empty, and a description of its token usage."""
    losses: tuple[Change, ...]
    """The content that the document omits."""


def build_document(
    header: Header,
    entries: Sequence[Entry],
    location: BranchLocation,
    *,
    max_image_bytes: int | None,
) -> TranscriptDocument:
    """Build the document of a branch.

    Images larger than `max_image_bytes` are named, but not included; None means no limit.
    """
    builder = _DocumentBuilder(entries, location, max_image_bytes)
    losses = ExportLossCollector("", _SHOWN_FIELDS)
    losses.add_header(header, frozenset({"id", "created_at", "title", "cloned_from"}))
    if entries:
        losses.add("ids_and_digests", "entries")
    for number, entry in enumerate(entries):
        losses.add_omitted(f"entries[{number}]", entry, builder.omitted_fields(entry, losses))
    costs = cost_by_model(entries, lambda _: None)
    return TranscriptDocument(
        title=terminal_line(header.title or "") or f"Session {terminal_line(header.id)}",
        facts=tuple(_session_facts(header, entries, location)),
        entries=tuple(map(builder.build_entry, entries)),
        decisions=tuple(builder.decisions()),
        usage_by_model=tuple(
            [(terminal_line(name), describe_usage(cost.usage)) for name, cost in costs.items()]
        ),
        losses=losses.result(),
    )


def describe_usage(usage: Usage | None) -> str:
    """Return the token counts as one line; empty if no count is known."""
    counts = [(getattr(usage, name, None), label) for name, label in _USAGE_LABELS]
    return ", ".join([f"{count:,} {label}" for count, label in counts if count is not None])


def _session_facts(
    header: Header, entries: Sequence[Entry], location: BranchLocation
) -> Iterator[tuple[str, str]]:
    yield "session", terminal_line(header.id)
    if header.cloned_from is not None:
        yield "copied from", terminal_line(header.cloned_from)
    if location.branch:
        yield "branch", terminal_line(location.branch)
    if header.created_at is not None:
        yield "started", format_time(header.created_at)
    if last := max((entry.time for entry in entries if entry.time is not None), default=None):
        yield "last entry", format_time(last)
    changes = (entry.payload for entry in entries if isinstance(entry.payload, ModelChange))
    if models := dict.fromkeys([terminal_line(change.new) for change in changes]):
        yield "model" if len(models) == 1 else "models", ", ".join(models)
    yield "entries", f"{len(entries):,}"


@final
class _DocumentBuilder:
    """Builds the entries of a document from the entries of a branch."""

    def __init__(
        self, entries: Sequence[Entry], location: BranchLocation, max_image_bytes: int | None
    ):
        self._entries = {entry.id: entry for entry in entries}
        self._max_image_bytes = max_image_bytes
        self._calls = calls_by_entry(entries)
        self._resolved = {
            (resolution.target, resolution.block)
            for entry in entries
            if isinstance(resolution := entry.payload, Resolution)
            and resolution.status is ResolutionStatus.RESOLVED
        }
        """The entry id and the block number of each reference whose content is in the document."""
        by_position = {entry.id: number for number, entry in enumerate(entries, start=1)}
        self._numbers = {**by_position, **location.numbers}

    def build_entry(self, entry: Entry) -> TranscriptEntry:
        message = entry.message
        kind = entry_type(entry) if message is None else payload_type(message)
        if message is None:
            description = describe_entry(
                entry,
                entry_label=self._entry_label,
                call_label=partial(self._call_label, entry),
                describe_resolution=self._describe_resolution,
            )
            title = f"{kind.replace('_', ' ')}: {description.summary}"
            sections = self._other_sections(entry.payload, description.text)
        else:
            title = self._message_title(entry, message)
            sections = self._message_sections(message)
        return TranscriptEntry(
            number=self._numbers[entry.id],
            kind=kind,
            title=title,
            is_message=message is not None,
            facts=tuple(_entry_subtitle(entry)),
            sections=tuple(sections),
        )

    def decisions(self) -> Iterator[ApprovalRow]:
        for entry in self._entries.values():
            payload = entry.payload
            if isinstance(payload, Approval):
                yield ApprovalRow(
                    self._numbers[entry.id],
                    format_time(entry.time),
                    self._tool_names(entry),
                    str(payload.status),
                    describe_decider(payload),
                    terminal_line(payload.reason or ""),
                )

    def _tool_names(self, entry: Entry) -> str:
        return ", ".join(map(terminal_line, tools_of(entry, self._calls)))

    # -- messages ----------------------------------------------------------------------------

    def _message_title(self, entry: Entry, message: Message) -> str:
        if not isinstance(message, ToolResultMessage):
            return _ROLE_TITLES[type(message)]
        duration = "" if message.duration_s is None else f", {message.duration_s:.2f} s"
        return f"Result of {self._tool_names(entry) or 'a call'}: {message.outcome}{duration}"

    def _message_sections(self, message: Message) -> Iterator[TranscriptSection]:
        if isinstance(message, ToolResultMessage):
            yield from self._result_sections(message)
            return
        for block in message.content:
            if isinstance(block, Text) and isinstance(message, AssistantMessage):
                yield MarkdownSection(terminal_text(block.text))
            elif isinstance(block, Text) and isinstance(message, SystemMessage):
                yield CodeSection(_SYSTEM_PROMPT_TITLE, terminal_text(block.text), is_folded=True)
            else:
                yield from self._block_sections(block)
        if isinstance(message, AssistantMessage) and (stopped := describe_unusual_stop(message)):
            yield NoteSection(stopped)

    def _result_sections(self, result: ToolResultMessage) -> Iterator[TranscriptSection]:
        yield from self._content_sections(result.content)
        diff = (result.details or {}).get("diff")
        if isinstance(diff, str) and diff.strip():
            yield _code_section("changes", diff, "diff")
        failure = result.failure
        if failure is not None and failure.message != result.text:
            yield _code_section("error", failure.message)
        if failure is not None and failure.traceback:
            yield _code_section("traceback", failure.traceback)

    def _other_sections(self, payload: Payload, text: str) -> Iterator[TranscriptSection]:
        if text:
            yield VerbatimSection(text)
        yield from self._content_sections(getattr(payload, "content", ()))  # a resolved reference

    def _content_sections(self, content: Iterable[Block]) -> Iterator[TranscriptSection]:
        """Yield the sections of a result or a resolution, with text as code."""
        for block in content:
            if isinstance(block, Text):
                yield _code_section("", block.text)
            else:
                yield from self._block_sections(block)

    def _block_sections(self, block: Block) -> Iterator[TranscriptSection]:
        match block:
            case Text():
                yield VerbatimSection(terminal_text(block.text))
            case Thinking():
                yield ThinkingSection(thinking_text(block))
            case ToolCall() | InvalidToolCall():
                yield _call_section(block)
                if isinstance(block, InvalidToolCall):
                    reason = terminal_line(block.reason)
                    yield NoteSection(f"invalid call: {reason}")
            case Image(source=source):
                name = reference_name(block)
                if isinstance(source, ImageData) and self._is_shown(block):
                    yield ImageSection(name, block.mime_type or "", source.data)
                else:
                    # The bytes of a blob were not restored.
                    missing = ", bytes missing" if isinstance(source, ImageBlob) else ""
                    yield ImageSection(f"{name}{missing}")
            case FileReference() | Resource():
                yield NoteSection(f"reference: {reference_name(block)}")
                if isinstance(block, Resource) and block.text:
                    yield _code_section("content", block.text)
            case Opaque():
                yield NoteSection(describe_opaque(block))
            case _:
                assert_never(block)

    def _is_resolved(self, entry: Entry, number: int, image: Image) -> bool:
        """Return whether an image is a reference, and a later entry shows its content."""
        is_reference = isinstance(image.source, ImageFile | ImageUrl)
        return is_reference and (entry.id, number) in self._resolved

    def _is_shown(self, image: Image) -> bool:
        limit, source = self._max_image_bytes, image.source
        return (
            isinstance(source, ImageData)
            and image.mime_type in _SHOWN_IMAGE_TYPES
            and (limit is None or len(source.data) <= limit)
        )

    # -- other entries -----------------------------------------------------------------------

    def _entry_label(self, entry_id: str) -> str:
        return f"#{self._numbers.get(entry_id, '?')}"

    def _call_label(self, entry: Entry, call_id: str) -> str:
        call = self._calls.get(entry.id)
        name = "a call" if call is None else original_tool_name(call)
        return f"{terminal_line(name)} ({terminal_line(call_id)})"

    def _describe_resolution(self, resolution: Resolution) -> EntryDescription:
        entry = self._entries.get(resolution.target)
        block = referenced_block(None if entry is None else entry.message, resolution)
        name = f"block {resolution.block}" if block is None else reference_name(block)
        return EntryDescription(
            f"{name} in {self._entry_label(resolution.target)}: {resolution.status}",
            terminal_text(resolution.error or ""),
        )

    def omitted_fields(self, entry: Entry, losses: ExportLossCollector) -> list[str]:
        """Return the fields of an entry that the document omits."""
        message, payload = entry.message, entry.payload
        if message is None:
            omitted = _OMITTED_FIELDS.get(type(payload), _UNKNOWN_FIELDS)
            names = [name for name, _ in payload.non_default_fields() if name in omitted]
        else:
            names = losses.omitted_of_message(message)
        for number, block in enumerate(getattr(payload, "content", ())):
            name = f"content[{number}] (image)"
            if not isinstance(block, Image) or self._is_shown(block):
                continue
            if self._is_resolved(entry, number, block):
                names = [other for other in names if other != name]
            elif name not in names:
                names.append(name)
        if entry.unknown and entry.is_understood:
            names.append("unknown_members")
        if set(entry.audit or ()).difference(name for _, name in AUDIT_ORIGIN_KEYS):
            names.append("audit")
        return names


def _entry_subtitle(entry: Entry) -> Iterable[str]:
    decision = entry.decision if not isinstance(entry.payload, Approval) else None
    facts = [
        format_time(entry.time),
        terminal_line(decision or ""),
        *describe_origin(entry),
        describe_usage(getattr(entry.payload, "usage", None)),
    ]
    return filter(None, facts)


def _call_section(call: AnyToolCall) -> CodeSection:
    title = f"calls {tool_label(call)} ({terminal_line(call.id)})"
    try:
        pretty = terminal_json(msgspec.json.format(call.arguments.encode(), indent=2)).decode()
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return CodeSection(title, terminal_text(call.arguments))
    return CodeSection(title, pretty, "json")


def _code_section(title: str, text: str, language: str = "") -> CodeSection:
    shown = terminal_text(text).rstrip("\n")
    is_folded = shown.count("\n") >= _MIN_FOLDED_LINES
    lines = format_count(shown.count("\n") + 1, "line", "lines")
    return CodeSection(title or (lines if is_folded else ""), shown, language, is_folded)
