"""Find out what messages point at before a model is asked, and put what was found on record.

What a prompt points at and cannot be opened ends the run before anything is sent. What was found
in earlier messages is looked at again where it no longer serves; if that fails, it stays as it is.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Any, Final, NamedTuple, final

from steno.agent.admission import permits_of
from steno.agent.events import Notice, NoticeCode
from steno.agent.gate import Decides
from steno.agent.going_back import is_by_the_way
from steno.agent.notebook import Notebook
from steno.agent.pointing import Pointed, Pointers
from steno.content import Image
from steno.conversation import Conversation
from steno.entry import Entry, ModeChange, Resolution, ResolutionStatus, Rewind
from steno.errors import (
    AuthenticationFailed,
    ContextOverflow,
    ProviderError,
    RateLimited,
    StenoError,
    Unreachable,
    Unresolved,
)
from steno.message import AssistantMessage, UserMessage
from steno.ports import Finding, Pointer, Resolver, Viewer
from steno.value import replace_lone_surrogates

_LONGEST_REASON: Final = 1_000
_MOST_TOLD: Final = 5


class Reader(NamedTuple):
    """The model that is to read it."""

    vision: bool | None
    image_refusal: str = ""
    """Why it took no images that were sent to it."""


@final
class Lookup:
    """Looks up what the messages of one conversation point at."""

    def __init__(self, resolver: Resolver, gate: Decides) -> None:
        """Take who opens things, and who allows it."""
        self._resolver = resolver
        self._gate = gate
        self._tracker = Pointers()

    async def refresh_outdated(self, notebook: Notebook, reader: Reader) -> None:
        """Look again at what no longer serves: too old, or the model cannot see it."""
        viewer = self._viewer(notebook, reader)
        for one in self._read_log(notebook).resolved():
            assert one.resolution is not None
            if not self._resolver.is_current(one.reference, one.resolution, viewer):
                await self._refresh(one, notebook, viewer)

    async def report_changes(self, notebook: Notebook) -> None:
        """Tell people what has changed since the model was shown it."""
        for one in self._read_log(notebook).resolved():
            assert one.resolution is not None
            changes = await self._resolver.changes(one.reference, one.resolution, known=one.known_files)
            for change in changes:
                _tell(notebook, change)

    async def resolve_unanswered(
        self,
        notebook: Notebook,
        reader: Reader,
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
        wanted = [one for one in unanswered if not one.is_resolved and (again or not _failed(one))]
        await self._resolve_all(wanted, notebook, reader, _Subject(prompt, is_first))

    async def replace_images(
        self, notebook: Notebook, reader: Reader, prompt: Entry | None, *, is_first: bool
    ) -> None:
        """Find something else in place of images, which the model has refused.

        Raises Unresolved as `open` does. Images that were answered before are not worth that.
        """
        viewer = self._viewer(notebook, reader)
        pointers = self._read_log(notebook)
        unanswered = pointers.unanswered()
        waiting = {(one.entry.id, one.block) for one in unanswered}
        for one in pointers.resolved():
            if _shows_image(one) and (one.entry.id, one.block) not in waiting:
                await self._refresh(one, notebook, viewer)
        wanted = [one for one in unanswered if _shows_image(one)]
        await self._resolve_all(wanted, notebook, reader, _Subject(prompt, is_first))

    def has_images(self, notebook: Notebook) -> bool:
        """Tell whether the model is shown an image that could be shown in another way."""
        return any(map(_shows_image, self._read_log(notebook).resolved()))

    async def _resolve_all(
        self, wanted: Sequence[Pointed], notebook: Notebook, reader: Reader, subject: _Subject
    ) -> None:
        viewer = self._viewer(notebook, reader)
        failed: dict[str, list[str]] = {}
        whole = _Wholes(notebook)
        for one in wanted:
            try:
                finding = await self._resolve(whole(one), viewer)
                resolution = _resolution(one, finding)
            except Exception as exc:
                # Without this it would be tried, and fail, in every run to come.
                fault = Finding(error=f"a fault came up while it was opened: {type(exc).__name__}")
                notebook.record(_resolution(one, fault))
                subject.rewind_prompt(notebook)
                raise
            notebook.record(resolution)
            if finding.error is not None:
                failed.setdefault(one.entry.id, []).append(finding.error)
        errors = subject.errors(failed)
        if errors:
            subject.rewind_prompt(notebook)
            raise Unresolved(f"{reader.image_refusal or 'nothing was sent'}: {_joined(errors)}")
        for error in chain.from_iterable(failed.values()):
            _tell(notebook, error)

    async def _refresh(self, one: Pointed, notebook: Notebook, viewer: Viewer) -> None:
        finding = await self._resolve(_Wholes(notebook)(one), viewer)
        if finding.error is None:
            notebook.record(_resolution(one, finding))
        else:
            _tell(notebook, f"{finding.error}; what was found before stays")

    def _read_log(self, notebook: Notebook) -> Pointers:
        self._tracker.read(notebook.conversation.entries_view())
        return self._tracker

    def _viewer(self, notebook: Notebook, reader: Reader) -> Viewer:
        return Viewer(
            authorize=permits_of(self._gate, notebook),
            vision=reader.vision,
            image_refusal=reader.image_refusal,
            report_progress=partial(_tell, notebook),
        )

    async def _resolve(self, pointer: Pointer, viewer: Viewer) -> Finding:
        try:
            finding = await self._resolver.resolve(pointer, viewer)
        except StenoError as exc:
            return Finding(error=str(exc))
        if finding.note:
            viewer.report_progress(finding.note)
        return finding


class _Subject(NamedTuple):
    """What a turn is about."""

    prompt: Entry | None
    is_first: bool

    def errors(self, failed: Mapping[str, list[str]]) -> list[str]:
        """Return what went wrong with that; what failed goes by the entry of its message."""
        if not self.is_first:
            return []
        about = failed if self.prompt is None else [self.prompt.id]
        return [error for entry_id in about for error in failed.get(entry_id, ())]

    def rewind_prompt(self, notebook: Notebook) -> None:
        """Let the branch be as it was before the prompt."""
        if self.is_first and self.prompt is not None:
            assert self.prompt.parent is not None
            notebook.rewind(self.prompt.parent)


def points(prompt: Entry | None) -> bool:
    """Tell whether there is something to open in a prompt, so that it may have to be taken back."""
    message = None if prompt is None else prompt.message
    return isinstance(message, UserMessage) and _has_pointers(message)


def leave_way_back(prompt: UserMessage, notebook: Notebook) -> None:
    """See that there is something to go back to, if a prompt that points at things comes first."""
    conversation = notebook.conversation
    if not conversation.entries_view() and _has_pointers(prompt):
        notebook.record(ModeChange(old=conversation.mode, new=conversation.mode))


def _has_pointers(message: UserMessage) -> bool:
    return any(isinstance(block, Pointer) for block in message.content)


class Unsent(NamedTuple):
    """A prompt that the branch went back behind, since it could not be opened."""

    message: UserMessage
    audit: Mapping[str, Any]
    """What stands beside it in the record."""


def find_unsent(conversation: Conversation) -> Unsent | None:
    """Return the prompt that could not be opened last, if nothing has been said since."""
    last = _last_way_back(conversation)
    if last is None or not isinstance(last.payload, Rewind):
        return None
    entry, failed = conversation.entry(last.payload.left), set[str]()
    while entry.parent is not None and entry.parent != last.parent:
        if isinstance(entry.payload, AssistantMessage):
            return None  # somebody went back behind what was answered
        if isinstance(entry.payload, Resolution) and entry.payload.error is not None:
            failed.add(entry.payload.target)
        entry = conversation.entry(entry.parent)
    if entry.id not in failed or not isinstance(entry.payload, UserMessage):
        return None
    return Unsent(conversation.restore_blobs(entry.payload), entry.audit or {})


def _last_way_back(conversation: Conversation) -> Entry | None:
    """Return the last entry of the branch, but for what was only set or printed behind it."""
    return next(
        (
            entry
            for entry in reversed(conversation.entries_view())
            if isinstance(entry.payload, Rewind) or not is_by_the_way(entry)
        ),
        None,
    )


_OF_IMAGES: Final = re.compile(
    r"imag|picture|vision|visual|multi-?modal|mmproj|content\b.{0,40}\bstring",
    re.IGNORECASE | re.DOTALL,
)
"""What providers say that take none: few say it in the same words."""
_OF_OTHERS: Final = (AuthenticationFailed, ContextOverflow, RateLimited, Unreachable)
"""What has other reasons, whatever the model is called."""


def may_be_about_images(exc: StenoError) -> bool:
    """Tell whether a provider may have said no because of an image."""
    if not isinstance(exc, ProviderError) or isinstance(exc, _OF_OTHERS):
        return False
    return _OF_IMAGES.search(str(exc)) is not None


def is_unanswered(conversation: Conversation) -> bool:
    """Tell whether the last that was said on the branch is a person's, so that a run can go on."""
    said = (entry.message for entry in reversed(conversation.entries_view()))
    last = next((message for message in said if message is not None), None)
    return isinstance(last, UserMessage)


def _joined(errors: Sequence[str]) -> str:
    rest = len(errors) - _MOST_TOLD
    return "; ".join([*errors[:_MOST_TOLD], *([f"{rest:,} more like these"] if rest > 0 else [])])


@final
class _Wholes:
    """Returns pointers with all of their bytes; those of one message are brought back together."""

    def __init__(self, notebook: Notebook) -> None:
        self._recorder = notebook
        self._last: tuple[str, UserMessage] | None = None

    def __call__(self, one: Pointed) -> Pointer:
        if self._last is None or self._last[0] != one.entry.id:
            message = one.entry.payload
            assert isinstance(message, UserMessage)
            self._last = (one.entry.id, self._recorder.conversation.restore_blobs(message))
        pointer = self._last[1].content[one.block]
        assert isinstance(pointer, Pointer)
        return pointer


def _failed(one: Pointed) -> bool:
    return one.resolution is not None and one.resolution.status is ResolutionStatus.FAILED


def _shows_image(one: Pointed) -> bool:
    content = () if one.resolution is None else one.resolution.content
    return isinstance(one.reference, Image) and any(isinstance(block, Image) for block in content)


def _resolution(one: Pointed, finding: Finding) -> Resolution:
    """Return a finding for the record. Raises InvalidValue for what is none."""
    error = finding.error
    return Resolution(
        target=one.entry.id,
        block=one.block,
        status=ResolutionStatus.RESOLVED if error is None else ResolutionStatus.FAILED,
        content=finding.content if error is None else (),
        error=None if error is None else replace_lone_surrogates(error[:_LONGEST_REASON]),
        details=finding.details,
    )


def _tell(notebook: Notebook, text: str) -> None:
    notebook.emit(Notice(NoticeCode.INPUT, text))
