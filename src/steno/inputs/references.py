"""Parse the references in a prompt, and resolve each with the resolver for its type."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from functools import cache
from os import PathLike
from pathlib import Path
from threading import Lock
from typing import Final, NamedTuple, assert_never, final

from msgspec.structs import replace

from steno.errors import InvalidValue
from steno.inputs import ocr as ocr_engines
from steno.inputs.file_references import DEFAULT_FILE_LIMITS, FileLimits, FileReferenceResolver
from steno.inputs.images.prepare import ImageLimits, image_limits_for, prepare_for_model
from steno.inputs.images.resolver import ImageResolver, ImageTextReader
from steno.inputs.mcp.connection import McpServers
from steno.inputs.mcp.resources import ResourceResolver
from steno.inputs.mentions import build_image_url, is_url, parse_mentions
from steno.inputs.ocr.engine import OCR_ENGINES
from steno.messages.content import (
    FileReference,
    Image,
    ImageBlob,
    ImageData,
    ImageFile,
    ImageSource,
    ImageUrl,
    RecognitionMode,
    Resource,
    Text,
)
from steno.messages.message import UserMessage
from steno.ports import ReferenceBlock, ResolveContext, ResolvedReference, SetupNotice, Transport
from steno.records.entry import Resolution
from steno.tools.text_file import detect_image_type
from steno.tools.workspace import Workspace

_DEFAULT_IMAGE_LIMITS: Final = image_limits_for("")
_UNKNOWN_IMAGE_TYPE: Final = "image/unknown"
"""The MIME type of image data whose format is not recognised."""
_OCR_RULE: Final = f"ocr must be one of {', '.join(OCR_ENGINES)}, a reader or None"


class ParsedPrompt(NamedTuple):
    """A prompt as a user message, with a block for each reference in the prompt."""

    message: UserMessage
    notices: tuple[SetupNotice, ...] = ()
    """Notices for the user, such as that a word with an @ was left as text."""


@final
class InputResolver:
    """Parses and resolves the references in user messages (`steno.ports.Resolver`).

        inputs = InputResolver(folder)
        agent = Agent(provider, conversation, tools=tools, resolver=inputs)
        await agent.run(inputs.prompt("What does @src/main.py:10-40 do?").message)

    Pass the same `Workspace` to the tools, because a file that a message refers to counts as read.
    `image_limits` are the limits of the model's API. `ocr` recognises the text in images for models
    that do not accept images: a reader, the name of an engine, `auto` for an engine that is
    installed, or None for no OCR. The engine is loaded with the first image that needs it;
    `ocr_languages` are the languages for `choose_ocr_engine`. `transport` creates the transport
    that fetches images from URLs, and `servers` provide MCP resources. A reference that needs an
    argument that is not set fails with an error.
    """

    def __init__(
        self,
        workspace: Workspace | str | PathLike[str] | None = None,
        *,
        file_limits: FileLimits = DEFAULT_FILE_LIMITS,
        image_limits: ImageLimits = _DEFAULT_IMAGE_LIMITS,
        ocr: ImageTextReader | str | None = "auto",
        ocr_languages: tuple[str, ...] = (),
        transport: Callable[[], Transport] | None = None,
        servers: McpServers | None = None,
        resource_ttl_s: float = 3600,
    ) -> None:
        """Store the settings without opening files. Raises InvalidValue if a setting is invalid."""
        servers = servers or McpServers((), folder=Path())
        self._workspace = workspace = _open_workspace(workspace)
        self._limits = image_limits
        self._uncertain: set[ReferenceBlock] = set()
        self._servers = servers
        self._files = FileReferenceResolver(workspace, limits=file_limits)
        self._images = ImageResolver(
            workspace,
            limits=image_limits,
            find_ocr=_ocr_finder(ocr, ocr_languages),
            transport=transport,
        )
        self._resources = ResourceResolver(
            servers.get,
            ttl_s={spec.name: spec.ttl_s for spec in servers.specs.values()},
            default_ttl_s=resource_ttl_s,
            prepare_image=self.prepare_image,
        )

    # -- prompts -----------------------------------------------------------------------------

    def prompt(
        self,
        text: str,
        *,
        appended: str = "",
        images: Iterable[str | PathLike[str] | ImageSource | Image] = (),
        mode: RecognitionMode | str = RecognitionMode.AUTO,
    ) -> ParsedPrompt:
        """Return a prompt as a message, with blocks for `@path`, `@path:10-20` and `@server:uri`.

        `appended` is text that may be untrusted, so references in it are ignored. `images` are
        paths, URLs, image sources or images. `mode` applies to every image except an `Image`, which
        has its own mode. This may block, because it checks whether files exist. Raises InvalidValue
        if a reference, an image or the mode is invalid.
        """
        mode = _parse_mode(mode)
        mentions = parse_mentions(text, workspace=self._workspace, servers=self._servers.specs)
        self._uncertain |= mentions.uncertain
        references = [replace(b, mode=mode) if isinstance(b, Image) else b for b in mentions.blocks]
        image_blocks = [_build_image(image, mode) for image in images]
        text = "\n\n".join([part for part in (mentions.text, appended) if part.strip()])
        texts = [Text(text)] if text else []
        return ParsedPrompt(UserMessage((*texts, *references, *image_blocks)), mentions.notices)

    def prepare_image(self, data: bytes) -> Image:
        """Convert an image for the model's API.

        Raises BadImage if the image cannot be used, and ImportError if Pillow is not installed.
        """
        return prepare_for_model(data, self._limits).image

    # -- references --------------------------------------------------------------------------

    async def resolve(
        self, reference: ReferenceBlock, context: ResolveContext
    ) -> ResolvedReference:
        """Return the content of a reference; a failure is returned as a result with an error."""
        match reference:
            case FileReference():
                resolved = await self._files.resolve(reference, context)
            case Image():
                resolved = await self._images.resolve(reference, context)
            case Resource():
                resolved = await self._resources.resolve(reference, context)
            case _:
                assert_never(reference)
        if resolved.error is not None and reference in self._uncertain:
            return replace(resolved, error=f"{resolved.error} (write \\@ for a literal @)")
        return resolved

    def is_current(
        self, reference: ReferenceBlock, resolution: Resolution, context: ResolveContext
    ) -> bool:
        """Return whether an earlier resolution of a reference can be reused.

        The content of an MCP resource that is still fresh is also added to the cache.
        """
        match reference:
            case FileReference():
                return self._files.is_current(reference, resolution, context)
            case Image():
                return self._images.is_current(reference, resolution, context)
            case Resource():
                self._resources.add_to_cache(reference, resolution)
                return self._resources.is_current(reference, resolution, context)

    def is_fresh(self, resolution: Resolution) -> bool:
        """Return whether the recorded content of an MCP resource is used for new references."""
        return self._resources.is_fresh(resolution)

    async def changes(
        self,
        reference: ReferenceBlock,
        resolution: Resolution,
        *,
        known: frozenset[str] = frozenset(),
    ) -> tuple[str, ...]:
        """Return a line for each change since a reference was resolved.

        Files in `known`, whose changes the model already knows, are skipped.
        """
        match reference:
            case FileReference():
                return await self._files.changes(reference, resolution, known=known)
            case Image():
                return await self._images.changes(reference, resolution, known=known)
            case Resource():
                return await self._resources.changes(reference, resolution)


def _open_workspace(value: object) -> Workspace | None:
    if value is None or isinstance(value, Workspace):
        return value
    if isinstance(value, (str, PathLike)):
        return Workspace(value)
    rule = "the workspace must be a Workspace or the path of a folder"
    message = f"{rule}, not {type(value).__name__}"
    raise InvalidValue(message, code="invalid_workspace", place="inputs")


def _ocr_finder(
    ocr: ImageTextReader | str | None, languages: tuple[str, ...]
) -> Callable[[], ImageTextReader | None] | None:
    """Return a function that returns the reader, or None if OCR is turned off.

    The function searches for an engine when it is first called.
    """
    if ocr is None:
        return None
    if not isinstance(ocr, str):
        _check_reader(ocr)
        return lambda: ocr
    if ocr not in OCR_ENGINES:
        raise InvalidValue(_OCR_RULE, code="unknown_engine", place="inputs")
    lock, find_once = Lock(), cache(lambda: ocr_engines.find_ocr_reader(ocr, languages=languages))

    def find_ocr() -> ImageTextReader | None:
        with lock:  # it is called in threads, and `cache` alone may call a function twice
            return find_once()

    return find_ocr


def _check_reader(ocr: object) -> None:
    is_reader = not isinstance(ocr, type) and callable(getattr(ocr, "read", None))
    if not is_reader:
        message = f"{_OCR_RULE}, not {type(ocr).__name__}"
        raise InvalidValue(message, code="wrong_type", place="inputs")


def _parse_mode(value: str) -> RecognitionMode:
    try:
        return RecognitionMode(value)
    except ValueError:
        message = f"the image mode must be one of {', '.join(RecognitionMode)}"
        raise InvalidValue(message, code="unknown_image_mode", place="inputs") from None


def _build_image(image: object, mode: RecognitionMode) -> Image:
    match image:
        case Image():
            return image
        case str() if is_url(image):
            return Image(source=build_image_url(image), mode=mode)
        case str() | PathLike():
            return Image(source=ImageFile(os.fspath(image)), mode=mode)
        case ImageData(data):
            mime_type = detect_image_type(data) or _UNKNOWN_IMAGE_TYPE
            return Image(source=image, mime_type=mime_type, mode=mode)
        case ImageFile() | ImageUrl() | ImageBlob():
            return Image(source=image, mode=mode)
        case _:
            raise InvalidValue(
                "an image must be a path, a URL, an image source"
                f" (ImageFile, ImageData, ...) or an Image, not {type(image).__name__}",
                code="invalid_image_source",
                place="inputs",
            )
