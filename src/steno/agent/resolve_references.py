"""Resolve the references in messages before a request, and record the resolutions.

If a reference in the prompt cannot be resolved, the run ends before anything is sent. References in
earlier messages are resolved again when they are out of date; if that fails, the old resolution
stays.

    ReferenceTracker    reads the references of a branch and their resolutions from the log
    ReferenceResolver   resolves references through a port, with permission from the gate
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Any, Final, NamedTuple, final

from steno.agent.events import Notice, NoticeKind
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
from steno.messages.call import AnyToolCall, ToolCall, map_tool_name
from steno.messages.content import Image, ReferenceBlock
from steno.messages.message import AssistantMessage, ToolResultMessage, UserMessage
from steno.messages.tool import ToolDefinition
from steno.ports import (
    CallPreview,
    Capability,
    InputAuthorizer,
    ResolveContext,
    ResolvedReference,
    Resolver,
    ToolContext,
    ToolOutput,
)
from steno.records.entry import Compaction, Entry, Resolution, ResolutionStatus
from steno.values import replace_lone_surrogates

_MAX_REASON_LENGTH: Final = 1_000
_MAX_REPORTED_ERRORS: Final = 5
_MAX_DESCRIPTION_LENGTH: Final = 200
_SUBJECT_SCHEMA: Final = {"type": "object", "properties": {"subject": {"type": "string"}}}
_IMAGE_ERROR: Final = re.compile(
    r"imag|picture|vision|visual|multi-?modal|mmproj|content\b.{0,40}\bstring",
    re.IGNORECASE | re.DOTALL,
)
"""Matches provider errors about a refused image, for which providers have no code."""
_UNRELATED_ERRORS: Final = (AuthenticationFailed, ContextOverflow, RateLimited, Unreachable)
"""Errors that have another cause even if their text matches, for example by a model name."""


# -- the references of a branch --------------------------------------------------------------------


class TrackedReference(NamedTuple):
    """A reference block in a message, and its last resolution."""

    entry: Entry
    """The entry of the message that contains the reference."""
    block: int
    reference: ReferenceBlock
    """The recorded reference; the bytes of an image may be in a blob."""
    resolution: Resolution | None = None
    """The last resolution of the reference; None if there is none yet."""
    known_files: frozenset[str] = frozenset()
    """Files that the model has read, changed or received since the last resolution."""

    @property
    def is_resolved(self) -> bool:
        """Whether the last resolution succeeded, so that the model sees the target."""
        return self.resolution is not None and self.resolution.status is ResolutionStatus.RESOLVED

    @property
    def has_failed(self) -> bool:
        """Whether the last resolution failed."""
        return self.resolution is not None and self.resolution.status is ResolutionStatus.FAILED

    @property
    def is_shown_as_image(self) -> bool:
        """Whether the model sees an image that could be resolved to text instead."""
        content = () if self.resolution is None else self.resolution.content
        is_image = isinstance(self.reference, Image)
        return is_image and any(isinstance(block, Image) for block in content)


@final
class ReferenceTracker:
    """Tracks the references in the messages of one branch that the model still receives.

    Each entry is read once, so the cost of a turn depends only on its new entries. No target is
    opened.
    """

    def __init__(self) -> None:
        self._reset()

    def _reset(self) -> None:
        self._references: dict[tuple[str, int], TrackedReference] = {}
        self._resolved_at: dict[tuple[str, int], int] = {}
        """The entry number of the last resolution of each reference."""
        self._known_since: dict[str, int] = {}
        """The number of the last entry that showed a file to the model, by path."""
        self._unanswered_ids: list[str] = []
        """The entry ids of the user messages after the last response."""
        self._read_position: tuple[int, Entry | None] = (0, None)

    def read(self, entries: Sequence[Entry]) -> None:
        """Read the new entries, or all entries if the branch has changed or is shorter."""
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
            elif entry.clears_context:
                self._reset()
        self._read_position = (len(entries), entries[-1] if entries else None)

    def unanswered(self) -> tuple[TrackedReference, ...]:
        """Return the references in user messages after the last response."""
        references, unanswered_ids = self._references.values(), self._unanswered_ids
        return tuple([found for found in references if found.entry.id in unanswered_ids])

    def resolved(self) -> tuple[TrackedReference, ...]:
        """Return the references whose targets the model sees."""
        references = self._references.values()
        return tuple([self._with_known(found) for found in references if found.is_resolved])

    def _with_known(self, reference: TrackedReference) -> TrackedReference:
        found_at = self._resolved_at.get((reference.entry.id, reference.block), 0)
        known = [path for path, shown_at in self._known_since.items() if shown_at > found_at]
        return reference._replace(known_files=frozenset(known)) if known else reference

    def _add_message(self, entry: Entry, message: UserMessage) -> None:
        self._unanswered_ids.append(entry.id)
        for number, block in enumerate(message.content):
            if isinstance(block, ReferenceBlock):
                self._references[entry.id, number] = TrackedReference(entry, number, block)

    def _add_resolution(self, resolution: Resolution, number: int) -> None:
        key = (resolution.target, resolution.block)
        if key in self._references:
            self._references[key] = self._references[key]._replace(resolution=resolution)
            self._resolved_at[key] = number
            if resolution.status is ResolutionStatus.RESOLVED:
                self._mark_known(resolution.details, number)

    def _mark_known(self, details: Mapping[str, Any] | None, number: int) -> None:
        for path in _iterate_paths(details or {}):
            self._known_since[path] = number

    def _drop_compacted(self, entries: Sequence[Entry], through: str) -> None:
        last = next((number for number, entry in enumerate(entries) if entry.id == through), -1)
        compacted_ids = {entry.id for entry in entries[: last + 1]}
        self._references = {
            key: reference
            for key, reference in self._references.items()
            if key[0] not in compacted_ids
        }


def _iterate_paths(details: Mapping[str, Any]) -> Iterator[str]:
    files = details.get("files")
    for row in (details, *(files if isinstance(files, Sequence) else ())):
        path = row.get("path") if isinstance(row, Mapping) else None
        if isinstance(path, str):
            yield path


# -- resolving -------------------------------------------------------------------------------------


class TurnInput(NamedTuple):
    """The state of a turn that determines how references are resolved and failures handled."""

    prompt: Entry | None
    is_first: bool
    """Whether this is the first turn, in which the prompt can still be rewound."""
    vision: bool | None
    """Whether the model accepts images; None if unknown."""
    image_refusal: str
    """The error text if the model has refused images; else empty."""

    def errors(self, failed: Mapping[str, list[str]]) -> list[str]:
        """Return the errors that end the run; `failed` maps the entry id of a message to errors."""
        if not self.is_first:
            return []
        entry_ids = failed if self.prompt is None else [self.prompt.id]
        return [error for entry_id in entry_ids for error in failed.get(entry_id, ())]

    def rewind_prompt(self, recorder: RunRecorder) -> None:
        """Rewind the branch to before the prompt, if this is the first turn."""
        if self.is_first and self.prompt is not None:
            assert self.prompt.parent is not None
            recorder.rewind(self.prompt.parent)


@final
class ReferenceResolver:
    """Resolves the references of one conversation."""

    def __init__(self, resolver: Resolver, gate: PermissionGate) -> None:
        self._resolver = resolver
        self._gate = gate
        self._tracker = ReferenceTracker()

    async def refresh_outdated(self, recorder: RunRecorder, turn: TurnInput) -> None:
        """Resolve references again if the resolution is outdated or not readable by the model."""
        context = self._resolve_context(recorder, turn)
        for reference in self._read_log(recorder).resolved():
            assert reference.resolution is not None
            if not self._resolver.is_current(reference.reference, reference.resolution, context):
                await self._refresh(reference, recorder, context)

    async def report_changes(self, recorder: RunRecorder) -> None:
        """Report targets that have changed since the model saw them."""
        for reference in self._read_log(recorder).resolved():
            assert reference.resolution is not None
            changes = await self._resolver.changes(
                reference.reference, reference.resolution, known=reference.known_files
            )
            for change in changes:
                _send_notice(recorder, change, "reference_changed")

    async def resolve_unanswered(
        self, recorder: RunRecorder, turn: TurnInput, *, retry: bool = False
    ) -> None:
        """Resolve the references in user messages after the last response.

        `retry` includes references that have already failed. In the first turn, Unresolved is
        raised if a reference in the prompt fails or, in a run without a prompt, if any reference
        fails. The branch is rewound to before the prompt, which can be sent again. Other failures
        are reported to the user and the model.
        """
        wanted = [
            reference
            for reference in self._read_log(recorder).unanswered()
            if not reference.is_resolved and (retry or not reference.has_failed)
        ]
        await self._resolve_all(wanted, recorder, turn)

    async def replace_images(self, recorder: RunRecorder, turn: TurnInput) -> None:
        """Resolve images again, to text, because the model has refused images.

        Raises Unresolved under the conditions of `resolve_unanswered`, but never for images in
        earlier messages.
        """
        context = self._resolve_context(recorder, turn)
        tracker = self._read_log(recorder)
        wanted = [reference for reference in tracker.unanswered() if reference.is_shown_as_image]
        wanted_keys = {(reference.entry.id, reference.block) for reference in wanted}
        for reference in tracker.resolved():
            is_wanted = (reference.entry.id, reference.block) in wanted_keys
            if reference.is_shown_as_image and not is_wanted:
                await self._refresh(reference, recorder, context)
        await self._resolve_all(wanted, recorder, turn)

    def has_images(self, recorder: RunRecorder) -> bool:
        """Return whether the model sees an image that could be resolved to text instead."""
        return any(reference.is_shown_as_image for reference in self._read_log(recorder).resolved())

    async def _resolve_all(
        self, wanted: Sequence[TrackedReference], recorder: RunRecorder, turn: TurnInput
    ) -> None:
        context = self._resolve_context(recorder, turn)
        failed: dict[str, list[str]] = {}
        for reference in wanted:
            try:
                resolved = await self._resolve(reference, recorder, context)
                resolution = _build_resolution(reference, resolved)
            except Exception as exc:
                # Without this entry, every later run would try to resolve the reference again.
                error = f"unexpected error while the reference was opened: {type(exc).__name__}"
                recorder.record(_build_resolution(reference, ResolvedReference(error=error)))
                turn.rewind_prompt(recorder)
                raise
            recorder.record(resolution)
            if resolved.error is not None:
                failed.setdefault(reference.entry.id, []).append(resolved.error)
        errors = turn.errors(failed)
        if errors:
            turn.rewind_prompt(recorder)
            problem = turn.image_refusal or "nothing was sent"
            code = "images_refused" if turn.image_refusal else None
            rest = len(errors) - _MAX_REPORTED_ERRORS
            more = [f"and {rest:,} more"] if rest > 0 else []
            shown = "; ".join([*errors[:_MAX_REPORTED_ERRORS], *more])
            raise Unresolved(f"{problem}: {shown}", code=code)
        for error in chain.from_iterable(failed.values()):
            _send_notice(recorder, error, "reference_failed")

    async def _refresh(
        self, reference: TrackedReference, recorder: RunRecorder, context: ResolveContext
    ) -> None:
        resolved = await self._resolve(reference, recorder, context)
        if resolved.error is None:
            recorder.record(_build_resolution(reference, resolved))
        else:
            text = f"{resolved.error}; the model still sees the earlier content"
            _send_notice(recorder, text, "reference_kept")

    def _read_log(self, recorder: RunRecorder) -> ReferenceTracker:
        self._tracker.read(recorder.conversation.entries_view())
        return self._tracker

    def _resolve_context(self, recorder: RunRecorder, turn: TurnInput) -> ResolveContext:
        return ResolveContext(
            authorize=build_input_authorizer(self._gate, recorder),
            vision=turn.vision,
            image_refusal=turn.image_refusal,
            report_progress=partial(_send_notice, recorder, code="progress"),
            run_cache=recorder.run_cache,
        )

    async def _resolve(
        self, reference: TrackedReference, recorder: RunRecorder, context: ResolveContext
    ) -> ResolvedReference:
        message = UserMessage((reference.reference,))
        (block,) = recorder.conversation.restore_blobs(message).content
        assert isinstance(block, ReferenceBlock)
        try:
            resolved = await self._resolver.resolve(block, context)
        except StenoError as exc:
            return ResolvedReference(error=str(exc))
        if resolved.notice:
            context.report_progress(resolved.notice)
        return resolved


def is_image_refusal(exc: StenoError) -> bool:
    """Return whether a provider may have refused a request because of an image."""
    if not isinstance(exc, ProviderError) or isinstance(exc, _UNRELATED_ERRORS):
        return False
    return _IMAGE_ERROR.search(str(exc)) is not None


def _build_resolution(reference: TrackedReference, resolved: ResolvedReference) -> Resolution:
    """Build the payload of a resolution for the log. Raises InvalidValue if it is invalid."""
    error = resolved.error
    return Resolution(
        target=reference.entry.id,
        block=reference.block,
        status=ResolutionStatus.RESOLVED if error is None else ResolutionStatus.FAILED,
        content=resolved.content if error is None else (),
        error=None if error is None else replace_lone_surrogates(error[:_MAX_REASON_LENGTH]),
        details=resolved.details,
    )


def _send_notice(recorder: RunRecorder, text: str, code: str) -> None:
    recorder.emit(Notice(NoticeKind.INPUT, text, code))


# -- permission ------------------------------------------------------------------------------------


def build_input_authorizer(gate: PermissionGate, recorder: RunRecorder) -> InputAuthorizer:
    """Return a function that asks the gate for permission to open a target.

    A rule such as `read(secrets/**)` applies to files that the user names as well as to files that
    the model names, so the gate is asked about a call of the tool that would open the target.
    """

    async def authorize(
        tool: str, capability: Capability, subject: str, *, preview: str = ""
    ) -> str:
        input_tool = _InputTool(map_tool_name(tool), capability, subject, preview)
        decision = await gate.authorize_reference(input_tool, input_tool.call, recorder)
        if not decision.allowed:
            raise ToolFailed(decision.reason, code=str(decision.code))
        return decision.reason

    return authorize


@final
class _InputTool:
    """A tool (`steno.ports.Tool`) that represents opening one target; it is never run."""

    def __init__(self, name: str, capability: Capability, subject: str, preview: str) -> None:
        self.definition: Final = ToolDefinition(
            name=name,
            description=f"opens {subject}"[:_MAX_DESCRIPTION_LENGTH],
            parameters=_SUBJECT_SCHEMA,
        )
        self.capability: Final = capability
        self.rule_aliases: Final[tuple[str, ...]] = ()
        self.call: Final = ToolCall.create(name, {"subject": subject})
        self._subject = subject
        self._preview = preview

    def subjects(self, call: ToolCall) -> tuple[str, ...]:
        return (self._subject,)

    def headline(self, call: AnyToolCall) -> str:
        return self._subject

    async def preview(self, call: ToolCall) -> CallPreview:
        text = self._preview or f"{self.definition.name} {self._subject}"
        return CallPreview.of(text, shown_arguments=("subject",) if self._subject in text else ())

    async def run(self, call: ToolCall, context: ToolContext) -> ToolOutput:
        raise AssertionError("the resolver opens the target; this tool is never run")
