"""Resolve each image in a user message to an image for the model, or to the text in the image.

The choice depends on the mode of the image, and on whether the model accepts images. The bytes are
in the message, in a file of the workspace or at a URL; files and URLs need permission. If text
replaces an image, the model receives only the name of the image and the text. This module does not
decode images, and does not depend on a particular OCR engine or provider.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol, assert_never, final
from urllib.parse import unquote, urlsplit

from steno.errors import MissingExtra, ToolFailed, Unrecognised
from steno.inputs.file_references import find_changes, read_recorded_image, workspace_name
from steno.inputs.images.fetch import HostLookup, fetch_image, resolve_host
from steno.inputs.images.prepare import (
    MAX_IMAGE_FILE_BYTES,
    BadImage,
    ImageLimits,
    describe_image,
    prepare_for_model,
    prepare_for_ocr,
)
from steno.inputs.ocr.engine import (
    NO_ENGINE_INSTALLED,
    OcrEngineFailed,
    OcrResult,
    format_confidence,
)
from steno.invisible import is_visible
from steno.messages.content import (
    Image,
    ImageBlob,
    ImageData,
    ImageFile,
    ImageUrl,
    RecognitionMode,
    Text,
)
from steno.messages.framed_text import frame_text
from steno.ports import Capability, ResolveContext, ResolvedReference, Transport, strip_url_secrets
from steno.records.entry import Resolution
from steno.tools.path_patterns import printable_name
from steno.tools.workspace import Workspace


class ImageTextReader(Protocol):
    """Recognises the text in an image."""

    async def read(self, image: bytes) -> OcrResult:
        """Recognise the text in an upright PNG. Raises Unrecognised if that fails."""
        ...


@final
class ImageResolver:
    """Prepares the images in user messages for a model.

    `limits` are the limits of the model's API. If the API or the model does not accept images, the
    reader that `find_ocr` returns recognises the text in them; `find_ocr` is first called when an
    image needs it. If `find_ocr` is None, OCR is turned off. `transport` creates the transport that
    fetches images from URLs; without it, no image is fetched.
    """

    def __init__(
        self,
        workspace: Workspace | None,
        *,
        limits: ImageLimits,
        find_ocr: Callable[[], ImageTextReader | None] | None = None,
        transport: Callable[[], Transport] | None = None,
        host_lookup: HostLookup = resolve_host,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._workspace = workspace
        self._limits = limits
        self._find_ocr = find_ocr
        self._transport = transport
        self._host_lookup = host_lookup
        self._clock = clock

    # -- resolving ---------------------------------------------------------------------------

    async def resolve(self, image: Image, context: ResolveContext) -> ResolvedReference:
        """Return the image or the text for the model; a failure is a result with an error."""
        name = image_name(image)
        details: dict[str, Any] = {
            "kind": "image",
            "source": image_source(image),
            "mode": image.mode.value,
        }
        try:
            kind, no_vision = self._no_vision_reason(context)
            if image.mode is RecognitionMode.VISION and no_vision:
                advice = "use mode ocr or auto to send its text, or a model that accepts images"
                raise ToolFailed(f"{no_vision}; {advice}", code="no_vision", place=name)
            uses_ocr = image.mode is RecognitionMode.OCR or bool(no_vision)
            fallback = no_vision if image.mode is RecognitionMode.AUTO else ""
            ocr = await self._text_reader() if uses_ocr else None
            lacks_ocr = uses_ocr and ocr is None
            if lacks_ocr and isinstance(image.source, ImageUrl):  # do not fetch it in vain
                raise self._no_ocr_error(name, fallback)
            data, found_details = await self._load_bytes(image, context)
            details |= found_details
            name = image_name(image, found_details.get("path"))
            if lacks_ocr:  # only now: a missing file is a better reason than a missing engine
                raise self._no_ocr_error(name, fallback)
            if fallback:
                details |= {"fallback": fallback, "fallback_kind": kind}
            if ocr is not None:
                return await self._recognise(ocr, name, data, details, context)
            return await self._show_or_recognise(name, image.mode, data, details, context)
        except ToolFailed as exc:
            return ResolvedReference(error=str(exc), error_code=exc.code, details=details)

    async def _show_or_recognise(
        self,
        name: str,
        mode: RecognitionMode,
        data: bytes,
        details: dict[str, Any],
        context: ResolveContext,
    ) -> ResolvedReference:
        """Prepare an image for the model, or recognise its text if that fails in mode auto."""
        try:
            return await self._show(name, data, details)
        except ToolFailed as exc:
            ocr = None if mode is RecognitionMode.VISION else await self._text_reader()
            if ocr is None:
                raise
            details |= {"fallback": str(exc), "fallback_kind": _NOT_PREPARABLE}
            try:
                return await self._recognise(ocr, name, data, details, context)
            except ToolFailed as ocr_error:
                if (ocr_error.code, ocr_error.message) == (exc.code, exc.message):
                    raise
                also = f"the image cannot be sent as text either: {ocr_error.message}"
                message = f"{exc.message}; {also}"
                raise ToolFailed(message, code=exc.code, place=name) from ocr_error

    def _no_vision_reason(self, context: ResolveContext) -> tuple[str, str]:
        """Return a code and a text that explain why the model cannot receive images.

        The text is empty if the model can receive images.
        """
        if context.image_refusal:
            return _IMAGE_REFUSED, f"the model refused an image: {context.image_refusal}"
        if context.vision is False:
            return _NO_VISION, "the model does not accept images"
        return _NO_VISION, "" if self._limits.types else "the API does not accept images"

    async def _show(self, name: str, data: bytes, details: dict[str, Any]) -> ResolvedReference:
        started_at = self._clock()
        try:
            prepared = await asyncio.to_thread(prepare_for_model, data, self._limits)
        except (BadImage, ImportError) as exc:
            raise _unprepared_error(exc, name) from exc
        timing = {"used": "vision", "duration_s": round(self._clock() - started_at, 3)}
        return ResolvedReference(
            content=(prepared.image,), details=details | timing | prepared.details
        )

    async def _text_reader(self) -> ImageTextReader | None:
        if self._find_ocr is None:
            return None
        return await asyncio.to_thread(self._find_ocr)  # it may search for data of languages

    def _no_ocr_error(self, name: str, fallback: str) -> ToolFailed:
        before = f"{fallback}, and " if fallback else ""
        if self._find_ocr is None:
            message = f"{before}OCR is turned off: turn it on, or {_OTHER_WAYS}"
            return ToolFailed(message, code="ocr_off", place=name)
        message = f"{before}{NO_ENGINE_INSTALLED}, or {_OTHER_WAYS}"
        return ToolFailed(message, code="no_ocr", place=name)

    async def _recognise(
        self,
        ocr: ImageTextReader,
        name: str,
        data: bytes,
        details: dict[str, Any],
        context: ResolveContext,
    ) -> ResolvedReference:
        started_at = self._clock()
        try:
            details |= await asyncio.to_thread(describe_image, data)
            details["used"] = "ocr"
            context.report_progress(f"recognising the text in {name}")
            recognised = await ocr.read(await asyncio.to_thread(prepare_for_ocr, data))
        except (BadImage, ImportError) as exc:
            raise _unprepared_error(exc, name) from exc
        except Unrecognised as exc:
            details["duration_s"] = round(self._clock() - started_at, 3)
            if isinstance(exc, OcrEngineFailed):
                details["engine"] = exc.engine
            raise ToolFailed(
                f"the text in the image could not be recognised: {exc}; try again, or use mode"
                " vision with a model that accepts images",
                code="text_not_recognised",
                place=name,
            ) from exc
        details |= {
            "engine": recognised.engine,
            "confidence": recognised.confidence,
            "language": recognised.language,
            "duration_s": round(recognised.duration_s, 3),
        }
        return ResolvedReference(
            content=(Text(_format_ocr_text(name, recognised)),),
            details=details,
            notice=_build_ocr_notice(name, recognised, details.get("fallback")),
        )

    # -- loading -----------------------------------------------------------------------------

    async def _load_bytes(
        self, image: Image, context: ResolveContext
    ) -> tuple[bytes, dict[str, str]]:
        """Return the bytes of an image, and details for the log.

        The details are the permission rule of a file or URL, and the path of a file.
        """
        source = image.source
        match source:
            case ImageData(data):
                return data, {}
            case ImageFile(path):
                return await self._load_file(path, context)
            case ImageUrl(url):
                return await self._fetch(url, context)
            case ImageBlob():
                advice = "load it first with Journal.restore_blobs"
                message = f"the image data is stored as a blob; {advice}"
                raise _image_error(message, code="image_not_loaded")
            case _:
                assert_never(source)

    async def _load_file(self, path: str, context: ResolveContext) -> tuple[bytes, dict[str, str]]:
        workspace = self._workspace
        if workspace is None:
            message = "files cannot be opened without a workspace; pass a Workspace"
            raise _image_error(message, code="no_workspace")
        name = await asyncio.to_thread(workspace_name, workspace, path)
        shown_name = printable_name(name)
        allowed_by = await context.require_permission(
            "read", Capability.READ, name, name=shown_name
        )
        data = await asyncio.to_thread(
            workspace.strict.read_file, name, max_bytes=MAX_IMAGE_FILE_BYTES
        )
        return data, {"allowed_by": allowed_by, "path": name}

    async def _fetch(self, url: str, context: ResolveContext) -> tuple[bytes, dict[str, str]]:
        if self._transport is None:
            message = "fetching images is disabled; download the image and refer to the file"
            raise _image_error(message, code="fetch_disabled")
        try:
            transport = self._transport()
            try:
                found = await fetch_image(url, context, transport, host_lookup=self._host_lookup)
            finally:
                await transport.close()
        except ImportError as exc:
            raise ToolFailed(str(exc), code=MissingExtra.code) from exc
        return found.data, {"allowed_by": found.allowed_by}

    # -- earlier results ---------------------------------------------------------------------

    def is_current(self, image: Image, resolution: Resolution, context: ResolveContext) -> bool:
        """Return whether an earlier result can be used for the current model."""
        details = resolution.details or {}
        _, no_vision = self._no_vision_reason(context)
        sees_no_images = bool(no_vision)
        if details.get("used") == "vision":
            if sees_no_images and image.mode is not RecognitionMode.VISION:
                return False
            sent = details.get("sent")
            return sees_no_images or (isinstance(sent, Mapping) and self._accepts(sent))
        # An image that was refused or could not be prepared would fail again.
        if details.get("fallback_kind") == _NO_VISION and image.mode is RecognitionMode.AUTO:
            return sees_no_images or context.vision is not True
        return True

    def _accepts(self, sent: Mapping[str, Any]) -> bool:
        """Return whether an image that was prepared for another API fits the limits of this one."""
        sizes = [sent.get(name, 0) for name in ("bytes", "width", "height")]
        if not all(isinstance(size, int) for size in sizes):
            return False
        size, *edges = sizes
        return (
            sent.get("mime_type") in self._limits.types
            and size <= self._limits.max_bytes
            and max(edges) <= self._limits.max_edge
        )

    async def changes(
        self, image: Image, resolution: Resolution, *, known: frozenset[str] = frozenset()
    ) -> tuple[str, ...]:
        """Return a line if the file of an image has changed since it was read.

        Images that are not files, and files in `known`, are skipped.
        """
        file = read_recorded_image(resolution.details)
        if self._workspace is None or file is None:
            return ()
        return await asyncio.to_thread(find_changes, self._workspace, (file,), known)


def _unprepared_error(exc: BadImage | ImportError, name: str) -> ToolFailed:
    code = exc.code if isinstance(exc, BadImage) else MissingExtra.code
    return ToolFailed(f"{exc}; try again, or remove the image", code=code, place=name)


# -- text -----------------------------------------------------------------------------------------

# Recorded codes of the reasons why text replaces an image.
_NO_VISION: Final = "blind"
_IMAGE_REFUSED: Final = "refused"
_NOT_PREPARABLE: Final = "unfit"
_MAX_NAME_CHARACTERS: Final = 80
_OTHER_WAYS: Final = (
    "use mode vision (--image-mode vision) with a model that accepts images, or remove the image"
)


def image_name(image: Image, workspace_path: str | None = None) -> str:
    """Return the display name of an image: its path, or the last segment of its URL, or `image`.

    `workspace_path` is the canonical path of the file in the workspace, once it is known.
    """
    match image.source:
        case ImageFile(path):
            name = workspace_path or path
        case ImageUrl(url):
            parts = urlsplit(strip_url_secrets(url) or "")
            name = unquote(parts.path.rstrip("/").rpartition("/")[2]) or parts.netloc
        case _:
            name = ""
    printable = "".join(c if is_visible(c) and c not in "[]" else "?" for c in name)
    if len(printable) > _MAX_NAME_CHARACTERS:
        printable = f"{printable[:50]}...{printable[-20:]}"
    return printable or "image"


def _image_error(message: str, *, code: str) -> ToolFailed:
    return ToolFailed(message, code=code, place="image")


def image_source(image: Image) -> str:
    """Return the source of an image for the log, without secrets or bytes."""
    match image.source:
        case ImageFile(path):
            return path
        case ImageUrl(url):
            return strip_url_secrets(url) or "url"
        case _:
            return "data"


def _format_ocr_text(name: str, found: OcrResult) -> str:
    """Return the recognised text for the model, in a frame that the text itself cannot close."""
    if not found.text.strip():
        return f"[image {name}: OCR found no text in it]"
    notes = f"text recognised by OCR{_confidence_note(found)}"
    if found.language:
        notes += f", language {found.language}"
    return frame_text(f"image {name}: {notes}", found.text, noun="image")


def _build_ocr_notice(name: str, found: OcrResult, fallback: str | None) -> str:
    """Return a notice if no text was found or if text replaces the image; otherwise empty."""
    if not found.text.strip():
        notice = f"{found.engine} found no text in {name}"
    elif fallback:
        by = f"by {found.engine}{_confidence_note(found)}"
        notice = f"the text in {name} was recognised instead, {by}"
    else:
        return ""
    return f"{fallback}: {notice}" if fallback else notice


def _confidence_note(found: OcrResult) -> str:
    return "" if found.confidence is None else f", confidence {format_confidence(found.confidence)}"
