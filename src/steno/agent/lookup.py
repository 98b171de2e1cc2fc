"""Find out what messages point at before a model is asked, and put what was found on record.

What a prompt points at and cannot be opened ends the run before anything is sent. What was found
in earlier messages is looked at again where it no longer serves; if that fails, it stays as it is.
"""

from __future__ import annotations

from itertools import chain
from typing import Final, NamedTuple, final

from steno.agent.admission import permits_of
from steno.agent.events import Notice, NoticeCode
from steno.agent.gate import Decides
from steno.agent.notebook import Notebook
from steno.agent.pointing import Pointed, Pointers
from steno.content import Image
from steno.entry import Entry, Resolution, ResolutionStatus
from steno.errors import ProviderError, StenoError, Unresolved
from steno.message import UserMessage
from steno.ports import Finding, Pointer, Resolver, Viewer
from steno.value import replace_lone_surrogates

_LONGEST_REASON: Final = 1_000


class Reader(NamedTuple):
    """The model that is to read it."""

    vision: bool | None
    refused: str = ""
    """Why it took no images that were sent to it."""


@final
class Lookup:
    """Looks up what the messages of one conversation point at."""

    def __init__(self, resolver: Resolver, gate: Decides) -> None:
        """Take who opens things, and who allows it."""
        self._resolver = resolver
        self._gate = gate
        self._pointers = Pointers()

    async def renew(self, notebook: Notebook, reader: Reader) -> list[str]:
        """Look again at what no longer serves: too old, or the model cannot see it.

        Returns why that could not be done for what the model will not see as it is.
        """
        problems: list[str] = []
        viewer = self._viewer(notebook, reader)
        for one in self._read(notebook).resolved():
            assert one.resolution is not None
            pointer = _whole(one, notebook)
            if self._resolver.is_current(pointer, one.resolution, viewer):
                continue
            finding = await self._find(pointer, viewer)
            if finding.error is None:
                _record(one, finding, notebook)
            else:
                problems.append(finding.error)
                _tell(notebook, f"{finding.error}; what was found before stays")
        return problems

    async def tell_changes(self, notebook: Notebook) -> None:
        """Tell people what has changed since the model was shown it."""
        for one in self._read(notebook).resolved():
            if one.is_seen_since or one.resolution is None:
                continue
            for change in await self._resolver.changes(one.pointer, one.resolution):
                _tell(notebook, change)

    async def open(
        self, notebook: Notebook, reader: Reader, prompt: Entry | None, *, is_first: bool
    ) -> None:
        """Find out about everything in messages that are not answered yet.

        Raises Unresolved if in the first turn something cannot be opened that the run is about:
        what the prompt points at, or without one what failed before. Then the branch is as it was
        before the prompt, which may be said again. Of anything else people and the model are told.
        """
        failed = await self._open(notebook, self._viewer(notebook, reader), again=is_first)
        if is_first:
            about = [*failed] if prompt is None else [prompt.id]
            errors = [error for entry_id in about for error in failed.pop(entry_id, ())]
            if errors:
                if prompt is not None and prompt.parent is not None:
                    notebook.rewind(prompt.parent)
                raise Unresolved(f"{'; '.join(errors)}; nothing was sent")
        for error in chain.from_iterable(failed.values()):
            _tell(notebook, error)

    async def _open(
        self, notebook: Notebook, viewer: Viewer, *, again: bool
    ) -> dict[str, list[str]]:
        """Return what could not be opened, and why, by the entry of the message."""
        failed: dict[str, list[str]] = {}
        for one in self._read(notebook).unanswered():
            if one.is_resolved or (_has_failed(one) and not again):
                continue
            finding = await self._find(_whole(one, notebook), viewer)
            _record(one, finding, notebook)
            if finding.error is not None:
                failed.setdefault(one.entry.id, []).append(finding.error)
        return failed

    def shows_images(self, notebook: Notebook) -> bool:
        """Tell whether the model is shown an image that could be shown in another way."""
        return any(
            isinstance(one.pointer, Image)
            and one.resolution is not None
            and any(isinstance(block, Image) for block in one.resolution.content)
            for one in self._read(notebook).resolved()
        )

    def _read(self, notebook: Notebook) -> Pointers:
        self._pointers.read(notebook.conversation.past())
        return self._pointers

    def _viewer(self, notebook: Notebook, reader: Reader) -> Viewer:
        return Viewer(
            permits=permits_of(self._gate, notebook),
            vision=reader.vision,
            refused=reader.refused,
            say=lambda text: _tell(notebook, text),
        )

    async def _find(self, pointer: Pointer, viewer: Viewer) -> Finding:
        try:
            finding = await self._resolver.resolve(pointer, viewer)
        except StenoError as exc:
            return Finding(error=str(exc))
        if finding.note:
            viewer.say(finding.note)
        return finding


def may_be_about_images(exc: StenoError) -> bool:
    """Tell whether a provider may have said no because of an image; few say so in the same words."""
    is_plain_no = type(exc) is ProviderError and not exc.retryable
    return is_plain_no or (isinstance(exc, ProviderError) and "image" in str(exc).lower())


def _whole(one: Pointed, notebook: Notebook) -> Pointer:
    """Return a pointer with all of its bytes."""
    message = one.entry.payload
    assert isinstance(message, UserMessage)
    pointer = notebook.conversation.bring_back(message).content[one.block]
    assert isinstance(pointer, Pointer)
    return pointer


def _has_failed(one: Pointed) -> bool:
    return one.resolution is not None and one.resolution.status is ResolutionStatus.FAILED


def _record(one: Pointed, finding: Finding, notebook: Notebook) -> None:
    error = finding.error
    notebook.record(
        Resolution(
            target=one.entry.id,
            block=one.block,
            status=ResolutionStatus.RESOLVED if error is None else ResolutionStatus.FAILED,
            content=finding.content if error is None else (),
            error=None if error is None else replace_lone_surrogates(error[:_LONGEST_REASON]),
            details=finding.details,
        )
    )


def _tell(notebook: Notebook, text: str) -> None:
    notebook.tell(Notice(NoticeCode.INPUT, text))
