"""Images that a person points at, and what a model gets in their place: an image, or its text.

Which of the two follows from the mode of the image and from what is known of the model. Bytes come
from the message, from a file of the workspace or from an address; the last two only with permission.
This file decodes nothing itself, and knows no engine and no provider.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final, NamedTuple, Protocol, assert_never, final

from steno.content import Image, ImageBlob, ImageData, ImageFile, ImageUrl, RecognitionMode, Text
from steno.entry import Resolution
from steno.errors import ToolFailed, Unrecognised
from steno.inputs.images.fetch import LookUp, fetch_image, look_up
from steno.inputs.images.limits import ImageLimits
from steno.inputs.images.opening import MOST_FILE_BYTES, BadImage, describe
from steno.inputs.images.prepare import for_ocr, prepare
from steno.inputs.images.words import as_text, name_of, note_of, source_of
from steno.inputs.listing import spelled
from steno.inputs.ocr.engine import EngineFailed, Reading
from steno.inputs.permitting import permitted
from steno.inputs.seen import changes_of, image_file
from steno.ports import Capability, Finding, Transport, Viewer
from steno.tools.globs import printable
from steno.tools.workspace import Workspace

_NO_ENGINE: Final = (
    "there is nothing to recognise text with; install it with pip install 'steno[ocr]', or use mode"
    " vision with a model that takes images, or leave the image out"
)
# Why a model reads an image that it might have seen, as the record has it.
_BLIND: Final = "blind"
_REFUSED: Final = "refused"
_UNFIT: Final = "unfit"


class Reads(Protocol):
    """Whoever recognises the text in an image."""

    async def read(self, image: bytes) -> Reading:
        """Read an upright PNG. Raises Unrecognised."""
        ...


@final
class Images:
    """Makes the images of user messages fit for a model.

    `limits` are those of the API that the model is behind; where it takes no images, or the model
    does not, `ocr` recognises the text in them. `transport` makes what carries requests to the
    addresses of images; without it none is fetched.
    """

    def __init__(
        self,
        workspace: Workspace | None,
        *,
        limits: ImageLimits,
        ocr: Reads | None = None,
        transport: Callable[[], Transport] | None = None,
        names: LookUp = look_up,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._workspace = workspace
        self._limits = limits
        self._ocr = ocr
        self._transport = transport
        self._resolve_host = names
        self._clock = clock

    # -- what a model sees -------------------------------------------------------------------

    async def resolve(self, image: Image, viewer: Viewer) -> Finding:
        """Return what the model sees in place of an image. What does not work is an error."""
        name = name_of(image)
        details: dict[str, Any] = {
            "kind": "image",
            "source": source_of(image),
            "mode": image.mode.value,
        }
        try:
            blindness = self._no_vision_reason(viewer)
            if image.mode is RecognitionMode.VISION and blindness.text:
                raise _Failed(
                    f"{name}: {blindness.text}; send it as text with mode ocr or auto, or use a model"
                    " that takes images"
                )
            is_read = image.mode is RecognitionMode.OCR or bool(blindness.text)
            fallback = blindness.text if image.mode is RecognitionMode.AUTO else ""
            if is_read and self._ocr is None:
                raise _Failed(f"{name}: {f'{fallback}, and ' if fallback else ''}{_NO_ENGINE}")
            taken = await self._load_bytes(image, viewer)
            name = name_of(image, taken.path)
            if taken.allowed_by is not None:
                details["allowed_by"] = taken.allowed_by
            if taken.path is not None:
                details["path"] = taken.path
            if fallback:
                details |= {"fallback": fallback, "fallback_kind": blindness.kind}
            if is_read:
                return await self._recognise(name, taken.data, details, viewer)
            return await self._show_or_recognise(name, image.mode, taken.data, details, viewer)
        except _Failed as exc:
            return Finding(error=str(exc), details=details)

    async def _show_or_recognise(
        self,
        name: str,
        mode: RecognitionMode,
        data: bytes,
        details: dict[str, Any],
        viewer: Viewer,
    ) -> Finding:
        """Show an image; where that fails, and nobody insists on it, read what stands in it."""
        try:
            return await self._show(name, data, details)
        except _Failed as exc:
            if mode is RecognitionMode.VISION or self._ocr is None:
                raise
            details |= {"fallback": str(exc), "fallback_kind": _UNFIT}
            try:
                return await self._recognise(name, data, details, viewer)
            except _Failed as other:
                if str(other) == str(exc):
                    raise
                second = str(other).removeprefix(f"{name}: ")
                raise _Failed(f"{exc}; it cannot be sent as text either: {second}") from other

    def _no_vision_reason(self, viewer: Viewer) -> _Blindness:
        """Return why the model gets no images to see; no words if it does."""
        if viewer.image_refusal:
            return _Blindness(_REFUSED, f"the model took no images: {viewer.image_refusal}")
        if viewer.vision is False:
            return _Blindness(_BLIND, "the model takes no images")
        return _Blindness(_BLIND, "" if self._limits.types else "the API takes no images")

    async def _show(self, name: str, data: bytes, details: dict[str, Any]) -> Finding:
        began = self._clock()
        try:
            prepared = await asyncio.to_thread(prepare, data, self._limits)
        except (BadImage, ImportError) as exc:
            raise _Failed(f"{name}: {exc}; try again, or leave it out") from exc
        took = {"used": "vision", "duration_s": round(self._clock() - began, 3)}
        return Finding(content=(prepared.image,), details=details | took | prepared.details)

    async def _recognise(
        self, name: str, data: bytes, details: dict[str, Any], viewer: Viewer
    ) -> Finding:
        assert self._ocr is not None
        began = self._clock()
        try:
            details |= await asyncio.to_thread(describe, data)
            details["used"] = "ocr"
            viewer.report_progress(f"recognising the text in {name}")
            found = await self._ocr.read(await asyncio.to_thread(for_ocr, data))
        except (BadImage, ImportError) as exc:
            raise _Failed(f"{name}: {exc}; try again, or leave it out") from exc
        except Unrecognised as exc:
            details["duration_s"] = round(self._clock() - began, 3)
            if isinstance(exc, EngineFailed):
                details["engine"] = exc.engine
            raise _Failed(
                f"{name}: its text could not be recognised: {exc}; try again, or use mode vision"
                " with a model that takes images"
            ) from exc
        details |= {
            "engine": found.engine,
            "confidence": found.confidence,
            "language": found.language,
            "duration_s": round(found.duration_s, 3),
        }
        return Finding(
            content=(Text(as_text(name, found)),),
            details=details,
            note=note_of(name, found, details.get("fallback")),
        )

    # -- where it is from --------------------------------------------------------------------

    async def _load_bytes(self, image: Image, viewer: Viewer) -> _Taken:
        source = image.source
        try:
            match source:
                case ImageData():
                    return _Taken(source.data)
                case ImageFile():
                    return await self._load_file(source.path, viewer)
                case ImageUrl():
                    return await self._fetch(source.url, viewer)
                case ImageBlob():
                    raise _Failed(
                        "image: its bytes lie beside the record; bring them back first, with"
                        " Journal.bring_back"
                    )
                case _:
                    assert_never(source)
        except (ToolFailed, ImportError) as exc:
            raise _Failed(str(exc)) from exc

    async def _load_file(self, path: str, viewer: Viewer) -> _Taken:
        if self._workspace is None:
            raise ToolFailed("image: there is no workspace whose files could be opened")
        name = await asyncio.to_thread(spelled, self._workspace, path)
        told = printable(name)
        allowed_by = await permitted(viewer, "read", Capability.READ, name, name=told)
        read = partial(self._workspace.strict.read_file, name, most_bytes=MOST_FILE_BYTES)
        return _Taken(await asyncio.to_thread(read), allowed_by, name)

    async def _fetch(self, url: str, viewer: Viewer) -> _Taken:
        if self._transport is None:
            raise ToolFailed("image: nothing is fetched here; download it and name the file")
        transport = self._transport()
        try:
            found = await fetch_image(url, viewer, transport, names=self._resolve_host)
        finally:
            await transport.close()
        return _Taken(found.data, found.allowed_by)

    # -- later -------------------------------------------------------------------------------

    def is_current(self, image: Image, resolution: Resolution, viewer: Viewer) -> bool:
        """Tell whether what was found once still serves the model that is to see it now."""
        details = resolution.details or {}
        is_blind = bool(self._no_vision_reason(viewer).text)
        if details.get("used") == "vision":
            if is_blind and image.mode is not RecognitionMode.VISION:
                return False
            sent = details.get("sent")
            return is_blind or (isinstance(sent, Mapping) and self._accepts(sent))
        # What was refused, or could not be prepared, would be once more.
        if details.get("fallback_kind") == _BLIND and image.mode is RecognitionMode.AUTO:
            return is_blind or viewer.vision is not True
        return True

    def _accepts(self, sent: Mapping[str, Any]) -> bool:
        """Tell whether what was made for one API can go to this one as well."""
        sizes = [sent.get(name, 0) for name in ("bytes", "width", "height")]
        if not all(isinstance(size, int) for size in sizes):
            return False
        size, *edges = sizes
        return (
            sent.get("mime_type") in self._limits.types
            and size <= self._limits.most_bytes
            and max(edges) <= self._limits.longest_edge
        )

    async def changes(
        self, image: Image, resolution: Resolution, *, known: frozenset[str] = frozenset()
    ) -> tuple[str, ...]:
        """Return what has become of a file since; bytes and addresses are taken as they were."""
        file = image_file(resolution.details)
        if self._workspace is None or file is None:
            return ()
        return await asyncio.to_thread(changes_of, self._workspace, (file,), known)


class _Blindness(NamedTuple):
    """Why a model gets no images to see: by what is known of it, or since it has refused one."""

    kind: str
    text: str


class _Failed(Exception):
    """Why nothing came of an image, and what to do."""


class _Taken(NamedTuple):
    data: bytes
    allowed_by: str | None = None
    path: str | None = None
    """What the workspace calls it, if it lies there."""
