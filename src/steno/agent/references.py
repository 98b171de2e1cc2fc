"""Find out what messages point at before a model is asked, and put what was found on record.

What a prompt points at and cannot be opened ends the run before anything is sent. What was found
in earlier messages is looked at again where it no longer serves; if that fails, it stays as it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Any, Final, NamedTuple, final

from steno.agent.events import Notice, NoticeCode
from steno.agent.permissions.gate import PermissionGate
from steno.agent.recorder import RunRecorder
from steno.errors import (
    AuthenticationFailed,
    ContextOverflow,
    ProviderError,
    RateLimited,
    StenoError,
    ToolFailed,
    Unreachable,
    Unresolved,
)
from steno.messages.call import ToolCall, map_tool_name
from steno.messages.content import FileReference, Image, Resource
from steno.messages.message import AssistantMessage, ToolResultMessage, UserMessage
from steno.messages.tool import ToolDefinition
from steno.ports import (
    Capability,
    InputAuthorizer,
    ReferenceBlock,
    ResolveContext,
    ResolvedReference,
    Resolver,
    ToolContext,
    ToolOutput,
)
from steno.records.entry import Compaction, Entry, ModeChange, Resolution, ResolutionStatus
from steno.values import replace_lone_surrogates

# -- admission -------------------------------------------------------------------------------------
#
# Ask the gate about something that a person points at, by the rules for tools.
#
# A rule such as `read(secrets/**)` counts for a file whoever names it. To the gate it looks like a
# call of the tool that opens such things.


_MAX_DESCRIPTION_LENGTH: Final = 200


_SUBJECT_SCHEMA: Final = {"type": "object", "properties": {"subject": {"type": "string"}}}


def build_input_authorizer(gate: PermissionGate, notebook: RunRecorder) -> InputAuthorizer:
    """Return who lets things be opened in a conversation."""

    async def permits(tool: str, capability: Capability, subject: str, *, preview: str = "") -> str:
        opening = _InputTool(map_tool_name(tool), capability, subject, preview)
        ruling = await gate.admit(opening, opening.call, notebook)
        if not ruling.allowed:
            raise ToolFailed(ruling.reason)
        return ruling.reason

    return permits


@final
class _InputTool:
    """What is to be opened, as a tool that does just that (`steno.ports.Tool`)."""

    def __init__(self, name: str, capability: Capability, subject: str, preview: str) -> None:
        self.definition: Final = ToolDefinition(
            name=name,
            description=f"opens {subject}"[:_MAX_DESCRIPTION_LENGTH],
            parameters=_SUBJECT_SCHEMA,
        )
        self.capability: Final = capability
        self.ruled_as: Final[tuple[str, ...]] = ()
        self.call: Final = ToolCall.create(name, {"subject": subject})
        self._subject = subject
        self._preview = preview

    def subjects(self, call: ToolCall) -> tuple[str, ...]:
        return (self._subject,)

    async def preview(self, call: ToolCall) -> str:
        return self._preview or f"{self.definition.name} {self._subject}"

    async def run(self, call: ToolCall, stage: ToolContext) -> ToolOutput:
        raise AssertionError("whoever asked opens it")


# -- pointing --------------------------------------------------------------------------------------
#
# What the messages of a branch point at, and what is on record about it.
#
# Read once for each entry, so that a turn costs what is new in it. Nothing here opens anything.


_REFERENCE_TYPES: Final = frozenset({FileReference, Image, Resource})


class TrackedReference(NamedTuple):
    """One block that points at something."""

    entry: Entry
    """The entry of its message."""
    block: int
    reference: ReferenceBlock
    """As it is on record: the bytes of an image may lie elsewhere."""
    resolution: Resolution | None = None
    """What was found out about it last."""
    known_files: frozenset[str] = frozenset()
    """Files that were read, changed or pointed at since: the model knows of those by now."""

    @property
    def is_resolved(self) -> bool:
        """Whether the model sees what it points at."""
        return self.resolution is not None and self.resolution.status is ResolutionStatus.RESOLVED


@final
class ReferenceTracker:
    """All that the messages of one branch point at, but for those that a summary stands for."""

    def __init__(self) -> None:
        """Begin before the first entry."""
        self._reset()

    def _reset(self) -> None:
        self._found: dict[tuple[str, int], TrackedReference] = {}
        self._found_at: dict[tuple[str, int], int] = {}
        self._shown_at: dict[str, int] = {}
        """When something was found out, and when the model came to know a file, by entries."""
        self._unanswered_ids: list[str] = []
        """The user messages that no answer has followed yet."""
        self._read_position: tuple[int, Entry | None] = (0, None)

    def read(self, entries: Sequence[Entry]) -> None:
        """Read what is new; all of it if this is another branch than before, or shorter."""
        count, last = self._read_position
        if count > len(entries) or (count and entries[count - 1] is not last):
            self._reset()
            count = 0
        for number, entry in enumerate(entries[count:], count):
            payload = entry.payload
            if isinstance(payload, UserMessage):
                self._add_message(entry, payload)
            elif isinstance(payload, AssistantMessage):
                self._unanswered_ids.clear()
            elif isinstance(payload, Resolution):
                self._add_resolution(payload, number)
            elif isinstance(payload, ToolResultMessage) and not payload.is_error:
                self._mark_known(payload.details, number)
            elif isinstance(payload, Compaction):
                self._drop_compacted(entries, payload.through)
        self._read_position = (len(entries), entries[-1] if entries else None)

    def unanswered(self) -> tuple[TrackedReference, ...]:
        """Return what stands in messages that the model has not answered yet."""
        return tuple([one for one in self._found.values() if one.entry.id in self._unanswered_ids])

    def resolved(self) -> tuple[TrackedReference, ...]:
        """Return all that the model sees."""
        return tuple([self._with_known(one) for one in self._found.values() if one.is_resolved])

    def _with_known(self, one: TrackedReference) -> TrackedReference:
        found_at = self._found_at.get((one.entry.id, one.block), 0)
        known = [path for path, shown_at in self._shown_at.items() if shown_at > found_at]
        return one._replace(known_files=frozenset(known)) if known else one

    def _add_message(self, entry: Entry, message: UserMessage) -> None:
        self._unanswered_ids.append(entry.id)
        for number, block in enumerate(message.content):
            if type(block) in _REFERENCE_TYPES:
                assert isinstance(block, ReferenceBlock)
                self._found[entry.id, number] = TrackedReference(entry, number, block)

    def _add_resolution(self, resolution: Resolution, number: int) -> None:
        key = (resolution.target, resolution.block)
        if key in self._found:
            self._found[key] = self._found[key]._replace(resolution=resolution)
            self._found_at[key] = number
            if resolution.status is ResolutionStatus.RESOLVED:
                self._mark_known(resolution.details, number)

    def _mark_known(self, details: Mapping[str, Any] | None, number: int) -> None:
        """Take note that the model knows files by now, whoever has shown them."""
        for path in _iterate_paths(details or {}):
            self._shown_at[path] = number

    def _drop_compacted(self, entries: Sequence[Entry], through: str) -> None:
        """Forget what a summary stands for: nobody sees it any more."""
        if not self._found:
            return
        gone = {entry.id for entry in _entries_through(entries, through)}
        self._found = {key: one for key, one in self._found.items() if key[0] not in gone}


def _iterate_paths(details: Mapping[str, Any]) -> Iterator[str]:
    """Yield the files that something is about, by the names that the workspace has for them."""
    files = details.get("files")
    for row in (details, *(files if isinstance(files, Sequence) else ())):
        path = row.get("path") if isinstance(row, Mapping) else None
        if isinstance(path, str):
            yield path


def _entries_through(entries: Sequence[Entry], through: str) -> Sequence[Entry]:
    for number in range(len(entries) - 1, -1, -1):
        if entries[number].id == through:
            return entries[: number + 1]
    return ()


_MAX_REASON_LENGTH: Final = 1_000


_MAX_REPORTED_ERRORS: Final = 5


class ImageSupport(NamedTuple):
    """The model that is to read it."""

    vision: bool | None
    image_refusal: str = ""
    """Why it took no images that were sent to it."""


@final
class ReferenceResolver:
    """Looks up what the messages of one conversation point at."""

    def __init__(self, resolver: Resolver, gate: PermissionGate) -> None:
        """Take who opens things, and who allows it."""
        self._resolver = resolver
        self._gate = gate
        self._tracker = ReferenceTracker()

    async def refresh_outdated(self, notebook: RunRecorder, reader: ImageSupport) -> None:
        """Look again at what no longer serves: too old, or the model cannot see it."""
        viewer = self._viewer(notebook, reader)
        for one in self._read_log(notebook).resolved():
            assert one.resolution is not None
            if not self._resolver.is_current(one.reference, one.resolution, viewer):
                await self._refresh(one, notebook, viewer)

    async def report_changes(self, notebook: RunRecorder) -> None:
        """Tell people what has changed since the model was shown it."""
        for one in self._read_log(notebook).resolved():
            assert one.resolution is not None
            changes = await self._resolver.changes(
                one.reference, one.resolution, known=one.known_files
            )
            for change in changes:
                _send_notice(notebook, change, "reference_changed")

    async def resolve_unanswered(
        self,
        notebook: RunRecorder,
        reader: ImageSupport,
        prompt: Entry | None,
        *,
        is_first: bool,
        again: bool,
    ) -> None:
        """Find out about everything in messages that are not answered yet.

        Raises Unresolved if in the first turn something cannot be opened that the run is about:
        what the prompt points at, or without one what is tried `again`. Then the branch is as it was
        before the prompt, which may be said again. Of anything else people and the model are told.
        """
        unanswered = self._read_log(notebook).unanswered()
        wanted = [
            one for one in unanswered if not one.is_resolved and (again or not _has_failed(one))
        ]
        await self._resolve_all(wanted, notebook, reader, _TurnInput(prompt, is_first))

    async def replace_images(
        self, notebook: RunRecorder, reader: ImageSupport, prompt: Entry | None, *, is_first: bool
    ) -> None:
        """Find something else in place of images, which the model has refused.

        Raises Unresolved as `open` does. Images that were answered before are not worth that.
        """
        viewer = self._viewer(notebook, reader)
        pointers = self._read_log(notebook)
        unanswered = pointers.unanswered()
        waiting = {(one.entry.id, one.block) for one in unanswered}
        for one in pointers.resolved():
            if _is_shown_as_image(one) and (one.entry.id, one.block) not in waiting:
                await self._refresh(one, notebook, viewer)
        wanted = [one for one in unanswered if _is_shown_as_image(one)]
        await self._resolve_all(wanted, notebook, reader, _TurnInput(prompt, is_first))

    def has_images(self, notebook: RunRecorder) -> bool:
        """Tell whether the model is shown an image that could be shown in another way."""
        return any(map(_is_shown_as_image, self._read_log(notebook).resolved()))

    async def _resolve_all(
        self,
        wanted: Sequence[TrackedReference],
        notebook: RunRecorder,
        reader: ImageSupport,
        subject: _TurnInput,
    ) -> None:
        viewer = self._viewer(notebook, reader)
        failed: dict[str, list[str]] = {}
        whole = _BlobLoader(notebook)
        for one in wanted:
            try:
                finding = await self._resolve(whole(one), viewer)
                resolution = _build_resolution(one, finding)
            except Exception as exc:
                # Without this it would be tried, and fail, in every run to come.
                fault = ResolvedReference(
                    error=f"a fault came up while it was opened: {type(exc).__name__}"
                )
                notebook.record(_build_resolution(one, fault))
                subject.rewind_prompt(notebook)
                raise
            notebook.record(resolution)
            if finding.error is not None:
                failed.setdefault(one.entry.id, []).append(finding.error)
        errors = subject.errors(failed)
        if errors:
            subject.rewind_prompt(notebook)
            raise Unresolved(
                f"{reader.image_refusal or 'nothing was sent'}: {_join_errors(errors)}"
            )
        for error in chain.from_iterable(failed.values()):
            _send_notice(notebook, error, "reference_failed")

    async def _refresh(
        self, one: TrackedReference, notebook: RunRecorder, viewer: ResolveContext
    ) -> None:
        finding = await self._resolve(_BlobLoader(notebook)(one), viewer)
        if finding.error is None:
            notebook.record(_build_resolution(one, finding))
        else:
            _send_notice(
                notebook, f"{finding.error}; what was found before stays", "reference_kept"
            )

    def _read_log(self, notebook: RunRecorder) -> ReferenceTracker:
        self._tracker.read(notebook.conversation.entries_view())
        return self._tracker

    def _viewer(self, notebook: RunRecorder, reader: ImageSupport) -> ResolveContext:
        return ResolveContext(
            authorize=build_input_authorizer(self._gate, notebook),
            vision=reader.vision,
            image_refusal=reader.image_refusal,
            report_progress=partial(_send_notice, notebook, reason="progress"),
        )

    async def _resolve(self, pointer: ReferenceBlock, viewer: ResolveContext) -> ResolvedReference:
        try:
            finding = await self._resolver.resolve(pointer, viewer)
        except StenoError as exc:
            return ResolvedReference(error=str(exc))
        if finding.note:
            viewer.report_progress(finding.note)
        return finding


class _TurnInput(NamedTuple):
    """What a turn is about."""

    prompt: Entry | None
    is_first: bool

    def errors(self, failed: Mapping[str, list[str]]) -> list[str]:
        """Return what went wrong with that; what failed goes by the entry of its message."""
        if not self.is_first:
            return []
        about = failed if self.prompt is None else [self.prompt.id]
        return [error for entry_id in about for error in failed.get(entry_id, ())]

    def rewind_prompt(self, notebook: RunRecorder) -> None:
        """Let the branch be as it was before the prompt."""
        if self.is_first and self.prompt is not None:
            assert self.prompt.parent is not None
            notebook.rewind(self.prompt.parent)


def has_references(prompt: Entry | None) -> bool:
    """Tell whether there is something to open in a prompt, so that it may have to be taken back."""
    message = None if prompt is None else prompt.message
    return isinstance(message, UserMessage) and _has_reference_blocks(message)


def ensure_rewind_target(prompt: UserMessage, notebook: RunRecorder) -> None:
    """See that there is something to go back to, if a prompt that points at things comes first."""
    conversation = notebook.conversation
    if not conversation.entries_view() and _has_reference_blocks(prompt):
        notebook.record(ModeChange(old=conversation.mode, new=conversation.mode))


def _has_reference_blocks(message: UserMessage) -> bool:
    return any(isinstance(block, ReferenceBlock) for block in message.content)


_IMAGE_ERROR: Final = re.compile(
    r"imag|picture|vision|visual|multi-?modal|mmproj|content\b.{0,40}\bstring",
    re.IGNORECASE | re.DOTALL,
)
"""What providers say that take none: few say it in the same words."""


_UNRELATED_ERRORS: Final = (AuthenticationFailed, ContextOverflow, RateLimited, Unreachable)
"""What has other reasons, whatever the model is called."""


def is_image_refusal(exc: StenoError) -> bool:
    """Tell whether a provider may have said no because of an image."""
    if not isinstance(exc, ProviderError) or isinstance(exc, _UNRELATED_ERRORS):
        return False
    return _IMAGE_ERROR.search(str(exc)) is not None


def _join_errors(errors: Sequence[str]) -> str:
    rest = len(errors) - _MAX_REPORTED_ERRORS
    return "; ".join(
        [*errors[:_MAX_REPORTED_ERRORS], *([f"{rest:,} more like these"] if rest > 0 else [])]
    )


@final
class _BlobLoader:
    """Returns pointers with all of their bytes; those of one message are brought back together."""

    def __init__(self, notebook: RunRecorder) -> None:
        self._recorder = notebook
        self._last: tuple[str, UserMessage] | None = None

    def __call__(self, one: TrackedReference) -> ReferenceBlock:
        if self._last is None or self._last[0] != one.entry.id:
            message = one.entry.payload
            assert isinstance(message, UserMessage)
            self._last = (one.entry.id, self._recorder.conversation.restore_blobs(message))
        pointer = self._last[1].content[one.block]
        assert isinstance(pointer, ReferenceBlock)
        return pointer


def _has_failed(one: TrackedReference) -> bool:
    return one.resolution is not None and one.resolution.status is ResolutionStatus.FAILED


def _is_shown_as_image(one: TrackedReference) -> bool:
    content = () if one.resolution is None else one.resolution.content
    return isinstance(one.reference, Image) and any(isinstance(block, Image) for block in content)


def _build_resolution(one: TrackedReference, finding: ResolvedReference) -> Resolution:
    """Return a finding for the record. Raises InvalidValue for what is none."""
    error = finding.error
    return Resolution(
        target=one.entry.id,
        block=one.block,
        status=ResolutionStatus.RESOLVED if error is None else ResolutionStatus.FAILED,
        content=finding.content if error is None else (),
        error=None if error is None else replace_lone_surrogates(error[:_MAX_REASON_LENGTH]),
        details=finding.details,
    )


def _send_notice(notebook: RunRecorder, text: str, reason: str) -> None:
    notebook.emit(Notice(NoticeCode.INPUT, text, reason))
